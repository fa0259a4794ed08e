// SPDX-License-Identifier: Apache-2.0
#include "dwarf/definitions.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/name_index.hpp"
#include "dwarf/type_table.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// Definitions of one name that differ in size or line, or whose template arguments look alike.
constexpr std::size_t max_candidates = 16;
constexpr int max_argument_steps = 8; // "T* const*": from a template argument to a name

// Names with their scopes are compared by their hashes, then by the texts of those that are found.
constexpr std::uint64_t name_of_unit = 1;

std::uint64_t combine(std::uint64_t hash, std::uint64_t other) {
  return (std::rotl(hash, 23) ^ other) * 0x9e3779b97f4a7c15;
}

std::uint64_t combine(std::uint64_t hash, std::string_view text) {
  return combine(hash, std::hash<std::string_view>()(text));
}

bool is_type(std::uint16_t tag) {
  switch (tag) {
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
  case DW_TAG_interface_type:
  case DW_TAG_union_type:
  case DW_TAG_enumeration_type:
    return true;
  default:
    return false;
  }
}

// A class may be declared as a structure.
std::uint16_t category(std::uint16_t tag) {
  return tag == DW_TAG_class_type || tag == DW_TAG_interface_type
             ? static_cast<std::uint16_t>(DW_TAG_structure_type)
             : tag;
}

bool is_unit(std::uint16_t tag) {
  return tag == DW_TAG_compile_unit || tag == DW_TAG_partial_unit || tag == DW_TAG_type_unit;
}

bool is_argument(std::uint16_t tag) {
  return tag == DW_TAG_template_type_parameter || tag == DW_TAG_template_value_parameter ||
         tag == DW_TAG_GNU_template_template_param;
}

std::uint64_t with_arguments(std::uint64_t name, std::uint64_t arguments) {
  return arguments == 0 ? name : combine(name, arguments);
}

} // namespace

TypeDefinitions::TypeDefinitions(Context& context) : context_(context), walk_(context, "types") {
  walk_.include_type_units();
}

Die TypeDefinitions::find(const Die& declaration) {
  const std::uint64_t key = key_of(declaration);
  if (key == 0) return {};
  if (!has_read_all_) read_units(context_.text(declaration, DW_AT_name).value_or(""));
  return choose(declaration, key);
}

// Reads the units that .debug_names has for the name; without this index, all of them.
void TypeDefinitions::read_units(std::string_view last_name) {
  constexpr std::uint16_t tags[] = {DW_TAG_structure_type, DW_TAG_class_type, DW_TAG_union_type,
                                    DW_TAG_enumeration_type};
  auto units =
      units_with_names(context_, [&](std::string_view each) { return each == last_name; }, tags);
  has_read_all_ = !units;
  walk_.keep_only(std::move(units));
  walk_.for_each_unit([&](llvm::DWARFUnit&, llvm::DWARFUnit& entries) {
    read_unit(entries);
    return true;
  });
}

void TypeDefinitions::read_unit(llvm::DWARFUnit& entries) {
  scopes_.clear();
  declared_.clear();
  apart_.clear();
  walk_.for_each_entry(entries, [&](const Die& die, std::uint16_t tag, std::size_t depth) {
    close_scopes(depth);
    if (is_argument(tag)) {
      Scope* const scope = scopes_.empty() ? nullptr : &scopes_.back();
      if (scope != nullptr && scope->lacks_arguments && scope->depth + 2 >= depth)
        scope->arguments = combine(scope->arguments + 1, argument_of(die));
    } else if (is_type(tag) || (die.hasChildren() && tag != DW_TAG_GNU_template_parameter_pack)) {
      open_scope(die, tag, depth);
    }
    return true;
  });
  close_scopes(0);
  for (const auto& [declaration, definition] : apart_)
    if (const auto found = declared_.find(declaration); found != declared_.end())
      add(found->second, definition);
}

void TypeDefinitions::open_scope(const Die& die, std::uint16_t tag, std::size_t depth) {
  Scope& scope = scopes_.emplace_back(Scope{.depth = depth});
  if (is_unit(tag)) {
    scope.name = name_of_unit;
    return;
  }
  const std::uint64_t outer = scopes_.size() > 1 ? scopes_[scopes_.size() - 2].name : 0;
  if (outer == 0) return;
  if (is_type(tag)) return open_type(die, scope, outer);
  if (tag != DW_TAG_namespace && tag != DW_TAG_module) return;
  const auto name = context_.text(die, DW_AT_name);
  // The contents of an anonymous namespace belong to the unit.
  scope.name = name ? combine(outer, *name)
                    : combine(outer, reinterpret_cast<std::uintptr_t>(die.getDwarfUnit()));
}

void TypeDefinitions::open_type(const Die& die, Scope& scope, std::uint64_t outer) {
  const std::uint64_t offset = die.getOffset();
  const auto name = context_.text(die, DW_AT_name);
  if (name && walk_.take_name(*name)) scope.name = combine(outer, *name);
  if (die.find(DW_AT_declaration)) {
    if (scope.name != 0) declared_.emplace(offset, scope.name);
    return;
  }
  const Definition definition{.unit = die.getDwarfUnit(),
                              .offset = offset,
                              .tag = category(tag_of(die)),
                              .size = unsigned_constant(die, DW_AT_byte_size).value_or(0),
                              .line = unsigned_constant(die, DW_AT_decl_line).value_or(0)};
  // "struct a::b { … }", and the types in type units of gcc.
  if (const auto declaration = die.find(DW_AT_specification)) {
    if (const auto at = declaration->getAsRelativeReference())
      apart_.emplace_back(die.getDwarfUnit()->getOffset() + *at, definition);
  } else if (scope.name != 0) {
    scope.definition = definition;
    scope.lacks_arguments = !name->contains('<');
  }
}

void TypeDefinitions::close_scopes(std::size_t depth) {
  while (!scopes_.empty() && scopes_.back().depth >= depth) {
    const Scope& scope = scopes_.back();
    if (scope.definition) add(with_arguments(scope.name, scope.arguments), *scope.definition);
    scopes_.pop_back();
  }
}

void TypeDefinitions::add(std::uint64_t key, const Definition& definition) {
  std::size_t known = 0;
  const auto [begin, end] = definitions_.equal_range(key);
  for (auto each = begin; each != end; ++each) {
    const Definition& other = each->second;
    if (++known >= max_candidates) return;
    if (other.size == definition.size && other.line == definition.line &&
        other.tag == definition.tag)
      return;
  }
  definitions_.emplace(key, definition);
}

// Returns a hash of a template argument. References are to entries of the same unit, or of a type
// unit, whose name is not read.
std::uint64_t TypeDefinitions::argument_of(const Die& parameter) {
  if (const auto name = context_.text(parameter, DW_AT_GNU_template_name)) return combine(2, *name);
  if (const auto value = constant(parameter, DW_AT_const_value))
    return combine(3, static_cast<std::uint64_t>(*value));
  llvm::DWARFUnit& unit = *parameter.getDwarfUnit();
  const llvm::DWARFDataExtractor data = unit.getDebugInfoExtractor();
  std::uint64_t hash = 4;
  llvm::DWARFDebugInfoEntry entry = *parameter.getDebugInfoEntry();
  for (int i = 0; i < max_argument_steps; ++i) {
    const auto reference = Die(&unit, &entry).find(DW_AT_type);
    const auto offset = reference ? reference->getAsRelativeReference() : std::nullopt;
    std::uint64_t at = unit.getOffset() + offset.value_or(0);
    if (!offset || at < unit.getOffset() || at >= unit.getNextUnitOffset() ||
        !entry.extractFast(unit, &at, data, unit.getNextUnitOffset(), 0) ||
        entry.getAbbreviationDeclarationPtr() == nullptr)
      return hash;
    const Die type(&unit, &entry);
    const std::uint16_t tag = tag_of(type);
    if (tag == DW_TAG_typedef) continue;
    if (const auto name = context_.text(type, DW_AT_name)) return combine(hash, *name);
    hash = combine(hash, tag);
  }
  return hash;
}

// Returns the key of a declaration, whose unit has been read as a whole. 0: the type is declared in
// a function, or has no name.
std::uint64_t TypeDefinitions::key_of(const Die& declaration) {
  const auto name = context_.text(declaration, DW_AT_name);
  const std::uint64_t outer = name ? scope_of(declaration.getParent()) : 0;
  if (outer == 0) return 0;
  std::uint64_t arguments = 0;
  const auto add_argument = [&](const Die& child) {
    if (is_argument(tag_of(child))) arguments = combine(arguments + 1, argument_of(child));
  };
  for (const Die& child : declaration.children()) {
    add_argument(child);
    if (child.getTag() == DW_TAG_GNU_template_parameter_pack)
      for (const Die& packed : child.children()) add_argument(packed);
  }
  return with_arguments(combine(outer, *name), name->contains('<') ? 0 : arguments);
}

std::uint64_t TypeDefinitions::scope_of(const Die& die) {
  std::vector<Die> scopes;
  Die scope = die;
  for (; scope && !is_unit(tag_of(scope)); scope = scope.getParent()) {
    if (!is_scope(tag_of(scope)) || scopes.size() >= max_type_depth) return 0;
    scopes.push_back(scope);
  }
  std::uint64_t name = name_of_unit;
  while (!scopes.empty()) {
    const auto own = context_.text(scopes.back(), DW_AT_name);
    if (!own && is_type(tag_of(scopes.back()))) return 0;
    name = own ? combine(name, *own)
               : combine(name, reinterpret_cast<std::uintptr_t>(die.getDwarfUnit()));
    scopes.pop_back();
  }
  return name;
}

// Units of C may have different structures with one name. In C++ they must not, but do.
Die TypeDefinitions::choose(const Die& declaration, std::uint64_t key) {
  const std::string name = context_.types().qualified_name(declaration);
  const auto [begin, end] = definitions_.equal_range(key);
  Die chosen;
  for (auto each = begin; each != end; ++each) {
    const Definition& definition = each->second;
    if (definition.tag != category(tag_of(declaration))) continue;
    const Die die = definition.unit->getDIEForOffset(definition.offset);
    if (!die || context_.types().qualified_name(die) != name) continue;
    if (definition.unit == declaration.getDwarfUnit()) return die;
    if (chosen && !is_same_layout(chosen, die)) {
      context_.warn(fmt::format("{} is not the same in all units that define it, and is not shown "
                                "where it is only declared",
                                name));
      return {};
    }
    if (!chosen) chosen = die;
  }
  return chosen;
}

bool TypeDefinitions::is_same_layout(const Die& a, const Die& b) {
  const auto members = [&](const Die& die) {
    std::vector<std::pair<std::string_view, std::int64_t>> found;
    for (const Die& child : die.children()) {
      const std::uint16_t tag = tag_of(child);
      const std::string_view name = context_.text(child, DW_AT_name).value_or("");
      const bool is_pointer_to_table = name.starts_with("_vptr"); // compilers spell it in two ways
      if (tag == DW_TAG_enumerator)
        found.emplace_back(name, constant(child, DW_AT_const_value).value_or(0));
      if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) && !is_pointer_to_table &&
          !is_set(child, DW_AT_external) && !is_set(child, DW_AT_declaration))
        found.emplace_back(name, constant(child, DW_AT_data_member_location).value_or(0));
      if (found.size() >= max_members) break;
    }
    return found;
  };
  return unsigned_constant(a, DW_AT_byte_size) == unsigned_constant(b, DW_AT_byte_size) &&
         members(a) == members(b);
}

} // namespace uprobectl::dwarf
