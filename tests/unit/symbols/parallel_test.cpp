// SPDX-License-Identifier: Apache-2.0
#include "symbols/parallel.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace uprobectl::symbols {

TEST_CASE("each part of shared work is done once and before the call returns") {
  const unsigned parts = GENERATE(1, 2, 3, 8);
  std::vector<int> done(parts, 0);
  parallel_for(parts, [&](unsigned part) { ++done[part]; });
  CHECK(done == std::vector<int>(parts, 1));
}

TEST_CASE("the parts of shared work are done at the same time") {
  std::atomic<unsigned> begun = 0;
  parallel_for(3, [&](unsigned) {
    ++begun;
    while (begun < 3) std::this_thread::yield();
  });
  CHECK(begun == 3);
}

TEST_CASE("short lists of names are not worth a thread, no list is worth more than four") {
  CHECK(thread_count_for(0) == 1);
  CHECK(thread_count_for(4095) == 1);
  CHECK(thread_count_for(4096) >= 1);
  CHECK(thread_count_for(100'000'000) <= 4);
}

} // namespace uprobectl::symbols
