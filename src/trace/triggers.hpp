// SPDX-License-Identifier: Apache-2.0
// Decides which events are triggers of --until (trace/event_window.hpp).
#pragma once

#include "events/event_filter.hpp"
#include "events/record_filter.hpp"
#include "output/output.hpp"
#include "trace/probes.hpp"
#include "trace/run_part.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

// Marks the events of the built-in program that match a condition or a function of --until.
class EventTriggers final : public RunPart {
public:
  // Borrows the arguments. Fails as EventFilter::make() does.
  static Result<EventTriggers> make(const KeepSpec& spec, output::Output& output);

  // Compiles the conditions for the events of a probe.
  void add_probe(const Probe& probe, const events::PointDescription& description);
  // Call it when all probes are added. Fails if no probe has the values of a condition; warns of
  // those that do not have them.
  Result<void> check() const;

  // Sets Event::trigger if the event fulfils a condition of --until or hits one of its functions.
  bool take(Bytes record, events::Event& event) override;

private:
  explicit EventTriggers(output::Output& output) : output_(&output) {}

  struct Condition {
    const events::Filter* filter = nullptr;
    events::EventFilter evaluated;
  };
  output::Output* output_;
  std::vector<Condition> conditions_;
  std::map<std::uint32_t, std::string> functions_; // names of functions of --until, by probe
};

// Marks the records of users' programs that match a condition of --until.
class RecordTriggers {
public:
  // Borrows the specification. Fails as RecordFilter::make() and check() do.
  static Result<RecordTriggers> make(const KeepSpec& spec,
                                     std::span<const values::ValueType> types);

  // Marks a record that is a trigger, as EventTriggers::take() does. The record is as it was sent.
  void mark(events::Event& event);

private:
  struct Condition {
    const std::string* text = nullptr;
    events::RecordFilter evaluated;
  };
  std::vector<Condition> conditions_;
};

} // namespace uprobectl::trace
