// SPDX-License-Identifier: Apache-2.0
// Work on long lists of names, divided among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace uprobectl {

// The number of threads worth using for a list of names, including the calling one: at most one per
// processor, and 1 for short lists.
unsigned thread_count_for(std::size_t names);

// Calls work(0) ... work(parts - 1), each on its own thread if one can be created, and waits for
// all.
void parallel_for(unsigned parts, const std::function<void(unsigned)>& work);

} // namespace uprobectl
