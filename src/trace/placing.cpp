// SPDX-License-Identifier: Apache-2.0
#include "trace/placing.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>

namespace uprobectl::trace {

namespace {

// Detaching a perf event waits for a grace period and cannot be interrupted. One takes 0.04 s on
// Linux 6.8, up to 0.5 s on 6.12; they are detached one after the other.
constexpr std::size_t many_perf_events = 50;

// How often attaching again is tried while its tasks end, and how long it waits in between.
constexpr int max_attempts = 500;
constexpr std::chrono::milliseconds attempt_interval{1};

std::vector<probe::ProbeSite> collect_sites(const Probes& probes,
                                            const std::set<FileIdentity>& left_out = {}) {
  // The kernel runs programs at one offset in the order opposite to that of attaching (Linux
  // kernel/events/uprobes.c, consumer_add()). Where several calls end, because of tail calls, the
  // outer ones come first, so that they end last.
  using Position = std::tuple<std::size_t, std::size_t, std::size_t>;
  std::vector<std::pair<Position, probe::ProbeSite>> ordered;
  for (const Probe& probe : probes) {
    const resolve::ProbePoint& point = probe.point;
    if (left_out.contains(point.binary->file->identity())) continue;
    for (const PlannedSite& site : probe.sites)
      ordered.emplace_back(
          Position{site.exit ? site.exit->depth : 0, probe.callees.size(), ~ordered.size()},
          probe::ProbeSite{.file = point.binary->file->fd(),
                           // resolve_requests() rejects points without an offset
                           .offset = site.exit ? site.exit->offset : *uprobe_offset(point),
                           .semaphore = point.semaphore,
                           .on_return = site.on_return && !site.exit,
                           .program = site.loaded,
                           .cookie = site.cookie,
                           .label = to_string(point.binary->path) + ": " + name_in_file(point),
                           .probe = probe.number});
  }
  std::ranges::sort(ordered, std::greater(), &std::pair<Position, probe::ProbeSite>::first);
  std::vector<probe::ProbeSite> sites;
  sites.reserve(ordered.size());
  for (auto& [position, site] : ordered) sites.push_back(std::move(site));
  return sites;
}

// A probe with a site that the kernel rejects.
struct RejectedSite {
  std::size_t probe = 0;
  Error error;
};

// Returns true if the error concerns one site, not all probes.
bool concerns_one_site(const Error& error) {
  return error.kind == ErrorKind::unsupported || error.kind == ErrorKind::io;
}

class ProbeAttacher {
public:
  ProbeAttacher(std::span<const pid_t> pids, probe::Mechanism mechanism, SignalWatch& signals,
                output::Output& output)
      : pids_(pids), mechanism_(mechanism), signals_(signals), output_(output) {}

  // Attaches all sites, and prints the expected time if it is long.
  Result<probe::Attachment> attach_all(std::span<const probe::ProbeSite> sites) const {
    DurationEstimate time(probes(sites), DurationEstimate::Clock::now());
    // One link attaches many sites at once.
    const bool one_by_one = count_perf_events(mechanism_, sites, pids_.size()) > 0;
    return attach(sites, [&](std::size_t attached) {
      const auto expected =
          one_by_one ? time.estimate(attached, DurationEstimate::Clock::now()) : std::nullopt;
      if (expected)
        output_.status(fmt::format("attaching {} probes one by one takes about {} s", probes(sites),
                                   std::chrono::ceil<std::chrono::seconds>(*expected).count()));
    });
  }

  // Finds by bisection the sites that the kernel rejects. Attaches the others for a short time.
  void find_rejected(std::span<const probe::ProbeSite> sites,
                     std::vector<RejectedSite>& rejected) const {
    const auto tried = attach(sites, [](std::size_t) {});
    if (tried) return;
    if (sites.size() == 1 || !concerns_one_site(tried.error())) {
      rejected.push_back({.probe = sites.front().probe, .error = tried.error()});
      return;
    }
    const std::size_t half = sites.size() / 2;
    find_rejected(sites.first(half), rejected);
    find_rejected(sites.subspan(half), rejected);
  }

private:
  std::size_t probes(std::span<const probe::ProbeSite> sites) const {
    return sites.size() * std::max<std::size_t>(pids_.size(), 1);
  }

  Result<probe::Attachment> attach(std::span<const probe::ProbeSite> sites,
                                   const std::function<void(std::size_t)>& report) const {
    output::Progress progress(output_, "attaching probes", probes(sites));
    std::size_t attached = 0;
    return probe::Attachment::attach(mechanism_, sites, pids_, [&] {
      report(attached);
      progress.report(attached++);
      return signals_.arrived();
    });
  }

  std::span<const pid_t> pids_;
  probe::Mechanism mechanism_;
  SignalWatch& signals_;
  output::Output& output_;
};

// Reports the rejected sites and removes their probes; of static probes all locations.
void remove_rejected(std::span<const RejectedSite> rejected, ResolvedProbes& resolved,
                     output::Output& output) {
  std::set<std::size_t> reported; // by Probe::first
  for (const RejectedSite& rejected_site : rejected) {
    const Probe& probe = resolved.probes[rejected_site.probe];
    if (!reported.insert(probe.first).second) continue;
    const resolve::ProbePoint& point = probe.point;
    const std::string& target = point.binary->target;
    output.fail(rejected_site.error, target, point.request);
    resolved.failures.push_back(
        {.target = target, .function = point.request, .error = rejected_site.error});
  }
  resolved.probes.remove_if([&](const Probe& probe) { return reported.contains(probe.first); });
}

void warn_about_slow_detach(std::size_t events, output::Output& output) {
  if (events <= many_perf_events) return;
  output.warn(fmt::format("detaching {} perf events may take {} to {} s and cannot be interrupted",
                          events, events / 25, events / 2));
}

Result<void> load_programs(ProgramSource& program, const LoadRequest& load,
                           ResolvedProbes& resolved, output::Output& output) {
  const output::Progress progress(output, "loading the programs");
  return program.load(load, resolved);
}

} // namespace

std::optional<DurationEstimate::Clock::duration> DurationEstimate::estimate(std::size_t done,
                                                                            Clock::time_point now) {
  constexpr std::chrono::milliseconds sample{100};
  constexpr std::chrono::seconds longer_than{2};
  const auto elapsed = now - start_;
  if (reported_ || done == 0 || elapsed < sample) return std::nullopt;
  const auto expected = elapsed / done * all_;
  if (expected <= longer_than) return std::nullopt;
  reported_ = true;
  return expected;
}

void detach_probes(AttachedProbes& attached, output::Output& output) {
  if (!attached.attachment) return;
  output::Progress progress(output, "detaching probes", attached.attachment->detach_steps());
  attached.attachment->detach([&](std::size_t done) { progress.report(done); });
  attached.attachment.reset();
}

// The former links are removed first: the programs of both would run.
Result<bool> attach_again(FilteredProcesses& processes, probe::Mechanism mechanism,
                          const Probes& probes, SignalWatch& signals, AttachedProbes& attached) {
  if (!attached.attachment) return false;
  attached.attachment.reset();
  const std::vector<probe::ProbeSite> sites = collect_sites(probes, attached.left_out);
  if (sites.empty()) return false;
  const bool is_system_wide = processes.link_pids().empty();
  // A task may end, or become another one by executing a program, before it has its probes.
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    const std::vector<pid_t> tasks = processes.choose_link_tasks();
    if (tasks.empty() && !is_system_wide) return false;
    auto attachment =
        probe::Attachment::attach(mechanism, sites, tasks, [&] { return signals.arrived(); });
    if (attachment) {
      attached.attachment.emplace(std::move(*attachment));
      return true;
    }
    if (attachment.error().kind != ErrorKind::not_found) return fail(std::move(attachment).error());
    std::this_thread::sleep_for(attempt_interval);
  }
  return fail(ErrorKind::not_found, "its threads end or execute programs all the time");
}

Result<AttachedProbes> attach_probes(std::span<const pid_t> pids, bool keep_going,
                                     const LoadRequest& load, ProgramSource& program,
                                     ResolvedProbes& resolved, SignalWatch& signals,
                                     output::Output& output) {
  const probe::Mechanism mechanism = load.mechanism;
  for (;;) {
    auto loaded = load_programs(program, load, resolved, output);
    if (!loaded) return fail(std::move(loaded).error());
    const std::vector<probe::ProbeSite> sites = collect_sites(resolved.probes);
    if (sites.empty()) return AttachedProbes{};
    const std::size_t probes = sites.size() * std::max<std::size_t>(pids.size(), 1);
    warn_about_slow_detach(count_perf_events(mechanism, sites, pids.size()), output);
    const ProbeAttacher attacher(pids, mechanism, signals, output);
    auto attachment = attacher.attach_all(sites);
    if (attachment) return AttachedProbes{std::move(*attachment), probes};
    if (sites.size() == 1 || !concerns_one_site(attachment.error()))
      return fail(std::move(attachment).error());

    std::vector<RejectedSite> rejected;
    attacher.find_rejected(sites, rejected);
    if (rejected.empty())
      return fail(std::move(attachment).error()); // each half succeeded: there are too many sites
    const bool is_required = std::ranges::any_of(rejected, [&](const RejectedSite& each) {
      return resolved.probes[each.probe].is_required();
    });
    if (!keep_going || is_required) return fail(std::move(rejected.front().error));
    remove_rejected(rejected, resolved, output);
    if (std::ranges::none_of(resolved.probes, &Probe::is_recorded))
      return fail(ErrorKind::unsupported, "the kernel rejected all probes");
  }
}

Result<void> detach_files(std::span<const MappedFile* const> files, FilteredProcesses& processes,
                          probe::Mechanism mechanism, const Probes& probes, SignalWatch& signals,
                          AttachedProbes& attached) {
  for (const MappedFile* file : files) attached.left_out.insert(file->identity());
  if (auto again = attach_again(processes, mechanism, probes, signals, attached); !again)
    return fail(std::move(again).error());
  return {};
}

} // namespace uprobectl::trace
