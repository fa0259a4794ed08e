// SPDX-License-Identifier: Apache-2.0
// The text form of a task file: protobuf's text format, read by the table of fields.
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/schema.hpp"

namespace uprobectl::uprobestats {

struct TextForm {
  proto::UprobestatsConfig config;
  std::vector<std::string> warnings; // about unknown fields
};

// corrupt with the line and column if the text is not in protobuf's text format.
Result<TextForm> parse_text_form(std::string_view text);

} // namespace uprobectl::uprobestats
