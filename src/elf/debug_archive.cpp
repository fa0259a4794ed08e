// A ZIP archive of symbol files: native-debug-symbols.zip as the Android Gradle plugin makes it has
// ABI/libNAME.so, ABI/libNAME.so.dbg or ABI/libNAME.so.sym.
#include "elf/debug_search.hpp"
#include "uprobectl/archive.hpp"

#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

constexpr std::uint64_t head_size = 64
                                    << 10;   // bytes: the build id of an unstripped library is here
constexpr std::uint64_t largest = 512 << 20; // bytes, inflated
constexpr std::size_t most_others = 1000;    // entries of other names that are looked into

bool is_elf(const std::vector<std::byte>& head) {
  return as_text(head).starts_with("\x7f"
                                   "ELF");
}

} // namespace

void DebugFileSearch::look_in_archive(const std::shared_ptr<const MappedFile>& file,
                                      const std::string& path) {
  const auto archive = Archive::parse(file->bytes());
  if (!archive) return warn_unused(path, archive.error().message);

  std::vector<ArchiveEntry> same_name;
  std::vector<ArchiveEntry> others;
  const auto whole = archive->for_each([&](const ArchiveEntry& entry) {
    if (wanted_.is_name(file_name_of(entry.name)))
      same_name.push_back(entry);
    else if (others.size() < most_others)
      others.push_back(entry);
    return true;
  });
  if (!whole) return warn_unused(path, whole.error().message);

  const auto try_entry = [&](const ArchiveEntry& entry, Expected expected) {
    const std::string source = fmt::format("{}!/{}", path, entry.name);
    const auto complain = [&](const std::string& reason) {
      if (expected != Expected::maybe) warn_unused(source, reason);
    };
    // Most entries are of another build or machine, which their first bytes tell.
    const auto head = archive->extract(entry, head_size);
    if (!head) return complain(head.error().message);
    if (!is_elf(*head)) return;
    if (const auto start = SymbolFile::read(*head); start && start->machine() != wanted_.machine)
      return; // the same library for another ABI
    else if (start && start->build_id() && wanted_.build_id &&
             *start->build_id() != *wanted_.build_id)
      return complain(compare(wanted_.machine, wanted_.build_id, *start).reason);
    if (entry.size > largest)
      return warn_unused(source, fmt::format("it has {} bytes, more than the {} that are inflated: "
                                             "extract it and name it",
                                             entry.size, largest));
    auto content = archive->extract(entry, largest);
    if (!content) return complain(content.error().message);
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
    try_bytes(*owner, owner, source, expected);
  };
  for (const ArchiveEntry& entry : same_name) {
    try_entry(entry, Expected::by_name);
    if (done()) return;
  }
  for (const ArchiveEntry& entry : others) {
    try_entry(entry, Expected::maybe);
    if (done()) return;
  }
}

} // namespace uprobectl::elf
