// SPDX-License-Identifier: Apache-2.0
#include "output/verdict.hpp"

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
  unsigned rank;
};

// The traits are in the order of the enumerators.
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

} // namespace

std::string_view to_string(Change change) { return traits_of(change).name; }

unsigned rank_of(Change change) { return traits_of(change).rank; }

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
  if (finding.match && is_of_library(finding.change))
    return add_library_finding(library, std::move(finding));
  library.findings.push_back(findings_.size());
  findings_.push_back(std::move(finding));
}

void Verdict::add_library_finding(LibraryVerdict& library, Finding finding) {
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
  add_library_finding(library, std::move(finding));
}

void Verdict::add_unchanged(const Finding& match) {
  LibraryVerdict& library = library_of(match);
  ++library.counts.unchanged;
  library.unchanged.push_back(name_of(match));
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

} // namespace uprobectl::output
