#include "events/words.hpp"

#include "events/registers.hpp"

#include <algorithm>
#include <charconv>

namespace uprobectl {

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const stop = begin + text.size();
  const auto [end, error] = std::from_chars(begin, stop, value, base);
  if (error != std::errc() || end != stop || text.empty()) return std::nullopt;
  return value;
}

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

std::optional<ArgumentSource> parse_source_name(std::string_view name) {
  ArgumentSource source;
  if (name == "ret") {
    source.kind = ArgumentSource::Kind::returned;
    return source;
  }
  constexpr std::uint64_t most = 63; // beyond that nobody has arguments
  if (name.starts_with("arg")) {
    const auto number = parse_unsigned(name.substr(3));
    if (!number || *number > most || name.substr(3).starts_with("0x")) return std::nullopt;
    source.number = static_cast<std::uint32_t>(*number);
    return source;
  }
  if (!register_number(name)) return std::nullopt;
  source.kind = ArgumentSource::Kind::machine_register;
  source.register_name = name;
  return source;
}

} // namespace uprobectl
