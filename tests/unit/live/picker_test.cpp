// SPDX-License-Identifier: Apache-2.0
#include "live/picker.hpp"

#include "output/text_table.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace uprobectl::live {

namespace {

PickerList some_list() {
  PickerList list{.title = "process 7",
                  .files = {{.path = "/lib/libshop.so", .typed = "/lib/libshop.so"},
                            {.path = "/lib/libc.so.6", .typed = "/lib/libc.so.6"}}};
  const auto add = [&](std::string name, std::size_t file, bool is_static = false) {
    list.candidates.push_back({.name = name, .typed = name, .file = file, .is_static = is_static});
  };
  add("shop:sold", 0, true);
  add("shop::Cart::add(int)", 0);
  add("shop::Cart::total()", 0);
  add("malloc", 1);
  return list;
}

void type(Picker& picker, std::string_view text) {
  for (const char each : text) picker.press({.text = std::string(1, each)});
}

std::vector<std::string> lines_of(Picker& picker, Size size = {.rows = 10, .columns = 80}) {
  std::vector<std::string> lines;
  for (const Line& line : picker.draw(size, "uprobectl attach --live x y")) {
    lines.emplace_back();
    for (const Piece& piece : line) lines.back() += piece.text;
    while (lines.back().ends_with(' ')) lines.back().pop_back();
  }
  return lines;
}

} // namespace

TEST_CASE("the list has the static probes of a file first") {
  Picker picker(some_list());
  const auto lines = lines_of(picker);
  REQUIRE(lines.size() == 10);
  CHECK(lines[0] == "process 7");
  CHECK(lines[1] == "> _  4 of 4");
  CHECK(lines[2] == "  libshop.so           usdt shop:sold");
  CHECK(lines[3] == "  libshop.so                shop::Cart::add(int)");
  CHECK(lines[5] == "  libc.so.6                 malloc");
  CHECK(lines[8] == "/lib/libshop.so");
}

TEST_CASE("all typed words are searched in names and in those of files") {
  Picker picker(some_list());
  type(picker, "CART int");
  CHECK(lines_of(picker)[1] == "> CART int_  1 of 4");
  picker.press({.key = Key::clear_line});
  type(picker, "libc m");
  CHECK(lines_of(picker)[2] == "  libc.so.6                 malloc");
  type(picker, "x");
  CHECK(lines_of(picker)[2] == "  nothing has this name");
  picker.press({.key = Key::enter});
  CHECK(picker.step() == Picker::Step::list);
  picker.press({.key = Key::backspace});
  CHECK(lines_of(picker)[1] == "> libc m_  1 of 4");
}

TEST_CASE("the command is shown before it is chosen") {
  Picker picker(some_list());
  type(picker, "total");
  CHECK(picker.press({.key = Key::enter}) == Picker::Step::confirm);
  CHECK(picker.choice() == Choice{2});
  CHECK(lines_of(picker)[3] == "uprobectl attach --live x y");
  CHECK(picker.press({.key = Key::escape}) == Picker::Step::list);
  picker.press({.key = Key::enter});
  CHECK(picker.press({.key = Key::enter}) == Picker::Step::chosen);
}

TEST_CASE("several are marked, and those of another kind are left out") {
  Picker picker(some_list());
  picker.press({.key = Key::down});
  picker.press({.key = Key::mark});
  picker.press({.key = Key::down});
  picker.press({.key = Key::mark});
  CHECK(lines_of(picker)[1] == "> _  4 of 4  2 marked");
  CHECK(lines_of(picker)[3] == "+ libshop.so                shop::Cart::add(int)");
  picker.press({.key = Key::enter});
  CHECK(picker.choice() == Choice{1, 3});
  picker.press({.key = Key::escape});
  picker.press({.key = Key::home});
  picker.press({.key = Key::mark});
  picker.press({.key = Key::enter});
  CHECK(picker.choice() == Choice{0});
}

TEST_CASE("Escape clears the text, then leaves") {
  Picker picker(some_list());
  type(picker, "q");
  CHECK(picker.press({.key = Key::escape}) == Picker::Step::list);
  CHECK(picker.press({.key = Key::escape}) == Picker::Step::left);
}

TEST_CASE("a list of any size fits the screen, with the cursor in it") {
  PickerList list = some_list();
  for (int i = 0; i < 500; ++i)
    list.candidates.push_back({.name = "f" + std::to_string(i) + "\x1b[2J", .file = 1});
  Picker picker(std::move(list));
  for (const std::size_t rows : {1U, 3U, 5U, 24U})
    for (const std::size_t columns : {1U, 10U, 40U, 80U, 200U})
      for (const Key key : {Key::end, Key::page_up, Key::up, Key::home}) {
        picker.press({.key = key});
        const auto lines = lines_of(picker, {.rows = rows, .columns = columns});
        CHECK(lines.size() <= rows);
        for (const std::string& line : lines) {
          CHECK(output::display_width(line) <= columns);
          CHECK(std::ranges::all_of(line, [](char each) { return each != '\x1b'; }));
        }
      }
  picker.press({.key = Key::end});
  const auto lines = lines_of(picker);
  CHECK(lines[7].contains(" f499"));
}

} // namespace uprobectl::live
