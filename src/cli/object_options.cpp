// SPDX-License-Identifier: Apache-2.0
#include "object_options.hpp"

#include "bpf/object_values.hpp"
#include "requests.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// "NAME=VALUE"
std::optional<std::pair<std::string, std::string>> split_assignment(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// Reads "MAP KEY=VALUE" and "MAP @FILE", whose lines are KEY=VALUE, or empty, or begin with '#'.
Result<std::vector<bpf::MapFill>> read_map_fills(const std::vector<std::string>& typed,
                                                 Workstation& workstation) {
  std::vector<bpf::MapFill> fills;
  const auto add = [&](std::string_view map, std::string_view entry,
                       bpf::LinePosition position) -> Result<void> {
    const auto equals = bpf::find_outside_braces(entry, '=');
    if (equals == std::string_view::npos)
      return fail(
          ErrorKind::usage,
          fmt::format("invalid value '{} {}' for --fill (expected MAP KEY=VALUE)", map, entry));
    fills.push_back({.map = std::string(map),
                     .key = std::string(trimmed(entry.substr(0, equals))),
                     .value = std::string(trimmed(entry.substr(equals + 1))),
                     .position = std::move(position)});
    return {};
  };
  for (const std::string& text : typed) {
    const auto blank = std::min(text.find(' '), text.size());
    const std::string_view map = std::string_view(text).substr(0, blank);
    const std::string_view entry = trimmed(std::string_view(text).substr(blank));
    if (!entry.starts_with('@')) {
      if (auto added = add(map, entry, {}); !added) return fail(std::move(added).error());
      continue;
    }
    constexpr std::size_t max_size = std::size_t{64} << 20U;
    auto file = FileText::read(std::string(entry.substr(1)), workstation, max_size);
    if (!file) return fail(std::move(file).error());
    bpf::LinePosition position{.file = std::make_shared<const std::string>(file->name()),
                               .line = 0};
    auto done = file->for_each_line([&](std::string_view line) -> Result<void> {
      ++position.line;
      line = trimmed(line);
      if (line.empty() || line.starts_with('#')) return {};
      return add(map, line, position);
    });
    if (!done) return fail(std::move(done).error());
  }
  return fills;
}

} // namespace

void bind_object_options(OptionParser& parser, ObjectOptions& options) {
  parser.bind("--set", options.globals);
  parser.bind("--map-entries", options.map_entries);
  parser.bind("--fill", options.fills);
  parser.bind("--btf", options.kernel_types);
}

Result<bpf::ObjectSettings> parse_object_settings(const OptionParser& parser,
                                                  const ObjectOptions& options,
                                                  Workstation& workstation) {
  bpf::ObjectSettings settings;
  for (const std::string& text : options.globals) {
    auto assignment = split_assignment(text);
    if (!assignment)
      return fail(parser.usage_error(
          fmt::format("invalid value '{}' for --set (expected NAME=VALUE)", text)));
    settings.globals.push_back(std::move(*assignment));
  }
  for (const std::string& text : options.map_entries) {
    const auto assignment = split_assignment(text);
    const auto count = assignment ? parse_number<std::uint32_t>(assignment->second) : std::nullopt;
    if (count.value_or(0) == 0)
      return fail(parser.usage_error(
          fmt::format("invalid value '{}' for --map-entries (expected MAP=N)", text)));
    settings.map_entries.emplace_back(assignment->first, *count);
  }
  auto fills = read_map_fills(options.fills, workstation);
  if (!fills && fills.error().kind == ErrorKind::usage)
    return fail(parser.usage_error(std::move(fills).error().message));
  if (!fills) return fail(std::move(fills).error());
  settings.fills = std::move(*fills);
  return settings;
}

} // namespace uprobectl::cli
