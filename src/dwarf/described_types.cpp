// SPDX-License-Identifier: Apache-2.0
#include "dwarf/described_types.hpp"

#include "dwarf/type_table.hpp"

namespace uprobectl::dwarf {

TypeDescription describe_type(const Type& type) {
  TypeDescription made{.kind = type.kind(),
                       .name = type.name(),
                       .plain_name = type.plain_name(),
                       .size = type.size(),
                       .bits = type.bits() == 8 * type.size() ? 0 : type.bits(),
                       .is_signed = type.is_signed(),
                       .is_byte_swapped = type.is_byte_swapped(),
                       .is_scoped_enumeration = type.is_scoped_enumeration(),
                       .is_declared = type.is_declared() && type.kind() == TypeKind::unknown,
                       .problem = std::string(type.problem()),
                       .target = type.target(),
                       .element_count = type.element_count(),
                       .dimensions = type.dimensions(),
                       .members = type.members(),
                       .enumerators = type.enumerators(),
                       .discriminant = type.discriminant(),
                       .virtual_bases = type.virtual_bases(),
                       .template_arguments = type.template_arguments()};
  if (type.dimensions() > 1) made.row = type.row(); // else it is the target
  if (const ArrayDescriptor* const descriptor = type.descriptor()) {
    made.descriptor = *descriptor;
    made.without_data = descriptor->without_data;
    made.descriptor->without_data = {};
  }
  return made;
}

void DescribedTypes::set(std::size_t index, TypeDescription description) {
  Type& type = types_[index];
  auto content = std::make_shared<Type::Content>();
  content->target = description.target;
  content->row = description.dimensions > 1 ? description.row : description.target;
  content->members = std::move(description.members);
  content->enumerators = std::move(description.enumerators);
  content->discriminant = std::move(description.discriminant);
  content->virtual_bases = std::move(description.virtual_bases);
  content->template_arguments = std::move(description.template_arguments);
  content->descriptor = std::move(description.descriptor);
  content->problem = std::move(description.problem);
  content->without_data = std::move(description.without_data);
  if (content->descriptor) content->descriptor->without_data = content->without_data;
  type.kind_ = description.kind;
  type.name_ = std::move(description.name);
  type.plain_name_ = std::move(description.plain_name);
  type.size_ = description.size;
  type.bits_ = description.bits;
  type.is_signed_ = description.is_signed;
  type.is_byte_swapped_ = description.is_byte_swapped;
  type.is_scoped_enumeration_ = description.is_scoped_enumeration;
  type.is_declared_ = description.is_declared;
  type.element_count_ = description.element_count;
  type.dimensions_ = description.dimensions;
  type.problem_ = content->problem;
  type.content_ = std::move(content);
}

} // namespace uprobectl::dwarf
