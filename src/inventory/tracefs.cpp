#include "uprobectl/inventory.hpp"

#include <algorithm>
#include <charconv>

namespace uprobectl {

namespace {

std::optional<TracefsEvent> parse_event(std::string_view line) {
  if (line.size() < 3 || (line[0] != 'p' && line[0] != 'r')) return std::nullopt;
  const auto colon = line.find(':');
  const auto space = line.find(' ');
  if (colon == std::string_view::npos || space == std::string_view::npos || colon > space)
    return std::nullopt;
  TracefsEvent event{.name = std::string(line.substr(colon + 1, space - colon - 1)),
                     .on_return = line[0] == 'r',
                     .path = {},
                     .offset = {}};
  // The kernel writes the offset as 0x and at least 16 digits, so that this is the last ":0x"
  // before the arguments; a path may hold a colon, but no space.
  const auto place = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
  const auto at = place.rfind(":0x");
  if (at == std::string_view::npos) return std::nullopt;
  event.path = place.substr(0, at);
  const auto digits = place.substr(at + 3);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), event.offset.value, 16);
  if (error != std::errc() || (end != digits.data() + digits.size() && *end != '('))
    return std::nullopt;
  return event;
}

} // namespace

ListedEvents parse_uprobe_events(std::string_view text) {
  ListedEvents result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (auto event = parse_event(line))
      result.events.push_back(std::move(*event));
    else
      ++result.unknown_lines;
  }
  return result;
}

} // namespace uprobectl
