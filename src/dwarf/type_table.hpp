// SPDX-License-Identifier: Apache-2.0
// Reads types from entries of the debug information. Only this module includes this header.
// described_types.hpp has types without such entries.
#pragma once

#include "dwarf/context.hpp"
#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

// Limits for damaged debug information; with a warning beyond them. The largest enumeration of the
// kernel has 3,000 members.
constexpr std::size_t max_types = 200000;
constexpr std::size_t max_members = 20000;
constexpr int max_type_depth = 64; // pointers to pointers, typedefs of typedefs
// Bytes of one name, and of all. Names of nested templates have some ten thousand bytes.
constexpr std::size_t max_type_name = std::size_t{64} << 10;
constexpr std::size_t max_type_names = std::size_t{256} << 20;

// Whether entries of this kind are part of qualified names: namespaces and types.
bool is_scope(std::uint16_t tag);

class TypeTable {
public:
  explicit TypeTable(Context& context);
  TypeTable(const TypeTable&) = delete;
  TypeTable& operator=(const TypeTable&) = delete;

  // Returns the type that DW_AT_type of the entry leads to; void if it has none.
  const Type* type_of(const Die& die);
  // Returns the type that the entry describes.
  const Type* get(const Die& die);
  Context& context() { return context_; }

  // Used by Type.
  void read_members(const Type& type);
  const Type* read_target(const Type& type);
  // Returns the definition of a declared type; the declared one if there is none.
  const Type& definition(const Type& declared);
  const Type* read_row(const Type& type);
  bool needs_code_to_copy(const Type& type);
  // Returns a structure without a name in the debug information: what a function returns that has
  // several results. Its entry identifies it.
  const Type* make_tuple(const Die& function, std::vector<Member> members);
  // The name with its namespaces and classes. The entry must have parents.
  std::string qualified_name(const Die& die);
  // Puts the name of a namespace or class before the qualified name of what it contains.
  void add_scope(const Die& scope, std::string& name);

private:
  using Key = std::pair<const llvm::DWARFUnit*, std::uint64_t>;

  // Returns "<int, 3>" for a template whose name lacks its arguments (clang's
  // -gsimple-template-names); empty for others.
  std::string missing_arguments(const Die& die, std::string_view name);
  void add_arguments(const Die& parent, std::string& text);
  std::string value_argument(const Die& parameter);

  std::unique_ptr<Type> read(const Die& die);
  void read_core(Type& type, const Die& die);
  void read_base_type(Type& type, const Die& die);
  void read_array(Type& type, const Die& die);
  void read_descriptor(Type& type, const Die& die);
  void read_string(Type& type, const Die& die);
  // Says what a class's copy constructor, move constructor or destructor means for copies of the
  // class.
  enum class Copying : std::uint8_t { not_said, is_trivial, is_deleted, needs_code };
  Copying copying_by(const Die& function, const Die& class_entry);
  bool is_copy_constructor(const Die& function, const Die& class_entry);
  bool declares_copying(const Die& class_entry);
  std::optional<Member> read_member(const Die& die);
  void read_variant_part(Type::Content& content, const Die& die);

  Context& context_;
  std::map<Key, std::unique_ptr<Type>> types_; // null while a type is read
  std::map<Key, std::unique_ptr<Type>> tuples_;
  // Rows of arrays, by the array's content and the row's dimensions.
  std::map<std::pair<const Type::Content*, std::size_t>, Type> rows_;
  Type nothing_;
  Type unknown_;
  Type character_; // of strings
  std::size_t name_bytes_ = 0;
  bool is_full_ = false; // a limit was reached
  int depth_ = 0;
};

struct Type::Content {
  TypeTable* table = nullptr; // null: all members of the type are here (DescribedTypes)
  Die die;
  bool has_members = false; // they have been read
  bool has_target = false;
  bool has_definition = false; // it has been searched
  const Type* definition = nullptr;
  const Type* target = nullptr;
  const Type* row = nullptr; // without a table
  std::optional<bool> needs_code_to_copy;
  std::vector<Member> members;
  std::vector<Enumerator> enumerators;
  std::optional<Member> discriminant;
  std::vector<VirtualBase> virtual_bases;
  std::optional<ArrayDescriptor> descriptor;
  std::vector<TemplateArgument> template_arguments;
  std::vector<std::uint64_t> dimensions; // of an array; 0 if unknown
  std::string problem;                   // without a table: what Type::problem() refers to
  std::string without_data;              // same, of ArrayDescriptor
};

} // namespace uprobectl::dwarf
