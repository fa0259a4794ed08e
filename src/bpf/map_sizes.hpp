// SPDX-License-Identifier: Apache-2.0
// The sizes of an object's maps: what its own loader would set, and the memory that they take.
#pragma once

#include "uprobectl/util.hpp"

#include <optional>
#include <span>

struct bpf_map;

namespace uprobectl::bpf {

// Completes a map as the usual loaders do: those of Go need no key and value of a perf event array,
// those of bcc's tools set the value of a stack trace map. Call it before anything compares the
// sizes with those of a loaded map.
void complete_map(bpf_map* map);

// Returns the size that a map gets which has none: entries, or bytes of a ring buffer; nullopt if
// it has one or needs none.
std::optional<std::uint32_t> choose_map_size(const bpf_map* map);

// Fails with unsupported if the maps would take more than 1 GiB of the kernel's memory, alone or
// together. Those of other objects and of pins take nothing: call it when they are known.
Result<void> check_map_memory(std::span<bpf_map* const> maps, const std::string& path);

} // namespace uprobectl::bpf
