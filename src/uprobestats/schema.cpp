#include "uprobestats/schema.hpp"

#include <array>

namespace uprobectl::uprobestats {

namespace {

constexpr std::array selections = {
    EnumValue{"UNKNOWN", 0},
    EnumValue{"SPECIFIC_PROCESS_NAME", 1},
    EnumValue{"ANY_APP_PROCESS_ON_START", 2},
    EnumValue{"SPECIFIC_APP_PROCESS_ON_START", 3},
};
constexpr std::array atom_fields = {
    EnumValue{"UNKNOWN", 0}, EnumValue{"CALLING_UID", 1}, EnumValue{"INTERFACE_NAME", 2},
    EnumValue{"CODE", 3},    EnumValue{"KTIME_NS", 4},
};

constexpr FieldRule one(std::string_view name, std::uint32_t number, FieldType type) {
  return {.name = name, .number = number, .type = type};
}
constexpr FieldRule many(std::string_view name, std::uint32_t number, FieldType type) {
  return {.name = name, .number = number, .type = type, .repeated = true};
}
constexpr FieldRule one(std::string_view name, std::uint32_t number, const MessageType& type) {
  return {.name = name, .number = number, .type = FieldType::message, .message = &type};
}
constexpr FieldRule many(std::string_view name, std::uint32_t number, const MessageType& type) {
  return {.name = name,
          .number = number,
          .type = FieldType::message,
          .repeated = true,
          .message = &type};
}
constexpr FieldRule named(FieldRule field, std::span<const EnumValue> values) {
  field.type = FieldType::enumeration;
  field.values = values;
  return field;
}

constexpr std::array event_service_fields = {one("flush", 1, FieldType::boolean)};
constexpr MessageType event_service_type = {"EventServiceConfig", event_service_fields};

constexpr std::array atom_config_fields = {
    one("atom_id", 1, FieldType::int32),
    named(many("atom_field_positions", 2, FieldType::enumeration), atom_fields),
};
constexpr MessageType atom_config_type = {"AtomConfig", atom_config_fields};

constexpr std::array binder_method_fields = {
    one("method_id", 1, FieldType::int64),
    one("event_service_config", 2, event_service_type),
    one("atom_config", 3, atom_config_type),
};
constexpr MessageType binder_method_type = {"MethodConfig", binder_method_fields};

constexpr std::array binder_filter_fields = {
    one("interface_name", 1, FieldType::text),
    many("method_ids", 2, FieldType::int64),
    many("method_configs", 3, binder_method_type),
};
constexpr MessageType binder_filter_type = {"BinderTransactionFilter", binder_filter_fields};

constexpr std::array probe_fields = {
    one("bpf_name", 1, FieldType::text),
    many("file_paths", 2, FieldType::text),
    one("method_signature", 3, FieldType::text),
    one("fully_qualified_class_name", 4, FieldType::text),
    one("method_name", 5, FieldType::text),
    many("fully_qualified_parameters", 6, FieldType::text),
    many("binder_transaction_filters", 7, binder_filter_type),
    one("bpf_map", 1000, FieldType::text),
};
constexpr MessageType probe_type = {"ProbeConfig", probe_fields};

constexpr std::array logging_fields = {
    one("atom_id", 1, FieldType::int64),
    many("primitive_argument_positions", 2, FieldType::int32),
};
constexpr MessageType logging_type = {"StatsdLoggingConfig", logging_fields};

constexpr std::array task_fields = {
    many("probe_configs", 1, probe_type),
    many("bpf_maps", 2, FieldType::text),
    one("target_process_name", 3, FieldType::text),
    one("duration_seconds", 4, FieldType::int32),
    one("statsd_logging_config", 5, logging_type),
    named(one("target_process_selection", 6, FieldType::enumeration), selections),
    one("task_id", 7, FieldType::int64),
};
constexpr MessageType task_type = {"Task", task_fields};

constexpr std::array file_fields = {many("tasks", 1, task_type)};
constexpr MessageType file_type = {"UprobestatsConfig", file_fields};

// The first version's numbers (AOSP packages/modules/UprobeStats before bpf_maps was a task's).
constexpr std::array early_probe_fields = {
    one("bpf_name", 1, FieldType::text),
    many("file_paths", 2, FieldType::text),
    one("method_signature", 3, FieldType::text),
    one("bpf_map", 4, FieldType::text),
};
constexpr MessageType early_probe_type = {"ProbeConfig", early_probe_fields};

constexpr std::array early_task_fields = {
    many("probe_configs", 1, early_probe_type),
    one("target_process_name", 2, FieldType::text),
    one("duration_seconds", 3, FieldType::int32),
    one("statsd_logging_config", 5, logging_type),
};
constexpr MessageType early_task_type = {"Task", early_task_fields};

constexpr std::array early_file_fields = {many("tasks", 1, early_task_type)};
constexpr MessageType early_file_type = {"UprobestatsConfig", early_file_fields};

} // namespace

const MessageType& task_file_type() { return file_type; }
const MessageType& early_task_file_type() { return early_file_type; }

} // namespace uprobectl::uprobestats
