// SPDX-License-Identifier: Apache-2.0
// Follows direct jumps out of functions (tail calls) to where the call returns: the exits of the
// function that is jumped to.
#pragma once

#include "trace/binary_cache.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace uprobectl::trace {

// An exit of a function that is jumped to.
struct CalleeExit {
  FileOffset offset;
  // The jump, which is not followed or leads through a slot; null: a return instruction.
  const resolve::FunctionReturns::TailCall* call = nullptr;
  const resolve::FunctionReturns* function = nullptr; // whose exit it is
  std::optional<VirtualAddress> callee = {}; // the jump is followed if its slot has this address
  std::size_t depth = 0;                     // how many jumps lead to the function
  insn::ProbeEffect effect = {};
};

// The jumps out of a function that are followed, and those that are not.
struct FollowedCalls {
  std::map<FileOffset, VirtualAddress> callees = {}; // by jump
  std::vector<CalleeExit> exits = {};                // of all of them, each once
  std::vector<VirtualAddress> reached = {};          // the functions, ascending
  std::map<FileOffset, std::string> reasons = {};    // why the call ends at the jump
};

// Keeps what it reads. Not thread-safe.
class TailCallFollower {
public:
  // How many jumps are followed, one after the other.
  static constexpr std::size_t max_depth = 4;
  // Exits of one tail call: each is a probe.
  static constexpr std::size_t max_exits = 64;
  // Functions whose calls may end at one exit: each hit of it runs a program for each of them.
  static constexpr std::size_t max_sharing = 8;

  using Location = std::pair<const resolve::ProbedBinary*, VirtualAddress>;

  // `pids`: processes that tell first what an IFUNC resolver has chosen. `nested`: probed functions
  // whose calls nest: such a call is inside of the call that has jumped to it, so it must not
  // return later than that.
  TailCallFollower(BinaryCache& binaries, insn::OptimizedNops replaced, std::vector<pid_t> pids,
                   std::set<Location> nested)
      : binaries_(binaries), replaced_(replaced), pids_(std::move(pids)),
        nested_(std::move(nested)) {}

  // Returns where calls of the function at the point, whose exits are `own`, return after a jump.
  // Refers to `own` and to the follower.
  FollowedCalls follow(const resolve::ProbePoint& point, const resolve::FunctionReturns& own);
  // The functions that are jumped to, as display_name() writes them, by name.
  std::vector<std::string> names() const;

private:
  struct Callee {
    resolve::ProbePoint point;
    resolve::FunctionReturns returns;
  };

  Result<VirtualAddress> find_target(const resolve::ProbePoint& point,
                                     const resolve::FunctionReturns::TailCall& call);
  std::optional<VirtualAddress> read_slot(const resolve::ProbePoint& point,
                                          const resolve::FunctionReturns::TailCall& call);
  Result<const Callee*> read(const resolve::ProbePoint& point, VirtualAddress address);
  Result<Callee> read_again(const resolve::ProbePoint& point, VirtualAddress address);
  struct Reached {
    std::vector<CalleeExit> exits;
    std::map<VirtualAddress, std::string> names; // of the functions
    bool is_outlived = false;                    // a call of a nested one may return later
  };
  Result<Reached> collect(const resolve::ProbePoint& point,
                          const std::vector<VirtualAddress>& first);
  std::optional<Error> find_obstacle(const resolve::ProbePoint& point,
                                     const resolve::FunctionReturns& own,
                                     const Reached& reached) const;

  BinaryCache& binaries_;
  insn::OptimizedNops replaced_;
  std::vector<pid_t> pids_;
  std::set<Location> nested_;
  std::map<Location, Result<Callee>> callees_;
  std::map<Location, std::optional<VirtualAddress>> slots_; // what they were found to have
  std::map<std::pair<const resolve::ProbedBinary*, FileOffset>, std::size_t> sharing_; // by exit
  std::set<std::string> names_;
};

} // namespace uprobectl::trace
