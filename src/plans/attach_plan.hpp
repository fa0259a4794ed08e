// SPDX-License-Identifier: Apache-2.0
// An attach plan: the probe points that `attach` has resolved with the symbols of one machine, for
// another machine that has none. docs/plans.md describes its JSON form.
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

// The exits of a function (FunctionReturns), by address.
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

// A global variable, under the name that the options use.
struct PlannedGlobal {
  std::string name;
  dwarf::Variable variable = {};
};

// Describes the function after its prologue, by debug information.
struct PlannedPrologue {
  struct Parameter {
    dwarf::Location location; // after the prologue
    bool has_location_list = false;
  };
  std::uint64_t size = 0;                 // bytes
  std::uint64_t code_size = 0;            // of the function, bytes
  std::vector<Parameter> parameters = {}; // in the order of FunctionInfo::variables
};

// Describes the values at a point, by debug information. The types are those of the file.
struct PlannedValues {
  dwarf::FunctionInfo function = {}; // without the declaration
  std::vector<PlannedGlobal> globals = {};
  std::optional<PlannedPrologue> prologue = {};
};

struct PlannedProbe {
  resolve::NamedAddress named = {};
  // nullopt: returns are not probed, or not at exits.
  std::optional<PlannedExits> exits = {};
  std::shared_ptr<const PlannedValues> values = {}; // null: they are not known, or not requested
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

// Translate exits between offsets in the file and addresses of the image. to_returns() fails with
// corrupt if an address is not in the image's code.
PlannedExits to_planned_exits(const resolve::FunctionReturns& returns, const elf::Image& image);
Result<resolve::FunctionReturns> to_returns(const PlannedExits& exits, const elf::Image& image);

// Why a type is not known: too many pointers lead from the values of the plan to it.
constexpr std::string_view left_out_of_plan = "the plan does not have this type";

std::string write_plan(const AttachPlan& plan);
// Returns the text of a file instead of a plan that could not be made. read_plan() returns the
// error again.
std::string write_plan_error(const Error& error);

// The maximum bytes of a plan, and the maximum number of values in it. A probe has some twenty.
constexpr std::size_t max_plan_bytes = std::size_t{64} << 20U;
constexpr std::size_t max_plan_values = std::size_t{4} << 20U;

// Fails with corrupt, or with unsupported for another version.
Result<AttachPlan> read_plan(std::string_view text);

} // namespace uprobectl::plans
