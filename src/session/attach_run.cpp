#include "session/expected_hits.hpp"
#include "session/file_changes.hpp"
#include "session/held_command.hpp"
#include "session/placing.hpp"
#include "session/pump.hpp"
#include "session/report.hpp"
#include "session/returns.hpp"
#include "session/silence.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <time.h>

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

AttachedRecord describe(Mechanism mechanism, std::size_t probes, std::string program) {
  return {.mechanism = probes > 0 ? std::optional(to_string(mechanism)) : std::nullopt,
          .probes = probes,
          .program = std::move(program),
          .monotonic_ns = clock_ns(CLOCK_MONOTONIC),
          .boottime_ns = clock_ns(CLOCK_BOOTTIME),
          .realtime_ns = clock_ns(CLOCK_REALTIME)};
}

Result<std::unique_ptr<Payload>> make_payload(const AttachRequest& request,
                                              const Reporter& reporter) {
  if (request.program) return make_user_payload(request, reporter);
  return make_builtin_payload(request);
}

MechanismNeeds needs_of(const AttachRequest& request, const Payload& payload,
                        std::span<const PlannedSite> sites) {
  // Only at entry the built-in program knows which of several probes of one event it runs for.
  const auto sharing = std::ranges::count_if(sites, [&](const PlannedSite& site) {
    return request.program.has_value() || !site.on_return;
  });
  const std::size_t processes = std::max<std::size_t>(request.pids.size(), 1);
  return {.filters_by_pid = !request.pids.empty(),
          .probes = static_cast<std::size_t>(sharing) * processes,
          .loaded_by_us = !request.program || !request.program->pinned,
          .kind = payload.kind()};
}

// The flow but for the life of a command, which is probed as request.pids.
Result<AttachOutcome> run(const AttachRequest& request, Payload& payload, HeldCommand* command,
                          OutputBuffer& out, Sink& sink, const Reporter& reporter) {
  auto signals = SignalWatch::start();
  if (!signals) return fail(std::move(signals).error());
  auto processes = ProcessWatch::start(request.pids);
  if (!processes) return fail(std::move(processes).error());

  TargetOptions options = request.target_options;
  if (command == nullptr) options.pids = request.pids; // a command maps nothing of its own yet
  const std::vector<Question> questions = payload.questions();
  auto found = resolve_questions(questions, request, options, reporter);
  if (!found) return fail(std::move(found).error());
  Resolved& resolved = *found;
  CodeReaders readers(request.target_options.debug_places);
  plan_returns(request, readers, resolved, reporter);
  std::size_t asked = 0;
  for (const Question& question : questions) asked += question.functions.size();
  if (auto judged = judge_failures(asked, request, resolved, sink, reporter); !judged)
    return fail(std::move(judged).error());
  AttachOutcome outcome;
  outcome.some_failed = !resolved.failures.empty();
  if (request.dry_run) {
    for (const ProbePoint& point : resolved.points) sink.match(point);
    return outcome;
  }

  const auto features = probe_kernel_features();
  if (!features) return fail(features.error());
  if (auto prepared = payload.prepare(*features); !prepared)
    return fail(std::move(prepared).error());
  const auto mechanism =
      choose_mechanism(request.mechanism, *features, needs_of(request, payload, resolved.sites));
  if (!mechanism) return fail(mechanism.error());
  if (auto checked = check_unwritten(resolved.points); !checked)
    return fail(std::move(checked).error());
  auto placed = place(request, *mechanism, payload, resolved, *signals, sink, reporter);
  if (!placed) return fail(std::move(placed).error());
  outcome.some_failed = !resolved.failures.empty();
  const std::vector<ProbePoint>& points = resolved.points;
  const auto earlier =
      request.pids.empty() ? std::vector<MappingSurvey>() : survey_points(points, request.pids);
  if (auto checked = check_unwritten(points); !checked) return fail(std::move(checked).error());
  warn_of_replaced(points, reporter);
  if (signals->arrived())
    return fail(ErrorKind::interrupted, "interrupted before the probes were in place");

  if (auto started = payload.start(); !started) return fail(std::move(started).error());
  const auto start = Clock::now();
  sink.attached(describe(*mechanism, placed->probes, payload.name()));
  reporter.detail(fmt::format("{} probes through {}, {} parts", placed->probes,
                              to_string(*mechanism),
                              placed->attachment ? placed->attachment->parts() : 0));
  show_instructions(points, reporter);
  reporter.status(start_line(request, points.size(), payload.others()));
  if (command != nullptr)
    if (auto released = command->release(); !released) return fail(std::move(released).error());

  out.write_only_when_asked();
  Pump pump(payload, out, sink, request);
  std::optional<Clock::time_point> deadline;
  if (request.duration) deadline = start + *request.duration;
  outcome.ending = pump.run(deadline, *signals, *processes);
  const auto end = Clock::now();

  // First nothing counts any more, then the probes go: they go one after the other, and nobody
  // should take the longer life of some for more calls.
  const bool stopped = payload.stop().has_value();
  take_away(*placed, reporter);
  if (!pump.finish()) {
    reporter.warning(fmt::format("the reader of the output has stalled: {} bytes and what the ring "
                                 "buffer still held are not written",
                                 out.pending()));
    out.abandon();
  }
  if (command != nullptr) outcome.command_status = command->end();
  payload.tell_sums(end, sink);
  payload.show_maps(sink, reporter);
  const auto hits = payload.hits(resolved.sites, points.size());
  report_end({.points = points,
              .pids = request.pids,
              .hits = hits,
              .earlier = earlier,
              .pumped = pump.state(),
              .corrupt = payload.corrupt(),
              .duration = end - start,
              .detached_cleanly = stopped},
             sink, reporter);
  if (request.expected_hits)
    outcome.too_few_hits =
        !check_expected_hits(*request.expected_hits, points, hits, sink, reporter);
  return outcome;
}

} // namespace

Result<AttachOutcome> run_attach(const AttachRequest& request, OutputBuffer& out, Sink& sink,
                                 const Reporter& reporter) {
  auto payload = make_payload(request, reporter);
  if (!payload) return fail(std::move(payload).error());
  if (request.command.empty() || request.dry_run)
    return run(request, **payload, nullptr, out, sink, reporter);
  auto command = HeldCommand::start(request.command);
  if (!command) return fail(std::move(command).error());
  AttachRequest probed = request;
  probed.pids = {command->pid()};
  auto outcome = run(probed, **payload, &*command, out, sink, reporter);
  if (outcome && !outcome->command_status)
    reporter.warning(fmt::format("process {} did not end when asked to (SIGTERM), it still runs",
                                 command->pid()));
  return outcome;
}

} // namespace uprobectl
