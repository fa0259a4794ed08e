// SPDX-License-Identifier: Apache-2.0
// Selects the records of users' programs by --if, in a run and in a saved one.
#pragma once

#include "events/record_filter.hpp"
#include "output/output.hpp"

namespace uprobectl::trace {

class RecordSelection {
public:
  // Borrows the output. `types`: all that the records may have; empty: they are not known. Fails if
  // no record can be selected.
  static Result<RecordSelection> make(const events::Filter& filter,
                                      std::span<const values::ValueType> types,
                                      output::Output& output);

  // Warns of comparisons that are impossible with the type of the record, each once.
  bool selects(const events::Event& event);
  // Warns of comparisons whose member no record had. Call it after the last record.
  void report_unknown() const;

private:
  RecordSelection(events::RecordFilter filter, output::Output& output)
      : filter_(std::move(filter)), output_(&output) {}

  events::RecordFilter filter_;
  output::Output* output_;
};

} // namespace uprobectl::trace
