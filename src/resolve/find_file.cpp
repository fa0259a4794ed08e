#include "resolve/find_file.hpp"

#include "resolve/app.hpp"
#include "resolve/in_process.hpp"
#include "resolve/locate.hpp"
#include "resolve/quote.hpp"
#include "util/spelling.hpp"

#include <cerrno>
#include <sys/stat.h>

namespace uprobectl {

namespace {

bool is_bare(std::string_view text) { return text.find('/') == std::string_view::npos; }

// A plain file is called as it was typed, an entry ARCHIVE!/ENTRY.
TargetFile as_typed(BinaryPath path, std::string_view text) {
  BinaryPath shown = path.entry ? path : BinaryPath{std::string(text), std::nullopt};
  return {.path = std::move(path), .shown = std::move(shown), .opened = nullptr, .warnings = {}};
}

// The first reading whose file is there. A folder does not answer for a bare name, of which a
// program may be meant, and holds no entries; it is the answer only where there is no other.
std::optional<BinaryPath> first_existing(std::string_view text) {
  std::optional<BinaryPath> folder;
  for (BinaryPath& reading : readings(text)) {
    struct stat status{};
    if (::stat(reading.file.c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode)) return std::move(reading);
    if (!is_bare(text) && !folder) folder = std::move(reading);
  }
  return folder;
}

Error missing_target(std::string_view text) {
  if (text.ends_with("!/"))
    return Error{ErrorKind::usage, std::string(text) + ": the entry's name is missing"}.hint(
        "list its libraries with: uprobectl list-symbols " +
        shell_word(text.substr(0, text.size() - 2)));
  const auto all = readings(text);
  const std::string& file = all.back().file;
  struct stat status{};
  if (is_bare(text)) {
    Error error{ErrorKind::not_found,
                std::string(text) + ": no such file here, nor a program or library of this name"};
    auto near = nearest_files(file);
    if (near.empty()) near = nearest_installed(text, search_places_of_this_machine());
    return near.empty() ? error : std::move(error).hint(did_you_mean(near));
  }
  const int errnum = ::stat(file.c_str(), &status) != 0 ? errno : ENOENT;
  Error error = system_error(errnum, file);
  if (errnum != ENOENT) return error;
  const auto near = nearest_files(file);
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

// A file in the current folder is what its name says; whoever meant the installed one must be told.
void warn_if_hiding(std::string_view text, TargetFile& found) {
  struct stat status{};
  if (::stat(found.path.file.c_str(), &status) != 0) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  for (const Candidate& hidden : locate(text, search_places_of_this_machine())) {
    if (hidden.identity == identity) continue;
    found.warnings.push_back("the file ./" + found.path.file + " in the current folder hides " +
                             hidden.path);
    return;
  }
}

Result<TargetFile> find(std::string_view text) {
  if (text.empty()) return fail(ErrorKind::usage, "the TARGET is empty");
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorKind::usage, "the TARGET holds a NUL byte");
  if (text.size() > longest_path)
    return fail(ErrorKind::usage, "the TARGET has " + std::to_string(text.size()) +
                                      " bytes, a path has " + std::to_string(longest_path) +
                                      " at most");
  if (auto path = first_existing(text)) {
    TargetFile found = as_typed(std::move(*path), text);
    if (is_bare(text)) warn_if_hiding(text, found);
    return found;
  }
  const auto candidates = locate(text, search_places_of_this_machine());
  if (candidates.empty()) return fail(missing_target(text));
  if (candidates.size() > 1) {
    std::vector<std::string> paths;
    paths.reserve(candidates.size());
    for (const Candidate& candidate : candidates) paths.push_back(candidate.path);
    return fail(ambiguous_target(text, paths));
  }
  TargetFile found = as_typed({candidates[0].path, std::nullopt}, text);
  if (const auto script = script_before(candidates[0], text, search_places_of_this_machine()))
    found.warnings.push_back(std::string(text) + ": " + *script +
                             " comes first in PATH and is not an ELF file, so running '" +
                             std::string(text) +
                             "' may start another program; taken: " + candidates[0].path);
  return found;
}

Result<std::optional<TargetFile>> find_in(std::string_view text, std::span<const pid_t> pids) {
  auto files = find_in_processes(text, pids);
  if (!files) return fail(std::move(files).error());
  if (files->empty()) return std::nullopt;
  if (files->size() > 1) {
    std::vector<std::string> candidates;
    for (const FileOfProcess& file : *files) candidates.push_back(to_string(file.shown));
    return fail(ambiguous_target(text, candidates));
  }
  FileOfProcess& file = files->front();
  TargetFile found = as_typed({.file = std::move(file.open_path), .entry = file.shown.entry}, text);
  if (file.shown.entry) found.shown = std::move(file.shown);
  found.warnings = std::move(file.warnings);
  return found;
}

// The package first; a library that it does not bring along is the system's.
Result<TargetFile> find_in_app(std::string_view text, const std::string& package) {
  const auto app = AppFiles::of(package);
  if (!app) return fail(app.error());
  auto known = app->find(text);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  auto found = find(text);
  if (!is_bare(text)) return found;
  if (!found) return fail(app->no_library(text));
  found->warnings.push_back(std::string(text) + ": not among the files of " + package +
                            "; taken: " + to_string(found->path));
  return found;
}

} // namespace

Error ambiguous_target(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr std::size_t most = 10;
  Error error{ErrorKind::ambiguous, std::string(text) + ": " + std::to_string(candidates.size()) +
                                        " different files have this name"};
  for (std::size_t i = 0; i < candidates.size() && i < most; ++i)
    error = std::move(error).hint("candidate: " + candidates[i]);
  if (candidates.size() > most)
    error = std::move(error).hint("and " + std::to_string(candidates.size() - most) + " more");
  return error;
}

Result<TargetFile> find_file(std::string_view text, const TargetOptions& options) {
  if (options.app) return find_in_app(text, *options.app);
  if (options.pids.empty()) return find(text);
  auto known = find_in(text, options.pids);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  // What is found only without the processes gets a word about it.
  auto found = find(text);
  if (!found || text.starts_with("/proc/") || who_maps(found->path.file, options.pids))
    return found;
  if (is_bare(text))
    found->warnings.push_back(std::string(text) +
                              ": no probed process maps it; taken: " + to_string(found->path));
  else if (text.starts_with('/'))
    found->warnings.push_back(std::string(text) +
                              ": not below the root folder of a probed process; taken: the file "
                              "that this program sees there");
  return found;
}

} // namespace uprobectl
