// SPDX-License-Identifier: Apache-2.0
// Evaluates --if for events that have been read: what the built-in program does at a hit, by the
// same conditions.
#pragma once

#include "events/event_values.hpp"
#include "events/value_conditions.hpp"

namespace uprobectl {

class EventFilter {
public:
  // What the run has saved.
  struct Run {
    bool nests_calls = false; // entries decide
    Arch arch = host_arch;
  };
  // As the built-in program decides.
  enum class Decision : std::uint8_t { holds, fails, undecided };

  // Borrows the filter. Fails with `usage` if a pattern is too complex.
  static Result<EventFilter> make(const Filter& filter, const Run& run);

  // Compiles the conditions for the events of a point. Fails as attach does, or with `not_found` if
  // a value was not saved: then no event of the point matches.
  Result<void> add_point(std::uint32_t probe, const PointDescription& description);

  Decision decide(const Event& event) const;

private:
  // What a comparison uses of the events of a point.
  struct Term {
    PreparedTerm prepared;
    std::optional<filter_subject> built_in = {};
    NamedValue value = {};
    bool is_address = false; // of a text, which is compared with NULL
    bool needs_phase = true; // false: known at entries and returns alike
    bool at_return = false;
  };
  struct Phases {
    bool entry = false;
    bool exit = false;
  };
  // The expressions, or parts of them, that must all hold: at entries and at returns.
  struct Point {
    bool pairs_calls = false;
    std::vector<Term> terms;
    std::array<std::vector<const FilterNode*>, 2> conjuncts;
  };

  EventFilter(const Filter& filter, const Run& run) : filter_(&filter), run_(run) {}

  ConditionResult<Term> compile(const ConditionSpec& spec, const PointDescription& point) const;
  ConditionResult<Term> compile_value(const ConditionSpec& spec, NamedValue named) const;
  ConditionResult<Term> compile_built_in(const ConditionSpec& spec, filter_subject subject,
                                         bool pairs_calls) const;
  Result<void> add_conjuncts(const FilterExpression& expression, Point& point) const;
  static Phases phases_of(const FilterNode& node, const Point& point);

  Truth evaluate(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_built_in(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_value(std::size_t number, const Term& term, const Value& value) const;
  bool holds(const FilterNode& node, const Point& point, const Event& event,
             bool& was_unread) const;

  const Filter* filter_;
  Run run_;
  std::vector<ConditionTexts> texts_; // by term
  std::map<std::uint32_t, Point> points_;
};

} // namespace uprobectl
