// SPDX-License-Identifier: Apache-2.0
#include "live/layout.hpp"

#include "output/format.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cwchar>
#include <fmt/format.h>

namespace uprobectl::live {

namespace {

std::size_t columns_of_character(wchar_t character) {
  const int width = ::wcwidth(character);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

} // namespace

wchar_t take_character(std::string_view text, std::size_t& at) {
  const std::size_t length = utf8_length(text, at);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i]));
  };
  std::uint32_t point = length == 0 ? U'?' : byte(0);
  if (length > 1) {
    point &= 0xffU >> (length + 1);
    for (std::size_t i = 1; i < length; ++i) point = point << 6U | (byte(i) & 0x3fU);
  }
  at += std::max<std::size_t>(length, 1);
  return static_cast<wchar_t>(point);
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();)
    columns += columns_of_character(take_character(text, at));
  return columns;
}

std::string clipped(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size(); end = at) {
    const std::size_t width = columns_of_character(take_character(text, at));
    if (width > columns) break;
    columns -= width;
  }
  return std::string(text.substr(0, end));
}

std::string to_left(std::string_view text, std::size_t columns) {
  std::string padded = clipped(text, columns);
  padded.append(columns - std::min(columns, columns_of(padded)), ' ');
  return padded;
}

void cut(Line& line, std::size_t columns) {
  std::size_t left = columns;
  for (Piece& piece : line) {
    piece.text = clipped(piece.text, left);
    left -= std::min(left, columns_of(piece.text));
  }
}

namespace {

constexpr std::size_t min_rows_with_details = 20; // of the screen, below the functions
constexpr std::size_t max_columns_of_text = 100;  // of a table without a screen

std::string to_right(std::string_view text, std::size_t columns) {
  const std::string fitting = clipped(text, columns);
  return std::string(columns - std::min(columns, columns_of(fitting)), ' ') + fitting;
}

std::string with_groups(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string seconds_text(std::uint64_t ns) {
  constexpr std::uint64_t second = 1'000'000'000;
  constexpr std::uint64_t minute = 60;
  const std::uint64_t seconds = ns / second;
  if (seconds < 2 * minute) return fmt::format("{}s", seconds);
  return fmt::format("{}m{:02}s", seconds / minute, seconds % minute);
}

std::string measured_text(const Row& row, std::optional<std::int64_t> percentile_or_max) {
  if (row.measured.count == 0) return "-";
  if (!percentile_or_max) return "<0";
  const std::int64_t number = *percentile_or_max;
  if (!row.in_nanoseconds)
    return number < 0 ? std::to_string(number) : short_count(static_cast<std::uint64_t>(number));
  std::string text;
  output::append_short_duration(text,
                                static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0)));
  return text;
}

std::string errors_text(const Row& row) { return row.errors ? short_count(*row.errors) : "-"; }

std::string percent(std::uint64_t part, std::uint64_t all) {
  return fmt::format("{:3.0f}%",
                     all == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(all));
}

// The latencies of the last seconds, or the rates of what has none.
std::string history_of(const Model& model, const Row& row, std::size_t count, bool uses_unicode) {
  std::vector<std::optional<std::uint64_t>> numbers;
  for (const Second& second : model.last_seconds(row, count)) {
    if (row.measured.count == 0)
      numbers.push_back(second.hits > 0 ? std::optional(second.hits) : std::nullopt);
    else
      numbers.push_back(second.p99 ? std::optional(static_cast<std::uint64_t>(
                                         std::max<std::int64_t>(*second.p99, 0)))
                                   : std::nullopt);
  }
  return sparkline(numbers, uses_unicode);
}

// The columns of the table of functions that fit beside the names.
struct TableColumns {
  bool hits = false;
  bool p50 = false;
  bool max = false;
  bool errors = false;
  std::size_t history = 0; // characters
  std::size_t names = 0;

  // The sorted one is among them, but for the total time, which has no column.
  TableColumns(std::size_t columns, SortColumn sort) {
    constexpr std::size_t number = 8; // with the blank before it
    constexpr std::size_t short_number = 6;
    constexpr std::size_t min_names = 16;
    std::size_t left = columns - std::min(columns, 2 * number); // rate and p99
    const auto take = [&](bool& column, std::size_t width) {
      column = left >= min_names + width;
      if (column) left -= width;
    };
    const auto take_sorted = [&](bool& column, SortColumn which, std::size_t width) {
      if (sort != which) return;
      column = true;
      left -= std::min(left, width);
    };
    take_sorted(hits, SortColumn::hits, short_number);
    take_sorted(p50, SortColumn::p50, number);
    take_sorted(max, SortColumn::max, number);
    take_sorted(errors, SortColumn::errors, short_number);
    if (!p50) take(p50, number);
    if (!errors) take(errors, short_number);
    if (!hits) take(hits, short_number);
    if (left >= min_names + 12) history = std::min<std::size_t>((left - min_names) / 2, 40);
    if (history > 0) left -= history + 1;
    if (!max && left >= 40) take(max, number);
    names = left;
  }

  static std::string cell(std::string_view text, std::size_t width) {
    return to_right(text, width - 1) + ' ';
  }

  // `mark`: what stands after the sorted column.
  std::string title(const ViewState& state) const {
    std::string line;
    const auto add = [&](bool shown, SortColumn column, std::string_view text, std::size_t width) {
      if (!shown) return;
      const std::string mark = state.sort == column ? (state.ascending ? "^" : "*") : "";
      line += cell(std::string(text) + mark, width);
    };
    add(true, SortColumn::rate, "RATE/s", 8);
    add(hits, SortColumn::hits, "HITS", 6);
    add(p50, SortColumn::p50, "P50", 8);
    add(true, SortColumn::p99, "P99", 8);
    add(max, SortColumn::max, "MAX", 8);
    add(errors, SortColumn::errors, "ERR", 6);
    if (history > 0) line += to_left("HISTORY", history) + ' ';
    line += "FUNCTION";
    if (state.sort == SortColumn::name) line += state.ascending ? '^' : '*';
    if (state.sort == SortColumn::total)
      line += state.ascending ? " (total time^)" : " (total time*)";
    return line;
  }

  std::string row(const Model& model, const Row& each, bool uses_unicode) const {
    std::string line = cell(short_count(each.rate), 8);
    if (hits) line += cell(short_count(each.hits), 6);
    if (p50) line += cell(measured_text(each, events::percentile(each.measured, 50)), 8);
    line += cell(measured_text(each, events::percentile(each.measured, 99)), 8);
    if (max) line += cell(measured_text(each, each.measured.max), 8);
    if (errors) line += cell(errors_text(each), 6);
    if (history > 0) line += history_of(model, each, history, uses_unicode) + ' ';
    return line + clipped(each.name, names);
  }
};

std::string time_text(const Model& model, const RunStatus& status) {
  if (status.has_ended) return "the run has ended after " + seconds_text(model.since_begin_ns());
  std::string text = seconds_text(model.since_begin_ns());
  if (status.duration_ns) text += " of " + seconds_text(*status.duration_ns);
  return text;
}

// The title of the run, and its time at the right end.
Line header_line(const Model& model, const ViewState& state, const RunStatus& status,
                 std::size_t columns) {
  const std::string time = (state.paused ? "PAUSED  " : "") + time_text(model, status);
  const std::size_t left = columns - std::min(columns, columns_of(time) + 1);
  return {{.text = to_left(output::printable(status.title), left) + ' ', .look = Look::strong},
          {.text = clipped(time, columns), .look = state.paused ? Look::warning : Look::strong}};
}

Line totals_line(const Model& model, const ViewState& state) {
  Line line;
  line.push_back({.text = fmt::format("{}/s  {} events  ", with_groups(model.rate()),
                                      with_groups(model.hits()))});
  line.push_back({.text = fmt::format("{} lost", with_groups(model.lost())),
                  .look = model.lost() > 0 ? Look::warning : Look::plain});
  if (const auto hit = model.probes_hit(); hit && model.probes() > 0)
    line.push_back({.text = fmt::format("  {} of {} hit", *hit, model.probes())});
  if (!model.reset_time().empty()) line.push_back({.text = "  since " + model.reset_time()});
  if (model.omitted_hits() > 0)
    line.push_back(
        {.text = fmt::format("  {} events of further functions", with_groups(model.omitted_hits())),
         .look = Look::warning});
  if (!state.filter.empty() || state.edits_filter)
    line.push_back(
        {.text = "  /" + state.filter + (state.edits_filter ? "_" : ""), .look = Look::strong});
  return line;
}

std::string key_line(const ViewState& state, const RunStatus& status, std::size_t columns) {
  if (state.edits_filter) return "type to filter  Enter: keep it  Esc: as before";
  switch (state.page) {
  case Page::details:
    return "Esc back  up/down scroll  p pause  w write  q quit";
  case Page::help:
  case Page::output:
    return "Esc back  up/down scroll  q quit";
  case Page::functions:
    break;
  }
  // Keys that do not fit are on the page of `?`.
  constexpr std::string_view help = "? help";
  std::string line = "q quit  / filter  ";
  for (const std::string_view key : {"s sort", status.output != nullptr ? "o output" : "",
                                     "Enter details", "p pause", "w write", "r reset"})
    if (!key.empty() && line.size() + key.size() + 2 + help.size() <= columns)
      line.append(key).append("  ");
  return line.append(help);
}

std::string summary_of(const Row& row) {
  std::string text = row.name;
  if (!row.file.empty()) text += fmt::format(" ({})", row.file);
  text += fmt::format("  {} hits", with_groups(row.hits));
  if (row.measured.count > 0)
    text += fmt::format("  p50 {}  p99 {}  max {}",
                        measured_text(row, events::percentile(row.measured, 50)),
                        measured_text(row, events::percentile(row.measured, 99)),
                        measured_text(row, row.measured.max));
  if (row.errors) text += fmt::format("  errors {}", with_groups(*row.errors));
  return text;
}

// Adds the lines of a part of the details: its title, then at most `most` lines and how many more
// there are.
void add_part(std::vector<std::string>& lines, std::string title,
              const std::vector<std::string>& part, std::size_t most) {
  lines.push_back(std::move(title));
  const std::size_t shown =
      part.size() <= most ? part.size() : most - std::min<std::size_t>(most, 1);
  lines.insert(lines.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(shown));
  if (shown < part.size()) lines.push_back(fmt::format("  and {} more", part.size() - shown));
}

// Orders by hits. Of two with the same number, the one that came first has the lower address.
constexpr auto has_more_hits = [](const auto* one, const auto* other) {
  return one->hits != other->hits ? one->hits > other->hits : std::less()(one, other);
};

std::vector<std::string> caller_lines(const Details& details) {
  std::vector<const CountedText*> callers;
  std::uint64_t all = details.other_callers;
  for (const CountedText& each : details.callers) {
    callers.push_back(&each);
    all += each.hits;
  }
  std::ranges::sort(callers, has_more_hits);
  std::vector<std::string> lines;
  lines.reserve(callers.size());
  for (const CountedText* const each : callers)
    lines.push_back(fmt::format("  {} {}", percent(each->hits, all), each->text));
  if (details.other_callers > 0)
    lines.push_back(fmt::format("  {} further callers", percent(details.other_callers, all)));
  return lines;
}

std::vector<std::string> stack_lines(const Details& details) {
  std::vector<const CountedStack*> stacks;
  std::uint64_t all = details.other_stacks;
  for (const CountedStack& each : details.stacks) {
    stacks.push_back(&each);
    all += each.hits;
  }
  std::ranges::sort(stacks, has_more_hits);
  std::vector<std::string> lines;
  for (const CountedStack* const each : stacks) {
    lines.push_back(fmt::format("  {} of {} hits", percent(each->hits, all), with_groups(all)));
    for (std::size_t i = 0; i < each->frames.size(); ++i)
      lines.push_back(fmt::format("    #{} {}", i, each->frames[i]));
  }
  if (details.other_stacks > 0)
    lines.push_back(fmt::format("  {} further stacks", percent(details.other_stacks, all)));
  return lines;
}

// The newest event is the first. `rows`: the lines that there are; the parts share them.
std::vector<std::string> detail_lines(const Model& model, const Row& row, const RunStatus& status,
                                      std::size_t rows) {
  std::vector<std::string> lines;
  const Details* const details = row.details.get();
  if (details == nullptr) {
    lines.emplace_back(row.hits == 0        ? "no hit so far"
                       : model.has_events() ? "details begin with the next hit"
                                            : "hits are only counted: they have no details");
    return lines;
  }
  const auto callers = caller_lines(*details);
  const auto stacks = stack_lines(*details);
  const std::vector<std::string> events = [&] {
    std::vector<std::string> texts;
    texts.reserve(details->events.size());
    for (const std::string& each : details->events) texts.push_back("  " + each);
    std::ranges::reverse(texts);
    return texts;
  }();
  std::size_t left = rows;
  const auto add = [&](std::string title, const auto& part, std::size_t share) {
    if (part.empty() || left < 2) return;
    const std::size_t before = lines.size();
    add_part(lines, std::move(title), part, std::max<std::size_t>(std::min(share, left - 1), 1));
    left -= std::min(left, lines.size() - before);
  };
  add("callers", callers, rows / 4);
  add("stacks", stacks, rows / 3);
  if (stacks.empty() && !status.has_stacks && rows > 12) {
    lines.emplace_back("stacks: none, as the run was started without --stack");
    --left;
  }
  add("last events", events, left);
  return lines;
}

// The function of the details may have no hits yet.
void select_row(const std::vector<std::size_t>& rows, const Model& model, ViewState& state) {
  if (rows.empty() || std::ranges::find(rows, state.selected) != rows.end()) return;
  if (state.selected == ViewState::none && model.hits() == 0) return; // the first with hits
  state.selected = rows.front();
}

void add_table(Screen& screen, const Model& model, ViewState& state, const RunStatus& status,
               const std::vector<std::size_t>& rows, std::size_t height, std::size_t columns) {
  const TableColumns table(columns, state.sort);
  std::string title = clipped(table.title(state), columns);
  const char mark = state.ascending ? '^' : '*';
  if (!title.contains(mark)) title = fmt::format("{}{}", to_string(state.sort), mark);
  screen.push_back({{.text = to_left(title, columns), .look = Look::title}});
  const std::size_t visible = height - 1;
  state.page_rows = visible;
  const auto at = static_cast<std::size_t>(std::ranges::find(rows, state.selected) - rows.begin());
  if (at < rows.size()) {
    state.top = std::min(state.top, at);
    if (at >= state.top + visible) state.top = at + 1 - visible;
  }
  state.top = std::min(state.top, rows.size() - std::min(rows.size(), visible));
  for (std::size_t i = state.top; i < std::min(rows.size(), state.top + visible); ++i) {
    const Row& row = model.rows()[rows[i]];
    const Look look = rows[i] == state.selected ? Look::selected
                      : row.rate == 0           ? Look::dim
                                                : Look::plain;
    screen.push_back(
        {{.text = to_left(table.row(model, row, status.uses_unicode), columns), .look = look}});
  }
  if (rows.empty())
    screen.push_back({{.text = clipped(state.filter.empty() ? "no function was hit so far"
                                                            : "no function has this name",
                                       columns),
                       .look = Look::dim}});
}

// A page of lines that may be longer than the screen.
void add_lines(Screen& screen, const std::vector<std::string>& lines, ViewState& state,
               std::size_t height, std::size_t columns) {
  state.page_rows = height;
  state.top = std::min(state.top, lines.size() - std::min(lines.size(), height));
  for (std::size_t i = state.top; i < std::min(lines.size(), state.top + height); ++i)
    screen.push_back({{.text = clipped(lines[i], columns)}});
}

std::vector<std::string> help_lines() {
  return {"up down j k PgUp PgDn Home End   select a function, or scroll",
          "Enter                            details of the function: callers, stacks, events",
          "Esc                              back; in the table: no filter",
          "s S < >                          sort by another column; the other way round",
          "/                                show only names of functions and files with a text",
          "p or space                       stop the picture; the run goes on",
          "r                                count from zero again",
          "w                                write all of it to a file in this folder",
          "o                                the last lines that the command has printed",
          "ctrl-l                           draw the screen again",
          "ctrl-z, then fg                  stop uprobectl and go on",
          "q or ctrl-c                      end the run",
          "",
          "RATE/s  hits in the last whole second",
          "P50 P99 percentiles since the beginning, or since r",
          "ERR     calls that have failed, of functions whose result is known",
          "HISTORY the last seconds: the 99th percentile of each, without latencies its hits"};
}

} // namespace

std::string short_count(std::uint64_t count) {
  if (count < 10'000) return std::to_string(count);
  constexpr std::string_view units = "kMGTPE";
  double number = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  while (number >= 999.5) {
    number /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", number, number < 9.95 ? 1 : 0, units[unit]);
}

std::string sparkline(std::span<const std::optional<std::uint64_t>> numbers, bool uses_unicode) {
  constexpr std::string_view blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view letters = "_.-:=+*#";
  constexpr std::size_t levels = 8;
  std::uint64_t most = 0;
  for (const auto& each : numbers) most = std::max(most, each.value_or(0));
  std::string text;
  for (const auto& each : numbers) {
    if (!each) {
      text += ' ';
      continue;
    }
    const auto level =
        most == 0
            ? 0
            : static_cast<std::size_t>(static_cast<unsigned __int128>(*each) * (levels - 1) / most);
    if (uses_unicode)
      text += blocks[level];
    else
      text += letters[level];
  }
  return text;
}

Screen draw(const Model& model, ViewState& state, const RunStatus& status, const Size& size) {
  constexpr std::size_t frame_rows = 4; // two lines above, two below
  const std::size_t columns = std::max<std::size_t>(size.columns, 1);
  Screen screen;
  screen.push_back(header_line(model, state, status, columns));
  screen.push_back(totals_line(model, state));
  const std::size_t height = size.rows > frame_rows + 1 ? size.rows - frame_rows : 2;
  const auto rows = visible_rows(model, state);
  select_row(rows, model, state);
  const Row* const selected =
      state.selected < model.rows().size() ? &model.rows()[state.selected] : nullptr;
  switch (state.page) {
  case Page::functions: {
    const bool has_details = size.rows >= min_rows_with_details && selected != nullptr;
    const std::size_t table = has_details ? height / 2 : height;
    add_table(screen, model, state, status, rows, table, columns);
    if (!has_details) break;
    // A short table leaves more to the details.
    screen.push_back({{.text = to_left(summary_of(*selected), columns), .look = Look::title}});
    const std::size_t left = height + 2 - std::min(height + 2, screen.size());
    auto lines = detail_lines(model, *selected, status, left);
    lines.resize(std::min(lines.size(), left));
    for (const std::string& line : lines) screen.push_back({{.text = clipped(line, columns)}});
    break;
  }
  case Page::details:
    if (selected == nullptr) break;
    screen.push_back({{.text = to_left(summary_of(*selected), columns), .look = Look::title}});
    add_lines(screen, detail_lines(model, *selected, status, SIZE_MAX / 2), state, height - 1,
              columns);
    break;
  case Page::help:
    screen.push_back({{.text = to_left("keys", columns), .look = Look::title}});
    add_lines(screen, help_lines(), state, height - 1, columns);
    break;
  case Page::output: {
    screen.push_back({{.text = to_left("what the command has printed, the newest last", columns),
                       .look = Look::title}});
    std::vector<std::string> lines = {"the run has no command"};
    if (status.output != nullptr) lines.assign(status.output->begin(), status.output->end());
    add_lines(screen, lines, state, height - 1, columns);
    break;
  }
  }
  screen.resize(std::min(screen.size(), height + 2));
  screen.resize(height + 2);
  screen.push_back({{.text = clipped(output::printable(status.message), columns),
                     .look = status.is_warning ? Look::warning : Look::dim}});
  screen.push_back(
      {{.text = to_left(key_line(state, status, columns), columns), .look = Look::title}});
  if (screen.size() > size.rows) screen.resize(size.rows);
  for (Line& line : screen) cut(line, columns);
  return screen;
}

std::string text_of(const Model& model, const ViewState& state, const RunStatus& status,
                    bool has_all) {
  constexpr std::size_t most_in_result = 50;
  ViewState unfiltered = state;
  unfiltered.filter.clear();
  std::string text = fmt::format("{}\n", output::printable(status.title));
  text += fmt::format(
      "{}, {}{}, {} lost\n\n", time_text(model, status), counted(model.hits(), "event", "events"),
      model.reset_time().empty() ? "" : " since the reset at " + model.reset_time(), model.lost());
  TableColumns table(max_columns_of_text, state.sort);
  table.names = SIZE_MAX;
  text += table.title(state) + '\n';
  std::vector<std::size_t> rows = visible_rows(model, unfiltered);
  if (!has_all) std::erase_if(rows, [&](std::size_t each) { return model.rows()[each].hits == 0; });
  const std::size_t shown = has_all ? rows.size() : std::min(rows.size(), most_in_result);
  for (std::size_t i = 0; i < shown; ++i)
    text += table.row(model, model.rows()[rows[i]], status.uses_unicode) + '\n';
  if (shown < rows.size()) text += fmt::format("and {} more functions\n", rows.size() - shown);
  if (!has_all || state.selected >= model.rows().size()) return text;
  const Row& selected = model.rows()[state.selected];
  text += '\n' + summary_of(selected) + '\n';
  for (const std::string& line : detail_lines(model, selected, status, SIZE_MAX / 2))
    text += line + '\n';
  return text;
}

} // namespace uprobectl::live
