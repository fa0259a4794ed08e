// SPDX-License-Identifier: Apache-2.0
// The options that set a BPF object up before it is loaded, of attach and of load.
#pragma once

#include "bpf/object.hpp"
#include "option_parser.hpp"
#include "util/workstation.hpp"

namespace uprobectl::cli {

struct ObjectOptions {
  std::vector<std::string> globals;
  std::vector<std::string> map_entries;
  std::vector<std::string> fills;
  std::optional<std::string> kernel_types; // a file
};

void bind_object_options(OptionParser& parser, ObjectOptions& options);

// Reads the values of --set, NAME=VALUE, of --map-entries, MAP=N, and of --fill, also the lines of
// the files that it names. usage if one is invalid.
Result<bpf::ObjectSettings> parse_object_settings(const OptionParser& parser,
                                                  const ObjectOptions& options,
                                                  Workstation& workstation);

} // namespace uprobectl::cli
