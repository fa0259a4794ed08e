// The fields of a task file: names, numbers and types of task_file.proto, for the text form and to
// look through the binary one before it is parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace uprobectl::uprobestats {

enum class FieldType { text, int32, int64, boolean, enumeration, message };

struct EnumValue {
  std::string_view name;
  std::int32_t number = 0;
};

struct MessageType;

struct FieldRule {
  std::string_view name;
  std::uint32_t number = 0;
  FieldType type = FieldType::text;
  bool repeated = false;
  const MessageType* message = nullptr;   // of messages
  std::span<const EnumValue> values = {}; // of enumerations
};

struct MessageType {
  std::string_view name;
  std::span<const FieldRule> fields;
};

const MessageType& task_file_type();
const MessageType& early_task_file_type(); // with the first version's numbers

} // namespace uprobectl::uprobestats
