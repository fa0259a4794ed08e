// SPDX-License-Identifier: Apache-2.0
// Types as the debug information describes them (DWARF 5, chapter 5). A type is read when it is
// asked for, and its members when they are: a class of a large program leads to thousands of types.
#pragma once

#include "dwarf/dwarf.hpp"

#include <algorithm>

namespace uprobectl::dwarf {

enum class TypeKind : std::uint8_t {
  unknown, // not defined in this file, or not supported
  none,    // void
  integer,
  boolean,
  character,
  floating,
  enumeration,
  pointer,
  reference,
  array,
  structure, // struct or class
  variants,  // a union, or an enum of Rust
  function,
};

class Type;

// Bits of a bit-field, counted from the least significant bit of its first byte; if the bytes of
// its type are swapped, from the most significant one.
struct BitRange {
  std::uint32_t offset = 0; // 0 to 7
  std::uint32_t size = 0;
};

struct Member {
  std::string name;            // empty: an anonymous structure or union
  const Type* type = nullptr;  // never null
  std::uint64_t offset = 0;    // bytes from the start of the structure
  std::uint64_t alignment = 0; // bytes, by alignas of the member; 0: that of its type
  std::optional<BitRange> bits = {};
  bool is_base = false;               // a base class
  std::vector<std::string> tags = {}; // clang's __attribute__((btf_decl_tag("…")))
  // For a variant of a Rust enum: the values of the discriminant that select it; empty for the
  // variant that all other values select.
  std::vector<std::int64_t> selected_by = {};
};

struct Enumerator {
  std::string name;
  std::int64_t value = 0; // as in a variable of the enumeration: see Type::size and is_signed
};

struct TemplateArgument {
  const Type* type = nullptr; // of a value its type; never null
  std::optional<std::int64_t> value = {};
};

// A virtual base class. An object knows where it is: the object begins with the address of its
// vtable, which has the distance in front of it (Itanium C++ ABI, 2.5.2).
struct VirtualBase {
  const Type* type = nullptr; // never null
  std::size_t position = 0;   // how many of members() come before it in the source
  // The offset of the distance from the address of the vtable, bytes. nullopt: the debug
  // information describes the location in another way.
  std::optional<std::int64_t> vtable_offset = {};
};

// How an object with 64-bit words describes an array that is somewhere else, and whose size is
// known at run time only (Fortran). Offsets of words are in bytes from the object's start.
struct ArrayDescriptor {
  struct Dimension {
    // The number of elements: the word `added` - the word `subtracted`, if there is one, +
    // constant.
    std::uint64_t added = 0;
    std::optional<std::uint64_t> subtracted = {};
    std::int64_t constant = 0;
    // The words whose product is the distance between elements, bytes: one or two. Empty: the
    // elements are next to each other.
    std::vector<std::uint64_t> distance = {};
  };
  std::uint64_t data = 0; // of the address of the first element
  // At most two; the one whose elements are next to each other is the first.
  std::vector<Dimension> dimensions = {};
  // The text for an array whose address is null: "not allocated". Empty: the debug information does
  // not say what null means.
  std::string_view without_data = {};
};

// A type. Pointers to it stay valid as long as the DebugInfo.
//
// A type that its unit only declares is completed by the definition that another unit has. It is
// searched when anything but the name is asked for, the first time in all units, so that names of
// pointers cost nothing.
class Type {
public:
  TypeKind kind() const { return defined().kind_; }
  // A structure, union, enum of Rust or array.
  bool is_aggregate() const;
  // A number, boolean, character, enumeration, pointer or reference.
  bool is_scalar() const;
  // The name in the source, with the names of typedefs: "const shop::Item&", "size_t", "char[16]".
  const std::string& name() const { return name_; }
  // The name without typedefs and qualifiers: "shop::Item", "unsigned long".
  const std::string& plain_name() const { return plain_name_; }
  // Whether its unit only declares it. Does not search for the definition.
  bool is_declared() const { return is_declared_; }
  std::uint64_t size() const { return defined().size_; }  // bytes; 0 if unknown
  bool is_signed() const { return defined().is_signed_; } // of a number or an enumeration
  // The bits that count of a number: C's _BitInt may have fewer than its bytes. The rest are
  // undefined.
  std::uint64_t bits() const { return bits_ != 0 ? bits_ : 8 * size(); }
  // Whether the bytes of a number are in the opposite order to the machine's (DW_AT_endianity).
  bool is_byte_swapped() const { return is_byte_swapped_; }
  // Bytes, by alignas of a class or typedef; 0: that of its members.
  std::uint64_t alignment() const { return std::max(alignment_, defined().alignment_); }
  bool is_scoped_enumeration() const { return defined().is_scoped_enumeration_; } // enum class
  // Such types are of the kind unknown, because their values are not shown: they are passed in
  // vector registers.
  bool is_complex() const { return is_complex_; } // two floating-point numbers
  bool is_vector() const { return is_vector_; }   // of numbers (DW_AT_GNU_vector)

  // Returns the type that a pointer or reference points to, the elements of an array, the integer
  // type of an enumeration, or the result of a function. Null for other types.
  const Type* target() const;
  // Returns how many elements an array has in all dimensions together; 0 if unknown.
  std::uint64_t element_count() const { return element_count_; }
  // Returns how many dimensions an array has.
  std::size_t dimensions() const { return dimensions_; }
  // Returns the type that the first index of an array selects, which is an array if it has several
  // dimensions. Null for other types, and if the sizes of the dimensions are not known.
  const Type* row() const;
  std::uint64_t row_count() const; // 0 if unknown
  // Return the members of a structure or union and the enumerators of an enumeration, in the order
  // of the source.
  const std::vector<Member>& members() const;
  const std::vector<Enumerator>& enumerators() const;
  // The discriminant of a Rust enum, if it has one; members() are then its variants.
  const std::optional<Member>& discriminant() const;
  // Returns the virtual bases in the order of the source. They are not among members().
  const std::vector<VirtualBase>& virtual_bases() const;
  // Returns the descriptor of an array that has one; null for others. Such an array has no
  // element_count() and no size().
  const ArrayDescriptor* descriptor() const;
  // Says why values of a type of the kind unknown are not shown. Empty: the reason is not known.
  std::string_view problem() const { return problem_; }
  // The arguments of a template or generic type, without those of parameter packs. Templates as
  // arguments are left out.
  const std::vector<TemplateArgument>& template_arguments() const;

  // Whether C++ passes and returns the structure by a pointer to a copy, because copying it needs
  // code (Itanium C++ ABI, 3.1.2.3). LLVM writes this (DW_AT_calling_convention). GCC does not:
  // then it follows from constructors, destructor, virtual functions, bases and members.
  bool is_passed_by_reference() const;

private:
  friend class TypeTable;
  friend class DescribedTypes;
  struct Content; // what is read later
  // The definition of a type that is only declared here, if there is one; else the type itself.
  const Type& defined() const;
  // Reads the contents of the definition, with its members; null for types without any.
  const Content* read_content() const;
  TypeKind kind_ = TypeKind::unknown;
  std::string name_ = {};
  std::string plain_name_ = {};
  std::uint64_t size_ = 0;
  std::uint64_t element_count_ = 0;
  std::size_t dimensions_ = 0;
  std::uint64_t alignment_ = 0;
  std::uint64_t bits_ = 0; // 0: all of the bytes
  bool is_byte_swapped_ = false;
  bool is_declared_ = false;
  bool is_signed_ = false;
  bool is_scoped_enumeration_ = false;
  bool is_complex_ = false;
  bool is_vector_ = false;
  std::string_view problem_ = {};
  std::optional<bool> passed_by_reference_ = {};
  std::shared_ptr<Content> content_ = {};
};

} // namespace uprobectl::dwarf
