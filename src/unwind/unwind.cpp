// SPDX-License-Identifier: Apache-2.0
// Unwinds a stack: the methods to find the caller of a frame, and the loop that applies them.
#include "unwind/expression.hpp"
#include "unwind/unwind_data.hpp"

#include <algorithm>
#include <bit>

namespace uprobectl::unwind {

namespace {

// Why a method did not find the caller.
struct NoCaller {
  End end = End::no_unwind_data;
  std::uint64_t address = 0; // of memory that was not saved
  bool is_final = false;     // do not try other methods: they would skip the caller
};

// The registers of the caller, with the pc as it was saved.
using Caller = std::expected<Registers, NoCaller>;

using Value = std::expected<std::uint64_t, NoCaller>;

Value load(const Memory& memory, std::uint64_t address) {
  if (const auto word = memory.read(address)) return *word;
  return std::unexpected(NoCaller{End::stack_too_short, address});
}

class RowReader {
public:
  RowReader(const Step& step, const Registers& registers, const Memory& memory)
      : step_(step), registers_(registers), memory_(memory) {}

  Value cfa() const {
    const CfaRule& rule = step_.cfa;
    if (rule.kind == CfaRule::Kind::expression) return evaluate_at(rule.value, std::nullopt);
    const auto base = registers_.get(rule.base_register);
    // The stack pointer is unknown in a frame that was found by a frame pointer.
    if (!base) return std::unexpected(NoCaller{End::unknown_register, 0});
    return *base + static_cast<std::uint64_t>(std::int64_t{rule.value});
  }

  // Returns the value of a register by its rule, which is not `undefined` or `same_value`.
  Value value(const Rule& rule, std::uint64_t cfa) const {
    const std::uint64_t there = cfa + static_cast<std::uint64_t>(std::int64_t{rule.value});
    switch (rule.kind) {
    case Rule::Kind::offset:
      return load(memory_, there);
    case Rule::Kind::val_offset:
      return there;
    case Rule::Kind::in_register: {
      const auto value = registers_.get(static_cast<std::uint32_t>(rule.value));
      if (!value) return std::unexpected(NoCaller{End::unknown_register, 0});
      return *value;
    }
    case Rule::Kind::expression: {
      const auto address = evaluate_at(rule.value, cfa);
      return address ? load(memory_, *address) : address;
    }
    case Rule::Kind::val_expression:
      return evaluate_at(rule.value, cfa);
    case Rule::Kind::unspecified:
    case Rule::Kind::undefined:
    case Rule::Kind::same_value:
      break;
    }
    return std::unexpected(NoCaller{End::corrupt, 0});
  }

private:
  // Evaluates the expression whose length is at `at` in the section.
  Value evaluate_at(std::int32_t at, std::optional<std::uint64_t> first) const {
    const auto extent = expression_at(*step_.section, at);
    if (!extent) return std::unexpected(NoCaller{End::corrupt, 0});
    const Bytes bytes = step_.section->bytes.subspan(extent->begin, extent->end - extent->begin);
    const auto result = evaluate(bytes, registers_, memory_, first);
    if (result) return *result;
    switch (result.error()) {
    case ExpressionFailure::corrupt:
      return std::unexpected(NoCaller{End::corrupt, 0});
    case ExpressionFailure::unknown_register:
      return std::unexpected(NoCaller{End::unknown_register, 0});
    case ExpressionFailure::not_saved:
      break;
    }
    return std::unexpected(NoCaller{End::stack_too_short, registers_.stack_pointer().value_or(0)});
  }

  const Step& step_;
  const Registers& registers_;
  const Memory& memory_;
};

// Replaces the registers by those of the caller, or returns why that is not possible. interrupted:
// the frame has not made a call, so the link register may still contain its return address.
std::optional<NoCaller> by_row(const Step& step, Registers& registers, const Memory& memory,
                               bool interrupted) {
  const UnwindInfo& info = registers.info();
  const RowReader reader(step, registers, memory);
  // DWARF 5, 6.4.4: an undefined return address marks the outermost frame.
  if (step.return_rule.kind == Rule::Kind::undefined) return NoCaller{End::outermost, 0};
  // An address that is not saved is still in the link register, unless a call has overwritten that.
  const bool is_kept = step.return_rule.kind == Rule::Kind::unspecified ||
                       step.return_rule.kind == Rule::Kind::same_value;
  const bool may_be_kept = interrupted && info.link_register != no_register &&
                           step.return_register == info.link_register;
  if (is_kept && !may_be_kept) return NoCaller{End::no_return_address, 0};
  // The frame record is still the caller's, so it would lead to the caller's caller.
  if (is_kept && !registers.get(step.return_register))
    return NoCaller{End::unknown_register, 0, true};
  const auto cfa = reader.cfa();
  if (!cfa) return cfa.error();

  // Read all values before writing any: rules may depend on each other.
  std::array<std::uint64_t, Registers::count> values;
  std::uint64_t known = 0; // a bit for each value
  for (std::size_t i = 0; i < step.rules.size(); ++i) {
    const Step::RegisterRule& each = step.rules[i];
    if (each.rule.kind == Rule::Kind::undefined || each.rule.kind == Rule::Kind::same_value)
      continue;
    if (each.rule.kind == Rule::Kind::offset) { // fast path for nearly all rules
      const std::uint64_t there = *cfa + static_cast<std::uint64_t>(std::int64_t{each.rule.value});
      const auto word = memory.read(there);
      if (!word && each.number == step.return_register)
        return NoCaller{End::stack_too_short, there};
      if (!word) continue;
      values[i] = *word;
      known |= std::uint64_t{1} << i;
      continue;
    }
    const auto value = reader.value(each.rule, *cfa);
    if (!value && each.number == step.return_register) return value.error();
    if (!value) continue;
    values[i] = *value;
    known |= std::uint64_t{1} << i;
  }
  registers.set(info.stack_pointer, *cfa);
  for (std::size_t i = 0; i < step.rules.size(); ++i) {
    if (step.rules[i].rule.kind == Rule::Kind::same_value) continue;
    if ((known >> i & 1U) != 0)
      registers.set(step.rules[i].number, values[i]);
    else
      registers.forget(step.rules[i].number);
  }
  const auto pc = registers.get(step.return_register);
  registers.set(info.pc, pc.value_or(0));
  return std::nullopt;
}

// Reads the registers that the kernel saved for a signal handler, at a fixed distance from the
// stack pointer.
Caller by_signal_frame(const Registers& registers, const Memory& memory) {
  const UnwindInfo& info = registers.info();
  const auto top = registers.stack_pointer();
  if (!top) return std::unexpected(NoCaller{});
  std::uint64_t at = *top + info.signal_registers_offset;
  Registers caller = registers;
  for (const std::uint8_t number : info.signal_registers) {
    const auto value = load(memory, at);
    if (!value) return std::unexpected(value.error());
    caller.set(number, *value);
    at += 8;
  }
  return caller;
}

// Reads the frame record at the frame pointer: its predecessor and the return address.
Caller by_frame_pointer(const Registers& registers, const Memory& memory) {
  const UnwindInfo& info = registers.info();
  const auto at = registers.frame_pointer();
  if (!at || *at == 0 || *at % 8 != 0) return std::unexpected(NoCaller{});
  // A record below the stack pointer belongs to a frame that has returned.
  const std::uint64_t mask = info.address_mask;
  if (const auto top = registers.stack_pointer(); top && (*at & mask) < (*top & mask))
    return std::unexpected(NoCaller{});
  const auto previous = memory.read(*at);
  const auto back = memory.read(*at + 8);
  if (!previous || !back) return std::unexpected(NoCaller{});
  Registers caller = registers;
  caller.set(info.frame_pointer, *previous);
  caller.set(info.pc, *back);
  if (info.frame_record_at_top)
    caller.set(info.stack_pointer, *at + 16);
  else // the record may be anywhere in its frame
    caller.forget(info.stack_pointer);
  // Stacks grow downwards.
  if ((*previous & mask) <= (*at & mask)) caller.forget(info.frame_pointer);
  return caller;
}

// Maximum of steps that do not move up the stack. Leaf functions of arm64 and switches of stacks
// make such steps.
constexpr int max_steps_without_progress = 16;

// Whether the function begins a Go stack (runtime/stubs.go, proc.go): the function to which a
// goroutine returns, which has no unwind information, or one in which a runtime thread begins.
bool is_goroutine_start(Module& module, VirtualAddress address) {
  const auto frame = module.frame(address);
  if (!frame->function) return false;
  constexpr std::string_view beginnings[] = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go"};
  std::string_view symbol = frame->function->symbol;
  constexpr std::string_view of_older_convention = ".abi0";
  if (symbol.ends_with(of_older_convention)) symbol.remove_suffix(of_older_convention.size());
  return std::ranges::find(beginnings, symbol) != std::end(beginnings);
}

class Unwinder {
public:
  Unwinder(const Registers& registers, std::span<const MemoryPiece> memory, AddressSpace& space,
           const UnwindLimits& limits)
      : space_(space), limits_(limits), registers_(registers), code_mask_(code_mask(space, arch())),
        memory_(memory, registers.info().address_mask) {
    stack_.frames.reserve(std::min<std::size_t>(limits.max_frames, 64));
  }

  Stack run() {
    while (enter_frame() && go_to_caller()) {
    }
    return std::move(stack_);
  }

private:
  Arch arch() const { return registers_.arch(); }
  const UnwindInfo& info() const { return registers_.info(); }
  bool has_link_register() const { return info().link_register != no_register; }
  std::uint64_t pc() const { return registers_.pc().value_or(0) & code_mask_; }

  bool finish(End end, std::uint64_t address = 0) {
    stack_.end = end;
    stack_.address = address;
    return false;
  }

  // The code of a caller is its call instruction; that of a thread interrupted in a system call is
  // the system call instruction. The return address of a signal handler may be the first address of
  // its mapping.
  bool find_code(std::uint64_t pc, std::optional<ModuleAddress>& code) {
    moved_back_ = interrupted_ ? 0 : info().call_address_offset;
    if (interrupted_ && stack_.frames.size() > 1) {
      if (!space_.find(pc, code)) return false;
      UnwindData* const data = code->module ? find_unwind_data(*code->module, arch()) : nullptr;
      if (data == nullptr || !data->is_after_system_call(code->address)) return true;
      moved_back_ = info().call_address_offset;
    }
    if (space_.find(pc - moved_back_, code)) return true;
    moved_back_ = 0;
    return space_.find(pc, code);
  }

  // Identifies the original return address by the caller's stack pointer. Probed functions that
  // were left by tail calls have the same stack pointer, and their entry may contain the
  // trampoline.
  bool restore_return_address() {
    const auto top = registers_.stack_pointer();
    if (!top) return false;
    const std::uint64_t at_entry = has_link_register() ? *top : *top - 8;
    const auto known = std::ranges::find_if(limits_.known_returns, [&](const KnownReturn& each) {
      return (each.stack_pointer & info().address_mask) == (at_entry & info().address_mask) &&
             !space_.is_return_trampoline(each.address & code_mask_);
    });
    if (known == limits_.known_returns.end()) return false;
    registers_.set(info().pc, known->address);
    return true;
  }

  // A signal trampoline was not called, so its code is at the pc itself.
  void use_exact_pc() {
    ModuleAddress& code = *stack_.frames.back().code;
    code.address.value += moved_back_;
    code.offset.value += moved_back_;
  }

  // Adds the frame of the current registers.
  bool enter_frame() {
    const bool first = stack_.frames.empty();
    if (first && !registers_.pc()) return finish(End::no_mapping);
    if (!first && space_.is_return_trampoline(pc()) && !restore_return_address())
      return finish(End::return_probe);
    // Frame 0 is kept even if its pc is invalid, for example after a call through a null pointer.
    const bool called = !first && !interrupted_;
    if (called && pc() == 0) return finish(End::outermost);
    if (stack_.frames.size() == limits_.max_frames) return finish(End::too_many);
    // Filled without a copy: this runs about a million times a second.
    Frame& frame = stack_.frames.emplace_back();
    frame.pc = pc();
    frame.found_by = found_by_;
    if (find_code(frame.pc, frame.code)) return true;
    if (called) {
      stack_.frames.pop_back();
      return finish(End::no_mapping, pc());
    }
    return recover_from_invalid_pc() ? enter_frame() : finish(End::no_mapping, pc());
  }

  // After a call through a null pointer, or to another address without code, the return address is
  // still where the call instruction has stored it.
  bool recover_from_invalid_pc() {
    const Caller caller = has_link_register() ? by_link_register() : by_pushed_address();
    NoCaller ignored;
    return is_plausible(caller) && continue_with(caller, FoundBy::function_entry, ignored);
  }

  bool go_to_caller() {
    const ModuleAddress& code = *stack_.frames.back().code;
    NoCaller why;
    if (code.module != nullptr) {
      if (UnwindData* const data = find_unwind_data(*code.module, arch())) {
        const VirtualAddress at{code.address.value + moved_back_};
        const Step& step = data->step(at, code.address);
        // The file may have shrunk meanwhile; lost bytes read as zeros.
        if (find_unwind_data(*code.module, arch()) == nullptr)
          return unwind_without_file(code, why);
        if (step.kind == Step::Kind::signal_frame || step.signal_frame) use_exact_pc();
        if (step.kind == Step::Kind::signal_frame)
          return continue_with(by_signal_frame(registers_, memory_), FoundBy::signal_frame, why) ||
                 (!has_ended_ && finish(why.end, why.address));
        // Before the row: it may not describe epilogues (LLVM before 15 on arm64).
        if (interrupted_ && step.return_operand)
          return continue_with(by_return(*step.return_operand), FoundBy::return_instruction, why) ||
                 (!has_ended_ && finish(why.end, why.address));
        // The rows of x86-64 give such functions a caller. Go writes only .debug_frame.
        if (step.kind == Step::Kind::row && step.section->kind == FrameSection::Kind::debug_frame &&
            starts_goroutine(code))
          return finish(End::outermost);
        if (step.kind == Step::Kind::corrupt) why.end = End::corrupt;
        if (step.kind == Step::Kind::row && apply_row(step, why)) return true;
      }
    }
    if (has_ended_) return false;
    if (why.end == End::outermost || why.end == End::stack_too_short ||
        why.end == End::no_return_address || why.is_final)
      return finish(why.end, why.address);
    return unwind_without_data(code, why) || (!has_ended_ && finish(why.end, why.address));
  }

  bool starts_goroutine(const ModuleAddress& code) const {
    return !interrupted_ && code.module != nullptr &&
           is_goroutine_start(*code.module, code.address);
  }

  bool unwind_without_file(const ModuleAddress& code, NoCaller& why) {
    return unwind_without_data(code, why) || (!has_ended_ && finish(End::no_unwind_data));
  }

  // Finds the caller of code without unwind information.
  bool unwind_without_data(const ModuleAddress& code, NoCaller& why) {
    NoCaller ignored;
    if (!interrupted_ && code.module != nullptr &&
        (code.module->is_program_start(code.address) || starts_goroutine(code))) {
      has_ended_ = true;
      return finish(End::outermost);
    }
    if (interrupted_ && is_function_entry(code)) {
      if (has_link_register())
        return continue_with(by_link_register(), FoundBy::function_entry, ignored);
      return continue_with(by_pushed_address(), FoundBy::function_entry, why);
    }
    const Caller record = by_frame_pointer(registers_, memory_);
    if (has_link_register() && interrupted_ && !is_link_register_stale(code, record) &&
        is_plausible(by_link_register()) &&
        continue_with(by_link_register(), FoundBy::link_register, ignored))
      return true;
    if (has_ended_) return false;
    if (record && (record->pc().value_or(0) & code_mask_) == 0) {
      has_ended_ = true; // the record of a thread's first function
      return finish(End::outermost);
    }
    return is_plausible(record) && continue_with(record, FoundBy::frame_pointer, ignored);
  }

  bool is_function_entry(const ModuleAddress& code) const {
    if (stack_.frames.size() == 1 && limits_.at_function_entry) return true;
    if (code.module == nullptr || code.module->image() == nullptr ||
        unwound_arch(code.module->image()->machine()) != arch())
      return false;
    const auto frame = code.module->frame(code.address);
    return frame->function && frame->function->offset == 0;
  }

  // After a call, the link register points into the calling function itself, or equals the return
  // address in its frame record.
  bool is_link_register_stale(const ModuleAddress& code, const Caller& record) {
    const auto link = registers_.get(info().link_register);
    if (!link) return true;
    if (record && (record->pc().value_or(0) & code_mask_) == (*link & code_mask_)) return true;
    const auto there = space_.find((*link & code_mask_) - info().call_address_offset);
    if (!there || there->module != code.module || code.module == nullptr) return false;
    const auto here = code.module->frame(code.address);
    const auto called = code.module->frame(there->address);
    return here->function && called->function &&
           here->function->symbol == called->function->symbol &&
           code.address.value - here->function->offset ==
               there->address.value - called->function->offset;
  }

  Caller by_register(std::uint8_t number, End end_without) const {
    const auto back = registers_.get(number);
    if (!back) return std::unexpected(NoCaller{end_without, 0});
    Registers caller = registers_;
    caller.set(info().pc, *back);
    return caller;
  }

  Caller by_link_register() const { return by_register(info().link_register, End::no_unwind_data); }

  // At a return instruction all registers but the pc are the caller's already.
  Caller by_return(std::uint8_t number) const {
    return has_link_register() ? by_register(number, End::unknown_register) : by_pushed_address();
  }

  Caller by_pushed_address() const {
    const auto top = registers_.stack_pointer();
    const auto back = top ? memory_.read(*top) : std::nullopt;
    if (!back) return std::unexpected(NoCaller{End::stack_too_short, top.value_or(0)});
    Registers caller = registers_;
    caller.set(info().stack_pointer, *top + 8);
    caller.set(info().pc, *back);
    return caller;
  }

  // A guessed caller must at least be in executable memory.
  bool is_plausible(const Caller& caller) {
    if (!caller) return false;
    const std::uint64_t pc = caller->pc().value_or(0) & code_mask_;
    return space_.is_return_trampoline(pc) || space_.find(pc - 1).has_value();
  }

  bool apply_row(const Step& step, NoCaller& why) {
    const std::uint64_t before = pc();
    const auto top = registers_.stack_pointer();
    if (const auto missing = by_row(step, registers_, memory_, interrupted_)) {
      why = *missing;
      return false;
    }
    return advance(before, top, step.signal_frame ? FoundBy::signal_frame : FoundBy::frame_data);
  }

  bool continue_with(const Caller& caller, FoundBy found_by, NoCaller& why) {
    if (!caller) {
      why = caller.error();
      return false;
    }
    const std::uint64_t before = pc();
    const auto top = registers_.stack_pointer();
    registers_ = *caller;
    return advance(before, top, found_by);
  }

  // Continues with the caller, whose registers are set. Returns false if the stack loops.
  bool advance(std::uint64_t before, std::optional<std::uint64_t> top, FoundBy found_by) {
    const auto new_top = registers_.stack_pointer();
    if (top && new_top && *new_top <= *top) ++without_progress_;
    if ((pc() == before && top && new_top == top) ||
        without_progress_ > max_steps_without_progress) {
      has_ended_ = true;
      return finish(End::loop);
    }
    found_by_ = found_by;
    interrupted_ = found_by == FoundBy::signal_frame;
    return true;
  }

  AddressSpace& space_;
  const UnwindLimits& limits_;
  Registers registers_; // of the current frame
  std::uint64_t code_mask_;
  Memory memory_;
  Stack stack_;
  FoundBy found_by_ = FoundBy::registers;
  std::uint64_t moved_back_ = 0; // from the pc to the code of the frame
  bool interrupted_ = true;      // the frame has not made a call: its pc is the next instruction
  bool has_ended_ = false;       // the end has been found; try no other method
  int without_progress_ = 0;
};

} // namespace

std::uint64_t code_mask(const AddressSpace& space, Arch arch) {
  if (!arch_info(arch).unwind->signs_return_addresses) return ~std::uint64_t{0};
  // Stacks and libraries are just below the end of user space, so the highest address shows how
  // many bits addresses have (Linux Documentation/arch/arm64/memory.rst); signatures use the bits
  // above.
  constexpr unsigned sizes[] = {39, 42, 47, 48, 52};
  const auto bits = static_cast<unsigned>(std::bit_width(space.highest_address()));
  for (const unsigned size : sizes)
    if (bits <= size) return (std::uint64_t{1} << size) - 1;
  return (std::uint64_t{1} << std::end(sizes)[-1]) - 1;
}

Stack unwind_stack(const Registers& registers, std::span<const MemoryPiece> memory,
                   AddressSpace& space, const UnwindLimits& limits) {
  return Unwinder(registers, memory, space, limits).run();
}

} // namespace uprobectl::unwind
