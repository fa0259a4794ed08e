// SPDX-License-Identifier: Apache-2.0
// The two halves of probe_effect(), by architecture.
#pragma once

#include "uprobectl/insn.hpp"

namespace uprobectl {

namespace effect {

constexpr ProbeEffect refused(std::string_view reason) {
  return {.kind = ProbeEffect::Kind::refused, .reason = reason};
}
constexpr ProbeEffect wrong(std::string_view reason) {
  return {.kind = ProbeEffect::Kind::wrong, .reason = reason};
}
constexpr ProbeEffect stepped() { return {}; }
constexpr ProbeEffect emulated() { return {.emulated = true}; }

} // namespace effect

// The offset is within the code.
ProbeEffect x86_probe_effect(Arch arch, Bytes code, std::uint64_t offset, CodeExtent extent);
ProbeEffect arm64_probe_effect(Bytes code, std::uint64_t offset);

} // namespace uprobectl
