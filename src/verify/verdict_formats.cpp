// SPDX-License-Identifier: Apache-2.0
#include "verify/verdict_formats.hpp"

#include "output/flame_graph.hpp"
#include "output/format.hpp"
#include "output/output.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::verify {

namespace {

std::string omitted_text(std::size_t count, output::Change change) {
  return fmt::format("{} more: {}", count, to_string(change));
}

// ---- text and JSON

void write_rows(const output::Verdict& verdict, const output::LibraryVerdict& library,
                std::size_t max_rows, output::Output& output) {
  const ShownFindings selected = select_findings(verdict, library, max_rows);
  for (const output::Finding* finding : selected.shown) output.write(*finding);
  for (const auto& [change, count] : selected.omitted)
    output.write(output::Finding{
        .change = change, .target = library.image, .reason = fmt::format("({} more)", count)});
}

// ---- JUnit

std::string xml_text(std::string_view text) {
  std::string sanitized;
  output::append_sanitized(sanitized, text);
  std::string escaped;
  output::append_xml(escaped, sanitized);
  return escaped;
}

struct TestCase {
  std::string name;
  std::vector<const output::Finding*> findings = {};
};

// Returns the cases of a library: its matches, then what applies to the whole library.
std::vector<TestCase> cases_of(const output::Verdict& verdict,
                               const output::LibraryVerdict& library) {
  std::vector<TestCase> cases;
  for (const std::string& name : library.unchanged) cases.push_back({.name = name});
  const output::Finding* previous = nullptr;
  for (const std::size_t index : library.findings) {
    const output::Finding& finding = verdict.findings()[index];
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
  for (const output::Finding* finding : test.findings) {
    const std::string sentence = sentence_of(*finding);
    const bool is_unknown = finding->change == output::Change::not_checked;
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

std::string case_text(const output::LibraryVerdict& library, const TestCase& test,
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
    for (const char c : output::printable(text.substr(0, end)))
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

std::string_view level_of(const VerdictStyle& style, output::Change change) {
  if (style.fails(change)) return "error";
  return change == output::Change::build_id ? "notice" : "warning";
}

// ---- Markdown

// Escapes text for a cell of a table: a character reference is not markup, and all renderers know
// it.
std::string markdown_text(std::string_view text) {
  constexpr std::string_view markup = "\\`*_{}[]()<>#+-!|&~@:$\"";
  std::string escaped;
  for (const char c : output::printable(text))
    if (markup.contains(c))
      escaped += fmt::format("&#{};", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      escaped += c;
  return escaped;
}

// A code span for names, which keeps everything but what ends it or a cell.
std::string markdown_code(std::string_view text) {
  const std::string shown = output::printable(text);
  if (shown.empty()) return "";
  if (shown.find_first_of("`|\\") == std::string::npos && shown.front() != ' ' &&
      shown.back() != ' ')
    return "`" + shown + "`";
  return "<code>" + markdown_text(shown) + "</code>";
}

std::string title_of(const output::LibraryVerdict& library) {
  std::string title = markdown_code(library.image);
  if (library.abi && !library.image.contains("lib/" + *library.abi + "/"))
    title += " (" + markdown_text(*library.abi) + ")";
  return title;
}

std::string summary_row(std::string_view title, const output::VerdictCounts& counts) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", title, counts.checked(),
                     counts.unchanged, counts.moved, counts.gone, counts.changed, counts.added,
                     counts.not_checked);
}

std::string findings_table(const output::Verdict& verdict, const output::LibraryVerdict& library,
                           std::size_t max_rows) {
  std::string text = "\n" + title_of(library) +
                     "\n\n| change | function | recorded | found |\n|---|---|---|---|\n";
  const ShownFindings selected = select_findings(verdict, library, max_rows);
  for (const output::Finding* finding : selected.shown) {
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

bool VerdictStyle::fails(output::Change change) const {
  return std::ranges::find(failing, change) != failing.end();
}

std::string sentence_of(const output::Finding& finding) {
  const std::string name = name_of(finding);
  const std::string recorded = finding.recorded.value_or("none");
  const std::string found = finding.found.value_or("none");
  switch (finding.change) {
  case output::Change::gone:
    return fmt::format("'{}' is gone; it was at {}", name, recorded);
  case output::Change::library_gone:
    return "the library is gone: " + name;
  case output::Change::library_new:
    return "the library is new: " + name;
  case output::Change::not_probeable:
    return "the library cannot be probed any more: " + name;
  case output::Change::page_size:
    return "not ready for its pages: " + name;
  case output::Change::added:
    return fmt::format("'{}' is new at {}", name, found);
  case output::Change::function_moved:
    return fmt::format("'{}' moved from {} to {}", name, recorded, found);
  case output::Change::archive_moved:
    return fmt::format("'{}' moved with its library from {} to {}", name, recorded, found);
  case output::Change::semaphore_moved:
    return fmt::format("the semaphore of '{}' moved from {} to {}", name, recorded, found);
  case output::Change::arguments:
    if (finding.member) return fmt::format("'{}' is in {} instead of {}", name, found, recorded);
    return fmt::format("the arguments of '{}' changed from '{}' to '{}'", name, recorded, found);
  case output::Change::member_moved:
    return finding.found ? fmt::format("'{}' moved from {} to {}", name, recorded, found)
                         : fmt::format("'{}' is gone; it was at {}", name, recorded);
  case output::Change::type_changed:
    return fmt::format("the type of '{}' changed from '{}' to '{}'", name, recorded, found);
  case output::Change::exits_changed:
    return fmt::format("'{}' is left at {} instead of {}", name, found, recorded);
  case output::Change::code_changed:
    return fmt::format("'{}' has other code: {} instead of {}", name, found, recorded);
  case output::Change::not_checked:
    return "not checked: " + name;
  case output::Change::build_id:
    return fmt::format("another build: build id {} instead of {}", found, recorded);
  }
  return name;
}

std::string junit_report(const output::Verdict& verdict, const VerdictStyle& style) {
  std::string suites;
  CaseCounts all;
  for (const output::LibraryVerdict& library : verdict.libraries()) {
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

std::string github_annotations(const output::Verdict& verdict, const VerdictStyle& style) {
  std::string text;
  for (const output::LibraryVerdict& library : verdict.libraries()) {
    const ShownFindings selected = select_findings(verdict, library, style.max_rows);
    for (const output::Finding* finding : selected.shown)
      text += annotation(level_of(style, finding->change), style, finding->record_line,
                         to_string(finding->change), library.image + ": " + sentence_of(*finding));
    for (const auto& [change, count] : selected.omitted)
      text += annotation(level_of(style, change), style, 0, to_string(change),
                         library.image + ": " + omitted_text(count, change));
  }
  return text + annotation("notice", style, 0, "uprobectl", summary_of(verdict));
}

std::string markdown_comment(const output::Verdict& verdict, const VerdictStyle& style) {
  std::string text = "### uprobectl: " + summary_of(verdict) + "\n";
  std::size_t unchanged = 0;
  std::string rows;
  std::string tables;
  std::size_t omitted = 0;
  for (const output::LibraryVerdict& library : verdict.libraries()) {
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

std::string summary_of(const output::Verdict& verdict) {
  const output::VerdictCounts counts = verdict.counts();
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
  std::map<output::Change, std::size_t> of_libraries; // without recorded matches
  for (const output::Finding& finding : verdict.findings())
    if (is_of_library(finding.change) && !finding.matches &&
        finding.change != output::Change::build_id)
      ++of_libraries[finding.change];
  for (const auto& [change, count] : of_libraries)
    text += fmt::format("; {}: {}", to_string(change), count);
  return text;
}

ShownFindings select_findings(const output::Verdict& verdict, const output::LibraryVerdict& library,
                              std::size_t max_rows) {
  ShownFindings selected;
  std::vector<std::size_t> indexes = library.findings;
  if (max_rows != 0 && indexes.size() > max_rows) {
    std::ranges::sort(indexes, {}, [&](std::size_t index) {
      return std::pair(rank_of(verdict.findings()[index].change), index);
    });
    for (std::size_t i = max_rows; i < indexes.size(); ++i)
      ++selected.omitted[verdict.findings()[indexes[i]].change];
    indexes.resize(max_rows);
    std::ranges::sort(indexes);
  }
  for (const std::size_t index : indexes) selected.shown.push_back(&verdict.findings()[index]);
  return selected;
}

void write_verdict(const output::Verdict& verdict, const VerdictStyle& style,
                   output::Output& output) {
  switch (style.format) {
  case VerdictFormat::text:
  case VerdictFormat::json:
    for (const output::LibraryVerdict& library : verdict.libraries())
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

} // namespace uprobectl::verify
