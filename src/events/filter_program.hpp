// SPDX-License-Identifier: Apache-2.0
// Compiles the filter of a run to the tables that the built-in program evaluates at a hit.
#pragma once

#include "bpf/builtin.hpp"
#include "events/plan.hpp"

#include <map>

namespace uprobectl::events {

// Whether terms of the subject can be evaluated at entries and at returns alike.
bool is_known_anywhere(filter_subject subject);

// Makes the filters of the plans of a run. Stores equal filters, and equal sets, once.
class FilterCompiler {
public:
  // Borrows `capture`. Fails with `usage` if a pattern is too complex.
  static Result<FilterCompiler> make(const CaptureSpec& capture);

  // `terms`: by the index in Filter::terms, as they are at the points of a plan; those that the
  // expressions do not have are not looked at. Returns point_plan::filters. Fails with `usage` if
  // an expression compares values of the entry and of the return and calls are not paired.
  Result<std::array<record_u32, 2>> add(std::span<const FilterExpression> expressions,
                                        std::span<const PreparedTerm> terms);

  const bpf::FilterTables& tables() const { return tables_; }
  // Sets what the program must be able to do.
  void describe(builtin_settings& settings) const;

private:
  explicit FilterCompiler(const CaptureSpec& capture) : capture_(&capture) {}

  Result<void> find_phases(const FilterExpression& expression, std::span<const PreparedTerm> terms,
                           std::array<std::vector<const FilterNode*>, 2>& groups) const;
  record_u32 compile(std::span<const FilterNode* const> conjuncts,
                     std::span<const PreparedTerm> terms);
  filter_term finish(std::size_t number, const PreparedTerm& term);
  std::uint32_t set_number(const std::vector<std::uint64_t>& members);

  const CaptureSpec* capture_;
  bpf::FilterTables tables_;
  std::vector<std::uint32_t> pattern_numbers_; // by term
  std::vector<std::uint32_t> text_sets_;       // by term: the first state; 0: not a large set
  std::map<std::vector<std::uint64_t>, std::uint32_t> sets_;
  bool keeps_terms_ = false;                // a filter of returns compares values of the entry
  std::map<std::string, record_u32> known_; // 1 + index of a filter, by its bytes
};

} // namespace uprobectl::events
