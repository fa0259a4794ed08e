// SPDX-License-Identifier: Apache-2.0
#include "util/sha256.hpp"

#include <algorithm>
#include <llvm/ADT/StringExtras.h>

namespace uprobectl {

void Sha256::add(Bytes bytes) {
  state_.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::string Sha256::hex() { return llvm::toHex(state_.final(), /*LowerCase=*/true); }

std::string sha256_of(Bytes bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

} // namespace uprobectl
