// SPDX-License-Identifier: Apache-2.0
// A Catch2 reporter that prints one TAP line per test case (Catch's own prints one per assertion),
// so that the totals of a run count what a reader would call a test. `unit-tests -r tap`.
//
// Catch2 v2 cannot skip a case. A case that lacks something says WARN("skipped: REASON") and
// returns: it is reported as skipped with that reason, unless one of its assertions failed before.
#pragma once

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <string_view>

class TapReporter : public Catch::StreamingReporterBase<TapReporter> {
public:
  explicit TapReporter(const Catch::ReporterConfig& config) : StreamingReporterBase(config) {
    m_reporterPrefs.shouldRedirectStdOut = true; // what a test prints must not pass for TAP
  }
  static std::string getDescription() { return "one TAP line per test case"; }

  void assertionStarting(const Catch::AssertionInfo&) override {}

  bool assertionEnded(const Catch::AssertionStats& stats) override {
    const auto& result = stats.assertionResult;
    const std::string message = result.getMessage();
    if (result.getResultType() == Catch::ResultWas::Warning && message.starts_with(skip_mark))
      skip_reason_ = message.substr(skip_mark.size());
    if (!result.isOk()) describe(stats);
    return true;
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool ok = stats.totals.assertions.allOk();
    stream << (ok ? "ok " : "not ok ") << ++number_ << " - " << without_hash(stats.testInfo.name);
    if (ok && !skip_reason_.empty()) stream << " # SKIP " << skip_reason_;
    stream << '\n' << diagnostics_ << std::flush;
    skip_reason_.clear();
    diagnostics_.clear();
    StreamingReporterBase::testCaseEnded(stats);
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    stream << "1.." << number_ << std::endl;
    StreamingReporterBase::testRunEnded(stats);
  }

private:
  static constexpr std::string_view skip_mark = "skipped: ";

  // '#' begins a directive in TAP.
  static std::string without_hash(std::string name) {
    for (char& c : name)
      if (c == '#') c = '_';
    return name;
  }

  void describe(const Catch::AssertionStats& stats) {
    const auto& result = stats.assertionResult;
    std::ostringstream text;
    text << result.getSourceInfo() << '\n';
    for (const auto& section : m_sectionStack) text << "in: " << section.name << '\n';
    if (result.hasExpression()) text << "  " << result.getExpressionInMacro() << '\n';
    if (result.hasExpandedExpression()) text << "  " << result.getExpandedExpression() << '\n';
    if (result.hasMessage()) text << "  " << result.getMessage() << '\n';
    for (const auto& info : stats.infoMessages)
      if (info.type == Catch::ResultWas::Info) text << "  with: " << info.message << '\n';
    std::istringstream lines(text.str());
    for (std::string line; std::getline(lines, line);) diagnostics_ += "# " + line + '\n';
  }

  int number_ = 0;
  std::string skip_reason_;
  std::string diagnostics_;
};

CATCH_REGISTER_REPORTER("tap", TapReporter)
