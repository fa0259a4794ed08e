// SPDX-License-Identifier: Apache-2.0
// The messages of a task file, and the table of their fields: the names in the text form, the
// numbers in the binary form, and the members that store the values. Source: AOSP
// packages/modules/UprobeStats, config.proto of Android 15 and 16.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace uprobectl::uprobestats {

namespace proto {

struct Message {
  std::string unknown; // encoded fields that are not in the schema
};

struct StatsdLoggingConfig : Message {
  std::optional<std::int64_t> atom_id;
  std::vector<std::int32_t> primitive_argument_positions;
};

struct EventServiceConfig : Message {
  std::optional<bool> flush;
};

enum AtomFieldPosition : std::int32_t {
  unknown_position = 0,
  calling_uid = 1,
  interface_name = 2,
  code = 3,
  ktime_ns = 4,
};

struct AtomConfig : Message {
  std::optional<std::int32_t> atom_id;
  std::vector<std::int32_t> atom_field_positions; // enum AtomFieldPosition
};

struct MethodConfig : Message {
  std::optional<std::int64_t> method_id;
  std::optional<EventServiceConfig> event_service_config;
  std::optional<AtomConfig> atom_config;
};

struct BinderTransactionFilter : Message {
  std::optional<std::string> interface_name;
  std::vector<std::int64_t> method_ids;
  std::vector<MethodConfig> method_configs;
};

struct ProbeConfig : Message {
  std::optional<std::string> bpf_name;
  std::vector<std::string> file_paths;
  std::optional<std::string> method_signature;
  std::optional<std::string> fully_qualified_class_name;
  std::optional<std::string> method_name;
  std::vector<std::string> fully_qualified_parameters;
  std::vector<BinderTransactionFilter> binder_transaction_filters;
  std::optional<std::string> bpf_map; // first version only: each probe had its own map
};

enum TargetProcessSelection : std::int32_t {
  specific_process_name = 1,
  any_app_process_on_start = 2,
  specific_app_process_on_start = 3,
};

struct Task : Message {
  std::vector<ProbeConfig> probe_configs;
  std::vector<std::string> bpf_maps;
  std::optional<std::string> target_process_name;
  std::optional<std::int32_t> duration_seconds;
  std::optional<StatsdLoggingConfig> statsd_logging_config;
  std::optional<std::int32_t> target_process_selection;
  std::optional<std::int64_t> task_id;
};

struct UprobestatsConfig : Message {
  std::vector<Task> tasks;
};

} // namespace proto

// Limits the memory that a file can make the parser allocate: up to 400 bytes per field.
constexpr std::size_t max_fields = 20'000;
constexpr std::size_t max_warnings = 100; // about unknown fields

// The field numbers changed once, when bpf_maps moved from the probe to the task. early: those of
// early versions of Android 15.
enum class Numbering { current, early };
// The numbers of one field.
struct FieldNumbers {
  std::uint32_t current = 0; // 0: this numbering does not have the field
  std::uint32_t early = 0;
};

struct EnumValue {
  std::string_view name;
  std::int32_t number = 0;
};

struct MessageType;

using FieldValue = std::variant<std::string*, std::int32_t*, std::int64_t*, bool*, proto::Message*>;
using ConstValue = std::variant<const std::string*, const std::int32_t*, const std::int64_t*,
                                const bool*, const proto::Message*>;

// A field of a message: its names and types, and access to its values.
struct Field {
  enum class Type { text, int32, int64, boolean, message }; // in the order of FieldValue

  std::string_view name;
  FieldNumbers numbers;
  Type type = Type::text;
  bool repeated = false;
  const MessageType* message = nullptr;   // the type of a message
  std::span<const EnumValue> values = {}; // an int32 with values is an enumeration

  // Adds a value and returns a pointer to it. As in protobuf, a second occurrence of a singular
  // message is merged into the first, and a second singular value replaces the first.
  FieldValue (*add)(proto::Message& message) = nullptr;
  std::size_t (*count)(const proto::Message& message) = nullptr;
  ConstValue (*get)(const proto::Message& message, std::size_t index) = nullptr;

  bool is_enumeration() const { return !values.empty(); }
  bool has_value(std::int32_t number) const;
};

// A message and the table of its fields.
struct MessageType {
  std::string_view name;
  std::span<const Field> fields; // by current number

  const Field* find(std::string_view field) const;
  const Field* find(std::uint32_t number, Numbering numbering) const;
};

extern const MessageType task_file_type; // describes proto::UprobestatsConfig

} // namespace uprobectl::uprobestats
