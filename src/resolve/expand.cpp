#include "resolve/app.hpp"
#include "resolve/duplicates.hpp"
#include "resolve/find_file.hpp"
#include "resolve/in_process.hpp"
#include "resolve/library_name.hpp"
#include "resolve/quote.hpp"
#include "uprobectl/archive.hpp"
#include "util/shrinking.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unordered_set>

namespace uprobectl {

namespace {

// Libraries that the last part of the pattern fits come first: mostly the folder is misspelt.
std::vector<std::string> nearest_entries(const std::string& pattern,
                                         const std::vector<std::string>& libraries) {
  constexpr unsigned limit = 8;
  const std::string base(file_name_of(pattern));
  const auto folder = [](std::string_view name) {
    return name.substr(0, name.size() - file_name_of(name).size());
  };
  NearestNames near;
  for (const std::string& library : libraries)
    if (matches_pattern(base, file_name_of(library)))
      near.offer(edit_distance(folder(pattern), folder(library), limit).value_or(limit + 1),
                 library);
  auto names = std::move(near).take();
  if (!names.empty()) return names;
  return nearest(without_wildcards(pattern), libraries);
}

Error nothing_matches(const TargetFile& archive, const std::vector<std::string>& libraries) {
  const std::string& pattern = *archive.shown.entry;
  Error error{ErrorKind::not_found,
              fmt::format("{}: no library in it matches '{}'", archive.shown.file, pattern)};
  const auto near = nearest_entries(pattern, libraries);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                               shell_word(archive.shown.file));
}

// The library entries that match, each name once; the file itself where an entry has exactly the
// pattern's name.
Result<Targets> expand_entries(TargetFile archive_file, std::string_view text) {
  Targets targets{.text = std::string(text), .several = true, .files = {}, .warnings = {}};
  std::swap(targets.warnings, archive_file.warnings);
  if (!archive_file.opened) {
    auto mapped = MappedFile::open(archive_file.path.file);
    if (!mapped) return fail(std::move(mapped).error());
    archive_file.opened = std::make_shared<const MappedFile>(std::move(*mapped));
    if (auto warning = duplicate_warning(*archive_file.opened, archive_file.shown.file))
      targets.warnings.push_back(std::move(*warning));
  }
  const auto archive = Archive::parse(archive_file.opened->bytes());
  if (!archive) return fail(Error(archive.error()).within(archive_file.shown.file));

  const std::string pattern = *archive_file.path.entry;
  std::vector<std::string> libraries;
  bool exact = false;
  const auto read = archive->for_each([&](const ArchiveEntry& entry) {
    exact = exact || entry.name == pattern;
    if (is_library_name(entry.name)) libraries.emplace_back(entry.name);
    return !exact;
  });
  if (!read) return fail(Error(read.error()).within(archive_file.shown.file));
  if (exact) {
    targets.several = false;
    targets.files.push_back(std::move(archive_file));
    return targets;
  }
  std::unordered_set<std::string_view> taken;
  for (const std::string& library : libraries) {
    if (!matches_pattern(pattern, library) || !taken.insert(library).second) continue;
    TargetFile file = archive_file;
    file.path.entry = library;
    file.shown.entry = library;
    targets.files.push_back(std::move(file));
  }
  if (targets.files.empty()) return fail(nothing_matches(archive_file, libraries));
  return targets;
}

TargetFile as_the_process_knows_it(FileOfProcess file) {
  return {.path = {.file = std::move(file.open_path), .entry = file.shown.entry},
          .shown = std::move(file.shown),
          .opened = nullptr,
          .warnings = std::move(file.warnings)};
}

// `*`
Result<Targets> everything(const TargetOptions& options) {
  if (options.app) {
    const auto app = AppFiles::of(*options.app);
    return app ? app->all() : fail(app.error());
  }
  if (options.pids.empty())
    return fail(
        Error{ErrorKind::usage, "the TARGET '*' means the files of processes or of an app"}.hint(
            "name them with -p PID, or --app PKG on Android"));
  tolerate_all_shrinking(); // one of these files must not cost the others
  auto mapped = find_all_in_processes(options.pids);
  if (!mapped) return fail(std::move(mapped).error());
  Targets targets{.text = "*", .several = true, .files = {}, .warnings = {}};
  targets.warnings = std::move(mapped->warnings);
  for (FileOfProcess& file : mapped->files)
    targets.files.push_back(as_the_process_knows_it(std::move(file)));
  if (targets.files.empty())
    return fail(ErrorKind::not_found, "*: no process maps an ELF file executable that can be read");
  return targets;
}

} // namespace

Result<Targets> find_targets(std::string_view text, const TargetOptions& options) {
  for (const std::string& place : options.debug_places) {
    struct stat status{};
    if (::stat(place.c_str(), &status) != 0)
      return fail(system_error(errno, place).within("--debug-dir"));
  }
  if (text == "*") return everything(options);
  auto found = find_file(text, options);
  if (!found) return fail(std::move(found).error());
  if (found->path.entry && is_pattern(*found->path.entry))
    return expand_entries(std::move(*found), text);
  Targets targets{.text = std::string(text), .several = false, .files = {}, .warnings = {}};
  targets.files.push_back(std::move(*found));
  return targets;
}

} // namespace uprobectl
