// SPDX-License-Identifier: Apache-2.0
#include "resolve/find_file.hpp"

#include "process/proc.hpp"
#include "resolve/app.hpp"
#include "resolve/archive_listing.hpp"
#include "resolve/everywhere.hpp"
#include "resolve/in_process.hpp"
#include "resolve/locate.hpp"
#include "resolve/needed_files.hpp"
#include "uprobectl/archive.hpp"
#include "util/mapped_file.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unordered_set>

namespace uprobectl::resolve {

namespace {

bool is_bare_name(std::string_view text) { return text.find('/') == std::string_view::npos; }

// Returns the file with the path to print: a plain file as typed, an entry as ARCHIVE!/ENTRY.
TargetFile as_typed(BinaryPath path, std::string_view text) {
  BinaryPath shown = path.entry ? path : BinaryPath{std::string(text), std::nullopt};
  return {
      .path = std::move(path), .display_path = std::move(shown), .opened = nullptr, .warnings = {}};
}

// Returns the first candidate whose file exists. Returns a folder only if nothing else exists, for
// the error message, and never for a bare name, which can be a program.
std::optional<BinaryPath> first_existing(std::string_view text) {
  std::optional<BinaryPath> folder;
  for (BinaryPath& candidate : parse_candidates(text)) {
    struct stat status{};
    if (::stat(candidate.file.c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode)) return std::move(candidate);
    if (!is_bare_name(text) && !folder) folder = std::move(candidate);
  }
  return folder;
}

Error missing_target(std::string_view text) {
  if (text.ends_with("!/"))
    return Error{ErrorKind::usage, std::string(text) + ": missing entry name after '!/'"}.hint(
        "list its libraries with: uprobectl list-symbols " +
        shell_word(text.substr(0, text.size() - 2)));
  const auto all = parse_candidates(text);
  const std::string& file = all.back().file;
  struct stat status{};
  if (text == "[vdso]" || text == "[vsyscall]") // Linux kernel/events/uprobes.c, valid_vma()
    return Error{ErrorKind::unsupported,
                 std::string(text) +
                     ": it is the kernel's own code, which no file has and no uprobe "
                     "can be on"}
        .hint("probe the function of libc that calls it, such as clock_gettime of libc.so.6");
  if (is_bare_name(text)) {
    Error error{ErrorKind::not_found,
                std::string(text) + ": no file, program or library of this name"};
    auto near = nearest_files(file);
    if (near.empty()) near = nearest_installed(text, host_search_paths());
    return near.empty() ? error : std::move(error).hint(did_you_mean(near));
  }
  const int errnum = ::stat(file.c_str(), &status) != 0 ? errno : ENOENT;
  Error error = system_error(errnum, file);
  if (errnum != ENOENT) return error;
  const auto near = nearest_files(file);
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

// Adds a hint if TARGET and FUNCTION were written as one word, "libfoo.so:work".
Error hint_at_function(Error error, std::string_view text) {
  const auto split = split_target(text);
  if (error.kind != ErrorKind::not_found || !split || split->target.empty()) return error;
  error.hints.insert(error.hints.begin(),
                     fmt::format("TARGET comes first, then the FUNCTIONs: {} {}",
                                 shell_word(split->target), shell_word(split->function)));
  return error;
}

// Warns that a file in the current folder takes precedence over an installed one of that name.
void warn_if_hiding(std::string_view text, TargetFile& found) {
  struct stat status{};
  if (::stat(found.path.file.c_str(), &status) != 0) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  for (const Candidate& hidden : locate(text, host_search_paths())) {
    if (hidden.identity == identity) continue;
    found.warnings.push_back("the file ./" + found.path.file + " in the current folder hides " +
                             hidden.path);
    return;
  }
}

// Whether the entry is a library for the ABI: "lib/arm64-v8a/libfoo.so", in an AAR "jni/…".
bool is_of_abi(const std::string& entry, const std::optional<std::string>& abi) {
  return !abi || entry.contains("/" + *abi + "/");
}

// Returns the library that the command needs, unless the text is the name of a program. Fails as
// find_needed_library().
Result<std::optional<std::string>> find_for_command(std::string_view text,
                                                    const std::optional<std::string>& command) {
  if (!command || !is_bare_name(text)) return std::nullopt;
  if (!is_library_name(text) && find_program_file(std::string(text))) return std::nullopt;
  return find_needed_library(*command, text);
}

// Finds the text as a path, then as the name of a library of the command, then as the name of an
// installed library or program.
Result<TargetFile> find_on_this_machine(std::string_view text, const TargetOptions& options) {
  if (text.empty()) return fail(ErrorKind::usage, "the TARGET is empty");
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorKind::usage, "the TARGET contains a NUL byte");
  if (text.size() > max_path_length)
    return fail(ErrorKind::usage, "the TARGET has " + std::to_string(text.size()) +
                                      " bytes, expected at most " +
                                      std::to_string(max_path_length));
  if (auto path = first_existing(text)) {
    TargetFile found = as_typed(std::move(*path), text);
    if (is_bare_name(text)) warn_if_hiding(text, found);
    return found;
  }
  if (auto found = find_in_archive(text, options.abi)) return std::move(*found);
  const std::optional<std::string>& command = options.command;
  auto needed = find_for_command(text, command);
  if (needed && *needed) return as_typed({std::move(**needed), std::nullopt}, text);
  const auto candidates = locate(text, host_search_paths());
  if (candidates.empty()) {
    // A command that is not there cannot have the library.
    if (!needed && needed.error().kind == ErrorKind::not_found)
      return fail(std::move(needed).error());
    Error error = hint_at_function(missing_target(text), text);
    if (!needed)
      error = std::move(error).hint(needed.error().message);
    else if (command && is_bare_name(text) && is_library_name(text))
      error = std::move(error).hint(fmt::format(
          "'{}' does not need it to start; if it loads it later, give its path", *command));
    return fail(std::move(error));
  }
  if (candidates.size() > 1) {
    std::vector<std::string> paths;
    paths.reserve(candidates.size());
    for (const Candidate& candidate : candidates) paths.push_back(candidate.path);
    return fail(ambiguous_target(text, paths));
  }
  TargetFile found = as_typed({candidates[0].path, std::nullopt}, text);
  if (const auto script = find_shadowing_script(candidates[0], text, host_search_paths()))
    found.warnings.push_back(std::string(text) + ": " + *script +
                             " comes first in PATH and is not an ELF file, so running '" +
                             std::string(text) + "' may start another program; using " +
                             candidates[0].path);
  return found;
}

Result<std::optional<TargetFile>> find_in_pids(std::string_view text,
                                               const TargetOptions& options) {
  auto files = find_in_processes(text, options.pids);
  const bool is_path = text.starts_with('/') && !text.starts_with("/proc/");
  for (std::size_t i = 0; is_path && files && files->empty() && i < options.pids.size(); ++i) {
    const std::string root = process::live_path(options.pids[i], "root");
    const auto library = find_in_archive(root + std::string(text), options.abi);
    if (!library) continue;
    if (!*library) return fail(library->error());
    BinaryPath path = (*library)->path;
    path.file.erase(0, root.size());
    files = find_in_processes(to_string(path), options.pids);
  }
  if (!files) return fail(std::move(files).error());
  if (files->empty()) return std::nullopt;
  if (files->size() > 1) {
    std::vector<std::string> candidates;
    for (const ProcessFile& file : *files) candidates.push_back(to_string(file.display_path));
    return fail(ambiguous_target(text, candidates));
  }
  ProcessFile& file = files->front();
  TargetFile found =
      as_typed({.file = std::move(file.open_path), .entry = file.display_path.entry}, text);
  if (file.display_path.entry) found.display_path = std::move(file.display_path);
  found.warnings = std::move(file.warnings);
  return found;
}

// Finds the text in the package, else as a library of the system.
Result<TargetFile> find_in_app(std::string_view text, const TargetOptions& options) {
  const std::string& package = *options.app;
  const auto app = AppFiles::read(package);
  if (!app) return fail(app.error());
  auto known = app->find(text);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  auto found = find_on_this_machine(text, options);
  if (!is_bare_name(text)) return found;
  if (!found) return fail(app->no_library(text));
  found->warnings.push_back(std::string(text) + ": not among the files of " + package + "; using " +
                            to_string(found->path));
  return found;
}

// Finds the text in the folder of a package: as a file of the package, else as a path below it.
Result<TargetFile> find_in_app_dir(std::string_view text, const TargetOptions& options) {
  const auto app = AppFiles::read_folder(*options.app_dir, options.abi);
  if (!app) return fail(Error(app.error()).within("--app-dir"));
  auto known = app->find(text);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  if (auto path = text.empty() ? std::nullopt
                               : first_existing(fmt::format("{}/{}", *options.app_dir, text)))
    return as_typed(*path, to_string(*path));
  if (auto path = find_in_archive(fmt::format("{}/{}", *options.app_dir, text), options.abi))
    return std::move(*path);
  return fail(app->no_library(text));
}

// Returns libraries whose file name matches the pattern's, because often only the folder is wrong;
// else similar names.
std::vector<std::string> nearest_entries(const std::string& pattern,
                                         const std::vector<std::string>& libraries) {
  constexpr unsigned limit = 8;
  const std::string base(file_name_of(pattern));
  const auto folder = [](std::string_view name) {
    return name.substr(0, name.size() - file_name_of(name).size());
  };
  NearestNames near;
  for (const std::string& library : libraries)
    if (symbols::matches_pattern(base, file_name_of(library)))
      near.offer(edit_distance(folder(pattern), folder(library), limit).value_or(limit + 1),
                 library);
  auto names = std::move(near).take();
  if (!names.empty()) return names;
  return nearest(symbols::without_wildcards(pattern), libraries);
}

Error no_match_error(const TargetFile& archive, const std::vector<std::string>& libraries,
                     const std::optional<std::string>& abi) {
  const std::string& pattern = *archive.display_path.entry;
  Error error{ErrorKind::not_found,
              fmt::format("{}: no library{} matches '{}'", archive.display_path.file,
                          abi ? " for " + *abi : "", pattern)};
  const auto near = nearest_entries(pattern, libraries);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                               shell_word(archive.display_path.file));
}

// Returns the library entries that match the pattern, each name once, or the entry that has exactly
// this name.
Result<Targets> expand_entries(TargetFile archive_file, std::string_view text,
                               const std::optional<std::string>& abi) {
  Targets targets{.text = std::string(text), .several = true, .files = {}, .warnings = {}};
  std::swap(targets.warnings, archive_file.warnings);
  if (!archive_file.opened) {
    auto mapped = MappedFile::open(archive_file.path.file);
    if (!mapped) return fail(std::move(mapped).error());
    archive_file.opened = std::make_shared<const MappedFile>(std::move(*mapped));
    if (auto warning = duplicate_warning(*archive_file.opened, archive_file.display_path.file))
      targets.warnings.push_back(std::move(*warning));
  }
  const auto archive = archive::Archive::parse(archive_file.opened->bytes());
  if (!archive) return fail(Error(archive.error()).within(archive_file.display_path.file));

  const std::string pattern = *archive_file.path.entry;
  const auto exact = archive->find(pattern);
  if (exact || exact.error().kind == ErrorKind::duplicated) {
    targets.several = false;
    targets.files.push_back(std::move(archive_file));
    return targets;
  }
  const auto listed = library_names(*archive);
  if (!listed) return fail(Error(listed.error()).within(archive_file.display_path.file));
  const std::vector<std::string>& libraries = *listed;
  std::unordered_set<std::string_view> seen;
  for (const std::string& library : libraries) {
    if (!symbols::matches_pattern(pattern, library) || !is_of_abi(library, abi)) continue;
    if (!seen.insert(library).second) continue;
    TargetFile file = archive_file;
    file.path.entry = library;
    file.display_path.entry = library;
    targets.files.push_back(std::move(file));
  }
  if (targets.files.empty()) return fail(no_match_error(archive_file, libraries, abi));
  return targets;
}

TargetFile to_target_file(ProcessFile file) {
  return {.path = {.file = std::move(file.open_path), .entry = file.display_path.entry},
          .display_path = std::move(file.display_path),
          .opened = nullptr,
          .warnings = std::move(file.warnings)};
}

// Expands the TARGET `*` to every file of the processes or of the app.
Result<Targets> all_files(const TargetOptions& options) {
  if (options.app) {
    const auto app = AppFiles::read(*options.app);
    return app ? app->all() : fail(app.error());
  }
  if (options.app_dir) {
    const auto app = AppFiles::read_folder(*options.app_dir, options.abi);
    return app ? app->all() : fail(Error(app.error()).within("--app-dir"));
  }
  if (options.pids.empty())
    return fail(Error{ErrorKind::usage, "the TARGET '*' needs processes or an app"}.hint(
        "use -p PID, --app PACKAGE on Android, or --app-dir DIR"));
  tolerate_all_shrinking(); // a file that shrinks must not end the run
  auto mapped = find_all_in_processes(options.pids);
  if (!mapped) return fail(std::move(mapped).error());
  Targets targets{.text = "*", .several = true, .files = {}, .warnings = {}};
  targets.warnings = std::move(mapped->warnings);
  for (ProcessFile& file : mapped->files) targets.files.push_back(to_target_file(std::move(file)));
  if (targets.files.empty())
    return fail(ErrorKind::not_found, "*: the processes map no readable ELF file executable");
  return targets;
}

} // namespace

Error ambiguous_target(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr std::size_t max_candidates = 10;
  Error error{ErrorKind::ambiguous, std::string(text) + ": " + std::to_string(candidates.size()) +
                                        " different files have this name"};
  for (std::size_t i = 0; i < candidates.size() && i < max_candidates; ++i)
    error = std::move(error).hint("candidate: " + candidates[i]);
  if (candidates.size() > max_candidates)
    error = std::move(error).hint("and " + std::to_string(candidates.size() - max_candidates) +
                                  " more");
  return error;
}

std::optional<Result<TargetFile>> find_in_archive(std::string_view text,
                                                  const std::optional<std::string>& abi) {
  for (const BinaryPath& reading : parse_library_names(text)) {
    const std::string& path = reading.file;
    const std::string& name = *reading.entry;
    auto mapped = MappedFile::open(path);
    if (!mapped) continue;
    const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
    const auto archive = archive::Archive::parse(file->bytes());
    if (!archive) continue;
    const auto libraries = library_names(*archive);
    if (!libraries) return fail(Error(libraries.error()).within(path));
    std::vector<std::string> found;
    for (const std::string& library : *libraries)
      if ((library == name || library.ends_with('/' + name)) && is_of_abi(library, abi))
        found.push_back(library);
    if (found.size() == 1) {
      BinaryPath entry{path, std::move(found.front())};
      TargetFile target{
          .path = entry, .display_path = std::move(entry), .opened = file, .warnings = {}};
      if (auto warning = duplicate_warning(*file, path))
        target.warnings.push_back(std::move(*warning));
      return target;
    }
    if (found.empty()) {
      Error error{ErrorKind::not_found,
                  fmt::format("{}: no library '{}'{}", path, name, abi ? " for " + *abi : "")};
      if (auto apex = apex_error(*archive, path)) return fail(std::move(*apex));
      std::vector<std::string> names;
      for (const std::string& library : *libraries) names.emplace_back(file_name_of(library));
      const auto near = nearest(name, names);
      if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
      return fail(std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                                        shell_word(path)));
    }
    for (std::string& library : found) library.insert(0, path + "!/");
    return fail(ambiguous_target(text, found));
  }
  return std::nullopt;
}

Result<TargetFile> find_file(std::string_view text, const TargetOptions& options) {
  if (options.app) return find_in_app(text, options);
  if (options.app_dir) return find_in_app_dir(text, options);
  if (options.pids.empty()) return find_on_this_machine(text, options);
  auto known = find_in_pids(text, options);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  // No process has it: use this machine's file, with a warning.
  auto found = find_on_this_machine(text, options);
  if (!found && found.error().kind == ErrorKind::not_found && !is_bare_name(text)) {
    const std::string_view name = file_name_of(text);
    if (const auto mapped = find_in_pids(name, options); mapped && *mapped)
      return fail(std::move(found).error().hint(
          "a process maps a file of this name: give it without its folder: " + shell_word(name)));
  }
  if (!found || text.starts_with("/proc/") || find_mapping_process(found->path.file, options.pids))
    return found;
  if (is_bare_name(text))
    found->warnings.push_back(std::string(text) + ": no probed process maps it; using " +
                              to_string(found->path));
  else if (text.starts_with('/'))
    found->warnings.push_back(std::string(text) +
                              ": not in the root directory of a probed process; using the file "
                              "that uprobectl sees at this path");
  return found;
}

Result<Targets> find_targets(std::string_view text, const TargetOptions& options) {
  for (const std::string& path : options.debug_paths) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0)
      return fail(system_error(errno, path).within("--debug-dir"));
  }
  if (options.everywhere) {
    tolerate_all_shrinking(); // as all_files()
    return find_everywhere(text);
  }
  if (text == "*") return all_files(options);
  auto found = find_file(text, options);
  if (!found) return fail(std::move(found).error());
  if (found->path.entry && symbols::is_pattern(*found->path.entry))
    return expand_entries(std::move(*found), text, options.app_dir ? std::nullopt : options.abi);
  if (options.abi && !options.app_dir && !is_of_abi(found->path.entry.value_or(""), options.abi))
    return fail(
        Error{ErrorKind::usage, fmt::format("{}: --abi {}: not a library of an archive for it",
                                            to_string(found->path), *options.abi)}
            .hint("it chooses among the libraries of an archive: 'app.apk!lib*.so'"));
  Targets targets{.text = std::string(text), .several = false, .files = {}, .warnings = {}};
  targets.files.push_back(std::move(*found));
  return targets;
}

} // namespace uprobectl::resolve
