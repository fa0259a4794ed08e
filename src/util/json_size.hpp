// SPDX-License-Identifier: Apache-2.0
// Bounds what a JSON parser needs for text of others: plans, recorded matches, records of a device.
// llvm::json::parse() recurses for each nested list or object and bounds neither depth nor memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

// The characters of JSON that cost a parser something, outside of strings. Text that is not JSON
// has a size, too: a parser cannot get further in it.
struct JsonSize {
  std::size_t depth = 0;   // of nested lists and objects
  std::size_t values = 0;  // at most, but for one
  std::size_t objects = 0; // each takes more than 4 KiB in memory: a DenseMap of 64 buckets
};

JsonSize measure_json(std::string_view text);

// How many objects one text may have that is parsed at once: some 70 MiB.
constexpr std::size_t max_json_objects = 1 << 14;

// A document without the objects in its lists of one depth, which can then be parsed one at a time.
struct JsonParts {
  std::string rest;                      // has the number of each object instead of it
  std::vector<std::string_view> objects; // views of the document
};

// Takes the objects out of all lists at this depth; the outermost value has depth 1. Returns
// nullopt if such a list also has something else, or if an object does not end.
std::optional<JsonParts> split_json(std::string_view text, std::size_t list_depth);

// Checks that a record, a line of JSON Lines, can be parsed in little memory. No record of ours is
// near these bounds: --args-depth is at most 16.
bool is_parsable_record(std::string_view line);

} // namespace uprobectl
