// SPDX-License-Identifier: Apache-2.0
// Filters the records of users' programs by their members. What --if compares is not in a register
// of the probed program, but in what its BPF program has sent.
#pragma once

#include "events/events.hpp"
#include "events/filter.hpp"
#include "events/text_pattern.hpp"

#include <set>

namespace uprobectl {

class RecordFilter {
public:
  // Fails with usage if a comparison is not one of a member, or of pid, tid or cpu.
  static Result<RecordFilter> make(Filter filter);

  // Whether all expressions hold. A comparison of a member that the record does not have, or that
  // cannot be compared, fails, also if it is negated: as for arguments that cannot be read.
  bool holds(const Event& event);

  // Returns the comparisons, as typed, whose member no record had so far; empty if there were no
  // records.
  std::vector<std::string> list_unknown() const;

private:
  // How the texts of a comparison are matched: by a set if all are compared whole.
  struct Texts {
    std::set<std::string, std::less<>> exact;
    std::vector<PatternState> states;

    bool match(std::string_view text) const;
  };

  bool holds(const FilterNode& node, const Event& event);
  std::optional<bool> compare(std::size_t term, const Event& event);

  Filter filter_;
  std::vector<Texts> texts_;    // by term
  std::vector<bool> was_found_; // by term
  bool has_seen_ = false;
};

} // namespace uprobectl
