// SPDX-License-Identifier: Apache-2.0
// Fills the table "__bpf_usdt_specs", in which programs compiled with libbpf's usdt.bpf.h look up
// the arguments of a static probe. It is an array indexed by the probe's cookie. Its layout is
// internal to libbpf and has changed (1.7 added index registers), so it is read from the program's
// BTF. Source: libbpf src/usdt.bpf.h, struct __bpf_usdt_spec.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/record.h"

#include <memory>
#include <optional>
#include <span>

namespace uprobectl::bpf {

// The table of one program. Its entries are removed by the destructor.
class UsdtSpecs {
public:
  // Whether the map is such a table. The kernel keeps 15 bytes of a map's name.
  static bool is_table(const UserMap& map);
  // unsupported if its layout is unknown or its types cannot be read.
  static Result<UsdtSpecs> open(const UserMap& map);

  UsdtSpecs(UsdtSpecs&&) noexcept;
  UsdtSpecs& operator=(UsdtSpecs&&) noexcept;
  ~UsdtSpecs(); // clears its entries: the map of a pinned program continues to exist

  // The arguments at one point of a static probe.
  struct Spec {
    std::vector<std::optional<reading>> arguments; // nullopt: reading it is an error
    std::uint64_t cookie = 0;                      // the result of bpf_usdt_cookie()
  };
  // Writes it to a free entry and returns the index. unsupported if it has too many arguments,
  // out_of_range if the table is full.
  Result<std::uint32_t> add(const Spec& spec);

  // Whether the layout can express the argument: bpf_usdt_arg() supports constants, registers, and
  // memory at a register, newer versions with an index, which is added in 64 bits.
  bool can_express(const reading& argument, bool is_64bit) const;

private:
  struct State;
  explicit UsdtSpecs(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::bpf
