#include "uprobestats/survey.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::uprobestats {

namespace {

// Each becomes an object of up to 200 bytes: no more memory than that for a file of any size.
constexpr std::size_t most_fields = 20'000;

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

bool is_type_of(const FieldRule& rule, WireType type) {
  const bool length = rule.type == FieldType::text || rule.type == FieldType::message;
  if (length) return type == WireType::bytes;
  // Numbers of a repeated field may be packed.
  return type == WireType::varint || (rule.repeated && type == WireType::bytes);
}

class Survey {
public:
  explicit Survey(Bytes file) : file_(file) {}

  Result<void> message(std::uint64_t begin, std::uint64_t end, const MessageType& type,
                       const std::string& place) {
    std::map<std::uint32_t, std::size_t> counts; // of messages, by number
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t field_at = at;
      if (++fields_ > most_fields)
        return fail(ErrorKind::out_of_range,
                    fmt::format("there are more than {} fields", most_fields));
      const auto tag = varint(at, end);
      const auto wire = tag ? wire_type(*tag & 7U) : std::nullopt;
      if (!tag || !wire || *tag >> 3U == 0 || *tag >> 32U != 0)
        return damaged(field_at, "no field begins here");
      const auto number = static_cast<std::uint32_t>(*tag >> 3U);
      const auto value = skip(*wire, at, end);
      if (!value) return damaged(field_at, fmt::format("field {} is cut off", number));
      const auto rule = std::ranges::find(type.fields, number, &FieldRule::number);
      const bool known = rule != type.fields.end();
      if (!known || !is_type_of(*rule, *wire)) {
        odd.push_back(
            {.place = place, .number = number, .type = *wire, .offset = field_at, .known = known});
        continue;
      }
      if (rule->type == FieldType::enumeration && *wire == WireType::varint)
        check_value(*rule, *value, {.place = place, .number = number, .offset = field_at});
      if (rule->type != FieldType::message) continue;
      const std::string inner =
          fmt::format("{}{}{} {}", place, place.empty() ? "" : ", ", rule->name, ++counts[number]);
      if (auto read = message(*value, at, *rule->message, inner); !read) return read;
    }
    return {};
  }

  std::vector<OddField> odd;

private:
  static std::unexpected<Error> damaged(std::uint64_t at, std::string_view what) {
    return fail(ErrorKind::corrupt, fmt::format("byte {:#x}: {}", at, what));
  }

  // Groups, which protobuf has given up, are none of ours.
  static std::optional<WireType> wire_type(std::uint64_t bits) {
    for (const WireType type :
         {WireType::varint, WireType::fixed64, WireType::bytes, WireType::fixed32})
      if (static_cast<std::uint64_t>(type) == bits) return type;
    return std::nullopt;
  }

  std::optional<std::uint64_t> varint(std::uint64_t& at, std::uint64_t end) const {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && at < end; shift += 7) {
      const auto byte = static_cast<std::uint64_t>(file_[at++]);
      if (shift < 64) value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  // Values that an enumeration does not have are dropped by who parses it.
  void check_value(const FieldRule& rule, std::uint64_t at, OddField field) {
    const auto read = varint(at, file_.size());
    if (!read) return;
    field.value = static_cast<std::int32_t>(*read); // as protobuf cuts it
    const auto is_it = [&](const EnumValue& known) { return known.number == field.value; };
    if (std::ranges::any_of(rule.values, is_it)) return;
    field.name = rule.name;
    odd.push_back(std::move(field));
  }

  // Moves behind the value; where its bytes begin.
  std::optional<std::uint64_t> skip(WireType type, std::uint64_t& at, std::uint64_t end) const {
    std::uint64_t size = 0;
    std::uint64_t begin = at;
    switch (type) {
    case WireType::varint:
      return varint(at, end) ? std::optional(begin) : std::nullopt;
    case WireType::fixed64:
      size = 8;
      break;
    case WireType::fixed32:
      size = 4;
      break;
    case WireType::bytes:
      const auto length = varint(at, end);
      if (!length) return std::nullopt;
      size = *length;
      begin = at;
      break;
    }
    if (size > end - at) return std::nullopt;
    at += size;
    return begin;
  }

  Bytes file_;
  std::size_t fields_ = 0;
};

} // namespace

std::string to_string(const OddField& field) {
  if (field.value)
    return fmt::format("{}{}value {} of {} at byte {:#x}", field.place,
                       field.place.empty() ? "" : ": ", *field.value, field.name, field.offset);
  return fmt::format("{}{}field {} ({}) at byte {:#x}", field.place,
                     field.place.empty() ? "" : ": ", field.number, describe(field.type),
                     field.offset);
}

Result<std::vector<OddField>> survey_message(Bytes message, const MessageType& type) {
  Survey survey(message);
  if (auto read = survey.message(0, message.size(), type, {}); !read)
    return fail(std::move(read).error());
  return std::move(survey.odd);
}

} // namespace uprobectl::uprobestats
