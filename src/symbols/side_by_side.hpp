// Work on long lists of names, shared among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace uprobectl {

// How many threads work on so many names, the one that asks among them: as many as processors, one
// for a list that is not worth starting another.
unsigned threads_for(std::size_t names);

// Calls work(0), work(1), … work(parts - 1), each on a thread of its own as far as there are
// threads to be had, and waits for all.
void side_by_side(unsigned parts, const std::function<void(unsigned)>& work);

} // namespace uprobectl
