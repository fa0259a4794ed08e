// SPDX-License-Identifier: Apache-2.0
#include "bpf/object_values.hpp"

#include "bpf/btf_reading.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <vector>

namespace uprobectl::bpf {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t max_number_size = sizeof(Wide);

// A number as it was typed: a magnitude, and whether it is negative.
struct TypedNumber {
  Wide magnitude = 0;
  bool is_negative = false;

  Wide bits() const { return is_negative ? Wide{0} - magnitude : magnitude; }
};

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Decimal or "0x…", with an optional '-'. nullopt for other text and more than 128 bits.
std::optional<TypedNumber> parse_typed_number(std::string_view text) {
  TypedNumber number;
  if (text.starts_with('-')) {
    number.is_negative = true;
    text.remove_prefix(1);
  }
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  const unsigned base = is_hex ? 16 : 10;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    const auto digit = digit_of(c);
    if (!digit || *digit >= base) return std::nullopt;
    const Wide next = number.magnitude * base + *digit;
    if ((next - *digit) / base != number.magnitude || next < number.magnitude) return std::nullopt;
    number.magnitude = next;
  }
  return number;
}

// Whether the number fits into so many bits.
bool fits(const TypedNumber& number, unsigned bits, bool is_signed) {
  const Wide limit = Wide{1} << (bits - 1); // of a signed number
  if (number.is_negative) return is_signed && number.magnitude <= limit;
  if (is_signed) return number.magnitude < limit;
  return bits == 8 * max_number_size || number.magnitude >> bits == 0;
}

bool is_quoted(std::string_view text) {
  return text.size() >= 2 && text.starts_with('"') && text.ends_with('"');
}

// Reads "0x" and two digits for each byte, the first one first. Returns false for other text, and
// may then have changed the bytes.
bool read_dump(std::string_view text, std::span<std::byte> bytes) {
  if (!text.starts_with("0x") || text.size() != 2 + 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digit_of(text[2 + 2 * i]);
    const auto low = digit_of(text[3 + 2 * i]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::byte>(*high << 4U | *low);
  }
  return true;
}

std::string list_names(const std::vector<std::string_view>& names) {
  constexpr std::size_t most = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  if (names.size() > most) list += fmt::format(" and {} more", names.size() - most);
  return list;
}

std::vector<std::string_view> member_names(const btf* types, const btf_type* type) {
  std::vector<std::string_view> names;
  for (int i = 0; i < btf_vlen(type); ++i)
    if (const std::string_view name = btf_name(types, btf_members(type)[i].name_off); !name.empty())
      names.push_back(name);
  return names;
}

ValueLocation member_at(const btf* types, const ValueLocation& whole, const btf_type* type,
                        std::uint32_t index) {
  const btf_member& member = btf_members(type)[index];
  const std::uint32_t bit = btf_member_bit_offset(type, index);
  ValueLocation part{.type = member.type,
                     .offset = whole.offset + bit / 8,
                     .bits = btf_member_bitfield_size(type, index)};
  part.first_bit = bit % 8;
  const auto size = btf__resolve_size(types, member.type);
  part.size = size < 0 ? 0 : static_cast<std::size_t>(size);
  if (part.bits != 0) part.size = (part.first_bit + part.bits + 7) / 8;
  return part;
}

// Also looks into members that are anonymous structs and unions; check_bpf_object() has limited
// their nesting. `searched` has the types that do not have the member: each is searched once,
// because damaged types can contain each other in many ways.
std::optional<ValueLocation> find_member(const btf* types, const ValueLocation& whole,
                                         const btf_type* type, std::string_view name,
                                         std::set<const btf_type*>& searched) {
  if (!searched.insert(type).second) return std::nullopt;
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i) {
    const btf_member& member = btf_members(type)[i];
    const std::string_view known = btf_name(types, member.name_off);
    const ValueLocation part = member_at(types, whole, type, i);
    if (!known.empty() && known == name) return part;
    const btf_type* const inner = resolved_type(types, member.type);
    if (!known.empty() || inner == nullptr || !btf_is_composite(inner)) continue;
    if (auto found = find_member(types, part, inner, name, searched)) return found;
  }
  return std::nullopt;
}

std::optional<ValueLocation> find_member(const btf* types, const ValueLocation& whole,
                                         const btf_type* type, std::string_view name) {
  std::set<const btf_type*> searched;
  return find_member(types, whole, type, name, searched);
}

std::optional<std::string_view> in_braces(std::string_view text) {
  if (text.size() < 2 || !text.starts_with('{') || !text.ends_with('}')) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

// Calls visit for each element of "1,{2,3},x" until it fails.
template <typename Visit>
Result<void> for_each_element(std::string_view list, Visit visit) {
  if (trimmed(list).empty()) return {};
  while (true) {
    const auto comma = std::min(find_outside_braces(list, ','), list.size());
    if (auto done = visit(trimmed(list.substr(0, comma))); !done) return done;
    if (comma == list.size()) return {};
    list.remove_prefix(comma + 1);
  }
}

class ValueWriter {
public:
  ValueWriter(const btf* types, std::span<std::byte> bytes) : types_(types), bytes_(bytes) {}

  Result<void> write(const ValueLocation& where, std::string_view text, bool is_outermost) {
    const btf_type* const type = resolved_type(types_, where.type);
    if (type == nullptr || where.offset > bytes_.size() ||
        where.size > bytes_.size() - where.offset)
      return fail(ErrorKind::corrupt, "its type is damaged");
    if (btf_is_array(type)) return write_array(where, type, text, is_outermost);
    if (btf_is_composite(type)) return write_members(where, type, text, is_outermost);
    if (btf_is_float(type)) return write_float(where, text);
    if (btf_is_int(type) || btf_is_any_enum(type) || btf_is_ptr(type))
      return write_number(where, type, text);
    return fail(ErrorKind::unsupported, "only integers, bool, enums, floating-point numbers, "
                                        "pointers, arrays and structs can be set");
  }

private:
  std::span<std::byte> at(const ValueLocation& where) const {
    return bytes_.subspan(where.offset, where.size);
  }

  Result<void> invalid(std::string_view text, std::string_view expected) const {
    return fail(ErrorKind::out_of_range,
                fmt::format("invalid value '{}' (expected {})", text, expected));
  }

  Result<void> write_number(const ValueLocation& where, const btf_type* type,
                            std::string_view text) {
    if (where.size == 0 || where.size > max_number_size)
      return fail(ErrorKind::corrupt, "its type is damaged");
    const unsigned bits = where.bits != 0 ? where.bits : static_cast<unsigned>(where.size * 8);
    const auto value = parse_number_of(type, text, bits);
    if (!value) {
      auto wrong = invalid(text, where.bits != 0
                                     ? fmt::format("a number that fits in {} bits", bits)
                                     : fmt::format("a number that fits in {} bytes", where.size));
      std::vector<std::string_view> names;
      for (const BtfEnumerator& known : btf_enumerators(types_, type)) names.push_back(known.name);
      if (names.empty()) return wrong;
      return fail(std::move(wrong).error().hint("or one of: " + list_names(names)));
    }
    store_bits(where, *value, bits);
    return {};
  }

  // An enum is signed if one of its enumerators is negative. clang 15 and later say so by
  // kind_flag; earlier ones do not, and their enumerators above INT_MAX look negative, so that both
  // are taken.
  std::optional<Wide> parse_number_of(const btf_type* type, std::string_view text,
                                      unsigned bits) const {
    for (const BtfEnumerator& known : btf_enumerators(types_, type))
      if (known.name == text) return sign_extended(known.value);
    if (btf_is_any_enum(type) && text.contains('|')) return parse_flags(type, text);
    const std::uint8_t encoding = btf_is_int(type) ? btf_int_encoding(type) : 0;
    if ((encoding & BTF_INT_BOOL) != 0 && (text == "true" || text == "false"))
      return text == "true" ? 1 : 0;
    const auto number = parse_typed_number(text);
    if (!number) return std::nullopt;
    const bool is_enum = btf_is_any_enum(type);
    const bool is_signed = is_enum ? btf_kflag(type) : (encoding & BTF_INT_SIGNED) != 0;
    if (fits(*number, bits, is_signed)) return number->bits();
    const auto is_known = [&](const BtfEnumerator& known) {
      return sign_extended(known.value) == number->bits();
    };
    if (is_enum && std::ranges::any_of(btf_enumerators(types_, type), is_known) &&
        fits(*number, bits, true))
      return number->bits();
    return std::nullopt;
  }

  // "F1|F4", as values are shown.
  std::optional<Wide> parse_flags(const btf_type* type, std::string_view text) const {
    const auto all = btf_enumerators(types_, type);
    Wide value = 0;
    for (const auto part : std::views::split(text, '|')) {
      const auto flag =
          std::ranges::find(all, trimmed(std::string_view(part)), &BtfEnumerator::name);
      if (flag == all.end()) return std::nullopt;
      value |= sign_extended((*flag).value);
    }
    return value;
  }

  static Wide sign_extended(std::uint64_t value) {
    const Wide upper = value >> 63 != 0 ? ~Wide{0} << 64 : 0;
    return upper | value;
  }

  // Little-endian hosts only.
  void store_bits(const ValueLocation& where, Wide value, unsigned bits) {
    const std::span<std::byte> to = at(where);
    if (where.bits == 0) {
      std::memcpy(to.data(), &value, to.size());
      return;
    }
    for (unsigned i = 0; i < bits; ++i) {
      const unsigned bit = where.first_bit + i;
      const auto mask = std::byte{1} << (bit % 8);
      std::byte& each = to[bit / 8];
      each = (value >> i & 1) != 0 ? each | mask : each & ~mask;
    }
  }

  Result<void> write_float(const ValueLocation& where, std::string_view text) {
    const auto number = parse_number<double>(text);
    if (!number) return invalid(text, "a floating-point number");
    if (where.size == sizeof(double)) {
      std::memcpy(at(where).data(), &*number, sizeof(*number));
    } else if (where.size == sizeof(float)) {
      const auto small = static_cast<float>(*number);
      std::memcpy(at(where).data(), &small, sizeof(small));
    } else {
      return fail(ErrorKind::unsupported,
                  fmt::format("floating-point numbers of {} bytes cannot be set", where.size));
    }
    return {};
  }

  // Including the NUL.
  Result<void> write_text(const ValueLocation& where, std::string_view text) {
    if (is_quoted(text)) text = text.substr(1, text.size() - 2);
    if (text.size() >= where.size)
      return invalid(text, fmt::format("text that fits in {} bytes", where.size));
    std::ranges::fill(at(where), std::byte{});
    if (!text.empty()) std::memcpy(at(where).data(), text.data(), text.size());
    return {};
  }

  Result<void> write_array(const ValueLocation& where, const btf_type* type, std::string_view text,
                           bool is_outermost) {
    const struct btf_array& array = *::btf_array(type);
    const auto list = in_braces(text);
    const ByteArray kind = classify_elements(types_, array.type);
    if (!list && (kind == ByteArray::text || (kind == ByteArray::bytes && is_quoted(text))))
      return write_text(where, text);
    if (!list && kind == ByteArray::bytes) {
      if (read_dump(text, at(where))) return {};
      // "0x1,0x2" is a list, and so is "7".
      const auto number = parse_typed_number(text);
      const bool is_list = trimmed(text).empty() || text.contains(',') ||
                           (number && (fits(*number, 8, false) || fits(*number, 8, true)));
      if (!is_outermost || !is_list)
        return invalid(text, fmt::format("numbers in braces, 0x and {} hexadecimal digits, or text "
                                         "in double quotes",
                                         2 * where.size));
    }
    if (!list && !is_outermost) return invalid(text, "elements in braces");
    const auto size = btf__resolve_size(types_, array.type);
    if (size <= 0 || static_cast<std::size_t>(size) > where.size)
      return fail(ErrorKind::unsupported, "an array without elements");
    std::ranges::fill(at(where), std::byte{});
    std::uint32_t index = 0;
    return for_each_element(list.value_or(text), [&](std::string_view element) -> Result<void> {
      if (index >= array.nelems)
        return invalid(text, fmt::format("at most {} elements", array.nelems));
      ValueLocation part{.type = array.type,
                         .offset =
                             where.offset + std::size_t{index} * static_cast<std::size_t>(size),
                         .size = static_cast<std::size_t>(size)};
      ++index;
      return write(part, element, false);
    });
  }

  Result<void> write_members(const ValueLocation& where, const btf_type* type,
                             std::string_view text, bool is_outermost) {
    const auto list = in_braces(text);
    if (!list && !is_outermost) return invalid(text, "members in braces");
    std::ranges::fill(at(where), std::byte{});
    std::uint32_t next = 0; // of members without a name
    return for_each_element(list.value_or(text), [&](std::string_view element) -> Result<void> {
      const auto equals = find_outside_braces(element, '=');
      if (equals == std::string_view::npos) {
        if (next >= btf_vlen(type))
          return invalid(text, fmt::format("at most {} members", btf_vlen(type)));
        return write(member_at(types_, where, type, next++), element, false);
      }
      std::string_view name = trimmed(element.substr(0, equals));
      if (name.starts_with('.')) name.remove_prefix(1);
      const auto member = find_member(types_, where, type, name);
      if (!member)
        return fail(Error{ErrorKind::out_of_range, fmt::format("no member '{}'", name)}.hint(
            "use one of: " + list_names(member_names(types_, type))));
      return write(*member, trimmed(element.substr(equals + 1)), false);
    });
  }

  const btf* types_;
  std::span<std::byte> bytes_;
};

// Takes "name" of "name.rest" or "name[1]".
std::string_view take_name(std::string_view& path) {
  const auto end = std::min(path.find_first_of(".["), path.size());
  const std::string_view name = path.substr(0, end);
  path.remove_prefix(end);
  return name;
}

} // namespace

std::size_t find_outside_braces(std::string_view text, char mark) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (text[i] == mark && depth == 0) return i;
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
  }
  return std::string_view::npos;
}

Result<ValueLocation> find_value_part(const btf* types, ValueLocation whole,
                                      std::string_view path) {
  while (!path.empty()) {
    const btf_type* const type = resolved_type(types, whole.type);
    if (type == nullptr) return fail(ErrorKind::corrupt, "its type is damaged");
    if (path.starts_with('.')) {
      path.remove_prefix(1);
      const std::string_view name = take_name(path);
      if (!btf_is_composite(type))
        return fail(ErrorKind::usage, fmt::format("it has no member '{}'", name));
      const auto member = find_member(types, whole, type, name);
      if (!member)
        return fail(Error{ErrorKind::usage, fmt::format("it has no member '{}'", name)}.hint(
            "use one of: " + list_names(member_names(types, type))));
      whole = *member;
      continue;
    }
    const auto close = path.find(']');
    const auto index = path.starts_with('[') && close != std::string_view::npos
                           ? parse_number<std::uint32_t>(path.substr(1, close - 1))
                           : std::nullopt;
    if (!index) return fail(ErrorKind::usage, fmt::format("invalid index '{}'", path));
    path.remove_prefix(close + 1);
    if (!btf_is_array(type)) return fail(ErrorKind::usage, "it is not an array");
    const struct btf_array& array = *::btf_array(type);
    const auto size = btf__resolve_size(types, array.type);
    if (*index >= array.nelems || size <= 0)
      return fail(ErrorKind::usage,
                  fmt::format("index {} is too large, it has {} elements", *index, array.nelems));
    whole = {.type = array.type,
             .offset = whole.offset + std::size_t{*index} * static_cast<std::size_t>(size),
             .size = static_cast<std::size_t>(size)};
  }
  return whole;
}

Result<void> write_value(const btf* types, const ValueLocation& where, std::string_view text,
                         std::span<std::byte> bytes) {
  return ValueWriter(types, bytes).write(where, text, true);
}

Result<void> write_untyped_value(std::string_view text, std::span<std::byte> bytes) {
  const auto number = parse_typed_number(text);
  if (bytes.size() <= max_number_size && !bytes.empty() && number &&
      (fits(*number, static_cast<unsigned>(bytes.size() * 8), number->is_negative))) {
    const Wide value = number->bits();
    std::memcpy(bytes.data(), &value, bytes.size());
    return {};
  }
  if (!bytes.empty() && read_dump(text, bytes)) return {};
  return fail(ErrorKind::out_of_range,
              fmt::format("invalid value '{}' (expected {})", text,
                          bytes.size() <= max_number_size
                              ? fmt::format("a number that fits in {} bytes", bytes.size())
                              : fmt::format("0x and {} hexadecimal digits", 2 * bytes.size())));
}

} // namespace uprobectl::bpf
