// SPDX-License-Identifier: Apache-2.0
#include "inventory/inventory.hpp"

#include "bpf/link.hpp"
#include "bpf/tracefs.hpp"
#include "process/proc.hpp"
#include "uprobectl/process.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <tuple>
#include <unistd.h>

namespace uprobectl::inventory {

namespace {

namespace fs = std::filesystem;

// The BPF links and perf events that the descriptors of processes keep alive.
struct HeldPerfProbe {
  pid_t holder = 0;
  bpf::AttachedUprobes probe; // its path resolved through the holder's descriptors
};

// The links and perf events that descriptors of processes keep attached.
struct Holders {
  std::map<std::uint32_t, std::vector<pid_t>> links; // link id -> processes
  std::vector<HeldPerfProbe> perf_events;            // those with a BPF program
  std::size_t unreadable = 0; // processes whose descriptors could not be read
};

// Reads "link_id:" from the fdinfo of a BPF link.
std::optional<std::uint32_t> read_link_id(const std::string& path) {
  std::ifstream file(path);
  constexpr std::string_view key = "link_id:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    return parse_number<std::uint32_t>(trimmed(std::string_view(line).substr(key.size())));
  }
  return std::nullopt;
}

// The file at "/proc/self/fd/N", the path by which the process gave the kernel an open file.
// Returns other paths, and those of closed descriptors, unchanged.
std::string resolved_path(std::string path, pid_t process) {
  constexpr std::string_view own = "/proc/self/";
  if (!path.starts_with(own)) return path;
  auto found = read_link("/proc/" + std::to_string(process) + "/" + path.substr(own.size()));
  return found ? std::move(*found) : path;
}

void add_holder(pid_t pid, Holders& holders) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code failure;
  fs::directory_iterator descriptor(process + "/fd", failure);
  if (failure && failure != std::errc::no_such_file_or_directory) ++holders.unreadable;
  for (; !failure && descriptor != fs::directory_iterator(); descriptor.increment(failure)) {
    const auto target = read_link(descriptor->path().string());
    if (!target) continue;
    const std::string number = descriptor->path().filename().string();
    if (target->starts_with("anon_inode:bpf_link") || target->starts_with("anon_inode:bpf-link")) {
      if (const auto id = read_link_id(process + "/fdinfo/" + number))
        holders.links[*id].push_back(pid);
    } else if (*target == "anon_inode:[perf_event]") {
      auto probe = bpf::read_perf_event_probe(pid, std::atoi(number.c_str()));
      if (!probe) continue;
      probe->path = resolved_path(std::move(probe->path), pid);
      holders.perf_events.push_back({.holder = pid, .probe = std::move(*probe)});
    }
  }
}

// Reads /proc/PID/fd and fdinfo of every process.
Holders find_holders() {
  Holders holders;
  for (const pid_t pid : process::all_processes()) add_holder(pid, holders);
  return holders;
}

std::optional<TracefsEvent> parse_event(std::string_view line) {
  if (line.size() < 3 || (line[0] != 'p' && line[0] != 'r')) return std::nullopt;
  const auto colon = line.find(':');
  const auto space = line.find(' ');
  if (colon == std::string_view::npos || space == std::string_view::npos || colon > space)
    return std::nullopt;
  TracefsEvent event{.name = std::string(line.substr(colon + 1, space - colon - 1)),
                     .on_return = line[0] == 'r',
                     .path = {},
                     .offset = {}};
  // The kernel prints the offset with 0x, so the last ":0x" before the arguments precedes it. The
  // path may contain a colon, but no space.
  const auto location = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
  const auto at = location.rfind(":0x");
  if (at == std::string_view::npos) return std::nullopt;
  event.path = location.substr(0, at);
  std::string_view digits = location.substr(at + 3);
  const auto offset = take_number<std::uint64_t>(digits, 16);
  if (!offset || (!digits.empty() && digits.front() != '(')) return std::nullopt;
  event.offset = {*offset};
  return event;
}

class InventoryReader {
public:
  Result<Inventory> read() && {
    // Without /proc, held probes would look like leftovers and perf events would be missed.
    if (auto mounted = process::check_proc_mounted(); !mounted)
      return fail(std::move(mounted).error());
    auto links = bpf::list_link_ids();
    if (!links) return fail(std::move(links).error());
    const Holders holders = find_holders();
    for (const std::uint32_t link : *links) add_link(link, holders);
    for (const HeldPerfProbe& event : holders.perf_events) add_perf_event(event);
    add_tracefs();
    if (holders.unreadable > 0)
      inventory_.warnings.push_back(
          fmt::format("the descriptors of {} processes are not readable", holders.unreadable));
    if (unreported_links_ > 0)
      inventory_.warnings.push_back(fmt::format(
          "{} uprobe_multi links are not listed: the kernel reports their probes since Linux 6.8",
          unreported_links_));
    inventory_.is_complete = inventory_.warnings.empty();
    std::vector<InstalledProbe>& probes = inventory_.probes;
    for (std::string& warning : symbolize_probes(probes))
      inventory_.warnings.push_back(std::move(warning));
    std::ranges::sort(probes, {}, [](const InstalledProbe& probe) {
      return std::tuple(std::string_view(probe.file), probe.offset, probe.on_return,
                        std::string_view(probe.mechanism));
    });
    return std::move(inventory_);
  }

private:
  // A link on a perf event that a process holds is listed by add_perf_event(), which works on older
  // kernels too.
  void add_link(std::uint32_t link, const Holders& holders) {
    const auto found = holders.links.find(link);
    const bool held = found != holders.links.end();
    if (const auto multi = bpf::read_multi_link_probes(link)) {
      add(*multi, "multi", held ? found->second : std::vector<pid_t>());
      if (multi->offsets.empty()) ++unreported_links_;
    } else if (const auto perf = held ? std::nullopt : bpf::read_perf_link_probe(link))
      add(*perf, "perf", {});
  }

  // After a fork, several processes hold the same perf event.
  void add_perf_event(const HeldPerfProbe& event) {
    const FileOffset offset = event.probe.offsets.front();
    const auto program = bpf::program_name(event.probe.program);
    for (InstalledProbe& known : inventory_.probes) {
      if (known.mechanism != "perf" || known.file != event.probe.path || known.offset != offset ||
          known.on_return != event.probe.on_return || known.program != program)
        continue;
      if (std::ranges::find(known.holders, event.holder, &ProbeHolder::pid) == known.holders.end())
        known.holders.push_back(make_holder(event.holder));
      return;
    }
    add(event.probe, "perf", {event.holder});
  }

  static ProbeHolder make_holder(pid_t pid) {
    return {.pid = pid, .comm = process::read_comm(pid).value_or("")};
  }

  void add(const bpf::AttachedUprobes& held, std::string_view mechanism,
           const std::vector<pid_t>& pids) {
    std::vector<ProbeHolder> holders;
    for (const pid_t pid : pids) holders.push_back(make_holder(pid));
    std::ranges::sort(holders);
    holders.erase(std::ranges::unique(holders).begin(), holders.end());
    const auto program = bpf::program_name(held.program);
    for (const FileOffset offset : held.offsets)
      inventory_.probes.push_back(
          {.mechanism = std::string(mechanism),
           .file = held.path,
           .entry = {},
           .offset = offset,
           .on_return = held.on_return,
           .symbol = {},
           .filter = held.filter > 0 ? std::optional(held.filter) : std::nullopt,
           .holders = holders,
           .program = program,
           .event = {},
           .leftover = holders.empty()});
  }

  void add_event(TracefsEvent event, const std::string& root) {
    const auto owner = bpf::EventOwner::parse_group(event.name.substr(0, event.name.find('/')));
    const bool has_ended = owner && owner->has_ended();
    if (owner) {
      const std::string known = event.path;
      event.path = resolved_path(std::move(event.path), owner->pid);
      // Without this, /proc/self/fd/N would be read as a descriptor of this process.
      if (has_ended || event.path == known)
        event.path = fmt::format("{} of process {}", known, owner->pid);
    }
    // If the owner runs, its perf event on this tracefs event is listed already.
    const auto same = [&](const InstalledProbe& probe) {
      return probe.file == event.path && probe.offset == event.offset;
    };
    if (owner && !has_ended) {
      const auto held = std::ranges::find_if(inventory_.probes, [&](const InstalledProbe& probe) {
        return probe.mechanism == "perf" && same(probe) && probe.on_return == event.on_return &&
               !probe.holders.empty() && probe.holders.front().pid == owner->pid;
      });
      if (held != inventory_.probes.end()) {
        held->mechanism = "tracefs";
        held->event = std::move(event.name);
        return;
      }
      // The kernel reports only the first location of an event with several.
      const auto first = std::ranges::find(inventory_.probes, event.name, &InstalledProbe::event);
      if (first != inventory_.probes.end()) {
        InstalledProbe probe = *first;
        probe.file = std::move(event.path);
        probe.offset = event.offset;
        inventory_.probes.push_back(std::move(probe));
        return;
      }
    }
    const auto enabled = process::try_read_pseudo_file(root + "/events/" + event.name + "/enable");
    const bool has_program =
        std::ranges::any_of(inventory_.probes, [&](const InstalledProbe& probe) {
          return probe.mechanism != "tracefs" && same(probe);
        });
    const bool is_used =
        has_program || (enabled && enabled->starts_with('1')) || (owner && !has_ended);
    inventory_.probes.push_back({.mechanism = "tracefs",
                                 .file = std::move(event.path),
                                 .entry = {},
                                 .offset = event.offset,
                                 .on_return = event.on_return,
                                 .symbol = {},
                                 .filter = {},
                                 .holders = {},
                                 .program = {},
                                 .event = std::move(event.name),
                                 .leftover = !is_used});
  }

  void add_tracefs() {
    constexpr std::array roots = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    for (const std::string root : roots) {
      const auto text = process::try_read_pseudo_file(root + "/uprobe_events");
      if (!text) continue;
      ListedEvents parsed = parse_uprobe_events(*text);
      for (TracefsEvent& event : parsed.events) add_event(std::move(event), root);
      if (parsed.unknown_lines > 0)
        inventory_.warnings.push_back(fmt::format(
            "{}/uprobe_events: {} lines have an unknown format", root, parsed.unknown_lines));
      return;
    }
    inventory_.warnings.push_back("tracefs is not readable: its events are not listed");
  }

  Inventory inventory_;
  std::size_t unreported_links_ = 0; // links whose probes the kernel does not report
};

} // namespace

ListedEvents parse_uprobe_events(std::string_view text) {
  ListedEvents result;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    if (auto event = parse_event(line))
      result.events.push_back(std::move(*event));
    else
      ++result.unknown_lines;
  }
  return result;
}

Result<Inventory> read_inventory() { return InventoryReader().read(); }

} // namespace uprobectl::inventory
