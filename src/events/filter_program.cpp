// SPDX-License-Identifier: Apache-2.0
#include "events/filter_program.hpp"

#include "events/built_in_variables.hpp"

#include "events/text_pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

struct UsedPhases {
  bool entry = false;
  bool exit = false;
};

UsedPhases phases_of(const FilterNode& node, std::span<const PreparedTerm> terms) {
  UsedPhases used;
  if (node.kind == FilterNode::Kind::term) {
    const filter_term& term = terms[node.term].term;
    if (is_known_anywhere(static_cast<filter_subject>(term.subject))) return used;
    (term.value.phase == PHASE_RETURN ? used.exit : used.entry) = true;
    return used;
  }
  for (const FilterNode& part : node.parts) {
    const UsedPhases each = phases_of(part, terms);
    used.entry |= each.entry;
    used.exit |= each.exit;
  }
  return used;
}

// Whether a term is evaluated at the entry if calls are paired.
bool has_entry_term(const FilterNode& node, std::span<const PreparedTerm> terms) {
  if (node.kind == FilterNode::Kind::term) return terms[node.term].term.value.phase == PHASE_ENTRY;
  return std::ranges::any_of(node.parts,
                             [&](const FilterNode& part) { return has_entry_term(part, terms); });
}

std::size_t count_terms(const FilterNode& node) {
  if (node.kind == FilterNode::Kind::term) return 1;
  std::size_t count = 0;
  for (const FilterNode& part : node.parts) count += count_terms(part);
  return count;
}

// Returns how many further terms a filter needs for the readings of this one.
std::size_t count_readings(const PreparedTerm& term) {
  return (term.length ? 1U : 0U) + (term.offset ? 1U : 0U);
}

// The terms at which the evaluation goes on after a part of an expression.
struct FilterTargets {
  std::size_t if_true = FILTER_HOLDS;
  std::size_t if_false = FILTER_FAILS;
};

// Short-circuit code: each comparison jumps to the next one that matters. A value that is not known
// takes the way of a part that does not hold, which also is right for a negated comparison.
class ShortCircuitCode {
public:
  explicit ShortCircuitCode(std::vector<std::pair<const FilterNode*, FilterTargets>>& code)
      : code_(code) {}

  void add(const FilterNode& node, FilterTargets targets) {
    if (node.kind == FilterNode::Kind::term) {
      code_.emplace_back(&node, targets);
      return;
    }
    std::size_t next = code_.size();
    for (const FilterNode& part : node.parts) {
      next += count_terms(part);
      FilterTargets of_part = targets;
      if (&part != &node.parts.back())
        (node.kind == FilterNode::Kind::all ? of_part.if_true : of_part.if_false) = next;
      add(part, of_part);
    }
  }

private:
  std::vector<std::pair<const FilterNode*, FilterTargets>>& code_;
};

} // namespace

bool is_known_anywhere(filter_subject subject) {
  return subject != COMPARE_READING && !call_time_of(subject);
}

Result<FilterCompiler> FilterCompiler::make(const CaptureSpec& capture) {
  FilterCompiler made(capture);
  std::size_t states = 0;
  TextChunks chunks;
  for (const ConditionSpec& term : capture.filter.terms) {
    made.pattern_numbers_.push_back(static_cast<std::uint32_t>(made.tables_.patterns.size()));
    std::uint32_t& text_set = made.text_sets_.emplace_back();
    if (term.patterns.empty() || term.built_in == COMPARE_CALLER) continue;
    if (is_large_set(term.patterns)) {
      text_set = chunks.add(term.patterns);
      continue;
    }
    auto pattern = compile_patterns(term.patterns);
    if (!pattern) return fail(describe_error(term, {term.constant_at, std::move(pattern).error()}));
    states = std::max(states, pattern->size());
    made.tables_.patterns.push_back(std::move(*pattern));
  }
  made.tables_.text_chunks = std::move(chunks).take();
  if (states > 0) made.tables_.pattern_states = static_cast<std::uint32_t>(std::bit_ceil(states));
  return made;
}

// Without pairs an expression applies to the events that have its values; one about the thread
// applies to all. Of pairs, each part that must hold is decided as early as possible.
Result<void>
FilterCompiler::find_phases(const FilterExpression& expression, std::span<const PreparedTerm> terms,
                            std::array<std::vector<const FilterNode*>, 2>& groups) const {
  if (capture_->pair_calls) {
    std::vector<const FilterNode*> conjuncts;
    split_conjuncts(expression.root, conjuncts);
    for (const FilterNode* const each : conjuncts)
      groups[phases_of(*each, terms).exit ? PHASE_RETURN : PHASE_ENTRY].push_back(each);
    return {};
  }
  const UsedPhases used = phases_of(expression.root, terms);
  if (capture_->entry_decides) {
    if (used.exit)
      return fail(Error{ErrorKind::usage,
                        fmt::format("--if {}: a tree shows a call before its result and its "
                                    "duration are known",
                                    in_single_quotes(expression.typed->text))}
                      .hint("compare values of the entry; --min-latency leaves out short calls"));
    groups[PHASE_ENTRY].push_back(&expression.root);
    return {};
  }
  if (used.entry && used.exit)
    return fail(Error{ErrorKind::usage,
                      fmt::format("--if {}: it compares values of the entry and of the return, "
                                  "which are two events",
                                  in_single_quotes(expression.typed->text))}
                    .hint("add --latency, which makes both one event"));
  if (capture_->on_entry && !used.exit) groups[PHASE_ENTRY].push_back(&expression.root);
  if (capture_->on_return && !used.entry) groups[PHASE_RETURN].push_back(&expression.root);
  return {};
}

Result<std::array<record_u32, 2>> FilterCompiler::add(std::span<const FilterExpression> expressions,
                                                      std::span<const PreparedTerm> terms) {
  std::size_t count = terms.size();
  for (const PreparedTerm& each : terms) count += count_readings(each);
  if (count > MAX_FILTER_TERMS)
    return fail(ErrorKind::usage,
                fmt::format("more than {} comparisons in --if; texts of Rust, Go and string_view, "
                            "members of virtual base classes, and what an optional or a variant "
                            "has count twice",
                            MAX_FILTER_TERMS));
  std::array<std::vector<const FilterNode*>, 2> groups;
  for (const FilterExpression& each : expressions)
    if (auto found = find_phases(each, terms, groups); !found) return fail(found.error());
  for (const FilterNode* const each : groups[PHASE_RETURN])
    if (capture_->pair_calls && has_entry_term(*each, terms)) keeps_terms_ = true;
  return std::array{compile(groups[PHASE_ENTRY], terms), compile(groups[PHASE_RETURN], terms)};
}

record_u32 FilterCompiler::compile(std::span<const FilterNode* const> conjuncts,
                                   std::span<const PreparedTerm> terms) {
  if (conjuncts.empty()) return 0;
  std::vector<std::pair<const FilterNode*, FilterTargets>> code;
  std::size_t next = 0;
  for (const FilterNode* const each : conjuncts) {
    next += count_terms(*each);
    FilterTargets targets;
    if (each != conjuncts.back()) targets.if_true = next;
    ShortCircuitCode(code).add(*each, targets);
  }
  filter made{};
  made.term_count = static_cast<record_u32>(code.size());
  std::size_t end = code.size(); // of the terms and their lengths
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto& [node, targets] = code[i];
    filter_term& term = made.terms[i] = finish(node->term, terms[node->term]);
    const auto holds = static_cast<record_u8>(targets.if_true);
    const auto fails = static_cast<record_u8>(targets.if_false);
    term.if_true = node->negated ? fails : holds;
    term.if_false = node->negated ? holds : fails;
    term.if_unknown = fails;
    const PreparedTerm& prepared = terms[node->term];
    if (end + count_readings(prepared) > MAX_FILTER_TERMS) continue; // impossible, see add()
    auto length = prepared.length;
    if (prepared.offset) {
      made.terms[end++].value = *prepared.offset;
      for (reading* const each : {&term.value, length ? &*length : nullptr})
        if (each != nullptr && each->offset_from != 0)
          each->offset_from = static_cast<record_u8>(end);
    }
    if (!length) continue;
    made.terms[end].value = *length;
    term.value.length_from = static_cast<record_u8>(++end);
  }
  made.reading_count = static_cast<record_u32>(end - code.size());
  const std::string bytes(reinterpret_cast<const char*>(&made), sizeof(made));
  const auto number = static_cast<record_u32>(tables_.filters.size() + 1);
  const auto [known, is_new] = known_.emplace(bytes, number);
  if (is_new) tables_.filters.push_back(made);
  return known->second;
}

filter_term FilterCompiler::finish(std::size_t number, const PreparedTerm& term) {
  filter_term made = term.term;
  if (made.comparison == IS_IN_SET) made.constant = set_number(term.members);
  if (made.subject == COMPARE_CALLER) {
    made.constant = std::uint64_t{1} << caller_number(capture_->filter, number);
  } else if (text_sets_[number] != 0) {
    made.comparison = IS_IN_TEXTS;
    made.constant = text_sets_[number];
  } else if (made.comparison == MATCHES) {
    made.constant = pattern_numbers_[number];
    const std::string head = common_head(tables_.patterns[made.constant]);
    std::memcpy(made.head, head.data(), head.size());
    std::memset(made.head_mask, 0xff, head.size());
  }
  return made;
}

std::uint32_t FilterCompiler::set_number(const std::vector<std::uint64_t>& members) {
  const auto next = static_cast<std::uint32_t>(sets_.size());
  const auto [known, is_new] = sets_.emplace(members, next);
  if (is_new)
    for (const std::uint64_t each : members)
      tables_.members.push_back({.value = each, .set = next, .unused = 0});
  return known->second;
}

void FilterCompiler::describe(builtin_settings& settings) const {
  settings.pattern_states = tables_.pattern_states;
  for (const filter& each : tables_.filters) {
    const std::uint32_t count = each.term_count + each.reading_count;
    settings.max_terms = std::max(settings.max_terms, count);
    for (const filter_term& term : std::span(each.terms, count)) {
      if (term.value.length_from > 0) settings.filter_features |= FILTERS_LENGTHS;
      if (term.value.offset_from > 0) {
        settings.filter_features |= FILTERS_OFFSETS;
        settings.reading_features |= USES_OFFSET_FROM;
      }
      if (term.value.base_from > 0) {
        settings.filter_features |= FILTERS_KEPT;
        settings.reading_features |= USES_BASE_FROM;
      }
      if (term.value.adds_thread_pointer != 0) settings.reading_features |= USES_THREAD_POINTER;
      if (term.value.scale > 0) settings.reading_features |= USES_INDEX;
      if (term.value.guard != NO_GUARD) settings.reading_features |= USES_GUARD;
      settings.max_steps = std::max<std::uint32_t>(settings.max_steps, term.value.steps);
    }
    for (const filter_term& term : std::span(each.terms, each.term_count)) {
      settings.filter_features |= 1U << term.subject;
      if (term.comparison == IS_IN_SET) settings.filter_features |= FILTERS_SETS;
      if (term.comparison == IS_IN_TEXTS) settings.filter_features |= FILTERS_TEXT_SETS;
      const bool is_text = term.comparison == MATCHES || term.comparison == IS_IN_TEXTS;
      if (!is_text) settings.filter_features |= FILTERS_NUMBERS;
      if (term.float_size > 0) settings.filter_features |= FILTERS_FLOATS;
      if (term.subject != COMPARE_READING && term.subject != COMPARE_CALLER) continue;
      if (term.subject == COMPARE_READING && is_text) settings.filter_features |= FILTERS_TEXT;
      settings.reading_features |= 1U << term.value.form;
    }
  }
  if (keeps_terms_) settings.filter_features |= FILTERS_CALLS;
}

} // namespace uprobectl::events
