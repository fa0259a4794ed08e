// SPDX-License-Identifier: Apache-2.0
#include "dwarf/calling.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

constexpr std::uint64_t word = 8;       // bytes
constexpr int max_nesting = 16;         // of structures
constexpr std::size_t max_leaves = 256; // of a structure that may be passed in registers
constexpr std::size_t max_visits = 4096;

// A scalar member of a structure, at an offset from its start.
struct Leaf {
  const Type* type = nullptr;
  std::uint64_t offset = 0;
  bool is_bit_field = false; // a byte of it, at any offset
};

// Collects the scalar members. Returns false if there are too many or a type is not known.
// `visits`: counts types and members, to bound the work.
bool collect_leaves(const Type& type, std::uint64_t offset, int depth, std::vector<Leaf>& leaves,
                    std::size_t& visits) {
  if (depth > max_nesting || leaves.size() > max_leaves || ++visits > max_visits) return false;
  switch (type.kind()) {
  case TypeKind::structure:
  case TypeKind::variants:
    return std::ranges::all_of(type.members(), [&](const Member& member) {
      // A packed bit-field may reach into the next eightbyte.
      if (member.bits)
        for (std::uint64_t i = 0; 8 * i < member.bits->offset + member.bits->size; ++i)
          leaves.push_back({member.type, offset + member.offset + i, true});
      return member.bits ||
             collect_leaves(*member.type, offset + member.offset, depth + 1, leaves, visits);
    });
  case TypeKind::array: {
    const Type* const element = type.target();
    if (element == nullptr || type.element_count() > max_leaves) return false;
    for (std::uint64_t i = 0; i < type.element_count(); ++i)
      if (!collect_leaves(*element, offset + i * element->size(), depth + 1, leaves, visits))
        return false;
    return true;
  }
  case TypeKind::unknown:
  case TypeKind::none:
  case TypeKind::function:
    return false;
  case TypeKind::integer:
  case TypeKind::boolean:
  case TypeKind::character:
  case TypeKind::floating:
  case TypeKind::enumeration:
  case TypeKind::pointer:
  case TypeKind::reference:
    break;
  }
  leaves.push_back({&type, offset});
  return true;
}

bool collect_leaves(const Type& type, std::vector<Leaf>& leaves) {
  std::size_t visits = 0;
  return collect_leaves(type, 0, 0, leaves, visits);
}

bool is_aggregate(const Type& type) {
  return type.kind() == TypeKind::structure || type.kind() == TypeKind::variants ||
         type.kind() == TypeKind::array;
}

// The alignment of a type, bytes: that of its largest scalar. DW_AT_alignment (alignas) is rare and
// only matters above 16.
std::uint64_t alignment_of(const Type& type) {
  if (type.kind() == TypeKind::pointer) return word; // to a member function: two words
  if (!is_aggregate(type)) return std::clamp<std::uint64_t>(type.size(), 1, 16);
  std::vector<Leaf> leaves;
  if (!collect_leaves(type, leaves)) return word;
  std::uint64_t alignment = 1;
  for (const Leaf& leaf : leaves) alignment = std::max(alignment, alignment_of(*leaf.type));
  return alignment;
}

std::uint64_t round_up(std::uint64_t number, std::uint64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

bool is_passed_by_reference(const Type& type) {
  return is_aggregate(type) && type.is_passed_by_reference();
}

// Assigns registers and stack slots in the order of the parameters.
class Assigner {
public:
  Assigner(const ArchInfo& arch, std::string_view vector_prefix)
      : arch_(arch), convention_(*arch.native), vector_prefix_(vector_prefix),
        stack_offset_(convention_.stack_arguments_offset) {}

  std::size_t free_registers() const { return convention_.argument_registers.size() - used_; }
  std::size_t free_vectors() const { return vector_count - used_vectors_; }

  std::uint8_t take_register() { return dwarf(convention_.argument_registers[used_++]); }
  std::string take_vector() { return fmt::format("{}{}", vector_prefix_, used_vectors_++); }
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

  std::uint8_t dwarf(std::uint32_t index) const { return arch_.registers[index].dwarf; }
  const CallingConvention& convention() const { return convention_; }

private:
  static constexpr std::size_t vector_count = 8; // registers for arguments, on both architectures

  const ArchInfo& arch_;
  const CallingConvention& convention_;
  std::string_view vector_prefix_;
  std::size_t used_ = 0;
  std::size_t used_vectors_ = 0;
  std::uint64_t stack_offset_; // from the stack pointer
};

std::string not_readable(std::string_view register_name) {
  return fmt::format("{}: not readable", register_name);
}

// A pointer to the value, in this location.
Location behind(Location pointer) {
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

// The class of each eightbyte (System V AMD64 psABI, 3.2.3).
enum class Eightbyte : std::uint8_t { none, integer, sse };

// Returns the classes of the eightbytes; nullopt for class MEMORY.
std::optional<std::vector<Eightbyte>> classify(const Type& type) {
  if (type.size() == 0) return std::vector<Eightbyte>();
  if (type.size() > 2 * word) return std::nullopt; // vectors of 32 bytes are not distinguished
  std::vector<Leaf> leaves;
  if (!collect_leaves(type, leaves)) return std::nullopt;
  std::vector<Eightbyte> classes(round_up(type.size(), word) / word, Eightbyte::none);
  for (const Leaf& leaf : leaves) {
    const std::uint64_t size = leaf.is_bit_field ? 1 : leaf.type->size();
    const bool is_float = leaf.type->kind() == TypeKind::floating;
    if (is_float && size > word) return std::nullopt; // long double: class X87
    if (size > 0 && leaf.offset % std::min(size, word) != 0) return std::nullopt; // packed
    for (std::uint64_t i = leaf.offset / word; i * word < leaf.offset + size; ++i) {
      if (i >= classes.size()) return std::nullopt;
      if (!is_float)
        classes[i] = Eightbyte::integer;
      else if (classes[i] == Eightbyte::none)
        classes[i] = Eightbyte::sse;
    }
  }
  return classes;
}

std::uint32_t eightbyte_size(const Type& type, std::size_t index) {
  return static_cast<std::uint32_t>(std::min(word, type.size() - index * word));
}

Location amd64_parameter(Assigner& assign, const Type& type, bool by_reference) {
  if (by_reference)
    return behind(assign.free_registers() > 0 ? in_register(assign.take_register())
                                              : assign.take_stack(word, word));
  const auto classes = classify(type);
  if (!classes) return assign.take_stack(type.size(), alignment_of(type));
  if (classes->empty()) return unreadable(optimized_out); // an empty class in C
  const auto needed = static_cast<std::size_t>(std::ranges::count(*classes, Eightbyte::integer));
  const auto vectors = static_cast<std::size_t>(std::ranges::count(*classes, Eightbyte::sse));
  if (needed > assign.free_registers() || vectors > assign.free_vectors())
    return assign.take_stack(type.size(), alignment_of(type));
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
      location.pieces.push_back({.size = size});
    }
  }
  if (needed == 0) return unreadable(unread.empty() ? optimized_out : std::move(unread));
  return location;
}

void amd64_result(Assigner& assign, const Type& result, CallLocations& call) {
  const CallingConvention& convention = assign.convention();
  const std::uint8_t first = assign.dwarf(convention.return_register);
  if (result.kind() == TypeKind::none) return;
  if (result.kind() == TypeKind::floating && result.size() > word) {
    call.result = unreadable(not_readable("st0"));
    return;
  }
  const auto classes = classify(result);
  if (is_passed_by_reference(result) || !classes) {
    call.result_in_memory = true;
    call.result_address = in_register(assign.take_register());
    call.result = behind(in_register(first)); // rax has the address again
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

// The number of members of a homogeneous floating-point aggregate (AAPCS64, 5.9.5.1): one to four
// floating-point numbers of one size. 0 for other types.
std::size_t homogeneous_floats(const Type& type) {
  std::vector<Leaf> leaves;
  if (!collect_leaves(type, leaves) || leaves.empty() || leaves.size() > 4) return 0;
  const bool all_same = std::ranges::all_of(leaves, [&](const Leaf& leaf) {
    return leaf.type->kind() == TypeKind::floating &&
           leaf.type->size() == leaves.front().type->size();
  });
  return all_same ? leaves.size() : 0;
}

Location arm64_registers(Assigner& assign, const Type& type, std::uint64_t words) {
  Location location;
  for (std::size_t i = 0; i < words; ++i)
    location.pieces.push_back(value_piece(assign.take_register(), eightbyte_size(type, i)));
  return location;
}

Location arm64_parameter(Assigner& assign, const Type& type, bool by_reference) {
  if (by_reference ||
      (is_aggregate(type) && type.size() > 2 * word && homogeneous_floats(type) == 0))
    return behind(assign.free_registers() > 0 ? in_register(assign.take_register())
                                              : assign.take_stack(word, word));
  if (const std::size_t floats = homogeneous_floats(type); floats > 0) {
    if (floats <= assign.free_vectors()) {
      std::string first = assign.take_vector();
      for (std::size_t i = 1; i < floats; ++i) assign.take_vector();
      return unreadable(not_readable(first));
    }
    assign.skip_vectors();
    return assign.take_stack(type.size(), alignment_of(type));
  }
  if (type.size() == 0) return unreadable(optimized_out);
  if (alignment_of(type) == 2 * word) assign.align_registers();
  const std::uint64_t words = round_up(type.size(), word) / word;
  if (words <= assign.free_registers()) return arm64_registers(assign, type, words);
  assign.skip_registers();
  return assign.take_stack(type.size(), alignment_of(type));
}

void arm64_result(Assigner& assign, const Type& result, CallLocations& call) {
  if (result.kind() == TypeKind::none) return;
  if (homogeneous_floats(result) > 0) {
    call.result = unreadable(not_readable("v0"));
    return;
  }
  if (is_passed_by_reference(result) || result.size() > 2 * word) {
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

template <typename PlaceResult, typename PlaceParameter>
CallLocations locate(Assigner assign, std::span<const Passed> parameters, const Type& result,
                     PlaceResult place_result, PlaceParameter place_parameter) {
  CallLocations call;
  place_result(assign, result, call); // first: the address of the result may take a register
  for (const Passed& each : parameters)
    call.parameters.push_back(place_parameter(
        assign, *each.type, each.by_reference || is_passed_by_reference(*each.type)));
  return call;
}

} // namespace

bool is_completely_known(const Type& type) {
  std::vector<Leaf> leaves;
  if (type.kind() == TypeKind::array) return false; // a vector; others are passed as pointers
  if (is_aggregate(type) && type.size() == 0) return false;
  if (is_passed_by_reference(type)) return true;
  // Larger structures are in memory on both architectures, whatever their members are.
  if (is_aggregate(type) && type.size() > 4 * word) return true;
  if (!collect_leaves(type, leaves)) return false;
  return std::ranges::all_of(leaves, [&](const Leaf& leaf) {
    return leaf.type->kind() != TypeKind::floating || leaf.type->size() <= word ||
           (!is_aggregate(type) && leaf.type->name() == "long double");
  });
}

std::optional<CallLocations> locate_call(const elf::Machine& machine,
                                         std::span<const Passed> parameters, const Type& result) {
  if (!machine.is_64bit || machine.order != ByteOrder::little) return std::nullopt;
  const ArchInfo& arch = machine.info();
  if (machine.arch == Arch::x86_64)
    return locate(Assigner(arch, "xmm"), parameters, result, amd64_result, amd64_parameter);
  if (machine.arch == Arch::arm64)
    return locate(Assigner(arch, "v"), parameters, result, arm64_result, arm64_parameter);
  return std::nullopt;
}

} // namespace uprobectl::dwarf
