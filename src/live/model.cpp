// SPDX-License-Identifier: Apache-2.0
#include "live/model.hpp"

#include "output/event_text.hpp"
#include "output/exports.hpp"
#include "output/format.hpp"
#include "output/values.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::live {

namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::size_t max_known_callers = 4096; // addresses, of a row
constexpr std::size_t max_frames = 64;          // of a stack that is kept

// Returns an argument list of values, "size=16 pid=3".
std::string values_text(const std::vector<events::ArgumentValue>& values) {
  std::string text;
  for (const events::ArgumentValue& each : values) {
    text += fmt::format("{}{}=", text.empty() ? "" : " ", each.name);
    output::append_text_value(text, each);
  }
  return text;
}

// FNV-1a over the addresses.
std::uint64_t hash_of(const unwind::Stack& stack) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unwind::Frame& frame : stack.frames) hash = (hash ^ frame.pc) * 0x100000001b3;
  return hash;
}

} // namespace

void Model::begin(const output::ClockReading& clocks) {
  clock_ = output::WallClock(clocks.monotonic_ns, clocks.realtime_ns);
  begin_ns_ = since_ns_ = now_ns_ = clocks.monotonic_ns;
}

void Model::set_clocks(const output::ClockReading& clocks) {
  clock_.set(clocks.monotonic_ns, clocks.realtime_ns);
  go_on_until(clocks.monotonic_ns);
}

void Model::go_on_until(std::uint64_t time_ns) {
  if (!has_ended_) now_ns_ = std::max(now_ns_, time_ns);
}

void Model::end(std::uint64_t time_ns) {
  has_ended_ = true;
  now_ns_ = std::max(time_ns, begin_ns_);
  advance(now_ns_);
}

void Model::add(const output::LostRecord& record) {
  if (record.reason != output::over_max_events_reason)
    lost_ += record.count; // requested by the user
}

// The locations of a static probe are one row.
const resolve::ProbePoint* Model::first_point(const resolve::ProbePoint& point) {
  if (!point.static_probe) return &point;
  return static_probes_
      .try_emplace({point.binary.get(), point.symbol.value_or(std::string())}, &point)
      .first->second;
}

void Model::note_hit(const resolve::ProbePoint& point, PointState& state) {
  state.is_hit = true;
  const resolve::ProbePoint* const first = first_point(point);
  if (first == &point || !std::exchange(points_[first].is_hit, true)) ++probes_hit_;
}

std::string Model::name_of(const Key& key) {
  if (key.point == nullptr) return output::printable(key.text);
  return output::printable(fmt::format("{}{}{}{}", names_.name(*key.point),
                                       key.on_return ? " (return)" : "",
                                       key.text.empty() ? "" : " ", key.text));
}

// Returns null if there are too many rows.
Row* Model::make_row(Key key) {
  std::size_t number = rows_.size();
  if (key.point != nullptr) {
    // Now it is known which hits the function has.
    const std::size_t expected = std::exchange(points_[key.point].expected, no_row);
    if (expected != no_row) {
      by_key_.erase({.point = key.point});
      number = expected;
    }
  }
  if (number >= max_rows) return nullptr;
  if (number == rows_.size()) rows_.emplace_back();
  Row& row = rows_[number];
  row.name = name_of(key);
  row.file =
      key.point != nullptr && key.text.empty() ? output::module_name(*key.point) : std::string();
  by_key_.emplace(std::move(key), number);
  return &row;
}

Row* Model::find(Key key) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    if (key.point != nullptr) points_[key.point].expected = no_row; // its hits are those
    return &rows_[known->second];
  }
  return make_row(std::move(key));
}

// Finds or makes the row of a point's hits. Returns null if there are too many rows.
Row* Model::find(const resolve::ProbePoint& point, bool on_return, std::string_view text) {
  PointState& state = points_[&point];
  if (!state.is_hit) note_hit(point, state);
  std::size_t& number = state.rows[on_return ? 1 : 0];
  if (text.empty() && number == omitted_row) return nullptr;
  if (text.empty() && number != no_row) return &rows_[number];
  Row* const row =
      find({.point = first_point(point), .on_return = on_return, .text = std::string(text)});
  if (text.empty()) number = row != nullptr ? number_of(*row) : omitted_row;
  return row;
}

void Model::add(const output::ProbeDescription& probed) {
  const resolve::ProbePoint* const first = first_point(*probed.point);
  PointState& state = points_[first];
  if (std::exchange(state.is_probed, true)) return;
  ++probes_;
  if (probed.description.is_of_spans()) {
    sees_spans_ = true;
    return;
  }
  if (by_key_.contains({.point = first})) return;
  if (make_row({.point = first}) != nullptr) state.expected = rows_.size() - 1;
}

Row* Model::row_of(const events::Event& event) {
  if (event.record != nullptr)
    return find({.kind = Kind::records, .text = std::string(event.record->map)});
  if (event.span != nullptr)
    return find({.kind = Kind::spans, .text = std::string(event.span->name)});
  return find(*event.point, event.kind == events::EventKind::on_return && !event.latency_ns, {});
}

std::uint64_t Model::number_of_second(std::uint64_t time_ns) const {
  return (time_ns - std::min(begin_ns_, time_ns)) / second_ns;
}

void Model::finish_second(Row& row) const {
  if (row.second_ == Row::no_second || row.measured_in_second_.count == 0) return;
  row.seconds[row.second_ % Row::max_seconds].p99 = events::percentile(row.measured_in_second_, 99);
  row.measured_in_second_ = {};
}

// The seconds in between had no hits.
void Model::begin_second(Row& row, std::uint64_t number) {
  if (row.second_ != Row::no_second && number <= row.second_) return;
  finish_second(row);
  const std::uint64_t from = row.second_ == Row::no_second ? 0 : row.second_ + 1;
  for (std::uint64_t each =
           std::max(from, number - std::min<std::uint64_t>(number, Row::max_seconds - 1));
       each <= number; ++each)
    row.seconds[each % Row::max_seconds] = {};
  row.second_ = number;
}

// Events of different CPUs come late by some milliseconds: those of the second before are counted
// in it, but its percentile is known already.
void Model::measure(Row& row, std::uint64_t latency_ns, std::uint64_t number) {
  events::add_duration(row.measured, latency_ns);
  if (number == row.second_) events::add_duration(row.measured_in_second_, latency_ns);
}

void Model::add(const events::Event& event) {
  if (event.is_only_trigger || event.kind == events::EventKind::wait) return;
  has_events_ = true;
  Row* const row = row_of(event);
  if (row == nullptr) {
    ++omitted_;
    return;
  }
  const std::uint64_t time_ns = event.time_ns != 0 ? event.time_ns : now_ns_;
  if (time_ns < since_ns_) return;
  go_on_until(time_ns);
  const std::uint64_t number = number_of_second(time_ns);
  begin_second(*row, number);
  if (row->second_ - number < Row::max_seconds) ++row->seconds[number % Row::max_seconds].hits;
  ++hits_;
  ++row->hits;
  if (event.failed) row->errors = row->errors.value_or(0) + (*event.failed ? 1 : 0);
  if (event.latency_ns) measure(*row, *event.latency_ns, number);
  add_details(*row, event);
}

// Finds the row of a count. The text of a span begins with the name of the span, and that of a
// record is the name of its map.
Row* Model::find_counted(const resolve::ProbePoint* point, std::string_view span, bool on_return,
                         std::string text) {
  if (!span.empty()) return find({.kind = Kind::spans, .text = std::move(text)});
  if (point == nullptr) return find({.kind = Kind::records, .text = std::move(text)});
  return find(*point, on_return, text);
}

void Model::add(const output::CountRecord& record) {
  std::string text(record.point == nullptr ? record.map : record.span);
  const auto add_text = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  if (record.by != nullptr) add_text(values_text(*record.by));
  if (record.pid) add_text(fmt::format("{} ({})", record.comm, *record.pid));
  go_on_until(record.time_ns);
  counted_until_ns_ = std::max(counted_until_ns_, record.time_ns);
  if (record.count == 0) return;
  Row* const row = find_counted(record.point, record.span, record.on_return, text);
  if (row == nullptr) {
    omitted_ += record.count;
    return;
  }
  hits_ += record.count;
  row->hits += record.count;
  if (row->counted_until_ns_ != record.time_ns) row->counted_rate_ = 0;
  row->counted_until_ns_ = record.time_ns;
  const std::uint64_t length = std::max<std::uint64_t>(record.time_ns - record.since_ns, 1);
  const auto rate =
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(record.count) * second_ns / length);
  row->counted_rate_ += rate; // several stacks are one row
  // The middle of each second decides, because an interval ends a little late.
  const std::uint64_t first = number_of_second(record.since_ns + second_ns / 2);
  const std::uint64_t end = std::max(number_of_second(record.time_ns + second_ns / 2), first + 1);
  for (std::uint64_t each = std::max(first, end - std::min<std::uint64_t>(end, Row::max_seconds));
       each < end; ++each) {
    begin_second(*row, each);
    row->seconds[each % Row::max_seconds].hits += rate;
  }
  if (record.stack != nullptr)
    add_stack(details_of(*row), *record.stack, record.count, record.rest);
}

void Model::add(const output::HistogramRecord& record) {
  if (record.histogram.count == 0) return;
  const std::string_view text = record.point == nullptr ? record.map : record.span;
  Row* const row = find_counted(record.point, record.span, false, std::string(text));
  if (row == nullptr) return;
  row->in_nanoseconds = record.in_nanoseconds;
  events::add(row->measured, record.histogram);
  go_on_until(record.time_ns);
  if (!hits_are_counted_)
    add(output::CountRecord{.point = record.point,
                            .map = record.map,
                            .count = record.histogram.count,
                            .since_ns = record.since_ns,
                            .time_ns = record.time_ns,
                            .span = record.span});
  const std::uint64_t number =
      number_of_second(record.time_ns - std::min(record.time_ns, second_ns / 2));
  begin_second(*row, number);
  row->seconds[number % Row::max_seconds].p99 = events::percentile(record.histogram, 99);
}

// The number of the second that has not ended yet; with intervals that are counted, of the one
// after the last.
std::uint64_t Model::end_of_whole_seconds() const {
  return number_of_second(counted_until_ns_ != 0 ? counted_until_ns_ + second_ns / 2 : now_ns_);
}

// The number of the first second that lies after the last reset.
std::uint64_t Model::first_whole_second() const {
  return number_of_second(since_ns_ + second_ns - 1);
}

// Returns null for a second without hits, and one that is not kept any more.
const Second* Model::find_second(const Row& row, std::uint64_t number) {
  if (row.second_ == Row::no_second || number > row.second_ ||
      row.second_ - number >= Row::max_seconds)
    return nullptr;
  return &row.seconds[number % Row::max_seconds];
}

void Model::advance(std::uint64_t now_ns) {
  go_on_until(now_ns);
  ++turn_;
  const std::uint64_t end = end_of_whole_seconds();
  const std::uint64_t elapsed = std::max(now_ns_ - std::min(since_ns_, now_ns_), second_ns / 4);
  rate_ = 0;
  for (Row& row : rows_) {
    if (row.second_ != Row::no_second && row.second_ < end) finish_second(row);
    if (counted_until_ns_ != 0) {
      row.rate = row.counted_until_ns_ == counted_until_ns_ ? row.counted_rate_ : 0;
    } else if (end <= first_whole_second()) {
      row.rate = static_cast<std::uint64_t>(static_cast<unsigned __int128>(row.hits) * second_ns /
                                            elapsed);
    } else {
      const Second* const last = find_second(row, end - 1);
      row.rate = last != nullptr ? last->hits : 0;
    }
    rate_ += row.rate;
  }
}

std::vector<Second> Model::last_seconds(const Row& row, std::size_t count) const {
  const std::uint64_t end = end_of_whole_seconds();
  const std::uint64_t whole = end - std::min(first_whole_second(), end);
  std::vector<Second> seconds(count);
  for (std::size_t back = 1; back <= std::min<std::uint64_t>(count, whole); ++back)
    if (const Second* const found = find_second(row, end - back)) seconds[count - back] = *found;
  return seconds;
}

void Model::reset() {
  since_ns_ = now_ns_;
  reset_time_.clear();
  clock_.append_time(reset_time_, since_ns_);
  reset_time_.resize(std::min(reset_time_.size(), reset_time_.find('.'))); // whole seconds
  hits_ = rate_ = omitted_ = 0;
  detailed_ = 0;
  newest_ = oldest_ = no_row;
  probes_hit_ = 0;
  for (auto& [point, state] : points_) state.is_hit = false;
  for (Row& row : rows_) {
    Row fresh;
    fresh.name = std::move(row.name);
    fresh.file = std::move(row.file);
    fresh.in_nanoseconds = row.in_nanoseconds;
    row = std::move(fresh);
  }
}

void Model::unlink(Row& row) {
  (row.older_ != no_row ? rows_[row.older_].newer_ : oldest_) = row.newer_;
  (row.newer_ != no_row ? rows_[row.newer_].older_ : newest_) = row.older_;
}

void Model::link_as_newest(Row& row) {
  row.newer_ = no_row;
  row.older_ = newest_;
  (newest_ != no_row ? rows_[newest_].newer_ : oldest_) = number_of(row);
  newest_ = number_of(row);
}

// Copies of a model, which a pause makes, share the details until these change.
Details& Model::details_of(Row& row) {
  if (row.own_details_) {
    if (newest_ != number_of(row)) {
      unlink(row);
      link_as_newest(row);
    }
    if (row.own_details_.use_count() > 2) // of this model
      row.own_details_ = std::make_shared<Details>(*row.own_details_);
  } else {
    if (detailed_ >= max_detailed) {
      // The selected row keeps its details.
      Row& oldest = rows_[oldest_ != selected_ ? oldest_ : rows_[oldest_].newer_];
      unlink(oldest);
      oldest.own_details_.reset();
      oldest.details.reset();
      --detailed_;
    }
    row.own_details_ = std::make_shared<Details>();
    link_as_newest(row);
    ++detailed_;
  }
  row.details = row.own_details_;
  return *row.own_details_;
}

void Model::add_caller(Details& details, const unwind::Frame& frame) {
  if (details.callers_by_pc_.size() >= max_known_callers) details.callers_by_pc_.clear();
  const auto [known, is_new] = details.callers_by_pc_.try_emplace(frame.pc, no_row);
  if (is_new) {
    std::string text = output::printable(output::display_frame(frame));
    auto same = std::ranges::find(details.callers, text, &CountedText::text);
    if (same == details.callers.end() && details.callers.size() < Details::max_callers)
      same = details.callers.insert(same, {.text = std::move(text)});
    if (same != details.callers.end())
      known->second = static_cast<std::size_t>(same - details.callers.begin());
  }
  if (known->second == no_row)
    ++details.other_callers;
  else
    ++details.callers[known->second].hits;
}

void Model::add_stack(Details& details, const unwind::Stack& stack, std::uint64_t hits,
                      std::string_view rest) {
  const std::uint64_t hash = hash_of(stack);
  auto known = details.stacks_by_hash_.find(hash);
  if (known == details.stacks_by_hash_.end()) {
    if (details.stacks.size() >= Details::max_stacks) {
      details.other_stacks += hits;
      return;
    }
    known = details.stacks_by_hash_.emplace(hash, details.stacks.size()).first;
    std::vector<std::string>& frames = details.stacks.emplace_back().frames;
    for (const unwind::Frame& frame : stack.frames) {
      if (frames.size() == max_frames) break;
      frames.push_back(output::printable(output::display_frame(frame)));
    }
    if (stack.frames.size() > frames.size())
      frames.push_back(fmt::format("and {} more", stack.frames.size() - frames.size()));
    else if (!rest.empty())
      frames.emplace_back(rest);
    else if (stack.end != unwind::End::outermost && stack.end != unwind::End::unknown)
      frames.push_back(output::printable("(" + unwind::explain_end(stack) + ")"));
  }
  details.stacks[known->second].hits += hits;
}

// TIME TID COMM ARGUMENTS [= RESULT] [LATENCY]
std::string Model::describe(const events::Event& event) {
  std::string text;
  if (event.time_ns != 0) clock_.append_time(text, event.time_ns);
  if (event.time_ns != 0) text += fmt::format(" {} {}", event.tid, event.comm);
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : " ") + more;
  };
  if (event.record != nullptr) {
    std::string value;
    if (event.record->value)
      output::append_text_value(value, *event.record->value);
    else
      output::append_hex_bytes(value, event.record->raw);
    add(value);
  } else {
    if (event.span != nullptr) {
      std::string key;
      output::append_text_value(key, event.span->key);
      add(key);
    }
    add(output::arguments_text(event));
    if (event.kind == events::EventKind::on_return) add(output::return_text(event));
  }
  if (event.latency_ns) {
    std::string latency;
    output::append_short_duration(latency, *event.latency_ns);
    add(latency);
  }
  text = output::printable(text);
  return text.size() > max_text_bytes ? output::valid_utf8(text, max_text_bytes) : text;
}

void Model::add_details(Row& row, const events::Event& event) {
  const bool is_selected = number_of(row) == selected_;
  if (row.turn_ != turn_) {
    row.turn_ = turn_;
    row.texts_ = 0;
  }
  const bool has_turn = is_selected || row.texts_ < max_texts;
  // The callers and stacks of a row with details count all its events.
  if (!has_turn && !row.own_details_) return;
  Details& details = details_of(row);
  const unwind::Frame* caller = event.caller;
  if (caller == nullptr && event.stack != nullptr && event.stack->frames.size() > 1)
    caller = &event.stack->frames[1];
  if (caller != nullptr) add_caller(details, *caller);
  if (event.stack != nullptr) add_stack(details, *event.stack, 1, {});
  if (!has_turn) return;
  ++row.texts_;
  if (details.events.size() >= Details::max_events) details.events.pop_front();
  details.events.push_back(describe(event));
}

} // namespace uprobectl::live
