// SPDX-License-Identifier: Apache-2.0
// Changes single entries of a table, such as one by which a pinned program selects its events.
#pragma once

#include "bpf/maps.hpp"

namespace uprobectl {

enum class MapInsert { added, exists };

// Adds an entry to a map with keys and values. If there is one with this key it is replaced, or
// left as it is if `replace` is false. Fails with unsupported if the sizes are not those of the
// map.
Result<MapInsert> insert_entry(const UserMap& map, Bytes key, Bytes value, bool replace);

// Removes an entry; it is not an error if there is none.
Result<void> remove_entry(const UserMap& map, Bytes key);

} // namespace uprobectl
