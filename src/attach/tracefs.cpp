#include "attach/perf_events.hpp"
#include "bpf/descriptor_limit.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace uprobectl {

namespace {

// Sites that one event serves: one program with one cookie. In the guest with Linux 6.1 taking away
// 200 probes costs as much by 200 such events as by 200 perf events, 14 s, and 0.1 s where they
// share one (6.12: 23 s and 0.13 s): a grace period is paid for each event and each link.
struct SharedEvent {
  std::vector<std::size_t> sites;
  std::set<std::pair<int, std::uint64_t>> places; // an event takes a place only once
};

std::vector<SharedEvent> shared_events(std::span<const ProbeSite> sites) {
  std::map<std::tuple<int, bool, std::uint64_t>, std::vector<SharedEvent>> groups;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const ProbeSite& site = sites[i];
    auto& events = groups[{site.program.fd, site.on_return, site.cookie}];
    const std::pair place{site.file, site.offset.value};
    auto fits = std::ranges::find_if(
        events, [&](const SharedEvent& event) { return !event.places.contains(place); });
    if (fits == events.end()) fits = events.emplace(events.end());
    fits->sites.push_back(i);
    fits->places.insert(place);
  }
  std::vector<SharedEvent> all;
  for (auto& [key, events] : groups) std::ranges::move(events, std::back_inserter(all));
  return all;
}

class TracefsPlacer {
public:
  TracefsPlacer(const Placement& placement, Descriptors& placed)
      : placement_(placement), placed_(placed) {}

  Result<void> place() const {
    for (const ProbeSite& site : placement_.sites)
      if (auto may = may_bind(site, binding(), has_links_); !may) return may;
    // An event for each process: a program can be put onto one only once.
    for (const SharedEvent& event : shared_events(placement_.sites))
      for (const pid_t pid : placement_.pids)
        if (auto done = place_together(event.sites, pid); !done) return done;
    return {};
  }

private:
  PerfBinding binding() const { return has_links_ ? PerfBinding::link : PerfBinding::ioctl; }

  Result<void> place_together(std::span<const std::size_t> sites, pid_t pid) const {
    const ProbeSite& first = placement_.sites[sites.front()];
    std::vector<TracefsEvents::Place> places;
    for (const std::size_t i : sites)
      places.push_back({.file = placement_.sites[i].file,
                        .offset = placement_.sites[i].offset,
                        .semaphore = placement_.sites[i].semaphore});
    const auto id = placed_.events->add(places, first.on_return, placement_.interrupted);
    if (!id && id.error() == ECANCELED) return fail(interrupted_error());
    if (!id && id.error() == EOPNOTSUPP && sites.size() > 1) {
      for (const std::size_t& i : sites)
        if (auto done = place_together(std::span(&i, 1), pid); !done) return done;
      return {};
    }
    if (!id) return fail(placement_error(id.error(), first.label, placement_.mechanism));
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.config = *id;
    const auto done = place_on_event(attributes, first, pid, binding(), placed_);
    if (!done) return fail(placement_error(done.error(), first.label, placement_.mechanism));
    return {};
  }

  const Placement& placement_;
  Descriptors& placed_;
  const bool has_links_ = kernel_has_perf_links();
};

} // namespace

Result<void> place_tracefs(const Placement& placement, Descriptors& placed) {
  auto events = TracefsEvents::open();
  if (!events) return fail(std::move(events).error());
  placed.events = std::make_unique<TracefsEvents>(std::move(*events));
  raise_descriptor_limit();
  return TracefsPlacer(placement, placed).place();
}

std::size_t perf_events_needed(Mechanism mechanism, std::span<const ProbeSite> sites,
                               std::size_t processes) {
  switch (mechanism) {
  case Mechanism::multi:
  case Mechanism::session:
    return 0;
  case Mechanism::perf:
  case Mechanism::perf_ioctl:
    return sites.size() * std::max<std::size_t>(processes, 1);
  case Mechanism::tracefs:
    break;
  }
  return shared_events(sites).size() * std::max<std::size_t>(processes, 1);
}

} // namespace uprobectl
