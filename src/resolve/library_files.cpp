// SPDX-License-Identifier: Apache-2.0
#include "resolve/library_files.hpp"

#include "elf/layout.hpp"
#include "uprobectl/archive.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl {

bool is_elf_file(const std::string& path) {
  const auto file = open_regular_file(path);
  char magic[4] = {};
  return file && ::read(file->fd.get(), magic, sizeof(magic)) == sizeof(magic) &&
         elf::looks_like_elf(as_bytes(std::string_view(magic, sizeof(magic))));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(folder.c_str()), closedir);
  if (!stream) return names;
  while (const dirent* found = readdir(stream.get())) names.emplace_back(found->d_name);
  std::ranges::sort(names);
  return names;
}

bool is_library_name(std::string_view name) {
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

bool is_version_of(std::string_view file, std::string_view stem) {
  return file.starts_with(stem) && (file.size() == stem.size() || file[stem.size()] == '.');
}

bool is_called(std::string_view file, std::string_view name) {
  return file == name || is_version_of(file, "lib" + std::string(name) + ".so");
}

std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject) {
  if (!Archive::looks_like_archive(file.bytes())) return std::nullopt;
  const auto archive = Archive::parse(file.bytes());
  if (!archive) return std::nullopt; // reported when an entry is opened
  const auto twice = archive->duplicate();
  if (!twice) return subject + ": " + twice.error().message;
  if (!*twice) return std::nullopt;
  return fmt::format("{}: the entry '{}' occurs more than once, with local headers at {:#x} and "
                     "{:#x}: Android refuses the whole archive",
                     subject, (*twice)->name, (*twice)->first, (*twice)->second);
}

} // namespace uprobectl
