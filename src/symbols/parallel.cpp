// SPDX-License-Identifier: Apache-2.0
#include "symbols/parallel.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace uprobectl::symbols {

unsigned thread_count_for(std::size_t names) {
  constexpr std::size_t min_names = 4096; // names: some milliseconds of work
  constexpr unsigned max_threads = 4;     // each takes half a megabyte
  if (names < min_names) return 1;
  return std::clamp(std::thread::hardware_concurrency(), 1U, max_threads);
}

void parallel_for(unsigned parts, const std::function<void(unsigned)>& work) {
  std::vector<std::jthread> threads;
  for (unsigned part = 1; part < parts; ++part) {
    try {
      threads.emplace_back(std::cref(work), part);
    } catch (const std::system_error&) { // no more threads
      work(part);
    }
  }
  work(0);
}

} // namespace uprobectl::symbols
