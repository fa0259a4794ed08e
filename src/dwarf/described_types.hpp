// SPDX-License-Identifier: Apache-2.0
// Types without debug information: what it tells about a type as a value, and types that are made
// of such values, as those of a plan are.
#pragma once

#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

// All of a type but how it is passed to functions. The members are those of Type.
struct TypeDescription {
  TypeKind kind = TypeKind::unknown;
  std::string name = {};
  std::string plain_name = {};
  std::uint64_t size = 0; // bytes
  std::uint64_t bits = 0; // of a number that has fewer bits than its bytes; else 0
  bool is_signed = false;
  bool is_byte_swapped = false;
  bool is_scoped_enumeration = false;
  // Set if nothing but the names is known.
  bool is_declared = false;
  std::string problem = {};
  const Type* target = nullptr;
  std::uint64_t element_count = 0;
  std::size_t dimensions = 0;
  const Type* row = nullptr;
  std::vector<Member> members = {};
  std::vector<Enumerator> enumerators = {};
  std::optional<Member> discriminant = {};
  std::vector<VirtualBase> virtual_bases = {};
  std::optional<ArrayDescriptor> descriptor = {}; // whose without_data is the next member
  std::string without_data = {};
  std::vector<TemplateArgument> template_arguments = {};
};

// Reads all of the type. Its definition is searched if it is only declared.
TypeDescription describe_type(const Type& type);

// A fixed number of types. Those that were not set are of the kind unknown.
class DescribedTypes {
public:
  explicit DescribedTypes(std::size_t size) : types_(size) {}
  DescribedTypes(const DescribedTypes&) = delete;
  DescribedTypes& operator=(const DescribedTypes&) = delete;

  std::size_t size() const { return types_.size(); }
  const Type& at(std::size_t index) const { return types_[index]; }
  // The inverse of at(). Requires a type of this object.
  std::size_t index_of(const Type& type) const {
    return static_cast<std::size_t>(&type - types_.data());
  }
  // Types in the description are of this object. Pointers, references and arrays have a target.
  void set(std::size_t index, TypeDescription description);

private:
  std::vector<Type> types_;
};

} // namespace uprobectl::dwarf
