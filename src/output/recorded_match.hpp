// SPDX-License-Identifier: Apache-2.0
// Records that an earlier run has written, read back.
#pragma once

#include "uprobectl/util.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// A `match` or `usdt` record read back from JSON: what of it can be compared.
struct RecordedMatch {
  std::string target;
  std::string request;
  std::optional<std::string> entry;
  std::optional<std::string> file;     // nothing, as is offset, for a library that was recorded
  std::optional<std::uint64_t> offset; // with --extracted
  std::uint64_t image_offset = 0;
  std::optional<std::string> symbol; // "PROVIDER:NAME" of a static probe
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> version;
  std::optional<std::string> build_id;

  struct Static {
    std::optional<std::uint64_t> semaphore_offset;
    std::optional<std::uint64_t> semaphore_address;
    std::string raw_arguments;
  };
  std::optional<Static> static_probe;
};

// One line of JSON Lines: a match or a static probe, or nothing for a record of another type.
// corrupt where the line is no JSON object or a match lacks what is needed; keys that are not known
// are passed over.
Result<std::optional<RecordedMatch>> read_match_record(std::string_view line);

} // namespace uprobectl
