// SPDX-License-Identifier: Apache-2.0
#include "output/verdict.hpp"

#include "output/output.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

struct ChangeTraits {
  Change change;
  std::string_view name;
  std::size_t VerdictCounts::* count; // that a change of a recorded match adds to
  bool is_of_library;
  // If there are more findings than may be shown, those of a lower rank are shown.
  unsigned rank;
};

// By the numbers of their enumerators.
constexpr auto all_traits = std::to_array<ChangeTraits>({
    {Change::gone, "gone", &VerdictCounts::gone, false, 1},
    {Change::library_gone, "library_gone", &VerdictCounts::gone, true, 0},
    {Change::library_new, "library_new", &VerdictCounts::changed, true, 3},
    {Change::not_probeable, "not_probeable", &VerdictCounts::changed, true, 2},
    {Change::page_size, "page_size", &VerdictCounts::changed, true, 2},
    {Change::added, "new", &VerdictCounts::added, false, 4},
    {Change::function_moved, "function_moved", &VerdictCounts::moved, false, 5},
    {Change::archive_moved, "archive_moved", &VerdictCounts::moved, false, 6},
    {Change::semaphore_moved, "semaphore_moved", &VerdictCounts::changed, false, 2},
    {Change::arguments, "arguments", &VerdictCounts::changed, false, 2},
    {Change::member_moved, "member_moved", &VerdictCounts::changed, false, 2},
    {Change::type_changed, "type_changed", &VerdictCounts::changed, false, 2},
    {Change::exits_changed, "exits_changed", &VerdictCounts::changed, false, 4},
    {Change::code_changed, "code_changed", &VerdictCounts::changed, false, 4},
    {Change::not_checked, "not_checked", &VerdictCounts::not_checked, true, 0},
    {Change::build_id, "build_id", &VerdictCounts::changed, true, 3},
});

constexpr std::size_t number_of(Change change) { return static_cast<std::size_t>(change); }

static_assert(all_traits.size() == all_changes.size());
static_assert(std::ranges::all_of(all_changes, [](Change change) {
  return all_traits[number_of(change)].change == change;
}));

const ChangeTraits& traits_of(Change change) { return all_traits[number_of(change)]; }

void write_rows(const Verdict& verdict, const LibraryVerdict& library, std::size_t max_rows,
                Output& output) {
  const ShownFindings selected = select_findings(verdict, library, max_rows);
  for (const Finding* finding : selected.shown) output.write(*finding);
  for (const auto& [change, count] : selected.omitted)
    output.write(Finding{
        .change = change, .target = library.image, .reason = fmt::format("({} more)", count)});
}

} // namespace

std::string_view to_string(Change change) { return traits_of(change).name; }

bool VerdictStyle::fails(Change change) const {
  return std::ranges::find(failing, change) != failing.end();
}

bool is_of_library(Change change) { return traits_of(change).is_of_library; }

std::string name_of(const Finding& finding) {
  std::string name;
  if (finding.is_of_structure())
    name = *finding.member;
  else if (finding.symbol)
    name = symbols::demangle(*finding.symbol).value_or(*finding.symbol) +
           (finding.is_old_version ? "@" + finding.version.value_or("") : "");
  else if (finding.request)
    name = *finding.request;
  else if (finding.reason)
    name = *finding.reason;
  if (finding.symbol && finding.symbol_offset != 0 && !finding.is_of_structure())
    name += fmt::format("+{:#x}", finding.symbol_offset);
  if (finding.member && !finding.is_of_structure()) name += ": " + *finding.member;
  if (finding.matches) name += " (" + counted(*finding.matches, "match", "matches") + ")";
  return name;
}

std::string sentence_of(const Finding& finding) {
  const std::string name = name_of(finding);
  const std::string recorded = finding.recorded.value_or("none");
  const std::string found = finding.found.value_or("none");
  switch (finding.change) {
  case Change::gone:
    return fmt::format("'{}' is gone; it was at {}", name, recorded);
  case Change::library_gone:
    return "the library is gone: " + name;
  case Change::library_new:
    return "the library is new: " + name;
  case Change::not_probeable:
    return "the library cannot be probed any more: " + name;
  case Change::page_size:
    return "not ready for its pages: " + name;
  case Change::added:
    return fmt::format("'{}' is new at {}", name, found);
  case Change::function_moved:
    return fmt::format("'{}' moved from {} to {}", name, recorded, found);
  case Change::archive_moved:
    return fmt::format("'{}' moved with its library from {} to {}", name, recorded, found);
  case Change::semaphore_moved:
    return fmt::format("the semaphore of '{}' moved from {} to {}", name, recorded, found);
  case Change::arguments:
    if (finding.member) return fmt::format("'{}' is in {} instead of {}", name, found, recorded);
    return fmt::format("the arguments of '{}' changed from '{}' to '{}'", name, recorded, found);
  case Change::member_moved:
    return finding.found ? fmt::format("'{}' moved from {} to {}", name, recorded, found)
                         : fmt::format("'{}' is gone; it was at {}", name, recorded);
  case Change::type_changed:
    return fmt::format("the type of '{}' changed from '{}' to '{}'", name, recorded, found);
  case Change::exits_changed:
    return fmt::format("'{}' is left at {} instead of {}", name, found, recorded);
  case Change::code_changed:
    return fmt::format("'{}' has other code: {} instead of {}", name, found, recorded);
  case Change::not_checked:
    return "not checked: " + name;
  case Change::build_id:
    return fmt::format("another build: build id {} instead of {}", found, recorded);
  }
  return name;
}

LibraryVerdict& Verdict::library_of(const Finding& finding) {
  const auto [known, is_new] = known_.emplace(finding.library(), libraries_.size());
  if (is_new)
    libraries_.push_back({.image = finding.library(),
                          .file = finding.file,
                          .entry = finding.entry,
                          .abi = finding.abi});
  return libraries_[known->second];
}

void Verdict::add(Finding finding) {
  LibraryVerdict& library = library_of(finding);
  const bool continues = finding.match && last_match_ == finding.match;
  if (finding.match) last_match_ = finding.match;
  if (!continues && (finding.match || !is_of_library(finding.change)))
    ++(library.counts.*traits_of(finding.change).count);
  if (finding.is_of_structure()) {
    const auto [known, is_new] = members_.try_emplace(
        {library.image, finding.change, *finding.member, finding.found.value_or("")},
        findings_.size());
    if (!is_new) {
      Finding& first = findings_[known->second];
      first.matches = first.matches.value_or(1) + 1;
      return;
    }
  }
  if (finding.match && is_of_library(finding.change)) return add_row(library, std::move(finding));
  library.findings.push_back(findings_.size());
  findings_.push_back(std::move(finding));
}

void Verdict::add_row(LibraryVerdict& library, Finding finding) {
  for (const std::size_t index : library.findings) {
    Finding& known = findings_[index];
    if (known.change != finding.change || known.reason != finding.reason) continue;
    known.matches = known.matches.value_or(0) + 1;
    return;
  }
  finding.matches = 1;
  finding.match.reset();
  finding.request.reset();
  finding.symbol.reset();
  finding.version.reset();
  finding.symbol_offset = 0;
  library.findings.push_back(findings_.size());
  findings_.push_back(std::move(finding));
}

void Verdict::add_to_library(Finding finding) {
  LibraryVerdict& library = library_of(finding);
  ++(library.counts.*traits_of(finding.change).count);
  if (!library.reason) library.reason = finding.reason;
  add_row(library, std::move(finding));
}

void Verdict::add_unchanged(const Finding& point) {
  LibraryVerdict& library = library_of(point);
  ++library.counts.unchanged;
  library.unchanged.push_back(name_of(point));
}

VerdictCounts Verdict::counts() const {
  VerdictCounts sum;
  for (const LibraryVerdict& library : libraries_)
    for (const auto count :
         {&VerdictCounts::unchanged, &VerdictCounts::moved, &VerdictCounts::gone,
          &VerdictCounts::changed, &VerdictCounts::not_checked, &VerdictCounts::added})
      sum.*count += library.counts.*count;
  return sum;
}

std::string summary_of(const Verdict& verdict) {
  const VerdictCounts counts = verdict.counts();
  std::string text =
      fmt::format("{} of {} matches are unchanged", counts.unchanged, counts.recorded());
  const auto add = [&](std::size_t count, std::string_view what) {
    if (count != 0) text += fmt::format(", {} {}", count, what);
  };
  add(counts.moved, "moved");
  add(counts.gone, "gone");
  add(counts.changed, "changed");
  add(counts.added, "new");
  add(counts.not_checked, "could not be checked");
  std::map<Change, std::size_t> of_libraries; // without recorded matches
  for (const Finding& finding : verdict.findings())
    if (is_of_library(finding.change) && !finding.matches && finding.change != Change::build_id)
      ++of_libraries[finding.change];
  for (const auto& [change, count] : of_libraries)
    text += fmt::format("; {}: {}", to_string(change), count);
  return text;
}

ShownFindings select_findings(const Verdict& verdict, const LibraryVerdict& library,
                              std::size_t max_rows) {
  ShownFindings selected;
  std::vector<std::size_t> indexes = library.findings;
  if (max_rows != 0 && indexes.size() > max_rows) {
    std::ranges::sort(indexes, {}, [&](std::size_t index) {
      return std::pair(traits_of(verdict.findings()[index].change).rank, index);
    });
    for (std::size_t i = max_rows; i < indexes.size(); ++i)
      ++selected.omitted[verdict.findings()[indexes[i]].change];
    indexes.resize(max_rows);
    std::ranges::sort(indexes);
  }
  for (const std::size_t index : indexes) selected.shown.push_back(&verdict.findings()[index]);
  return selected;
}

void write_verdict(const Verdict& verdict, const VerdictStyle& style, Output& output) {
  switch (style.format) {
  case VerdictFormat::text:
  case VerdictFormat::json:
    for (const LibraryVerdict& library : verdict.libraries())
      write_rows(verdict, library, style.format == VerdictFormat::json ? 0 : style.max_rows,
                 output);
    output.write(verdict);
    break;
  case VerdictFormat::junit:
    output.write_text(junit_report(verdict, style));
    break;
  case VerdictFormat::github:
    output.write_text(github_annotations(verdict, style));
    break;
  case VerdictFormat::markdown:
    output.write_text(markdown_comment(verdict, style));
    break;
  }
  output.status(summary_of(verdict));
}

} // namespace uprobectl::output
