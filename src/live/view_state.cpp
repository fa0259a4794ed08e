// SPDX-License-Identifier: Apache-2.0
#include "live/view_state.hpp"

#include "util/text.hpp"

#include <algorithm>

namespace uprobectl::live {

namespace {

constexpr std::size_t max_filter = 200; // bytes

constexpr std::string_view column_names[] = {"rate", "hits",   "p50",   "p99",
                                             "max",  "errors", "total", "name"};

std::uint64_t to_unsigned(std::int64_t number) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
}

std::uint64_t number_in(const Row& row, SortColumn column) {
  switch (column) {
  case SortColumn::rate:
    return row.rate;
  case SortColumn::hits:
    return row.hits;
  case SortColumn::p50:
    return to_unsigned(events::percentile(row.measured, 50).value_or(0));
  case SortColumn::p99:
    return to_unsigned(events::percentile(row.measured, 99).value_or(0));
  case SortColumn::max:
    return to_unsigned(row.measured.count > 0 ? row.measured.max : 0);
  case SortColumn::errors:
    return row.errors.value_or(0);
  case SortColumn::total:
    return row.measured.total;
  case SortColumn::name:
    break;
  }
  return 0;
}

} // namespace

void remove_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

std::string_view to_string(SortColumn column) {
  return column_names[static_cast<std::size_t>(column)];
}

std::vector<std::size_t> visible_rows(const Model& model, const ViewState& state) {
  const std::vector<Row>& rows = model.rows();
  const std::string wanted = lower_case(state.filter);
  struct Sorted {
    std::uint64_t number = 0;
    std::size_t row = 0;
  };
  std::vector<Sorted> sorted;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (wanted.empty() || lower_case(rows[i].name).contains(wanted) ||
        lower_case(rows[i].file).contains(wanted))
      sorted.push_back({.number = number_in(rows[i], state.sort), .row = i});
  const auto precedes = [&](const Sorted& one, const Sorted& other) {
    if (state.sort == SortColumn::name) return rows[one.row].name < rows[other.row].name;
    return one.number > other.number;
  };
  std::ranges::sort(sorted, [&](const Sorted& one, const Sorted& other) {
    if (precedes(one, other)) return !state.ascending;
    if (precedes(other, one)) return state.ascending;
    return one.row < other.row;
  });
  std::vector<std::size_t> numbers;
  numbers.reserve(sorted.size());
  for (const Sorted& each : sorted) numbers.push_back(each.row);
  return numbers;
}

void ViewState::change_sort(int step) {
  constexpr int count = std::size(column_names);
  sort = static_cast<SortColumn>((static_cast<int>(sort) + step + count) % count);
}

void ViewState::show(Page wanted) {
  page = page == wanted ? Page::functions : wanted;
  top = 0;
}

void ViewState::edit_filter(const KeyPress& press) {
  switch (press.key) {
  case Key::enter:
    edits_filter = false;
    break;
  case Key::escape:
    edits_filter = false;
    filter = filter_before;
    break;
  case Key::backspace:
    remove_last_character(filter);
    break;
  case Key::clear_line:
    filter.clear();
    break;
  case Key::text:
    if (filter.size() + press.text.size() <= max_filter && is_printable_text(press.text))
      filter += press.text;
    break;
  case Key::up:
  case Key::down:
  case Key::page_up:
  case Key::page_down:
  case Key::home:
  case Key::end:
  case Key::redraw:
  case Key::mark:
    break;
  }
}

// The row is selected, not its position: it stays selected where it moves to. Pages of text are
// scrolled; draw() bounds `top`.
void ViewState::move(const KeyPress& press, const Model& model) {
  const auto step = static_cast<std::ptrdiff_t>(std::max<std::size_t>(page_rows, 1));
  std::ptrdiff_t by = 0;
  switch (press.key) {
  case Key::up:
    by = -1;
    break;
  case Key::down:
    by = 1;
    break;
  case Key::page_up:
    by = -step;
    break;
  case Key::page_down:
    by = step;
    break;
  case Key::home:
    by = -static_cast<std::ptrdiff_t>(Model::max_rows);
    break;
  case Key::end:
    by = static_cast<std::ptrdiff_t>(Model::max_rows);
    break;
  case Key::enter:
  case Key::escape:
  case Key::backspace:
  case Key::clear_line:
  case Key::redraw:
  case Key::mark:
  case Key::text:
    return;
  }
  if (page != Page::functions) {
    top = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
        static_cast<std::ptrdiff_t>(top) + by, 0, static_cast<std::ptrdiff_t>(Model::max_rows)));
    return;
  }
  const std::vector<std::size_t> rows = visible_rows(model, *this);
  if (rows.empty()) return;
  const auto at = std::ranges::find(rows, selected);
  const std::ptrdiff_t index = at == rows.end() ? 0 : at - rows.begin() + by;
  selected = rows[static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(index, 0, static_cast<std::ptrdiff_t>(rows.size()) - 1))];
}

Action ViewState::press_letter(char letter) {
  switch (letter) {
  case 'q':
    return Action::quit;
  case 'w':
    return Action::write;
  case 'r':
    return Action::reset;
  case 'p':
  case ' ':
    return Action::pause;
  case 's':
  case '>':
    change_sort(1);
    break;
  case '<':
    change_sort(-1);
    break;
  case 'S':
    ascending = !ascending;
    break;
  case '/':
    page = Page::functions;
    edits_filter = true;
    filter_before = filter;
    break;
  case 'o':
    show(Page::output);
    break;
  case 'h':
  case '?':
    show(Page::help);
    break;
  default:
    break;
  }
  return Action::none;
}

Action ViewState::press(const KeyPress& press, const Model& model) {
  if (press.key == Key::redraw) return Action::redraw;
  if (edits_filter &&
      (press.key == Key::text || press.key == Key::enter || press.key == Key::escape ||
       press.key == Key::backspace || press.key == Key::clear_line)) {
    edit_filter(press);
    return Action::none;
  }
  if (press.key == Key::enter) {
    if (page == Page::functions && selected != none) show(Page::details);
  } else if (press.key == Key::escape || press.key == Key::backspace) {
    if (page == Page::functions && press.key == Key::escape) filter.clear();
    page = Page::functions;
    top = 0;
  } else if (press.text == "j" || press.text == "k") {
    move({.key = press.text == "j" ? Key::down : Key::up}, model);
  } else if (press.key == Key::text) {
    if (press.text.size() == 1) return press_letter(press.text.front());
  } else {
    move(press, model);
  }
  return Action::none;
}

} // namespace uprobectl::live
