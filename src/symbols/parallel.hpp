// SPDX-License-Identifier: Apache-2.0
// Divides work on long lists of names among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace uprobectl::symbols {

// Returns the number of threads to use for a list of names, including the calling one: at most one
// per processor and four; 1 for short lists.
unsigned thread_count_for(std::size_t names);

// Calls work(0) ... work(parts - 1), each on its own thread if one can be created, and waits for
// all.
void parallel_for(unsigned parts, const std::function<void(unsigned)>& work);

} // namespace uprobectl::symbols
