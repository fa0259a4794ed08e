// SPDX-License-Identifier: Apache-2.0
#include "verify/verdict_formats.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::verify {

namespace {

output::Finding finding(output::Change change, const char* symbol, std::size_t match) {
  return {.change = change,
          .target = "x.so",
          .request = symbol,
          .symbol = symbol,
          .recorded = "0x10",
          .found = "0x20",
          .match = match,
          .record_line = match + 1};
}

} // namespace

TEST_CASE("a recorded match is counted once, by its first finding") {
  output::Verdict verdict;
  verdict.add(finding(output::Change::function_moved, "f", 0));
  verdict.add(finding(output::Change::arguments, "f", 0));
  verdict.add(finding(output::Change::function_moved, "f", 1));
  CHECK(verdict.counts().moved == 2);
  CHECK(verdict.counts().changed == 0);
  CHECK(verdict.findings().size() == 3);
  CHECK(summary_of(verdict) == "0 of 2 matches are unchanged, 2 moved");
}

TEST_CASE("a library that cannot be checked is one finding, and its matches are not unchanged") {
  output::Verdict verdict;
  for (std::size_t i = 0; i < 3; ++i)
    verdict.add_to_library(
        {.change = output::Change::not_checked, .target = "x.so", .reason = "compressed"});
  REQUIRE(verdict.findings().size() == 1);
  CHECK(name_of(verdict.findings()[0]) == "compressed (3 matches)");
  CHECK(verdict.counts().not_checked == 3);
  CHECK(verdict.counts().checked() == 0);
  REQUIRE(verdict.libraries().size() == 1);
  CHECK(verdict.libraries()[0].reason == "compressed");
}

TEST_CASE("a member that several functions have is one finding, and all of them have changed") {
  output::Verdict verdict;
  for (std::size_t i = 0; i < 2; ++i) {
    output::Finding moved = finding(output::Change::member_moved, "f", i);
    moved.member = "conn.port";
    verdict.add(moved);
  }
  REQUIRE(verdict.findings().size() == 1);
  CHECK(name_of(verdict.findings()[0]) == "conn.port (2 matches)");
  CHECK(verdict.counts().changed == 2);
}

TEST_CASE("the most important findings of a library are kept, in their order") {
  output::Verdict verdict;
  verdict.add(finding(output::Change::function_moved, "a", 0));
  verdict.add(finding(output::Change::gone, "b", 1));
  verdict.add(finding(output::Change::function_moved, "c", 2));
  verdict.add(finding(output::Change::function_moved, "d", 3));
  const ShownFindings selected = select_findings(verdict, verdict.libraries()[0], 2);
  REQUIRE(selected.shown.size() == 2);
  CHECK(selected.shown[0]->symbol == "a");
  CHECK(selected.shown[1]->symbol == "b");
  CHECK(selected.omitted ==
        std::map<output::Change, std::size_t>{{output::Change::function_moved, 2}});
  CHECK(select_findings(verdict, verdict.libraries()[0], 0).shown.size() == 4);
}

TEST_CASE("JUnit counts failures, and what does not fail is output of its case") {
  output::Verdict verdict;
  verdict.add(finding(output::Change::gone, "a<b>&\"", 0));
  verdict.add(finding(output::Change::function_moved, "c", 1));
  const std::string report = junit_report(verdict, {.failing = {output::Change::gone}});
  CHECK_THAT(report, Catch::Contains("tests=\"2\" failures=\"1\" errors=\"0\""));
  CHECK_THAT(report, Catch::Contains("name=\"a&lt;b&gt;&amp;&quot;\""));
  CHECK_THAT(report, Catch::Contains("<system-out>'c' moved from 0x10 to 0x20"));
}

TEST_CASE("annotations escape text and properties") {
  output::Verdict verdict;
  verdict.add(finding(output::Change::gone, "a%\r\n:,", 0));
  const std::string text =
      github_annotations(verdict, {.failing = {output::Change::gone}, .record = "r:1,2%.jsonl"});
  CHECK_THAT(text, Catch::StartsWith("::error file=r%3A1%2C2%25.jsonl,line=1,title=gone::x.so: "
                                     "'a%25%0D%0A:,' is gone; it was at 0x10\n"));
}

TEST_CASE("a comment keeps to the size that is accepted") {
  output::Verdict verdict;
  for (int i = 0; i < 2000; ++i) {
    output::Finding gone = finding(output::Change::gone, "f", static_cast<std::size_t>(i));
    gone.target = "lib" + std::to_string(i) + std::string(100, 'x') + ".so";
    verdict.add(std::move(gone));
  }
  const std::string comment = markdown_comment(verdict, {});
  CHECK(comment.size() <= max_comment_size);
  CHECK_THAT(comment, Catch::Contains("more libraries have changes"));
}

} // namespace uprobectl::verify
