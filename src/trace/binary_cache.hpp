// SPDX-License-Identifier: Apache-2.0
// What a run reads of the files that it probes, besides what the Binary itself reads: their code
// and call frame information, each when it is first needed, once.
#pragma once

#include "binary/binary.hpp"
#include "events/plan.hpp"
#include "plans/attach_plan.hpp"
#include "unwind/unwind_data.hpp"
#include "uprobectl/resolve/function.hpp"

#include <map>
#include <memory>
#include <optional>
#include <tuple>

namespace uprobectl::trace {

// One probed file, or one entry of an archive. Keeps the file open. Not thread-safe.
class TracedBinary {
public:
  // `where`: of its debug file, if a Target has not opened the binary.
  TracedBinary(std::shared_ptr<const resolve::ProbedBinary> probed, elf::DebugSearch where)
      : probed_(std::move(probed)), where_(std::move(where)) {}
  TracedBinary(const TracedBinary&) = delete;
  TracedBinary& operator=(const TracedBinary&) = delete;

  // The next four fail with the same error if the file cannot be read any more.
  Result<const resolve::FunctionReader*> functions();
  Result<binary::Binary*> file();
  Result<const elf::Image*> image();
  Result<const dwarf::DebugInfo*> debug_info();
  // Returns null if the machine's stacks are not unwound.
  unwind::UnwindData* frames();

  // Returns the exits of the function at the point.
  Result<resolve::FunctionReturns> returns(const resolve::ProbePoint& point);
  // Returns the calling convention and string layout of the point's code, and the host's convention
  // if they are unknown. `strings`: also determine the std::string layout, which may read all
  // symbol names.
  events::CodeAbi code_abi(const resolve::ProbePoint& point, bool strings);
  // Whether the return address is still where the call has put it, by call frame information.
  // Without that information: whether a static probe is on the first byte of a function; nullopt
  // for other points.
  std::optional<bool> has_return_address(const resolve::ProbePoint& point);
  // The probed instruction, and code after it. Empty if the file cannot be read.
  Bytes code_at(const resolve::ProbePoint& point);

  // Sets what an attach plan knows, which is then not read from the code.
  void set_returns(const resolve::ProbePoint& point, resolve::FunctionReturns returns);
  // `types`: those of the values.
  void set_values(const resolve::ProbePoint& point,
                  std::shared_ptr<const plans::PlannedValues> values,
                  std::shared_ptr<const dwarf::DescribedTypes> types);
  // Null if no attach plan has them.
  const plans::PlannedValues* values(const resolve::ProbePoint& point) const;
  void set_strings(resolve::StringLayout strings) { planned_strings_ = strings; }
  // Whether the binary's points are those of an attach plan.
  bool has_plan() const { return planned_strings_.has_value(); }

private:
  std::optional<resolve::StackFrame> find_frame(VirtualAddress at);

  std::shared_ptr<const resolve::ProbedBinary> probed_;
  elf::DebugSearch where_;
  std::optional<Result<resolve::FunctionReader>> functions_;
  std::optional<unwind::UnwindData> frames_;
  std::map<VirtualAddress, resolve::FunctionReturns> planned_returns_;
  // Functions with equal code, and inlined calls, may share an address.
  using PointKey = std::tuple<VirtualAddress, std::string, const resolve::InlinedInto*>;
  struct Values {
    std::shared_ptr<const plans::PlannedValues> values;
    std::shared_ptr<const dwarf::DescribedTypes> types;
    std::shared_ptr<const resolve::InlinedInto> call; // keeps the pointer in the key valid
  };
  static PointKey key_of(const resolve::ProbePoint& point) {
    return {point.address, point.symbol.value_or(""), point.inlined_into.get()};
  }
  std::map<PointKey, Values> planned_values_;
  std::optional<resolve::StringLayout> planned_strings_;
};

class BinaryCache {
public:
  // `debug_paths` (--debug-dir) are searched for debug files, too.
  explicit BinaryCache(std::vector<std::string> debug_paths)
      : where_{.paths = std::move(debug_paths)} {}

  TracedBinary& of(const std::shared_ptr<const resolve::ProbedBinary>& probed) {
    return binaries_.try_emplace(probed, probed, where_).first->second;
  }
  TracedBinary& of(const resolve::ProbePoint& point) { return of(point.binary); }

private:
  elf::DebugSearch where_;
  std::map<std::shared_ptr<const resolve::ProbedBinary>, TracedBinary> binaries_;
};

} // namespace uprobectl::trace
