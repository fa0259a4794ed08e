// SPDX-License-Identifier: Apache-2.0
#include "events/event_filter.hpp"

#include "events/built_in_variables.hpp"
#include "events/readings.hpp"
#include "events/span_conditions.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

// Whether a text pointer is NULL; nullopt if it is not known.
std::optional<bool> is_null_text(const values::Value& value) {
  if (std::holds_alternative<std::string>(value.value) ||
      std::holds_alternative<values::Value::TruncatedString>(value.value) ||
      std::holds_alternative<values::Value::Raw>(value.value))
    return false;
  if (const auto* const pointer = std::get_if<values::Value::Pointer>(&value.value))
    return pointer->address == 0;
  if (is_null(value)) return true;
  return std::nullopt;
}

// Whether it is enough to know if an address is NULL, which is less than all others.
bool compares_with_null(const ConditionSpec& spec) {
  const bool is_comparison = spec.comparison != Comparison::has_bits &&
                             spec.comparison != Comparison::in_set &&
                             spec.comparison != Comparison::matches;
  return is_comparison && spec.constant.magnitude == 0 && spec.constant.name.empty() &&
         !spec.constant.real;
}

} // namespace

Result<EventFilter> EventFilter::make(const Filter& filter, const Run& run) {
  EventFilter made(filter, run);
  for (const ConditionSpec& spec : filter.terms) {
    if (spec.built_in == COMPARE_CALLER) {
      made.texts_.emplace_back();
      continue;
    }
    auto texts = ConditionTexts::make(spec);
    if (!texts) return fail(std::move(texts).error());
    made.texts_.push_back(std::move(*texts));
  }
  for (const ConditionSpec& spec : filter.terms) made.end_specs_.push_back(condition_at_end(spec));
  return made;
}

ConditionResult<EventFilter::Term>
EventFilter::compile_built_in(const ConditionSpec& spec, filter_subject subject,
                              const PointDescription& point) const {
  const BuiltInVariable& variable = built_in_variable(subject);
  if (variable.number == nullptr && variable.text == nullptr && run_.is_live)
    return fail(ErrorKind::unsupported, "events do not have it: compare it with --if");
  if (variable.number == nullptr && variable.text == nullptr)
    return fail(Error{ErrorKind::unsupported, "it is not saved with events"}.hint(
        "compare it while the run goes on: attach --if"));
  const bool has_latency = point.pairs_calls || point.is_of_spans();
  if (variable.time && !has_latency && run_.is_live)
    return fail(ErrorKind::usage, "events have it with --latency");
  if (variable.time && !has_latency)
    return fail(Error{ErrorKind::unsupported, run_.nests_calls
                                                  ? "a tree shows a call before its duration is "
                                                    "known"
                                                  : "the run was saved without --latency"}
                    .hint(run_.nests_calls ? "--min-latency leaves out short calls"
                                           : "save it with: attach --latency --save FILE"));
  const bool needs_cause = needs_causes(variable.time);
  if (needs_waits(variable.time) && !(needs_cause ? point.knows_causes : point.knows_waits)) {
    const std::string option = needs_cause ? "--off-cpu" : "--cpu";
    return fail(run_.is_live
                    ? Error{ErrorKind::usage, "events have it with " + option}
                    : Error{ErrorKind::unsupported, "the run was saved without " + option}.hint(
                          "save it with: attach " + option + " --save FILE"));
  }
  const bool at_return = variable.time.has_value() || is_outcome(subject);
  const bool is_known =
      !is_outcome(subject) ||
      (subject == COMPARE_ERRNO && !spec.is_failure ? point.knows_errno : point.knows_failure);
  if (!is_known) return fail(outcome_not_saved(variable.name));
  if (spec.is_failure) subject = COMPARE_FAILED;
  auto prepared = compile_condition(spec, {.type = built_in_type(subject)});
  if (!prepared) return std::unexpected(std::move(prepared).error());
  return Term{.prepared = std::move(*prepared),
              .built_in = subject,
              .needs_phase = at_return,
              .at_return = at_return};
}

ConditionResult<EventFilter::Term> EventFilter::compile_value(const ConditionSpec& spec,
                                                              NamedValue named) const {
  Term term{.value = std::move(named)};
  values::ValueType& type = term.value.type;
  term.at_return = term.value.at_return;
  if (spec.type && type.is_known() && type.name != to_string(*spec.type))
    return wrong_at(spec.type_at, fmt::format("it {} {}, write no type",
                                              run_.is_live ? "is" : "was saved as", type.name));
  if (spec.type && !type.is_known()) {
    if (is_memory(*spec.type))
      return wrong_at(spec.type_at, Error{ErrorKind::not_found, "its text was not saved"}.hint(
                                        fmt::format("save it with: attach --args NAME:{}@{} "
                                                    "--save FILE",
                                                    to_string(*spec.type), spec.path->text)));
    type = declared_type(*spec.type, sizeof(std::uint64_t));
  }
  const values::ValueUse wanted = use_of(spec);
  if (wanted == values::ValueUse::number && type.use == values::ValueUse::text && type.is_address) {
    if (!compares_with_null(spec))
      return wrong_at(spec.constant_at,
                      "the address of a string is not saved: compare it with 0, or the string "
                      "with one in quotes");
    term.is_address = true;
    type = {.name = type.name, .is_address = true};
  } else if (wanted == values::ValueUse::bytes && type.use == values::ValueUse::text) {
    type.use = values::ValueUse::bytes;
  }
  auto prepared = compile_condition(spec, {.type = type});
  if (!prepared) {
    ConditionError error = std::move(prepared).error();
    if (type.use == values::ValueUse::none) error.at = spec.value_at;
    error.error = std::move(error.error).within(in_single_quotes(spec.path->text));
    return std::unexpected(std::move(error));
  }
  term.prepared = std::move(*prepared);
  return term;
}

ConditionResult<EventFilter::Term> EventFilter::compile(const ConditionSpec& spec,
                                                        const PointDescription& point) const {
  if (!spec.path) return compile_built_in(spec, *spec.built_in, point);
  auto named = find_variable(point.values, *spec.path);
  const bool is_hidden = std::ranges::find(point.hidden, spec.path->variable) != point.hidden.end();
  if (!named && spec.built_in && !is_hidden) return compile_built_in(spec, *spec.built_in, point);
  if (!named && !is_hidden) named = find_other(point, *spec.path, run_.arch);
  if (named && spec.is_failure) // the name means another value
    return Term{.prepared = always_true(), .built_in = COMPARE_CPU, .needs_phase = false};
  if (named) return compile_value(spec, std::move(*named));
  return fail(not_saved(point, *spec.path, run_.is_live));
}

EventFilter::Phases EventFilter::phases_of(const FilterNode& node, const Point& point) {
  Phases used;
  if (node.kind == FilterNode::Kind::term) {
    const Term& term = point.terms[node.term];
    if (term.needs_phase) (term.at_return ? used.exit : used.entry) = true;
    return used;
  }
  for (const FilterNode& part : node.parts) {
    const Phases each = phases_of(part, point);
    used.entry |= each.entry;
    used.exit |= each.exit;
  }
  return used;
}

// Splits the conditions by phase, as FilterCompiler::find_phases() does.
Result<void> EventFilter::add_conjuncts(const FilterExpression& expression, Point& point) const {
  auto& [at_entry, at_return] = point.conjuncts;
  if (point.pairs_calls) {
    std::vector<const FilterNode*> conjuncts;
    split_conjuncts(expression.root, conjuncts);
    for (const FilterNode* const each : conjuncts)
      (phases_of(*each, point).exit ? at_return : at_entry).push_back(each);
    return {};
  }
  const Phases used = phases_of(expression.root, point);
  const std::string subject =
      fmt::format("{} {}: ", expression.typed->option, in_single_quotes(expression.typed->text));
  if (run_.nests_calls && used.exit)
    return fail(Error{ErrorKind::usage,
                      subject + "a tree shows a call before its result and its duration are known"}
                    .hint("compare values of the entry; --min-latency leaves out short calls"));
  if (used.entry && used.exit)
    return fail(Error{ErrorKind::usage, subject + "it compares values of the entry and of the "
                                                  "return, which are two events"}
                    .hint("save the run with --latency, which makes both one event"));
  if (!used.exit) at_entry.push_back(&expression.root);
  if (!used.entry) at_return.push_back(&expression.root);
  return {};
}

// Compiles the terms for the point where spans begin or end. Others are empty.
Result<std::vector<EventFilter::Term>>
EventFilter::compile_end(bool at_end, const PointDescription& point) const {
  std::vector<Term> terms(filter_->terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (end_specs_[i].has_value() != at_end) continue;
    const ConditionSpec& spec = at_end ? *end_specs_[i] : filter_->terms[i];
    auto term = compile(spec, point);
    if (!term) return fail(describe_error(filter_->terms[i], std::move(term).error()));
    terms[i] = std::move(*term);
  }
  return terms;
}

Result<void> EventFilter::add_span_point(std::uint32_t probe, const PointDescription& description) {
  Point point;
  Result<void> added;
  for (const bool at_end : {false, true}) {
    if (!(at_end ? description.ends_spans : description.begins_spans)) continue;
    auto terms = compile_end(at_end, description);
    if (terms)
      (at_end ? point.end_terms : point.begin_terms) = std::move(*terms);
    else
      added = fail(std::move(terms).error());
  }
  points_.insert_or_assign(probe, std::move(point));
  return added;
}

void EventFilter::add_point(std::uint32_t probe, const PointDescription& description,
                            std::string_view name) {
  auto added = compile_point(probe, description);
  if (added)
    has_compared_points_ = true;
  else if (++points_without_ == 1)
    problem_ = std::move(added).error().within(name);
}

Result<std::string> EventFilter::check(std::string_view what) const {
  if (!problem_) return std::string();
  if (!has_compared_points_) return fail(*problem_);
  return fmt::format(fmt::runtime(what), counted(points_without_, "function", "functions")) + ": " +
         problem_->message;
}

Result<void> EventFilter::compile_point(std::uint32_t probe, const PointDescription& description) {
  if (description.is_of_spans()) return add_span_point(probe, description);
  Point point{.pairs_calls = description.pairs_calls, .terms = {}, .conjuncts = {}};
  for (const ConditionSpec& spec : filter_->terms) {
    auto term = compile(spec, description);
    if (!term) return fail(describe_error(spec, std::move(term).error()));
    point.terms.push_back(std::move(*term));
  }
  for (const FilterExpression& each : filter_->expressions)
    if (auto added = add_conjuncts(each, point); !added) return added;
  points_.insert_or_assign(probe, std::move(point));
  return {};
}

Truth EventFilter::evaluate_built_in(std::size_t number, const Term& term,
                                     const Event& event) const {
  const BuiltInVariable& variable = built_in_variable(*term.built_in);
  if (variable.is_text()) return texts_[number].match(event.*variable.text, true);
  const auto value = variable.number(event);
  return value ? truth_of(fulfils(term.prepared, *value)) : Truth::unknown;
}

Truth EventFilter::evaluate_value(std::size_t number, const Term& term,
                                  const values::Value& value) const {
  if (!term.is_address)
    return evaluate_condition(term.prepared, texts_[number], term.value.type, value);
  const auto is_zero = is_null_text(value);
  if (!is_zero) return Truth::unread;
  return truth_of(fulfils(term.prepared, *is_zero ? 0 : 1));
}

Truth EventFilter::evaluate(std::size_t number, const Term& term, const Event& event) const {
  if (term.built_in) return evaluate_built_in(number, term, event);
  values::Value made;
  const values::Value* const value = find_data(term.value, event, made);
  return value != nullptr ? evaluate_value(number, term, *value) : Truth::unknown;
}

// The condition of a span is decided when the span has ended: all its values are known then.
EventFilter::Decision EventFilter::decide_span(const Event& event) const {
  const Event* const end = event.span->end.get();
  const auto begin_point = points_.find(event.probe);
  const auto end_point = end != nullptr ? points_.find(end->probe) : points_.end();
  const bool asks_for_end =
      std::ranges::any_of(end_specs_, &std::optional<ConditionSpec>::has_value);
  if (begin_point == points_.end() || !begin_point->second.begin_terms) return Decision::fails;
  if (asks_for_end && (end_point == points_.end() || !end_point->second.end_terms))
    return Decision::fails;
  bool was_unread = false;
  const auto truth = [&](std::size_t term) {
    const Truth known = end_specs_[term]
                            ? evaluate(term, (*end_point->second.end_terms)[term], *end)
                            : evaluate(term, (*begin_point->second.begin_terms)[term], event);
    was_unread |= known == Truth::unread;
    return known;
  };
  const bool all_hold = std::ranges::all_of(filter_->expressions, [&](const auto& each) {
    return evaluate_expression(each.root, truth);
  });
  if (all_hold) return Decision::holds;
  return was_unread ? Decision::undecided : Decision::fails;
}

bool EventFilter::needs_return(std::uint32_t probe) const {
  const auto found = points_.find(probe);
  return found != points_.end() && !found->second.conjuncts[PHASE_RETURN].empty();
}

bool EventFilter::compares_phase_of(const Event& event) const {
  const auto found = points_.find(event.probe);
  if (event.span != nullptr || found == points_.end() || found->second.pairs_calls) return true;
  const bool is_return = event.kind == EventKind::on_return;
  return !found->second.conjuncts[is_return ? PHASE_RETURN : PHASE_ENTRY].empty();
}

EventFilter::Decision EventFilter::decide(const Event& event) const {
  if (event.span != nullptr) return decide_span(event);
  const auto found = points_.find(event.probe);
  if (found == points_.end()) return Decision::fails;
  const Point& point = found->second;
  const bool is_return = event.kind == EventKind::on_return;
  // A wait has neither arguments nor a result: conditions on these fail.
  const bool has_both = (is_return && point.pairs_calls) || event.kind == EventKind::wait;
  for (const std::size_t phase : {PHASE_ENTRY, PHASE_RETURN}) {
    if (!has_both && (phase == PHASE_RETURN) != is_return) continue;
    bool was_unread = false;
    const auto truth = [&](std::size_t term) {
      const Truth known = evaluate(term, point.terms[term], event);
      was_unread |= known == Truth::unread;
      return known;
    };
    const bool all_hold = std::ranges::all_of(point.conjuncts[phase], [&](const auto* const node) {
      return evaluate_expression(*node, truth);
    });
    if (!all_hold) return was_unread ? Decision::undecided : Decision::fails;
  }
  return Decision::holds;
}

} // namespace uprobectl::events
