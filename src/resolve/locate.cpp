// SPDX-License-Identifier: Apache-2.0
#include "resolve/locate.hpp"

#include "elf/layout.hpp"
#include "uprobectl/arch.hpp"
#include "uprobectl/archive.hpp"
#include "util/rooted_path.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::resolve {

bool is_elf_file(const std::string& path) {
  const auto file = open_regular_file(path);
  char magic[4] = {};
  return file && ::read(file->fd.get(), magic, sizeof(magic)) == sizeof(magic) &&
         elf::looks_like_elf(as_bytes(std::string_view(magic, sizeof(magic))));
}

bool is_library_name(std::string_view name) {
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

bool is_version_of(std::string_view file, std::string_view stem) {
  return file.starts_with(stem) && (file.size() == stem.size() || file[stem.size()] == '.');
}

bool can_mean_library(std::string_view file, std::string_view name) {
  return file == name || is_version_of(file, "lib" + std::string(name) + ".so");
}

bool can_be_copy(std::string_view file, std::string_view name) {
  return can_mean_library(file, name) || (name.ends_with(".so") && is_version_of(file, name));
}

std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject) {
  if (!archive::Archive::looks_like_archive(file.bytes())) return std::nullopt;
  const auto archive = archive::Archive::parse(file.bytes());
  if (!archive) return std::nullopt; // reported when an entry is opened
  const auto twice = archive->duplicate();
  if (!twice) return subject + ": " + twice.error().message;
  if (!*twice) return std::nullopt;
  return fmt::format("{}: the entry '{}' occurs more than once, with local headers at {:#x} and "
                     "{:#x}: Android refuses the whole archive",
                     subject, (*twice)->name, (*twice)->first, (*twice)->second);
}

namespace {

constexpr std::string_view new_magic = "glibc-ld.so.cache1.1";
constexpr std::string_view old_magic = "ld.so-1.7.0";
constexpr std::uint64_t old_header_size = 16; // magic, padding, nlibs
constexpr std::uint64_t old_entry_size = 12;
constexpr std::uint64_t new_header_size = 48; // up to and without libs[]
constexpr std::uint64_t new_entry_size = 24;  // flags, key, value, osversion, hwcap

// PATH_MAX. The limit prevents quadratic time for malicious caches.
constexpr std::uint64_t longest_text = 4096;

std::optional<std::string_view> text_at(Bytes table, std::uint64_t offset) {
  if (offset >= table.size()) return std::nullopt;
  const std::uint64_t size = std::min<std::uint64_t>(longest_text, table.size() - offset);
  return c_string_at(table.subspan(offset, size), 0);
}

bool begins_with(Bytes bytes, std::string_view magic) {
  const auto start = slice(bytes, 0, magic.size());
  return start && as_text(*start) == magic;
}

// Returns the new table. Its string offsets are relative to its start.
std::optional<Bytes> find_new_table(Bytes cache) {
  if (begins_with(cache, new_magic)) return cache;
  if (!begins_with(cache, old_magic)) return std::nullopt;
  const auto count = read_at<std::uint32_t>(cache, 12);
  if (!count) return std::nullopt;
  const std::uint64_t end = old_header_size + *count * old_entry_size;
  const std::uint64_t aligned = (end + 7) & ~std::uint64_t{7};
  if (aligned > cache.size()) return std::nullopt;
  const Bytes rest = cache.subspan(aligned);
  return begins_with(rest, new_magic) ? std::optional(rest) : std::nullopt;
}

// Adds the path if it is a regular ELF file that was not added under another name.
void add(std::vector<Candidate>& candidates, const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  const auto same = [&](const Candidate& known) { return known.identity == identity; };
  // A linker script can have the name of a library (libc.so is text).
  if (std::ranges::any_of(candidates, same) || !is_elf_file(path)) return;
  candidates.push_back({path, identity});
}

struct LibraryName {
  std::string_view text;
  bool any_version = false; // text is "libNAME.so", a version may follow
  bool matches(std::string_view file) const {
    return any_version ? is_version_of(file, text) : file == text;
  }
};

std::vector<Candidate> from_cache(const LibraryName& library, const std::string& cache_path) {
  std::vector<Candidate> host_files;
  std::vector<Candidate> other_arch;
  const auto cache = MappedFile::open(cache_path);
  if (!cache) return host_files;
  const std::uint32_t host = host_arch_info().loader_flags;
  const auto read = for_each_cached_library(cache->bytes(), [&](const LoaderCacheEntry& entry) {
    if (library.matches(entry.name))
      add(entry.flags == host ? host_files : other_arch, std::string(entry.path));
  });
  if (!read) return {}; // the library may still be found in a folder
  return host_files.empty() ? other_arch : host_files;
}

std::vector<Candidate> find_library(const LibraryName& library, const SearchPaths& paths) {
  auto candidates = from_cache(library, paths.loader_cache);
  for (const std::string& folder : paths.library_dirs) {
    if (!candidates.empty()) break; // the loader uses the first folder that has it
    if (!library.any_version) {
      add(candidates, folder + "/" + std::string(library.text));
      continue;
    }
    for (const std::string& name : list_folder(folder))
      if (library.matches(name)) add(candidates, folder + "/" + name);
  }
  return candidates;
}

bool is_program(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::vector<Candidate> find_program(std::string_view name, const SearchPaths& paths) {
  std::vector<Candidate> candidates;
  for (const std::string& folder : paths.program_dirs) {
    const std::string path = folder + "/" + std::string(name);
    if (::access(path.c_str(), X_OK) == 0) add(candidates, path);
  }
  return candidates;
}

std::vector<std::string> split_path_variable(std::string_view text) {
  std::vector<std::string> folders;
  while (!text.empty()) {
    const auto end = std::min(text.find(':'), text.size());
    // An empty element is the current folder, which the caller has searched already.
    if (end != 0) folders.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folders;
}

} // namespace

SearchPaths host_search_paths() {
  SearchPaths paths;
  paths.loader_cache = "/etc/ld.so.cache";
  const std::string triplet(host_arch_info().multiarch);
  paths.library_dirs = {"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib",
                        "/usr/lib"};
  // Android: bionic's default namespace, the modules, the vendor's libraries.
  constexpr std::string_view bits = sizeof(void*) == 8 ? "lib64" : "lib";
  paths.library_dirs.push_back("/system/" + std::string(bits));
  for (const std::string& module : list_folder("/apex"))
    if (!module.starts_with('.'))
      paths.library_dirs.push_back("/apex/" + module + "/" + std::string(bits));
  paths.library_dirs.push_back("/vendor/" + std::string(bits));
  const char* const path = std::getenv("PATH");
  paths.program_dirs = split_path_variable(path != nullptr ? path : "/usr/bin:/bin");
  return paths;
}

std::vector<Candidate> locate(std::string_view name, const SearchPaths& paths) {
  if (name.empty() || name.find('/') != std::string_view::npos) return {};
  if (name.find(".so") != std::string_view::npos) return find_library({.text = name}, paths);
  auto candidates = find_program(name, paths);
  if (!candidates.empty()) return candidates;
  const std::string stem = "lib" + std::string(name) + ".so";
  return find_library({.text = stem, .any_version = true}, paths);
}

std::optional<std::string> find_shadowing_script(const Candidate& program, std::string_view name,
                                                 const SearchPaths& paths) {
  std::optional<std::string> script;
  for (const std::string& folder : paths.program_dirs) {
    std::string path = folder + "/" + std::string(name);
    if (path == program.path) return script;
    if (!script && is_program(path) && !is_elf_file(path)) script = std::move(path);
  }
  return std::nullopt;
}

std::vector<std::string> nearest_installed(std::string_view name, const SearchPaths& paths) {
  const bool is_library = name.find(".so") != std::string_view::npos;
  // "libc" and "libc.so" are libc.so.6.
  const std::string unversioned = std::string(name) + (is_library ? "." : ".so");
  std::vector<std::string> names;
  std::set<std::string> versions;
  const auto cache = MappedFile::open(paths.loader_cache);
  const auto keep = [&](const LoaderCacheEntry& entry) {
    if (std::string_view(entry.name).starts_with(unversioned)) versions.emplace(entry.name);
    if (is_library) names.emplace_back(entry.name);
  };
  // An unreadable cache only means fewer suggestions.
  if (cache) static_cast<void>(for_each_cached_library(cache->bytes(), keep));
  constexpr std::size_t max_versions = 3;
  if (!versions.empty() && versions.size() <= max_versions)
    return {versions.begin(), versions.end()};
  if (!is_library)
    for (const std::string& folder : paths.program_dirs)
      for (std::string& program : list_folder(folder)) names.push_back(std::move(program));
  return nearest(name, names);
}

std::vector<std::string> nearest_files(const std::string& missing_path) {
  const auto slash = missing_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : missing_path.substr(0, slash + 1);
  const std::string name_part = missing_path.substr(folder.size());
  std::vector<std::string> result;
  for (const std::string& name : nearest(name_part, list_folder(folder.empty() ? "." : folder)))
    result.push_back(folder + name);
  return result;
}

Result<void> for_each_cached_library(Bytes cache,
                                     const std::function<void(const LoaderCacheEntry&)>& visit) {
  const auto table = find_new_table(cache);
  if (!table) return fail(ErrorKind::not_found, "no loader cache of a known format");
  const auto count = read_at<std::uint32_t>(*table, new_magic.size());
  if (!count) return fail(ErrorKind::corrupt, "the loader cache is truncated in its header");
  const auto entries = slice(*table, new_header_size, *count * new_entry_size);
  if (!entries)
    return fail(ErrorKind::corrupt, "the loader cache has " + std::to_string(*count) +
                                        " entries but is too small for them");
  for (std::uint64_t at = 0; at < entries->size(); at += new_entry_size) {
    const auto flags = read_at<std::uint32_t>(*entries, at);
    const auto key = read_at<std::uint32_t>(*entries, at + 4);
    const auto value = read_at<std::uint32_t>(*entries, at + 8);
    if (!flags || !key || !value) break;
    const auto name = text_at(*table, *key);
    const auto path = text_at(*table, *value);
    if (name && path) visit({*name, *path, *flags});
  }
  return {};
}

} // namespace uprobectl::resolve
