// SPDX-License-Identifier: Apache-2.0
#include "trace/prologues.hpp"

#include "dwarf/prologue.hpp"
#include "events/value_plan.hpp"
#include "insn/control_flow.hpp"
#include "insn/frame_stores.hpp"
#include "resolve/instructions.hpp"
#include "trace/typed_probes.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Bounds the work for damaged files. Prologues have some dozen instructions.
constexpr std::uint64_t max_prologue = 4096;                   // bytes
constexpr std::uint64_t max_function = std::uint64_t{1} << 18; // bytes

// Whether the value is where the code so far has put it: in the part of the stack that the caller
// has written, or in a slot of the frame that was stored.
bool is_written(const dwarf::Variable& parameter, const insn::FrameStores& stores,
                const std::optional<dwarf::Formula>& cfa) {
  return std::ranges::all_of(parameter.location.pieces, [&](const dwarf::Piece& piece) {
    const dwarf::Formula& formula = piece.formula;
    if (piece.kind != dwarf::Piece::Kind::memory ||
        formula.base != dwarf::Formula::Base::machine_register)
      return false;
    // With a load the slot has the value's address.
    const std::int64_t offset = formula.loads.empty() ? formula.addend : formula.loads.front();
    const std::uint64_t size = formula.loads.empty()
                                   ? (piece.size != 0 ? piece.size : parameter.type->size())
                                   : sizeof(std::uint64_t);
    if (cfa && cfa->loads.empty() && formula.machine_register == cfa->machine_register &&
        offset >= cfa->addend)
      return true;
    return stores.cover(formula.machine_register, offset, size);
  });
}

// Removes the variables that are not parameters.
void keep_parameters(dwarf::FunctionInfo& function) {
  std::erase_if(function.variables, [](const dwarf::Variable& each) {
    return !each.is_parameter || !each.inlined_function.empty();
  });
}

} // namespace

bool lacks_bytes(const dwarf::Variable& parameter) {
  // Values of unknown types are not shown anywhere.
  if (parameter.type->kind() == dwarf::TypeKind::unknown || !events::has_content(*parameter.type))
    return false;
  return !parameter.location.is_readable() ||
         std::ranges::any_of(parameter.location.pieces, [](const dwarf::Piece& piece) {
           return piece.kind == dwarf::Piece::Kind::missing && !piece.problem.empty();
         });
}

std::expected<std::optional<plans::PlannedPrologue>, std::string>
describe_prologue(const dwarf::DebugInfo& debug, unwind::UnwindData* frames,
                  const resolve::ProbePoint& point, const dwarf::FunctionInfo& at_entry) {
  if (at_entry.entry != point.address || at_entry.is_replaced || point.inlined_into ||
      std::ranges::none_of(at_entry.variables, lacks_bytes))
    return std::nullopt;
  const auto found = dwarf::find_prologue(debug, point.address);
  if (!found) return std::unexpected(std::string(found.error()));
  plans::PlannedPrologue prologue{.size = found->end.value - point.address.value,
                                  .code_size = found->code.size};
  dwarf::CodePoint moved = make_code_point(point, frames, prologue.size);
  moved.with_declaration = moved.with_result = false;
  auto function = dwarf::describe_function(debug, moved);
  if (!function) return std::unexpected("its debug information ends in its prologue");
  keep_parameters(*function);
  auto& after = function->variables;
  if (after.size() != at_entry.variables.size() || after.size() != found->has_location_list.size())
    return std::unexpected("it has other parameters there");
  for (std::size_t i = 0; i < after.size(); ++i)
    prologue.parameters.push_back({.location = std::move(after[i].location),
                                   .has_location_list = found->has_location_list[i]});
  return prologue;
}

dwarf::FunctionInfo after_prologue(dwarf::FunctionInfo at_entry,
                                   const plans::PlannedPrologue& prologue) {
  const std::size_t known = std::min(at_entry.variables.size(), prologue.parameters.size());
  for (std::size_t i = 0; i < known; ++i)
    at_entry.variables[i].location = prologue.parameters[i].location;
  keep_parameters(at_entry);
  return at_entry;
}

std::expected<std::optional<PrologueEnd>, std::string>
check_prologue(resolve::CodeIndex& index, unwind::UnwindData* frames,
               const resolve::ProbePoint& point, const dwarf::FunctionInfo& at_entry,
               const plans::PlannedPrologue& prologue) {
  const elf::Image& image = index.image();
  const ArchInfo& arch = image.machine().info();
  const std::uint64_t size = prologue.size;
  if (size > max_prologue || size >= prologue.code_size || prologue.code_size > max_function)
    return std::unexpected("it is too large");
  const auto& before = at_entry.variables;
  dwarf::FunctionInfo function = after_prologue(at_entry, prologue);
  const auto& after = function.variables;
  if (before.size() != after.size() || before.size() != prologue.parameters.size())
    return std::unexpected("it has other parameters there");
  bool gains = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (lacks_bytes(before[i]) == lacks_bytes(after[i])) continue;
    if (lacks_bytes(after[i]))
      return std::unexpected(fmt::format("'{}' can be read only before it", after[i].name));
    gains = true;
  }
  if (!gains) return std::nullopt;

  const Bytes code = resolve::code_bytes(image, point.address, prologue.code_size);
  if (code.size() != prologue.code_size) return std::unexpected("its code is not in the file");
  const VirtualAddress end{point.address.value + size};
  const std::array<insn::ControlFlow::Piece, 1> pieces = {{{point.address, code}}};
  const auto flow = insn::ControlFlow::read(arch.arch, pieces, point.address, std::span(&end, 1));
  if (!flow) return std::unexpected("its code cannot be decoded");
  if (!flow->follows_entry(end))
    return std::unexpected("a jump leads into or over the end of its prologue");
  insn::FrameStores stores(arch);
  std::uint64_t at = 0;
  while (at < size) {
    const auto length = insn::instruction_size(arch.arch, code.subspan(at));
    const auto text =
        insn::instruction_text(arch.arch, code.subspan(at), {point.address.value + at});
    if (!length || !text) return std::unexpected("its code cannot be decoded");
    stores.add(*text);
    at += *length;
  }
  if (at != size) return std::unexpected("its prologue ends inside an instruction");
  const insn::ProbeEffect effect = resolve::effect_at(index, end);
  if (effect.kind != insn::ProbeEffect::Kind::safe ||
      insn::optimized_nop(arch.arch, code.subspan(size)))
    return std::unexpected("the instruction after its prologue cannot be probed");
  const auto cfa = make_code_point(point, frames, size).cfa;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (events::has_content(*after[i].type) && !lacks_bytes(after[i]) &&
        !prologue.parameters[i].has_location_list && !is_written(after[i], stores, cfa))
      return std::unexpected(
          fmt::format("its prologue does not write '{}' to the stack", after[i].name));
  return PrologueEnd{.size = size, .effect = effect, .function = std::move(function)};
}

std::expected<std::optional<PrologueEnd>, std::string>
find_prologue_end(resolve::CodeIndex& index, const dwarf::DebugInfo& debug,
                  unwind::UnwindData* frames, const resolve::ProbePoint& point,
                  const dwarf::FunctionInfo& at_entry) {
  const auto prologue = describe_prologue(debug, frames, point, at_entry);
  if (!prologue) return std::unexpected(prologue.error());
  if (!*prologue) return std::nullopt;
  return check_prologue(index, frames, point, at_entry, **prologue);
}

} // namespace uprobectl::trace
