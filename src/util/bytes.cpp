// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/util.hpp"

namespace uprobectl {

std::optional<std::string_view> c_string_at(Bytes bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return std::nullopt;
  const Bytes rest = bytes.subspan(offset);
  const void* nul = std::memchr(rest.data(), 0, rest.size());
  if (nul == nullptr) return std::nullopt;
  return as_text(rest.first(static_cast<const std::byte*>(nul) - rest.data()));
}

} // namespace uprobectl
