// SPDX-License-Identifier: Apache-2.0
// Filters the records of users' programs by their members. What --if compares is not in a register
// of the probed program, but in what its BPF program has sent.
#pragma once

#include "events/events.hpp"
#include "events/value_conditions.hpp"

#include <map>
#include <set>
#include <span>
#include <utility>

namespace uprobectl::events {

class RecordFilter {
public:
  // Fails with usage if a comparison is not one of a member, or of pid, tid or cpu.
  static Result<RecordFilter> make(Filter filter);

  // `types`: all that the records may have. Fails if none of them has the member of a comparison,
  // or if the comparison is impossible with each that has it. Succeeds if no types are known.
  Result<void> check(std::span<const values::ValueType> types);
  // Whether all expressions hold. A comparison of a member that the record does not have, or that
  // cannot be compared, fails, also if it is negated: as for arguments that cannot be read.
  // It compares what was sent. Without a type of the record its values have their own types.
  bool holds(const Event& event);
  // Returns why comparisons are impossible with the types of the records so far, each once.
  std::vector<Error> take_problems() { return std::exchange(problems_, {}); }

  // Returns the comparisons, as typed, whose member no record had so far; empty if there were no
  // records.
  std::vector<std::string> list_unknown() const;

private:
  // Says how a comparison is evaluated for records of one type.
  struct Term {
    enum class Kind : std::uint8_t { member, sender, unknown, impossible };
    Kind kind = Kind::unknown;
    PreparedTerm prepared = {};
    values::ValueType type = {};
  };

  Term compile(const ConditionSpec& spec, const values::ValueType& record);
  std::vector<Term> compile_all(const values::ValueType& record);
  Truth compare(std::size_t number, const Term& term, const Event& event);

  Filter filter_;
  std::vector<ConditionTexts> texts_; // by term
  std::map<std::shared_ptr<const values::ValueType>, std::vector<Term>> known_;
  std::vector<bool> was_found_; // by term
  std::vector<Error> problems_;
  std::set<std::string> reported_;
  bool has_seen_ = false;
};

} // namespace uprobectl::events
