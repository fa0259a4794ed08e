// Programs that somebody else has loaded and pinned (Android's bpfloader, `uprobectl load`).
#pragma once

#include "bpf/bpf.hpp"
#include "bpf/maps.hpp"
#include "bpf/types.hpp"

namespace uprobectl {

class PinnedProgram {
public:
  // not_found; not_permitted where the pin's mode keeps this user out; unsupported where it is no
  // program, or none for uprobes. The kernel does not tell what a program was loaded for: it is
  // found out by asking for links that cannot come about, in the one order that is safe.
  static Result<PinnedProgram> open(const std::string& path, const KernelFeatures& features);

  const std::string& name() const { return name_; }
  LoadedProgram program() const { return {fd_.get(), kind_, false}; }
  std::uint32_t btf_id() const { return btf_id_; } // 0: it has no types

private:
  UniqueFd fd_;
  std::string name_;
  ProgramKind kind_ = ProgramKind::plain;
  std::uint32_t btf_id_ = 0;
};

// A descriptor of what is pinned; `what` is "program" or "map", unsupported if it is not that.
Result<UniqueFd> open_pin(const std::string& path, std::string_view what);

// While it lives the kernel counts how often programs run (BPF_ENABLE_STATS, Linux 5.8).
class RunCounting {
public:
  static RunCounting start(); // where it is not permitted runs() has no answer
  std::optional<std::uint64_t> runs(int program) const; // since the program was loaded

private:
  UniqueFd enabled_;
};

} // namespace uprobectl
