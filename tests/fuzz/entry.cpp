// SPDX-License-Identifier: Apache-2.0
// The entry point of a program that searches with one of its targets, which the environment
// variable FUZZ_TARGET names. FUZZ_TARGETS is the build's list of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {
using Target = int(const std::uint8_t* data, std::size_t size);
Target* chosen_target = nullptr;
} // namespace

#define DECLARE(name) Target fuzz_##name;
FUZZ_TARGETS(DECLARE)

// libFuzzer passes the environment on to the processes that it starts, and not what is done here to
// the arguments.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* chosen = std::getenv("FUZZ_TARGET");
#define CHOOSE(name)                                                                               \
  if (chosen != nullptr && std::string_view(chosen) == #name) chosen_target = fuzz_##name;
  FUZZ_TARGETS(CHOOSE)
  if (chosen_target != nullptr) return 0;
#define LIST(name) " " #name
  std::fputs("FUZZ_TARGET has to name one of these:" FUZZ_TARGETS(LIST) "\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return chosen_target(data, size);
}
