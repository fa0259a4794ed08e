// SPDX-License-Identifier: Apache-2.0
#include "resolve/source_lines.hpp"

#include "dwarf/lines.hpp"
#include "util/shell_words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

using LineAddresses = std::vector<dwarf::LineAddress>;

// "work:12" may mean a line of the function, or of the file that has it.
Error hint_at_function(const Query& query, const dwarf::DebugInfo& debug,
                       const dwarf::IsCode& is_code, Error error) {
  const auto& [form, request, name, number, plus] = query.function;
  const auto named = symbols::find_by_name(query.image, name);
  if (error.kind != ErrorKind::not_found || !named || named->empty()) return error;
  const auto lines = dwarf::lines_of_function(debug, named->front().address, is_code);
  const bool is_of_file = lines && number > lines->last - lines->first;
  error.hints.insert(error.hints.begin(),
                     is_of_file
                         ? "for a line of its file: " +
                               shell_word(fmt::format(
                                   "{}:{}", lines->file.substr(lines->file.rfind('/') + 1), number))
                         : fmt::format("for a line of the function, counted from its first: {}",
                                       shell_word(fmt::format("{}:+{}", name, number))));
  return error;
}

Result<LineAddresses> line_addresses_of(const Query& query, const dwarf::DebugInfo& debug,
                                        std::span<const ProbePoint> functions) {
  const auto is_code = [&](VirtualAddress address) { return is_in_code(query.image, address); };
  const auto line = static_cast<std::uint32_t>(query.function.number);
  const auto statements =
      query.options.all ? dwarf::Statements::all : dwarf::Statements::first_of_run;
  if (query.function.form == FunctionSpec::Form::source_line) {
    auto found = dwarf::line_addresses(debug, query.function.name, line, is_code, statements);
    if (!found) return fail(hint_at_function(query, debug, is_code, std::move(found).error()));
    return found;
  }
  LineAddresses all;
  for (const ProbePoint& function : functions) {
    auto found = dwarf::function_line_addresses(debug, function.address, line, is_code, statements);
    if (!found) return found;
    std::ranges::move(*found, std::back_inserter(all));
  }
  return all;
}

// Resolves the address as a number does, with its checks.
Result<ProbePoint> point_of(const Query& query, const dwarf::LineAddress& start) {
  Query at = query;
  at.function = {.form = FunctionSpec::Form::virtual_address,
                 .request = query.function.request,
                 .name = {},
                 .number = start.address.value,
                 .plus = std::nullopt};
  auto points = resolve_number(at);
  if (!points) return fail(std::move(points).error());
  ProbePoint point = std::move(points->front());
  SourceLine source{.file = start.file, .line = start.line, .inlined = std::nullopt};
  if (start.inlined) source.inlined = symbols::demangle(*start.inlined).value_or(*start.inlined);
  point.source = std::make_shared<const SourceLine>(std::move(source));
  return point;
}

} // namespace

bool is_in_code(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.find_segment(address);
  return segment != nullptr && segment->executable;
}

Result<std::vector<ProbePoint>> resolve_lines(const Query& query, const dwarf::DebugInfo& debug,
                                              std::span<const ProbePoint> functions) {
  auto found = line_addresses_of(query, debug, functions);
  if (!found) {
    Error error = std::move(found).error().within(query.subject());
    for (const std::string& warning : debug.warnings())
      error.hints.push_back("some of the debug information is not used: " + warning);
    return fail(std::move(error));
  }
  constexpr std::size_t few = 4;
  if (found->size() > few) query.code.file().expect_many_addresses();
  std::vector<ProbePoint> points;
  for (const dwarf::LineAddress& start : *found) {
    auto point = point_of(query, start);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  std::ranges::sort(points, {}, &ProbePoint::image_offset);
  const auto repeated = std::ranges::unique(points, {}, &ProbePoint::image_offset);
  points.erase(repeated.begin(), repeated.end());
  for (const std::string& warning : debug.warnings())
    points.front().warnings.push_back(fmt::format("{}: {}", query.subject(), warning));
  return points;
}

} // namespace uprobectl::resolve
