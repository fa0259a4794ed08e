// SPDX-License-Identifier: Apache-2.0
// Mangled names of every scheme: bounded in time, memory and stack.
#include "uprobectl/symbols.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_demangle(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t longest_text = 64 << 20; // four nested conversion operators reach 16 MiB
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const std::string_view prefix : {"", "_Z", "_R"}) {
    const auto text = symbols::demangle(std::string(prefix) + std::string(input));
    if (text && text->size() > longest_text) std::abort();
  }
  return 0;
}
