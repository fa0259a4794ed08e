// SPDX-License-Identifier: Apache-2.0
// The formats of verdicts.
#pragma once

#include "output/verdict.hpp"

namespace uprobectl::output {
class Output;
} // namespace uprobectl::output

namespace uprobectl::verify {

// Returns "'ns::f(int)' moved from 0x1180 to 0x1200".
std::string sentence_of(const output::Finding& finding);
// Returns "3 of 9 matches are unchanged, 4 moved, 2 gone, 1 new".
std::string summary_of(const output::Verdict& verdict);

enum class VerdictFormat : std::uint8_t { text, json, junit, github, markdown };

// How a verdict is written.
struct VerdictStyle {
  VerdictFormat format = VerdictFormat::text;
  std::size_t max_rows = 20;                // findings shown of a library; 0: all
  std::vector<output::Change> failing = {}; // changes that make the run fail
  std::optional<std::string> record = {};   // the file of the record, for annotations

  bool fails(output::Change change) const;
};
// Writes the findings library by library, then the summary. Text and JSON are records.
void write_verdict(const output::Verdict& verdict, const VerdictStyle& style,
                   output::Output& output);

// --- Internal, for write_verdict() and tests.

// The findings of a library that are written, and the number of others by their change. The most
// important ones are kept, in their order.
struct ShownFindings {
  std::vector<const output::Finding*> shown;
  std::map<output::Change, std::size_t> omitted;
};
ShownFindings select_findings(const output::Verdict& verdict, const output::LibraryVerdict& library,
                              std::size_t max_rows);
// A JUnit report: a suite for each library, a case for each match. Changes that do not fail are in
// the output of the case.
std::string junit_report(const output::Verdict& verdict, const VerdictStyle& style);
// Workflow commands of GitHub Actions, which annotate the lines of the record.
std::string github_annotations(const output::Verdict& verdict, const VerdictStyle& style);
// A comment for a pull request, of at most max_comment_size bytes.
std::string markdown_comment(const output::Verdict& verdict, const VerdictStyle& style);
constexpr std::size_t max_comment_size = 60'000; // GitHub accepts 65,536 characters

} // namespace uprobectl::verify
