// SPDX-License-Identifier: Apache-2.0
// Lines as oatdump prints them: what is taken for a method reads back as it was written.
#include "art/oat_state.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_dumped_methods(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = as_text({reinterpret_cast<const std::byte*>(data), size});
  std::vector<art::DumpedMethod> methods;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (auto method = art::parse_dumped_method(line)) methods.push_back(std::move(*method));
  }
  const std::size_t count = methods.size();
  const art::DumpedMethods names(std::move(methods));
  std::size_t in_classes = 0;
  for (const auto& each : names.classes()) in_classes += each.methods.size();
  if (in_classes != count) std::abort();
  for (std::uint32_t i = 0; i < count; ++i)
    if (to_string(names.signature(i)) != names.methods()[i].signature) std::abort();
  return 0;
}
