// The text form of a task file -> the binary one, in the current numbering.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl::uprobestats {

struct TextForm {
  std::string wire;                  // for the messages of task_file.proto
  std::vector<std::string> warnings; // fields that are not known
};

// corrupt with the line and column where the text is not what protobuf's text format has there.
Result<TextForm> parse_text_form(std::string_view text);

} // namespace uprobectl::uprobestats
