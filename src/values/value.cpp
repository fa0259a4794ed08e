// SPDX-License-Identifier: Apache-2.0
#include "values/value.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <fmt/format.h>

namespace uprobectl::values {

namespace {

// The first part of a value that could not be read.
struct UnreadPart {
  std::string path; // "" for the value itself, "item.price" for a member
  std::string reason;
};

std::optional<UnreadPart> find_unread(const Value& value) {
  if (const auto* const dynamic = std::get_if<Value::Dynamic>(&value.value)) {
    if (auto found = find_unread({dynamic->words})) return found;
    return dynamic->content.empty() ? std::nullopt : find_unread(dynamic->content.front());
  }
  if (const auto* const unread = std::get_if<Value::Unreadable>(&value.value))
    return UnreadPart{{}, unread->reason};
  if (const auto* const number = std::get_if<double>(&value.value);
      number && !std::isfinite(*number))
    return UnreadPart{{}, fmt::format("{}", *number)}; // JSON has no such numbers
  if (const auto* const members = std::get_if<Value::Struct>(&value.value)) {
    for (const ValueMember& member : *members)
      if (auto found = find_unread(member.value)) {
        found->path = found->path.empty() ? member.name : member.name + "." + found->path;
        return found;
      }
  }
  if (const auto* const elements = std::get_if<Value::Array>(&value.value)) {
    for (std::size_t i = 0; i < elements->size(); ++i)
      if (auto found = find_unread((*elements)[i])) {
        found->path = fmt::format("[{}]", i) + (found->path.empty() ? "" : "." + found->path);
        return found;
      }
  }
  return std::nullopt;
}

struct ToNumber {
  std::optional<std::int64_t> operator()(const std::integral auto& value) const {
    return static_cast<std::int64_t>(value);
  }
  std::optional<std::int64_t> operator()(Value::Pointer value) const {
    return static_cast<std::int64_t>(value.address);
  }
  std::optional<std::int64_t> operator()(Value::Hex value) const {
    return static_cast<std::int64_t>(value.number);
  }
  // Characters are unsigned on every architecture, although `char` has a sign on x86-64.
  std::optional<std::int64_t> operator()(Value::Character value) const {
    return static_cast<unsigned char>(value.code);
  }
  std::optional<std::int64_t> operator()(const Value::Name& value) const { return value.number; }
  std::optional<std::int64_t> operator()(const auto& /*other*/) const { return std::nullopt; }
};

} // namespace

Value raw_value(Bytes bytes) { return {Value::Raw{.bytes = {bytes.begin(), bytes.end()}}}; }

Value boolean_value(std::uint64_t number) {
  return number <= 1 ? Value{number == 1} : Value{number};
}

std::optional<std::int64_t> number_of(const Value& value) {
  return std::visit(ToNumber(), value.value);
}

std::optional<std::uint32_t> code_point_of(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value.value);
  if (text == nullptr || text->empty() || utf8_length(*text, 0) != text->size())
    return std::nullopt;
  return first_code_point(*text);
}

std::optional<double> real_of(const Value& value) {
  if (const auto* const real = std::get_if<double>(&value.value)) return *real;
  const auto* const name = std::get_if<Value::Name>(&value.value);
  if (name == nullptr || name->number) return std::nullopt;
  double real = 0;
  const char* const end = name->text.data() + name->text.size();
  if (std::from_chars(name->text.data(), end, real).ec != std::errc()) return std::nullopt;
  return real;
}

bool is_null(const Value& value) {
  if (const auto* const pointer = std::get_if<Value::Pointer>(&value.value))
    return pointer->address == 0;
  const auto* const unread = std::get_if<Value::Unreadable>(&value.value);
  return unread != nullptr && unread->reason == null_pointer;
}

std::optional<std::string> unread_part(const Value& value) {
  if (std::holds_alternative<Value::Omitted>(value.value)) return "left out because of a limit";
  auto unread = find_unread(value);
  if (!unread) return std::nullopt;
  return unread->path.empty() ? std::move(unread->reason) : unread->path + ": " + unread->reason;
}

bool is_truncated(const Value& value) {
  if (std::holds_alternative<Value::TruncatedString>(value.value) ||
      std::holds_alternative<Value::Omitted>(value.value))
    return true;
  if (const auto* const raw = std::get_if<Value::Raw>(&value.value)) return raw->is_truncated;
  if (const auto* const members = std::get_if<Value::Struct>(&value.value))
    return std::ranges::any_of(*members, [](const auto& each) { return is_truncated(each.value); });
  if (const auto* const dynamic = std::get_if<Value::Dynamic>(&value.value))
    return is_truncated({dynamic->words}) || std::ranges::any_of(dynamic->content, is_truncated);
  const auto* const elements = std::get_if<Value::Array>(&value.value);
  return elements != nullptr && std::ranges::any_of(*elements, is_truncated);
}

} // namespace uprobectl::values
