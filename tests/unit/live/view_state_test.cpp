// SPDX-License-Identifier: Apache-2.0
#include "made_run.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::live {

namespace {

// Calls of `often`, then fewer of `slow` and of `rare`.
void fill(MadeRun& run) {
  for (std::uint64_t i = 0; i < 9; ++i) run.call("often", 1000 + i, 100);
  for (std::uint64_t i = 0; i < 3; ++i) run.call("slow", 1000 + i, 9000);
  run.call("rare", 1000, 500);
  run.advance(2000);
}

std::vector<std::string> names(const Model& model, const ViewState& state) {
  std::vector<std::string> names;
  for (const std::size_t each : visible_rows(model, state))
    names.push_back(model.rows()[each].name);
  return names;
}

using RowNames = std::vector<std::string>;

Action type(ViewState& state, const Model& model, std::string_view text) {
  Action last = Action::none;
  for (const char each : text) last = state.press({.text = std::string(1, each)}, model);
  return last;
}

std::string selected(const ViewState& state, const Model& model) {
  return model.rows().at(state.selected).name;
}

} // namespace

TEST_CASE("rows are sorted by a column, in both directions") {
  MadeRun run;
  fill(run);
  ViewState state;
  CHECK(names(run.model, state) == RowNames{"often", "slow", "rare"});
  type(state, run.model, "S");
  CHECK(names(run.model, state) == RowNames{"rare", "slow", "often"});
  type(state, run.model, "S>>>");
  CHECK(to_string(state.sort) == "p99");
  CHECK(names(run.model, state) == RowNames{"slow", "rare", "often"});
  type(state, run.model, "<<<<");
  CHECK(to_string(state.sort) == "name");
  CHECK(names(run.model, state) == RowNames{"often", "rare", "slow"});
  type(state, run.model, "s");
  CHECK(to_string(state.sort) == "rate");
}

TEST_CASE("a filter is typed, kept or given up") {
  MadeRun run;
  fill(run);
  ViewState state;
  type(state, run.model, "/Rq");
  CHECK(state.edits_filter);
  CHECK(names(run.model, state).empty());
  state.press({.key = Key::backspace}, run.model);
  CHECK(names(run.model, state) == RowNames{"rare"});
  state.press({.key = Key::enter}, run.model);
  CHECK(!state.edits_filter);
  CHECK(type(state, run.model, "q") == Action::quit);
  type(state, run.model, "/xx");
  state.press({.key = Key::escape}, run.model);
  CHECK(state.filter == "R");
  state.press({.key = Key::escape}, run.model);
  CHECK(state.filter.empty());
  type(state, run.model, "/LIBF");
  CHECK(names(run.model, state).size() == 3); // of the file
}

TEST_CASE("a filter has no end of the line and a bounded length") {
  MadeRun run;
  ViewState state;
  type(state, run.model, "/" + std::string(1000, 'a'));
  CHECK(state.filter.size() == 200);
  state.press({.key = Key::clear_line}, run.model);
  state.press({.text = "\x1b"}, run.model);
  state.press({.text = "\xc3\xa4"}, run.model);
  state.press({.text = "b"}, run.model);
  state.press({.key = Key::backspace}, run.model);
  CHECK(state.filter == "\xc3\xa4");
  state.press({.key = Key::backspace}, run.model);
  CHECK(state.filter.empty());
}

TEST_CASE("the selected function stays selected where it moves to") {
  MadeRun run;
  fill(run);
  ViewState state;
  state.selected = visible_rows(run.model, state).front();
  state.press({.key = Key::down}, run.model);
  CHECK(selected(state, run.model) == "slow");
  for (std::uint64_t i = 0; i < 50; ++i) run.call("rare", 2000 + i);
  run.advance(3000);
  CHECK(names(run.model, state) == RowNames{"rare", "often", "slow"});
  CHECK(selected(state, run.model) == "slow");
  state.press({.key = Key::up}, run.model);
  state.press({.key = Key::up}, run.model);
  state.press({.key = Key::up}, run.model);
  CHECK(selected(state, run.model) == "rare");
  state.press({.key = Key::end}, run.model);
  CHECK(selected(state, run.model) == "slow");
  type(state, run.model, "k");
  CHECK(selected(state, run.model) == "often");
}

TEST_CASE("Enter shows details, Escape goes back") {
  MadeRun run;
  fill(run);
  ViewState state;
  state.press({.key = Key::enter}, run.model);
  CHECK(state.page == Page::functions); // nothing is selected
  state.selected = 0;
  state.press({.key = Key::enter}, run.model);
  CHECK(state.page == Page::details);
  state.press({.key = Key::down}, run.model);
  CHECK(state.top == 1);
  CHECK(state.selected == 0);
  state.press({.key = Key::escape}, run.model);
  CHECK(state.page == Page::functions);
  type(state, run.model, "?");
  CHECK(state.page == Page::help);
  type(state, run.model, "?");
  CHECK(state.page == Page::functions);
}

TEST_CASE("letters ask for actions") {
  MadeRun run;
  ViewState state;
  CHECK(type(state, run.model, "w") == Action::write);
  CHECK(type(state, run.model, "r") == Action::reset);
  CHECK(type(state, run.model, "p") == Action::pause);
  CHECK(type(state, run.model, " ") == Action::pause);
  CHECK(type(state, run.model, "x") == Action::none);
  CHECK(state.press({.key = Key::redraw}, run.model) == Action::redraw);
}

} // namespace uprobectl::live
