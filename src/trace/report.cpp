// SPDX-License-Identifier: Apache-2.0
#include "trace/report.hpp"

#include "trace/anonymous_copies.hpp"
#include "trace/binary_cache.hpp"
#include "trace/diagnosis.hpp"
#include "trace/other_definitions.hpp"
#include "trace/probes.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace uprobectl::trace {

namespace {

// "2 processes and all named 'nginx'"
std::string describe_named_processes(const AttachRequest& request) {
  const std::string names = alternatives(request.processes.names, "'");
  if (request.processes.pids.empty()) return "all processes named " + names;
  return fmt::format("{} and all named {}",
                     counted(request.processes.pids.size(), "process", "processes"), names);
}

// "all processes", "2 processes and their children", "all processes of user 1000"
std::string describe_processes(const AttachRequest& request) {
  if (request.processes.all) return "all processes";
  const bool any = !request.processes.pids.empty() || !request.processes.names.empty();
  std::string text = !any ? "all processes"
                     : request.processes.names.empty()
                         ? counted(request.processes.pids.size(), "process", "processes")
                         : describe_named_processes(request);
  if (!request.processes.command.empty())
    text = fmt::format("'{}'", request.processes.command.front());
  if (request.processes.follow) {
    const bool one = !request.processes.command.empty() ||
                     (request.processes.names.empty() && request.processes.pids.size() == 1);
    text += one ? " and its children" : " and their children";
  }
  if (request.probes.target_options.app) text += " of " + *request.probes.target_options.app;
  if (request.processes.user) text += fmt::format(" of user {}", *request.processes.user);
  if (request.processes.cgroup) text += " in " + *request.processes.cgroup;
  return text;
}

// "3 functions", "1 static probe at 4 probe points and 2 functions"
std::string describe_probes(const ProbeTotals& totals) {
  if (totals.static_points == 0) return counted(totals.probes, "function", "functions");
  std::string text = counted(totals.static_probes, "static probe", "static probes") + " at " +
                     counted(totals.static_points, "probe point", "probe points");
  if (const std::size_t functions = totals.probes - totals.static_probes; functions > 0)
    text += " and " + counted(functions, "function", "functions");
  return text;
}

// "; a hit of 'begin' starts the recording; a hit of 'end' ends the run"
std::string describe_triggers(const ProbeSelection& selection) {
  std::string text;
  const auto add = [&](const std::vector<resolve::TargetedFunction>& functions,
                       std::string_view effect) {
    if (functions.empty()) return;
    const std::string others = functions.size() > 1 ? " or others" : "";
    text += fmt::format("; a hit of '{}'{} {}", functions.front().function, others, effect);
  };
  add(selection.start_on, "starts the recording");
  add(selection.stop_on, "ends the run");
  add(selection.until, "writes the events around it");
  return text;
}

// Rounds to milliseconds, or to microseconds below one millisecond.
std::chrono::nanoseconds rounded(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  if (duration < 1ms) return duration_cast<microseconds>(duration);
  return duration_cast<milliseconds>(duration);
}

// Rounds to two digits, or to microseconds.
std::chrono::nanoseconds round_cost(std::chrono::nanoseconds cost) {
  using namespace std::chrono;
  const nanoseconds unit = cost < 1us ? 10ns : cost < 10us ? 100ns : nanoseconds(1us);
  return (cost + unit / 2) / unit * unit;
}

// Completes the surveys of all probes and what is known of unhit ones.
void complete_diagnosis_facts(const RunEnd& end) {
  const std::span<Probe> probes = end.probes;
  // With an empty pid list survey_probes() would examine all processes.
  if (end.no_process_reason.empty()) {
    const std::vector<process::MappingSurvey> now = survey_probes(probes, end.pids);
    add_surveys(probes, now);
    for (std::size_t i = 0; i < now.size(); ++i) probes[i].survey.unreadable = now[i].unreadable;
  }
  std::set<FileIdentity> hit_files;
  for (const Probe& probe : probes)
    if (probe.hits > 0) hit_files.insert(probe.point.binary->file->identity());
  std::vector<Probe*> uncalled;
  bool any_unhit = false;
  for (Probe& probe : probes) {
    const MappedFile& file = *probe.point.binary->file;
    probe.facts.file_was_hit = hit_files.contains(file.identity());
    if (probe.hits != 0) continue;
    any_unhit = true;
    probe.facts.change = file.change();
    if (const auto found = end.incomplete.find(probe.number); found != end.incomplete.end())
      probe.facts.without_breakpoint = found->second;
    if (!probe.survey.executable.empty() || probe.facts.file_was_hit) uncalled.push_back(&probe);
  }
  if (!any_unhit) return;
  explain_anonymous_copies(probes, end.pids, *end.binaries);
  find_other_definitions(uncalled, end.pids, *end.binaries);
  find_inlined(uncalled, *end.binaries);
  if (!end.follows_children) find_unprobed_children(probes, end.pids);
}

std::uint64_t sum_over(std::span<const Probe> probes, std::uint64_t Probe::* counter) {
  std::uint64_t sum = 0;
  for (const Probe& probe : probes) sum += probe.*counter;
  return sum;
}

// Returns the number of events that --max-events suppressed.
std::uint64_t count_over_max_events(const RunTotals& totals) {
  const auto beyond =
      std::ranges::find(totals.losses, loss_reasons::over_max_events, &Loss::reason);
  return beyond == totals.losses.end() ? 0 : beyond->count;
}

std::uint64_t unpaired_calls(const RunTotals& totals) {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : totals.losses)
    if (loss_reasons::is_unpaired(reason)) sum += count;
  return sum;
}

std::string explain_unpaired(std::string_view reason, const std::string& left_calls) {
  if (reason == loss_reasons::nested) return fmt::format("{} (--return-at ret sees them)", reason);
  if (reason == loss_reasons::no_return)
    return fmt::format("{} (by an exception, longjmp or the end of the thread){}{}", reason,
                       left_calls.empty() ? "" : ": ", left_calls);
  if (reason == loss_reasons::entry_unseen)
    return fmt::format("{} (it began before the run, or in the process that forked)", reason);
  return std::string(reason);
}

void warn_about_losses(const RunEnd& end, output::Output& output) {
  for (const auto& [reason, count] : end.totals.losses) {
    if (reason == loss_reasons::over_max_events) { // requested by the user
      output.detail(fmt::format("{} {}", counted(count, "event", "events"), reason));
      continue;
    }
    if (loss_reasons::is_unpaired(reason)) {
      output.warn(fmt::format("{} not paired: {}", counted(count, "call", "calls"),
                              explain_unpaired(reason, list_unreturned(end.probes))));
      continue;
    }
    std::string text = fmt::format("{} lost: ", counted(count, "event", "events"));
    if (reason != loss_reasons::buffer_full)
      text += reason;
    else if (end.results.stacks != nullptr && end.copies_stacks)
      text += "the buffer was full; a smaller --stack-size leaves room for more";
    else
      text += "the buffer was full";
    output.warn(text);
  }
}

// ", 900 left out by --sample, 20 by --max-rate"
std::string describe_left_out(const events::EventLimits& limits,
                              const output::SummaryRecord& summary) {
  std::string text;
  if (limits.one_in > 1) text += fmt::format(", {} left out by --sample", *summary.sampled_out);
  if (limits.max_rate)
    text += fmt::format(", {}{} by --max-rate", *summary.rate_limited,
                        limits.one_in > 1 ? "" : " left out");
  return text;
}

// ", 2 calls not returned"
std::string describe_open_calls(const RunEnd& end) {
  const std::uint64_t calls = end.results.open_calls.value_or(0);
  return calls == 0 ? "" : fmt::format(", {} not returned", counted(calls, "call", "calls"));
}

// "5 events in 1.02s, 0 lost", "80 hits counted in 1.02s", "9 records counted in 1.02s, 0 lost"
std::string describe_result(const RunEnd& end, const output::SummaryRecord& summary) {
  const std::string time = format_duration(rounded(end.duration));
  if (!end.only_counted)
    return fmt::format("{} in {}, {}",
                       end.results.counted_records
                           ? counted(*end.results.counted_records, "record", "records") + " counted"
                           : counted(summary.events, "event", "events"),
                       time,
                       describe_lost(end.totals.lost() - count_over_max_events(end.totals),
                                     end.results.uncounted_losses));
  std::uint64_t hits = 0;
  for (const Probe& probe : end.probes)
    if (probe.is_recorded) hits += probe.shown;
  return fmt::format("{} counted in {}", counted(hits, "hit", "hits"), time);
}

std::string format_share(std::uint64_t part, std::uint64_t all) {
  return fmt::format("{} of {} stacks", part, all);
}

std::string explain_truncation(const events::CaptureSpec& capture) {
  const std::uint32_t size = capture.stack_bytes;
  if (capture.stack == events::StackWalk::frame_pointers)
    return fmt::format("the kernel walks at most {} frames (--stack unwinds more)", MAX_FRAMES);
  return fmt::format(
      "deeper than the {} bytes that are copied{}", size,
      size < MAX_STACK_BYTES
          ? fmt::format(" (--stack-size {} copies more)",
                        std::min<std::uint64_t>(std::uint64_t{size} * 2, MAX_STACK_BYTES))
          : " (the maximum)");
}

// A probe that only starts or stops the recording is in no record.
void report_unhit_bound(const Probe& probe, const RunEnd& end, output::Output& output) {
  if (!probe.is_first() || end.probes[probe.first].total_hits != 0) return;
  const std::string reason = end.no_process_reason.empty()
                                 ? diagnose(probe.survey, end.pids, probe.facts)
                                 : end.no_process_reason;
  const std::string_view option = (probe.triggers & ENDS_WAITING) != 0       ? "--until"
                                  : (probe.triggers & STARTS_RECORDING) != 0 ? "--start-on"
                                                                             : "--stop-on";
  output.gathered_warning(
      "bound never hit: " + reason,
      fmt::format("{}: {} was never hit: {}", display_name(probe.point), option, reason));
}

// Returns the summary without the counts of probes, which report_probe() adds.
output::SummaryRecord begin_summary(const RunEnd& end) {
  output::SummaryRecord summary{.events = end.totals.events,
                                .lost = end.results.uncounted_losses.empty()
                                            ? std::optional(end.totals.lost())
                                            : std::nullopt,
                                .duration_ns = static_cast<std::uint64_t>(end.duration.count()),
                                .probes_hit = 0,
                                .probes_unhit = 0,
                                .detached_cleanly = end.detached_cleanly};
  if (const StackTotals* const stacks = end.results.stacks) {
    summary.stacks = stacks->all;
    if (end.unwinds_stacks) {
      summary.stacks_truncated = stacks->truncated;
      summary.stacks_failed = stacks->failed;
    }
  }
  if (end.command_end && end.command_end->signal != 0)
    summary.command_signal = static_cast<std::uint64_t>(end.command_end->signal);
  else if (end.command_end)
    summary.command_exit = static_cast<std::uint64_t>(end.command_end->status);
  // The kernel's return probes may miss returns even if calls are not paired.
  if (const std::uint64_t unpaired = unpaired_calls(end.totals);
      end.results.open_calls || unpaired > 0)
    summary.unpaired = unpaired;
  summary.open = end.results.open_calls;
  if (end.results.open_calls) summary.single_stepped = 0;
  if (end.cost) summary.hit_cost_ns = static_cast<std::uint64_t>(end.cost->each.count());
  if (end.cost) summary.cost_hits = end.cost->hits;
  if (end.limits.one_in > 1) summary.sampled_out = 0;
  if (end.limits.max_rate) summary.rate_limited = 0;
  if (end.window) {
    summary.kept = end.window->all;
    summary.kept_too_old = end.window->too_old;
    summary.kept_no_room = end.window->no_room;
    summary.triggers = end.window->triggers;
  }
  return summary;
}

// The bodies of functions that were hit, by file and raw name.
using HitBodies = std::multimap<std::pair<const resolve::ProbedBinary*, std::string_view>,
                                const resolve::ProbePoint*>;

HitBodies find_hit_bodies(const RunEnd& end) {
  HitBodies bodies;
  for (const Probe& probe : end.probes)
    if (probe.point.symbol && probe.point.symbol_offset == 0 && probe.hits.value_or(0) > 0)
      bodies.emplace(std::pair(probe.point.binary.get(), probe.point.function()), &probe.point);
  return bodies;
}

// Returns another body of the probe's function that was hit; null without one.
const resolve::ProbePoint* find_other_body(const resolve::ProbePoint& point, const HitBodies& hit) {
  if (!point.symbol || point.symbol_offset != 0) return nullptr;
  const auto [begin, end] = hit.equal_range({point.binary.get(), point.function()});
  const auto found = std::find_if(
      begin, end, [&](const auto& each) { return each.second->symbol != point.symbol; });
  return found != end ? found->second : nullptr;
}

// Returns why the point was not hit, and warns once for each probe, unless its function was called.
std::string report_unhit(const Probe& probe, const RunEnd& end, const HitBodies& hit,
                         output::Output& output) {
  const bool is_explained = probe.hidden_reason.empty() && end.no_process_reason.empty();
  if (const resolve::ProbePoint* const body =
          is_explained ? find_other_body(probe.point, hit) : nullptr)
    return fmt::format("another body of its function was hit: {}", display_name(*body));
  // Without a hit that a condition has excluded, all hits may have been those of children.
  std::string children = probe.excluded_hits == 0 ? mention_children(probe.facts.children) : "";
  if (children.empty() && !end.follows_children && probe.hidden_reason.ends_with(not_by_probed))
    children = "; --follow probes child processes, too";
  const std::string reason = !probe.hidden_reason.empty() ? probe.hidden_reason + children
                             : !is_explained              ? end.no_process_reason
                                             : diagnose(probe.survey, end.pids, probe.facts);
  if (!probe.is_first()) return reason;
  // Probes that are inlined at different numbers of addresses are gathered in one warning.
  UnhitFacts shared = probe.facts;
  shared.inlined.reset();
  const std::string shared_reason =
      is_explained ? diagnose(probe.survey, end.pids, shared) : reason;
  output.gathered_warning((shared_reason == reason ? "never hit: " : "inlined, never hit: ") +
                              shared_reason,
                          fmt::format("{}: never hit: {}", display_name(probe.point), reason));
  return reason;
}

// Writes the record of a point and adds it to the summary. A static probe is counted once, at its
// first point; it is unhit if none of its points was reached.
void report_probe(const Probe& probe, const RunEnd& end, const HitBodies& hit,
                  output::SummaryRecord& summary, output::Output& output) {
  output::ProbeRecord record{.point = &probe.point,
                             .hits = probe.hits,
                             .processes_mapping = probe.survey.executable.size(),
                             .reason = std::nullopt};
  if (summary.sampled_out) {
    record.sampled_out = probe.left_out.sampled_out;
    *summary.sampled_out += probe.left_out.sampled_out;
  }
  if (summary.rate_limited) {
    record.rate_limited = probe.left_out.rate_limited;
    *summary.rate_limited += probe.left_out.rate_limited;
  }
  const std::optional<std::uint64_t> hits = end.probes[probe.first].total_hits;
  if (hits > 0) {
    if (probe.is_first()) ++summary.probes_hit;
    if (probe.is_first() && summary.single_stepped && !probe.point.effect.emulated)
      ++*summary.single_stepped;
    if (probe.hits == 0) record.reason = "other points of this probe were hit, this one was not";
    if (probe.hits > 0 && !probe.hidden_reason.empty()) {
      record.reason = probe.hidden_reason;
      output.gathered_warning(
          "nothing to show: " + probe.hidden_reason,
          fmt::format("{}: nothing to show: {}", display_name(probe.point), probe.hidden_reason));
    }
  } else if (hits == 0) {
    if (probe.is_first()) ++summary.probes_unhit;
    record.reason = report_unhit(probe, end, hit, output);
  }
  if (const auto found = end.incomplete.find(probe.number);
      found != end.incomplete.end() && probe.hits != 0) {
    const std::string incomplete = "the count is incomplete: " + found->second;
    record.reason = record.reason ? *record.reason + "; " + incomplete : incomplete;
  }
  if (probe.programs.empty()) output.write(record);
  for (const ProgramHits& each : probe.programs) {
    record.program = each.program;
    record.hits = each.hits;
    output.write(record);
  }
}

// Says how often each of several programs of a user has run, and where.
void report_programs(const RunEnd& end, output::Output& output) {
  constexpr std::size_t most = 50; // JSON has all
  std::size_t rows = 0;
  for (const Probe& probe : end.probes) rows += probe.programs.size();
  if (rows < 2) return;
  std::size_t shown = 0;
  for (const Probe& probe : end.probes)
    for (const ProgramHits& each : probe.programs) {
      if (shown++ >= most) continue;
      output.status(fmt::format("program '{}': {} at {} ({})", each.program,
                                each.hits ? counted(*each.hits, "hit", "hits")
                                          : std::string("hits not known"),
                                display_name(probe.point), each.phase));
    }
  if (shown > most) output.status(fmt::format("and {} more (-j has all)", shown - most));
}

// Prints the line that ends a run, and what the run has cost.
void report_closing_summary(const RunEnd& end, const output::SummaryRecord& summary,
                            output::Output& output) {
  const auto probes = static_cast<std::size_t>(std::ranges::count_if(
      end.probes, [](const Probe& each) { return each.is_recorded && each.is_first(); }));
  const std::size_t unknown = probes - summary.probes_hit - summary.probes_unhit;
  output.status(fmt::format("{}{}, {} of {} probes hit{}{}", describe_result(end, summary),
                            describe_left_out(end.limits, summary), summary.probes_hit, probes,
                            unknown > 0 ? fmt::format(", {} unknown", unknown) : "",
                            describe_open_calls(end)));
  if (const std::uint64_t hits = sum_over(end.probes, &Probe::ended_no_call); hits > 0)
    output.status(fmt::format("{} of functions that are jumped to ended no call (--return-at ret "
                              "does without them)",
                              counted(hits, "more hit at exits", "more hits at exits")));
  if (end.window) {
    const WindowTotals& window = *end.window;
    std::string text = fmt::format("{} kept, {} written around {}, {} dropped as too old",
                                   window.all, window.written,
                                   counted(window.triggers, "trigger", "triggers"), window.too_old);
    if (window.no_room > 0) text += fmt::format(", {} for lack of memory", window.no_room);
    if (window.beyond_max > 0) text += fmt::format(", {} beyond -n", window.beyond_max);
    output.status(text);
  }
  if (end.cost)
    output.status(fmt::format("cost: {} hits, about {} each on this machine, {} in all",
                              end.cost->hits, format_duration(round_cost(end.cost->each)),
                              format_duration(rounded(end.cost->each * end.cost->hits))));
  if (summary.single_stepped > 0)
    output.status(fmt::format("latencies of {} of {} include the time to single-step the first "
                              "instruction (docs/instructions.md)",
                              *summary.single_stepped,
                              counted(summary.probes_hit, "function", "functions")));
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

std::string describe_lost(std::uint64_t known, std::string_view uncounted) {
  if (uncounted.empty()) return fmt::format("{} lost", known);
  if (known == 0) return fmt::format("lost: not known ({})", uncounted);
  return fmt::format("lost: {} and more, not known ({})", known, uncounted);
}

std::string start_line(const AttachRequest& request, const ProbeTotals& totals,
                       std::size_t other_programs) {
  const std::string what = describe_probes(totals);
  std::string where = describe_processes(request);
  if (other_programs > 0)
    where += fmt::format(" and running {} for all processes",
                         counted(other_programs, "program", "programs"));
  const std::string triggers = describe_triggers(request.probes);
  if (request.limits.duration)
    return fmt::format("probing {} in {} for {} (ctrl-c ends earlier, -d forever){}", what, where,
                       format_duration(*request.limits.duration), triggers);
  if (!request.processes.command.empty())
    return fmt::format("probing {} in {} until {}{}", what, where,
                       request.processes.follow ? "the last has ended" : "it ends", triggers);
  return fmt::format("probing {} in {} until ctrl-c{}", what, where, triggers);
}

std::string list_unreturned(std::span<const Probe> probes) {
  constexpr std::size_t max_named = 3;
  std::map<std::string, std::uint64_t> calls;
  for (const Probe& probe : probes)
    if (probe.unreturned > 0) calls[display_name(probe.point)] += probe.unreturned;
  std::vector<std::pair<std::string, std::uint64_t>> most(calls.begin(), calls.end());
  std::ranges::sort(most, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string text;
  for (std::size_t i = 0; i < most.size() && i < max_named; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", most[i].first, most[i].second);
  if (most.size() > max_named) text += fmt::format(" and {} more", most.size() - max_named);
  return text;
}

void show_probes(std::span<const Probe> probes, const ProgramInfo& programs,
                 output::Output& output) {
  for (const Probe& probe : probes) {
    const resolve::ProbePoint& point = probe.point;
    std::set<std::pair<std::size_t, std::string_view>> shown; // programs and phases
    for (const PlannedSite& site : probe.sites) {
      if (programs.programs.empty()) break;
      const std::string_view phase = programs.phase_of(site);
      if (shown.emplace(site.program, phase).second)
        output.write(output::ProgramPointRecord{
            .point = &point, .program = programs.programs[site.program].name, .phase = phase});
    }
    if (!shown.empty()) continue;
    if (point.static_probe)
      output.write(output::StaticProbeRecord{.point = &point, .target = {}});
    else
      output.write(point);
  }
}

void show_instructions(std::span<const Probe> probes, output::Output& output) {
  for (const Probe& probe : probes)
    if (const resolve::ProbePoint& point = probe.point; point.instruction)
      output.status(fmt::format("{} at {:#x}: {}", display_name(point), point.offset->value,
                                *point.instruction));
}

void report_end(const RunEnd& end, output::Output& output) {
  complete_diagnosis_facts(end);
  output::SummaryRecord summary = begin_summary(end);
  const HitBodies hit = find_hit_bodies(end);
  for (const Probe& probe : end.probes)
    if (probe.is_recorded)
      report_probe(probe, end, hit, summary, output);
    else
      report_unhit_bound(probe, end, output);
  output.report_repeated();
  if (const std::uint64_t corrupt = end.results.unknown_layouts; corrupt > 0)
    output.warn(fmt::format("{} could not be decoded", counted(corrupt, "record", "records")));
  if (!end.results.has_started)
    output.warn("nothing was recorded: no function of --start-on was hit");
  warn_about_losses(end, output);
  report_programs(end, output);
  output.write(summary);
  report_closing_summary(end, summary, output);
}

void report_stacks(const StackTotals& totals, const events::CaptureSpec& capture,
                   const StackOutputs& outputs, output::Output& output) {
  if (totals.truncated > 0)
    output.warn(fmt::format("{} truncated: {}", format_share(totals.truncated, totals.all),
                            explain_truncation(capture)));
  if (totals.failed > 0)
    output.warn(fmt::format("{} incomplete: {}{}", format_share(totals.failed, totals.all),
                            totals.failure,
                            outputs.save_dir ? "" : "; --keep-stacks DIR saves some of them"));
  if (totals.lost_mappings > 0)
    output.warn(fmt::format("{} lost: frames may have no names or outdated ones",
                            counted(totals.lost_mappings, "mapping record", "mapping records")));
  if (capture.source_lines && !capture.raw_stacks && totals.all > 0 && !totals.has_source_lines)
    output.warn("--lines: no file of the stacks has debug information (build with -g, or name the "
                "unstripped files with --debug-dir)");
  if (totals.saved > 0)
    output.status(fmt::format("{} saved in {}: inspect them with uprobectl debug-unwind",
                              counted(totals.saved, "stack", "stacks"), *outputs.save_dir));
}

// A stack is dropped if another one with the same hash bucket is in the map (Linux
// kernel/bpf/stackmap.c).
void report_without_stack(std::uint64_t hits, bool of_spans, output::Output& output) {
  if (hits == 0) return;
  output.warn(fmt::format("{} {} without a stack: the kernel could not store it{}",
                          counted(hits, "hit", "hits"), of_spans ? "of spans" : "counted",
                          of_spans ? "" : " (--count --stack stores stacks in uprobectl)"));
}

void report_invisible(std::span<const Probe> probes, output::Output& output) {
  const std::uint64_t hits = sum_over(probes, &Probe::invisible);
  if (hits == 0) return;
  output.warn(fmt::format("{} left out: their processes are outside of this container, whose pid "
                          "namespace does not show them",
                          counted(hits, "hit", "hits")));
}

std::string flame_graph_subtitle(std::chrono::nanoseconds duration, const StackTotals* totals) {
  std::string text =
      format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
  if (totals == nullptr) return text;
  text += ", " + counted(totals->all, "stack", "stacks");
  if (totals->truncated > 0) text += fmt::format(", {} of them truncated", totals->truncated);
  if (totals->failed > 0) text += fmt::format(", {} incomplete", totals->failed);
  return text;
}

void check_expected_hits(std::uint64_t expected, std::span<const Probe> probes,
                         output::Output& output) {
  for (const Probe& probe : probes) {
    const std::optional<std::uint64_t>& hits = probe.total_hits;
    if (!probe.is_first() || !probe.is_recorded || (hits && *hits >= expected)) continue;
    const resolve::ProbePoint& point = probe.point;
    const Error error{ErrorKind::not_found,
                      fmt::format("{}: {}, expected at least {}", display_name(point),
                                  hits ? counted(*hits, "hit", "hits") : "hits unknown", expected)};
    output.fail(error, point.binary->target, point.request);
  }
}

} // namespace uprobectl::trace
