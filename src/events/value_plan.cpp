// SPDX-License-Identifier: Apache-2.0
#include "events/value_plan.hpp"

#include "events/java_method.hpp"
#include "events/library_types.hpp"
#include "events/path_resolver.hpp"
#include "events/presentation.hpp"
#include "events/readings.hpp"
#include "util/arithmetic.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

using dwarf::Type;
using dwarf::TypeKind;

constexpr std::string_view not_captured = "not captured";
// The reason for a value past the bytes that a hit captures.
constexpr std::string_view beyond_limit = "beyond the captured bytes";

// The reasons that JSON has are those of the command-line contract.
values::Value::Unreadable unread_memory(const ReadResult& result) {
  if (!result.was_read) return {.reason = std::string(not_captured)};
  if (result.status == NO_VALUE) return {.reason = std::string(values::no_value)};
  if (!result.length_problem.empty()) return {.reason = std::string(result.length_problem)};
  if (result.value == 0) return {.reason = std::string(values::null_pointer)};
  if (!result.not_resident)
    return {.reason = fmt::format("memory at {:#x} cannot be read", result.value)};
  return {.reason = "not resident", .text = fmt::format("{:#x}: not resident", result.value)};
}

values::Value::Unreadable unread_location(const std::string& problem) {
  if (problem.ends_with(": not readable"))
    return {.reason = "in a vector register", .text = problem};
  return {.reason = problem};
}

std::uint64_t little_endian(Bytes bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof(number)));
  return number;
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

bool has_content(const Type& type, int& visits_left, int depth) {
  constexpr int max_depth = 8;
  if (type.kind() != TypeKind::structure || depth > max_depth || --visits_left < 0) return true;
  if (type.discriminant() || !type.virtual_bases().empty()) return true;
  return std::ranges::any_of(type.members(), [&](const dwarf::Member& member) {
    return has_content(*member.type, visits_left, depth + 1);
  });
}

} // namespace

bool has_content(const Type& type) {
  int visits_left = 1000; // of types: empty ones may contain each other many times
  return has_content(type, visits_left, 0);
}

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

// Makes the values of one record.
class ValueDecoder {
public:
  // `event`: borrowed, with what decode() requires.
  ValueDecoder(const ValuePlan& plan, std::span<const ReadResult> results, const Event& event,
               std::uint32_t pid)
      : plan_(plan), results_(results), event_(event), pid_(pid) {}

  std::vector<ArgumentValue> decode(std::optional<ArgumentValue>& returned);

private:
  using Node = ValuePlan::Node;
  using Part = ValuePlan::Part;
  using Content = ValuePlan::Content;
  using PlannedValue = ValuePlan::PlannedValue;
  using Number = std::expected<std::uint64_t, values::Value::Unreadable>;

  bool is_passed(const PlannedValue& value) const;
  bool was_written(const reading& how) const;
  ArgumentValue decode_declared(const PlannedValue& value) const;
  values::Value decode_typed(const ArgumentSpec& spec, std::size_t index) const;
  const ArgumentValue* find_before(std::string_view name) const;
  std::string read_text(std::size_t index) const;

  values::Value decode_node(const Node& node) const;
  values::Value decode_characters(const Node& node) const;
  values::Value decode_text(const Node& node) const;
  std::optional<values::Value> check_description(const Node& node) const;
  values::Value decode_sequence(const Node& node) const;
  values::Value decode_choice(const Node& node) const;
  values::Value decode_scalar(const Node& node) const;
  values::Value decode_interface(const Node& node) const;
  values::Value::Array decode_content(const Content& content,
                                      const dwarf::GoTypes::Found& found) const;
  values::Value decode_wide(const Node& node) const;
  Number read_bits(const Node& node) const;
  // Reads `size` bytes, at most 8, at an offset of a source.
  Number read_bytes(std::size_t source, std::uint64_t offset, std::uint64_t size) const;

  const ValuePlan& plan_;
  std::span<const ReadResult> results_;
  const Event& event_;
  std::uint32_t pid_;
  std::vector<ArgumentValue> values_; // those before the one that is being decoded
};

ValueDecoder::Number ValueDecoder::read_bits(const Node& node) const {
  const auto problem = [](std::string_view reason) {
    return std::unexpected(values::Value::Unreadable{.reason = std::string(reason)});
  };
  const std::uint64_t size =
      node.bits ? (node.bits->offset + node.bits->size + 7) / 8 : node.type->size();
  if (size == 0 || size > sizeof(std::uint64_t)) return problem("its type is not supported");
  auto number = read_bytes(node.source, node.offset, size);
  if (number && node.type->is_byte_swapped()) *number = std::byteswap(*number) >> (64 - 8 * size);
  if (!number || !node.bits) return number;
  // Bits are numbered from the first one of the first byte, which is then the highest.
  *number >>= node.type->is_byte_swapped() ? 8 * size - node.bits->offset - node.bits->size
                                           : node.bits->offset;
  return node.bits->size >= 64 ? *number : *number & ((std::uint64_t{1} << node.bits->size) - 1);
}

ValueDecoder::Number ValueDecoder::read_bytes(std::size_t source, std::uint64_t offset,
                                              std::uint64_t size) const {
  const auto problem = [](std::string_view reason) {
    return std::unexpected(values::Value::Unreadable{.reason = std::string(reason)});
  };
  for (const Part& part : plan_.sources_[source].parts) {
    if (offset < part.offset || size > part.size || offset - part.offset > part.size - size)
      continue;
    if (!part.problem.empty()) return std::unexpected(unread_location(part.problem));
    const ReadResult& result = results_[part.reading];
    if (!result.is_read()) return std::unexpected(unread_memory(result));
    const std::uint64_t at = offset - part.offset;
    std::uint64_t number = result.value >> 8 * (at & 7);
    if (part.is_memory) {
      const auto bytes = slice(result.bytes, at, size);
      if (!bytes) return problem(beyond_limit);
      number = little_endian(*bytes);
    }
    const std::uint64_t bits = 8 * size;
    return bits >= 64 ? number : number & ((std::uint64_t{1} << bits) - 1);
  }
  // A location may be of a part of the value: nothing has the rest.
  const auto& parts = plan_.sources_[source].parts;
  const bool is_truncated = !parts.empty() && parts.back().is_memory;
  return problem(is_truncated ? beyond_limit : std::string_view(dwarf::optimized_out));
}

// A number of 128 bits. Not a number of JSON, whose readers round it.
values::Value ValueDecoder::decode_wide(const Node& node) const {
  const auto low = read_bytes(node.source, node.offset, sizeof(std::uint64_t));
  const auto high =
      read_bytes(node.source, node.offset + sizeof(std::uint64_t), sizeof(std::uint64_t));
  for (const auto* const half : {&low, &high})
    if (!*half)
      return half->error().reason == beyond_limit ? values::Value{values::Value::Omitted{}}
                                                  : values::Value{half->error()};
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
  return {values::Value::Name{(is_negative ? "-" : "") + digits}};
}

values::Value ValueDecoder::decode_scalar(const Node& node) const {
  if (is_wide_integer(*node.type) && !node.bits) return decode_wide(node);
  auto number = read_bits(node);
  if (!number && number.error().reason == beyond_limit) return {values::Value::Omitted{}};
  if (!number) return {std::move(number).error()};
  const Type& type = *node.type;
  const std::uint64_t bits = node.bits ? node.bits->size : type.bits();
  if (bits < 64) *number &= (std::uint64_t{1} << bits) - 1;
  const TypeKind kind = type.kind();
  if (kind == TypeKind::boolean) return values::boolean_value(*number);
  if (kind == TypeKind::pointer || kind == TypeKind::reference)
    return {values::Value::Pointer{*number}};
  if (kind == TypeKind::floating && type.size() == sizeof(float))
    return {widen_float(std::bit_cast<float>(static_cast<std::uint32_t>(*number)))};
  if (kind == TypeKind::floating && type.size() == sizeof(double))
    return {std::bit_cast<double>(*number)};
  if (kind == TypeKind::floating)
    return {values::Value::Unreadable{.reason = "its type is not supported"}};
  if (kind == TypeKind::enumeration) {
    const std::int64_t value =
        type.is_signed() ? sign_extended(*number, bits) : static_cast<std::int64_t>(*number);
    if (auto name = enumerator_name(type, value))
      return {values::Value::Name{std::move(*name), value}};
    return type.is_signed() ? values::Value{value} : values::Value{*number};
  }
  // A `char` of four bytes is one of Rust: a code point.
  if (kind == TypeKind::character && type.plain_name() == "char" && type.size() == 4)
    if (auto text = printable_text(static_cast<std::uint32_t>(*number))) return {std::move(*text)};
  if (type.plain_name() == "char" && *number >= 0x20 && *number < 0x7f)
    return {values::Value::Character{static_cast<char>(*number)}};
  if (type.is_signed()) return {sign_extended(*number, bits)};
  return {*number};
}

// An array of characters, up to its first NUL. It may be in several registers.
values::Value ValueDecoder::decode_characters(const Node& node) const {
  std::string text;
  const std::uint64_t size = node.type->size();
  const auto cut = [&]() -> values::Value {
    if (text.empty()) return {values::Value::Omitted{}};
    return {values::Value::TruncatedString{std::move(text)}};
  };
  while (text.size() < size) {
    const std::uint64_t at = node.offset + text.size();
    const auto& parts = plan_.sources_[node.source].parts;
    const auto part = std::ranges::find_if(
        parts, [&](const Part& each) { return each.offset <= at && at - each.offset < each.size; });
    if (part == parts.end()) return cut();
    const ReadResult* const result = part->problem.empty() ? &results_[part->reading] : nullptr;
    if (result == nullptr || !result->is_read()) {
      if (!text.empty()) return cut();
      return {result == nullptr ? unread_location(part->problem) : unread_memory(*result)};
    }
    Bytes bytes = result->bytes;
    if (!part->is_memory)
      bytes = std::as_bytes(std::span(&result->value, 1))
                  .first(std::min<std::uint64_t>(part->size, sizeof(result->value)));
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

values::Value ValueDecoder::decode_text(const Node& node) const {
  const ReadResult& result = results_[node.reading];
  if (!result.is_read()) {
    // A pointer that leads to no memory is a value, too; the address that could not be read may be
    // another one, before the last step.
    const reading& how = plan_.readings_[node.reading];
    const bool is_pointer =
        result.value == 0 ||
        (how.steps == 0 && (how.base_from == 0 || results_[how.base_from - 1].status >= 0));
    const bool has_address = result.was_read && result.status != NO_VALUE;
    if (has_address && how.form == READ_STRING && is_pointer && !result.not_resident)
      return {values::Value::Pointer{result.value}};
    return {unread_memory(result)};
  }
  std::string text = read_text(node.reading);
  if (result.is_truncated) return {values::Value::TruncatedString{std::move(text)}};
  return {std::move(text)};
}

// Returns the value of an array if its descriptor alone decides it: it is empty, or cannot be
// shown.
std::optional<values::Value> ValueDecoder::check_description(const Node& node) const {
  const ReadResult& data = results_[node.reading];
  const ReadResult& length = results_[*node.length];
  if (!length.is_read()) return values::Value{unread_memory(data.status < 0 ? data : length)};
  if (data.value == 0 && !node.text.empty())
    return values::Value{values::Value::Unreadable{.reason = node.text}};
  const auto count = static_cast<std::int64_t>(length.value);
  if (count <= 0) return values::Value{values::Value::Array()};
  std::uint64_t distance = node.distance.empty() ? node.type->size() : 1;
  for (const std::size_t factor : node.distance) {
    if (!results_[factor].is_read()) return values::Value{unread_memory(results_[factor])};
    distance *= results_[factor].value;
  }
  if (count > 1 && distance != node.type->size())
    return values::Value{
        values::Value::Unreadable{.reason = "its elements do not follow each other in memory"}};
  return std::nullopt;
}

values::Value ValueDecoder::decode_sequence(const Node& node) const {
  const ReadResult& result = results_[node.reading];
  const std::uint64_t size = node.type->size();
  std::uint64_t count = node.fixed_length;
  if (node.is_described)
    if (auto known = check_description(node)) return std::move(*known);
  if (node.length) {
    const ReadResult& length = results_[*node.length];
    if (!length.is_read()) return {unread_memory(length)};
    count = node.length_is_end ? (length.value - result.value) / size : length.value;
  }
  values::Value::Array elements;
  if (count == 0) return {std::move(elements)}; // the pointer may be null
  if (!result.is_read()) return {unread_memory(result)};
  std::uint64_t shown = 0;
  for (const Node& child : node.children) {
    if (shown == count) return {std::move(elements)};
    // Elements past the captured bytes are left out. Strings have readings of their own.
    const bool is_left_out = plan_.readings_[node.reading].form == READ_BYTES &&
                             (shown + 1) * size > result.bytes.size();
    if (child.kind == Node::Kind::more || is_left_out) break;
    elements.push_back(decode_node(child));
    ++shown;
  }
  if (shown < count) elements.push_back({values::Value::Omitted{}});
  return {std::move(elements)};
}

// The variant that the discriminant selects: `None`, `{Some=5}`.
values::Value ValueDecoder::decode_choice(const Node& node) const {
  auto number = read_bits(node.children.front());
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
  values::Value value = decode_node(*chosen);
  auto* const members = std::get_if<values::Value::Struct>(&value.value);
  if (members != nullptr && members->empty()) return {values::Value::Name{chosen->name}};
  // "Some(5)" has a structure with the one member "__0".
  if (members != nullptr && members->size() == 1 && members->front().name.starts_with("__")) {
    values::Value only = std::move(members->front().value);
    value = std::move(only);
  }
  values::Value::Struct named;
  named.push_back({chosen->name, std::move(value)});
  return {std::move(named)};
}

// The value in an interface, as far as it was captured.
values::Value::Array ValueDecoder::decode_content(const Content& content,
                                                  const dwarf::GoTypes::Found& found) const {
  const auto is_text = [](const Type& each) {
    const auto library = find_library_type(each);
    return library && library->kind == LibraryType::Kind::text;
  };
  const Type& type = *found.type;
  // An interface has the pointer itself.
  const bool is_pointer = type.kind() == TypeKind::pointer;
  if (!content.value)
    return is_pointer ? values::Value::Array() : values::Value::Array{{values::Value::Omitted{}}};
  const Node text{.kind = Node::Kind::text, .reading = content.value->text};
  const Type& value = is_pointer && type.target() != nullptr ? *type.target() : type;
  if (found.is_string) return {decode_text(text)};
  if (value.kind() == TypeKind::structure && !value.members().empty()) {
    const dwarf::Member& first = value.members().front();
    if (first.offset == 0 && is_text(*first.type)) {
      values::Value::Struct members = {{first.name, decode_text(text)}};
      if (value.members().size() > 1) members.push_back({{}, {values::Value::Omitted{}}});
      return {{std::move(members)}};
    }
  }
  if (is_pointer) return {};
  if (!is_number(type)) return {{values::Value::Omitted{}}};
  return {decode_scalar(
      {.kind = Node::Kind::scalar, .type = &type, .source = content.value->first_word})};
}

values::Value ValueDecoder::decode_interface(const Node& node) const {
  auto word = read_bits(node.children.front());
  if (!word) return {std::move(word).error()};
  if (*word == 0) return {values::Value::Name{"nil"}};
  values::Value words = decode_node(node.children.back());
  auto* const members = std::get_if<values::Value::Struct>(&words.value);
  if (!node.content || members == nullptr || members->empty()) return words;
  const ReadResult& description = results_[node.content->description];
  const ReadResult& module = results_[node.content->module];
  if (!description.is_read() || !module.is_read()) return words;
  const auto found = plan_.go_types_->find({description.value - module.value});
  if (!found) return words;
  values::Value::Dynamic made{.type = found->type->name(), .words = std::move(*members)};
  const auto* const data = std::get_if<values::Value::Pointer>(&made.words.back().value.value);
  const bool is_null_pointer = data != nullptr && data->address == 0;
  if (!is_null_pointer) made.content = decode_content(*node.content, *found);
  return {std::move(made)};
}

values::Value ValueDecoder::decode_node(const Node& node) const {
  switch (node.kind) {
  case Node::Kind::scalar:
    return decode_scalar(node);
  case Node::Kind::text:
    return decode_text(node);
  case Node::Kind::structure: {
    values::Value::Struct members;
    for (const Node& child : node.children) members.push_back({child.name, decode_node(child)});
    return {std::move(members)};
  }
  case Node::Kind::array: {
    if (node.children.empty() && node.type->element_count() != 0) return decode_characters(node);
    values::Value::Array elements;
    for (const Node& child : node.children) elements.push_back(decode_node(child));
    return {std::move(elements)};
  }
  case Node::Kind::sequence:
    return decode_sequence(node);
  case Node::Kind::choice:
    return decode_choice(node);
  case Node::Kind::optional: {
    auto flag = read_bits(node.children.front());
    if (!flag) return {std::move(flag).error()};
    if (*flag == 0) return {values::Value::Name{node.text}};
    return decode_node(node.children.back());
  }
  case Node::Kind::duration: {
    values::Value number = decode_node(node.children.front());
    if (const auto* const value = std::get_if<std::int64_t>(&number.value))
      return {values::Value::Name{fmt::format("{}{}", *value, node.text), *value}};
    if (const auto* const value = std::get_if<std::uint64_t>(&number.value))
      return {values::Value::Name{fmt::format("{}{}", *value, node.text),
                                  static_cast<std::int64_t>(*value)}};
    if (const auto* const value = std::get_if<double>(&number.value))
      return {values::Value::Name{fmt::format("{}{}", *value, node.text)}};
    return number;
  }
  case Node::Kind::interface:
    return decode_interface(node);
  case Node::Kind::problem:
    return {unread_location(node.text)};
  case Node::Kind::more:
    break;
  }
  return {values::Value::Omitted{}};
}

// The text of a string or buffer that was read.
std::string ValueDecoder::read_text(std::size_t index) const {
  const ReadResult& result = results_[index];
  if (plan_.readings_[index].form != READ_JAVA_STRING) return std::string(as_text(result.bytes));
  return (result.value & JAVA_STRING_IS_UTF_16) != 0 ? utf16_to_utf8(result.bytes)
                                                     : latin1_to_utf8(result.bytes);
}

const ArgumentValue* ValueDecoder::find_before(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &ArgumentValue::name);
  return found == values_.end() ? nullptr : &*found;
}

bool ValueDecoder::is_passed(const PlannedValue& value) const {
  if (!value.passed_if) return true;
  const ArgumentValue* const decides = find_before(value.passed_if->name);
  if (decides == nullptr) return true;
  return (static_cast<std::uint64_t>(number_of(decides->value).value_or(0)) &
          value.passed_if->bits) != 0;
}

// Whether a function has written the memory of an output parameter: it has returned, its length is
// not -1, and the address is not NULL.
bool ValueDecoder::was_written(const reading& how) const {
  if (event_.left_by == ExitKind::tail_call || results_[how.base_from - 1U].value == 0)
    return false;
  if (how.length_from == 0) return true;
  const ReadResult& length = results_[how.length_from - 1U];
  return length.status >= 0 && static_cast<std::int64_t>(length.value) >= 0;
}

values::Value ValueDecoder::decode_typed(const ArgumentSpec& spec, std::size_t index) const {
  const ReadResult& result = results_[index];
  if (!result.is_read()) return {unread_memory(result)};
  RawArgument raw{.type = spec.type, .number = result.value};
  if (is_memory(spec.type)) {
    raw.bytes = read_text(index);
    raw.is_truncated = result.is_truncated;
  }
  if (spec.shown_as == nullptr) return plain_value(std::move(raw));
  // The argument before that tells which names apply.
  const std::string& selector = spec.shown_as->selector;
  const ArgumentValue* const selected = selector.empty() ? nullptr : find_before(selector);
  return present(*spec.shown_as, std::move(raw), pid_,
                 selected == nullptr ? std::nullopt : number_of(selected->value));
}

ArgumentValue ValueDecoder::decode_declared(const PlannedValue& value) const {
  const ArgumentSpec& spec = *value.declared;
  ArgumentValue made{.name = value.node.name,
                     .type_name = value.type_name,
                     .value = {},
                     .is_memory = is_memory(spec.type)};
  if (!value.node.text.empty()) {
    made.value = {values::Value::Unreadable{value.node.text}};
    return made;
  }
  const reading& how = plan_.readings_[value.node.reading];
  if (!spec.address_from || was_written(how)) {
    made.value = decode_typed(spec, value.node.reading);
    return made;
  }
  return {.name = value.node.name,
          .type_name = to_string(ArgumentType::ptr),
          .value = {values::Value::Pointer{results_[how.base_from - 1U].value}}};
}

std::vector<ArgumentValue> ValueDecoder::decode(std::optional<ArgumentValue>& returned) {
  values_.reserve(plan_.values_.size());
  for (const PlannedValue& each : plan_.values_) {
    const bool has_phase =
        each.phase == PHASE_ENTRY ? event_.has_arguments : event_.kind == EventKind::on_return;
    if (!has_phase || (each.is_result && event_.left_by == ExitKind::tail_call)) continue;
    if (!is_passed(each)) continue;
    ArgumentValue made = each.declared != nullptr ? decode_declared(each)
                                                  : ArgumentValue{.name = each.node.name,
                                                                  .type_name = each.type_name,
                                                                  .value = decode_node(each.node),
                                                                  .is_from_source = true};
    if (each.is_result && each.node.name == result_name)
      returned = std::move(made);
    else
      values_.push_back(std::move(made));
  }
  return std::move(values_);
}

void ValuePlan::decode(Event& event, std::span<const ReadResult> results, std::uint32_t pid) const {
  auto values = ValueDecoder(*this, results, event, pid).decode(event.typed_return);
  if (!values.empty() || (event.has_arguments && !six_registers_))
    event.typed_arguments = std::move(values);
  if (event.has_arguments) event.function = function_;
  event.is_known_call = is_known_call_;
  event.returns_nothing = returns_nothing_ && event.kind == EventKind::on_return &&
                          event.left_by != ExitKind::tail_call;
  const bool has_weight =
      weight_ && (event.left_by != ExitKind::tail_call || readings_[*weight_].phase == PHASE_ENTRY);
  if (has_weight && results[*weight_].is_read()) event.weight = results[*weight_].value;
  event.failed = has_failed(event, results);
  if (event.failed != true || !error_number_ || !results[*error_number_].is_read()) return;
  event.return_errno = static_cast<int>(results[*error_number_].value);
}

std::optional<bool> ValuePlan::has_failed(const Event& event,
                                          std::span<const ReadResult> results) const {
  if (!failure_ || event.kind != EventKind::on_return || event.left_by == ExitKind::tail_call)
    return std::nullopt;
  if (!failure_bits_) return failure_->holds(event.return_value, result_bits_);
  const ReadResult& bits = results[*failure_bits_];
  if (!bits.is_read()) return std::nullopt;
  return (bits.value == 0) == failure_->fails_at_zero();
}

void ValuePlan::set_failure(const FailureRule& rule, unsigned result_bits) {
  failure_ = rule;
  result_bits_ = result_bits;
}

void ValuePlan::add_failure(const reading& result) {
  reading widened = result;
  if (failure_->kind == FailureRule::Kind::less && failure_->number != 0) {
    readings_.push_back(result);
    readings_.back().is_signed = 1;
    widened = based_on(readings_.size() - 1, result.phase);
    widened.base = result.base; // it is not known after a tail call
  }
  failure_bits_ = readings_.size();
  readings_.push_back(failure_bits(*failure_, widened));
}

Result<bool> ValuePlan::add_errno(const KnownCall& known, const ReadingBuilder& builder) {
  if (error_number_) return true;
  const ArgumentSpec* const offset = find_argument(known.arguments, errno_offset_name);
  const ArgumentSpec* const value = find_argument(known.arguments, errno_value_name);
  if (offset == nullptr || value == nullptr) return false;
  std::vector<std::size_t> numbers;
  if (auto added = add_readings(std::array{*offset, *value}, builder, numbers); !added)
    return fail(std::move(added).error());
  error_number_ = numbers[1];
  return true;
}

const reading* ValuePlan::errno_reading() const {
  return error_number_ ? &readings_[*error_number_] : nullptr;
}

std::vector<std::string> ValuePlan::describe_problems() const {
  std::vector<std::string> problems;
  for (const PlannedValue& each : values_)
    if (each.declared != nullptr && !each.node.text.empty())
      problems.push_back(each.node.name + " cannot be read (" + each.node.text + ")");
  return problems;
}

bool ValuePlan::uses_argument_numbers() const {
  return std::ranges::any_of(values_, [](const PlannedValue& each) {
    return each.declared != nullptr && each.declared->source.kind == ArgumentSource::Kind::argument;
  });
}

void ValuePlan::set_order(std::span<const std::string> names) {
  std::ranges::sort(values_, {}, [&](const PlannedValue& each) {
    return std::ranges::find(names, each.node.name) - names.begin();
  });
}

void ValuePlan::set_function(std::string name, bool returns_nothing) {
  function_ = std::move(name);
  returns_nothing_ = returns_nothing;
}

bool ValuePlan::add_summed(const SummedReading& summed) {
  reading value = summed.value;
  if (readings_.size() + (summed.factor ? 2 : 1) > MAX_READINGS) return false;
  if (summed.factor) {
    readings_.push_back(*summed.factor);
    readings_.back().in_group = GROUP_OMITTED;
    value.factor_from = static_cast<record_u8>(readings_.size());
  }
  value.in_group = GROUP_SUMMED | GROUP_OMITTED;
  readings_.push_back(value);
  return true;
}

bool ValuePlan::set_weight(const SummedReading& weight) {
  if (!add_summed(weight)) return false;
  weight_ = readings_.size() - 1;
  return true;
}

std::optional<std::size_t> ValuePlan::add_key(const reading& key) {
  const auto known = std::ranges::find_if(readings_, [&](const reading& each) {
    return std::memcmp(&each, &key, sizeof(key)) == 0; // readings have no padding
  });
  if (known != readings_.end()) return static_cast<std::size_t>(known - readings_.begin());
  if (readings_.size() == MAX_READINGS) return std::nullopt;
  readings_.push_back(key);
  return readings_.size() - 1;
}

void ValuePlan::set_group_parts(const GroupSpec& groups) {
  for (reading& each : readings_)
    if ((each.in_group & GROUP_SUMMED) == 0) each.in_group = GROUP_ONLY_NULL;
  const auto keep = [&](std::size_t index) {
    reading& each = readings_[index];
    const bool is_address =
        each.form == READ_STRING || (each.form == READ_BYTES && each.length_is_end == 0);
    if (!is_address) each.in_group = 0;
  };
  const auto keep_node = [&](const auto& self, const Node& node) -> void {
    const bool has_source = node.kind == Node::Kind::scalar || node.kind == Node::Kind::array;
    if (has_source && node.source < sources_.size())
      for (const Part& part : sources_[node.source].parts)
        if (part.problem.empty()) keep(part.reading);
    // The reading of a sequence whose elements are read one by one is only their address.
    const bool has_elements =
        node.kind == Node::Kind::sequence && readings_[node.reading].form == READ_BYTES;
    if (node.kind == Node::Kind::text || has_elements) keep(node.reading);
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
  for (const PlannedValue& each : values_) {
    if (each.declared == nullptr) {
      keep_node(keep_node, each.node);
      continue;
    }
    if (!each.node.text.empty()) continue; // a problem
    const bool is_key = std::ranges::any_of(
        groups.by, [&](const GroupValue& by) { return !by.built_in && by.text == each.node.name; });
    // An address that is not asked for only leads to another value.
    if (is_key || each.declared->type != ArgumentType::ptr) keep(each.node.reading);
    if (groups.measured == each.node.name)
      readings_[each.node.reading].in_group |= is_key ? GROUP_SUMMED : GROUP_SUMMED | GROUP_OMITTED;
  }
  if (error_number_) readings_[*error_number_].in_group = 0;
  if (failure_bits_ && readings_[*failure_bits_].base_from != 0)
    readings_[readings_[*failure_bits_].base_from - 1U].in_group = GROUP_OMITTED;
  // The offset of a base class is read to find values, and is not a value itself; nor is a guard.
  for (const reading& each : readings_)
    if (each.offset_from != 0 && readings_[each.offset_from - 1U].in_group != 0)
      readings_[each.offset_from - 1U].in_group = GROUP_OMITTED;
}

ValuePlan ValuePlan::make_unreadable(std::span<const ValuePath> paths, std::string_view reason) {
  ValuePlan made;
  for (const ValuePath& path : paths)
    made.values_.push_back({.node = {.name = path.text, .text = std::string(reason)}});
  return made;
}

// Integers come first, because the lengths of buffers are among them.
Result<void> ValuePlan::add_readings(std::span<const ArgumentSpec> list,
                                     const ReadingBuilder& builder,
                                     std::vector<std::size_t>& numbers) {
  numbers.resize(list.size());
  for (const bool memory : {false, true})
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].problem.empty() || is_memory(list[i].type) != memory) continue;
      if (readings_.size() == MAX_READINGS)
        return fail(ErrorKind::usage, fmt::format("more than {} values", MAX_READINGS));
      auto read = builder.build_argument(list[i], list, numbers);
      if (!read) return fail(std::move(read).error());
      numbers[i] = readings_.size();
      readings_.push_back(*read);
    }
  return {};
}

Result<void> ValuePlan::add(const DeclaredValues& declared, const ReadingBuilder& builder) {
  const std::span<const ArgumentSpec> list = declared.arguments;
  const KnownCall* const known = declared.known.get();
  six_registers_ = declared.six_registers;
  is_known_call_ = known != nullptr;
  if (known != nullptr) set_function(known->function, known->returns_nothing);
  std::vector<std::size_t> numbers;
  if (auto added = add_readings(list, builder, numbers); !added) return added;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ArgumentSpec& spec = list[i];
    const bool is_shown = i < declared.shown && (known == nullptr || i < known->shown);
    if (!is_shown && spec.adds_thread_pointer) error_number_ = numbers[i];
    if (!is_shown) continue;
    PlannedValue& value = values_.emplace_back(
        PlannedValue{.node = {.name = spec.name, .reading = numbers[i], .text = spec.problem}});
    value.declared = std::make_shared<const ArgumentSpec>(spec);
    value.type_name =
        spec.shown_as != nullptr ? std::string_view(spec.shown_as->type) : to_string(spec.type);
    value.is_result = spec.source.kind == ArgumentSource::Kind::returned;
    value.phase = value.is_result ? PHASE_RETURN : PHASE_ENTRY;
    if (spec.problem.empty()) value.phase = readings_[numbers[i]].phase;
    const auto condition =
        std::ranges::find(declared.conditions, i, &KnownCall::Condition::argument);
    if (condition != declared.conditions.end()) value.passed_if = *condition;
  }
  return {};
}

} // namespace uprobectl::events
