// SPDX-License-Identifier: Apache-2.0
// Evaluates --if for events that have been read: what the built-in program does at a hit, by the
// same conditions.
#pragma once

#include "events/conditions.hpp"
#include "events/event_values.hpp"
#include "events/text_pattern.hpp"

#include <functional>
#include <set>

namespace uprobectl {

class EventFilter {
public:
  // What the run has saved.
  struct Run {
    bool nests_calls = false; // entries decide
    Arch arch = host_arch;
  };
  using FindProcessName = std::function<std::optional<std::string>(std::uint32_t pid)>;
  // As the built-in program decides.
  enum class Decision : std::uint8_t { holds, fails, undecided };

  // Borrows the filter. Fails with `usage` if a pattern is too complex.
  static Result<EventFilter> make(const Filter& filter, const Run& run,
                                  FindProcessName find_process_name);

  // Compiles the conditions for the events of a point. Fails as attach does, or with `not_found` if
  // a value was not saved.
  Result<void> add_point(std::uint32_t probe, const PointDescription& point);

  // Requires the point of the event.
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
  // The texts that a comparison matches.
  struct Texts {
    std::vector<PatternState> machine = {};
    std::set<std::string, std::less<>> set = {}; // instead, if it is large
    bool are_bytes = false;
  };
  enum class Truth : std::uint8_t { no, yes, unread, unknown };

  EventFilter(const Filter& filter, const Run& run, FindProcessName find_process_name)
      : filter_(&filter), run_(run), find_process_name_(std::move(find_process_name)) {}

  ConditionResult<Term> compile(const ConditionSpec& spec, const PointDescription& point) const;
  ConditionResult<Term> compile_value(const ConditionSpec& spec, NamedValue named) const;
  ConditionResult<Term> compile_built_in(const ConditionSpec& spec, filter_subject subject,
                                         bool pairs_calls) const;
  Result<void> add_conjuncts(const FilterExpression& expression, Point& point) const;
  static Phases phases_of(const FilterNode& node, const Point& point);

  Truth evaluate(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_built_in(std::size_t number, const Term& term, const Event& event) const;
  Truth evaluate_value(std::size_t number, const Term& term, const DataValue& value) const;
  Truth match(const Texts& texts, std::string_view text, bool is_whole) const;
  bool holds(const FilterNode& node, const Point& point, const Event& event,
             bool& was_unread) const;

  const Filter* filter_;
  Run run_;
  FindProcessName find_process_name_;
  std::vector<Texts> texts_; // by term
  std::map<std::uint32_t, Point> points_;
};

} // namespace uprobectl
