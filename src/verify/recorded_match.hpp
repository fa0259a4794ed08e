// SPDX-License-Identifier: Apache-2.0
// Reads `match` and `usdt` records that an earlier run has written.
#pragma once

#include "resolve/point_details.hpp"
#include "uprobectl/util.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llvm::json {
class Object;
}

namespace uprobectl::verify {

// The fields of a `match` or `usdt` record that verify compares.
struct RecordedMatch {
  std::string target;
  std::string request;
  std::optional<std::string> entry;
  // Both are nullopt for a library that was recorded with --extracted.
  std::optional<std::string> file;
  std::optional<std::uint64_t> offset;
  std::uint64_t image_offset = 0;
  // Of a plan, which has no offsets: they are compared by address.
  std::optional<std::uint64_t> address = {};
  std::optional<std::string> symbol; // "PROVIDER:NAME" of a static probe
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> version;
  bool is_old_version = false; // a bare name means another one
  std::optional<std::string> build_id;
  std::optional<std::string> table = {}; // of symbols, which has the name: "debug_file"
  bool is_inlined = false;               // an inlined instance of the symbol
  // ResolveOptions::Clones as text; nullopt in records of versions before 1.1 and of numbers.
  std::optional<std::string> clones = {};
  std::shared_ptr<const resolve::PointDetails> details = {}; // null: they were not recorded
  std::size_t line = 0;                                      // in the file of the record, from 1

  // The fields of a `usdt` record.
  struct Static {
    std::optional<std::uint64_t> semaphore_offset;
    std::optional<std::uint64_t> semaphore_address;
    std::string raw_arguments;
  };
  std::optional<Static> static_probe;
};

// Parses one line of JSON Lines. Fails with `corrupt` if it is not an object with a text "type".
Result<llvm::json::Object> parse_record(std::string_view line);
std::optional<std::string> json_text(const llvm::json::Object& object, std::string_view key);
// Reads the value of the key "details"; null without one. Fails with `corrupt`.
Result<std::shared_ptr<const resolve::PointDetails>> details_at(const llvm::json::Object& object);

// Reads a parsed record. Returns nullopt for one of another type. Fails with `corrupt` if it lacks
// a required key. Unknown keys are ignored.
Result<std::optional<RecordedMatch>> read_match_record(const llvm::json::Object& object);

} // namespace uprobectl::verify
