// SPDX-License-Identifier: Apache-2.0
#include "events/presentation.hpp"

#include "util/errnos.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace uprobectl::events {

namespace {

using Shown = Presentation::Kind;

constexpr std::size_t dump_row_bytes = 16;
constexpr std::uint32_t pointer_bytes = 8; // the types of integers do not depend on it

Error invalid_name(std::string_view part, std::string_view expected) {
  return {ErrorKind::usage,
          fmt::format("invalid name {} (expected {})", in_single_quotes(part), expected)};
}

// A number, "-1", or a character in single quotes.
std::optional<std::uint64_t> parse_named_number(std::string_view text) {
  if (text.size() == 3 && text.front() == '\'' && text.back() == '\'')
    return static_cast<unsigned char>(text[1]);
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const auto number = parse_unsigned(text);
  if (number && is_negative) return std::uint64_t{0} - *number;
  return number;
}

// Says what follows the '/' after a number, if anything.
enum class AfterSlash : std::uint8_t { nothing, mask, selected };

Result<Presentation::Name> parse_name(std::string_view part, AfterSlash after) {
  const auto equals = part.find('=');
  Presentation::Name made;
  made.text = trimmed(part.substr(0, equals), " ");
  if (equals == std::string_view::npos || made.text.empty())
    return fail(invalid_name(part, after == AfterSlash::mask       ? "NAME=BITS or NAME=BITS/MASK"
                                   : after == AfterSlash::selected ? "NAME=NUMBER/NUMBER or '*'"
                                                                   : "NAME=NUMBER or '*'"));
  std::string_view number = part.substr(equals + 1);
  const auto slash = after == AfterSlash::nothing ? std::string_view::npos : number.find('/');
  const auto value = parse_named_number(trimmed(number.substr(0, slash), " "));
  if (!value) return fail(invalid_name(part, "a number after '='"));
  made.value = *value;
  made.mask = *value;
  if (slash != std::string_view::npos) {
    const auto mask = parse_named_number(trimmed(number.substr(slash + 1), " "));
    if (!mask || (after == AfterSlash::mask && (*value & ~*mask) != 0))
      return fail(invalid_name(part, after == AfterSlash::mask
                                         ? "a mask after '/' with all bits of the number"
                                         : "a number after '/'"));
    made.mask = *mask;
  } else if (after == AfterSlash::selected) {
    return fail(invalid_name(part, "NAME=NUMBER/NUMBER or '*'"));
  }
  return made;
}

// Removes the sign or zero extension: keeps the bytes of the type.
std::uint64_t low_bytes(std::uint64_t number, ArgumentType type) {
  const std::uint32_t size = size_of(type, pointer_bytes);
  return size >= sizeof(number) ? number : number & ((std::uint64_t{1} << (8 * size)) - 1);
}

values::Value named_number(std::string text, const RawArgument& value) {
  return {values::Value::Name{std::move(text), static_cast<std::int64_t>(value.number)}};
}

std::optional<values::Value> name_of(const Presentation& how, const RawArgument& value,
                                     std::optional<std::uint64_t> selected) {
  if (!how.selector.empty() && !selected) return std::nullopt;
  const std::uint64_t number = low_bytes(value.number, value.type);
  const auto found = std::ranges::find_if(how.names, [&](const Presentation::Name& each) {
    if (!how.selector.empty() && each.mask != *selected) return false;
    return low_bytes(each.value, value.type) == number;
  });
  if (found != how.names.end()) return named_number(found->text, value);
  if (how.has_other_names) return std::nullopt;
  return named_number(is_signed(value.type)
                          ? fmt::format("{}?", static_cast<std::int64_t>(value.number))
                          : fmt::format("{}?", value.number),
                      value);
}

values::Value flags_of(const Presentation& how, const RawArgument& value) {
  const std::uint64_t number = low_bytes(value.number, value.type);
  std::uint64_t rest = number;
  std::string text;
  const auto add = [&](std::string_view part) {
    if (!text.empty()) text += '|';
    text += part;
  };
  for (const Presentation::Name& each : how.names) {
    // A name with value 0 and without a mask applies if no flag is set.
    const bool applies = each.mask == 0 ? number == 0 : (number & each.mask) == each.value;
    if (!applies || (each.value != 0 && (rest & each.value) == 0)) continue;
    rest &= ~each.value;
    add(each.text);
  }
  if (rest != 0 || text.empty()) add(rest == 0 ? "0" : fmt::format("{:#x}", rest));
  return named_number(std::move(text), value);
}

std::optional<values::Value> error_name(const RawArgument& value) {
  auto name = errno_name(static_cast<std::int64_t>(value.number));
  if (!name) return std::nullopt;
  return named_number(std::move(*name), value);
}

values::Value octal_of(const RawArgument& value) {
  const std::uint64_t number = low_bytes(value.number, value.type);
  return named_number(number == 0 ? "0" : fmt::format("0{:o}", number), value);
}

std::optional<values::Value> time_of(const RawArgument& value) {
  const auto whole = static_cast<std::time_t>(value.number);
  std::tm parts{};
  std::array<char, 64> text{};
  if (gmtime_r(&whole, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return std::nullopt;
  return named_number(text.data(), value);
}

// Returns the descriptor with the path that the process has open there now, like strace -y.
std::optional<values::Value> descriptor(const RawArgument& value, std::uint32_t pid) {
  const auto number = static_cast<std::int64_t>(value.number);
  if (number < 0 || pid == 0) return std::nullopt;
  std::error_code error;
  const auto path =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, number), error);
  if (error) return std::nullopt;
  return named_number(fmt::format("{}<{}>", number, path.native()), value);
}

std::string address_text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, address, text.data(), text.size()) == nullptr ? std::string()
                                                                         : text.data();
}

// Returns nullopt if the structure is truncated.
template <typename Structure>
std::optional<Structure> structure_of(std::string_view bytes) {
  if (bytes.size() < sizeof(Structure)) return std::nullopt;
  Structure made;
  std::memcpy(&made, bytes.data(), sizeof(made));
  return made;
}

std::string unix_path(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.size(), offsetof(sockaddr_un, sun_path)));
  const bool is_abstract = bytes.starts_with('\0'); // unix(7)
  if (is_abstract) bytes.remove_prefix(1);
  return fmt::format("unix:{}{}", is_abstract ? "@" : "", bytes.substr(0, bytes.find('\0')));
}

// Source: sys/socket.h, netinet/in.h and sys/un.h of Linux; ports are big-endian.
values::Value socket_address(std::string_view bytes) {
  sa_family_t family = 0;
  if (bytes.size() < sizeof(family)) return {values::Value::Unreadable{"too short"}};
  std::memcpy(&family, bytes.data(), sizeof(family));
  if (family == AF_UNIX) return {values::Value::Name{unix_path(bytes)}};
  if (family == AF_INET) {
    if (const auto in = structure_of<sockaddr_in>(bytes))
      return {values::Value::Name{
          fmt::format("{}:{}", address_text(AF_INET, &in->sin_addr), ntohs(in->sin_port))}};
  } else if (family == AF_INET6) {
    if (const auto in = structure_of<sockaddr_in6>(bytes))
      return {values::Value::Name{
          fmt::format("[{}]:{}", address_text(AF_INET6, &in->sin6_addr), ntohs(in->sin6_port))}};
  } else {
    return {values::Value::Name{fmt::format("family {}", family)}};
  }
  return {values::Value::Unreadable{"too short"}};
}

values::Value element_at(std::string_view bytes, ArgumentType type) {
  RawArgument value{.type = type};
  std::memcpy(&value.number, bytes.data(), size_of(type, pointer_bytes));
  const unsigned above = 64 - 8 * size_of(type, pointer_bytes);
  if (is_signed(type))
    value.number = static_cast<std::uint64_t>(static_cast<std::int64_t>(value.number << above) >>
                                              static_cast<int>(above));
  return plain_value(value);
}

values::Value array_of(const RawArgument& value, ArgumentType element) {
  values::Value::Array all;
  const std::uint32_t size = size_of(element, pointer_bytes);
  for (std::size_t at = 0; at + size <= value.bytes.size(); at += size)
    all.push_back(element_at(std::string_view(value.bytes).substr(at, size), element));
  if (value.is_truncated) all.push_back({values::Value::Omitted{}});
  return {std::move(all)};
}

values::Value text_value(RawArgument raw) {
  if (raw.is_truncated) return {values::Value::TruncatedString{std::move(raw.bytes)}};
  return {std::move(raw.bytes)};
}

values::Value bytes_value(const RawArgument& raw, bool is_dump = false) {
  const Bytes bytes = std::as_bytes(std::span(raw.bytes));
  return {values::Value::Raw{{bytes.begin(), bytes.end()}, raw.is_truncated, is_dump}};
}

// Returns nullopt, and leaves the argument as it is, if the type alone says how to show it.
std::optional<values::Value> present_if(const Presentation& how, RawArgument& value,
                                        std::uint32_t pid, std::optional<std::uint64_t> selected) {
  switch (how.kind) {
  case Shown::names:
    return name_of(how, value, selected);
  case Shown::flags:
    return flags_of(how, value);
  case Shown::error_number:
    return error_name(value);
  case Shown::octal:
    return octal_of(value);
  case Shown::file_descriptor:
    return descriptor(value, pid);
  case Shown::time:
    return time_of(value);
  case Shown::ipv4_address: {
    const auto address = static_cast<std::uint32_t>(value.number); // big-endian in memory
    return named_number(address_text(AF_INET, &address), value);
  }
  case Shown::ipv6_address:
    if (value.bytes.size() < sizeof(in6_addr))
      return values::Value{values::Value::Unreadable{"too short"}};
    return values::Value{values::Value::Name{address_text(AF_INET6, value.bytes.data())}};
  case Shown::socket_address:
    return socket_address(value.bytes);
  case Shown::array:
    return array_of(value, how.element);
  case Shown::text:
    return text_value(std::move(value));
  case Shown::hexdump:
    return bytes_value(value, true);
  }
  return std::nullopt;
}

} // namespace

double widen_float(float value) {
  std::array<char, 32> digits{};
  // std::to_chars is not used, because its tables of powers are 126 kB.
  const char* const end = fmt::format_to(digits.data(), "{}", value);
  double wide = value;
  std::from_chars(digits.data(), end, wide);
  return wide;
}

values::Value plain_value(RawArgument raw) {
  switch (raw.type) {
  case ArgumentType::s8:
  case ArgumentType::s16:
  case ArgumentType::s32:
  case ArgumentType::s64:
    return {static_cast<std::int64_t>(raw.number)};
  case ArgumentType::u8:
  case ArgumentType::u16:
  case ArgumentType::u32:
  case ArgumentType::u64:
    return {raw.number};
  case ArgumentType::x8:
  case ArgumentType::x16:
  case ArgumentType::x32:
  case ArgumentType::x64:
    return {values::Value::Hex{raw.number}};
  case ArgumentType::ptr:
    return {values::Value::Pointer{raw.number}};
  case ArgumentType::f32:
    return {widen_float(std::bit_cast<float>(static_cast<std::uint32_t>(raw.number)))};
  case ArgumentType::f64:
    return {std::bit_cast<double>(raw.number)};
  case ArgumentType::boolean:
    return {raw.number != 0}; // the type is the user's word, so this is a conversion
  case ArgumentType::character:
    return {values::Value::Character{static_cast<char>(raw.number)}};
  case ArgumentType::string:
  case ArgumentType::cxx_string:
  case ArgumentType::java_string:
    return text_value(std::move(raw));
  case ArgumentType::bytes:
    break;
  }
  return bytes_value(raw);
}

std::span<const NamedPresentation> named_presentations() {
  static constexpr std::array all = {
      NamedPresentation{"errno", Shown::error_number, ArgumentType::s32, 0},
      NamedPresentation{"oct", Shown::octal, ArgumentType::u32, 0},
      NamedPresentation{"fd", Shown::file_descriptor, ArgumentType::s32, 0},
      NamedPresentation{"time", Shown::time, ArgumentType::s64, 0},
      NamedPresentation{"in_addr", Shown::ipv4_address, ArgumentType::u32, 0},
      NamedPresentation{"in6_addr", Shown::ipv6_address, ArgumentType::bytes, sizeof(in6_addr)},
      NamedPresentation{"sockaddr", Shown::socket_address, ArgumentType::bytes,
                        sizeof(sockaddr_un)},
      NamedPresentation{"hexdump", Shown::hexdump, ArgumentType::bytes, 0},
  };
  return all;
}

Result<Presentation> parse_names(std::string_view text) {
  Presentation made;
  const bool is_flags = text.starts_with('|');
  made.kind = is_flags ? Shown::flags : Shown::names;
  if (is_flags) text.remove_prefix(1);
  if (const auto colon = text.find(':'); !is_flags && colon < text.find('=')) {
    made.selector = trimmed(text.substr(0, colon), " ");
    if (!is_identifier(made.selector))
      return fail(invalid_name(made.selector, "the name of an argument before ':'"));
    text.remove_prefix(colon + 1);
  }
  const AfterSlash after = is_flags                ? AfterSlash::mask
                           : made.selector.empty() ? AfterSlash::nothing
                                                   : AfterSlash::selected;
  for (;;) {
    const auto comma = text.find(',');
    const std::string_view part = trimmed(text.substr(0, comma), " ");
    if (made.names.size() == max_names)
      return fail(ErrorKind::usage, fmt::format("more than {} names", max_names));
    if (part == "*" && !is_flags) {
      made.has_other_names = true;
    } else {
      auto name = parse_name(part, after);
      if (!name) return fail(std::move(name).error());
      made.names.push_back(std::move(*name));
    }
    if (comma == std::string_view::npos) return made;
    text.remove_prefix(comma + 1);
  }
}

values::Value present(const Presentation& how, RawArgument raw, std::uint32_t pid,
                      std::optional<std::uint64_t> selected) {
  auto shown = present_if(how, raw, pid, selected);
  return shown ? std::move(*shown) : plain_value(std::move(raw));
}

std::vector<std::string> hexdump_rows(Bytes bytes) {
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < bytes.size(); at += dump_row_bytes) {
    const Bytes row = bytes.subspan(at, std::min(dump_row_bytes, bytes.size() - at));
    std::string hex;
    std::string characters;
    for (const std::byte byte : row) {
      const auto code = std::to_integer<unsigned char>(byte);
      fmt::format_to(std::back_inserter(hex), " {:02x}", code);
      characters += code >= 0x20 && code < 0x7f ? static_cast<char>(code) : '.';
    }
    rows.push_back(fmt::format("{:04x} {:<48}  |{}|", at, hex, characters));
  }
  return rows;
}

} // namespace uprobectl::events
