// SPDX-License-Identifier: Apache-2.0
#include "dwarf/calling.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <llvm/BinaryFormat/Dwarf.h>
#include <set>

namespace uprobectl::dwarf {

namespace {

constexpr std::uint64_t word = 8;       // bytes
constexpr int max_nesting = 16;         // of structures
constexpr std::size_t max_leaves = 256; // of a structure that may be passed in registers
constexpr std::size_t max_visits = 4096;

// A scalar or vector in a structure, or half of a complex number, at an offset from its start.
struct Leaf {
  const Type* type = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;    // bytes
  bool is_bit_field = false; // a byte of it, at any offset

  bool is_floating() const { return type->kind() == TypeKind::floating || type->is_complex(); }
};

// Bytes, of a type that is not an aggregate.
std::uint64_t scalar_alignment(const Type& type) {
  if (type.kind() == TypeKind::pointer) return word; // to a member function: two words
  return std::clamp<std::uint64_t>(type.size(), 1, 16);
}

// Whether all compilers pass a vector of this size in one vector register. They differ for vectors
// with one element, and pass those of 32 bytes so only with AVX.
bool is_usual_vector(const Type& type) {
  return type.is_vector() && type.element_count() > 1 &&
         (type.size() == word || type.size() == 2 * word);
}

// Whether it is an array without a size.
bool has_open_end(const Type& type) {
  const std::string name(type.plain_name());
  return name.find("[]", name.rfind('>') == std::string::npos ? 0 : name.rfind('>')) !=
         std::string::npos;
}

// The scalars of a type and its alignment.
class Layout {
public:
  explicit Layout(const Type& type) : type_(type), is_complete_(collect(type, 0, 0)) {}

  // False if there are too many scalars or a type is not known.
  bool is_complete() const { return is_complete_; }
  // A vector that compilers do not pass alike.
  bool has_other_vector() const { return has_other_vector_; }
  // An array without a size at the end of the structure.
  bool has_flexible_array() const { return has_flexible_array_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }

  // Bytes, without alignas of the type itself: the natural alignment (AAPCS64, 5.1 and 5.9.3).
  std::uint64_t natural_alignment() const {
    const std::uint64_t alignment = is_complete_ ? alignment_ : std::max(word, alignment_);
    // A packed structure is aligned less than its members: the alignment divides the size.
    return type_.is_aggregate() && type_.size() != 0
               ? std::min(alignment, type_.size() & (0 - type_.size()))
               : alignment;
  }
  // Bytes.
  std::uint64_t alignment() const {
    return type_.is_aggregate() ? std::max(natural_alignment(), type_.alignment())
                                : natural_alignment();
  }

private:
  bool collect(const Type& type, std::uint64_t offset, int depth) {
    if (depth > max_nesting || leaves_.size() > max_leaves || ++visits_ > max_visits) return false;
    if (depth > 0) alignment_ = std::max(alignment_, type.alignment());
    if (type.kind() == TypeKind::array) {
      const Type* const element = type.target();
      if (element == nullptr || type.element_count() > max_leaves) return false;
      has_flexible_array_ = has_flexible_array_ || has_open_end(type);
      for (std::uint64_t i = 0; i < type.element_count(); ++i)
        if (!collect(*element, offset + i * element->size(), depth + 1)) return false;
      return true;
    }
    if (type.is_aggregate())
      return std::ranges::all_of(type.members(), [&](const Member& member) {
        return collect_member(member, offset + member.offset, depth);
      });
    if (type.is_complex()) { // passed as a structure of two numbers
      const std::uint64_t half = type.size() / 2;
      alignment_ = std::max(alignment_, half);
      leaves_.push_back({&type, offset, half});
      leaves_.push_back({&type, offset + half, half});
      return half != 0;
    }
    has_other_vector_ = has_other_vector_ || (type.is_vector() && !is_usual_vector(type));
    if (!type.is_scalar() && !is_usual_vector(type)) return false;
    alignment_ = std::max(alignment_, scalar_alignment(type));
    leaves_.push_back({&type, offset, type.size()});
    return true;
  }

  bool collect_member(const Member& member, std::uint64_t offset, int depth) {
    alignment_ = std::max(alignment_, member.alignment);
    if (!member.bits) return collect(*member.type, offset, depth + 1);
    alignment_ = std::max(alignment_, scalar_alignment(*member.type));
    // A packed bit-field may reach into the next eightbyte.
    for (std::uint64_t i = 0; 8 * i < member.bits->offset + member.bits->size; ++i)
      leaves_.push_back({member.type, offset + i, 1, true});
    return true;
  }

  const Type& type_;
  std::vector<Leaf> leaves_;
  std::uint64_t alignment_ = 1;
  std::size_t visits_ = 0; // types and members: bounds the work
  bool has_other_vector_ = false;
  bool has_flexible_array_ = false;
  bool is_complete_ = false;
};

std::uint64_t round_up(std::uint64_t number, std::uint64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

bool is_passed_by_reference(const Type& type) {
  return type.is_aggregate() && type.is_passed_by_reference();
}

// Assigns registers and stack slots in the order of the parameters.
class Assigner {
public:
  Assigner(const ArchInfo& arch, std::string_view vector_prefix, const Compiler& compiler)
      : arch_(arch), convention_(*arch.native), vector_prefix_(vector_prefix), compiler_(compiler),
        stack_offset_(convention_.stack_arguments_offset) {}

  std::size_t free_registers() const { return convention_.argument_registers.size() - used_; }
  std::size_t free_vectors() const { return vector_count - used_vectors_; }

  std::uint8_t take_register() { return dwarf(convention_.argument_registers[used_++]); }
  std::string take_vector() { return vector_name(used_vectors_++); }
  std::string vector_name(std::size_t index) const {
    return fmt::format("{}{}", vector_prefix_, index);
  }
  void skip_registers() { used_ = convention_.argument_registers.size(); }
  void skip_vectors() { used_vectors_ = vector_count; }
  void align_registers() { used_ += used_ % 2; } // AAPCS64, C.10

  Location take_stack(std::uint64_t size, std::uint64_t alignment) {
    const auto base = static_cast<std::uint64_t>(convention_.stack_arguments_offset);
    stack_offset_ = base + round_up(stack_offset_ - base, std::max(word, alignment));
    Location location = in_memory(stack_pointer(stack_offset_));
    stack_offset_ += round_up(std::max<std::uint64_t>(size, 1), word);
    return location;
  }

  Formula stack_pointer(std::uint64_t offset) const {
    return {.base = Formula::Base::machine_register,
            .machine_register = dwarf(convention_.stack_pointer),
            .addend = static_cast<std::int64_t>(offset)};
  }

  // A value without any bytes: wherever it is, it can be read.
  Location nowhere() const { return in_memory(stack_pointer(0)); }

  std::uint8_t dwarf(std::uint32_t index) const { return arch_.registers[index].dwarf; }
  const CallingConvention& convention() const { return convention_; }
  const Compiler& compiler() const { return compiler_; }

private:
  static constexpr std::size_t vector_count = 8; // registers for arguments, on both architectures

  const ArchInfo& arch_;
  const CallingConvention& convention_;
  std::string_view vector_prefix_;
  const Compiler& compiler_;
  std::size_t used_ = 0;
  std::size_t used_vectors_ = 0;
  std::uint64_t stack_offset_; // from the stack pointer
};

std::string not_readable(std::string_view register_name) {
  return fmt::format("{}: not readable", register_name);
}

// A pointer to the value, in this location.
Location follow(Location pointer) {
  if (!pointer.is_readable()) return pointer;
  Piece& piece = pointer.pieces.front();
  if (piece.kind == Piece::Kind::memory) {
    piece.formula.loads.push_back(piece.formula.addend);
    piece.formula.addend = 0;
  }
  piece.kind = Piece::Kind::memory;
  return pointer;
}

Piece value_piece(std::uint8_t dwarf_number, std::uint32_t size) {
  Piece piece = in_register(dwarf_number).pieces.front();
  piece.size = size;
  return piece;
}

// The class of an eightbyte (System V AMD64 psABI, 3.2.3). x87_up: the second one of a long double.
// sse_up: that of a vector.
enum class Eightbyte : std::uint8_t { none, integer, sse, sse_up, x87, x87_up, memory };

// Returns the class of an eightbyte with values of two classes.
Eightbyte merge(Eightbyte a, Eightbyte b) {
  if (a == b || b == Eightbyte::none) return a;
  if (a == Eightbyte::none) return b;
  for (const Eightbyte stronger : {Eightbyte::memory, Eightbyte::integer})
    if (a == stronger || b == stronger) return stronger;
  for (const Eightbyte of_x87 : {Eightbyte::x87, Eightbyte::x87_up})
    if (a == of_x87 || b == of_x87) return Eightbyte::memory;
  return Eightbyte::sse;
}

bool is_long_double(const Type& type) {
  return type.kind() == TypeKind::floating && type.plain_name() == "long double";
}

bool is_quad(const Type& type) {
  return type.kind() == TypeKind::floating &&
         (type.plain_name() == "_Float128" || type.plain_name() == "__float128");
}

// Returns the class of the first or a further eightbyte of a scalar or vector.
Eightbyte class_of(const Leaf& leaf, bool is_first) {
  if (leaf.type->is_vector() || is_quad(*leaf.type))
    return is_first ? Eightbyte::sse : Eightbyte::sse_up;
  if (!leaf.is_floating()) return Eightbyte::integer;
  if (leaf.size <= word) return Eightbyte::sse;
  return is_first ? Eightbyte::x87 : Eightbyte::x87_up;
}

// Returns the classes of the eightbytes; nullopt for class MEMORY.
std::optional<std::vector<Eightbyte>> classify(const Type& type, const Compiler& compiler) {
  if (type.size() == 0) return std::vector<Eightbyte>();
  if (type.size() > 2 * word) return std::nullopt; // vectors of 32 bytes are not distinguished
  const Layout layout(type);
  if (!layout.is_complete() || (layout.has_flexible_array() && compiler.is_clang))
    return std::nullopt;
  std::vector<Eightbyte> classes(round_up(type.size(), word) / word, Eightbyte::none);
  for (const Leaf& leaf : layout.leaves()) {
    const std::uint64_t alignment =
        leaf.type->is_complex() ? leaf.size : scalar_alignment(*leaf.type);
    if (!leaf.is_bit_field && leaf.offset % alignment != 0) return std::nullopt; // packed
    for (std::uint64_t i = leaf.offset / word; i * word < leaf.offset + leaf.size; ++i) {
      if (i >= classes.size()) return std::nullopt;
      classes[i] = merge(classes[i], class_of(leaf, i * word <= leaf.offset));
    }
  }
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const bool follows_x87 = i > 0 && classes[i - 1] == Eightbyte::x87;
    const bool follows_sse = i > 0 && classes[i - 1] == Eightbyte::sse;
    if (classes[i] == Eightbyte::sse_up && !follows_sse) classes[i] = Eightbyte::sse;
    if (classes[i] == Eightbyte::memory || (classes[i] == Eightbyte::x87_up && !follows_x87))
      return std::nullopt;
  }
  return classes;
}

std::uint32_t eightbyte_size(const Type& type, std::size_t index) {
  return static_cast<std::uint32_t>(std::min(word, type.size() - index * word));
}

// Whether it is one value of two registers; clang passes _BitInt as a structure.
bool is_pair(const Type& type) {
  return type.is_scalar() && type.kind() != TypeKind::pointer && type.size() == 2 * word &&
         !type.plain_name().contains("_BitInt");
}

// nullopt: versions of the compiler differ.
std::optional<Location> amd64_parameter(Assigner& assign, const Type& type, bool by_reference) {
  if (by_reference)
    return follow(assign.free_registers() > 0 ? in_register(assign.take_register())
                                              : assign.take_stack(word, word));
  const auto classes = classify(type, assign.compiler());
  const std::uint64_t alignment = Layout(type).alignment();
  if (!classes || std::ranges::find(*classes, Eightbyte::x87) != classes->end())
    return assign.take_stack(type.size(), alignment);
  const bool is_empty =
      std::ranges::all_of(*classes, [](Eightbyte each) { return each == Eightbyte::none; });
  if (is_empty) return assign.nowhere();
  const auto needed = static_cast<std::size_t>(std::ranges::count(*classes, Eightbyte::integer));
  const auto vectors = static_cast<std::size_t>(std::ranges::count(*classes, Eightbyte::sse));
  if (needed > assign.free_registers() && assign.compiler().is_clang && is_pair(type)) {
    if (!assign.compiler().keeps_pairs) return std::nullopt;
    assign.skip_registers();
  }
  if (needed > assign.free_registers() || vectors > assign.free_vectors())
    return assign.take_stack(type.size(), alignment);
  Location location;
  std::string unread;
  for (std::size_t i = 0; i < classes->size(); ++i) {
    const std::uint32_t size = eightbyte_size(type, i);
    if ((*classes)[i] == Eightbyte::sse) {
      unread = not_readable(assign.take_vector());
      location.pieces.push_back({.size = size, .problem = unread});
    } else if ((*classes)[i] == Eightbyte::integer) {
      location.pieces.push_back(value_piece(assign.take_register(), size));
    } else {
      const bool goes_on = (*classes)[i] == Eightbyte::sse_up;
      location.pieces.push_back({.size = size, .problem = goes_on ? unread : std::string()});
    }
  }
  if (needed == 0) return unreadable(unread.empty() ? optimized_out : std::move(unread));
  return location;
}

void amd64_result(Assigner& assign, const Type& result, bool by_reference, CallLocations& call) {
  const CallingConvention& convention = assign.convention();
  const std::uint8_t first = assign.dwarf(convention.return_register);
  if (result.kind() == TypeKind::none) return;
  const auto classes = classify(result, assign.compiler());
  if (by_reference || is_passed_by_reference(result) || !classes) {
    call.result_in_memory = true;
    call.result_address = in_register(assign.take_register());
    call.result = follow(in_register(first)); // rax has the address again
    return;
  }
  if (result.is_complex() && result.plain_name() == "complex long double") {
    call.result = unreadable(not_readable("st0"));
    return;
  }
  if (!classes->empty() && classes->front() == Eightbyte::x87) {
    call.result = unreadable(not_readable("st0"));
    return;
  }
  const std::array registers = {first, assign.dwarf(convention.second_return_register)};
  std::size_t used = 0;
  std::size_t vectors = 0;
  for (std::size_t i = 0; i < classes->size(); ++i) {
    const std::uint32_t size = eightbyte_size(result, i);
    if ((*classes)[i] == Eightbyte::integer) {
      call.result.pieces.push_back(value_piece(registers[used++], size));
    } else {
      const bool is_vector = (*classes)[i] == Eightbyte::sse;
      call.result.pieces.push_back(
          {.size = size,
           .problem = is_vector ? not_readable(fmt::format("xmm{}", vectors++)) : std::string()});
    }
  }
  if (used == 0)
    call.result = vectors > 0 ? unreadable(not_readable("xmm0")) : unreadable(optimized_out);
}

// Returns the number of members of a homogeneous aggregate (AAPCS64, 5.9.5): one to four
// floating-point numbers or short vectors of one size without padding; those of a union share their
// bytes. 0 for other types.
std::size_t homogeneous_floats(const Type& type) {
  const Layout layout(type);
  if (!layout.is_complete() || layout.leaves().empty()) return 0;
  const std::uint64_t size = layout.leaves().front().size;
  const bool are_vectors = layout.leaves().front().type->is_vector();
  std::set<std::uint64_t> offsets;
  for (const Leaf& leaf : layout.leaves()) {
    const bool is_alike = are_vectors ? leaf.type->is_vector() : leaf.is_floating();
    if (!is_alike || leaf.is_bit_field || leaf.size != size) return 0;
    offsets.insert(leaf.offset);
  }
  return offsets.size() <= 4 && offsets.size() * size == type.size() ? offsets.size() : 0;
}

Location arm64_registers(Assigner& assign, const Type& type, std::uint64_t words) {
  Location location;
  for (std::size_t i = 0; i < words; ++i)
    location.pieces.push_back(value_piece(assign.take_register(), eightbyte_size(type, i)));
  return location;
}

// AAPCS64, 6.8.2, B.6 and C.14: an alignment above 16 has no effect.
Location arm64_stack(Assigner& assign, const Type& type) {
  return assign.take_stack(type.size(), std::min(Layout(type).natural_alignment(), 2 * word));
}

std::optional<Location> arm64_parameter(Assigner& assign, const Type& type, bool by_reference) {
  if (by_reference ||
      (type.is_aggregate() && type.size() > 2 * word && homogeneous_floats(type) == 0))
    return follow(assign.free_registers() > 0 ? in_register(assign.take_register())
                                              : assign.take_stack(word, word));
  if (const std::size_t floats = homogeneous_floats(type); floats > 0) {
    if (floats <= assign.free_vectors()) {
      std::string first = assign.take_vector();
      for (std::size_t i = 1; i < floats; ++i) assign.take_vector();
      return unreadable(not_readable(first));
    }
    assign.skip_vectors();
    return arm64_stack(assign, type);
  }
  if (type.size() == 0) return assign.nowhere();
  if (Layout(type).natural_alignment() >= 2 * word) assign.align_registers();
  const std::uint64_t words = round_up(type.size(), word) / word;
  if (words <= assign.free_registers()) return arm64_registers(assign, type, words);
  assign.skip_registers();
  return arm64_stack(assign, type);
}

void arm64_result(Assigner& assign, const Type& result, bool by_reference, CallLocations& call) {
  if (result.kind() == TypeKind::none) return;
  if (!by_reference && homogeneous_floats(result) > 0) {
    call.result = unreadable(not_readable("v0"));
    return;
  }
  if (by_reference || is_passed_by_reference(result) || result.size() > 2 * word) {
    constexpr std::uint8_t indirect_result = 8; // x8
    call.result_in_memory = true;
    call.result_address = in_register(indirect_result);
    call.result = unreadable("returned through memory");
    return;
  }
  const CallingConvention& convention = assign.convention();
  const std::array registers = {assign.dwarf(convention.return_register),
                                assign.dwarf(convention.second_return_register)};
  for (std::size_t i = 0; i * word < result.size(); ++i)
    call.result.pieces.push_back(value_piece(registers[i], eightbyte_size(result, i)));
  if (call.result.pieces.empty()) call.result = unreadable(optimized_out);
}

// Puts a piece after the others, after the padding between them.
void add_piece(Location& location, std::uint64_t& end, const RustScalar& scalar, Piece piece) {
  if (scalar.offset > end)
    location.pieces.push_back({.size = static_cast<std::uint32_t>(scalar.offset - end)});
  piece.size = static_cast<std::uint32_t>(scalar.size);
  location.pieces.push_back(std::move(piece));
  end = scalar.offset + scalar.size;
}

Location with_padding(Location location, std::uint64_t end, const Type& type) {
  if (type.size() > end)
    location.pieces.push_back({.size = static_cast<std::uint32_t>(type.size() - end)});
  const bool is_missing = std::ranges::all_of(
      location.pieces, [](const Piece& piece) { return piece.kind == Piece::Kind::missing; });
  return is_missing ? unreadable(location.pieces.front().problem) : location;
}

// nullopt: what does not fit into registers is not where all versions of LLVM agree.
std::optional<Location> rust_parameter(Assigner& assign, const Type& type,
                                       const RustScalars& scalars, bool aligns_pairs) {
  if (scalars.each.empty()) return assign.nowhere();
  const auto floats =
      static_cast<std::size_t>(std::ranges::count_if(scalars.each, &RustScalar::is_floating));
  if (scalars.are_together && scalars.each.size() - floats > assign.free_registers())
    return std::nullopt;
  Location location;
  std::uint64_t end = 0;
  for (const RustScalar& scalar : scalars.each) {
    const bool is_wide = scalar.size > word;
    if (is_wide && aligns_pairs) assign.align_registers();
    if (is_wide && assign.free_registers() < 2) return std::nullopt;
    if (is_wide) {
      add_piece(location, end, {scalar.offset, word},
                in_register(assign.take_register()).pieces[0]);
      add_piece(location, end, {scalar.offset + word, word},
                in_register(assign.take_register()).pieces[0]);
    } else if (scalar.is_floating && assign.free_vectors() > 0) {
      add_piece(location, end, scalar, {.problem = not_readable(assign.take_vector())});
    } else if (!scalar.is_floating && assign.free_registers() > 0) {
      add_piece(location, end, scalar, in_register(assign.take_register()).pieces[0]);
    } else {
      add_piece(location, end, scalar, assign.take_stack(scalar.size, word).pieces[0]);
    }
  }
  return with_padding(std::move(location), end, type);
}

void rust_result(Assigner& assign, const Type& type, const RustScalars& scalars,
                 CallLocations& call) {
  const CallingConvention& convention = assign.convention();
  const std::array registers = {assign.dwarf(convention.return_register),
                                assign.dwarf(convention.second_return_register)};
  std::size_t used = 0;
  std::size_t vectors = 0;
  std::uint64_t end = 0;
  if (scalars.each.empty()) call.result = assign.nowhere();
  if (scalars.each.empty()) return;
  for (const RustScalar& scalar : scalars.each) {
    for (std::uint64_t at = 0; at < scalar.size; at += word) {
      const RustScalar part{scalar.offset + at, std::min(word, scalar.size - at)};
      if (scalar.is_floating)
        add_piece(call.result, end, part, {.problem = not_readable(assign.vector_name(vectors++))});
      else
        add_piece(call.result, end, part, in_register(registers[used++]).pieces[0]);
    }
  }
  call.result = with_padding(std::move(call.result), end, type);
}

template <typename LocateResult, typename LocateParameter>
CallLocations locate(Assigner assign, std::span<const Passed> parameters, const Passed& result,
                     bool aligns_pairs, LocateResult locate_result,
                     LocateParameter locate_parameter) {
  CallLocations call;
  // First: the address of the result may take a register.
  if (result.scalars)
    rust_result(assign, *result.type, *result.scalars, call);
  else
    locate_result(assign, *result.type, result.by_reference, call);
  for (const Passed& each : parameters) {
    const bool by_reference = each.by_reference || is_passed_by_reference(*each.type);
    auto location = each.scalars ? rust_parameter(assign, *each.type, *each.scalars, aligns_pairs)
                                 : locate_parameter(assign, *each.type, by_reference);
    if (!location) break;
    call.parameters.push_back(std::move(*location));
  }
  return call;
}

} // namespace

bool is_like_platform(std::uint64_t convention, const elf::Machine& machine) {
  using namespace llvm::dwarf;
  return convention == DW_CC_LLVM_PreserveMost || convention == DW_CC_LLVM_PreserveAll ||
         (convention == DW_CC_LLVM_X86_64SysV && machine.arch == Arch::x86_64);
}

Compiler compiler_of(std::string_view producer) {
  constexpr std::string_view name = "clang version ";
  constexpr unsigned first_with_pairs = 18;
  const auto at = producer.find(name);
  if (at == std::string_view::npos) return {.is_clang = producer.contains("clang")};
  unsigned version = 0;
  const std::string_view rest = producer.substr(at + name.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), version);
  return {.is_clang = true, .keeps_pairs = version >= first_with_pairs};
}

bool is_completely_known(const Type& type) {
  if (type.kind() == TypeKind::array) return false; // arrays are passed as pointers
  if (is_passed_by_reference(type)) return true;
  const Layout layout(type);
  // Larger structures are in memory on both architectures, whatever their members are.
  if (type.is_aggregate() && type.size() > 4 * word && !layout.has_other_vector()) return true;
  if (type.is_aggregate() && type.size() == 0 && !layout.leaves().empty()) return false;
  return layout.is_complete() && std::ranges::all_of(layout.leaves(), [](const Leaf& leaf) {
           if (leaf.type->is_complex()) // not of __float128
             return leaf.size <= word || leaf.type->plain_name() == "complex long double";
           return leaf.type->kind() != TypeKind::floating || leaf.size <= word ||
                  is_long_double(*leaf.type) || is_quad(*leaf.type);
         });
}

std::optional<CallLocations> locate_call(const elf::Machine& machine,
                                         std::span<const Passed> parameters, const Passed& result,
                                         const Compiler& compiler) {
  if (!machine.is_64bit || machine.order != ByteOrder::little) return std::nullopt;
  const ArchInfo& arch = machine.info();
  if (machine.arch == Arch::x86_64)
    return locate(Assigner(arch, "xmm", compiler), parameters, result, false, amd64_result,
                  amd64_parameter);
  if (machine.arch == Arch::arm64)
    return locate(Assigner(arch, "v", compiler), parameters, result, true, arm64_result,
                  arm64_parameter);
  return std::nullopt;
}

} // namespace uprobectl::dwarf
