// SPDX-License-Identifier: Apache-2.0
#include "made_run.hpp"

#include <catch2/catch.hpp>
#include <clocale>
#include <fmt/format.h>

namespace uprobectl::live {

namespace {

std::string text_of_line(const Line& line) {
  std::string text;
  for (const Piece& piece : line) text += piece.text;
  return text;
}

std::vector<std::string> lines_of(const Screen& screen) {
  std::vector<std::string> lines;
  for (const Line& line : screen) {
    lines.push_back(text_of_line(line));
    while (lines.back().ends_with(' ')) lines.back().pop_back();
  }
  return lines;
}

bool any_contains(const std::vector<std::string>& lines, std::string_view text) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(text); });
}

RunStatus status_of(std::string title) {
  RunStatus status;
  status.title = std::move(title);
  status.uses_unicode = false;
  return status;
}

void fill(MadeRun& run, std::size_t functions) {
  for (std::size_t i = 0; i < functions; ++i)
    for (std::size_t k = 0; k <= functions - i; ++k)
      run.call(fmt::format("ns::function_{}(int)", i), 1000 + k, 1500);
  run.advance(2000);
}

} // namespace

TEST_CASE("a screen of any size has as many rows and columns at most") {
  MadeRun run;
  fill(run, 60);
  for (const std::size_t rows : {1U, 2U, 3U, 5U, 6U, 10U, 19U, 20U, 24U, 40U, 200U})
    for (const std::size_t columns : {1U, 5U, 17U, 40U, 80U, 120U, 300U})
      for (const Page page : {Page::functions, Page::details, Page::help, Page::output}) {
        ViewState state;
        state.selected = 0;
        state.page = page;
        RunStatus status = status_of("uprobectl attach --live libf.so 'ns::*'");
        status.message = std::string(400, 'm');
        const Screen screen = draw(run.model, state, status, {.rows = rows, .columns = columns});
        INFO(rows << " x " << columns << ", page " << static_cast<int>(page));
        CHECK(screen.size() <= std::max<std::size_t>(rows, 1));
        for (const Line& line : screen) CHECK(columns_of(text_of_line(line)) <= columns);
      }
}

TEST_CASE("80 x 24: totals, the table, and the details of the first function") {
  MadeRun run;
  for (const char* const name : {"open", "close"}) run.probe(run.point(name));
  for (std::uint64_t i = 0; i < 4; ++i) run.call("open", 1000 + i, 1500);
  run.call("close", 1000, 900);
  run.advance(2000);
  run.model.add(output::LostRecord{.count = 2, .reason = "ring buffer full"});
  ViewState state;
  RunStatus status = status_of("uprobectl attach --live libf.so open close");
  status.duration_ns = 10'000'000'000;
  status.message = "a message";
  const auto lines = lines_of(draw(run.model, state, status, {.rows = 24, .columns = 80}));
  REQUIRE(lines.size() == 24);
  CHECK(lines[0] ==
        "uprobectl attach --live libf.so open close                             2s of 10s");
  CHECK(lines[1] == "5/s  5 events  2 lost  2 of 2 hit");
  CHECK(lines[2] == "RATE/s*  HITS     P50     P99   ERR HISTORY        FUNCTION");
  CHECK(lines[3] == "      4     4   1.5us   1.5us     -              # open");
  CHECK(lines[4] == "      1     1   900ns   900ns     -              # close");
  CHECK(lines[5] == "open (libf.so)  4 hits  p50 1.5us  p99 1.5us  max 1.5us");
  CHECK(lines[6] == "stacks: none, as the run was started without --stack");
  CHECK(lines[7] == "last events");
  CHECK(lines[8].ends_with(" 7 app = 0x0 1.5us"));
  CHECK(lines[22] == "a message");
  CHECK(lines[23] == "q quit  / filter  s sort  Enter details  p pause  w write  r reset  ? help");
}

TEST_CASE("40 x 10: only the columns that fit beside the names") {
  MadeRun run;
  fill(run, 8);
  ViewState state;
  const auto lines = lines_of(draw(run.model, state, status_of("t"), {.rows = 10, .columns = 40}));
  REQUIRE(lines.size() == 10);
  CHECK(lines[2] == "RATE/s*     P50     P99 FUNCTION");
  CHECK(lines[3] == "      9   1.5us   1.5us ns::function_0(i");
  CHECK(lines[7].contains("function_4"));
  CHECK(lines[9] == "q quit  / filter  s sort  ? help");
}

TEST_CASE("the sorted column is shown at every width, or named") {
  MadeRun run;
  fill(run, 8);
  for (const std::size_t columns : {8U, 17U, 25U, 30U, 40U, 60U, 80U, 120U})
    for (const SortColumn sort :
         {SortColumn::rate, SortColumn::hits, SortColumn::p50, SortColumn::p99, SortColumn::max,
          SortColumn::errors, SortColumn::total, SortColumn::name})
      for (const bool ascending : {false, true}) {
        ViewState state;
        state.sort = sort;
        state.ascending = ascending;
        const auto lines =
            lines_of(draw(run.model, state, status_of("t"), {.rows = 10, .columns = columns}));
        INFO(columns << " columns by " << to_string(sort) << ": " << lines[2]);
        CHECK(lines[2].contains(ascending ? '^' : '*'));
      }
  ViewState state;
  state.sort = SortColumn::max;
  const auto lines = lines_of(draw(run.model, state, status_of("t"), {.rows = 10, .columns = 80}));
  CHECK(lines[2] == " RATE/s  HITS     P50     P99    MAX*   ERR HISTORY    FUNCTION");
}

TEST_CASE("the line of the keys is not cut, and always has that of the help") {
  MadeRun run;
  const std::deque<std::string> output;
  RunStatus status = status_of("t");
  status.output = &output;
  const auto last_line = [&](std::size_t columns) {
    ViewState state;
    return lines_of(draw(run.model, state, status, {.rows = 24, .columns = columns})).back();
  };
  CHECK(last_line(80) ==
        "q quit  / filter  s sort  o output  Enter details  p pause  w write  ? help");
  CHECK(last_line(100) ==
        "q quit  / filter  s sort  o output  Enter details  p pause  w write  r reset  ? help");
  CHECK(last_line(24) == "q quit  / filter  ? help");
}

TEST_CASE("wide characters count twice") {
  REQUIRE(std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr);
  CHECK(columns_of("ab") == 2);
  CHECK(columns_of("\u6f22\u5b57") == 4);
  CHECK(columns_of("e\u0301") == 1); // a combining accent
  CHECK(clipped("\u6f22\u5b57", 3) == "\u6f22");
  CHECK(to_left("\u6f22\u5b57", 3) == "\u6f22 ");
  MadeRun run;
  std::string title;
  for (int i = 0; i < 60; ++i) title += "\u6f22";
  ViewState state;
  state.paused = true;
  const Screen screen = draw(run.model, state, status_of(title), {.rows = 24, .columns = 80});
  const std::string header = text_of_line(screen[0]);
  std::setlocale(LC_CTYPE, "C");
  CHECK(header.ends_with("PAUSED  0s"));
  CHECK(header.starts_with(title.substr(0, std::size_t{34} * 3)));
}

TEST_CASE("details of a function that was not among the last ones begin with its next hit") {
  MadeRun run;
  for (std::size_t i = 0; i <= Model::max_detailed; ++i) run.call(fmt::format("f{}", i), i);
  ViewState state;
  state.selected = 0;
  state.page = Page::details;
  const Size size{.rows = 24, .columns = 80};
  CHECK(lines_of(draw(run.model, state, status_of("t"), size))[3] ==
        "details begin with the next hit");
  MadeRun counted(true);
  counted.count("f", 3, 0, 1000);
  CHECK(lines_of(draw(counted.model, state, status_of("t"), size))[3] ==
        "hits are only counted: they have no details");
}

TEST_CASE("the table scrolls with the selected function") {
  MadeRun run;
  fill(run, 30);
  ViewState state;
  const Size size{.rows = 10, .columns = 80};
  static_cast<void>(draw(run.model, state, status_of("t"), size));
  CHECK(state.page_rows == 5);
  for (int i = 0; i < 7; ++i) state.press({.key = Key::down}, run.model);
  CHECK(any_contains(lines_of(draw(run.model, state, status_of("t"), size)), "function_7("));
  state.press({.key = Key::end}, run.model);
  const auto lines = lines_of(draw(run.model, state, status_of("t"), size));
  CHECK(lines[3].contains("function_25("));
  CHECK(lines[7].contains("function_29("));
  state.press({.key = Key::page_up}, run.model);
  CHECK(any_contains(lines_of(draw(run.model, state, status_of("t"), size)), "function_24("));
}

TEST_CASE("details show shares of callers and stacks, the most frequent first") {
  MadeRun run;
  for (const std::uint64_t pc : {0x10, 0x20, 0x20, 0x20}) {
    unwind::Stack stack;
    stack.frames.resize(2);
    stack.frames[0].pc = 0x1;
    stack.frames[1].pc = pc;
    events::Event event = run.hit("f", 1);
    event.stack = &stack;
    run.model.add(event);
  }
  ViewState state;
  state.selected = 0;
  state.page = Page::details;
  const auto lines = lines_of(draw(run.model, state, status_of("t"), {.rows = 30, .columns = 80}));
  CHECK(lines[3] == "callers");
  CHECK(lines[4] == "   75% 0x20");
  CHECK(lines[5] == "   25% 0x10");
  CHECK(lines[6] == "stacks");
  CHECK(lines[7] == "   75% of 4 hits");
  CHECK(lines[8] == "    #0 0x1");
  CHECK(lines[9] == "    #1 0x20");
  CHECK(lines[10] == "   25% of 4 hits");
}

TEST_CASE("names cannot move the cursor") {
  MadeRun run;
  run.call("a\x1b[2J", 1);
  events::Event event = run.hit("g", 1);
  event.comm = "\x1b[1m\n";
  run.model.add(event);
  ViewState state;
  state.selected = 1;
  for (const std::string& line :
       lines_of(draw(run.model, state, status_of("\x1b]0;x"), {.rows = 24, .columns = 80})))
    for (const char each : line) CHECK(static_cast<unsigned char>(each) >= ' ');
}

TEST_CASE("a sparkline shows heights, and blanks where there is nothing") {
  using Heights = std::vector<std::optional<std::uint64_t>>;
  CHECK(sparkline(Heights{0, 7, std::nullopt, 3}, true) == "▁█ ▄");
  CHECK(sparkline(Heights{0, 7, std::nullopt, 3}, false) == "_# :");
  CHECK(sparkline(Heights{UINT64_MAX, 0}, false) == "#_");
  CHECK(sparkline(Heights{0, 0}, false) == "__");
  CHECK(sparkline({}, true).empty());
}

TEST_CASE("counts have at most four characters") {
  CHECK(short_count(0) == "0");
  CHECK(short_count(9999) == "9999");
  CHECK(short_count(10'000) == "10k");
  CHECK(short_count(999'499) == "999k");
  CHECK(short_count(999'500) == "1.0M");
  CHECK(short_count(1'234'567) == "1.2M");
  CHECK(short_count(UINT64_MAX) == "18E");
}

TEST_CASE("the text of a run ignores the filter, and tells of a reset") {
  MadeRun run;
  fill(run, 5);
  ViewState state;
  state.filter = "function_3";
  for (const bool has_all : {false, true}) {
    const std::string text = text_of(run.model, state, status_of("t"), has_all);
    for (int i = 0; i < 5; ++i) CHECK(text.contains(fmt::format("ns::function_{}(int)\n", i)));
    CHECK(!text.contains("reset"));
  }
  run.model.reset();
  run.call("f", 3000);
  CHECK(text_of(run.model, state, status_of("t"), false)
            .contains("1 event since the reset at " + run.model.reset_time() + ", 0 lost"));
  const auto lines = lines_of(draw(run.model, state, status_of("t"), {.rows = 10, .columns = 80}));
  CHECK(lines[1].contains("  since " + run.model.reset_time()));
}

TEST_CASE("the text of a run has all functions, and the details on request") {
  MadeRun run;
  fill(run, 80);
  ViewState state;
  state.selected = 0;
  const std::string all = text_of(run.model, state, status_of("t"), true);
  CHECK(all.contains("ns::function_79(int)\n"));
  CHECK(all.contains("last events"));
  const std::string result = text_of(run.model, state, status_of("t"), false);
  CHECK(!result.contains("last events"));
  CHECK(!result.contains("function_79"));
  CHECK(result.contains("and 30 more functions\n"));
}

} // namespace uprobectl::live
