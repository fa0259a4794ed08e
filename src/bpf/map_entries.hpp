// SPDX-License-Identifier: Apache-2.0
// Changes single entries of a table, such as one by which a pinned program selects its events, and
// visits all entries of a map.
#pragma once

#include "bpf/maps.hpp"

#include <functional>

namespace uprobectl::bpf {

enum class MapInsert { added, exists };

// Adds an entry to a map with keys and values. If there is one with this key it is replaced, or
// left as it is if `replace` is false. Fails with unsupported if the sizes are not those of the
// map.
Result<MapInsert> insert_entry(const UserMap& map, Bytes key, Bytes value, bool replace);

// Removes an entry; it is not an error if there is none.
Result<void> remove_entry(const UserMap& map, Bytes key);

// Visits the entries of a hash map with one value for each key: many with each call since Linux 5.6
// (commit 05799638011f), ten times as slowly one by one before. What programs add or remove
// meanwhile may be left out or visited twice. `visit` returns whether to go on.
void visit_entries(int map, std::size_t key_size, std::size_t value_size,
                   const std::function<bool(Bytes key, Bytes value)>& visit);

} // namespace uprobectl::bpf
