#include "session/own_pids.hpp"

#include "uprobectl/process.hpp"

namespace uprobectl {

namespace {

constexpr std::size_t most_pids = 65536; // that are remembered

// A pid is not used again within this time: all others come first.
constexpr std::uint64_t trusted_ns = 1'000'000'000;

} // namespace

OwnPids::OwnPids() : possible_(in_initial_pid_namespace()) {}

std::optional<std::uint32_t> OwnPids::of(std::uint32_t pid, std::uint64_t time_ns) {
  if (!possible_) return std::nullopt;
  const auto found = known_.find(pid);
  // Events of several CPUs may be a little out of order.
  if (found != known_.end() && time_ns < found->second.asked_ns + trusted_ns)
    return found->second.own;
  if (known_.size() >= most_pids) known_.clear();
  const auto own = pid_in_namespace(static_cast<pid_t>(pid));
  Known& known = known_[pid];
  known.asked_ns = time_ns;
  // Where it has ended since, it is still what it was.
  if (own) known.own = static_cast<std::uint32_t>(*own);
  return known.own;
}

} // namespace uprobectl
