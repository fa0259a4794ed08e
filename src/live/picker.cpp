// SPDX-License-Identifier: Apache-2.0
#include "live/picker.hpp"

#include "output/format.hpp"
#include "uprobectl/path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace uprobectl::live {

namespace {

constexpr std::size_t max_query = 200; // bytes
constexpr std::size_t max_marked = 100;

// Breaks the text at blanks.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!lines.back().empty() && columns_of(lines.back()) + columns_of(word) + 1 > columns)
      lines.emplace_back("    ");
    else if (!lines.back().empty())
      lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

} // namespace

Picker::Picker(PickerList list) : list_(std::move(list)) {
  lower_.reserve(list_.candidates.size());
  for (const Candidate& each : list_.candidates) lower_.push_back(lower_case(each.name));
  search();
}

// A candidate has all words of the query in its name, or in that of its file.
void Picker::search() {
  std::vector<std::string> words;
  const std::string query = lower_case(query_);
  for (std::string_view rest = trimmed(query); !rest.empty(); rest = trimmed(rest)) {
    const auto end = std::min(rest.find(' '), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  std::vector<std::string> files;
  files.reserve(list_.files.size());
  for (const ListedFile& each : list_.files) files.push_back(lower_case(file_name_of(each.path)));
  matches_.clear();
  for (std::size_t i = 0; i < lower_.size(); ++i)
    if (std::ranges::all_of(words, [&](const std::string& word) {
          return lower_[i].contains(word) || files[list_.candidates[i].file].contains(word);
        }))
      matches_.push_back(i);
  cursor_ = top_ = 0;
}

void Picker::mark() {
  if (cursor_ >= matches_.size()) return;
  const std::size_t candidate = matches_[cursor_];
  if (marked_.erase(candidate) == 0 && marked_.size() < max_marked) marked_.insert(candidate);
  if (cursor_ + 1 < matches_.size()) ++cursor_;
}

// The marked ones, else that at the cursor. One run has functions or static probes.
void Picker::choose() {
  choice_.assign(marked_.begin(), marked_.end());
  if (choice_.empty() && cursor_ < matches_.size()) choice_ = {matches_[cursor_]};
  if (choice_.empty()) return;
  const bool is_static = list_.candidates[choice_.front()].is_static;
  std::erase_if(choice_,
                [&](std::size_t each) { return list_.candidates[each].is_static != is_static; });
  step_ = Step::confirm;
}

Picker::Step Picker::press(const KeyPress& press) {
  if (step_ == Step::confirm) {
    if (press.key == Key::enter) step_ = Step::chosen;
    if (press.key == Key::escape || press.key == Key::backspace) step_ = Step::list;
    return step_;
  }
  const auto move = [&](std::size_t to) {
    cursor_ = std::min(to, matches_.size() - std::min<std::size_t>(matches_.size(), 1));
  };
  switch (press.key) {
  case Key::up:
    move(cursor_ - std::min<std::size_t>(cursor_, 1));
    break;
  case Key::down:
    move(cursor_ + 1);
    break;
  case Key::page_up:
    move(cursor_ - std::min(cursor_, page_rows_));
    break;
  case Key::page_down:
    move(cursor_ + page_rows_);
    break;
  case Key::home:
    move(0);
    break;
  case Key::end:
    move(matches_.size());
    break;
  case Key::enter:
    choose();
    break;
  case Key::escape:
    if (query_.empty()) step_ = Step::left;
    query_.clear();
    search();
    break;
  case Key::backspace:
    remove_last_character(query_);
    search();
    break;
  case Key::clear_line:
    query_.clear();
    search();
    break;
  case Key::mark:
    mark();
    break;
  case Key::text:
    if (query_.size() + press.text.size() > max_query || !is_printable_text(press.text)) break;
    query_ += press.text;
    search();
    break;
  case Key::redraw:
    break;
  }
  return step_;
}

Line Picker::row_of(std::size_t match, std::size_t columns) const {
  constexpr std::size_t file_columns = 20;
  const std::size_t index = matches_[match];
  const Candidate& each = list_.candidates[index];
  std::string text = fmt::format("{} ", marked_.contains(index) ? '+' : ' ');
  if (columns >= 3 * file_columns)
    text +=
        to_left(output::printable(file_name_of(list_.files[each.file].path)), file_columns) + ' ';
  text += fmt::format("{} {}", each.is_static ? "usdt" : "    ", output::printable(each.name));
  if (!each.note.empty()) text += "  " + output::printable(each.note);
  const Look look = match == cursor_ ? Look::selected : each.is_static ? Look::strong : Look::plain;
  return {{.text = to_left(text, columns), .look = look}};
}

Screen Picker::draw(const Size& size, std::string_view command) {
  constexpr std::size_t frame_rows = 4;
  const std::size_t columns = std::max<std::size_t>(size.columns, 1);
  const std::size_t height = size.rows > frame_rows ? size.rows - frame_rows : 1;
  Screen screen;
  screen.push_back(
      {{.text = to_left(output::printable(list_.title), columns), .look = Look::title}});
  std::string keys = "type to search  up/down  Tab mark  Enter choose  Esc leave";
  if (step_ == Step::confirm) {
    screen.push_back({{.text = "this is the command:"}});
    screen.emplace_back();
    for (const std::string& line :
         wrapped(output::printable(command), columns - std::min<std::size_t>(columns, 1)))
      screen.push_back({{.text = line, .look = Look::strong}});
    keys = "Enter run it  Esc back";
  } else {
    std::string found = fmt::format("{} of {}", matches_.size(), list_.candidates.size());
    if (list_.omitted > 0) found += fmt::format(" ({} more are not listed)", list_.omitted);
    if (!marked_.empty()) found += fmt::format("  {} marked", marked_.size());
    screen.push_back({{.text = "> " + query_ + "_  ", .look = Look::strong}, {.text = found}});
    page_rows_ = height;
    top_ = std::min(top_, cursor_);
    if (cursor_ >= top_ + height) top_ = cursor_ + 1 - height;
    for (std::size_t i = top_; i < std::min(matches_.size(), top_ + height); ++i)
      screen.push_back(row_of(i, columns));
    if (matches_.empty())
      screen.push_back({{.text = "  nothing has this name", .look = Look::dim}});
  }
  screen.resize(std::min(screen.size(), height + 2));
  screen.resize(height + 2);
  if (step_ == Step::list && cursor_ < matches_.size()) {
    const ListedFile& file = list_.files[list_.candidates[matches_[cursor_]].file];
    const std::string note = file.note.empty() ? "" : ": " + file.note;
    screen.push_back({{.text = output::printable(file.path + note), .look = Look::dim}});
  } else {
    screen.emplace_back();
  }
  screen.push_back({{.text = to_left(keys, columns), .look = Look::title}});
  if (screen.size() > size.rows) screen.resize(size.rows);
  for (Line& line : screen) cut(line, columns);
  return screen;
}

} // namespace uprobectl::live
