// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/schema.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::uprobestats {

namespace {

// The type and the label of a field follow from the member that keeps its value: std::optional is
// `optional`, std::vector is `repeated`.
template <typename>
struct Member;
template <typename Owner, typename T>
struct Member<std::optional<T> Owner::*> {
  using Message = Owner;
  using Element = T;
  static constexpr bool repeated = false;
};
template <typename Owner, typename T>
struct Member<std::vector<T> Owner::*> {
  using Message = Owner;
  using Element = T;
  static constexpr bool repeated = true;
};

template <typename T>
constexpr Field::Type type_of() {
  if constexpr (std::is_same_v<T, std::string>)
    return Field::Type::text;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Field::Type::int32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Field::Type::int64;
  else if constexpr (std::is_same_v<T, bool>)
    return Field::Type::boolean;
  else
    return Field::Type::message;
}

template <auto member>
FieldValue add_value(proto::Message& message) {
  using M = Member<decltype(member)>;
  auto& values = static_cast<typename M::Message&>(message).*member;
  if constexpr (M::repeated) {
    return &values.emplace_back();
  } else {
    if (type_of<typename M::Element>() != Field::Type::message || !values) values.emplace();
    return &*values;
  }
}

template <auto member>
std::size_t count_values(const proto::Message& message) {
  using M = Member<decltype(member)>;
  const auto& values = static_cast<const typename M::Message&>(message).*member;
  if constexpr (M::repeated)
    return values.size();
  else
    return values.has_value() ? 1 : 0;
}

template <auto member>
ConstValue get_value(const proto::Message& message, [[maybe_unused]] std::size_t index) {
  using M = Member<decltype(member)>;
  const auto& values = static_cast<const typename M::Message&>(message).*member;
  if constexpr (M::repeated)
    return &values[index];
  else
    return &*values;
}

template <auto member>
constexpr Field field(std::string_view name, FieldNumbers numbers) {
  using M = Member<decltype(member)>;
  return {.name = name,
          .numbers = numbers,
          .type = type_of<typename M::Element>(),
          .repeated = M::repeated,
          .add = add_value<member>,
          .count = count_values<member>,
          .get = get_value<member>};
}
template <auto member>
constexpr Field field(std::string_view name, FieldNumbers numbers, const MessageType& type) {
  Field made = field<member>(name, numbers);
  made.message = &type;
  return made;
}
template <auto member>
constexpr Field field(std::string_view name, FieldNumbers numbers,
                      std::span<const EnumValue> values) {
  Field made = field<member>(name, numbers);
  made.values = values;
  return made;
}

constexpr std::array atom_field_positions = {
    EnumValue{"UNKNOWN", proto::unknown_position},
    EnumValue{"CALLING_UID", proto::calling_uid},
    EnumValue{"INTERFACE_NAME", proto::interface_name},
    EnumValue{"CODE", proto::code},
    EnumValue{"KTIME_NS", proto::ktime_ns},
};
constexpr std::array target_process_selections = {
    EnumValue{"UNKNOWN", 0},
    EnumValue{"SPECIFIC_PROCESS_NAME", proto::specific_process_name},
    EnumValue{"ANY_APP_PROCESS_ON_START", proto::any_app_process_on_start},
    EnumValue{"SPECIFIC_APP_PROCESS_ON_START", proto::specific_app_process_on_start},
};

// Each row: name, current number, number in the first version.

constexpr std::array event_service_fields = {
    field<&proto::EventServiceConfig::flush>("flush", {1}),
};
constexpr MessageType event_service_type = {"EventServiceConfig", event_service_fields};

constexpr std::array atom_fields = {
    field<&proto::AtomConfig::atom_id>("atom_id", {1}),
    field<&proto::AtomConfig::atom_field_positions>("atom_field_positions", {2},
                                                    atom_field_positions),
};
constexpr MessageType atom_type = {"AtomConfig", atom_fields};

constexpr std::array method_fields = {
    field<&proto::MethodConfig::method_id>("method_id", {1}),
    field<&proto::MethodConfig::event_service_config>("event_service_config", {2},
                                                      event_service_type),
    field<&proto::MethodConfig::atom_config>("atom_config", {3}, atom_type),
};
constexpr MessageType method_type = {"MethodConfig", method_fields};

constexpr std::array filter_fields = {
    field<&proto::BinderTransactionFilter::interface_name>("interface_name", {1}),
    field<&proto::BinderTransactionFilter::method_ids>("method_ids", {2}),
    field<&proto::BinderTransactionFilter::method_configs>("method_configs", {3}, method_type),
};
constexpr MessageType filter_type = {"BinderTransactionFilter", filter_fields};

constexpr std::array probe_fields = {
    field<&proto::ProbeConfig::bpf_name>("bpf_name", {1, 1}),
    field<&proto::ProbeConfig::file_paths>("file_paths", {2, 2}),
    field<&proto::ProbeConfig::method_signature>("method_signature", {3, 3}),
    field<&proto::ProbeConfig::fully_qualified_class_name>("fully_qualified_class_name", {4}),
    field<&proto::ProbeConfig::method_name>("method_name", {5}),
    field<&proto::ProbeConfig::fully_qualified_parameters>("fully_qualified_parameters", {6}),
    field<&proto::ProbeConfig::binder_transaction_filters>("binder_transaction_filters", {7},
                                                           filter_type),
    field<&proto::ProbeConfig::bpf_map>("bpf_map", {0, 4}), // also in the text form
};
constexpr MessageType probe_type = {"ProbeConfig", probe_fields};

constexpr std::array logging_fields = {
    field<&proto::StatsdLoggingConfig::atom_id>("atom_id", {1, 1}),
    field<&proto::StatsdLoggingConfig::primitive_argument_positions>("primitive_argument_positions",
                                                                     {2, 2}),
};
constexpr MessageType logging_type = {"StatsdLoggingConfig", logging_fields};

constexpr std::array task_fields = {
    field<&proto::Task::probe_configs>("probe_configs", {1, 1}, probe_type),
    field<&proto::Task::bpf_maps>("bpf_maps", {2}),
    field<&proto::Task::target_process_name>("target_process_name", {3, 2}),
    field<&proto::Task::duration_seconds>("duration_seconds", {4, 3}),
    field<&proto::Task::statsd_logging_config>("statsd_logging_config", {5, 5}, logging_type),
    field<&proto::Task::target_process_selection>("target_process_selection", {6},
                                                  target_process_selections),
    field<&proto::Task::task_id>("task_id", {7}),
};
constexpr MessageType task_type = {"Task", task_fields};

constexpr std::array file_fields = {
    field<&proto::UprobestatsConfig::tasks>("tasks", {1, 1}, task_type),
};

} // namespace

constexpr MessageType task_file_type = {"UprobestatsConfig", file_fields};

bool Field::has_value(std::int32_t number) const {
  return std::ranges::find(values, number, &EnumValue::number) != values.end();
}

const Field* MessageType::find(std::string_view field) const {
  const auto found = std::ranges::find(fields, field, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

const Field* MessageType::find(std::uint32_t number, Numbering numbering) const {
  const auto number_of = [&](const Field& field) {
    return numbering == Numbering::current ? field.numbers.current : field.numbers.early;
  };
  const auto found = std::ranges::find(fields, number, number_of);
  return found == fields.end() ? nullptr : &*found;
}

} // namespace uprobectl::uprobestats
