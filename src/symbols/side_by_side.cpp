#include "symbols/side_by_side.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace uprobectl {

unsigned threads_for(std::size_t names) {
  constexpr std::size_t worth_a_thread = 4096; // names: some milliseconds of work
  constexpr unsigned most_threads = 4;         // each takes half a megabyte
  if (names < worth_a_thread) return 1;
  return std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
}

void side_by_side(unsigned parts, const std::function<void(unsigned)>& work) {
  std::vector<std::jthread> threads;
  for (unsigned part = 1; part < parts; ++part) {
    try {
      threads.emplace_back(std::cref(work), part);
    } catch (const std::system_error&) { // no more of them
      work(part);
    }
  }
  work(0);
}

} // namespace uprobectl
