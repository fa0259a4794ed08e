#include "resolve/duplicates.hpp"

#include "uprobectl/archive.hpp"

#include <fmt/format.h>

namespace uprobectl {

std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject) {
  if (!Archive::looks_like_archive(file.bytes())) return std::nullopt;
  const auto archive = Archive::parse(file.bytes());
  if (!archive) return std::nullopt; // told where an entry of it is asked for
  const auto twice = archive->duplicate();
  if (!twice) return subject + ": " + twice.error().message;
  if (!*twice) return std::nullopt;
  return fmt::format("{}: the entry '{}' occurs more than once, with local headers at {:#x} and "
                     "{:#x}: Android refuses the whole archive",
                     subject, (*twice)->name, (*twice)->first, (*twice)->second);
}

} // namespace uprobectl
