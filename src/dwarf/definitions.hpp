// SPDX-License-Identifier: Apache-2.0
// The definitions of types that a unit only declares. clang defines a class in the units that have
// its constructors or its virtual functions, gcc a class with virtual functions in that of the
// first one; other units declare it. The name leads from one to the other, as in gdb. Only this
// module includes this header.
#pragma once

#include "dwarf/entry_walk.hpp"

namespace uprobectl::dwarf {

// An index of all definitions of a file. It is made when the first type is looked up. An index in
// .debug_names limits the units that are read.
class TypeDefinitions {
public:
  explicit TypeDefinitions(Context& context);

  // Returns the entry that defines a declared structure, class, union or enumeration. Invalid if no
  // unit does or, with a warning, if several do in different ways.
  Die find(const Die& declaration);

private:
  // A definition, and what differs between definitions of one name.
  struct Definition {
    llvm::DWARFUnit* unit = nullptr; // with the entry
    std::uint64_t offset = 0;
    std::uint16_t tag = 0;
    std::uint64_t size = 0; // bytes
    std::uint64_t line = 0;
  };
  // An entry whose children are being read.
  struct Scope {
    std::size_t depth = 0;
    std::uint64_t name = 0;       // see Names; 0: what is inside has no name outside of it
    bool lacks_arguments = false; // the name, if it is that of a template
    std::uint64_t arguments = 0;
    std::optional<Definition> definition = {};
  };

  void read_units(std::string_view last_name);
  void read_unit(llvm::DWARFUnit& entries);
  void open_scope(const Die& die, std::uint16_t tag, std::size_t depth);
  void open_type(const Die& die, Scope& scope, std::uint64_t outer);
  void close_scopes(std::size_t depth);
  void add(std::uint64_t key, const Definition& definition);
  std::uint64_t key_of(const Die& declaration);
  std::uint64_t scope_of(const Die& die);
  std::uint64_t argument_of(const Die& parameter);
  Die choose(const Die& declaration, std::uint64_t key);
  bool is_same_layout(const Die& a, const Die& b);

  Context& context_;
  EntryWalk walk_;
  bool has_read_all_ = false;
  std::unordered_multimap<std::uint64_t, Definition> definitions_;
  // The scopes of the unit that is being read.
  std::vector<Scope> scopes_;
  std::unordered_map<std::uint64_t, std::uint64_t> declared_; // names, by the offset of entries
  // Definitions outside of their scopes, with the offsets of their declarations.
  std::vector<std::pair<std::uint64_t, Definition>> apart_;
};

} // namespace uprobectl::dwarf
