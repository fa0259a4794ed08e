// SPDX-License-Identifier: Apache-2.0
// Verdicts in the formats of CI systems.
#include "output/flame_graph.hpp"
#include "output/format.hpp"
#include "output/verdict.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

std::string omitted_text(std::size_t count, Change change) {
  return fmt::format("{} more: {}", count, to_string(change));
}

// ---- JUnit

std::string xml_text(std::string_view text) {
  std::string sanitized;
  append_sanitized(sanitized, text);
  std::string escaped;
  append_xml(escaped, sanitized);
  return escaped;
}

struct TestCase {
  std::string name;
  std::vector<const Finding*> findings = {};
};

// Returns the cases of a library: its matches, then what applies to the whole library.
std::vector<TestCase> cases_of(const Verdict& verdict, const LibraryVerdict& library) {
  std::vector<TestCase> cases;
  for (const std::string& name : library.unchanged) cases.push_back({.name = name});
  const Finding* previous = nullptr;
  for (const std::size_t index : library.findings) {
    const Finding& finding = verdict.findings()[index];
    const bool continues = previous != nullptr && finding.match && previous->match == finding.match;
    if (!continues)
      cases.push_back({.name = finding.symbol || finding.request
                                   ? name_of(finding)
                                   : std::string(to_string(finding.change))});
    cases.back().findings.push_back(&finding);
    previous = &finding;
  }
  return cases;
}

// The schema allows one failure, error or skipped element of a case.
struct CaseOutcome {
  std::string element; // "failure", "error", "skipped", or empty
  std::string type;
  std::string message;
  std::string output; // changes that do not fail
};
CaseOutcome outcome_of(const TestCase& test, const VerdictStyle& style) {
  CaseOutcome outcome;
  for (const Finding* finding : test.findings) {
    const std::string sentence = sentence_of(*finding);
    const bool is_unknown = finding->change == Change::not_checked;
    if (!style.fails(finding->change) && !is_unknown) {
      outcome.output += sentence + "\n";
      continue;
    }
    if (outcome.element.empty()) {
      outcome.element = !is_unknown                    ? "failure"
                        : style.fails(finding->change) ? "error"
                                                       : "skipped";
      outcome.type = to_string(finding->change);
    }
    outcome.message += (outcome.message.empty() ? "" : "; ") + sentence;
  }
  return outcome;
}

struct CaseCounts {
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t errors = 0;
  std::size_t skipped = 0;

  void add(const CaseOutcome& outcome) {
    ++tests;
    failures += outcome.element == "failure" ? 1 : 0;
    errors += outcome.element == "error" ? 1 : 0;
    skipped += outcome.element == "skipped" ? 1 : 0;
  }
};

std::string case_text(const LibraryVerdict& library, const TestCase& test,
                      const CaseOutcome& outcome) {
  std::string text = fmt::format("    <testcase name=\"{}\" classname=\"{}\" time=\"0\"",
                                 xml_text(test.name), xml_text(library.image));
  if (outcome.element.empty() && outcome.output.empty()) return text + "/>\n";
  text += ">\n";
  if (outcome.element == "skipped")
    text += fmt::format("      <skipped message=\"{}\"/>\n", xml_text(outcome.message));
  else if (!outcome.element.empty())
    text += fmt::format("      <{} message=\"{}\" type=\"{}\"/>\n", outcome.element,
                        xml_text(outcome.message), outcome.type);
  if (!outcome.output.empty())
    text += fmt::format("      <system-out>{}</system-out>\n", xml_text(outcome.output));
  return text + "    </testcase>\n";
}

// ---- GitHub

// Escapes the text of a workflow command, and of its properties (actions/toolkit, command.ts).
std::string github_text(std::string_view text, bool is_property) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    for (const char c : printable(text.substr(0, end)))
      if (c == '%')
        escaped += "%25";
      else if (is_property && c == ':')
        escaped += "%3A";
      else if (is_property && c == ',')
        escaped += "%2C";
      else
        escaped += c;
    if (end < text.size()) escaped += text[end] == '\r' ? "%0D" : "%0A";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return escaped;
}

// `line`: 0 if the annotation is about no line.
std::string annotation(std::string_view level, const VerdictStyle& style, std::size_t line,
                       std::string_view title, std::string_view text) {
  std::string properties;
  if (style.record && *style.record != "-") {
    properties += "file=" + github_text(*style.record, true) + ",";
    if (line != 0) properties += fmt::format("line={},", line);
  }
  return fmt::format("::{} {}title={}::{}\n", level, properties, github_text(title, true),
                     github_text(text, false));
}

std::string_view level_of(const VerdictStyle& style, Change change) {
  if (style.fails(change)) return "error";
  return change == Change::build_id ? "notice" : "warning";
}

// ---- Markdown

// Escapes text for a cell of a table: a character reference is not markup, and all renderers know
// it.
std::string markdown_text(std::string_view text) {
  constexpr std::string_view markup = "\\`*_{}[]()<>#+-!|&~@:$\"";
  std::string escaped;
  for (const char c : printable(text))
    if (markup.contains(c))
      escaped += fmt::format("&#{};", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      escaped += c;
  return escaped;
}

// A code span for names, which keeps everything but what ends it or a cell.
std::string markdown_code(std::string_view text) {
  const std::string shown = printable(text);
  if (shown.empty()) return "";
  if (shown.find_first_of("`|\\") == std::string::npos && shown.front() != ' ' &&
      shown.back() != ' ')
    return "`" + shown + "`";
  return "<code>" + markdown_text(shown) + "</code>";
}

std::string title_of(const LibraryVerdict& library) {
  std::string title = markdown_code(library.image);
  if (library.abi && !library.image.contains("lib/" + *library.abi + "/"))
    title += " (" + markdown_text(*library.abi) + ")";
  return title;
}

std::string summary_row(std::string_view title, const VerdictCounts& counts) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", title, counts.checked(),
                     counts.unchanged, counts.moved, counts.gone, counts.changed, counts.added,
                     counts.not_checked);
}

std::string findings_table(const Verdict& verdict, const LibraryVerdict& library,
                           std::size_t max_rows) {
  std::string text = "\n" + title_of(library) +
                     "\n\n| change | function | recorded | found |\n|---|---|---|---|\n";
  const ShownFindings selected = select_findings(verdict, library, max_rows);
  for (const Finding* finding : selected.shown) {
    const bool has_name = finding->symbol || finding->request;
    text += fmt::format(
        "| {} | {} | {} | {} |\n", markdown_text(to_string(finding->change)),
        has_name ? markdown_code(name_of(*finding)) : markdown_text(name_of(*finding)),
        markdown_code(finding->recorded.value_or("")), markdown_code(finding->found.value_or("")));
  }
  for (const auto& [change, count] : selected.omitted)
    text += fmt::format("| {} | {} more |  |  |\n", markdown_text(to_string(change)), count);
  return text;
}

} // namespace

std::string junit_report(const Verdict& verdict, const VerdictStyle& style) {
  std::string suites;
  CaseCounts all;
  for (const LibraryVerdict& library : verdict.libraries()) {
    CaseCounts counts;
    std::string cases;
    for (const TestCase& test : cases_of(verdict, library)) {
      const CaseOutcome outcome = outcome_of(test, style);
      counts.add(outcome);
      all.add(outcome);
      cases += case_text(library, test, outcome);
    }
    suites += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
                          "skipped=\"{}\" time=\"0\">\n{}  </testsuite>\n",
                          xml_text(library.image), counts.tests, counts.failures, counts.errors,
                          counts.skipped, cases);
  }
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"uprobectl\" "
                     "tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"0\">\n{}</testsuites>\n",
                     all.tests, all.failures, all.errors, suites);
}

std::string github_annotations(const Verdict& verdict, const VerdictStyle& style) {
  std::string text;
  for (const LibraryVerdict& library : verdict.libraries()) {
    const ShownFindings selected = select_findings(verdict, library, style.max_rows);
    for (const Finding* finding : selected.shown)
      text += annotation(level_of(style, finding->change), style, finding->record_line,
                         to_string(finding->change), library.image + ": " + sentence_of(*finding));
    for (const auto& [change, count] : selected.omitted)
      text += annotation(level_of(style, change), style, 0, to_string(change),
                         library.image + ": " + omitted_text(count, change));
  }
  return text + annotation("notice", style, 0, "uprobectl", summary_of(verdict));
}

std::string markdown_comment(const Verdict& verdict, const VerdictStyle& style) {
  std::string text = "### uprobectl: " + summary_of(verdict) + "\n";
  std::size_t unchanged = 0;
  std::string rows;
  std::string tables;
  std::size_t omitted = 0;
  for (const LibraryVerdict& library : verdict.libraries()) {
    if (library.findings.empty()) {
      ++unchanged;
      continue;
    }
    std::string row = summary_row(title_of(library), library.counts);
    std::string table = findings_table(verdict, library, style.max_rows);
    constexpr std::size_t frame = 1000; // for the rest of the text
    if (text.size() + rows.size() + tables.size() + row.size() + table.size() + frame >
        max_comment_size) {
      ++omitted;
      continue;
    }
    rows += row;
    tables += table;
  }
  if (!rows.empty())
    text += "\n| library | checked | unchanged | moved | gone | changed | new | not checked |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|\n" +
            rows;
  if (verdict.libraries().size() > 1 && !rows.empty()) text += summary_row("all", verdict.counts());
  if (unchanged != 0)
    text += fmt::format("\n{} unchanged.\n", counted(unchanged, "library is", "libraries are"));
  if (omitted != 0)
    text += fmt::format("\n{} changes; `--format text` lists them.\n",
                        counted(omitted, "more library has", "more libraries have"));
  return text + tables;
}

} // namespace uprobectl::output
