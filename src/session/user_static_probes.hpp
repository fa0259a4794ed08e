// Static probes of users' programs that are compiled with libbpf's usdt.bpf.h: where their
// arguments are is written into a table of the program, and the cookie of each place says where in
// it.
#pragma once

#include "uprobectl/bpf/usdt_specs.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl {

class UserStaticProbes {
public:
  // `maps`: those of the programs, borrowed. A program without the table asks for no arguments; its
  // places have `cookie` itself. unsupported where there are arguments and no cookie would arrive.
  Result<void> load(std::span<const UserMap> maps, std::span<const ProbePoint> points,
                    std::uint64_t cookie, bool hands_over_cookie);

  std::optional<std::uint64_t> cookie(std::size_t point) const; // nothing: it is none of these
  void tell_cautions(const Reporter& reporter) const;           // which arguments cannot be read

private:
  Result<void> add(std::span<const ProbePoint> points, std::uint64_t cookie);
  void add_caution(const ProbePoint& point, std::size_t argument, std::string_view problem);

  struct Caution {
    std::string problem;
    std::string text;
  };

  std::optional<UsdtSpecs> specs_;
  std::vector<std::optional<std::uint64_t>> cookies_; // by point
  std::vector<Caution> cautions_;
};

} // namespace uprobectl
