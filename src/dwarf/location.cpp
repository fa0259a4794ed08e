// SPDX-License-Identifier: Apache-2.0
#include "dwarf/location.hpp"

#include "dwarf/operations.hpp"
#include "elf/elf_types.hpp"
#include "util/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// Limits for damaged expressions; those of compilers have at most a few dozen operations.
constexpr std::size_t max_operations = 256;
constexpr std::size_t max_stack_depth = 64;
constexpr std::size_t max_loads = 8;
constexpr std::size_t max_pieces = 32;

// DW_OP_GNU_implicit_pointer of DWARF 4 and DW_OP_GNU_parameter_ref (binutils include/dwarf2.def).
// LLVM does not know the operands of these, and of DW_OP_implicit_pointer.
constexpr std::uint8_t gnu_implicit_pointer = 0xf2;
constexpr std::uint8_t gnu_parameter_ref = 0xfa;

// Returns why the value of an operation cannot be read that LLVM does not decode.
std::optional<std::string> problem_of(std::uint8_t code) {
  if (code == gnu_implicit_pointer || code == DW_OP_implicit_pointer)
    return "the compiler has removed what it points to";
  if (code == gnu_parameter_ref) return "only known to the caller";
  return std::nullopt;
}

Formula number_formula(std::uint64_t number) {
  return {.addend = static_cast<std::int64_t>(number)};
}

// Evaluates one expression.
class Evaluation {
public:
  Evaluation(Bytes expression, const LocationContext& context, const ExpressionData& data)
      : expression_(expression), context_(context), data_(data) {}

  Location run(ByteOrder order) {
    if (expression_.empty()) return unreadable(optimized_out);
    const llvm::DataExtractor data(elf::as_string_ref(expression_), order == ByteOrder::little,
                                   context_.address_size);
    const llvm::DWARFExpression operations(data, context_.address_size);
    std::size_t count = 0;
    std::uint64_t begin = 0;
    for (const Operation& operation : operations) {
      if (auto problem = problem_of(operation.getCode())) return unreadable(std::move(*problem));
      if (is_damaged(operation, begin)) return unreadable("its location is damaged");
      begin = operation.getEndOffset();
      if (++count > max_operations) return unreadable("its location is too long");
      if (!failure_.problem.empty() && operation.getCode() != DW_OP_piece) continue;
      apply(operation);
      if (!failure_.problem.empty() && is_whole_failure_) return std::move(failure_);
    }
    if (!failure_.problem.empty()) return std::move(failure_);
    if (entry_value_end_ != 0) return unreadable("its location is damaged");
    if (!result_.pieces.empty()) return finish_pieces();
    if (last_) result_.pieces.push_back(take_piece());
    if (result_.pieces.empty()) return unreadable(optimized_out);
    return std::move(result_);
  }

private:
  void apply(const Operation& operation) {
    const std::uint8_t code = operation.getCode();
    const auto operand = [&](unsigned i) {
      return i < operation.getNumOperands() ? operation.getRawOperand(i) : 0;
    };
    const auto signed_operand = [&](unsigned i) { return static_cast<std::int64_t>(operand(i)); };

    if (const auto number = pushed_constant(operation)) return push(number_formula(*number));
    if (code >= DW_OP_reg0 && code <= DW_OP_reg31) return use_register(code - DW_OP_reg0);
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31)
      return push_register(code - DW_OP_breg0, signed_operand(0));
    switch (code) {
    case DW_OP_regx:
      return use_register(operand(0));
    case DW_OP_bregx:
      return push_register(operand(0), signed_operand(1));
    case DW_OP_fbreg:
      return push_frame_base(signed_operand(0));
    case DW_OP_call_frame_cfa:
      if (!context_.cfa) return give_up("its stack frame is not known here");
      return push(*context_.cfa);
    case DW_OP_addr:
      return push({.base = Formula::Base::image, .addend = signed_operand(0)});
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index: {
      const auto address = data_.read_address(operand(0));
      if (!address) return give_up("its address is not in .debug_addr");
      return push({.base = Formula::Base::image, .addend = static_cast<std::int64_t>(*address)});
    }
    case DW_OP_plus_uconst:
      return add_to_top(signed_operand(0));
    case DW_OP_plus:
      return add_top_two(false);
    case DW_OP_minus:
      return add_top_two(true);
    case DW_OP_and:
      return mask();
    case DW_OP_shr:
      return shift_right();
    case DW_OP_convert:
      return convert(operand(0));
    case DW_OP_deref:
      return load();
    case DW_OP_dup:
      if (stack_.empty()) return report_damage();
      return push(Formula(stack_.back()));
    case DW_OP_drop:
      if (stack_.empty()) return report_damage();
      return stack_.pop_back();
    case DW_OP_nop:
      return;
    case DW_OP_stack_value:
      is_value_ = true;
      return;
    case DW_OP_implicit_value:
      return push_implicit(operand(0), operand(1));
    case DW_OP_form_tls_address:
    case DW_OP_GNU_push_tls_address:
      return give_up("it is thread-local, which is not supported");
    case DW_OP_piece:
      return end_piece(operand(0));
    case DW_OP_entry_value:
    case DW_OP_GNU_entry_value:
      if (!context_.at_entry) return give_up("only known at the entry of its function");
      entry_value_end_ = operation.getEndOffset() + operand(0);
      return;
    default:
      return give_up("its location is too complex");
    }
  }

  // The current piece cannot be read: others can, so that the evaluation goes on after it.
  void give_up(std::string problem) { failure_ = unreadable(std::move(problem)); }

  // Gives up the whole location: nothing of it can be read.
  void give_up_all(Location failure) {
    failure_ = std::move(failure);
    is_whole_failure_ = true;
  }
  void report_damage() { give_up_all(unreadable("its location is damaged")); }

  void push(Formula formula) {
    if (stack_.size() >= max_stack_depth) return give_up("its location is too complex");
    stack_.push_back(std::move(formula));
    last_ = true;
  }

  void push_register(std::uint64_t number, std::int64_t offset) {
    const auto dwarf = check_register(number);
    if (!dwarf) return;
    if (context_.at_entry && *dwarf == frame_pointer()) return give_up_all(not_set_up());
    entry_value_end_ = 0;
    push({.base = Formula::Base::machine_register, .machine_register = *dwarf, .addend = offset});
  }

  std::uint8_t frame_pointer() const {
    return context_.arch->unwind == nullptr ? no_register : context_.arch->unwind->frame_pointer;
  }

  // DW_OP_regN: the value is in the register. Inside DW_OP_entry_value: its value at the entry.
  void use_register(std::uint64_t number) {
    const auto dwarf = check_register(number);
    if (!dwarf) return;
    push({.base = Formula::Base::machine_register, .machine_register = *dwarf});
    if (entry_value_end_ == 0)
      is_value_ = true;
    else
      entry_value_end_ = 0;
  }

  std::optional<std::uint8_t> check_register(std::uint64_t number) {
    if (number < no_register) {
      const auto dwarf = static_cast<std::uint8_t>(number);
      if (context_.arch->find_dwarf_register(dwarf)) return dwarf;
      give_up(fmt::format("{}: not readable", context_.arch->dwarf_register_name(dwarf)));
    } else {
      give_up(fmt::format("register {}: not readable", number));
    }
    return std::nullopt;
  }

  void push_frame_base(std::int64_t offset) {
    if (!context_.frame_base) return give_up("its stack frame is not known here");
    const Location& base = *context_.frame_base;
    if (!base.is_readable()) return give_up_all(base);
    Formula formula = base.pieces.front().formula;
    formula.addend = add_wrapping(formula.addend, offset);
    push(std::move(formula));
  }

  static bool has_bits(const Formula& formula) {
    return formula.bit_offset != 0 || formula.bit_count != 0;
  }

  void add_to_top(std::int64_t number) {
    if (stack_.empty()) return report_damage();
    if (has_bits(stack_.back()) && number != 0) return give_up("its location is too complex");
    stack_.back().addend = add_wrapping(stack_.back().addend, number);
  }

  void add_top_two(bool negate) {
    if (stack_.size() < 2) return report_damage();
    Formula right = std::move(stack_.back());
    stack_.pop_back();
    Formula& left = stack_.back();
    if (has_bits(left) || has_bits(right)) return give_up("its location is too complex");
    if (is_constant(right)) {
      left.addend =
          add_wrapping(left.addend, negate ? negate_wrapping(right.addend) : right.addend);
    } else if (is_constant(left) && !negate) {
      right.addend = add_wrapping(right.addend, left.addend);
      left = std::move(right);
    } else {
      give_up("its location is too complex");
    }
  }

  static bool is_constant(const Formula& formula) {
    return formula.base == Formula::Base::zero && formula.loads.empty() && !has_bits(formula);
  }

  // Takes a constant from the stack, with another number below it.
  std::optional<std::uint64_t> pop_constant() {
    if (stack_.size() < 2) {
      report_damage();
      return std::nullopt;
    }
    const Formula constant = std::move(stack_.back());
    stack_.pop_back();
    if (is_constant(constant)) return static_cast<std::uint64_t>(constant.addend);
    give_up("its location is too complex");
    return std::nullopt;
  }

  void keep_low_bits(std::uint32_t count) {
    Formula& top = stack_.back();
    if (count >= 64 || (top.bit_count != 0 && top.bit_count <= count)) return;
    top.bit_count = static_cast<std::uint8_t>(count);
  }

  void mask() {
    const auto mask = pop_constant();
    if (!mask) return;
    if (*mask == 0 || !std::has_single_bit(*mask + 1)) // not low bits
      return *mask == ~std::uint64_t{0} ? void() : give_up("its location is too complex");
    keep_low_bits(static_cast<std::uint32_t>(std::popcount(*mask)));
  }

  void shift_right() {
    const auto distance = pop_constant();
    if (!distance) return;
    Formula& top = stack_.back();
    const std::uint64_t offset = top.bit_offset + *distance;
    if (*distance >= 64 || offset >= 64 || (top.bit_count != 0 && top.bit_count <= *distance))
      return give_up("its location is too complex");
    top.bit_offset = static_cast<std::uint8_t>(offset);
    if (top.bit_count != 0) top.bit_count -= static_cast<std::uint8_t>(*distance);
  }

  void convert(std::uint64_t type_offset) {
    if (stack_.empty()) return report_damage();
    const NumberType generic{.bits = 8U * context_.address_size};
    const auto type = type_offset == 0 ? std::optional(generic) : data_.read_type(type_offset);
    if (!type || type->bits == 0) return give_up("its location is too complex");
    // A signed number that becomes wider is sign-extended.
    if (narrow_signed_ && type->bits > stack_.back().bit_count)
      return give_up("its location is too complex");
    keep_low_bits(type->bits);
    narrow_signed_ = type->is_signed && type->bits < 64;
  }

  void load() {
    if (stack_.empty()) return report_damage();
    Formula& top = stack_.back();
    if (has_bits(top)) return give_up("its location is too complex");
    if (top.loads.size() >= max_loads) return give_up("its location is too complex");
    top.loads.push_back(top.addend);
    top.addend = 0;
  }

  void push_implicit(std::uint64_t size, std::uint64_t offset) {
    const auto bytes = slice(expression_, offset, size);
    if (!bytes || size > 8) return give_up("its location is too complex");
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes->size(); ++i)
      number |= std::to_integer<std::uint64_t>((*bytes)[i]) << 8 * i;
    push(number_formula(number));
    is_value_ = true;
  }

  Piece take_piece() {
    Piece piece;
    if (last_ && !stack_.empty()) {
      piece.kind = is_value_ ? Piece::Kind::value : Piece::Kind::memory;
      piece.formula = std::move(stack_.back());
      stack_.pop_back();
    }
    is_value_ = last_ = narrow_signed_ = false;
    return piece;
  }

  void end_piece(std::uint64_t size) {
    if (size == 0 || size > UINT32_MAX || result_.pieces.size() >= max_pieces)
      return give_up_all(unreadable("its location is too complex"));
    Piece piece = take_piece();
    if (!failure_.problem.empty()) {
      piece = {.problem = std::move(failure_.problem)};
      failure_ = {};
      stack_.clear();
      entry_value_end_ = 0;
    }
    piece.size = static_cast<std::uint32_t>(size);
    if (piece.formula.bit_count >= 8 * size) piece.formula.bit_count = 0; // the size says it
    result_.pieces.push_back(std::move(piece));
  }

  Location finish_pieces() {
    const Piece& first = result_.pieces.front();
    const bool all_missing = std::ranges::all_of(result_.pieces, [&](const Piece& piece) {
      return piece.kind == Piece::Kind::missing && piece.problem == first.problem;
    });
    if (!all_missing) return std::move(result_);
    return unreadable(first.problem.empty() ? optimized_out : first.problem);
  }

  Bytes expression_;
  const LocationContext& context_;
  const ExpressionData& data_;
  std::vector<Formula> stack_;
  bool last_ = false;                 // a number has been pushed for the current piece
  bool narrow_signed_ = false;        // the number was converted to a signed one
  bool is_value_ = false;             // the number is the value, not its address
  std::uint64_t entry_value_end_ = 0; // of the pending DW_OP_entry_value; 0: none
  Location result_;
  Location failure_;              // of the current piece, if it has a problem
  bool is_whole_failure_ = false; // failure_ is for all pieces
};

std::string offset_text(std::int64_t offset) {
  return offset == 0 ? std::string() : fmt::format("{:+}", offset);
}

std::string to_text(const Formula& formula, const ArchInfo& arch) {
  std::string text;
  std::vector<std::int64_t> offsets = formula.loads;
  offsets.push_back(formula.addend);
  switch (formula.base) {
  case Formula::Base::zero:
    text = std::to_string(offsets.front());
    break;
  case Formula::Base::image:
    text = fmt::format("vaddr:{:#x}", static_cast<std::uint64_t>(offsets.front()));
    break;
  case Formula::Base::machine_register:
    text = arch.dwarf_register_name(formula.machine_register) + offset_text(offsets.front());
    break;
  }
  for (std::size_t i = 1; i < offsets.size(); ++i)
    text = fmt::format("[{}]{}", text, offset_text(offsets[i]));
  if (formula.bit_offset != 0) text += fmt::format(">>{}", formula.bit_offset);
  if (formula.bit_count != 0)
    text += fmt::format("&{:#x}", (std::uint64_t{1} << formula.bit_count) - 1);
  return text;
}

std::string to_text(const Piece& piece, const ArchInfo& arch) {
  switch (piece.kind) {
  case Piece::Kind::missing:
    return piece.problem.empty() ? optimized_out : piece.problem;
  case Piece::Kind::value:
    return to_text(piece.formula, arch);
  case Piece::Kind::memory:
    break;
  }
  return fmt::format("[{}]", to_text(piece.formula, arch));
}

} // namespace

Location in_register(std::uint8_t dwarf_number) {
  return {.pieces = {{.kind = Piece::Kind::value,
                      .formula = {.base = Formula::Base::machine_register,
                                  .machine_register = dwarf_number}}}};
}

Location in_memory(Formula address) {
  return {.pieces = {{.kind = Piece::Kind::memory, .formula = std::move(address)}}};
}

Location unreadable(std::string problem) { return {.problem = std::move(problem)}; }

Location not_set_up() {
  return {.problem = "its stack frame is not set up at the function's entry",
          .reason = Location::Reason::not_set_up};
}

Location evaluate(Bytes expression, ByteOrder order, const LocationContext& context,
                  const ExpressionData& data) {
  return Evaluation(expression, context, data).run(order);
}

std::string to_string(const Location& location, const ArchInfo& arch) {
  if (!location.problem.empty()) return location.problem;
  std::string text;
  for (const Piece& piece : location.pieces) {
    if (!text.empty()) text += ", ";
    text += to_text(piece, arch);
    if (piece.size != 0 && location.pieces.size() > 1) text += fmt::format(":{}", piece.size);
  }
  return text;
}

} // namespace uprobectl::dwarf
