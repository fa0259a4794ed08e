// SPDX-License-Identifier: Apache-2.0
#include "verdict_options.hpp"

#include "option_values.hpp"
#include "output/export_file.hpp"
#include "requests.hpp"
#include "verify/record_file.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::cli {

namespace {

// The recorded matches, and whether the file has the short form.
struct Record {
  std::vector<verify::RecordedMatch> matches;
  bool is_short = false;
};

// Reads the recorded matches of a file of JSON Lines ("-": stdin) and skips other records.
Result<Record> read_record(const std::string& path, Workstation& workstation) {
  const auto file = FileText::read(path, workstation);
  if (!file) return fail(file.error());
  verify::RecordFileReader reader(record_folder(path, workstation));
  auto done = file->for_each_line([&](std::string_view line) { return reader.read_line(line); });
  if (!done) return fail(std::move(done).error());
  Record record{.matches = reader.take(), .is_short = reader.is_short()};
  if (record.matches.empty())
    return fail(Error{ErrorKind::not_found, path + ": contains no match or usdt records"}.hint(
        "record some with: uprobectl resolve --json TARGET FUNCTION… > " + path));
  return record;
}

// Replaces the file's content by match records of the points, atomically.
Result<void> write_matches(const std::string& path, std::span<const resolve::ProbePoint> points,
                           Workstation& workstation) {
  const auto write = [&](output::OutputBuffer& out) {
    const auto records = make_json_formatter(out);
    for (const resolve::ProbePoint& point : points) {
      if (point.static_probe)
        records->write(output::StaticProbeRecord{.point = &point, .target = {}});
      else
        records->write(point);
    }
  };
  return output::replace_file(path, write, workstation);
}

std::vector<output::Change> parse_changes(const std::optional<std::string>& list) {
  std::vector<output::Change> changes;
  // A rebuild always changes the build id: by default only changes of probes are failures.
  if (!list)
    std::ranges::copy_if(output::all_changes, std::back_inserter(changes),
                         [](output::Change change) { return change != output::Change::build_id; });
  std::string_view rest = list ? std::string_view(*list) : std::string_view();
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    const auto* const change =
        std::ranges::find_if(output::all_changes, [&](output::Change candidate) {
          return to_string(candidate) == name;
        });
    if (change != output::all_changes.end())
      changes.push_back(*change); // the parser has checked it
    // Functions of a library that is gone are gone.
    if (change != output::all_changes.end() && *change == output::Change::gone)
      changes.push_back(output::Change::library_gone);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return changes;
}

constexpr std::array<std::string_view, 5> format_names = {"text", "json", "junit", "github",
                                                          "markdown"};

} // namespace

std::optional<std::string> record_folder(const std::string& path, const Workstation& workstation) {
  if (workstation.has(path)) return std::nullopt;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

Result<void> write_record_file(const std::string& path, std::span<const resolve::ProbePoint> points,
                               Workstation& workstation) {
  return output::replace_file(
      path,
      [&](output::OutputBuffer& out) {
        out.append(verify::write_record(points, record_folder(path, workstation)));
      },
      workstation);
}

void bind_verdict_options(OptionParser& parser, VerdictOptions& options) {
  parser.bind("--format", options.format);
  parser.bind("--fail-on", options.fail_on);
  parser.bind("--max-lines", options.max_lines,
              CountReader{.option = "--max-lines", .expected = "a number of lines", .least = 0});
}

Result<verify::VerdictStyle> make_verdict_style(const OptionParser& parser,
                                                const VerdictOptions& options,
                                                CommonOptions& common) {
  verify::VerdictStyle style{.failing = parse_changes(options.fail_on)};
  if (options.max_lines) style.max_rows = *options.max_lines;
  if (options.format) {
    const auto* const name = std::ranges::find(format_names, *options.format);
    style.format = static_cast<verify::VerdictFormat>(name - format_names.begin());
    if (common.json && style.format != verify::VerdictFormat::json)
      return fail(parser.usage_error("--json cannot be combined with --format " + *options.format));
  }
  common.json = common.json || style.format == verify::VerdictFormat::json;
  if (common.json) style.format = verify::VerdictFormat::json;
  return style;
}

bool has_failing_change(const output::Verdict& verdict, const verify::VerdictStyle& style) {
  return std::ranges::any_of(verdict.findings(), [&](const output::Finding& finding) {
    return style.fails(finding.change);
  });
}

void bind_verify_options(OptionParser& parser, VerifyOptions& options) {
  parser.bind("--verify", options.record);
  parser.bind("--update", options.update);
  bind_verdict_options(parser, options.verdict);
}

Result<void> check_verify_options(const OptionParser& parser, VerifyOptions& options,
                                  CommonOptions& common) {
  if (!options.record) return {};
  if (options.update && *options.record == "-")
    return fail(parser.usage_error("--update cannot rewrite stdin"));
  auto style = make_verdict_style(parser, options.verdict, common);
  if (!style) return fail(std::move(style).error());
  options.style = std::move(*style);
  options.style.record = options.record;
  return {};
}

ExitCode run_verify(const VerifyOptions& options, const Arguments& arguments,
                    const resolve::TargetOptions& target_options, output::Output& output) {
  auto recorded = read_record(*options.record, output.workstation());
  if (!recorded) {
    output.fail(recorded.error());
    return finish(output);
  }
  auto targets = verify::replace_targets(recorded->matches, arguments.words());
  if (!targets) {
    output.fail(targets.error());
    finish(output);
    return ExitCode::usage;
  }
  verify::VerifyRequest request{.recorded = std::move(recorded->matches),
                                .targets = std::move(*targets),
                                .target_options = target_options,
                                .unsafe = options.unsafe};

  const output::Progress progress(output, "verifying");
  const auto outcome = verify_matches(request, output);
  const output::Verdict& verdict = outcome.verdict;
  // Matches that were not checked would lose details of their record, also if they are counted as
  // moved.
  std::size_t not_checked = 0;
  for (const output::Finding& finding : verdict.findings())
    if (finding.change == output::Change::not_checked) not_checked += finding.matches.value_or(1);
  if (options.update && !output.has_failed() && not_checked != 0)
    output.fail({ErrorKind::not_found, *options.record +
                                           ": not updated: " + std::to_string(not_checked) +
                                           " matches could not be checked"});
  bool failed = output.has_failed();
  if (options.update && !failed) {
    const auto write = recorded->is_short ? write_record_file : write_matches;
    const auto written = write(*options.record, outcome.points, output.workstation());
    if (!written) output.fail(written.error());
    // Drift that was recorded is not a failure; an unresolved request could not be recorded.
    failed = outcome.unresolved > 0;
  } else {
    failed = failed || has_failing_change(verdict, options.style);
  }
  verify::write_verdict(verdict, options.style, output);
  const ExitCode code = finish(output);
  return failed ? ExitCode::failed : code;
}

} // namespace uprobectl::cli
