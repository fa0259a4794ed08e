// SPDX-License-Identifier: Apache-2.0
#include "unwind/expression.hpp"

#include "elf/dwarf_cursor.hpp"

namespace uprobectl::unwind {

namespace {

// Compilers and hand-written assembly need about ten of each.
constexpr std::size_t max_values = 64;
constexpr unsigned max_steps = 1000; // jumps may go back

std::uint64_t widened(std::uint64_t value, unsigned bytes) {
  const unsigned shift = (64 - 8 * bytes) % 64;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
}

class Evaluator {
public:
  Evaluator(Bytes expression, const Registers& registers, const Memory& memory)
      : cursor_(expression, ByteOrder::little), registers_(registers), memory_(memory) {}

  std::expected<std::uint64_t, ExpressionFailure> run(std::optional<std::uint64_t> first) {
    if (first) push(*first);
    for (unsigned steps = 0; ok_ && !cursor_.at_end(); ++steps) {
      if (steps == max_steps)
        ok_ = false;
      else
        execute_next();
      if (cursor_.failed()) ok_ = false;
    }
    const std::uint64_t result = pop();
    if (!ok_) return std::unexpected(why_);
    return result;
  }

private:
  void execute_next() {
    const auto code = static_cast<unsigned>(cursor_.number(1));
    if (code >= 0x30 && code <= 0x4f)
      push(code - 0x30); // lit0 …
    else if (code >= 0x50 && code <= 0x6f)
      push_register(code - 0x50, 0); // reg0 …: its content
    else if (code >= 0x70 && code <= 0x8f)
      push_register(code - 0x70, cursor_.signed_leb()); // breg
    else if (code >= 0x08 && code <= 0x11)
      constant(code);
    else if (code >= 0x12 && code <= 0x17)
      rearrange(code);
    else if (code >= 0x19 && code <= 0x2e && code != 0x28)
      compute(code);
    else
      execute_other(code);
  }

  void execute_other(unsigned code) {
    switch (code) {
    case 0x06: // deref
      return dereference(8);
    case 0x94: // deref_size
      return dereference(static_cast<unsigned>(cursor_.number(1)));
    case 0x28: { // bra
      const auto distance = cursor_.number(2);
      if (pop() != 0) jump(distance);
      return;
    }
    case 0x2f: // skip
      return jump(cursor_.number(2));
    case 0x90: // regx
      return push_register(cursor_.unsigned_leb(), 0);
    case 0x92: { // bregx
      const std::uint64_t number = cursor_.unsigned_leb();
      return push_register(number, cursor_.signed_leb());
    }
    case 0x96: // nop
      return;
    default: // including addr: the load address is not known here
      ok_ = false;
    }
  }

  void constant(unsigned code) {
    if (code == 0x10) return push(cursor_.unsigned_leb());                           // constu
    if (code == 0x11) return push(static_cast<std::uint64_t>(cursor_.signed_leb())); // consts
    const unsigned size = 1U << ((code - 0x08) / 2); // const1u, const1s, const2u, …
    const std::uint64_t value = cursor_.number(size);
    push(code % 2 == 0 ? value : widened(value, size));
  }

  void rearrange(unsigned code) {
    const std::size_t depth = code == 0x14 ? 1 : code == 0x15 ? cursor_.number(1) : 0;
    switch (code) {
    case 0x12: // dup
    case 0x14: // over
    case 0x15: // pick
      if (depth < values_.size()) return push(values_[values_.size() - 1 - depth]);
      ok_ = false;
      return;
    case 0x13: // drop
      pop();
      return;
    default: { // swap, rot: the first becomes the second or third
      const std::size_t reach = code == 0x16 ? 2 : 3;
      const std::uint64_t top = pop();
      if (values_.size() < reach - 1)
        ok_ = false;
      else
        values_.insert(values_.end() - static_cast<std::ptrdiff_t>(reach - 1), top);
    }
    }
  }

  void compute(unsigned code) {
    const std::uint64_t top = pop();
    switch (code) {
    case 0x19: // abs
      return push(static_cast<std::int64_t>(top) < 0 ? -top : top);
    case 0x1f: // neg
      return push(-top);
    case 0x20: // not
      return push(~top);
    case 0x23: // plus_uconst
      return push(top + cursor_.unsigned_leb());
    default:
      return combine(code, pop(), top);
    }
  }

  void combine(unsigned code, std::uint64_t left, std::uint64_t right) {
    const auto a = static_cast<std::int64_t>(left);
    const auto b = static_cast<std::int64_t>(right);
    switch (code) {
    case 0x1a:
      return push(left & right);
    case 0x1b: // div, signed
      if (b == 0 || (b == -1 && left == std::uint64_t{1} << 63))
        ok_ = false;
      else
        push(static_cast<std::uint64_t>(a / b));
      return;
    case 0x1c:
      return push(left - right);
    case 0x1d: // mod, unsigned
      if (right == 0)
        ok_ = false;
      else
        push(left % right);
      return;
    case 0x1e:
      return push(left * right);
    case 0x21:
      return push(left | right);
    case 0x22:
      return push(left + right);
    case 0x24: // shl
      return push(right < 64 ? left << right : 0);
    case 0x25: // shr
      return push(right < 64 ? left >> right : 0);
    case 0x26: // shra
      return push(static_cast<std::uint64_t>(a >> std::min<std::uint64_t>(right, 63)));
    case 0x27:
      return push(left ^ right);
    case 0x29:
      return push(a == b ? 1 : 0);
    case 0x2a:
      return push(a >= b ? 1 : 0);
    case 0x2b:
      return push(a > b ? 1 : 0);
    case 0x2c:
      return push(a <= b ? 1 : 0);
    case 0x2d:
      return push(a < b ? 1 : 0);
    default: // ne
      return push(a != b ? 1 : 0);
    }
  }

  void jump(std::uint64_t distance) { cursor_.seek(cursor_.at() + widened(distance, 2)); }

  void push_register(std::uint64_t number, std::int64_t offset) {
    const auto value = registers_.get(number);
    if (!value) return fail_with(ExpressionFailure::unknown_register);
    push(*value + static_cast<std::uint64_t>(offset));
  }

  void dereference(unsigned size) {
    const std::uint64_t address = pop();
    if (size != 1 && size != 2 && size != 4 && size != 8) {
      ok_ = false;
      return;
    }
    const auto value = ok_ ? memory_.read(address, size) : std::nullopt;
    if (!value) return fail_with(ExpressionFailure::not_saved);
    push(*value);
  }

  void fail_with(ExpressionFailure why) {
    if (ok_) why_ = why;
    ok_ = false;
  }

  void push(std::uint64_t value) {
    if (values_.size() == max_values)
      ok_ = false;
    else
      values_.push_back(value);
  }
  std::uint64_t pop() {
    if (values_.empty()) {
      ok_ = false;
      return 0;
    }
    const std::uint64_t value = values_.back();
    values_.pop_back();
    return value;
  }

  elf::DwarfCursor cursor_;
  const Registers& registers_;
  const Memory& memory_;
  std::vector<std::uint64_t> values_;
  bool ok_ = true;
  ExpressionFailure why_ = ExpressionFailure::corrupt; // not ok
};

} // namespace

std::expected<std::uint64_t, ExpressionFailure> evaluate(Bytes expression,
                                                         const Registers& registers,
                                                         const Memory& memory,
                                                         std::optional<std::uint64_t> first) {
  return Evaluator(expression, registers, memory).run(first);
}

} // namespace uprobectl::unwind
