// SPDX-License-Identifier: Apache-2.0
// Captures that a caller describes by readings of its own, for example from the types of debug
// information. events/plan.hpp says how they are used.
#pragma once

#include "bpf/record.h"
#include "uprobectl/util.hpp"

#include <vector>

namespace uprobectl {

// The maximum sum of the capacities of a point's prepared readings, unless the caller sets another.
constexpr std::uint32_t default_prepared_bytes = 512;

// How many structures in structures are captured.
constexpr int default_typed_depth = 2;
constexpr int max_typed_depth = 16;

// A comparison of a filter at a point. FilterCompiler sets the targets of the term, and its
// constant if it is a set or a pattern.
struct PreparedTerm {
  filter_term term = {};
  std::vector<std::uint64_t> members = {}; // IS_IN_SET
  std::optional<reading> length = {};      // READ_BYTES: the number of bytes, an integer
};

// What is captured at a point instead of what CaptureSpec asks for.
struct PreparedCapture {
  // At most MAX_READINGS. base_from and length_from name integers. bytes_offset is set by
  // CapturePlan; 0 as bit_count, element_size or pointer_size stands for the default.
  std::vector<reading> readings = {};
  // The readings replace what CaptureSpec::arguments asks for; if false, there are none.
  bool replaces_arguments = true;
  // By the index in Filter::terms: replaces that comparison; nullopt, or beyond the end: that
  // applies. Filters and measurements take place before readings, so they have no base_from.
  std::vector<std::optional<PreparedTerm>> conditions = {};
  // Replaces CaptureSpec::measured at this point.
  std::optional<reading> measured = {};
  std::uint32_t max_bytes = default_prepared_bytes; // sum of the capacities
};

// The moments at which a run reads values, and whether its records have both.
struct CaptureMoments {
  bool entry = true;
  bool exit = false;
  bool paired = false;
};

// Checks that the built-in program can evaluate the readings, conditions and the measured value at
// these moments. Fails with `usage` and names the number of the reading or condition.
Result<void> check_prepared(const PreparedCapture& prepared, const CaptureMoments& moments);

// The result of a prepared reading.
struct PreparedValue {
  // False if the record is of another moment, as a return record without calls that are paired.
  bool was_read = false;
  std::int64_t status = 0;   // 0 or more; a negative errno if the value could not be read
  bool not_resident = false; // status is negative: the address is mapped, its page was not loaded
  std::uint64_t value = 0;   // reading_result::value
  Bytes bytes = {};          // of strings (without NUL) and buffers; borrowed from the record
  bool is_truncated = false; // there were more bytes than the capacity, or than could be read
};

} // namespace uprobectl
