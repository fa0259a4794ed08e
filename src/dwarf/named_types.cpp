// SPDX-License-Identifier: Apache-2.0
#include "dwarf/named_types.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/entry_walk.hpp"
#include "dwarf/type_table.hpp"

#include <fmt/format.h>
#include <set>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

bool can_have_name(std::uint16_t tag) {
  switch (tag) {
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
  case DW_TAG_union_type:
  case DW_TAG_enumeration_type:
  case DW_TAG_typedef:
    return true;
  default:
    return false;
  }
}

} // namespace

std::vector<NamedType> list_named_types(const DebugInfo& debug) {
  Context& context = debug.context();
  std::vector<NamedType> types;
  if (context.info_size() > max_debug_info) return types;
  using Entries = std::vector<std::pair<llvm::DWARFUnit*, std::uint64_t>>; // by their offsets
  Entries found;
  Entries variables;
  EntryWalk walk(context, "types");
  walk.for_each_unit([&](llvm::DWARFUnit&, llvm::DWARFUnit& entries) {
    walk.for_each_entry(entries, [&](const Die& die, std::uint16_t tag, std::size_t depth) {
      if (tag == DW_TAG_variable && depth > 1 && variables.size() < max_named_types)
        variables.emplace_back(&entries, die.getOffset());
      if (!can_have_name(tag) || !die.find(DW_AT_name) || is_set(die, DW_AT_declaration))
        return true;
      if (found.size() == max_named_types) return false;
      found.emplace_back(&entries, die.getOffset());
      return true;
    });
    return found.size() < max_named_types;
  });
  if (found.size() == max_named_types)
    context.warn(fmt::format("only the first {} types are read", max_named_types));
  std::set<const Type*> variable_types;
  std::set<std::string_view> variable_names; // of structures with qualifiers
  for (const auto& [unit, offset] : variables) {
    const Type* type = context.types().type_of(unit->getDIEForOffset(offset));
    if (type->kind() == TypeKind::pointer && type->target() != nullptr) type = type->target();
    variable_types.insert(type);
    variable_names.insert(type->plain_name());
  }
  for (const auto& [unit, offset] : found) {
    const Die die = unit->getDIEForOffset(offset);
    if (!die) continue;
    NamedType& named = types.emplace_back();
    named.name = context.types().qualified_name(die);
    named.type = context.types().get(die);
    named.has_variable = variable_types.contains(named.type) || variable_names.contains(named.name);
  }
  return types;
}

} // namespace uprobectl::dwarf
