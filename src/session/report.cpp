#include "session/report.hpp"

#include "session/silence.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Whole milliseconds, or microseconds where it was less than one.
std::chrono::nanoseconds rounded(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  if (duration < 1ms) return duration_cast<microseconds>(duration);
  return duration_cast<milliseconds>(duration);
}

// Beyond this many the lines say less than their number.
constexpr std::size_t most_silent_lines = 20;

// By point; of those that were hit nothing is looked for.
std::vector<SilenceFacts> facts_of(const RunEnd& end, std::span<const MappingSurvey> surveys) {
  std::vector<SilenceFacts> facts(end.points.size());
  std::vector<bool> silent(facts.size());
  std::vector<bool> uncalled(facts.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    silent[i] = end.hits[i] == 0;
    uncalled[i] = silent[i] && !surveys[i].executable.empty();
  }
  if (std::ranges::find(silent, true) == silent.end()) return facts;
  const auto inlined = inlined_places(end.points, uncalled, end.debug_places);
  const auto children = end.follows_children ? std::vector<std::vector<pid_t>>(facts.size())
                                             : children_mapping(end.points, end.pids);
  for (std::size_t i = 0; i < facts.size(); ++i)
    if (silent[i])
      facts[i] = {.change = end.points[i].binary->file->change(),
                  .children = children[i],
                  .inlined = inlined[i]};
  return facts;
}

} // namespace

std::string format_duration(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  const auto ns = duration.count();
  const auto with_unit = [&](std::int64_t unit, std::string_view name) {
    std::string text = fmt::format("{:.3f}", static_cast<double>(ns) / static_cast<double>(unit));
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text + std::string(name);
  };
  constexpr std::int64_t second = 1'000'000'000;
  if (ns >= 60 * second && ns % (60 * second) == 0) return with_unit(60 * second, "m");
  if (ns >= second) return with_unit(second, "s");
  if (ns >= 1'000'000) return with_unit(1'000'000, "ms");
  if (ns >= 1000) return with_unit(1000, "us");
  return with_unit(1, "ns");
}

std::string start_line(const AttachRequest& request, std::size_t functions, std::size_t others) {
  std::string what = counted(functions, "function", "functions");
  if (others > 0) what += fmt::format(" and running {}", counted(others, "program", "programs"));
  if (!request.command.empty() && !request.duration)
    return fmt::format("probing {} in '{}' until it ends", what, request.command.front());
  const std::string where = request.pids.empty()
                                ? std::string("all processes")
                                : counted(request.pids.size(), "process", "processes");
  if (!request.duration) return fmt::format("probing {} in {} until ctrl-c", what, where);
  return fmt::format("probing {} in {} for {} (ctrl-c ends earlier, -d forever)", what, where,
                     format_duration(*request.duration));
}

void show_instructions(std::span<const ProbePoint> points, const Reporter& reporter) {
  for (const ProbePoint& point : points)
    if (point.instruction)
      reporter.status(fmt::format("{} at {:#x}: {}", display_name(point), point.offset->value,
                                  *point.instruction));
}

void report_end(const RunEnd& end, Sink& sink, const Reporter& reporter) {
  std::vector<MappingSurvey> surveys = survey_points(end.points, end.pids);
  add_earlier(surveys, end.earlier);
  const std::vector<SilenceFacts> facts = facts_of(end, surveys);

  SummaryRecord summary{.events = end.pumped.events,
                        .lost = end.pumped.lost,
                        .duration_ns = static_cast<std::uint64_t>(end.duration.count()),
                        .probes_hit = 0,
                        .probes_silent = 0,
                        .detached_cleanly = end.detached_cleanly};
  for (std::size_t i = 0; i < end.points.size(); ++i) {
    ProbeRecord record{.point = &end.points[i],
                       .hits = end.hits[i],
                       .processes_mapping = surveys[i].executable.size(),
                       .reason = std::nullopt};
    if (end.hits[i] > 0) {
      ++summary.probes_hit;
    } else if (end.hits[i] == 0) {
      record.reason = explain_silence(surveys[i], end.pids, facts[i]);
      if (++summary.probes_silent <= most_silent_lines)
        reporter.warning(
            fmt::format("{}: never hit: {}", display_name(end.points[i]), *record.reason));
    }
    sink.probe(record);
  }
  if (summary.probes_silent > most_silent_lines)
    reporter.warning(fmt::format("and {} more probes that were never hit",
                                 summary.probes_silent - most_silent_lines));
  if (end.corrupt > 0)
    reporter.warning(
        fmt::format("{} could not be decoded", counted(end.corrupt, "record", "records")));
  if (summary.lost > 0)
    reporter.warning(
        fmt::format("{} lost: the ring buffer was full", counted(summary.lost, "event", "events")));
  sink.summary(summary);
  reporter.status(fmt::format(
      "{} in {}, {} lost, {} of {} probes hit", counted(summary.events, "event", "events"),
      format_duration(rounded(end.duration)), summary.lost, summary.probes_hit, end.points.size()));
}

} // namespace uprobectl
