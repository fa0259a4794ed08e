// SPDX-License-Identifier: Apache-2.0
#include "trace/triggers.hpp"

#include "output/format.hpp"

namespace uprobectl::trace {

namespace {

const std::string& text_of(const events::Filter& condition) {
  return condition.expressions.front().typed->text;
}

} // namespace

Result<EventTriggers> EventTriggers::make(const KeepSpec& spec, output::Output& output) {
  EventTriggers made(output);
  for (const events::Filter& each : spec.conditions) {
    auto evaluated = events::EventFilter::make(each, {.is_live = true});
    if (!evaluated) return fail(std::move(evaluated).error());
    made.conditions_.push_back({.filter = &each, .evaluated = std::move(*evaluated)});
  }
  return made;
}

void EventTriggers::add_probe(const Probe& probe, const events::PointDescription& description) {
  const auto number = static_cast<std::uint32_t>(probe.number);
  if (!probe.is_recorded) {
    if ((probe.triggers & ENDS_WAITING) != 0) functions_.emplace(number, display_name(probe.point));
    return;
  }
  for (Condition& each : conditions_)
    each.evaluated.add_point(number, description, display_name(probe.point));
}

Result<void> EventTriggers::check() const {
  for (const Condition& each : conditions_) {
    const auto checked = each.evaluated.check("hits of {} are not triggers");
    if (!checked) return fail(checked.error());
    if (!checked->empty()) output_->warn_once(*checked);
  }
  return {};
}

bool EventTriggers::take(Bytes /*record*/, events::Event& event) {
  if (const auto function = functions_.find(event.probe); function != functions_.end()) {
    event.trigger = &function->second;
    event.is_only_trigger = true;
    return false;
  }
  for (const Condition& each : conditions_) {
    if (!each.evaluated.compares_phase_of(event)) continue;
    const auto decision = each.evaluated.decide(event);
    if (decision == events::EventFilter::Decision::undecided)
      output_->warn_once("a value that --until compares could not be read: such hits are not "
                         "triggers");
    if (decision != events::EventFilter::Decision::holds) continue;
    event.trigger = &text_of(*each.filter);
    break;
  }
  return true;
}

Result<RecordTriggers> RecordTriggers::make(const KeepSpec& spec,
                                            std::span<const values::ValueType> types) {
  RecordTriggers made;
  for (const events::Filter& each : spec.conditions) {
    auto evaluated = events::RecordFilter::make(each);
    if (!evaluated) return fail(std::move(evaluated).error());
    if (auto checked = evaluated->check(types); !checked) return fail(std::move(checked).error());
    made.conditions_.push_back({.text = &text_of(each), .evaluated = std::move(*evaluated)});
  }
  return made;
}

void RecordTriggers::mark(events::Event& event) {
  for (Condition& each : conditions_) {
    if (!each.evaluated.holds(event)) continue;
    event.trigger = each.text;
    return;
  }
}

} // namespace uprobectl::trace
