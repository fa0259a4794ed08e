// The binary form of a task file, in whichever of its two numberings it was written.
#pragma once

#include "uprobectl/base.hpp"
#include "uprobestats/task_file.pb.h"

namespace uprobectl::uprobestats {

struct BinaryForm {
  wire::UprobestatsConfig config;
  std::vector<std::string> warnings; // fields that are not known
};

// corrupt with the byte, ambiguous where both numberings fit.
Result<BinaryForm> parse_binary_form(Bytes file);

// Of what is known to be in the current numbering.
Result<wire::UprobestatsConfig> parse_current(Bytes file);

} // namespace uprobectl::uprobestats
