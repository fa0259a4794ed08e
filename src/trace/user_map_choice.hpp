// SPDX-License-Identifier: Apache-2.0
// Which maps of users' programs a run reads or prints (--map).
#pragma once

#include "bpf/maps.hpp"
#include "output/output.hpp"
#include "trace/user_programs.hpp"
#include "values/btf_types.hpp"

#include <memory>
#include <span>

namespace uprobectl::trace {

// Fails if an unusable map is named, or is a buffer that is read because no map is named. Warns of
// other unusable maps that a program uses.
Result<void> check_unusable_maps(const UserPrograms& programs, std::span<const std::string> named,
                                 output::Output& output);

// Returns the named maps, or all. `known`: those of the programs, whose types are `types`; null:
// they have none. If several of the `objects` (paths) have a map of a name, all are returned, with
// labels. Fails with not_found, and lists the maps.
Result<std::vector<bpf::UserMap>> select_maps(std::span<const std::string> named,
                                              std::vector<bpf::UserMap> known,
                                              const std::shared_ptr<const values::BtfTypes>& types,
                                              std::span<const std::string> objects);

// Returns the names of maps in which programs may have collected data; empty if there is a buffer.
std::vector<std::string> list_collecting(std::span<const bpf::UserMap> maps);

} // namespace uprobectl::trace
