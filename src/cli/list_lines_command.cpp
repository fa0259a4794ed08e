// SPDX-License-Identifier: Apache-2.0
// The subcommand list-lines: source text, and which lines can be probed.
#include "console.hpp"
#include "debuginfod.hpp"
#include "requests.hpp"
#include "resolve/source_text.hpp"
#include "target_options.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <iterator>

namespace uprobectl::cli {

namespace {

// FUNCTION or FILE[:A-B], as typed.
struct LinesRequest {
  std::string_view name;
  std::uint32_t first = 1;
  std::optional<std::uint32_t> last = {};
  bool is_file = false; // has a range
};

std::optional<std::uint32_t> line_number(std::string_view text) {
  const auto number = parse_number<std::uint32_t>(text, 10);
  return number && *number > 0 ? number : std::nullopt;
}

// "FILE:A-B", "FILE:A-", "FILE:-B" and "FILE:A"; anything else is a name.
LinesRequest parse_lines_request(std::string_view text) {
  const LinesRequest whole{.name = text};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text[colon - 1] == ':') return whole;
  LinesRequest request{.name = text.substr(0, colon), .is_file = true};
  const std::string_view range = text.substr(colon + 1);
  const auto dash = range.find('-');
  const auto first = line_number(range.substr(0, dash));
  if (dash == std::string_view::npos) {
    if (!first) return whole;
    request.first = *first;
    request.last = first;
    return request;
  }
  const std::string_view end = range.substr(dash + 1);
  if (range == "-" || (dash > 0 && !first) || (!end.empty() && !line_number(end))) return whole;
  request.first = first.value_or(1);
  if (!end.empty()) request.last = line_number(end);
  return request;
}

// Adds the lines of a function, those of its clones to its own.
void add_lines(std::vector<resolve::SourceLines>& found, resolve::SourceLines lines) {
  const auto same = std::ranges::find_if(found, [&](const resolve::SourceLines& each) {
    return each.file == lines.file && each.first == lines.first;
  });
  if (same == found.end()) {
    found.push_back(std::move(lines));
    return;
  }
  same->last = std::max(same->last, lines.last);
  std::vector<std::uint32_t> all;
  std::ranges::set_union(same->with_code, lines.with_code, std::back_inserter(all));
  same->with_code = std::move(all);
}

// Returns the lines of each body of a function, or of a file if no function has the name.
Result<std::vector<resolve::SourceLines>> find_lines(const resolve::Target& target,
                                                     const LinesRequest& request) {
  std::vector<resolve::SourceLines> found;
  std::optional<Error> no_function;
  if (!request.is_file) {
    const auto function = resolve::parse_function(request.name);
    if (!function) return fail(function.error());
    auto points = target.resolve(*function, {});
    if (points) {
      for (const resolve::ProbePoint& point : *points) {
        auto lines = target.lines_of_function(point.address);
        if (!lines) return fail(std::move(lines).error());
        add_lines(found, std::move(*lines));
      }
      return found;
    }
    if (points.error().kind != ErrorKind::not_found) return fail(std::move(points).error());
    no_function = std::move(points).error();
  }
  auto lines = target.lines_of_file(request.name);
  if (!lines) {
    // A name with a dot or a folder is meant as a file.
    const bool is_function = no_function && lines.error().kind == ErrorKind::not_found &&
                             request.name.find_first_of("./") == std::string_view::npos;
    return fail(is_function ? std::move(*no_function) : std::move(lines).error());
  }
  lines->first = request.first;
  lines->last = request.last;
  found.push_back(std::move(*lines));
  return found;
}

// Writes the lines with their text, or without it only those with code.
void write_lines(const resolve::SourceLines& lines, const resolve::ProbedBinary& binary,
                 const resolve::SourceSearch& where, DebugFetching& fetching,
                 output::Output& output) {
  const std::uint32_t last = lines.last.value_or(UINT32_MAX);
  output::SourceLineRecord record{.binary = &binary, .source = lines.file};
  std::shared_ptr<const MappedFile> text_file;
  if (const auto path = find_source(lines.file, where)) {
    auto opened = MappedFile::open(*path);
    if (opened)
      text_file = std::make_shared<const MappedFile>(std::move(*opened));
    else
      output.warn_once(opened.error().message);
  } else {
    text_file = fetching.find_source(binary.build_id, lines.file);
    if (text_file == nullptr)
      output.warn_once(lines.file + ": source file not found, so only the lines with code are "
                                    "listed (--source-dir DIR searches it there)");
  }
  std::uint32_t shown = 0; // the last line with text
  if (text_file != nullptr) {
    output.detail("source text from " + text_file->path());
    resolve::visit_source_lines(as_text(text_file->bytes()), lines.first, last,
                                [&](std::uint32_t line, std::string_view text) {
                                  record.line = line;
                                  record.text = text;
                                  record.probeable =
                                      std::ranges::binary_search(lines.with_code, line);
                                  output.write(record);
                                  shown = line;
                                });
  }
  std::size_t beyond = 0; // lines with code that the file does not have
  record.text = std::nullopt;
  record.probeable = true;
  for (const std::uint32_t line : lines.with_code) {
    if (line < lines.first || line > last || line <= shown) continue;
    record.line = line;
    output.write(record);
    ++beyond;
  }
  if (shown == 0 && beyond == 0) {
    output.fail({ErrorKind::not_found, lines.file + ": the range has no lines"}, binary.target,
                lines.file);
    return;
  }
  if (shown > 0 && beyond > 0)
    output.warn_once(text_file->path() +
                     ": has fewer lines than the debug information, it is another version");
}

void list_lines(const Requests::Line& line, const resolve::TargetOptions& options,
                const resolve::SourceSearch& where, DebugFetching& fetching,
                output::Output& output) {
  const std::string_view text = line.functions.front();
  const LinesRequest request = parse_lines_request(text);
  const auto targets = find_files(line, text, WordKind::lines, options, output);
  if (!targets) return;
  visit_files(*targets, options, output, [&](const resolve::Target& target) {
    const auto found = find_lines(target, request);
    if (!found) {
      output.fail(explain_line(found.error(), line, text, WordKind::lines), line.target,
                  std::string(request.name));
      return;
    }
    report_debug_files(target, output);
    for (const resolve::SourceLines& lines : *found)
      write_lines(lines, target.binary(), where, fetching, output);
  });
}

} // namespace

ExitCode run_list_lines(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("list-lines");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments words;
  bind_target_options(parser, words, options);
  resolve::SourceSearch where;
  parser.bind("--source-dir", where.folders);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  return run_listing(parser, options, *parsed, WordKind::lines, std::move(words),
                     [&](std::span<const Requests::Line> lines,
                         const resolve::TargetOptions& found_by, DebugFetching& fetching,
                         output::Output& output) {
                       where.debug_paths = found_by.debug_paths;
                       for (const Requests::Line& line : lines)
                         list_lines(line, found_by, where, fetching, output);
                     });
}

} // namespace uprobectl::cli
