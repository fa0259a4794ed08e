// SPDX-License-Identifier: Apache-2.0
#include "trace/event_window.hpp"

#include "trace/hit_stacks.hpp"
#include "util/clock.hpp"

#include <algorithm>

namespace uprobectl::trace {

namespace {

std::size_t bytes_of(const values::Value& value);

std::size_t bytes_of(const values::ValueMember& member) {
  return sizeof(member) + member.name.size() + bytes_of(member.value);
}

// Returns about how many bytes a value has on the heap.
std::size_t bytes_of(const values::Value& value) {
  const auto sum = [](const auto& parts) {
    std::size_t bytes = 0;
    for (const auto& part : parts) bytes += sizeof(part) + bytes_of(part);
    return bytes;
  };
  if (const auto* const text = std::get_if<std::string>(&value.value)) return text->size();
  if (const auto* const cut = std::get_if<values::Value::TruncatedString>(&value.value))
    return cut->text.size();
  if (const auto* const raw = std::get_if<values::Value::Raw>(&value.value))
    return raw->bytes.size();
  if (const auto* const members = std::get_if<values::Value::Struct>(&value.value))
    return sum(*members);
  if (const auto* const elements = std::get_if<values::Value::Array>(&value.value))
    return sum(*elements);
  if (const auto* const dynamic = std::get_if<values::Value::Dynamic>(&value.value))
    return sum(dynamic->words) + sum(dynamic->content);
  if (const auto* const frames = std::get_if<values::Value::Frames>(&value.value)) {
    std::size_t bytes = 0;
    for (const std::string& name : frames->names) bytes += sizeof(name) + name.size();
    return bytes;
  }
  return 0;
}

std::size_t bytes_of(const events::Event& event) {
  std::size_t bytes = event.registers.size() * sizeof(std::uint64_t);
  if (event.typed_arguments)
    for (const events::ArgumentValue& each : *event.typed_arguments)
      bytes += sizeof(each) + bytes_of(each.value);
  if (event.typed_return) bytes += bytes_of(event.typed_return->value);
  if (event.record != nullptr) {
    bytes += sizeof(events::UserRecord) + event.record->raw.size();
    if (event.record->value) bytes += bytes_of(*event.record->value);
  }
  return bytes;
}

std::uint64_t add_up_to_max(std::uint64_t one, std::uint64_t other) {
  return one + std::min(other, UINT64_MAX - one);
}

} // namespace

bool EventWindow::is_near_trigger(std::uint64_t time_ns) const {
  if (!spec_.time) return rest_ > 0;
  return std::ranges::any_of(intervals_, [&](const Interval& each) {
    return time_ns >= each.begin && time_ns <= each.end;
  });
}

void EventWindow::take(const events::Event& event) {
  // Records of users' programs may have no time.
  const std::uint64_t time_ns = event.time_ns != 0 ? event.time_ns : clock_ns(CLOCK_MONOTONIC);
  newest_ns_ = std::max(newest_ns_, time_ns);
  if (spec_.time)
    std::erase_if(intervals_, [&](const Interval& each) {
      return add_up_to_max(each.end, max_delay.count()) < newest_ns_;
    });
  if (!event.is_only_trigger) ++totals_.all;
  if (event.trigger != nullptr) {
    trigger(event, time_ns);
  } else if (is_near_trigger(time_ns)) {
    if (rest_ > 0) --rest_;
    pass_on(event);
  } else {
    keep(event, time_ns);
    make_room();
  }
}

void EventWindow::trigger(const events::Event& event, std::uint64_t time_ns) {
  ++totals_.triggers;
  const std::uint64_t written = write_kept(time_ns);
  write_trigger_({.until = *event.trigger,
                  .point = event.point,
                  .time_ns = event.time_ns,
                  .pid = event.pid,
                  .tid = event.tid,
                  .cpu = event.cpu,
                  .comm = event.comm,
                  .before = written,
                  .is_incomplete = is_incomplete(time_ns, written)});
  if (spec_.time) {
    const Interval near{.begin = time_ns - std::min(period_ns(), time_ns),
                        .end = add_up_to_max(time_ns, period_ns())};
    // Triggers in quick succession have one interval.
    if (!intervals_.empty() && near.begin <= intervals_.back().end &&
        near.end >= intervals_.back().begin) {
      Interval& last = intervals_.back();
      last = {.begin = std::min(last.begin, near.begin), .end = std::max(last.end, near.end)};
    } else {
      intervals_.push_back(near);
    }
  } else {
    rest_ = spec_.events;
    without_room_ = 0;
  }
  if (!event.is_only_trigger) pass_on(event);
}

// Writes the events near the trigger. Keeps older ones: a trigger that comes late may be near them.
// Does not look at each event if all are too old, as is usual with many triggers.
std::uint64_t EventWindow::write_kept(std::uint64_t time_ns) {
  const auto is_older = [&](std::uint64_t each_ns) {
    return spec_.time && add_up_to_max(each_ns, period_ns()) < time_ns;
  };
  if (is_older(newest_kept_ns_)) return 0;
  std::uint64_t written = 0;
  const auto is_written = [&](const Kept& each) { return !is_older(each.time_ns); };
  auto rest = std::ranges::find_if(kept_, is_written);
  for (auto each = rest; each != kept_.end(); ++each) {
    if (!is_written(*each)) {
      *rest++ = std::move(*each);
      continue;
    }
    bytes_ -= each->bytes;
    write(*each);
    ++written;
  }
  kept_.erase(rest, kept_.end());
  newest_kept_ns_ = spec_.time ? time_ns - std::min(period_ns(), time_ns) : 0;
  return written;
}

// Whether events that should precede a trigger did not fit.
bool EventWindow::is_incomplete(std::uint64_t time_ns, std::uint64_t written) const {
  if (!spec_.time) return without_room_ > 0 && written < spec_.events;
  return newest_without_room_ns_ && add_up_to_max(*newest_without_room_ns_, period_ns()) >= time_ns;
}

void EventWindow::write(Kept& kept) {
  if (kept.event.stack != nullptr) kept.event.stack = &kept.stack;
  if (kept.caller) kept.event.caller = &*kept.caller;
  if (kept.sample) {
    kept.sample->stack = &kept.stack;
    kept.event.sample = &*kept.sample;
  }
  pass_on(kept.event);
}

void EventWindow::pass_on(const events::Event& event) {
  ++totals_.written;
  write_(event);
}

void EventWindow::keep(const events::Event& event, std::uint64_t time_ns) {
  if (kept_.empty()) mapping_names_.clear();
  newest_kept_ns_ = std::max(newest_kept_ns_, time_ns);
  Kept& kept = kept_.emplace_back(Kept{.event = event, .time_ns = time_ns});
  if (event.sample != nullptr) kept.sample = *event.sample;
  if (event.sample != nullptr && event.sample->stack != nullptr)
    kept.stack = *event.sample->stack;
  else if (event.stack != nullptr)
    kept.stack = *event.stack;
  if (event.caller != nullptr) kept.caller = *event.caller;
  keep_frames(kept.stack.frames, mapping_names_);
  if (kept.caller) keep_frames({&*kept.caller, 1}, mapping_names_);
  kept.bytes = sizeof(Kept) + bytes_of(event) + kept.stack.frames.size() * sizeof(unwind::Frame);
  bytes_ += kept.bytes;
}

void EventWindow::drop_oldest() {
  bytes_ -= kept_.front().bytes;
  kept_.pop_front();
}

void EventWindow::make_room() {
  const auto is_old = [&](const Kept& each) {
    if (!spec_.time) return kept_.size() > spec_.events;
    return add_up_to_max(each.time_ns, add_up_to_max(period_ns(), max_delay.count())) < newest_ns_;
  };
  while (!kept_.empty() && is_old(kept_.front())) {
    ++totals_.too_old;
    drop_oldest();
  }
  while (!kept_.empty() && bytes_ > spec_.max_bytes) {
    ++totals_.no_room;
    ++without_room_;
    newest_without_room_ns_ = std::max(newest_without_room_ns_.value_or(0), kept_.front().time_ns);
    drop_oldest();
  }
}

void EventWindow::finish() {
  totals_.too_old += kept_.size();
  kept_.clear();
  bytes_ = 0;
}

} // namespace uprobectl::trace
