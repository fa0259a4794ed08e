// SPDX-License-Identifier: Apache-2.0
#include "events/typed_values.hpp"

#include "events/library_types.hpp"
#include "events/presentation.hpp"
#include "events/value_places.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl {

namespace {

using dwarf::Type;
using dwarf::TypeKind;

constexpr std::string_view not_captured = "not captured";
// Of a value behind the bytes that a hit captures.
constexpr std::string_view beyond_limit = "beyond the captured bytes";

// The reasons that JSON has are those of the command-line contract.
DataValue::Unreadable unread_memory(const PreparedValue& answer) {
  if (!answer.was_read) return {.reason = std::string(not_captured)};
  if (answer.value == 0) return {.reason = std::string(null_pointer)};
  if (!answer.not_resident)
    return {.reason = fmt::format("memory at {:#x} cannot be read", answer.value)};
  return {.reason = "not resident", .text = fmt::format("{:#x}: not resident", answer.value)};
}

DataValue::Unreadable unread_place(const std::string& problem) {
  if (problem.ends_with(": not readable"))
    return {.reason = "in a vector register", .text = problem};
  return {.reason = problem};
}

std::uint64_t little_endian(Bytes bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof(number)));
  return number;
}

std::int64_t sign_extended(std::uint64_t number, std::uint64_t bits) {
  const std::uint64_t unused = 64 - bits;
  return static_cast<std::int64_t>(number << unused) >> unused;
}

// A code point beyond ASCII as text; nullopt for others, and if it is not to be shown.
std::optional<std::string> printable_text(std::uint32_t code) {
  if (code < 0x80 || code > 0x10ffff) return std::nullopt;
  std::string text;
  append_code_point(text, code);
  return is_printable_text(text) ? std::optional(text) : std::nullopt;
}

// The name of a type without its namespaces.
std::string_view short_name(const Type& type) {
  const std::string_view name = type.plain_name();
  const auto scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

} // namespace

std::optional<std::string> enumerator_name(const dwarf::Type& type, std::int64_t value) {
  const auto& all = type.enumerators();
  // Scoped enumerations are written with their name: "Color::red".
  const std::string_view scope = type.is_scoped_enumeration() ? short_name(type) : "";
  const auto qualified = [&](const dwarf::Enumerator& each) {
    return scope.empty() ? each.name : fmt::format("{}::{}", scope, each.name);
  };
  for (const dwarf::Enumerator& each : all)
    if (each.value == value) return qualified(each);
  if (value <= 0) return std::nullopt;
  std::string text;
  std::int64_t rest = value;
  for (const dwarf::Enumerator& each : all) {
    if (each.value <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(each.value))) {
      if (each.value != 0) return std::nullopt; // not a set of flags
      continue;
    }
    if ((rest & each.value) == 0) continue;
    rest &= ~each.value;
    text += text.empty() ? qualified(each) : "|" + qualified(each);
  }
  if (rest != 0 || text.empty()) return std::nullopt;
  return text;
}

std::expected<std::uint64_t, DataValue::Unreadable>
TypedValues::read_bits(const Node& node, std::span<const PreparedValue> answers) const {
  const auto problem = [](std::string_view reason) {
    return std::unexpected(DataValue::Unreadable{.reason = std::string(reason)});
  };
  const std::uint64_t size =
      node.bits ? (node.bits->offset + node.bits->size + 7) / 8 : node.type->size();
  if (size == 0 || size > sizeof(std::uint64_t)) return problem("its type is not supported");
  auto number = read_bytes(node.source, node.offset, size, answers);
  if (number && node.type->is_byte_swapped()) *number = std::byteswap(*number) >> (64 - 8 * size);
  if (!number || !node.bits) return number;
  // Bits are numbered from the first one of the first byte, which is then the highest.
  *number >>= node.type->is_byte_swapped() ? 8 * size - node.bits->offset - node.bits->size
                                           : node.bits->offset;
  return node.bits->size >= 64 ? *number : *number & ((std::uint64_t{1} << node.bits->size) - 1);
}

std::expected<std::uint64_t, DataValue::Unreadable>
TypedValues::read_bytes(std::size_t source, std::uint64_t offset, std::uint64_t size,
                        std::span<const PreparedValue> answers) const {
  const auto problem = [](std::string_view reason) {
    return std::unexpected(DataValue::Unreadable{.reason = std::string(reason)});
  };
  for (const Part& part : sources_[source].parts) {
    if (offset < part.offset || size > part.size || offset - part.offset > part.size - size)
      continue;
    if (!part.problem.empty()) return std::unexpected(unread_place(part.problem));
    const PreparedValue& answer = answers[part.reading];
    if (!answer.was_read || answer.status < 0) return std::unexpected(unread_memory(answer));
    const std::uint64_t at = offset - part.offset;
    std::uint64_t number = answer.value >> 8 * (at & 7);
    if (part.is_memory) {
      const auto bytes = slice(answer.bytes, at, size);
      if (!bytes) return problem(beyond_limit);
      number = little_endian(*bytes);
    }
    const std::uint64_t bits = 8 * size;
    return bits >= 64 ? number : number & ((std::uint64_t{1} << bits) - 1);
  }
  // A location may be of a part of the value: nothing has the rest.
  const auto& parts = sources_[source].parts;
  const bool is_cut = !parts.empty() && parts.back().is_memory;
  return problem(is_cut ? beyond_limit : std::string_view(dwarf::optimized_out));
}

// A number of 128 bits. Not a number of JSON, whose readers round it.
DataValue TypedValues::decode_wide(const Node& node, std::span<const PreparedValue> answers) const {
  const auto low = read_bytes(node.source, node.offset, sizeof(std::uint64_t), answers);
  const auto high =
      read_bytes(node.source, node.offset + sizeof(std::uint64_t), sizeof(std::uint64_t), answers);
  for (const auto* const half : {&low, &high})
    if (!*half)
      return half->error().reason == beyond_limit ? DataValue{DataValue::More{}}
                                                  : DataValue{half->error()};
  __extension__ using Wide = unsigned __int128;
  Wide magnitude = node.type->is_byte_swapped()
                       ? Wide{std::byteswap(*low)} << 64 | std::byteswap(*high)
                       : Wide{*high} << 64 | *low;
  const std::uint64_t unused = 128 - node.type->bits();
  magnitude <<= unused;
  const bool is_negative = node.type->is_signed() && magnitude >> 127 != 0;
  magnitude >>= unused;
  if (is_negative) magnitude |= ~(~Wide{0} >> unused);
  if (is_negative) magnitude = -magnitude;
  std::string digits;
  do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(magnitude % 10)));
  while ((magnitude /= 10) != 0);
  return {DataValue::Name{(is_negative ? "-" : "") + digits}};
}

DataValue TypedValues::decode_scalar(const Node& node,
                                     std::span<const PreparedValue> answers) const {
  if (is_wide_integer(*node.type) && !node.bits) return decode_wide(node, answers);
  auto number = read_bits(node, answers);
  if (!number && number.error().reason == beyond_limit) return {DataValue::More{}};
  if (!number) return {std::move(number).error()};
  const Type& type = *node.type;
  const std::uint64_t bits = node.bits ? node.bits->size : type.bits();
  if (bits < 64) *number &= (std::uint64_t{1} << bits) - 1;
  const TypeKind kind = type.kind();
  if (kind == TypeKind::boolean) return {*number != 0};
  if (kind == TypeKind::pointer || kind == TypeKind::reference)
    return {DataValue::Pointer{*number}};
  if (kind == TypeKind::floating && type.size() == sizeof(float))
    return {widen_float(std::bit_cast<float>(static_cast<std::uint32_t>(*number)))};
  if (kind == TypeKind::floating && type.size() == sizeof(double))
    return {std::bit_cast<double>(*number)};
  if (kind == TypeKind::floating)
    return {DataValue::Unreadable{.reason = "its type is not supported"}};
  if (kind == TypeKind::enumeration) {
    const std::int64_t value =
        type.is_signed() ? sign_extended(*number, bits) : static_cast<std::int64_t>(*number);
    if (auto name = enumerator_name(type, value)) return {DataValue::Name{std::move(*name)}};
    return {value};
  }
  // Of Rust: a code point.
  if (kind == TypeKind::character && type.plain_name() == "char" && type.size() == 4)
    if (auto text = printable_text(static_cast<std::uint32_t>(*number))) return {std::move(*text)};
  if (type.plain_name() == "char" && *number >= 0x20 && *number < 0x7f)
    return {DataValue::Character{static_cast<char>(*number)}};
  if (type.is_signed()) return {sign_extended(*number, bits)};
  return {*number};
}

// An array of characters, up to its first NUL. It may be in several registers.
DataValue TypedValues::decode_characters(const Node& node,
                                         std::span<const PreparedValue> answers) const {
  std::string text;
  const std::uint64_t size = node.type->size();
  const auto cut = [&]() -> DataValue {
    if (text.empty()) return {DataValue::More{}};
    return {DataValue::Cut{std::move(text)}};
  };
  while (text.size() < size) {
    const std::uint64_t at = node.offset + text.size();
    const auto& parts = sources_[node.source].parts;
    const auto part = std::ranges::find_if(
        parts, [&](const Part& each) { return each.offset <= at && at - each.offset < each.size; });
    if (part == parts.end()) return cut();
    const PreparedValue* const answer = part->problem.empty() ? &answers[part->reading] : nullptr;
    if (answer == nullptr || !answer->was_read || answer->status < 0) {
      if (!text.empty()) return cut();
      return {answer == nullptr ? unread_place(part->problem) : unread_memory(*answer)};
    }
    Bytes bytes = answer->bytes;
    if (!part->is_memory)
      bytes = std::as_bytes(std::span(&answer->value, 1))
                  .first(std::min<std::uint64_t>(part->size, sizeof(answer->value)));
    if (at - part->offset >= bytes.size()) return cut();
    bytes = bytes.subspan(at - part->offset);
    const std::string_view found =
        as_text(bytes.first(std::min<std::uint64_t>(bytes.size(), size - text.size())));
    const auto end = found.find('\0');
    text += found.substr(0, end);
    if (end != std::string_view::npos) return {std::move(text)};
  }
  return {std::move(text)};
}

DataValue TypedValues::decode_text(const Node& node, std::span<const PreparedValue> answers) const {
  const PreparedValue& answer = answers[node.reading];
  if (!answer.was_read || answer.status < 0) {
    // A pointer that leads to no memory is a value, too; the address that could not be read may be
    // another one, before the last step.
    const reading& how = readings_[node.reading];
    const bool is_pointer =
        answer.value == 0 ||
        (how.steps == 0 && (how.base_from == 0 || answers[how.base_from - 1].status >= 0));
    if (answer.was_read && how.form == READ_STRING && is_pointer && !answer.not_resident)
      return {DataValue::Pointer{answer.value}};
    return {unread_memory(answer)};
  }
  std::string text(as_text(answer.bytes));
  if (answer.is_truncated) return {DataValue::Cut{std::move(text)}};
  return {std::move(text)};
}

DataValue TypedValues::decode_sequence(const Node& node,
                                       std::span<const PreparedValue> answers) const {
  const PreparedValue& answer = answers[node.reading];
  const std::uint64_t size = node.type->size();
  std::uint64_t count = node.fixed_length;
  if (node.length) {
    const PreparedValue& length = answers[*node.length];
    if (!length.was_read || length.status < 0) return {unread_memory(length)};
    count = node.length_is_end ? (length.value - answer.value) / size : length.value;
  }
  DataValue::Array elements;
  if (count == 0) return {std::move(elements)}; // the pointer may be null
  if (!answer.was_read || answer.status < 0) return {unread_memory(answer)};
  std::uint64_t shown = 0;
  for (const Node& child : node.children) {
    if (shown == count) return {std::move(elements)};
    // What is behind the captured bytes is left out. Strings have readings of their own.
    const bool is_behind =
        readings_[node.reading].form == READ_BYTES && (shown + 1) * size > answer.bytes.size();
    if (child.kind == Node::Kind::more || is_behind) break;
    elements.push_back(decode_node(child, answers));
    ++shown;
  }
  if (shown < count) elements.push_back({DataValue::More{}});
  return {std::move(elements)};
}

// The variant that the discriminant selects: `None`, `{Some=5}`.
DataValue TypedValues::decode_choice(const Node& node,
                                     std::span<const PreparedValue> answers) const {
  auto number = read_bits(node.children.front(), answers);
  if (!number) return {std::move(number).error()};
  const std::uint64_t bits = 8 * node.children.front().type->size();
  const std::span variants = std::span(node.children).subspan(1);
  const auto selects = [&](const Node& variant) {
    return std::ranges::any_of(variant.selected_by, [&](std::int64_t value) {
      return bits >= 64 ? static_cast<std::uint64_t>(value) == *number
                        : (static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << bits) - 1)) ==
                              *number;
    });
  };
  auto chosen = std::ranges::find_if(variants, selects);
  if (chosen == variants.end())
    chosen = std::ranges::find_if(variants,
                                  [](const Node& variant) { return variant.selected_by.empty(); });
  if (chosen == variants.end()) return {*number};
  DataValue value = decode_node(*chosen, answers);
  auto* const members = std::get_if<DataValue::Struct>(&value.value);
  if (members != nullptr && members->empty()) return {DataValue::Name{chosen->name}};
  // "Some(5)" has a structure with the one member "__0".
  if (members != nullptr && members->size() == 1 && members->front().name.starts_with("__")) {
    DataValue only = std::move(members->front().value);
    value = std::move(only);
  }
  DataValue::Struct named;
  named.push_back({chosen->name, std::move(value)});
  return {std::move(named)};
}

// The value in an interface, as far as it was captured.
DataValue::Array TypedValues::decode_content(const Content& content,
                                             const dwarf::GoTypes::Found& found,
                                             std::span<const PreparedValue> answers) const {
  const auto is_text = [](const Type& each) {
    const auto library = find_library_type(each);
    return library && library->kind == LibraryType::Kind::text;
  };
  const Type& type = *found.type;
  // An interface has the pointer itself.
  const bool is_pointer = type.kind() == TypeKind::pointer;
  if (!content.value)
    return is_pointer ? DataValue::Array() : DataValue::Array{{DataValue::More{}}};
  const Node text{.kind = Node::Kind::text, .reading = content.value->text};
  const Type& value = is_pointer && type.target() != nullptr ? *type.target() : type;
  if (found.is_string) return {decode_text(text, answers)};
  if (value.kind() == TypeKind::structure && !value.members().empty()) {
    const dwarf::Member& first = value.members().front();
    if (first.offset == 0 && is_text(*first.type)) {
      DataValue::Struct members = {{first.name, decode_text(text, answers)}};
      if (value.members().size() > 1) members.push_back({{}, {DataValue::More{}}});
      return {{std::move(members)}};
    }
  }
  if (is_pointer) return {};
  if (!is_number(type)) return {{DataValue::More{}}};
  return {decode_scalar(
      {.kind = Node::Kind::scalar, .type = &type, .source = content.value->first_word}, answers)};
}

DataValue TypedValues::decode_interface(const Node& node,
                                        std::span<const PreparedValue> answers) const {
  auto word = read_bits(node.children.front(), answers);
  if (!word) return {std::move(word).error()};
  if (*word == 0) return {DataValue::Name{"nil"}};
  DataValue words = decode_node(node.children.back(), answers);
  auto* const members = std::get_if<DataValue::Struct>(&words.value);
  if (!node.content || members == nullptr || members->empty()) return words;
  const PreparedValue& description = answers[node.content->description];
  const PreparedValue& module = answers[node.content->module];
  if (!description.was_read || description.status < 0 || !module.was_read || module.status < 0)
    return words;
  const auto found = go_types_->find({description.value - module.value});
  if (!found) return words;
  DataValue::Dynamic made{.type = found->type->name(), .words = std::move(*members)};
  const auto* const data = std::get_if<DataValue::Pointer>(&made.words.back().value.value);
  const bool is_null_pointer = data != nullptr && data->address == 0;
  if (!is_null_pointer) made.content = decode_content(*node.content, *found, answers);
  return {std::move(made)};
}

DataValue TypedValues::decode_node(const Node& node, std::span<const PreparedValue> answers) const {
  switch (node.kind) {
  case Node::Kind::scalar:
    return decode_scalar(node, answers);
  case Node::Kind::text:
    return decode_text(node, answers);
  case Node::Kind::structure: {
    DataValue::Struct members;
    for (const Node& child : node.children)
      members.push_back({child.name, decode_node(child, answers)});
    return {std::move(members)};
  }
  case Node::Kind::array: {
    if (node.children.empty() && node.type->element_count() != 0)
      return decode_characters(node, answers);
    DataValue::Array elements;
    for (const Node& child : node.children) elements.push_back(decode_node(child, answers));
    return {std::move(elements)};
  }
  case Node::Kind::sequence:
    return decode_sequence(node, answers);
  case Node::Kind::choice:
    return decode_choice(node, answers);
  case Node::Kind::optional: {
    auto flag = read_bits(node.children.front(), answers);
    if (!flag) return {std::move(flag).error()};
    if (*flag == 0) return {DataValue::Name{node.text}};
    return decode_node(node.children.back(), answers);
  }
  case Node::Kind::duration: {
    DataValue number = decode_node(node.children.front(), answers);
    if (const auto* const value = std::get_if<std::int64_t>(&number.value))
      return {DataValue::Name{fmt::format("{}{}", *value, node.text)}};
    if (const auto* const value = std::get_if<std::uint64_t>(&number.value))
      return {DataValue::Name{fmt::format("{}{}", *value, node.text)}};
    if (const auto* const value = std::get_if<double>(&number.value))
      return {DataValue::Name{fmt::format("{}{}", *value, node.text)}};
    return number;
  }
  case Node::Kind::interface:
    return decode_interface(node, answers);
  case Node::Kind::problem:
    return {unread_place(node.text)};
  case Node::Kind::more:
    break;
  }
  return {DataValue::More{}};
}

ArgumentValue TypedValues::decode_argument(const Node& node,
                                           std::span<const PreparedValue> answers) const {
  return {.name = node.name,
          .type_name = node.type_name,
          .value = decode_node(node, answers),
          .is_from_source = true};
}

std::vector<ArgumentValue>
TypedValues::decode_arguments(std::span<const PreparedValue> answers) const {
  std::vector<ArgumentValue> values;
  values.reserve(arguments_.size());
  for (const Node& node : arguments_) values.push_back(decode_argument(node, answers));
  return values;
}

std::vector<ArgumentValue>
TypedValues::decode_results(std::span<const PreparedValue> answers) const {
  std::vector<ArgumentValue> values;
  values.reserve(results_.size());
  for (const Node& node : results_) values.push_back(decode_argument(node, answers));
  return values;
}

std::vector<record_u8> TypedValues::group_parts() const {
  std::vector<record_u8> parts(readings_.size(), GROUP_ONLY_NULL);
  const auto keep = [&](std::size_t index) {
    const reading& each = readings_[index];
    const bool is_address =
        each.form == READ_STRING || (each.form == READ_BYTES && each.length_is_end == 0);
    if (!is_address) parts[index] = 0;
  };
  const auto keep_node = [&](const auto& self, const Node& node) -> void {
    const bool has_source = node.kind == Node::Kind::scalar || node.kind == Node::Kind::array;
    if (has_source && node.source < sources_.size())
      for (const Part& part : sources_[node.source].parts)
        if (part.problem.empty()) keep(part.reading);
    if (node.kind == Node::Kind::text || node.kind == Node::Kind::sequence) keep(node.reading);
    if (node.length) keep(*node.length);
    if (node.content) {
      keep(node.content->description);
      keep(node.content->module);
      if (node.content->value) {
        keep(sources_[node.content->value->first_word].parts.front().reading);
        keep(node.content->value->text);
      }
    }
    for (const Node& child : node.children) self(self, child);
  };
  for (const auto* const nodes : {&arguments_, &results_})
    for (const Node& node : *nodes) keep_node(keep_node, node);
  return parts;
}

} // namespace uprobectl
