// SPDX-License-Identifier: Apache-2.0
// Every class and method of bytes that claim to be a DEX file.
#include "art/dex.hpp"

#include <cstdlib>

using namespace uprobectl;
using namespace uprobectl::art;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto dex = DexFile::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!dex) return 0;
  ClassBudget budget(*dex);
  std::uint64_t methods = 0;
  for (std::uint32_t i = 0; i < dex->class_count(); ++i) {
    const auto defined = dex->class_def(i);
    if (!defined) std::abort();
    (void)dex->type(defined->superclass);
    auto items = ClassMethods::read(*dex, *defined, budget);
    if (!items) break;
    while (const auto item = items->next()) {
      ++methods;
      if (methods <= 1000) (void)to_string(dex_method_signature(*dex, item->index));
    }
  }
  if (methods > dex->method_count()) std::abort();
  return 0;
}
