#include "unwind/caller.hpp"
#include "unwind/unwind_data.hpp"

#include <algorithm>
#include <bit>

namespace uprobectl::stacks {

namespace {

// So often a step may leave the stack no smaller. Leaf functions of arm64 do, and threads that
// switch stacks.
constexpr int most_without_progress = 16;

// Go's runtime/stubs.go, proc.go: what a goroutine returns to when its function ends, and where the
// runtime's own threads begin. Nobody has called these, and the linker writes no unwind information
// for the first.
bool begins_stack_of_go(Module& module, VirtualAddress address) {
  const auto frame = module.frame(address);
  if (!frame->function) return false;
  constexpr std::string_view beginnings[] = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go"};
  std::string_view symbol = frame->function->symbol;
  constexpr std::string_view of_older_convention = ".abi0";
  if (symbol.ends_with(of_older_convention)) symbol.remove_suffix(of_older_convention.size());
  return std::ranges::find(beginnings, symbol) != std::end(beginnings);
}

class Unwinding {
public:
  Unwinding(const Registers& registers, std::span<const MemoryPiece> memory, AddressSpace& space,
            const UnwindLimits& limits)
      : space_(space), limits_(limits), registers_(registers), code_mask_(code_mask(space, arch())),
        memory_(memory, registers.info().address_mask) {
    stack_.frames.reserve(std::min<std::size_t>(limits.most_frames, 64));
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

  // Of a caller the place is that of the call, and of a thread that was interrupted in a system
  // call the instruction for that. What a handler returns to may stand at the very begin of its
  // mapping.
  bool find_place(std::uint64_t pc, std::optional<Place>& place) {
    moved_back_ = interrupted_ ? 0 : info().back_to_call;
    if (interrupted_ && stack_.frames.size() > 1) {
      if (!space_.find(pc, place)) return false;
      UnwindData* const data = place->module ? unwind_data_of(*place->module, arch()) : nullptr;
      if (data == nullptr || !data->is_behind_system_call(place->address)) return true;
      moved_back_ = info().back_to_call;
    }
    if (space_.find(pc - moved_back_, place)) return true;
    moved_back_ = 0;
    return space_.find(pc, place);
  }

  // The stack pointer of the function's caller tells which of the known ones it is. Functions that
  // were left by tail calls, each with its probe, share one, and may know no more than the
  // trampoline.
  bool put_back_return_address() {
    const auto top = registers_.stack_pointer();
    if (!top) return false;
    // The call may have pushed the return address.
    const std::uint64_t at_entry = has_link_register() ? *top : *top - 8;
    const auto known = std::ranges::find_if(limits_.known_returns, [&](const KnownReturn& each) {
      return each.stack_pointer == at_entry &&
             !space_.is_return_trampoline(each.address & code_mask_);
    });
    if (known == limits_.known_returns.end()) return false;
    registers_.set(info().pc, known->address);
    return true;
  }

  // What handlers return to was never called.
  void stay_at_pc() {
    Place& place = *stack_.frames.back().place;
    place.address.value += moved_back_;
    place.offset.value += moved_back_;
  }

  // The frame that the registers tell of.
  bool enter_frame() {
    const bool first = stack_.frames.empty();
    if (first && !registers_.pc()) return finish(End::no_mapping);
    if (!first && space_.is_return_trampoline(pc()) && !put_back_return_address())
      return finish(End::return_probe);
    // Where a thread was, it was, if only by a call through a null pointer.
    const bool called = !first && !interrupted_;
    if (called && pc() == 0) return finish(End::outermost);
    if (stack_.frames.size() == limits_.most_frames) return finish(End::too_many);
    // Where it will stay: this is done some million times a second.
    Frame& frame = stack_.frames.emplace_back();
    frame.pc = pc();
    frame.found_by = found_by_;
    if (find_place(frame.pc, frame.place)) return true;
    if (called) {
      stack_.frames.pop_back();
      return finish(End::no_mapping, pc());
    }
    return return_from_nowhere() ? enter_frame() : finish(End::no_mapping, pc());
  }

  // A call through a null pointer, or one to anything else that is not code: nothing has run there,
  // so the return address is still where the call has put it.
  bool return_from_nowhere() {
    const Caller caller = has_link_register() ? by_link_register() : by_pushed_address();
    NoCaller ignored;
    return plausible(caller) && take(caller, FoundBy::function_entry, ignored);
  }

  bool go_to_caller() {
    const Place& place = *stack_.frames.back().place;
    NoCaller why;
    if (place.module != nullptr) {
      if (UnwindData* const data = unwind_data_of(*place.module, arch())) {
        const VirtualAddress at{place.address.value + moved_back_};
        const Step& step = data->step(at, place.address);
        // What was read may be the zeros in place of what its file has lost.
        if (unwind_data_of(*place.module, arch()) == nullptr) return without_file(place, why);
        if (step.kind == Step::Kind::signal_frame || step.signal_frame) stay_at_pc();
        if (step.kind == Step::Kind::signal_frame)
          return take(by_signal_frame(registers_, memory_), FoundBy::signal_frame, why) ||
                 (!done_ && finish(why.end, why.address));
        // Whatever a row says: compilers leave epilogues out of it (LLVM before 15 on arm64).
        if (interrupted_ && step.returns_by)
          return take(by_return(*step.returns_by), FoundBy::return_instruction, why) ||
                 (!done_ && finish(why.end, why.address));
        // Rows of x86-64 know a caller of these, too. Go's are in no .eh_frame.
        if (step.kind == Step::Kind::row && step.section->kind == FrameSection::Kind::debug_frame &&
            begins_goroutine(place))
          return finish(End::outermost);
        if (step.kind == Step::Kind::corrupt) why.end = End::corrupt;
        if (step.kind == Step::Kind::row && take_row(step, why)) return true;
      }
    }
    if (done_) return false;
    if (why.end == End::outermost || why.end == End::stack_too_short ||
        why.end == End::no_return_address || why.is_certain)
      return finish(why.end, why.address);
    return without_data(place, why) || (!done_ && finish(why.end, why.address));
  }

  bool begins_goroutine(const Place& place) const {
    return !interrupted_ && place.module != nullptr &&
           begins_stack_of_go(*place.module, place.address);
  }

  bool without_file(const Place& place, NoCaller& why) {
    return without_data(place, why) || (!done_ && finish(End::no_unwind_data));
  }

  // Code that nothing is known of.
  bool without_data(const Place& place, NoCaller& why) {
    NoCaller ignored;
    if (!interrupted_ && place.module != nullptr &&
        (place.module->begins_program_at(place.address) || begins_goroutine(place))) {
      done_ = true;
      return finish(End::outermost);
    }
    if (interrupted_ && is_function_entry(place)) {
      if (has_link_register()) return take(by_link_register(), FoundBy::function_entry, ignored);
      return take(by_pushed_address(), FoundBy::function_entry, why);
    }
    const Caller record = by_frame_pointer(registers_, memory_);
    if (has_link_register() && interrupted_ && !is_link_register_stale(place, record) &&
        plausible(by_link_register()) && take(by_link_register(), FoundBy::link_register, ignored))
      return true;
    if (done_) return false;
    if (record && (record->pc().value_or(0) & code_mask_) == 0) {
      done_ = true; // threads begin with such a record
      return finish(End::outermost);
    }
    return plausible(record) && take(record, FoundBy::frame_pointer, ignored);
  }

  bool is_function_entry(const Place& place) const {
    if (stack_.frames.size() == 1 && limits_.at_function_entry) return true;
    if (place.module == nullptr || place.module->image() == nullptr ||
        unwound_arch(place.module->image()->machine()) != arch())
      return false;
    const auto frame = place.module->frame(place.address);
    return frame->function && frame->function->offset == 0;
  }

  // After the function has called another the register points back into it; what it saved itself
  // is what its frame record has.
  bool is_link_register_stale(const Place& place, const Caller& record) {
    const auto link = registers_.get(info().link_register);
    if (!link) return true;
    if (record && (record->pc().value_or(0) & code_mask_) == (*link & code_mask_)) return true;
    const auto there = space_.find((*link & code_mask_) - info().back_to_call);
    if (!there || there->module != place.module || place.module == nullptr) return false;
    const auto here = place.module->frame(place.address);
    const auto called = place.module->frame(there->address);
    return here->function && called->function &&
           here->function->symbol == called->function->symbol &&
           place.address.value - here->function->offset ==
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

  // All but the pc is the caller's already.
  Caller by_return(std::uint8_t number) const {
    return has_link_register() ? by_register(number, End::unknown_register) : by_pushed_address();
  }

  Caller by_pushed_address() const {
    const auto top = registers_.stack_pointer();
    const auto back = top ? memory_.number(*top) : std::nullopt;
    if (!back) return std::unexpected(NoCaller{End::stack_too_short, top.value_or(0)});
    Registers caller = registers_;
    caller.set(info().stack_pointer, *top + 8);
    caller.set(info().pc, *back);
    return caller;
  }

  // What was guessed must at least be code.
  bool plausible(const Caller& caller) {
    if (!caller) return false;
    const std::uint64_t pc = caller->pc().value_or(0) & code_mask_;
    return space_.is_return_trampoline(pc) || space_.find(pc - 1).has_value();
  }

  bool take_row(const Step& step, NoCaller& why) {
    const std::uint64_t before = pc();
    const auto top = registers_.stack_pointer();
    if (const auto missing = by_row(step, registers_, memory_, interrupted_)) {
      why = *missing;
      return false;
    }
    return advance(before, top, step.signal_frame ? FoundBy::signal_frame : FoundBy::frame_data);
  }

  bool take(const Caller& caller, FoundBy found_by, NoCaller& why) {
    if (!caller) {
      why = caller.error();
      return false;
    }
    const std::uint64_t before = pc();
    const auto top = registers_.stack_pointer();
    registers_ = *caller;
    return advance(before, top, found_by);
  }

  // The caller, which the registers tell of now, is the next frame unless the stack goes round.
  bool advance(std::uint64_t before, std::optional<std::uint64_t> top, FoundBy found_by) {
    const auto new_top = registers_.stack_pointer();
    if (top && new_top && *new_top <= *top) ++without_progress_;
    if ((pc() == before && top && new_top == top) || without_progress_ > most_without_progress) {
      done_ = true;
      return finish(End::loop);
    }
    found_by_ = found_by;
    interrupted_ = found_by == FoundBy::signal_frame;
    return true;
  }

  AddressSpace& space_;
  const UnwindLimits& limits_;
  Registers registers_; // of the frame that is looked at
  std::uint64_t code_mask_;
  Memory memory_;
  Stack stack_;
  FoundBy found_by_ = FoundBy::registers;
  std::uint64_t moved_back_ = 0; // from the pc to the place of the frame
  bool interrupted_ = true;      // the frame has called nothing: its pc is where it was
  bool done_ = false;            // the end has been found, whatever else could be tried
  int without_progress_ = 0;
};

} // namespace

std::uint64_t code_mask(const AddressSpace& space, Arch arch) {
  if (!arch_info(arch).unwind->signs_return_addresses) return ~std::uint64_t{0};
  // Stacks and libraries lie just below the end of user space, so the highest address has as many
  // bits as there are (Linux Documentation/arch/arm64/memory.rst); signatures begin above.
  constexpr unsigned sizes[] = {39, 42, 47, 48, 52};
  const auto bits = static_cast<unsigned>(std::bit_width(space.highest_address()));
  for (const unsigned size : sizes)
    if (bits <= size) return (std::uint64_t{1} << size) - 1;
  return (std::uint64_t{1} << std::end(sizes)[-1]) - 1;
}

Stack unwind(const Registers& registers, std::span<const MemoryPiece> memory, AddressSpace& space,
             const UnwindLimits& limits) {
  return Unwinding(registers, memory, space, limits).run();
}

} // namespace uprobectl::stacks
