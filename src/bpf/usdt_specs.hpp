// The table in which programs that are compiled with libbpf's usdt.bpf.h look up where the
// arguments of a static probe are: "__bpf_usdt_specs", an array that the cookie of a probe is an
// index of. Its layout is libbpf's own business and has changed (1.7 added index registers), so it
// is read from the types that the program brings along. Source: libbpf src/usdt.bpf.h, struct
// __bpf_usdt_spec.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/record.h"

#include <memory>
#include <optional>
#include <span>

namespace uprobectl {

class UsdtSpecs {
public:
  // Whether it is that table. The kernel keeps 15 bytes of a map's name.
  static bool is_table(const UserMap& map);
  // Borrows the map. unsupported where its layout is not known here, or its types cannot be read.
  static Result<UsdtSpecs> open(const UserMap& map);

  UsdtSpecs(UsdtSpecs&&) noexcept;
  UsdtSpecs& operator=(UsdtSpecs&&) noexcept;
  ~UsdtSpecs(); // clears what it has written: the map of a pinned program lives on

  struct Spec {
    std::vector<std::optional<reading>> arguments; // nothing: asking for it is an error
    std::uint64_t cookie = 0;                      // what bpf_usdt_cookie() gives
  };
  // Puts it where nobody has one and says where. unsupported where it has more arguments than there
  // is room for; out_of_range where the table is full.
  Result<std::uint32_t> add(const Spec& spec);

  // Whether the layout can say where it is: bpf_usdt_arg() knows constants, registers, and memory
  // behind a register, newer ones with an index, which they add in 64 bits.
  bool can_tell(const reading& argument, bool is_64bit) const;

private:
  struct State;
  explicit UsdtSpecs(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
