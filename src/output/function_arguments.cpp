// SPDX-License-Identifier: Apache-2.0
#include "output/function_arguments.hpp"

#include "output/format.hpp"
#include "output/json_record.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

const ArchInfo& arch_of(const ArgumentsRecord& record) {
  return record.point->binary->machine.info();
}

std::string location_text(const dwarf::Location& location, const ArchInfo& arch) {
  const std::string text = dwarf::to_string(location, arch);
  return location.is_readable() ? text : fmt::format("<{}>", printable(text));
}

using Line = std::array<std::string, 3>; // name, type, location

std::vector<Line> lines_of(const ArgumentsRecord& record) {
  const ArchInfo& arch = arch_of(record);
  std::vector<Line> lines;
  for (const dwarf::Variable& variable : record.function->variables) {
    std::string name = variable.name.empty() ? "(unnamed)" : printable(variable.name);
    if (!variable.inlined_function.empty())
      name = fmt::format("{}::{}", printable(variable.inlined_function), name);
    lines.push_back({std::move(name), printable(variable.type->name()),
                     location_text(variable.location, arch)});
  }
  if (record.function->is_variadic) lines.push_back({"...", "", ""});
  if (record.function->result->kind() != dwarf::TypeKind::none)
    lines.push_back({"=", printable(record.function->result->name()),
                     location_text(record.function->result_location, arch)});
  return lines;
}

void append_location(JsonRecord& json, const dwarf::Location& location, const ArchInfo& arch) {
  using Text = std::optional<std::string>;
  json.key("location", location.is_readable() ? Text(to_string(location, arch)) : Text());
  json.key("problem", location.is_readable() ? Text() : Text(location.problem));
}

void append_variables(std::string& out, const ArgumentsRecord& record, bool parameters) {
  out += '[';
  bool first = true;
  for (const dwarf::Variable& variable : record.function->variables) {
    const bool is_own = variable.is_parameter && variable.inlined_function.empty();
    if (is_own != parameters) continue;
    if (!first) out += ',';
    first = false;
    JsonRecord::append_object(out, [&](JsonRecord& json) {
      json.key("name", variable.name);
      json.key("type", variable.type->name());
      append_location(json, variable.location, arch_of(record));
      if (parameters)
        json.key("artificial", variable.is_artificial);
      else
        json.key("inlined_function", variable.inlined_function.empty()
                                         ? std::nullopt
                                         : std::optional(variable.inlined_function));
    });
  }
  out += ']';
}

} // namespace

std::string function_arguments_text(const ArgumentsRecord& record) {
  const dwarf::FunctionInfo& function = *record.function;
  const resolve::ProbePoint& point = *record.point;
  const std::string path = to_string(point.binary->path);
  std::string text = fmt::format("{}  {}@{:#x}", printable(display_name(point)),
                                 printable(std::string_view(path).substr(path.rfind('/') + 1)),
                                 display_offset(point));
  if (!function.file.empty())
    text += function.line == 0 ? fmt::format("  {}", printable(function.file))
                               : fmt::format("  {}:{}", printable(function.file), function.line);
  text += '\n';
  const std::vector<Line> lines = lines_of(record);
  std::array<std::size_t, 2> widths = {};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const Line& line : lines) {
    std::string row =
        fmt::format("  {:{}}  {:{}}  {}", line[0], widths[0], line[1], widths[1], line[2]);
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  }
  return text;
}

void append_json_arguments(JsonRecord& json, const ArgumentsRecord& record) {
  const dwarf::FunctionInfo& function = *record.function;
  json.key("function", function.name);
  json.key("source_file", function.file.empty() ? std::nullopt : std::optional(function.file));
  json.key("source_line", function.line == 0 ? std::nullopt : std::optional(function.line));
  json.key("variadic", function.is_variadic);
  json.key("parameters", [&](std::string& out) { append_variables(out, record, true); });
  json.key("variables", [&](std::string& out) { append_variables(out, record, false); });
  json.key("result", [&](std::string& out) {
    if (function.result->kind() == dwarf::TypeKind::none) {
      out += "null";
      return;
    }
    JsonRecord::append_object(out, [&](JsonRecord& result) {
      result.key("type", function.result->name());
      append_location(result, function.result_location, arch_of(record));
    });
  });
}

} // namespace uprobectl::output
