// SPDX-License-Identifier: Apache-2.0
#include "dwarf/functions.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/calling.hpp"
#include "dwarf/go_passing.hpp"
#include "dwarf/line_table.hpp"
#include "dwarf/type_table.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

constexpr std::size_t max_variables = 1000;
constexpr std::size_t max_results = 64; // of a function of Go
constexpr int max_block_depth = 64;
constexpr std::size_t max_scope_ranges = std::size_t{1} << 22; // of blocks and inlined functions

// Says by which rules a language passes its parameters.
enum class Passing : std::uint8_t {
  c,       // the platform's calling convention
  rust,    // LLVM's scalars: see rust_passing.hpp
  scalars, // the same for scalars only
  unknown,
};

Passing passing_of(const Die& function) {
  const auto language = language_of(function);
  if (!language) return Passing::c; // assembler units have no parameters
  switch (*language) {
  case DW_LANG_Go:
    return Passing::unknown;
  case DW_LANG_Rust:
    return Passing::rust;
  case DW_LANG_D:
  case DW_LANG_Zig:
  case DW_LANG_Swift:
    return Passing::scalars;
  default:
    return Passing::c;
  }
}

// Assemblers describe where functions are, but not their parameters and results.
bool is_assembly(const Die& function) {
  if (language_of(function) != std::uint64_t{DW_LANG_Mips_Assembler}) return false;
  for (const Die& child : function.children())
    if (child.getTag() == DW_TAG_formal_parameter) return false;
  return true;
}

constexpr std::array<std::uint64_t, 4> conventions_with_plain_result = {
    DW_CC_LLVM_Win64, DW_CC_LLVM_vectorcall, DW_CC_LLVM_X86RegCall, DW_CC_LLVM_PreserveNone};

// Rust returns structures of this size through memory.
bool is_large(const Type& type) { return type.is_aggregate() && type.size() > 16; }

// How the expression of a parameter's location reads it, of code that is not optimized.
enum class Slot : std::uint8_t {
  none,
  value,
  pointer, // in the slot or a register is the address of the value
};

Slot slot_of(Bytes expression) {
  if (expression.size() < 2) return Slot::none;
  const auto code = std::to_integer<std::uint8_t>(expression[0]);
  const bool is_based = code >= DW_OP_breg0 && code <= DW_OP_breg31;
  if (!is_based && code != DW_OP_fbreg) return Slot::none;
  std::uint64_t end = 1; // of the offset
  if (!take_sleb128(expression, end)) return Slot::none;
  if (end == expression.size()) {
    // Memory that an argument register points to, unless it is the stack pointer.
    return is_based && expression[1] == std::byte{0} ? Slot::pointer : Slot::value;
  }
  return end + 1 == expression.size() && expression[end] == std::byte{DW_OP_deref} ? Slot::pointer
                                                                                   : Slot::none;
}

// Reads one function.
class FunctionReader final : public ExpressionData {
public:
  FunctionReader(Context& context, const Die& function, const CodePoint& point, bool is_replaced)
      : context_(context), function_(function), point_(point),
        arch_(context.layout().machine.info()), passing_(passing_of(function)) {
    info_.is_replaced = is_replaced;
  }

  std::optional<FunctionInfo> read() {
    const auto entry =
        info_.is_replaced ? std::optional(point_.address.value)
                          : entry_address(context_, function_, address_ranges(context_, function_));
    if (!entry) return std::nullopt;
    info_.entry = {*entry};
    at_entry_ = point_.address.value == *entry;
    set_up_locations();

    const Die named = context_.with_attribute(function_, DW_AT_name);
    if (named) info_.name = context_.types().qualified_name(named);
    if (point_.with_declaration) read_declaration();
    info_.result = context_.types().type_of(function_);
    collect_parameters(function_, {});
    locate_by_convention();
    if (!go_results_.empty()) locate_go_results();
    if (!info_.is_replaced) collect_variables(function_, {}, 0);
    locate_lengths();
    if (point_.inlined_call) collect_probed_call(*point_.inlined_call);
    return std::move(info_);
  }

private:
  void read_declaration() {
    info_.linkage_name = context_.linkage_name(function_).value_or("");
    const Die with_line = context_.with_attribute(function_, DW_AT_decl_line);
    const auto line = with_line ? unsigned_constant(with_line, DW_AT_decl_line) : std::nullopt;
    info_.line = static_cast<std::uint32_t>(line.value_or(0));
    info_.file = referenced_file(context_, function_, DW_AT_decl_file);
  }

  void set_up_locations() {
    where_.arch = &arch_;
    where_.address_size = context_.layout().machine.is_64bit ? 8 : 4;
    where_.at_entry = at_entry_;
    where_.cfa = point_.cfa;
    if (at_entry_ && arch_.native != nullptr) // a call has pushed at most the return address
      where_.cfa = Formula{.base = Formula::Base::machine_register,
                           .machine_register = arch_.registers[arch_.native->stack_pointer].dwarf,
                           .addend = arch_.native->stack_arguments_offset};
  }

  // Most location lists do not refer to the frame base.
  void read_frame_base_for(Bytes expression) {
    if (has_read_frame_base_ ||
        std::ranges::find(expression, std::byte{DW_OP_fbreg}) == expression.end())
      return;
    has_read_frame_base_ = true;
    if (!function_.find(DW_AT_frame_base)) return;
    // DW_OP_regN as a frame base means the register's content (DWARF 5, 3.3.5).
    const Location base = locate(function_, DW_AT_frame_base);
    where_.frame_base = base;
    if (!at_entry_) return;
    // A frame base that is not the CFA is that of the frame which the first instructions make.
    LocationContext without_cfa = where_;
    without_cfa.cfa.reset();
    std::swap(where_, without_cfa);
    const bool is_register = locate(function_, DW_AT_frame_base).is_readable();
    std::swap(where_, without_cfa);
    if (is_register) where_.frame_base = not_set_up();
  }

  std::optional<std::uint64_t> read_address(std::uint64_t index) const override {
    if (index > UINT32_MAX) return std::nullopt;
    const auto address =
        function_.getDwarfUnit()->getAddrOffsetSectionItem(static_cast<std::uint32_t>(index));
    return address ? std::optional(address->Address) : std::nullopt;
  }

  std::optional<NumberType> read_type(std::uint64_t offset) const override {
    llvm::DWARFUnit* const unit = function_.getDwarfUnit();
    const auto at = checked_add(unit->getOffset(), offset);
    const Die die = at ? unit->getDIEForOffset(*at) : Die();
    if (!die || die.getTag() != DW_TAG_base_type) return std::nullopt;
    const auto size = unsigned_constant(die, DW_AT_byte_size);
    const auto encoding = unsigned_constant(die, DW_AT_encoding);
    if (!size || *size > 8 || encoding == DW_ATE_float) return std::nullopt;
    return NumberType{.bits = static_cast<std::uint32_t>(8 * *size),
                      .is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char};
  }

  // Locates by an expression, or by the entry of a location list that covers the point.
  Location locate(const Die& die, Attribute attribute) {
    const bool are_sound = context_.read_location_lists();
    auto locations = die.getLocations(attribute);
    if (!locations) {
      llvm::consumeError(locations.takeError());
      return unreadable("its location is damaged");
    }
    if (!are_sound && (locations->empty() || locations->front().Range))
      return unreadable("its location is damaged");
    const llvm::DWARFLocationExpression* const covering = find_covering(die, *locations);
    if (covering == nullptr) return unreadable(optimized_out);
    const Bytes expression = as_bytes_of(*covering);
    read_frame_base_for(expression);
    Location found = evaluate(expression, context_.layout().machine.order, where_, *this);
    // An expression is for the whole function: relative to the stack pointer, it is for the frame
    // that the first instructions make.
    if (at_entry_ && attribute == DW_AT_location && !covering->Range && locations->size() == 1) {
      LocationContext bare = where_;
      bare.cfa.reset();
      bare.frame_base.reset();
      const Location direct = evaluate(expression, context_.layout().machine.order, bare, *this);
      if (direct.is_readable() && (is_on_stack(direct) || is_beside_register(direct)))
        return not_set_up();
    }
    return found;
  }

  // A location view: several states of the source's variables at one address (DWARF extension of
  // gcc, DW_AT_GNU_locviews). Code is not in between, so registers are the same in all of them.
  struct View {
    std::uint64_t address = 0;
    std::uint64_t number = 0;
    auto operator<=>(const View&) const = default;
  };

  // The numbers of the views where ranges of a location list begin and end, in turn, for `count`
  // ranges. nullopt if they are not known.
  std::optional<std::vector<std::uint64_t>> read_views(const Die& die, std::size_t count) {
    std::vector<std::uint64_t> numbers(2 * count);
    const auto value = die.find(DW_AT_GNU_locviews);
    // gcc leaves them out if all are zero. clang does not know them.
    if (!value) return has_views_ ? std::optional(numbers) : std::nullopt;
    const auto offset = value->getAsSectionOffset();
    const llvm::DWARFUnit& unit = *die.getDwarfUnit();
    if (!offset || unit.isDWOUnit()) return std::nullopt;
    const llvm::DWARFObject& sections = context_.dwarf().getDWARFObj();
    constexpr std::uint16_t with_lists = 5; // the version since which .debug_loclists exists
    const llvm::StringRef data = unit.getVersion() >= with_lists
                                     ? sections.getLoclistsSection().Data
                                     : sections.getLocSection().Data;
    const Bytes bytes = std::as_bytes(std::span(data.data(), data.size()));
    std::uint64_t position = *offset;
    for (std::uint64_t& number : numbers) {
      const auto next = take_uleb128(bytes, position);
      if (!next) return std::nullopt;
      number = *next;
    }
    return numbers;
  }

  // Returns the location that is valid where the inlined call begins, in that view.
  const llvm::DWARFLocationExpression*
  find_at_call(const Die& die, std::span<const llvm::DWARFLocationExpression> locations) {
    const auto count = std::ranges::count_if(
        locations, [](const auto& location) { return location.Range.has_value(); });
    const auto views = read_views(die, static_cast<std::size_t>(count));
    const llvm::DWARFLocationExpression* fallback = nullptr; // an expression, or a list's default
    const View point{point_.address.value, *entry_view_};
    std::size_t number = 0;
    for (const llvm::DWARFLocationExpression& each : locations) {
      if (!each.Range) {
        if (fallback == nullptr) fallback = &each;
        continue;
      }
      // A range that begins at the point may be for a value that the first statements of the call
      // have made of the parameter.
      const View begin{each.Range->LowPC, views ? (*views)[number] : UINT64_MAX};
      const View end{each.Range->HighPC, views ? (*views)[number + 1] : 0};
      number += 2;
      if (begin <= point && point < end) return &each;
    }
    return fallback;
  }

  const llvm::DWARFLocationExpression*
  find_covering(const Die& die, std::span<const llvm::DWARFLocationExpression> locations) {
    if (entry_view_) return find_at_call(die, locations);
    const auto first = [&](auto is_wanted) {
      const auto found = std::ranges::find_if(locations, is_wanted);
      return found == locations.end() ? nullptr : &*found;
    };
    if (const auto* const exact =
            first([&](const auto& each) { return each.Range && covers_point(*each.Range); }))
      return exact;
    // An expression, or the default of a list.
    if (const auto* const whole = first([](const auto& each) { return !each.Range; })) return whole;
    // The padding changes nothing.
    const std::uint64_t begin = point_.address.value, end = begin + point_.padding;
    return first([&](const auto& each) {
      return at_entry_ && begin < each.Range->LowPC && each.Range->LowPC <= end &&
             end < each.Range->HighPC;
    });
  }

  // An empty range at the entry of the function is that of gcc's location views: the parameter as
  // the caller has passed it, before the statements of the first instruction.
  bool covers_point(const llvm::DWARFAddressRange& range) const {
    const std::uint64_t address = point_.address.value;
    if (range.LowPC == range.HighPC) return at_entry_ && range.LowPC == address;
    return range.LowPC <= address && address < range.HighPC;
  }

  static Bytes as_bytes_of(const llvm::DWARFLocationExpression& location) {
    return std::as_bytes(std::span(location.Expr.data(), location.Expr.size()));
  }

  bool is_on_stack(const Location& location) const {
    if (arch_.native == nullptr) return false;
    const std::uint8_t stack_pointer = arch_.registers[arch_.native->stack_pointer].dwarf;
    return std::ranges::any_of(location.pieces, [&](const Piece& piece) {
      return piece.formula.base == Formula::Base::machine_register &&
             piece.formula.machine_register == stack_pointer;
    });
  }

  // Whether the value is at a distance from what a register points to. Callers pass the address of
  // the value itself; gcc's address sanitizer moves parameters, and names a register of later code.
  static bool is_beside_register(const Location& location) {
    return std::ranges::any_of(location.pieces, [](const Piece& piece) {
      return piece.kind == Piece::Kind::memory && piece.formula.loads.empty() &&
             piece.formula.base == Formula::Base::machine_register && piece.formula.addend != 0;
    });
  }

  Location locate_variable(const Die& die) {
    if (info_.is_replaced) return not_set_up(); // it has no code
    if (die.find(DW_AT_location)) return locate(die, DW_AT_location);
    if (const Die with_value = context_.with_attribute(die, DW_AT_const_value))
      if (const auto number = constant(with_value, DW_AT_const_value))
        return {.pieces = {{.kind = Piece::Kind::value, .formula = {.addend = *number}}}};
    return unreadable(optimized_out);
  }

  // Compilers leave out the last pieces if the program does not have them. Go 1.19 writes the first
  // word of an interface twice. Other locations that are larger than the value are not believed.
  void fit_to_type(Location& location, const Type& type) const {
    std::uint64_t described = 0;
    for (const Piece& piece : location.pieces) {
      if (piece.size == 0) return;
      described += piece.size;
    }
    if (described == 0 || described == type.size() || type.kind() == TypeKind::unknown ||
        type.descriptor() != nullptr)
      return;
    if (described < type.size()) {
      if (type.size() - described > UINT32_MAX) return;
      location.pieces.push_back({.size = static_cast<std::uint32_t>(type.size() - described)});
      return;
    }
    const bool repeats = passing_ == Passing::unknown && location.pieces.size() > 1 &&
                         location.pieces[0] == location.pieces[1] &&
                         described - location.pieces[0].size == type.size();
    if (repeats)
      location.pieces.erase(location.pieces.begin());
    else
      location = unreadable("its location is larger than its type");
  }

  bool add_variable(const Die& die, const std::string& inlined_function,
                    const std::string& other_name = {}) {
    if (info_.variables.size() >= max_variables) {
      context_.warn(fmt::format("{} has more than {} variables", info_.name, max_variables));
      return false;
    }
    Variable variable;
    variable.name = context_.name(die).value_or(other_name);
    variable.type = context_.types().type_of(die);
    variable.location = locate_variable(die);
    slots_.push_back(passing_ == Passing::rust && at_entry_ ? slot_of(die) : Slot::none);
    fit_to_type(variable.location, *variable.type);
    variable.is_parameter = die.getTag() == DW_TAG_formal_parameter;
    const Die artificial = context_.with_attribute(die, DW_AT_artificial);
    variable.is_artificial = artificial && is_set(artificial, DW_AT_artificial);
    variable.inlined_function = inlined_function;
    variable.of_probed_call = in_probed_call_;
    numbers_.emplace(die.getOffset(), info_.variables.size());
    if (const Die string = counted_string(die))
      strings_.emplace_back(info_.variables.size(), string);
    info_.variables.push_back(std::move(variable));
    return true;
  }

  // The type of the variable if it is a string that has its length elsewhere; else none.
  Die counted_string(const Die& variable) {
    Die type = context_.with_attribute(variable, DW_AT_type);
    for (int depth = 0; type && depth < max_block_depth; ++depth) {
      type = context_.referenced(type, DW_AT_type);
      if (!type || (type.getTag() != DW_TAG_const_type && type.getTag() != DW_TAG_restrict_type &&
                    type.getTag() != DW_TAG_volatile_type && type.getTag() != DW_TAG_typedef))
        break;
    }
    const bool is_counted =
        type && type.getTag() == DW_TAG_string_type && type.find(DW_AT_string_length);
    return is_counted ? type : Die();
  }

  // The length of a string is a parameter of its own, or a location (DWARF 5, 5.11).
  void locate_lengths() {
    for (const auto& [number, type] : strings_) {
      Location& string = info_.variables[number].location;
      if (!string.is_readable()) continue;
      Location length;
      std::uint64_t size = where_.address_size;
      if (const Die holder = context_.referenced(type, DW_AT_string_length)) {
        const auto known = numbers_.find(holder.getOffset());
        length = known != numbers_.end() ? info_.variables[known->second].location
                                         : locate_variable(holder);
        size = context_.types().type_of(holder)->size();
      } else {
        length = locate(type, DW_AT_string_length);
        size = unsigned_constant(type, DW_AT_string_length_byte_size)
                   .value_or(unsigned_constant(type, DW_AT_byte_size).value_or(size));
      }
      if (!length.is_readable() || (size != 4 && size != 8)) {
        string = unreadable("its length is not known");
        continue;
      }
      string.length = std::make_shared<const Location>(std::move(length));
      string.length_size = static_cast<std::uint32_t>(size);
    }
  }

  // The parameters of a template's parameter pack. Those without names are numbered, as gcc does
  // where it names them ("values#0").
  bool collect_pack(const Die& pack, const std::string& inlined_function) {
    const auto name = context_.name(pack);
    std::size_t number = 0;
    for (const Die& child : pack.children()) {
      if (child.getTag() != DW_TAG_formal_parameter) continue;
      const std::string numbered = name ? fmt::format("{}#{}", *name, number) : std::string();
      if (!add_variable(child, inlined_function, numbered)) return false;
      ++number;
    }
    return true;
  }

  // Returns the entries in the order of the source: gcc gives the parameters of inlined functions
  // in another one.
  std::vector<Die> in_order(const Die& scope) const {
    std::vector<Die> children(scope.begin(), scope.end());
    if (scope.getTag() == DW_TAG_inlined_subroutine)
      std::ranges::sort(children, {}, [this](const Die& child) {
        const Die origin = context_.referenced(child, DW_AT_abstract_origin);
        return std::pair((origin ? origin : child).getOffset(), child.getOffset());
      });
    return children;
  }

  void collect_parameters(const Die& scope, const std::string& inlined_function) {
    for (const Die& child : in_order(scope)) {
      if (child.getTag() == DW_TAG_unspecified_parameters && inlined_function.empty())
        info_.is_variadic = true;
      if (child.getTag() == DW_TAG_GNU_formal_parameter_pack &&
          !collect_pack(child, inlined_function))
        return;
      if (child.getTag() != DW_TAG_formal_parameter) continue;
      // Go marks its results as variable parameters.
      if (is_set(child, DW_AT_variable_parameter)) {
        if (inlined_function.empty() && go_results_.size() < max_results) add_go_result(child);
        continue;
      }
      if (!add_variable(child, inlined_function)) return;
    }
  }

  // Results without a name are "~r0", "~r1", ….
  void add_go_result(const Die& die) {
    constexpr std::uint64_t alignment = 8; // of the tuple that is shown
    std::string_view name = context_.name(die).value_or("");
    if (name.starts_with('~')) name.remove_prefix(1);
    const std::uint64_t end =
        go_results_.empty() ? 0 : go_results_.back().offset + go_results_.back().type->size();
    go_results_.push_back({.name = std::string(name),
                           .type = context_.types().type_of(die),
                           .offset = (end + alignment - 1) / alignment * alignment});
  }

  std::string_view producer() {
    return context_.text(function_.getDwarfUnit()->getUnitDIE(), DW_AT_producer).value_or("");
  }

  // The compiler names the register ABI in DW_AT_producer: "Go cmd/compile go1.19.8; regabi".
  // Before Go 1.17 results were on the stack.
  void locate_go_results() {
    info_.has_unknown_result = !producer().contains("regabi");
    if (info_.has_unknown_result) return;
    info_.result = go_results_.size() == 1 ? go_results_.front().type
                                           : context_.types().make_tuple(function_, go_results_);
    info_.result_location = dwarf::locate_go_results(context_.layout().machine, go_results_);
  }

  bool covers_point(const Die& scope) {
    const llvm::DWARFAddressRangesVector ranges = address_ranges(context_, scope);
    if (ranges.size() > ranges_left_) {
      context_.warn(fmt::format("{} has too many ranges: not all variables are shown", info_.name));
      ranges_left_ = 0;
      return false;
    }
    ranges_left_ -= ranges.size();
    return std::ranges::any_of(ranges, [&](const llvm::DWARFAddressRange& range) {
      return range.LowPC <= point_.address.value && point_.address.value < range.HighPC;
    });
  }

  // Variables of the blocks and inlined functions that cover the point, the innermost last.
  void collect_variables(const Die& scope, const std::string& inlined_function, int depth) {
    if (at_entry_ || depth > max_block_depth) return; // nothing is in scope at the entry
    for (const Die& child : scope.children()) {
      switch (tag_of(child)) {
      case DW_TAG_variable:
        if (!add_variable(child, inlined_function)) return;
        break;
      case DW_TAG_lexical_block:
        if (covers_point(child)) collect_variables(child, inlined_function, depth + 1);
        break;
      case DW_TAG_inlined_subroutine:
        if (covers_point(child)) {
          const std::string name(context_.name(child).value_or("inlined function"));
          if (child.getOffset() != point_.inlined_call) collect_parameters(child, name);
          collect_variables(child, name, depth + 1);
        }
        break;
      default:
        break;
      }
    }
  }

  void collect_probed_call(std::uint64_t offset) {
    const Die call = function_.getDwarfUnit()->getDIEForOffset(offset);
    if (!call || call.getTag() != DW_TAG_inlined_subroutine) return;
    Die scope = call.getParent();
    while (scope && scope != function_) scope = scope.getParent();
    if (!scope) return;
    if (entry_address(context_, call, address_ranges(context_, call)) == point_.address.value)
      entry_view_ = unsigned_constant(call, DW_AT_GNU_entry_view).value_or(0);
    has_views_ = call.find(DW_AT_GNU_entry_view).has_value();
    in_probed_call_ = true;
    collect_parameters(call, std::string(context_.name(call).value_or("inlined function")));
    if (!entry_view_ || has_views_) return;
    for (Variable& variable : info_.variables)
      if (variable.of_probed_call && is_computed(variable.location))
        variable.location = unreadable("the compiler does not say what was passed");
  }

  // clang describes a parameter that the first statements change by its new value: "a += 2" before
  // any code is the register plus 2 from the start of the call.
  static bool is_computed(const Location& location) {
    return std::ranges::any_of(location.pieces, [](const Piece& piece) {
      return piece.kind == Piece::Kind::value &&
             (piece.formula.base == Formula::Base::zero || piece.formula.addend != 0);
    });
  }

  // Whether the location is in the function's stack frame, which is not written at the entry, or in
  // a register that the caller does not pass parameters in.
  bool is_set_up_later(const Location& location) const {
    if (!location.is_readable()) return location.reason == Location::Reason::not_set_up;
    if (arch_.native == nullptr) return false;
    const CallingConvention& convention = *arch_.native;
    return std::ranges::any_of(location.pieces, [&](const Piece& piece) {
      if (piece.formula.base != Formula::Base::machine_register) return false;
      const auto index = arch_.find_dwarf_register(piece.formula.machine_register);
      if (!index) return true;
      const bool in_stack = *index == convention.stack_pointer;
      if (in_stack) {
        const std::int64_t first =
            piece.formula.loads.empty() ? piece.formula.addend : piece.formula.loads.front();
        return first < convention.stack_arguments_offset + register_space();
      }
      // Go and other conventions pass parameters in further registers. Location lists cover the
      // first instruction.
      if (passing_ == Passing::unknown ||
          (has_other_convention() && used_convention() != DW_CC_nocall))
        return false;
      return std::ranges::find(convention.argument_registers, *index) ==
             convention.argument_registers.end();
    });
  }

  // How code that is not optimized keeps a parameter: as its location says or, where that is a
  // list, as its first entry says, which is after the first instructions.
  Slot slot_of(const Die& die) const {
    auto locations = die.getLocations(DW_AT_location);
    if (!locations) llvm::consumeError(locations.takeError());
    if (!locations || locations->empty()) return Slot::none;
    const llvm::DWARFLocationExpression& first = locations->front();
    if (!first.Range && first.Expr.size() > 0 && first.Expr[0] != DW_OP_fbreg) return Slot::none;
    const Slot slot = dwarf::slot_of(as_bytes_of(first));
    const bool is_stack =
        first.Expr.size() > 0 && arch_.native != nullptr &&
        first.Expr[0] == DW_OP_breg0 + arch_.registers[arch_.native->stack_pointer].dwarf;
    return is_stack && slot == Slot::pointer && first.Expr.size() == 2 ? Slot::value : slot;
  }

  // The compiler describes neither the closure of a function that uses what it has captured, nor
  // that the arguments of FnOnce::call_once, a tuple, are passed one by one.
  bool hides_parameters() const {
    const Die named = context_.with_attribute(function_, DW_AT_name);
    const std::string_view name =
        named ? context_.text(named, DW_AT_name).value_or("") : std::string_view();
    const auto& variables = info_.variables;
    if (name.starts_with('{'))
      return variables.empty() || !variables.front().type->name().contains("closure_env#");
    if (!name.starts_with("call")) return false;
    return std::ranges::any_of(
        variables, [](const Variable& each) { return each.type->plain_name().starts_with('('); });
  }

  // How a function of Rust takes the parameter; nullopt: not known. Only where its location shows
  // it is a type passed by a pointer: an `extern "C"` function has large ones on the stack.
  std::optional<Passed> passed_in_rust(const Variable& variable, Slot slot) const {
    if (!variable.type->is_scalar() && slot == Slot::pointer) return Passed{variable.type, true};
    auto scalars = scalars_in_rust(*variable.type);
    if (!scalars) return std::nullopt;
    return Passed{variable.type, false, std::move(scalars)};
  }

  // How the parameters are passed: without those from the first one on that is not known.
  std::vector<Passed> known_parameters() const {
    std::vector<Passed> passed;
    if (passing_ == Passing::rust && hides_parameters()) return passed;
    if (passing_ == Passing::scalars &&
        !std::ranges::all_of(info_.variables,
                             [](const Variable& each) { return each.type->is_scalar(); }))
      return passed;
    for (std::size_t i = 0; i < info_.variables.size(); ++i) {
      const Variable& variable = info_.variables[i];
      if (passing_ == Passing::rust) {
        auto known = passed_in_rust(variable, slots_[i]);
        if (!known) return passed;
        passed.push_back(std::move(*known));
        continue;
      }
      // A slot with a pointer to the value, which the location follows. The value's
      // address is in a frame that an address sanitizer has allocated.
      const auto& pieces = variable.location.pieces;
      const bool by_reference =
          passing_ == Passing::c && !pieces.empty() && is_set_up_later(variable.location) &&
          pieces.front().kind == Piece::Kind::memory && !pieces.front().formula.loads.empty() &&
          pieces.front().formula.addend == 0;
      if (!by_reference && !is_completely_known(*variable.type)) return passed;
      passed.push_back({variable.type, by_reference});
    }
    return passed;
  }

  // How the result is passed; nullopt if that is not known. With it not the locations of
  // the parameters either: its address may take the first register.
  std::optional<Passed> known_result() const {
    const Type& type = *info_.result;
    if (type.kind() == TypeKind::none) return Passed{&type};
    if (passing_ == Passing::rust) {
      if (auto scalars = scalars_in_rust(type)) return Passed{&type, false, std::move(scalars)};
      if (is_large(type)) return Passed{&type, true};
      return std::nullopt;
    }
    if (passing_ == Passing::scalars && !type.is_scalar()) return std::nullopt;
    if (!is_completely_known(type)) return std::nullopt;
    return Passed{&type};
  }

  std::optional<std::uint64_t> used_convention() const {
    const Die die = context_.with_attribute(function_, DW_AT_calling_convention);
    return die ? unsigned_constant(die, DW_AT_calling_convention) : std::nullopt;
  }

  // LLVM marks functions whose parameters it has changed with DW_CC_nocall.
  bool has_other_convention() const {
    const auto used = used_convention();
    return used && *used != DW_CC_normal && *used != DW_CC_program &&
           !is_like_platform(*used, context_.layout().machine);
  }

  // Bytes of the caller's stack where Windows' convention lets the function store its registers.
  std::int64_t register_space() const {
    constexpr std::int64_t four_registers = 32;
    const auto used = used_convention();
    return used == DW_CC_LLVM_Win64 || used == DW_CC_LLVM_vectorcall ? four_registers : 0;
  }

  // Whether another convention has a number in the register where the platform's has it.
  bool has_plain_result_register() const {
    const auto used = used_convention();
    const auto& known = conventions_with_plain_result;
    return used && std::ranges::find(known, *used) != known.end() && info_.result->is_scalar() &&
           info_.result->kind() != TypeKind::floating && info_.result->size() <= 8;
  }

  bool has_plain_result() const {
    return info_.result->kind() == TypeKind::none || info_.result->is_scalar();
  }

  // At -O0 a parameter's location is a slot of the stack frame, which the first instructions write:
  // at the entry it is where the calling convention has put it.
  void locate_by_convention() {
    const bool is_in_frame = std::ranges::any_of(
        info_.variables, [&](const Variable& each) { return is_set_up_later(each.location); });
    if (!point_.with_result && !at_entry_) return;
    const auto result = known_result();
    // Rust returns those that fit into a register in registers: their address takes none.
    const bool is_small = passing_ == Passing::rust && info_.result->size() - 1 < 8; // 1 to 8 bytes
    const std::vector<Passed> passed = known_parameters();
    const bool is_known = !has_other_convention() && passing_ != Passing::unknown;
    auto call = is_known && (result || is_small)
                    ? locate_call(context_.layout().machine, passed,
                                  result.value_or(Passed{info_.result, false, RustScalars{}}),
                                  compiler_of(producer()))
                    : std::nullopt;
    const bool is_another = call && is_contradicted(*call);
    if (is_another) call.reset();
    // The optimizer changes what functions of the same unit return; LLVM 14 does not say so.
    const bool may_change = passing_ == Passing::rust && !is_in_frame && !has_plain_result();
    if (point_.is_clone && !(point_.keeps_result && has_plain_result())) {
      info_.result_location = unreadable("the compiler has changed the function");
    } else if (call && result && !may_change) {
      info_.result_location = call->result;
      info_.result_address = call->result_address;
    } else if (has_plain_result_register() && arch_.native != nullptr) {
      info_.result_location = in_register(arch_.registers[arch_.native->return_register].dwarf);
    } else {
      info_.result_location = unreadable(passing_ == Passing::c && is_known && !is_another
                                             ? "its type is not known"
                                             : "the calling convention is not known");
    }
    if (!at_entry_) return;
    for (std::size_t i = 0; i < info_.variables.size(); ++i) {
      Location& location = info_.variables[i].location;
      const bool is_later = is_set_up_later(location) ||
                            (is_in_frame && passing_ == Passing::rust &&
                             location.problem == optimized_out && slots_[i] == Slot::pointer);
      // gcc names the registers that the first instructions move the halves of an __int128 to.
      const bool is_located = call && i < call->parameters.size();
      const auto& usual = is_located ? call->parameters[i] : location;
      const bool is_swapped = location.pieces != usual.pieces &&
                              std::ranges::is_permutation(location.pieces, usual.pieces);
      if (!is_later && !is_another && !is_swapped) continue;
      if (point_.is_clone)
        location = unreadable("the compiler has changed the function's parameters");
      else if (is_located)
        location = call->parameters[i];
      else
        location = unreadable(why_unknown(i, call.has_value(), call ? call->parameters.size() : 0));
    }
  }

  // Whether a parameter is in the caller's part of the stack that the convention has in registers:
  // gcc does not say that a function has another one (`ms_abi`), whose registers are stored there.
  bool is_contradicted(const CallLocations& call) const {
    if (!at_entry_ || point_.is_clone || passing_ != Passing::c) return false;
    const auto is_passed_on_stack = [&](const Location& location) {
      return location.pieces.size() == 1 && location.pieces[0].kind == Piece::Kind::memory &&
             location.pieces[0].formula.loads.empty() && is_on_stack(location);
    };
    for (std::size_t i = 0; i < call.parameters.size(); ++i) {
      const Variable& variable = info_.variables[i];
      if (variable.type->size() != 0 && is_passed_on_stack(variable.location) &&
          !is_set_up_later(variable.location) && !is_passed_on_stack(call.parameters[i]))
        return true;
    }
    return false;
  }

  // Why the location of a parameter at the entry is not known, if those of `known` ones are.
  std::string why_unknown(std::size_t index, bool is_known, std::size_t known) const {
    if (!is_known && passing_ != Passing::c)
      return "on the stack only after the function's first instructions";
    if (!is_known || (passing_ == Passing::rust && hides_parameters()))
      return "the calling convention is not known";
    if (index == known) return "how its type is passed is not known";
    const std::string& name = info_.variables[known].name;
    return fmt::format("how {} before it is passed is not known",
                       name.empty() ? "a parameter" : "'" + name + "'");
  }

  Context& context_;
  Die function_;
  const CodePoint& point_;
  const ArchInfo& arch_;
  const Passing passing_;
  std::vector<Slot> slots_;                          // of info_.variables, for Rust
  std::map<std::uint64_t, std::size_t> numbers_;     // of info_.variables, by the entry's offset
  std::vector<std::pair<std::size_t, Die>> strings_; // variables whose length is elsewhere
  std::vector<Member> go_results_;
  bool at_entry_ = false;
  bool in_probed_call_ = false; // while the parameters of a probed inlined call are read
  std::optional<std::uint64_t> entry_view_; // the location view of its entry, if that is the point
  bool has_views_ = false;                  // whether the compiler numbers them
  bool has_read_frame_base_ = false;
  std::size_t ranges_left_ = max_scope_ranges;
  LocationContext where_;
  FunctionInfo info_;
};

} // namespace

std::optional<FunctionInfo> describe_function(const DebugInfo& info, const CodePoint& point) {
  Context& context = info.context();
  const Die own = context.function_without_code(point.address, point.symbol);
  const Die function = own ? own : context.function_at(point.address);
  if (!function || is_assembly(function)) return std::nullopt;
  return FunctionReader(context, function, point, bool(own)).read();
}

std::string_view why_not_described(const DebugInfo& info, VirtualAddress address) {
  Context& context = info.context();
  if (context.unit_at(address) == nullptr) return "no debug information covers its code";
  return context.function_at(address) ? "its debug information is the assembler's, or damaged"
                                      : "the debug information of its unit does not describe it";
}

} // namespace uprobectl::dwarf
