// SPDX-License-Identifier: Apache-2.0
#include "events/record_filter.hpp"

#include "events/built_in_variables.hpp"
#include "events/event_values.hpp"

#include <algorithm>
#include <memory>

namespace uprobectl::events {

namespace {

// The type of a value of a record without a type.
values::ValueType type_of(const values::Value& value) {
  values::ValueType made{.name = "an integer"};
  if (std::holds_alternative<std::int64_t>(value.value)) {
    made.is_signed = true;
  } else if (std::holds_alternative<double>(value.value)) {
    made = {.name = "a floating-point number", .is_floating = true};
  } else if (std::holds_alternative<std::string>(value.value)) {
    made = {.use = values::ValueUse::text, .name = "a string"};
  } else if (const auto* const raw = std::get_if<values::Value::Raw>(&value.value)) {
    made = {.use = values::ValueUse::bytes, .name = "a buffer", .size = raw->bytes.size()};
  } else if (const auto* const members = std::get_if<values::Value::Struct>(&value.value)) {
    made = {.use = values::ValueUse::none, .name = "a structure"};
    for (const values::ValueMember& member : *members) {
      made.members.push_back(type_of(member.value));
      made.members.back().member_name = member.name;
    }
  } else if (const auto* const elements = std::get_if<values::Value::Array>(&value.value)) {
    made = {.use = values::ValueUse::none, .name = "an array"};
    made.element.push_back(elements->empty() ? values::ValueType{} : type_of(elements->front()));
  } else if (const auto* const name = std::get_if<values::Value::Name>(&value.value)) {
    made.name = "an enumeration";
    made.is_signed = true;
    made.enumeration = std::make_shared<values::Enumeration>(values::Enumeration{
        .name = {}, .enumerators = {{.name = name->text, .value = name->number.value_or(0)}}});
  } else if (!number_of(value)) {
    made = {.use = values::ValueUse::none, .name = "a value", .problem = "it cannot be compared"};
  }
  return made;
}

// The value of a record before it was changed to how it is shown; null without a value.
const values::Value* sent_value(const Event& event) {
  if (event.record == nullptr || !event.record->value) return nullptr;
  return event.record->sent ? &*event.record->sent : &*event.record->value;
}

// Returns whether the variable belongs to the thread that sent the record.
bool is_of_sender(std::optional<filter_subject> subject) {
  return subject == COMPARE_THREAD_ID || subject == COMPARE_PROCESS_ID || subject == COMPARE_CPU;
}

} // namespace

Result<RecordFilter> RecordFilter::make(Filter filter) {
  RecordFilter made;
  for (const ConditionSpec& spec : filter.terms) {
    // "$thread", or --thread, which stands for it.
    if (!spec.path && !is_of_sender(spec.built_in))
      return fail(describe_error(
          spec, wrong_at(spec.value_at, "records of a user's program do not have it").error()));
    if (spec.type)
      return fail(describe_error(
          spec,
          wrong_at(spec.type_at, "members of records have the types of their source").error()));
    auto texts = ConditionTexts::make(spec);
    if (!texts) return fail(std::move(texts).error());
    made.texts_.push_back(std::move(*texts));
  }
  made.was_found_.resize(filter.terms.size());
  made.filter_ = std::move(filter);
  return made;
}

RecordFilter::Term RecordFilter::compile(const ConditionSpec& spec,
                                         const values::ValueType& record) {
  const values::ValueType* const member =
      spec.path ? find_record_member(record, *spec.path) : nullptr;
  if (member == nullptr && !is_of_sender(spec.built_in)) return {};
  Term term{.kind = member != nullptr ? Term::Kind::member : Term::Kind::sender,
            .type = member != nullptr ? *member : built_in_type(*spec.built_in)};
  if (spec.is_failure) return term;
  // Bytes may be compared with a text, which ends at their first NUL, and characters with bytes.
  const values::ValueUse wanted = use_of(spec);
  const auto may_be = [&](values::ValueUse from, values::ValueUse to) {
    if (wanted == to && term.type.use == from) term.type.use = to;
  };
  may_be(values::ValueUse::bytes, values::ValueUse::text);
  may_be(values::ValueUse::text, values::ValueUse::bytes);
  auto prepared = compile_condition(spec, {.type = term.type});
  if (prepared) {
    term.prepared = std::move(*prepared);
    return term;
  }
  Error problem = describe_error(spec, std::move(prepared).error());
  if (reported_.insert(problem.message).second) problems_.push_back(std::move(problem));
  term.kind = Term::Kind::impossible;
  return term;
}

Result<void> RecordFilter::check(std::span<const values::ValueType> types) {
  for (const ConditionSpec& spec : filter_.terms) {
    if (spec.path && !is_of_sender(spec.built_in))
      if (auto missing = find_missing_member(types, *spec.path))
        return fail(describe_error(spec, {spec.value_at + missing->at, std::move(missing->error)}));
    const bool is_possible = std::ranges::any_of(types, [&](const values::ValueType& type) {
      const Term::Kind kind = compile(spec, type).kind;
      return kind == Term::Kind::member || kind == Term::Kind::sender;
    });
    const std::vector<Error> problems = take_problems();
    reported_.clear();
    if (!is_possible && !problems.empty()) return fail(problems.front());
  }
  return {};
}

std::vector<RecordFilter::Term> RecordFilter::compile_all(const values::ValueType& record) {
  std::vector<Term> terms;
  for (const ConditionSpec& spec : filter_.terms) terms.push_back(compile(spec, record));
  return terms;
}

Truth RecordFilter::compare(std::size_t number, const Term& term, const Event& event) {
  const ConditionSpec& spec = filter_.terms[number];
  if (term.kind == Term::Kind::impossible) was_found_[number] = true; // that is reported
  if (term.kind == Term::Kind::sender) {
    if (event.time_ns == 0) return Truth::unknown; // the sender is not known
    was_found_[number] = true;
    return truth_of(
        fulfils(term.prepared, built_in_variable(*spec.built_in).number(event).value_or(0)));
  }
  if (term.kind != Term::Kind::member) return Truth::unknown;
  if (spec.is_failure) { // the name is that of a member
    was_found_[number] = true;
    return Truth::yes;
  }
  const values::Value* const sent = sent_value(event);
  const values::Value* const value =
      sent != nullptr ? find_record_member(*sent, *spec.path) : nullptr;
  if (value == nullptr) return Truth::unknown; // the record was cut, or has fewer elements
  was_found_[number] = true;
  return evaluate_condition(term.prepared, texts_[number], term.type, *value);
}

bool RecordFilter::holds(const Event& event) {
  has_seen_ = true;
  std::vector<Term> own;
  const std::vector<Term>* terms = &own;
  if (event.record != nullptr && event.record->value_type != nullptr) {
    const auto [known, is_new] = known_.try_emplace(event.record->value_type);
    if (is_new) known->second = compile_all(*known->first);
    terms = &known->second;
  } else {
    const values::Value* const sent = sent_value(event);
    own = compile_all(sent != nullptr
                          ? type_of(*sent)
                          : values::ValueType{.use = values::ValueUse::none, .name = "a record"});
  }
  // All, so that list_unknown() has those of unknown members only.
  std::vector<Truth> truths;
  for (std::size_t i = 0; i < terms->size(); ++i) truths.push_back(compare(i, (*terms)[i], event));
  return std::ranges::all_of(filter_.expressions, [&](const FilterExpression& each) {
    return evaluate_expression(each.root, [&](std::size_t term) { return truths[term]; });
  });
}

std::vector<std::string> RecordFilter::list_unknown() const {
  std::vector<std::string> unknown;
  for (std::size_t i = 0; has_seen_ && i < was_found_.size(); ++i)
    if (!was_found_[i]) unknown.push_back(filter_.terms[i].text);
  return unknown;
}

} // namespace uprobectl::events
