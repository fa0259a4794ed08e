// SPDX-License-Identifier: Apache-2.0
// Readings and conditions for the built-in program, checks of them, and results of readings.
#pragma once

#include "bpf/record.h"
#include "uprobectl/util.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace uprobectl::events {

// The maximum sum of the capacities of a point's prepared readings, unless the caller sets another.
constexpr std::uint32_t default_prepared_bytes = 512;

// How many structures in structures are captured.
constexpr int default_typed_depth = 2;
constexpr int max_typed_depth = 16;

// A comparison of a filter at a point. FilterCompiler sets the targets of the term, and its
// constant if it is a set or a pattern.
struct PreparedTerm {
  filter_term term = {};
  std::vector<std::uint64_t> members = {}; // IS_IN_SET: in ascending order
  std::optional<reading> length = {};      // READ_BYTES: the number of bytes, an integer
  // An integer that is added to the value or its length, if their offset_from is not 0.
  std::optional<reading> offset = {};
};

// The phases in which a run reads values, and whether its records have both.
struct CapturePhases {
  bool entry = true;
  bool exit = false;   // the phase return
  bool paired = false; // a return record has the values of the entry, too
};

// Check that the built-in program can evaluate readings, which take up to default_prepared_bytes, a
// condition or a measured value in these phases. Conditions and measurements come before readings,
// so they have no base_from. Fail with `usage`; check_readings() names the number of the reading.
Result<void> check_readings(std::span<const reading> readings, const CapturePhases& phases);
Result<void> check_condition(const PreparedTerm& condition, const CapturePhases& phases);
Result<void> check_measured(const reading& measured, const CapturePhases& phases);

// The result of a reading.
struct ReadResult {
  // False if the record is of another phase, such as a return record if calls are not paired.
  bool was_read = false;
  std::int64_t status = 0;   // 0 or more; a negative errno if the value could not be read
  bool not_resident = false; // status is negative: the address is mapped, its page was not loaded
  std::uint64_t value = 0;   // reading_result::value
  Bytes bytes = {};          // of strings (without NUL) and buffers; borrowed from the record
  bool is_truncated = false; // there were more bytes than the capacity, or than could be read
  // The reason why the length of a buffer, and with it its bytes, is not known.
  std::string_view length_problem = {};

  bool is_read() const { return was_read && status >= 0 && length_problem.empty(); }
};

} // namespace uprobectl::events
