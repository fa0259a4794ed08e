// SPDX-License-Identifier: Apache-2.0
#include "events/event_values.hpp"

#include "events/arguments.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

ArgumentValue register_value(std::string_view name, std::uint64_t number) {
  return {
      .name = name, .type_name = to_string(ArgumentType::x64), .value = {DataValue::Hex{number}}};
}

} // namespace

std::optional<ArgumentValue> find_value(std::string_view name, const Event& event) {
  const bool is_result = name == "ret";
  if (is_result && event.left_by == ExitKind::tail_call)
    return ArgumentValue{.name = name,
                         .type_name = to_string(ArgumentType::x64),
                         .value = {DataValue::Unreadable{"left by a tail call"}}};
  if (is_result && event.typed_return) return event.typed_return;
  if (event.typed_arguments) {
    const auto found = std::ranges::find(*event.typed_arguments, name, &ArgumentValue::name);
    if (found != event.typed_arguments->end()) return *found;
  }
  if (is_result && event.kind == EventKind::on_return && !event.returns_nothing)
    return register_value(name, event.return_value);
  const auto source = parse_source_name(name);
  if (!source || source->kind != ArgumentSource::Kind::argument || !event.has_arguments ||
      event.typed_arguments || source->number >= event.arguments.size())
    return std::nullopt;
  return register_value(name, event.arguments[source->number]);
}

} // namespace uprobectl
