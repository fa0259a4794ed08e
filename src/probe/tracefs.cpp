// SPDX-License-Identifier: Apache-2.0
#include "probe/mechanisms.hpp"

#include "bpf/load_error.hpp"
#include "bpf/tracefs.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace uprobectl::probe {

namespace {

std::string hex(std::uint64_t value) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value, 16);
  return "0x" + std::string(digits, error == std::errc() ? end : digits);
}

} // namespace

TracefsEvents::TracefsEvents(std::string folder, UniqueFd commands)
    : folder_(std::move(folder)), group_(bpf::EventOwner::self().group()),
      commands_(std::move(commands)) {}

Result<TracefsEvents> TracefsEvents::open() {
  const auto folder = bpf::find_tracefs();
  if (!folder)
    return fail(Error{ErrorKind::unsupported, "no tracefs with uprobe_events is mounted"}.hint(
        "mount -t tracefs tracefs /sys/kernel/tracing"));
  const std::string path = *folder + "/uprobe_events";
  // O_APPEND, because O_TRUNC removes the events of all programs.
  UniqueFd commands{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  if (!commands)
    return fail(system_error(errno, path).hint("needs root, or write permission for this file"));
  TracefsEvents events(*folder, std::move(commands));
  events.remove_leftovers();
  return events;
}

// Each command is a single write, whose errno is the result.
std::expected<void, int> TracefsEvents::write_command(const std::string& text) const {
  const std::string line = text + "\n";
  for (;;) {
    if (::write(commands_.get(), line.data(), line.size()) >= 0) return {};
    if (errno != EINTR) return std::unexpected(errno);
  }
}

void TracefsEvents::remove_leftovers() const {
  std::vector<std::string> left;
  std::ifstream list(folder_ + "/uprobe_events");
  for (std::string line; std::getline(list, line);) { // "p:GROUP/NAME PATH:0xOFFSET"
    const auto colon = line.find(':');
    const auto slash = line.find('/');
    const auto space = line.find(' ');
    if (colon == std::string::npos || slash == std::string::npos || space == std::string::npos ||
        colon > slash || slash > space)
      continue;
    const auto owner =
        bpf::EventOwner::parse_group(std::string_view(line).substr(colon + 1, slash - colon - 1));
    if (owner && owner->has_ended()) left.push_back(line.substr(colon + 1, space - colon - 1));
  }
  for (const std::string& event : left) (void)write_command("-:" + event); // may be removed already
}

std::size_t TracefsEvents::count_locations(const std::string& name) const {
  std::size_t count = 0;
  std::ifstream list(folder_ + "/uprobe_events");
  for (std::string line; std::getline(list, line);)
    if (line.find(":" + name + " ") != std::string::npos) ++count;
  return count;
}

std::expected<std::uint64_t, int> TracefsEvents::add(std::span<const Location> locations,
                                                     bool on_return,
                                                     const std::function<bool()>& interrupted) {
  const std::string name =
      group_ + "/" + (on_return ? "return_" : "entry_") + std::to_string(next_++);
  for (const Location& location : locations) {
    if (interrupted()) return std::unexpected(ECANCELED);
    std::string text = (on_return ? "r:" : "p:") + name + " " + descriptor_path(location.file) +
                       ":" + hex(location.offset.value);
    if (location.semaphore) text += "(" + hex(location.semaphore->value) + ")";
    const auto made = write_command(text);
    if (!made) return std::unexpected(made.error());
    if (names_.empty() || names_.back() != name) names_.push_back(name);
  }
  // Before Linux 5.4 (commit 41af3cf587f2, "tracing/uprobe: Add multi-probe per uprobe event
  // support") an event replaced the previous one with the same name.
  if (locations.size() > 1 && count_locations(name) != locations.size())
    return std::unexpected(EOPNOTSUPP);
  std::ifstream id(folder_ + "/events/" + name + "/id");
  std::uint64_t number = 0;
  if (!(id >> number)) return std::unexpected(EIO);
  return number;
}

void TracefsEvents::remove() {
  using namespace std::chrono_literals;
  // The kernel releases a closed perf event asynchronously.
  constexpr int max_tries = 100;
  for (; !names_.empty(); names_.pop_back())
    for (int tries = 0; tries < max_tries; ++tries) {
      const auto gone = write_command("-:" + names_.back());
      if (gone || gone.error() != EBUSY) break;
      std::this_thread::sleep_for(20ms);
    }
}

namespace {

// Sites with the same program and cookie, which can share an event. Detaching costs a grace period
// per event and link: 200 probes take 14 s with 200 events and 0.1 s with one (Linux 6.1 in a
// guest; 6.12: 23 s and 0.13 s).
struct SharedEvent {
  std::vector<std::size_t> sites;
  std::set<std::pair<int, std::uint64_t>> locations; // an event can have each only once
};

std::vector<SharedEvent> group_into_events(std::span<const ProbeSite> sites) {
  std::map<std::tuple<int, bool, std::uint64_t>, std::vector<SharedEvent>> groups;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const ProbeSite& site = sites[i];
    auto& events = groups[{site.program.fd, site.on_return, site.cookie}];
    const std::pair location{site.file, site.offset.value};
    auto fits = std::ranges::find_if(
        events, [&](const SharedEvent& event) { return !event.locations.contains(location); });
    if (fits == events.end()) fits = events.emplace(events.end());
    fits->sites.push_back(i);
    fits->locations.insert(location);
  }
  std::vector<SharedEvent> all;
  for (auto& [key, events] : groups) std::ranges::move(events, std::back_inserter(all));
  return all;
}

class TracefsAttacher {
public:
  TracefsAttacher(const MechanismRequest& plan, ProbeDescriptors& descriptors)
      : plan_(plan), descriptors_(descriptors) {}

  Result<void> attach() const {
    for (const ProbeSite& site : plan_.sites)
      if (auto checked = check_binding(site, binding(), has_links_); !checked) return checked;
    // One event per process: a program can be attached to an event only once.
    for (const SharedEvent& event : group_into_events(plan_.sites))
      for (const pid_t pid : plan_.pids)
        if (auto done = attach_event(event.sites, pid); !done) return done;
    return {};
  }

private:
  PerfBinding binding() const { return has_links_ ? PerfBinding::link : PerfBinding::ioctl; }

  Result<void> attach_event(std::span<const std::size_t> sites, pid_t pid) const {
    const ProbeSite& first = plan_.sites[sites.front()];
    std::vector<TracefsEvents::Location> locations;
    for (const std::size_t i : sites)
      locations.push_back({.file = plan_.sites[i].file,
                           .offset = plan_.sites[i].offset,
                           .semaphore = plan_.sites[i].semaphore});
    const auto id = descriptors_.events->add(locations, first.on_return, plan_.interrupted);
    if (!id && id.error() == ECANCELED) return fail(interrupted_error());
    if (!id && id.error() == EOPNOTSUPP && sites.size() > 1) {
      for (const std::size_t& i : sites)
        if (auto done = attach_event(std::span(&i, 1), pid); !done) return done;
      return {};
    }
    if (!id) return fail(attach_error(id.error(), first.label, plan_));
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.config = *id;
    const auto done = attach_to_perf_event(attributes, first, pid, binding(), descriptors_);
    if (!done) return fail(attach_error(done.error(), first.label, plan_));
    return {};
  }

  const MechanismRequest& plan_;
  ProbeDescriptors& descriptors_;
  const bool has_links_ = bpf::kernel_has_perf_links();
};

} // namespace

Result<void> attach_tracefs(const MechanismRequest& plan, ProbeDescriptors& descriptors) {
  auto events = TracefsEvents::open();
  if (!events) return fail(std::move(events).error());
  descriptors.events = std::make_unique<TracefsEvents>(std::move(*events));
  bpf::raise_descriptor_limit();
  return TracefsAttacher(plan, descriptors).attach();
}

std::size_t count_perf_events(Mechanism mechanism, std::span<const ProbeSite> sites,
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
  return group_into_events(sites).size() * std::max<std::size_t>(processes, 1);
}

} // namespace uprobectl::probe
