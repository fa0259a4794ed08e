// SPDX-License-Identifier: Apache-2.0
#include "trace/prologues.hpp"

#include "dwarf/prologue.hpp"
#include "events/value_plan.hpp"
#include "insn/control_flow.hpp"
#include "resolve/code_index.hpp"
#include "trace/typed_probes.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

namespace {

// Bounds the work for damaged files. Prologues have some dozen instructions.
constexpr std::uint64_t max_prologue = 4096;                   // bytes
constexpr std::uint64_t max_function = std::uint64_t{1} << 18; // bytes

std::optional<std::int64_t> parse_displacement(std::string_view text) {
  if (text.empty()) return 0;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const bool is_hexadecimal = text.starts_with("0x");
  if (is_hexadecimal) text.remove_prefix(2);
  const auto number = parse_number<std::int64_t>(text, is_hexadecimal ? 16 : 10);
  return number && is_negative ? std::optional(-*number) : number;
}

// What the instructions of a prologue have stored at a register plus a constant.
class FrameStores {
public:
  explicit FrameStores(const ArchInfo& arch) : arch_(arch) {}

  // Takes the next instruction, as instruction_text() has it.
  void add(std::string_view text) {
    const auto space = std::min(text.find(' '), text.size());
    const std::string_view operation = text.substr(0, space);
    std::string_view operands = text.substr(std::min(space + 1, text.size()));
    if (arch_.arch == Arch::arm64)
      add_arm64(operation, operands);
    else
      add_x86(operation, operands.substr(0, operands.find(" #")));
  }

  // Whether the value at the register plus the offset was stored, in pieces of up to 64 bytes.
  bool cover(std::uint8_t dwarf_register, std::int64_t offset, std::uint64_t size) const {
    constexpr std::int64_t word = 8;
    constexpr std::int64_t widest = 64;
    const auto index = arch_.find_dwarf_register(dwarf_register);
    const auto stored = index ? stores_.find(arch_.registers[*index].name) : stores_.end();
    if (stored == stores_.end() || size > max_prologue) return false;
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(size); at += word)
      if (std::ranges::none_of(stored->second, [&](std::int64_t each) {
            return each >= offset && each < offset + at + word && each + widest > offset + at;
          }))
        return false;
    return true;
  }

private:
  // The stack pointer or another register changes.
  void forget(std::string_view name) {
    if (name.starts_with('%')) name.remove_prefix(1);
    const auto named = arch_.operand_register != nullptr ? arch_.operand_register(name)
                                                         : std::optional<OperandRegister>();
    const auto known = stores_.find(named ? std::string_view(named->whole) : name);
    if (known != stores_.end()) stores_.erase(known);
  }

  // AT&T: the last operand is the one that is written.
  void add_x86(std::string_view operation, std::string_view operands) {
    if (operation.starts_with("push") || operation.starts_with("pop") || operation == "leave")
      forget("rsp");
    if (!operands.ends_with(')')) {
      const auto comma = operands.rfind(", ");
      return forget(comma == std::string_view::npos ? operands : operands.substr(comma + 2));
    }
    const bool stores = operation.starts_with("mov") || operation.starts_with("vmov") ||
                        operation.starts_with("fst");
    const auto open = operands.rfind('(');
    if (!stores || open == std::string_view::npos) return;
    const std::string_view base = operands.substr(open + 1, operands.size() - open - 2);
    const auto blank = operands.substr(0, open).rfind(' ');
    const auto begin = blank == std::string_view::npos ? 0 : blank + 1;
    if (const auto at = parse_displacement(operands.substr(begin, open - begin));
        at && base.starts_with('%'))
      stores_[std::string(base.substr(1))].push_back(*at);
  }

  // "str w0, [sp, #12]", "stp x29, x30, [sp, #-32]!", "sub sp, sp, #32".
  void add_arm64(std::string_view operation, std::string_view operands) {
    const auto comma = std::min(operands.find(','), operands.size());
    const auto open = operands.find('[');
    if (!operation.starts_with("st") || open == std::string_view::npos)
      return forget(operands.substr(0, comma));
    const std::string_view address = operands.substr(open + 1);
    const auto end = std::min(address.find_first_of(",]"), address.size());
    const std::string_view base = address.substr(0, end);
    if (!address.ends_with(']')) return forget(base); // with an update of the base
    const auto sign = address.find('#');
    const auto at = parse_displacement(sign == std::string_view::npos
                                           ? std::string_view()
                                           : address.substr(sign + 1, address.size() - sign - 2));
    if (!at) return;
    std::vector<std::int64_t>& stored = stores_[std::string(base)];
    stored.push_back(*at);
    if (!operation.starts_with("stp")) return;
    const char kind = operands.empty() ? 'x' : operands.front();
    stored.push_back(*at + (kind == 'q' ? 16 : kind == 'w' || kind == 's' ? 4 : 8));
  }

  const ArchInfo& arch_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> stores_; // by register
};

// Whether the value is where the code so far has put it: in the part of the stack that the caller
// has written, or in a slot of the frame that was stored.
bool is_written(const dwarf::Variable& parameter, const FrameStores& stores,
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

// Leaves what the entry has.
void keep_parameters(dwarf::FunctionInfo& function) {
  std::erase_if(function.variables, [](const dwarf::Variable& each) {
    return !each.is_parameter || !each.inlined_function.empty();
  });
}

} // namespace

bool lacks_bytes(const dwarf::Variable& parameter) {
  // Values of unknown types are not shown anywhere.
  if (parameter.type->kind() == dwarf::TypeKind::unknown || !has_content(*parameter.type))
    return false;
  return !parameter.location.is_readable() ||
         std::ranges::any_of(parameter.location.pieces, [](const dwarf::Piece& piece) {
           return piece.kind == dwarf::Piece::Kind::missing && !piece.problem.empty();
         });
}

std::expected<std::optional<plans::PlannedPrologue>, std::string>
describe_prologue(const dwarf::DebugInfo& debug, unwind::UnwindData* frames,
                  const ProbePoint& point, const dwarf::FunctionInfo& at_entry) {
  if (at_entry.entry != point.address || at_entry.is_replaced || point.inlined_into ||
      std::ranges::none_of(at_entry.variables, lacks_bytes))
    return std::nullopt;
  const auto found = dwarf::find_prologue(debug, point.address);
  if (!found) return std::unexpected(std::string(found.error()));
  plans::PlannedPrologue prologue{.size = found->end.value - point.address.value,
                                  .code_size = found->code.size};
  dwarf::CodePoint behind = make_code_point(point, frames, prologue.size);
  behind.with_declaration = behind.with_result = false;
  auto function = dwarf::describe_function(debug, behind);
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

dwarf::FunctionInfo behind_prologue(dwarf::FunctionInfo at_entry,
                                    const plans::PlannedPrologue& prologue) {
  const std::size_t known = std::min(at_entry.variables.size(), prologue.parameters.size());
  for (std::size_t i = 0; i < known; ++i)
    at_entry.variables[i].location = prologue.parameters[i].location;
  keep_parameters(at_entry);
  return at_entry;
}

std::expected<std::optional<PrologueEnd>, std::string>
check_prologue(const elf::Image& image, unwind::UnwindData* frames, const ProbePoint& point,
               const dwarf::FunctionInfo& at_entry, const plans::PlannedPrologue& prologue) {
  const ArchInfo& arch = image.machine().info();
  const std::uint64_t size = prologue.size;
  if (size > max_prologue || size >= prologue.code_size || prologue.code_size > max_function)
    return std::unexpected("it is too large");
  const auto& before = at_entry.variables;
  dwarf::FunctionInfo function = behind_prologue(at_entry, prologue);
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

  const Bytes code = code_bytes(image, point.address, prologue.code_size);
  if (code.size() != prologue.code_size) return std::unexpected("its code is not in the file");
  const VirtualAddress end{point.address.value + size};
  const std::array<ControlFlow::Piece, 1> pieces = {{{point.address, code}}};
  const auto flow = ControlFlow::read(arch.arch, pieces, point.address, std::span(&end, 1));
  if (!flow) return std::unexpected("its code cannot be decoded");
  if (!flow->follows_entry(end))
    return std::unexpected("a jump leads into or over the end of its prologue");
  FrameStores stores(arch);
  std::uint64_t at = 0;
  while (at < size) {
    const auto length = instruction_size(arch.arch, code.subspan(at));
    const auto text = instruction_text(arch.arch, code.subspan(at), {point.address.value + at});
    if (!length || !text) return std::unexpected("its code cannot be decoded");
    stores.add(*text);
    at += *length;
  }
  if (at != size) return std::unexpected("its prologue ends inside an instruction");
  const ProbeEffect effect = probe_effect(arch.arch, code, size);
  if (effect.kind != ProbeEffect::Kind::safe || optimized_nop(arch.arch, code.subspan(size)))
    return std::unexpected("the instruction behind its prologue cannot be probed");
  const auto cfa = make_code_point(point, frames, size).cfa;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (has_content(*after[i].type) && !lacks_bytes(after[i]) &&
        !prologue.parameters[i].has_location_list && !is_written(after[i], stores, cfa))
      return std::unexpected(
          fmt::format("its prologue does not write '{}' to the stack", after[i].name));
  return PrologueEnd{.size = size, .effect = effect, .function = std::move(function)};
}

std::expected<std::optional<PrologueEnd>, std::string>
find_prologue_end(const elf::Image& image, const dwarf::DebugInfo& debug,
                  unwind::UnwindData* frames, const ProbePoint& point,
                  const dwarf::FunctionInfo& at_entry) {
  const auto prologue = describe_prologue(debug, frames, point, at_entry);
  if (!prologue) return std::unexpected(prologue.error());
  if (!*prologue) return std::nullopt;
  return check_prologue(image, frames, point, at_entry, **prologue);
}

} // namespace uprobectl
