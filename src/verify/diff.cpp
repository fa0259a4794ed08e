// SPDX-License-Identifier: Apache-2.0
#include "verify/diff.hpp"

#include "resolve/explain.hpp"
#include "resolve/page_size.hpp"
#include "resolve/source_file.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"
#include "verify/details.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace uprobectl::verify {

namespace {

// The libraries of one build, by what pairs them with those of the other.
struct Build {
  std::string target;
  bool is_archive = false;
  std::map<std::string, resolve::ArchiveLibrary> libraries; // of an archive, by library_key()
  // The rules of page sizes that entries of an archive break.
  std::map<std::string, std::map<resolve::PageRule, resolve::PageProblem>> page_problems;
};

Result<Build> read_build(const std::string& target, const resolve::TargetOptions& options) {
  Build build{.target = target};
  const auto found = find_targets(target, options);
  if (!found) return fail(found.error());
  if (found->several)
    return fail(Error{ErrorKind::usage, target + ": it may mean several files"}.hint(
        "name an archive to compare all of its libraries"));
  const auto opened = resolve::Target::open(found->files.front(), target, options);
  if (!opened) return fail(opened.error());
  if (opened->image() != nullptr) return build;
  build.is_archive = true;
  auto libraries = opened->libraries();
  if (!libraries) return fail(std::move(libraries).error());
  std::map<std::string, int> keys; // libraries of several folders may have the same one
  for (const resolve::ArchiveLibrary& library : *libraries)
    if (!library.is_container) ++keys[library_key(library.entry)];
  for (resolve::ArchiveLibrary& library : *libraries)
    if (!library.is_container) {
      std::string key = library_key(library.entry);
      if (keys[key] > 1) key = library.entry;
      build.libraries.emplace(std::move(key), std::move(library));
    }
  if (auto pages = resolve::check_pages(opened->file()))
    for (resolve::PageFinding& finding : pages->findings)
      build.page_problems[finding.entry.value_or("")].emplace(finding.problem.rule,
                                                              std::move(finding.problem));
  return build;
}

// The points of a library, in the order of their names, and its properties.
struct LibraryPoints {
  std::vector<resolve::ProbePoint> points;
  std::optional<std::string> build_id;
  std::map<resolve::PageRule, resolve::PageProblem>
      page_problems; // if it is not in an archive as a whole
};

bool is_static_pattern(std::string_view word) {
  const auto colon = word.find(':');
  return colon != std::string_view::npos && word.substr(colon + 1).find(':') != 0;
}

Result<void> add_points(Result<std::vector<resolve::ProbePoint>> found,
                        std::vector<resolve::ProbePoint>& points) {
  if (found)
    std::ranges::move(*found, std::back_inserter(points));
  else if (!resolve::means_no_match(found.error()))
    return fail(std::move(found).error());
  return {};
}

Result<LibraryPoints> read_points(const std::string& text, std::span<const std::string> patterns,
                                  const resolve::TargetOptions& options) {
  auto target = resolve::Target::open(text, options);
  if (!target) return fail(std::move(target).error());
  target->complete_symbols();
  LibraryPoints points{.points = {}, .build_id = target->binary().build_id, .page_problems = {}};
  const resolve::ResolveOptions how{.all = true,
                                    .clones = resolve::ResolveOptions::Clones::all,
                                    .thunks = true,
                                    .every_name = true,
                                    .suggest = false};
  static const std::vector<std::string> everything = {"*", "*:*"};
  for (const std::string& word : patterns.empty() ? std::span(everything) : patterns) {
    const auto added = [&] {
      if (is_static_pattern(word))
        return add_points(target->static_probes(word, how), points.points);
      const auto function = resolve::parse_function(word);
      return function ? add_points(target->resolve(*function, how), points.points)
                      : Result<void>(fail(function.error()));
    }();
    if (!added) return fail(added.error());
  }
  for (resolve::PageFinding& finding : resolve::check_pages(*target->image()).findings)
    points.page_problems.emplace(finding.problem.rule, std::move(finding.problem));
  return points;
}

class BuildComparison {
public:
  BuildComparison(const DiffRequest& request, output::Output& output)
      : request_(request), output_(output) {}

  output::Verdict run() {
    const auto before = read(request_.old_target, request_.old_options);
    const auto after = read(request_.new_target, request_.new_options);
    if (!before || !after) return {};
    if (before->is_archive != after->is_archive) {
      output_.fail(Error{ErrorKind::usage, "an archive cannot be compared with a library: " +
                                               (before->is_archive ? before : after)->target +
                                               " is an archive"}
                       .hint("name one of its libraries: ARCHIVE!/ENTRY"));
      return {};
    }
    if (!before->is_archive) {
      compare(before->target, after->target, nullptr, nullptr);
      return std::move(verdict_);
    }
    for (const auto& [key, library] : before->libraries) {
      const auto other = after->libraries.find(key);
      if (other == after->libraries.end()) {
        add_whole(output::Change::library_gone, {after->target, library.entry},
                  "only the old build has it");
        continue;
      }
      compare_pages(pages_of(*before, library.entry), pages_of(*after, other->second.entry),
                    whole({after->target, other->second.entry}));
      compare(to_string(BinaryPath{before->target, library.entry}),
              to_string(BinaryPath{after->target, other->second.entry}), &library, &other->second);
    }
    for (const auto& [key, library] : after->libraries)
      if (!before->libraries.contains(key))
        add_whole(output::Change::library_new, {after->target, library.entry},
                  "only the new build has it");
    return std::move(verdict_);
  }

private:
  std::optional<Build> read(const std::string& target, resolve::TargetOptions options) {
    options.extracted = true;
    auto build = read_build(target, options);
    if (build) return std::move(*build);
    output_.fail(build.error(), target);
    return std::nullopt;
  }

  static output::Finding whole(const BinaryPath& path) {
    return {.target = to_string(path),
            .file = path.file,
            .entry = path.entry,
            .abi = abi_of(path.entry)};
  }
  void add_whole(output::Change change, const BinaryPath& path, std::string reason) {
    output::Finding finding = whole(path);
    finding.change = change;
    finding.reason = std::move(reason);
    verdict_.add(std::move(finding));
  }

  static std::map<resolve::PageRule, resolve::PageProblem> pages_of(const Build& build,
                                                                    const std::string& entry) {
    const auto found = build.page_problems.find(entry);
    return found != build.page_problems.end() ? found->second
                                              : std::map<resolve::PageRule, resolve::PageProblem>();
  }
  void compare_pages(const std::map<resolve::PageRule, resolve::PageProblem>& before,
                     const std::map<resolve::PageRule, resolve::PageProblem>& after,
                     const output::Finding& about) {
    for (const auto& [rule, problem] : after) {
      if (!is_new_problem(rule, [&](resolve::PageRule each) { return before.contains(each); }))
        continue;
      output::Finding finding = about;
      finding.change = output::Change::page_size;
      finding.reason = problem.reason;
      verdict_.add(std::move(finding));
    }
  }

  // `*_entry`: of archives as a whole.
  void compare(const std::string& before, const std::string& after,
               const resolve::ArchiveLibrary* old_entry, const resolve::ArchiveLibrary* new_entry) {
    auto old_points = points_of(before, request_.old_options);
    if (!old_points) return not_checked(after, before, old_points.error());
    auto new_points = points_of(after, request_.new_options);
    if (!new_points) return not_checked(after, after, new_points.error());
    set_source_files(old_points->points, new_points->points);
    output::Finding about{.target = after};
    if (!new_points->points.empty())
      set_file(about, new_points->points.front(), Pairing::in_one_file);
    if (old_entry != nullptr && old_entry->probeable && !new_entry->probeable) {
      about.change = output::Change::not_probeable;
      about.reason = new_entry->reason.value_or("it cannot be probed");
      verdict_.add(about);
    }
    if (old_entry == nullptr)
      compare_pages(old_points->page_problems, new_points->page_problems, about);
    if (old_points->build_id != new_points->build_id) {
      about.change = output::Change::build_id;
      about.reason.reset();
      about.recorded = old_points->build_id;
      about.found = new_points->build_id;
      verdict_.add(about);
    }
    add_all(*old_points, *new_points, after);
  }

  // Where several files have a name in one build, its functions are paired by their files.
  static void set_source_files(std::vector<resolve::ProbePoint>& before,
                               std::vector<resolve::ProbePoint>& after) {
    const auto names_of_several = [](std::span<const resolve::ProbePoint> points) {
      std::set<std::string> names;
      for (const resolve::ProbePoint& point : points)
        if (point.source_file) names.insert(point.symbol.value_or(""));
      return names;
    };
    resolve::set_source_files(after, {});
    const std::set<std::string> names = names_of_several(after);
    resolve::set_source_files(before, names);
    const std::set<std::string> all = names_of_several(before);
    if (!std::ranges::includes(names, all)) resolve::set_source_files(after, all);
  }

  // If one build has lost the names that are not exported, nothing is known of those functions.
  void add_all(const LibraryPoints& before, const LibraryPoints& after, const std::string& target) {
    std::vector<resolve::ProbePoint> current;
    const std::set<std::string> old_names = names_of(before);
    const std::set<std::string> new_names = names_of(after);
    const bool was_full = std::ranges::any_of(before.points, is_of_full_table);
    const bool is_full = std::ranges::any_of(after.points, is_of_full_table);
    for (const resolve::ProbePoint& point : after.points)
      if (was_full || !is_of_full_table(point) || old_names.contains(name_in_file(point)))
        current.push_back(point);
    if (current.size() != after.points.size())
      output_.warn_once(target + ": only exported functions are compared: the old build has no "
                                 "other symbols");
    std::vector<RecordedMatch> recorded;
    for (const resolve::ProbePoint& point : before.points)
      if (is_full || !is_of_full_table(point) || new_names.contains(name_in_file(point)))
        recorded.push_back(record_of(point));
      else
        verdict_.add_to_library({.change = output::Change::not_checked,
                                 .target = target,
                                 .reason = "functions that are not exported: the new build has no "
                                           ".symtab or symbol file"});
    add_comparison(recorded, current, target, Pairing::in_one_file, first_, verdict_);
    first_ += recorded.size();
  }

  static bool is_of_full_table(const resolve::ProbePoint& point) {
    return point.table == elf::Table::symtab || point.table == elf::Table::debug_file ||
           point.table == elf::Table::gnu_debugdata;
  }
  static std::set<std::string> names_of(const LibraryPoints& points) {
    std::set<std::string> names;
    for (const resolve::ProbePoint& point : points.points) names.insert(name_in_file(point));
    return names;
  }

  Result<LibraryPoints> points_of(const std::string& target, resolve::TargetOptions options) const {
    options.extracted = true;
    auto found = read_points(target, request_.patterns, options);
    if (!found || !request_.with_details) return found;
    DetailReader details(options.debug_paths);
    for (resolve::ProbePoint& point : found->points) details.read(point);
    return found;
  }

  void not_checked(const std::string& target, const std::string& subject, const Error& error) {
    output_.fail(error, subject);
    std::string_view reason = error.message;
    if (reason.starts_with(subject + ": ")) reason.remove_prefix(subject.size() + 2);
    verdict_.add(
        {.change = output::Change::not_checked, .target = target, .reason = std::string(reason)});
  }

  const DiffRequest& request_;
  output::Output& output_;
  output::Verdict verdict_;
  std::size_t first_ = 0; // index of the next match
};

} // namespace

output::Verdict diff_builds(const DiffRequest& request, output::Output& output) {
  return BuildComparison(request, output).run();
}

} // namespace uprobectl::verify
