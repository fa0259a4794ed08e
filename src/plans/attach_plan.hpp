// SPDX-License-Identifier: Apache-2.0
// A plan: what `attach` has resolved with the symbols of one machine, to attach on another one that
// has none. docs/plans.md describes its JSON form.
#pragma once

#include "dwarf/described_types.hpp"
#include "dwarf/functions.hpp"
#include "plans/identity.hpp"
#include "plans/named_address.hpp"
#include "uprobectl/resolve/function.hpp"

namespace uprobectl::plans {

// The version rises with each change of the format. Later versions are rejected.
constexpr std::uint64_t plan_version = 2;
constexpr std::uint64_t first_version_with_values = 2;

// Where a function is left (FunctionReturns), by addresses.
struct PlannedExits {
  struct TailCall {
    VirtualAddress address;
    insn::JumpCondition condition = {};
    std::optional<insn::JumpSource> source = {};
    std::optional<insn::ReturnCode> returns = {};
  };
  std::vector<VirtualAddress> returns = {};
  std::vector<TailCall> tail_calls = {};
  std::vector<elf::AddressRange> code = {};
};

// A global variable, by the name in the options.
struct PlannedGlobal {
  std::string name;
  dwarf::Variable variable = {};
};

// What debug information tells about the end of the function's prologue.
struct PlannedPrologue {
  struct Parameter {
    dwarf::Location location; // there
    bool has_location_list = false;
  };
  std::uint64_t size = 0;                 // bytes
  std::uint64_t code_size = 0;            // of the function, bytes
  std::vector<Parameter> parameters = {}; // by FunctionInfo::variables
};

// What debug information tells about the values at a point. The types are those of the file.
struct PlannedValues {
  dwarf::FunctionInfo function = {}; // without the declaration
  std::vector<PlannedGlobal> globals = {};
  std::optional<PlannedPrologue> prologue = {};
};

struct PlannedProbe {
  resolve::NamedAddress named = {};
  // nullopt: returns are not probed, or not at exits.
  std::optional<PlannedExits> exits = {};
  std::shared_ptr<const PlannedValues> values = {}; // null: they are not known, or not asked for
};

struct PlannedFile {
  std::string target = {}; // TARGET as typed
  BuildIdentity build = {};
  resolve::StringLayout strings = resolve::StringLayout::unknown;
  std::shared_ptr<const dwarf::DescribedTypes> types = {}; // of the values; null if there is none
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
PlannedExits to_planned_exits(const resolve::FunctionReturns& returns, const elf::Image& image);
Result<resolve::FunctionReturns> to_returns(const PlannedExits& exits, const elf::Image& image);

// Why a type is not known: too many pointers lead from the values of the plan to it.
constexpr std::string_view left_out_of_plan = "the plan does not have this type";

std::string write_plan(const AttachPlan& plan);
// What stands for a plan that could not be made. read_plan() returns it as its error.
std::string write_plan_error(const Error& error);

// In bytes, and the number of values in it. A probe has some twenty.
constexpr std::size_t max_plan_bytes = std::size_t{64} << 20U;
constexpr std::size_t max_plan_values = std::size_t{4} << 20U;

// Fails with corrupt, or with unsupported for another version.
Result<AttachPlan> read_plan(std::string_view text);

} // namespace uprobectl::plans
