// SPDX-License-Identifier: Apache-2.0
#include "values/shown_as.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::values {

namespace {

struct Word {
  std::string_view text;
  ShownAs as;
};
constexpr std::array words = {Word{"address", ShownAs::address}, Word{"ip", ShownAs::ip},
                              Word{"text", ShownAs::text},       Word{"stack", ShownAs::stack},
                              Word{"time", ShownAs::time},       Word{"hex", ShownAs::hex}};

// Whether the name of a member says that it is the id of a stack, as in the programs of bcc.
bool names_stack(std::string_view name) {
  return name.ends_with("stack_id") || name.ends_with("stackid");
}

// Returns the number of bits of a number of this type; 0 if it is not known.
unsigned known_bits(const ValueType* type) {
  return type != nullptr && type->use == ValueUse::number && type->is_known() ? type->bits : 0;
}

// Returns the type of an array's elements. The values of several CPUs are an array too, but have
// `type` itself.
const ValueType* element_of(const ValueType* type) {
  return type != nullptr && !type->element.empty() ? &type->element.front() : type;
}

const ValueType* member_of(const ValueType* type, std::size_t index, std::string_view name) {
  if (type == nullptr || index >= type->members.size()) return nullptr;
  return type->members[index].member_name == name ? &type->members[index] : nullptr;
}

// Returns the 4 or 16 bytes of an IP address in memory order; empty if the value has another size.
std::vector<std::byte> ip_bytes(const Value& value, const ValueType* type) {
  const auto append = [](std::vector<std::byte>& bytes, std::int64_t number, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(number) >> (8 * i)));
  };
  std::vector<std::byte> bytes;
  if (const auto* const raw = std::get_if<Value::Raw>(&value.value)) {
    bytes = raw->bytes;
  } else if (const auto* const array = std::get_if<Value::Array>(&value.value)) {
    // u32[4], u16[8], u64[2]; but not the values of several CPUs
    if (type != nullptr && type->element.empty()) return {};
    const std::size_t size = array->empty() || 16 % array->size() != 0 ? 0 : 16 / array->size();
    const unsigned bits = known_bits(element_of(type));
    if (size == 0 || size > 8 || (bits != 0 && bits != 8 * size)) return {};
    for (const Value& each : *array)
      if (const auto number = number_of(each)) append(bytes, *number, size);
  } else if (const auto number = number_of(value)) {
    const unsigned bits = known_bits(type);
    const bool fits = static_cast<std::uint64_t>(*number) >> 32U == 0 || *number >> 31 == -1;
    if (bits == 32 || (bits == 0 && fits)) append(bytes, *number, 4);
  }
  if (bytes.size() != 4 && bytes.size() != 16) bytes.clear();
  return bytes;
}

std::optional<Value> to_ip(const Value& value, const ValueType* type) {
  const std::vector<std::byte> bytes = ip_bytes(value, type);
  if (bytes.empty()) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size()) ==
      nullptr)
    return std::nullopt;
  return Value{Value::Name{text.data(), number_of(value)}};
}

std::optional<Value> to_text(const Value& value) {
  const auto* const raw = std::get_if<Value::Raw>(&value.value);
  if (raw == nullptr) return std::nullopt;
  const std::string_view text = as_text(raw->bytes);
  return Value{std::string(text.substr(0, text.find('\0')))};
}

class RuleApplier {
public:
  RuleApplier(ShownAsScope scope, std::span<const ShownAsRule> rules,
              std::span<const ShownAsRule> tags, const ShownAsContext& context,
              std::vector<bool>* is_used)
      : scope_(scope), rules_(rules), tags_(tags), context_(context), is_used_(is_used) {}

  void visit(Value& value, const std::string& path, std::string_view name, const ValueType* type) {
    if (const auto as = use_rule(path)) {
      if (auto shown = convert(*as, value, type))
        replace(value, std::move(*shown));
      else if (*as == ShownAs::ip && context_.report_no_ip)
        context_.report_no_ip(path);
      return;
    }
    if (auto* const members = std::get_if<Value::Struct>(&value.value)) {
      for (std::size_t i = 0; i < members->size(); ++i) {
        ValueMember& member = (*members)[i];
        const bool is_anonymous = member.name.empty();
        std::string inner = path;
        if (!is_anonymous) inner += (path.empty() ? "" : ".") + member.name;
        visit(member.value, inner, member.name, member_of(type, i, member.name));
      }
    } else if (auto* const elements = std::get_if<Value::Array>(&value.value)) {
      for (Value& element : *elements) visit(element, path, {}, element_of(type));
    } else if (context_.stack && names_stack(name)) {
      if (auto shown = convert(ShownAs::stack, value, type)) replace(value, std::move(*shown));
    }
  }
  bool has_changed() const { return has_changed_; }

private:
  void replace(Value& value, Value shown) {
    value = std::move(shown);
    has_changed_ = true;
  }

  bool fits(std::string_view rule_path, std::string_view path) const {
    const auto drop = [&](std::string_view prefix) {
      if (prefix.empty() || !rule_path.starts_with(prefix)) return false;
      if (rule_path.size() > prefix.size() && rule_path[prefix.size()] != '.') return false;
      rule_path.remove_prefix(std::min(rule_path.size(), prefix.size() + 1));
      return true;
    };
    if (!path.empty() && rule_path == path) return true;
    const bool has_map = drop(scope_.map);
    const bool has_part = drop(scope_.part);
    // "MAP=ip" means the value.
    if (path.empty()) return rule_path.empty() && (has_part || (has_map && scope_.part != "key"));
    return (has_map || has_part) && rule_path == path;
  }

  // Returns how the first rule that fits shows the member, and marks that rule as used.
  std::optional<ShownAs> use_rule(std::string_view path) {
    for (std::size_t i = 0; i < rules_.size(); ++i)
      if (fits(rules_[i].path, path)) {
        if (is_used_ != nullptr) (*is_used_)[i] = true;
        return rules_[i].as;
      }
    const auto tag = std::ranges::find(tags_, path, &ShownAsRule::path);
    return tag != tags_.end() ? std::optional(tag->as) : std::nullopt;
  }

  std::optional<Value> convert(ShownAs as, const Value& value, const ValueType* type) const {
    if (as == ShownAs::text) return to_text(value);
    if (as == ShownAs::ip)
      if (auto shown = to_ip(value, type)) return shown;
    if (const auto* const elements = std::get_if<Value::Array>(&value.value)) {
      if (as == ShownAs::stack) return convert_addresses(*elements);
      Value::Array shown;
      bool any_converted = false;
      for (const Value& each : *elements) {
        auto converted = convert(as, each, element_of(type));
        any_converted |= converted.has_value();
        shown.push_back(converted ? std::move(*converted) : each);
      }
      return any_converted ? std::optional(Value{std::move(shown)}) : std::nullopt;
    }
    const auto number = number_of(value);
    if (!number) return std::nullopt;
    return convert_number(as, *number, known_bits(type));
  }

  std::optional<Value> convert_addresses(const Value::Array& elements) const {
    if (!context_.frames) return std::nullopt;
    std::vector<std::uint64_t> addresses;
    for (const Value& each : elements) {
      const auto address = number_of(each);
      if (!address) return std::nullopt;
      if (*address == 0) break;
      addresses.push_back(static_cast<std::uint64_t>(*address));
    }
    return context_.frames(addresses);
  }

  std::optional<Value> convert_number(ShownAs as, std::int64_t number, unsigned bits) const {
    const auto unsigned_number = static_cast<std::uint64_t>(number);
    switch (as) {
    case ShownAs::address:
      return context_.address ? std::optional(context_.address(unsigned_number)) : std::nullopt;
    case ShownAs::stack:
      return context_.stack ? std::optional(context_.stack(number)) : std::nullopt;
    case ShownAs::time:
      if (!context_.time) return std::nullopt;
      return Value{Value::Name{context_.time(unsigned_number), number}};
    case ShownAs::hex:
      return Value{Value::Hex{bits == 0 || bits >= 64 ? unsigned_number
                                                      : unsigned_number & ((1ULL << bits) - 1)}};
    case ShownAs::ip:
    case ShownAs::text:
      return std::nullopt;
    }
    std::unreachable();
  }

  ShownAsScope scope_;
  std::span<const ShownAsRule> rules_;
  std::span<const ShownAsRule> tags_;
  const ShownAsContext& context_;
  std::vector<bool>* is_used_;
  bool has_changed_ = false;
};

} // namespace

std::optional<ShownAs> parse_shown_as(std::string_view word) {
  const auto* const found = std::ranges::find(words, word, &Word::text);
  return found == words.end() ? std::nullopt : std::optional(found->as);
}

Result<ShownAsRule> parse_shown_as_rule(std::string_view text) {
  const auto equals = text.rfind('=');
  const auto as =
      equals == std::string_view::npos ? std::nullopt : parse_shown_as(text.substr(equals + 1));
  if (!as || equals == 0)
    return fail(ErrorKind::usage,
                fmt::format("invalid value '{}' (expected [MAP.]FIELD={})", text, shown_as_words));
  return ShownAsRule{.path = std::string(text.substr(0, equals)), .as = *as};
}

bool show_as(Value& value, ShownAsScope scope, std::span<const ShownAsRule> rules,
             std::span<const ShownAsRule> tags, const ShownAsContext& context,
             std::vector<bool>* is_used) {
  if (is_used != nullptr) is_used->resize(rules.size());
  RuleApplier applier(scope, rules, tags, context, is_used);
  applier.visit(value, {}, {}, scope.type);
  return applier.has_changed();
}

} // namespace uprobectl::values
