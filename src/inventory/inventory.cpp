#include "inventory/inventory.hpp"
#include "bpf/tracefs.hpp"
#include "inventory/holders.hpp"
#include "inventory/probe_names.hpp"
#include "process/proc.hpp"
#include "uprobectl/process.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <tuple>

namespace uprobectl {

namespace {

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
  // The kernel writes the offset as 0x and at least 16 digits, so that this is the last ":0x"
  // before the arguments; a path may hold a colon, but no space.
  const auto place = line.substr(space + 1, line.find(' ', space + 1) - space - 1);
  const auto at = place.rfind(":0x");
  if (at == std::string_view::npos) return std::nullopt;
  event.path = place.substr(0, at);
  std::string_view digits = place.substr(at + 3);
  const auto offset = take_number<std::uint64_t>(digits, 16);
  if (!offset || (!digits.empty() && digits.front() != '(')) return std::nullopt;
  event.offset = {*offset};
  return event;
}

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

namespace {

class InventoryTaker {
public:
  Result<Inventory> take() && {
    // Without it what is held would look like leftovers, and perf events would not be seen at all.
    if (auto mounted = check_proc_mounted(); !mounted) return fail(std::move(mounted).error());
    auto links = all_links();
    if (!links) return fail(std::move(links).error());
    const Holders holders = find_holders();
    for (const std::uint32_t link : *links) add_link(link, holders);
    for (const HeldPerfProbe& event : holders.perf_events) add_perf_event(event);
    add_tracefs();
    if (holders.unreadable > 0)
      inventory_.warnings.push_back(
          fmt::format("{} processes could not be looked at", holders.unreadable));
    if (untold_ > 0)
      inventory_.warnings.push_back(fmt::format(
          "{} uprobe_multi links are not listed: kernels tell their probes from Linux 6.8 on",
          untold_));
    std::vector<InstalledProbe>& probes = inventory_.probes;
    for (std::string& warning : name_probes(probes))
      inventory_.warnings.push_back(std::move(warning));
    std::ranges::sort(probes, {}, [](const InstalledProbe& probe) {
      return std::tuple(std::string_view(probe.file), probe.offset, probe.on_return,
                        std::string_view(probe.mechanism));
    });
    return std::move(inventory_);
  }

private:
  // A link on a perf event that a process holds is found by its event, on older kernels too.
  void add_link(std::uint32_t link, const Holders& holders) {
    const auto found = holders.links.find(link);
    const bool held = found != holders.links.end();
    if (const auto multi = probes_of_multi_link(link)) {
      add(*multi, "multi", held ? found->second : std::vector<pid_t>());
      if (multi->offsets.empty()) ++untold_;
    } else if (const auto perf = held ? std::nullopt : probe_of_perf_link(link))
      add(*perf, "perf", {});
  }

  // A probe is kept by each descriptor of its event, after a fork by several processes'.
  void add_perf_event(const HeldPerfProbe& event) {
    const FileOffset offset = event.probe.offsets.front();
    const auto program = program_name(event.probe.program);
    for (InstalledProbe& known : inventory_.probes) {
      if (known.mechanism != "perf" || known.file != event.probe.path || known.offset != offset ||
          known.on_return != event.probe.on_return || known.program != program)
        continue;
      if (std::ranges::find(known.holders, event.holder, &ProbeHolder::pid) == known.holders.end())
        known.holders.push_back(holder_of(event.holder));
      return;
    }
    add(event.probe, "perf", {event.holder});
  }

  static ProbeHolder holder_of(pid_t pid) {
    return {.pid = pid, .comm = command_name(pid).value_or("")};
  }

  void add(const HeldProbes& held, std::string_view mechanism, const std::vector<pid_t>& pids) {
    std::vector<ProbeHolder> holders;
    for (const pid_t pid : pids) holders.push_back(holder_of(pid));
    std::ranges::sort(holders);
    holders.erase(std::ranges::unique(holders).begin(), holders.end());
    const auto program = program_name(held.program);
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
    const auto owner = EventOwner::of_group(event.name.substr(0, event.name.find('/')));
    const bool has_ended = owner && owner->has_ended();
    if (owner) {
      const std::string known = event.path;
      event.path = resolved_path(std::move(event.path), owner->pid);
      // Somebody else's descriptor is not ours of that number.
      if (has_ended || event.path == known)
        event.path = fmt::format("{} of process {}", known, owner->pid);
    }
    // What is on the event is known by the perf event that its owner holds.
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
      // The kernel tells only the first of several probes that share an event.
      const auto first = std::ranges::find(inventory_.probes, event.name, &InstalledProbe::event);
      if (first != inventory_.probes.end()) {
        InstalledProbe probe = *first;
        probe.file = std::move(event.path);
        probe.offset = event.offset;
        inventory_.probes.push_back(std::move(probe));
        return;
      }
    }
    const auto enabled = pseudo_file_text(root + "/events/" + event.name + "/enable");
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
      const auto text = pseudo_file_text(root + "/uprobe_events");
      if (!text) continue;
      ListedEvents parsed = parse_uprobe_events(*text);
      for (TracefsEvent& event : parsed.events) add_event(std::move(event), root);
      if (parsed.unknown_lines > 0)
        inventory_.warnings.push_back(fmt::format("{} lines of {}/uprobe_events are not understood",
                                                  parsed.unknown_lines, root));
      return;
    }
    inventory_.warnings.push_back("no tracefs can be read: its events are not listed");
  }

  Inventory inventory_;
  std::size_t untold_ = 0; // links whose probes the kernel does not tell
};

} // namespace

Result<Inventory> take_inventory() { return InventoryTaker().take(); }

} // namespace uprobectl
