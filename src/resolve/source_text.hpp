// SPDX-License-Identifier: Apache-2.0
// Finds and reads source files that debug information names.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::resolve {

// Where source files are searched, in this order.
struct SourceSearch {
  std::vector<std::string> folders; // --source-dir: with the whole path below it, or the end of it
  std::vector<std::string> debug_paths; // --debug-dir, likewise; other than folders are skipped
};

// Returns the path of the source file on this machine: in the folders of the search, else as the
// debug information has it. nullopt if there is none.
std::optional<std::string> find_source(std::string_view path, const SourceSearch& where);

// Calls visit for lines `first` to `last` of the source (from 1) that it has. A line is cut after
// max_source_line bytes.
constexpr std::size_t max_source_line = 1000;
void visit_source_lines(
    std::string_view source, std::uint32_t first, std::uint32_t last,
    const std::function<void(std::uint32_t line, std::string_view text)>& visit);

} // namespace uprobectl::resolve
