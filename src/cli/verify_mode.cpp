#include "verify_mode.hpp"

#include "record_file.hpp"
#include "uprobectl/verify.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::cli {

namespace {

using Change = DriftRecord::Change;

constexpr std::array all_changes = {
    Change::gone,          Change::added,           Change::function_moved,
    Change::archive_moved, Change::semaphore_moved, Change::arguments,
    Change::build_id};

std::vector<Change> parse_changes(const std::optional<std::string>& list) {
  // A rebuild always has another build id: by default only what moves a probe fails.
  if (!list) return std::vector<Change>(all_changes.begin(), all_changes.end() - 1);
  std::vector<Change> changes;
  std::string_view rest = *list;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    const auto* const change = std::ranges::find_if(
        all_changes, [&](Change candidate) { return to_string(candidate) == name; });
    changes.push_back(*change); // one of the table of options
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return changes;
}

} // namespace

void bind_verify_options(OptionParser& parser, VerifyOptions& options) {
  parser.bind("--verify", options.record);
  parser.bind("--fail-on", options.fail_on);
  parser.bind("--update", options.update);
}

Result<void> check_verify_options(const OptionParser& parser, const VerifyOptions& options,
                                  const Arguments& arguments) {
  if (!options.record) return {};
  if (arguments.positionals.size() + arguments.after_dashes.size() > 1)
    return fail(parser.usage_error("--verify takes one TARGET at the most"));
  if (options.update && *options.record == "-")
    return fail(parser.usage_error("--update cannot rewrite stdin"));
  return {};
}

ExitCode run_verify(const VerifyOptions& options, const Arguments& arguments,
                    const TargetOptions& target_options, Console& console) {
  auto recorded = read_matches(*options.record);
  if (!recorded) {
    console.fail(recorded.error());
    return console.finish();
  }
  VerifyRequest request{.recorded = std::move(*recorded),
                        .target = std::nullopt,
                        .target_options = target_options,
                        .unsafe = options.unsafe};
  if (!arguments.positionals.empty()) request.target = arguments.positionals.front();
  if (!arguments.after_dashes.empty()) request.target = arguments.after_dashes.front();

  const auto outcome = verify_matches(request, console.sink(), console.reporter());
  bool failed = outcome.failures > 0;
  if (options.update && !failed) {
    const auto written = write_matches(*options.record, outcome.points);
    if (!written) console.fail(written.error());
    // What differs is recorded now; a request that finds nothing any more could not be.
    failed = outcome.unresolved > 0;
  } else {
    const auto changes = parse_changes(options.fail_on);
    failed = failed || std::ranges::any_of(outcome.changes, [&](Change change) {
               return std::ranges::find(changes, change) != changes.end();
             });
  }
  const std::size_t kept = request.recorded.size() - outcome.changed;
  console.reporter().status(std::to_string(kept) + " of " +
                            std::to_string(request.recorded.size()) + " matches are unchanged");
  const ExitCode code = console.finish();
  return failed ? ExitCode::failed : code;
}

} // namespace uprobectl::cli
