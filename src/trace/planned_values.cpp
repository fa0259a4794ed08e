// SPDX-License-Identifier: Apache-2.0
#include "trace/planned_values.hpp"

#include <algorithm>

namespace uprobectl::trace {

namespace {

using dwarf::Type;
using dwarf::TypeDescription;
using dwarf::TypeKind;

// Limits the types, members, enumerators and template arguments of one file.
constexpr std::size_t max_parts = 100000;
// Limits the parts of one type, which is parsed at once.
constexpr std::size_t max_type_parts = 8000;

std::size_t parts_of(const TypeDescription& type) {
  return 1 + type.members.size() + type.enumerators.size() + type.virtual_bases.size() +
         type.template_arguments.size();
}

// Visits all types to which the values refer. `visit`: (const Type*&) or (const Type*).
void for_each_type(auto& values, const auto& visit) {
  for (auto& each : values.function.variables) visit(each.type);
  visit(values.function.result);
  for (auto& each : values.globals) visit(each.variable.type);
}
void for_each_type(TypeDescription& type, const auto& visit) {
  if (type.target != nullptr) visit(type.target);
  if (type.row != nullptr) visit(type.row);
  for (dwarf::Member& each : type.members) visit(each.type);
  if (type.discriminant) visit(type.discriminant->type);
  for (dwarf::VirtualBase& each : type.virtual_bases) visit(each.type);
  for (dwarf::TemplateArgument& each : type.template_arguments) visit(each.type);
}

// Returns a description with the names and the size only.
TypeDescription left_out(const Type& type) {
  // The definition of a declared type is not searched for its size.
  return {.name = type.name(),
          .plain_name = type.plain_name(),
          .size = type.is_declared() ? 0 : type.size(),
          .is_declared = true,
          .problem = std::string(plans::left_out_of_plan)};
}

} // namespace

void PlannedTypes::add(const plans::PlannedValues& values) {
  for_each_type(values, [&](const Type* type) { add(*type, depth_); });
}

PlannedTypes::Entry& PlannedTypes::entry_of(const Type& type) {
  const auto [found, is_new] = entries_.try_emplace(&type, Entry{.index = types_.size()});
  if (is_new) types_.push_back(&type);
  return found->second;
}

void PlannedTypes::add(const Type& type, int left) {
  Entry& entry = entry_of(type);
  if (entry.left >= left) return;
  entry.left = left;
  waiting_[static_cast<std::size_t>(left)].push_back(&type);
}

// Adds the target of a pointer or reference, or the argument of a template.
void PlannedTypes::add_target(const Type& target, int left) {
  const bool is_complete = !target.is_declared() && target.is_scalar() &&
                           target.kind() != TypeKind::pointer &&
                           target.kind() != TypeKind::reference;
  if (left > 0)
    add(target, left - 1);
  else if (is_complete || target.kind() == TypeKind::none)
    add(target, 0);
  else
    entry_of(target);
}

void PlannedTypes::add_parts(const TypeDescription& type, int left) {
  if (type.target != nullptr) {
    if (type.kind == TypeKind::pointer || type.kind == TypeKind::reference)
      add_target(*type.target, left);
    else
      add(*type.target, left);
  }
  if (type.row != nullptr) add(*type.row, left);
  for (const dwarf::Member& each : type.members) add(*each.type, left);
  if (type.discriminant) add(*type.discriminant->type, left);
  for (const dwarf::VirtualBase& each : type.virtual_bases) add(*each.type, left);
  for (const dwarf::TemplateArgument& each : type.template_arguments)
    add_target(*each.type, each.type->size() <= 1 ? left + 1 : left); // tags such as std::ratio
}

std::shared_ptr<const dwarf::DescribedTypes> PlannedTypes::make() {
  std::vector<std::pair<const Type*, TypeDescription>> whole;
  std::size_t parts = 0;
  for (std::size_t left = waiting_.size(); left-- > 0;)
    for (std::size_t i = 0; i < waiting_[left].size(); ++i) {
      const Type* const type = waiting_[left][i];
      if (entries_.at(type).left != static_cast<int>(left)) continue;
      TypeDescription made = parts < max_parts ? describe_type(*type) : left_out(*type);
      if (parts_of(made) > max_type_parts) made = left_out(*type);
      if (made.kind == TypeKind::function) made.target = nullptr; // what it returns
      parts += parts_of(made);
      add_parts(made, static_cast<int>(left));
      whole.emplace_back(type, std::move(made));
    }
  auto types = std::make_shared<dwarf::DescribedTypes>(types_.size());
  for (std::size_t i = 0; i < types_.size(); ++i) types->set(i, left_out(*types_[i]));
  for (auto& [type, description] : whole) {
    for_each_type(description,
                  [&](const Type*& each) { each = &types->at(entries_.at(each).index); });
    types->set(entries_.at(type).index, std::move(description));
  }
  return types;
}

void PlannedTypes::move(plans::PlannedValues& values, const dwarf::DescribedTypes& types) const {
  for_each_type(values, [&](const Type*& type) { type = &types.at(entries_.at(type).index); });
}

} // namespace uprobectl::trace
