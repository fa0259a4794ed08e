#include "unwind/caller.hpp"

#include "unwind/expression.hpp"

namespace uprobectl::stacks {

namespace {

using Value = std::expected<std::uint64_t, NoCaller>;

// A word, or the complaint that it was not saved.
Value load(const Memory& memory, std::uint64_t address) {
  if (const auto word = memory.number(address)) return *word;
  return std::unexpected(NoCaller{End::stack_too_short, address});
}

class RowReader {
public:
  RowReader(const Step& step, const Registers& registers, const Memory& memory)
      : step_(step), registers_(registers), memory_(memory) {}

  Value cfa() const {
    const Rule& rule = step_.cfa;
    if (rule.kind == Rule::Kind::expression) return evaluated(rule, std::nullopt);
    const auto base = registers_.get(step_.cfa_register);
    // A frame that was found by its frame pointer may not know its stack pointer.
    if (!base) return std::unexpected(NoCaller{End::unknown_register, 0});
    return *base + static_cast<std::uint64_t>(std::int64_t{rule.value});
  }

  // Of a register that has a rule of its own, but for `undefined` and `same`.
  Value value(const Rule& rule, std::uint64_t cfa) const {
    const std::uint64_t there = cfa + static_cast<std::uint64_t>(std::int64_t{rule.value});
    switch (rule.kind) {
    case Rule::Kind::saved:
      return load(memory_, there);
    case Rule::Kind::offset:
      return there;
    case Rule::Kind::other: {
      const auto value = registers_.get(static_cast<std::uint32_t>(rule.value));
      if (!value) return std::unexpected(NoCaller{End::unknown_register, 0});
      return *value;
    }
    case Rule::Kind::saved_expression: {
      const auto address = evaluated(rule, cfa);
      return address ? load(memory_, *address) : address;
    }
    case Rule::Kind::expression:
      return evaluated(rule, cfa);
    case Rule::Kind::unspecified:
    case Rule::Kind::undefined:
    case Rule::Kind::same:
      break;
    }
    return std::unexpected(NoCaller{End::corrupt, 0});
  }

private:
  Value evaluated(const Rule& rule, std::optional<std::uint64_t> first) const {
    const auto extent = expression_at(*step_.section, rule.value);
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

} // namespace

std::optional<NoCaller> by_row(const Step& step, Registers& registers, const Memory& memory,
                               bool interrupted) {
  const UnwindInfo& info = registers.info();
  const RowReader reader(step, registers, memory);
  // DWARF 5, 6.4.4: where the return address is undefined there is nothing to return to.
  if (step.back.kind == Rule::Kind::undefined) return NoCaller{End::outermost, 0};
  // Not saved: still in the link register, which a call would have overwritten.
  const bool is_kept =
      step.back.kind == Rule::Kind::unspecified || step.back.kind == Rule::Kind::same;
  const bool may_be_kept = interrupted && info.link_register != no_register &&
                           step.return_register == info.link_register;
  if (is_kept && !may_be_kept) return NoCaller{End::no_return_address, 0};
  // The frame record is still the caller's, and so tells of the caller's caller.
  if (is_kept && !registers.get(step.return_register))
    return NoCaller{End::unknown_register, 0, true};
  const auto cfa = reader.cfa();
  if (!cfa) return cfa.error();

  // All are read before any is written: they may depend on each other.
  std::array<std::uint64_t, Registers::count> values;
  std::uint64_t known = 0; // a bit for each
  for (std::size_t i = 0; i < step.told.size(); ++i) {
    const Step::Told& told = step.told[i];
    if (told.rule.kind == Rule::Kind::undefined || told.rule.kind == Rule::Kind::same) continue;
    if (told.rule.kind == Rule::Kind::saved) { // nearly all
      const std::uint64_t there = *cfa + static_cast<std::uint64_t>(std::int64_t{told.rule.value});
      const auto word = memory.number(there);
      if (!word && told.number == step.return_register)
        return NoCaller{End::stack_too_short, there};
      if (!word) continue;
      values[i] = *word;
      known |= std::uint64_t{1} << i;
      continue;
    }
    const auto value = reader.value(told.rule, *cfa);
    if (!value && told.number == step.return_register) return value.error();
    if (!value) continue;
    values[i] = *value;
    known |= std::uint64_t{1} << i;
  }
  registers.set(info.stack_pointer, *cfa);
  for (std::size_t i = 0; i < step.told.size(); ++i) {
    if (step.told[i].rule.kind == Rule::Kind::same) continue;
    if ((known >> i & 1U) != 0)
      registers.set(step.told[i].number, values[i]);
    else
      registers.forget(step.told[i].number);
  }
  const auto pc = registers.get(step.return_register);
  registers.set(info.pc, pc.value_or(0));
  return std::nullopt;
}

Caller by_signal_frame(const Registers& registers, const Memory& memory) {
  const UnwindInfo& info = registers.info();
  const auto top = registers.stack_pointer();
  if (!top) return std::unexpected(NoCaller{});
  std::uint64_t at = *top + info.signal_registers_at;
  Registers caller = registers;
  for (const std::uint8_t number : info.signal_registers) {
    const auto value = load(memory, at);
    if (!value) return std::unexpected(value.error());
    caller.set(number, *value);
    at += 8;
  }
  return caller;
}

Caller by_frame_pointer(const Registers& registers, const Memory& memory) {
  const UnwindInfo& info = registers.info();
  const auto at = registers.frame_pointer();
  if (!at || *at == 0 || *at % 8 != 0) return std::unexpected(NoCaller{});
  // A record below the stack pointer is of a frame that has gone.
  if (const auto top = registers.stack_pointer(); top && *at < *top)
    return std::unexpected(NoCaller{});
  const auto previous = memory.number(*at);
  const auto back = memory.number(*at + 8);
  if (!previous || !back) return std::unexpected(NoCaller{});
  Registers caller = registers;
  caller.set(info.frame_pointer, *previous);
  caller.set(info.pc, *back);
  if (info.record_ends_frame)
    caller.set(info.stack_pointer, *at + 16);
  else // the record may lie anywhere in its frame
    caller.forget(info.stack_pointer);
  if (*previous <= *at) caller.forget(info.frame_pointer); // stacks grow downwards
  return caller;
}

} // namespace uprobectl::stacks
