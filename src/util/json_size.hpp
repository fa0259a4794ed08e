// SPDX-License-Identifier: Apache-2.0
// Bounds what a JSON parser needs for text of others: plans, recorded matches, records of a device.
// llvm::json::parse() recurses for each nested list or object and bounds neither depth nor memory.
#pragma once

#include <cstddef>
#include <string_view>

namespace uprobectl {

// The characters of JSON that cost a parser something, outside of strings. Text that is not JSON
// has a size, too: a parser cannot get further in it.
struct JsonSize {
  std::size_t depth = 0;  // of nested lists and objects
  std::size_t values = 0; // at most, but for one
};

JsonSize measure_json(std::string_view text);

// Checks that a record, a line of JSON Lines, can be parsed in little memory. No record of ours is
// near these bounds: --args-depth is at most 16.
bool is_parsable_record(std::string_view line);

} // namespace uprobectl
