// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/forms.hpp"

#include "util/numbers.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl::uprobestats {

namespace {

constexpr unsigned max_tag_bytes = 5; // and of lengths, as in protobuf

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

// Returns nullopt for groups, which protobuf has deprecated, and for invalid types.
std::optional<WireType> wire_type(std::uint64_t bits) {
  for (const WireType type :
       {WireType::varint, WireType::fixed64, WireType::bytes, WireType::fixed32})
    if (static_cast<std::uint64_t>(type) == bits) return type;
  return std::nullopt;
}

void append_varint(std::string& wire, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) wire += static_cast<char>(0x80U | (value & 0x7fU));
  wire += static_cast<char>(value);
}

void append_tag(std::string& wire, std::uint32_t number, WireType type) {
  append_varint(wire, std::uint64_t{number} << 3U | static_cast<std::uint64_t>(type));
}

void append_number(std::string& wire, std::uint32_t number, std::uint64_t value) {
  append_tag(wire, number, WireType::varint);
  append_varint(wire, value);
}

void append_bytes(std::string& wire, std::uint32_t number, std::string_view bytes) {
  append_tag(wire, number, WireType::bytes);
  append_varint(wire, bytes.size());
  wire += bytes;
}

// The location of a field in the file.
struct RawField {
  std::uint64_t offset = 0;
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t begin = 0; // of the value, behind its length
  std::uint64_t end = 0;
};

class BinaryReader {
public:
  BinaryReader(Bytes file, Numbering numbering) : file_(file), numbering_(numbering) {}

  Result<void> read(std::uint64_t begin, std::uint64_t end, const MessageType& type,
                    proto::Message& message, const std::string& path) {
    std::map<std::uint32_t, std::size_t> counts; // of nested messages, by number
    for (std::uint64_t at = begin; at < end;) {
      const auto raw = take_field(at, end);
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
        *std::get<std::string*>(field->add(message)) =
            as_text(file_.subspan(raw->begin, raw->end - raw->begin));
      } else if (auto added = add_numbers(*field, *raw, message, path); !added) {
        return added;
      }
    }
    return {};
  }

  std::vector<UnknownField> unknown_fields;

private:
  static std::unexpected<Error> damaged(std::uint64_t at, std::string_view what) {
    return fail(ErrorKind::corrupt, fmt::format("byte {:#x}: {}", at, what));
  }

  std::optional<std::uint64_t> varint(std::uint64_t& at, std::uint64_t end,
                                      unsigned max_bytes = 10) const {
    return take_uleb128(file_.first(end), at, max_bytes);
  }

  // Reads the field at `at` and moves `at` behind it.
  Result<RawField> take_field(std::uint64_t& at, std::uint64_t end) {
    RawField field{.offset = at};
    if (++fields_ > max_fields)
      return fail(ErrorKind::out_of_range,
                  fmt::format("there are more than {} fields", max_fields));
    const auto tag = varint(at, end, max_tag_bytes);
    const auto type = tag ? wire_type(*tag & 7U) : std::nullopt;
    if (!tag || !type || *tag >> 3U == 0 || *tag >> 32U != 0)
      return damaged(field.offset, "invalid field tag");
    field.number = static_cast<std::uint32_t>(*tag >> 3U);
    field.type = *type;
    if (!find_value(field, at, end))
      return damaged(field.offset, fmt::format("field {} is truncated", field.number));
    at = field.end;
    return field;
  }

  bool find_value(RawField& field, std::uint64_t at, std::uint64_t end) const {
    std::uint64_t size = 0;
    field.begin = at;
    switch (field.type) {
    case WireType::varint:
      if (!varint(at, end)) return false;
      size = at - field.begin;
      break;
    case WireType::fixed64:
      size = 8;
      break;
    case WireType::fixed32:
      size = 4;
      break;
    case WireType::bytes:
      const auto length = varint(at, end, max_tag_bytes);
      if (!length) return false;
      field.begin = at;
      size = *length;
      break;
    }
    if (size > end - field.begin) return false;
    field.end = field.begin + size;
    return true;
  }

  // Adds one number, or several packed numbers.
  Result<void> add_numbers(const Field& field, const RawField& raw, proto::Message& message,
                           const std::string& path) {
    for (std::uint64_t at = raw.begin; at < raw.end;) {
      const auto number = varint(at, raw.end);
      if (!number) return damaged(raw.offset, fmt::format("field {} is truncated", raw.number));
      const auto narrow = static_cast<std::int32_t>(*number); // truncated as in protobuf
      if (field.is_enumeration() && !field.has_value(narrow)) {
        unknown_fields.push_back({.path = path,
                                  .number = raw.number,
                                  .offset = raw.offset,
                                  .value = narrow,
                                  .name = field.name});
        if (numbering_ == Numbering::current) append_number(message.unknown, raw.number, *number);
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
  void keep_unknown(const RawField& raw, proto::Message& message) const {
    if (numbering_ == Numbering::current)
      message.unknown += as_text(file_.subspan(raw.offset, raw.end - raw.offset));
  }

  Bytes file_;
  Numbering numbering_;
  std::size_t fields_ = 0;
};

std::string write_message(const MessageType& type, const proto::Message& message) {
  std::string wire;
  for (const Field& field : type.fields) {
    const std::uint32_t number = field.numbers.current;
    const std::size_t count = number == 0 ? 0 : field.count(message);
    for (std::size_t i = 0; i < count; ++i) {
      const ConstValue value = field.get(message, i);
      switch (field.type) {
      case Field::Type::text:
        append_bytes(wire, number, *std::get<const std::string*>(value));
        break;
      case Field::Type::int32: // negative numbers take ten bytes, like an int64
        append_number(
            wire, number,
            static_cast<std::uint64_t>(std::int64_t{*std::get<const std::int32_t*>(value)}));
        break;
      case Field::Type::int64:
        append_number(wire, number,
                      static_cast<std::uint64_t>(*std::get<const std::int64_t*>(value)));
        break;
      case Field::Type::boolean:
        append_number(wire, number, *std::get<const bool*>(value) ? 1 : 0);
        break;
      case Field::Type::message:
        append_bytes(wire, number,
                     write_message(*field.message, *std::get<const proto::Message*>(value)));
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
