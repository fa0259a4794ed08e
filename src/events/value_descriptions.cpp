// SPDX-License-Identifier: Apache-2.0
// What is known of the values of a plan before they are read.
#include "events/library_types.hpp"
#include "events/path_resolver.hpp"
#include "events/presentation.hpp"
#include "events/readings.hpp"
#include "events/value_plan.hpp"

#include <fmt/format.h>

namespace uprobectl::events {

namespace {

using dwarf::TypeKind;

// Whether the text or number of a declared type is shown as something that has neither.
bool hides_type(const ArgumentSpec& spec) {
  using How = Presentation::Kind;
  if (spec.shown_as == nullptr) return false;
  const How how = spec.shown_as->kind;
  return how == How::array || how == How::socket_address || how == How::ipv6_address;
}

} // namespace

values::ValueType ValuePlan::type_of(const Node& node) {
  values::ValueType made{.use = values::ValueUse::none,
                         .name = node.type != nullptr ? node.type->name() : ""};
  const auto add_children = [&](std::vector<values::ValueType>& types, std::size_t most) {
    for (const Node& child : node.children) {
      if (types.size() == most) break;
      if (child.kind == Node::Kind::more) continue; // left out by a limit; others may follow
      types.push_back(type_of(child));
      types.back().member_name = child.name;
    }
  };
  switch (node.kind) {
  case Node::Kind::scalar:
    if (!is_number(*node.type) || node.type->kind() == TypeKind::reference) return made;
    if (is_wide_integer(*node.type) && !node.bits) return made;
    if (node.type->kind() == TypeKind::floating && node.type->size() < sizeof(float)) return made;
    return number_type(*node.type, node.bits);
  case Node::Kind::text:
    made.use = values::ValueUse::text;
    made.is_address = node.type != nullptr && node.type->kind() == TypeKind::pointer;
    break;
  case Node::Kind::structure:
    add_children(made.members, node.children.size());
    break;
  case Node::Kind::array:
  case Node::Kind::sequence:
    if (node.children.empty() && node.kind == Node::Kind::array) made.use = values::ValueUse::text;
    add_children(made.element, 1);
    // The number of elements is computed from both sizes. Texts do not get one, because comparisons
    // use the size of a text.
    if (node.kind == Node::Kind::array && !made.element.empty() && node.type->row_count() > 0 &&
        made.element.front().use != values::ValueUse::text) {
      made.size = node.type->size();
      made.element.front().size = node.type->row()->size();
    }
    // Its type is that of an element.
    if (node.kind == Node::Kind::sequence) made.name = fmt::format("a sequence of {}", made.name);
    break;
  case Node::Kind::duration:
    made = type_of(node.children.front());
    if (const auto library = find_library_type(*node.type)) made.tick = library->tick;
    break;
  case Node::Kind::problem:
    made.problem = node.text;
    break;
  case Node::Kind::choice:
  case Node::Kind::optional:
  case Node::Kind::interface:
  case Node::Kind::more:
    break;
  }
  return made;
}

std::vector<values::DescribedValue> ValuePlan::describe() const {
  std::vector<values::DescribedValue> described;
  if (six_registers_)
    for (std::size_t i = 0; i < std::tuple_size_v<decltype(Event::arguments)>; ++i)
      described.push_back({.name = fmt::format("arg{}", i), .type = {}});
  for (const PlannedValue& each : values_) {
    values::DescribedValue& made =
        described.emplace_back(values::DescribedValue{.name = each.node.name,
                                                      .type = {},
                                                      .at_return = each.phase == PHASE_RETURN,
                                                      .source = each.source});
    if (each.declared == nullptr) {
      made.type = type_of(each.node);
      const bool has_own_name = each.node.kind == Node::Kind::sequence && !each.type_name.empty();
      if (has_own_name) made.type.name = each.type_name;
      continue;
    }
    const ArgumentSpec& spec = *each.declared;
    made.type = declared_type(spec.type, sizeof(std::uint64_t));
    if (spec.length) made.type.size = *spec.length;
    if (hides_type(spec)) made.type.use = values::ValueUse::none;
    if (made.type.use == values::ValueUse::none) made.type.name = each.type_name;
    made.type.problem = each.node.text;
    if (!made.type.problem.empty()) made.type.use = values::ValueUse::none;
    const bool is_whole =
        spec.source.offsets.empty() && spec.source.addend == 0 && !spec.address_from;
    if (is_whole) made.source = source_text(spec.source);
  }
  for (values::DescribedValue& each : described)
    if (each.source == each.name) each.source.clear();
  return described;
}

} // namespace uprobectl::events
