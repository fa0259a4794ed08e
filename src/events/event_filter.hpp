// SPDX-License-Identifier: Apache-2.0
// Evaluates --if, or --until, for events that have been read: what the built-in program does at a
// hit, by the same conditions.
#pragma once

#include "events/event_values.hpp"
#include "events/value_conditions.hpp"

namespace uprobectl::events {

class EventFilter {
public:
  // Describes the run that has saved the events, or sends them now.
  struct Run {
    bool nests_calls = false; // entries decide
    Arch arch = host_arch;
    bool is_live = false; // for messages
  };
  // The decision is the one that the built-in program makes for the same hit.
  enum class Decision : std::uint8_t { holds, fails, undecided };

  // Borrows the filter. Fails with `usage` if a pattern is too complex.
  static Result<EventFilter> make(const Filter& filter, const Run& run);

  // Compiles the conditions for the events of a point. If it lacks a compared value, none of its
  // events match; check() says so with the point's name.
  void add_point(std::uint32_t probe, const PointDescription& description, std::string_view name);
  // Call it when all points are added. Fails if all lack a compared value: as attach does, or with
  // `not_found` if it was not saved. Otherwise returns a warning about those that lack one, or an
  // empty string. `what`: "hits of {} do not match", where {} becomes their number.
  Result<std::string> check(std::string_view what) const;

  Decision decide(const Event& event) const;
  // Whether it compares anything in events of this phase. If entries and returns are events of
  // their own, decide() keeps those of the other phase.
  bool compares_phase_of(const Event& event) const;
  // Whether it depends on what is known at the return: for an entry, decide() ignores that part.
  bool needs_return(std::uint32_t probe) const;

private:
  // Says which value of an event a comparison uses.
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
    // Where spans begin and end: nullopt if a value is missing there.
    std::optional<std::vector<Term>> begin_terms = {};
    std::optional<std::vector<Term>> end_terms = {};
    std::vector<Term> terms;
    std::array<std::vector<const FilterNode*>, 2> conjuncts;
  };

  EventFilter(const Filter& filter, const Run& run) : filter_(&filter), run_(run) {}

  ConditionResult<Term> compile(const ConditionSpec& spec, const PointDescription& point) const;
  ConditionResult<Term> compile_value(const ConditionSpec& spec, NamedValue named) const;
  ConditionResult<Term> compile_built_in(const ConditionSpec& spec, filter_subject subject,
                                         const PointDescription& point) const;
  Result<void> compile_point(std::uint32_t probe, const PointDescription& description);
  Result<void> add_span_point(std::uint32_t probe, const PointDescription& description);
  Result<std::vector<Term>> compile_end(bool at_end, const PointDescription& point) const;
  Decision decide_span(const Event& event) const;
  Result<void> add_conjuncts(const FilterExpression& expression, Point& point) const;
  static Phases phases_of(const FilterNode& node, const Point& point);

  Truth evaluate(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_built_in(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_value(std::size_t number, const Term& term, const values::Value& value) const;

  const Filter* filter_;
  Run run_;
  std::vector<ConditionTexts> texts_;                   // by term
  std::vector<std::optional<ConditionSpec>> end_specs_; // by term: see condition_at_end()
  std::map<std::uint32_t, Point> points_;
  std::size_t points_without_ = 0; // points that lack a compared value
  bool has_compared_points_ = false;
  std::optional<Error> problem_; // of the first of these
};

} // namespace uprobectl::events
