// SPDX-License-Identifier: Apache-2.0
// What the user has chosen to see in the live view, and what keys change of it.
#pragma once

#include "live/model.hpp"

#include <string>

namespace uprobectl::live {

enum class Key : std::uint8_t {
  up,
  down,
  page_up,
  page_down,
  home,
  end,
  enter,
  escape,
  backspace,
  clear_line, // ctrl-u
  redraw,     // ctrl-l
  mark,       // Tab
  text,       // a character
};

struct KeyPress {
  Key key = Key::text;
  std::string text = {}; // of Key::text: one character as UTF-8
};

enum class SortColumn : std::uint8_t { rate, hits, p50, p99, max, errors, total, name };
std::string_view to_string(SortColumn column); // "rate"

// The action that a key requests, besides changes of the view.
enum class Action : std::uint8_t { none, quit, write, reset, pause, redraw };

// The page that fills the screen.
enum class Page : std::uint8_t { functions, details, help, output };

struct ViewState {
  static constexpr std::size_t none = SIZE_MAX;

  Page page = Page::functions;
  SortColumn sort = SortColumn::rate;
  bool ascending = false; // of names: descending
  std::string filter = {};
  bool edits_filter = false;
  std::string filter_before = {}; // while it is edited, for Escape
  std::size_t selected = none;    // number of the row
  std::size_t top = 0;            // index of the first row, or line, that is shown
  bool paused = false;
  std::size_t page_rows = 1; // by which page keys move; set by draw()

  // Changes what is seen.
  Action press(const KeyPress& press, const Model& model);

private:
  Action press_letter(char letter);
  void edit_filter(const KeyPress& press);
  void move(const KeyPress& press, const Model& model);
  void change_sort(int step);
  void show(Page wanted);
};

// Removes the last character of a typed text.
void remove_last_character(std::string& text);

// Returns the numbers of the rows that pass the filter, in the order in which they are shown: of
// equal ones the first that came is first.
std::vector<std::size_t> visible_rows(const Model& model, const ViewState& state);

} // namespace uprobectl::live
