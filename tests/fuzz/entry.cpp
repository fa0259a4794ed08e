// SPDX-License-Identifier: Apache-2.0
// The entry point of a program that searches with one target: FUZZ_TARGET is its function.
#include <cstddef>
#include <cstdint>

int FUZZ_TARGET(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return FUZZ_TARGET(data, size);
}
