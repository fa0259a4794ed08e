// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/forms.hpp"

#include "output/protobuf.hpp"
#include "util/protobuf_reader.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl::uprobestats {

namespace {

std::string_view describe(WireType type) {
  switch (type) {
  case WireType::varint:
    return "a number";
  case WireType::fixed64:
    return "8 bytes";
  case WireType::bytes:
    return "a text or message";
  case WireType::fixed32:
    return "4 bytes";
  }
  return "";
}

bool is_type_of(const Field& field, WireType type) {
  if (field.type == Field::Type::text || field.type == Field::Type::message)
    return type == WireType::bytes;
  // Numbers of a repeated field may be packed.
  return type == WireType::varint || (field.repeated && type == WireType::bytes);
}

class BinaryReader {
public:
  BinaryReader(Bytes file, Numbering numbering)
      : file_(file), fields_(file, max_fields), numbering_(numbering) {}

  Result<void> read(std::uint64_t begin, std::uint64_t end, const MessageType& type,
                    proto::Message& message, const std::string& path) {
    std::map<std::uint32_t, std::size_t> counts; // of nested messages, by number
    for (std::uint64_t at = begin; at < end;) {
      const auto raw = fields_.take(at, end);
      if (!raw) return fail(raw.error());
      const Field* const field = type.find(raw->number, numbering_);
      if (field == nullptr || !is_type_of(*field, raw->type)) {
        unknown_fields.push_back({.path = path,
                                  .number = raw->number,
                                  .type = raw->type,
                                  .offset = raw->offset,
                                  .type_mismatch = field != nullptr});
        keep_unknown(*raw, message);
      } else if (field->type == Field::Type::message) {
        const std::string inner = fmt::format("{}{}{} {}", path, path.empty() ? "" : ", ",
                                              field->name, ++counts[raw->number]);
        auto& nested = *std::get<proto::Message*>(field->add(message));
        if (auto nested_read = read(raw->begin, raw->end, *field->message, nested, inner);
            !nested_read)
          return nested_read;
      } else if (field->type == Field::Type::text) {
        *std::get<std::string*>(field->add(message)) = fields_.text(*raw);
      } else if (auto added = add_numbers(*field, *raw, message, path); !added) {
        return added;
      }
    }
    return {};
  }

  std::vector<UnknownField> unknown_fields;

private:
  // Adds one number, or several packed numbers.
  Result<void> add_numbers(const Field& field, const ProtobufField& raw, proto::Message& message,
                           const std::string& path) {
    for (std::uint64_t at = raw.begin; at < raw.end;) {
      const auto number = fields_.take_number(raw, at);
      if (!number) return fail(number.error());
      const auto narrow = static_cast<std::int32_t>(*number); // truncated as in protobuf
      if (field.is_enumeration() && !field.has_value(narrow)) {
        unknown_fields.push_back({.path = path,
                                  .number = raw.number,
                                  .offset = raw.offset,
                                  .value = narrow,
                                  .name = field.name});
        if (numbering_ == Numbering::current)
          output::ProtobufWriter(message.unknown).number(raw.number, *number);
        continue;
      }
      const FieldValue value = field.add(message);
      if (auto* const* const int32 = std::get_if<std::int32_t*>(&value))
        **int32 = narrow;
      else if (auto* const* const int64 = std::get_if<std::int64_t*>(&value))
        **int64 = static_cast<std::int64_t>(*number);
      else
        *std::get<bool*>(value) = *number != 0;
    }
    return {};
  }

  // Keeps the bytes of an unknown field, so that they are written again. In the early numbering the
  // number could be that of another field in the current one.
  void keep_unknown(const ProtobufField& raw, proto::Message& message) const {
    if (numbering_ == Numbering::current)
      message.unknown += as_text(file_.subspan(raw.offset, raw.end - raw.offset));
  }

  Bytes file_;
  ProtobufReader fields_;
  Numbering numbering_;
};

std::string write_message(const MessageType& type, const proto::Message& message) {
  std::string wire;
  output::ProtobufWriter writer(wire);
  for (const Field& field : type.fields) {
    const std::uint32_t number = field.numbers.current;
    const std::size_t count = number == 0 ? 0 : field.count(message);
    for (std::size_t i = 0; i < count; ++i) {
      const ConstValue value = field.get(message, i);
      switch (field.type) {
      case Field::Type::text:
        writer.text(number, *std::get<const std::string*>(value));
        break;
      case Field::Type::int32:
        writer.signed_number(number, *std::get<const std::int32_t*>(value));
        break;
      case Field::Type::int64:
        writer.signed_number(number, *std::get<const std::int64_t*>(value));
        break;
      case Field::Type::boolean:
        writer.number(number, *std::get<const bool*>(value) ? 1 : 0);
        break;
      case Field::Type::message:
        writer.text(number, write_message(*field.message, *std::get<const proto::Message*>(value)));
        break;
      }
    }
  }
  return wire + message.unknown;
}

} // namespace

std::string to_string(const UnknownField& field) {
  const std::string what = field.value
                               ? fmt::format("value {} of {}", *field.value, field.name)
                               : fmt::format("field {} ({})", field.number, describe(field.type));
  return fmt::format("{}{}{} at byte {:#x}", field.path, field.path.empty() ? "" : ": ", what,
                     field.offset);
}

Result<BinaryForm> parse_binary_form(Bytes file, Numbering numbering) {
  BinaryForm form;
  BinaryReader reader(file, numbering);
  if (auto read = reader.read(0, file.size(), task_file_type, form.config, {}); !read)
    return fail(std::move(read).error());
  form.unknown_fields = std::move(reader.unknown_fields);
  return form;
}

std::string write_binary_form(const proto::UprobestatsConfig& config) {
  return write_message(task_file_type, config);
}

} // namespace uprobectl::uprobestats
