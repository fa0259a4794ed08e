#include "resolve/elf_file.hpp"

#include "util/rooted_path.hpp"

#include <algorithm>
#include <dirent.h>
#include <unistd.h>

namespace uprobectl {

bool is_elf_file(const std::string& path) {
  const auto file = open_regular_file(path);
  char magic[4] = {};
  return file && ::read(file->fd.get(), magic, 4) == 4 &&
         std::string_view(magic, 4) == "\x7f"
                                       "ELF";
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(folder.c_str()), closedir);
  if (!stream) return names;
  while (const dirent* found = readdir(stream.get())) names.emplace_back(found->d_name);
  std::ranges::sort(names);
  return names;
}

} // namespace uprobectl
