// SPDX-License-Identifier: Apache-2.0
// Every class and method of bytes that claim to be a DEX file or a container of several.
#include "art/dex.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

namespace {

void read_classes(const art::DexFile& dex) {
  using namespace uprobectl::art;
  ClassBudget budget(dex);
  std::uint64_t methods = 0;
  for (std::uint32_t i = 0; i < dex.class_count(); ++i) {
    const auto defined = dex.class_def(i);
    if (!defined) std::abort();
    (void)dex.type(defined->superclass);
    auto items = ClassMethods::read(dex, *defined, budget);
    if (!items) break;
    while (const auto item = items->next()) {
      ++methods;
      if (methods <= 1000) (void)to_string(dex_method_signature(dex, item->index));
    }
  }
  if (methods > dex.method_count()) std::abort();
}

} // namespace

int fuzz_dex(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::art;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  constexpr std::size_t max_files = 8; // of a container
  auto headers = dex_headers(bytes);
  headers.resize(std::min(headers.size(), max_files));
  for (const std::uint64_t header : headers) {
    if (container_begin(bytes, header) != 0U) std::abort();
    if (const auto dex = DexFile::parse(bytes, header)) read_classes(*dex);
  }
  return 0;
}
