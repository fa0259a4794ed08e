// SPDX-License-Identifier: Apache-2.0
// A plan: what `attach` has resolved with the symbols of one machine, to attach on another one that
// has none. docs/plans.md describes its JSON form.
#pragma once

#include "plans/identity.hpp"
#include "plans/named_place.hpp"
#include "uprobectl/resolve/function.hpp"

namespace uprobectl::plans {

// The version rises with each change of the format. Other versions are rejected.
constexpr std::uint64_t plan_version = 1;

// Where a function is left (FunctionReturns), by addresses.
struct PlannedExits {
  struct TailCall {
    VirtualAddress address;
    JumpCondition condition = {};
    std::optional<JumpSource> source = {};
    std::optional<ReturnCode> returns = {};
  };
  std::vector<VirtualAddress> returns = {};
  std::vector<TailCall> tail_calls = {};
  std::vector<elf::AddressRange> code = {};
};

struct PlannedProbe {
  NamedPlace place = {};
  // nullopt: returns are not probed, or not at exits.
  std::optional<PlannedExits> exits = {};
};

struct PlannedFile {
  std::string target = {}; // TARGET as typed
  BuildIdentity build = {};
  StringLayout strings = StringLayout::unknown;
  std::vector<PlannedProbe> probes = {};
};

struct AttachPlan {
  std::string program = {};                // name and version of the program that has written it
  std::string target = {};                 // of `functions`
  std::vector<std::string> functions = {}; // FUNCTIONs as typed
  std::vector<std::string> options = {};   // "--latency", "--args=n:s32"
  // A TARGET can mean several files.
  std::vector<PlannedFile> files = {};
};

// The exits in an image: offsets in its file, and back. Fails with corrupt if an address is not in
// the image's code.
PlannedExits to_planned_exits(const FunctionReturns& returns, const elf::Image& image);
Result<FunctionReturns> to_returns(const PlannedExits& exits, const elf::Image& image);

std::string write_plan(const AttachPlan& plan);
// What stands for a plan that could not be made. read_plan() returns it as its error.
std::string write_plan_error(const Error& error);

// In bytes, and the number of values in it. A probe has some twenty.
constexpr std::size_t max_plan_bytes = std::size_t{64} << 20U;
constexpr std::size_t max_plan_values = std::size_t{4} << 20U;

// Fails with corrupt, or with unsupported for another version.
Result<AttachPlan> read_plan(std::string_view text);

} // namespace uprobectl::plans
