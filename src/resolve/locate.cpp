#include "resolve/locate.hpp"

#include "resolve/elf_file.hpp"
#include "resolve/loader_cache.hpp"
#include "uprobectl/arch.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// Adds the path if it is a regular ELF file that is not there yet under another name.
void add(std::vector<Candidate>& candidates, const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  const auto same = [&](const Candidate& known) { return known.identity == identity; };
  // Linker scripts share the folders and the names of libraries (libc.so is text).
  if (std::ranges::any_of(candidates, same) || !is_elf_file(path)) return;
  candidates.push_back({path, identity});
}

// "libc.so.6" is libc.so followed by nothing or a version.
bool is_version_of(std::string_view file, std::string_view stem) {
  return file.starts_with(stem) && (file.size() == stem.size() || file[stem.size()] == '.');
}

struct LibraryName {
  std::string_view text;
  bool any_version = false; // text is "libNAME.so", versions may follow
  bool matches(std::string_view file) const {
    return any_version ? is_version_of(file, text) : file == text;
  }
};

std::vector<Candidate> from_cache(const LibraryName& wanted, const std::string& cache_path) {
  std::vector<Candidate> own;
  std::vector<Candidate> foreign;
  const auto cache = MappedFile::open(cache_path);
  if (!cache) return own;
  const std::uint32_t host = host_loader_flags();
  const auto read = for_each_cached_library(cache->bytes(), [&](const LoaderCacheEntry& entry) {
    if (wanted.matches(entry.name))
      add(entry.flags == host ? own : foreign, std::string(entry.path));
  });
  if (!read) return {}; // a damaged cache is the loader's problem; the folders still answer
  return own.empty() ? foreign : own;
}

std::vector<Candidate> find_library(const LibraryName& wanted, const SearchPlaces& places) {
  auto candidates = from_cache(wanted, places.loader_cache);
  for (const std::string& folder : places.library_dirs) {
    if (!candidates.empty()) break; // the loader stops at the first folder, too
    if (!wanted.any_version) {
      add(candidates, folder + "/" + std::string(wanted.text));
      continue;
    }
    for (const std::string& name : names_in(folder))
      if (wanted.matches(name)) add(candidates, folder + "/" + name);
  }
  return candidates;
}

bool is_program(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::vector<Candidate> find_program(std::string_view name, const SearchPlaces& places) {
  std::vector<Candidate> candidates;
  for (const std::string& folder : places.program_dirs) {
    const std::string path = folder + "/" + std::string(name);
    if (::access(path.c_str(), X_OK) == 0) add(candidates, path);
  }
  return candidates;
}

std::vector<std::string> split_path_variable(std::string_view text) {
  std::vector<std::string> folders;
  while (!text.empty()) {
    const auto end = std::min(text.find(':'), text.size());
    // An empty element means the current folder, which is looked at before all others anyway.
    if (end != 0) folders.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folders;
}

} // namespace

SearchPlaces search_places_of_this_machine() {
  SearchPlaces places;
  places.loader_cache = "/etc/ld.so.cache";
  const std::string triplet(host_arch_info().multiarch);
  places.library_dirs = {"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib",
                         "/usr/lib"};
  // Android: bionic's default namespace, the modules, the vendor's libraries.
  constexpr std::string_view bits = sizeof(void*) == 8 ? "lib64" : "lib";
  places.library_dirs.push_back("/system/" + std::string(bits));
  for (const std::string& module : names_in("/apex"))
    if (!module.starts_with('.'))
      places.library_dirs.push_back("/apex/" + module + "/" + std::string(bits));
  places.library_dirs.push_back("/vendor/" + std::string(bits));
  const char* const path = std::getenv("PATH");
  places.program_dirs = split_path_variable(path != nullptr ? path : "/usr/bin:/bin");
  return places;
}

std::vector<Candidate> locate(std::string_view name, const SearchPlaces& places) {
  if (name.empty() || name.find('/') != std::string_view::npos) return {};
  if (name.find(".so") != std::string_view::npos) return find_library({.text = name}, places);
  auto candidates = find_program(name, places);
  if (!candidates.empty()) return candidates;
  const std::string stem = "lib" + std::string(name) + ".so";
  return find_library({.text = stem, .any_version = true}, places);
}

std::optional<std::string> script_before(const Candidate& program, std::string_view name,
                                         const SearchPlaces& places) {
  std::optional<std::string> script;
  for (const std::string& folder : places.program_dirs) {
    std::string path = folder + "/" + std::string(name);
    if (path == program.path) return script;
    if (!script && is_program(path) && !is_elf_file(path)) script = std::move(path);
  }
  return std::nullopt;
}

std::vector<std::string> nearest_installed(std::string_view name, const SearchPlaces& places) {
  std::vector<std::string> names;
  if (name.find(".so") == std::string_view::npos) {
    for (const std::string& folder : places.program_dirs)
      for (std::string& program : names_in(folder)) names.push_back(std::move(program));
    return nearest(name, names);
  }
  const auto cache = MappedFile::open(places.loader_cache);
  const auto keep = [&](const LoaderCacheEntry& entry) { names.emplace_back(entry.name); };
  // What was read before any damage will do for suggestions.
  if (cache) static_cast<void>(for_each_cached_library(cache->bytes(), keep));
  return nearest(name, names);
}

std::vector<std::string> nearest_files(const std::string& missing_path) {
  const auto slash = missing_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : missing_path.substr(0, slash + 1);
  const std::string wanted = missing_path.substr(folder.size());
  std::vector<std::string> result;
  for (const std::string& name : nearest(wanted, names_in(folder.empty() ? "." : folder)))
    result.push_back(folder + name);
  return result;
}

} // namespace uprobectl
