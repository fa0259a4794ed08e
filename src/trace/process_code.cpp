// SPDX-License-Identifier: Apache-2.0
#include "trace/process_code.hpp"

#include "bpf/pid_namespace.hpp"
#include "insn/code_forms.hpp"
#include "inventory/inventory.hpp"
#include "process/child.hpp"
#include "process/proc.hpp"
#include "trace/diagnosis.hpp"
#include "trace/paced_look.hpp"
#include "trace/skipped_probes.hpp"
#include "uprobectl/insn.hpp"
#include "util/mapped_file.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{500};
// Processes with a finding that are looked at a second time.
constexpr std::size_t max_confirmed = 64;
constexpr std::chrono::milliseconds confirm_delay{10};
// A breakpoint may be that of a tool that is just ending.
constexpr int owner_tries = 10;
constexpr std::chrono::milliseconds owner_wait{100};

// Returns "/path/of/file", or "anonymous memory".
std::string mapping_name(std::span<const process::Mapping> mappings, std::uint64_t address) {
  for (const process::Mapping& each : mappings)
    if (address >= each.start && address < each.end)
      return each.path.empty() ? "anonymous memory" : each.path;
  return "memory that is not mapped";
}

std::string hex_bytes(Bytes bytes) {
  std::string text;
  for (const std::byte each : bytes)
    text += fmt::format("{}{:02x}", text.empty() ? "" : " ", std::to_integer<unsigned>(each));
  return text;
}

// Returns the process that traces this one, as debuggers do.
std::optional<pid_t> find_tracer(pid_t pid) {
  const auto status = process::try_read_pseudo_file(process::proc_path(pid, "status"));
  if (!status) return std::nullopt;
  std::string_view rest = *status;
  constexpr std::string_view key = "TracerPid:\t";
  while (!rest.empty())
    if (const std::string_view line = take_line(rest); line.starts_with(key)) {
      const auto tracer = parse_number<pid_t>(line.substr(key.size()));
      return tracer && *tracer > 0 ? tracer : std::nullopt;
    }
  return std::nullopt;
}

std::string_view without_deleted(std::string_view path) {
  process::take_deleted_mark(path);
  return path;
}

// Finds out whose breakpoint is in a process.
class BreakpointOwners {
public:
  enum class Owner { uprobe, other, unknown };

  // `is_there`: looks whether the breakpoint is still there.
  Owner find(const process::ProbedFile& file, pid_t pid, const std::function<bool()>& is_there) {
    for (int i = 0;; ++i) {
      if (i > 0) {
        if (tries_left_ == 0) break;
        --tries_left_;
        std::this_thread::sleep_for(owner_wait);
        if (!is_there()) return Owner::uprobe;
        inventory_.reset();
      }
      if (!inventory_) inventory_ = inventory::read_inventory();
      if (!*inventory_) break;
      if (has_probe(**inventory_, file)) return Owner::uprobe;
      if (!is_complete(**inventory_)) break;
      if (find_tracer(pid)) return Owner::other;
    }
    const bool is_known = inventory_ && *inventory_ && is_complete(**inventory_);
    return is_known || find_tracer(pid) ? Owner::other : Owner::unknown;
  }

private:
  static bool is_complete(const inventory::Inventory& inventory) { return inventory.is_complete; }

  static bool has_probe(const inventory::Inventory& inventory, const process::ProbedFile& file) {
    return std::ranges::any_of(inventory.probes, [&](const inventory::InstalledProbe& probe) {
      if (probe.offset != file.offset) return false;
      if (without_deleted(probe.file) == without_deleted(file.real_path)) return true;
      const auto status = stat_path(probe.file);
      return status && FileIdentity{status->st_dev, status->st_ino} == file.identity;
    });
  }

  std::optional<Result<inventory::Inventory>> inventory_; // read when first needed
  int tries_left_ = owner_tries;                          // of all sites
};

// Returns the instruction in the file; empty if it cannot be compared.
process::ProbedCode code_at(const resolve::ProbePoint& point, FileOffset offset) {
  const auto arch = code_arch(point.binary->machine);
  if (!arch || arch_info(*arch).breakpoint.empty()) return {};
  const Bytes file = point.binary->file->bytes();
  if (offset.value >= file.size()) return {};
  const Bytes rest =
      file.subspan(offset.value,
                   std::min<std::uint64_t>(insn::max_instruction_size, file.size() - offset.value));
  const auto size = insn::instruction_size(*arch, rest);
  if (!size || *size > rest.size()) return {};
  return {.instruction = rest.first(*size), .breakpoint = as_bytes(arch_info(*arch).breakpoint)};
}

// Describes the code in the process now.
std::string describe_now(const resolve::ProbePoint& point, pid_t pid, std::uint64_t address) {
  const auto arch = code_arch(point.binary->machine);
  const process::ProcessMemory memory(pid);
  std::array<std::byte, insn::max_instruction_size> found{};
  if (!arch || !memory.read(address, found)) return "other code";
  const auto mappings = process::read_all_mappings(pid);
  return describe_code(*arch, found, address,
                       mappings ? *mappings : std::vector<process::Mapping>(), &memory);
}

} // namespace

FileOffset site_offset(const resolve::ProbePoint& point, const PlannedSite& site) {
  return site.on_return && site.exit ? site.exit->offset : *uprobe_offset(point);
}

SiteCode::SiteCode(std::span<const Probe> all, const std::set<FileIdentity>& left_out) {
  for (const Probe& probe : all) {
    if (left_out.contains(probe.point.binary->file->identity())) continue;
    std::set<FileOffset> offsets;
    for (const PlannedSite& site : probe.sites) offsets.insert(site_offset(probe.point, site));
    for (const FileOffset offset : offsets) add(probe.point, offset, probe.number);
  }
}

void SiteCode::add(const resolve::ProbePoint& point, FileOffset offset, std::size_t probe) {
  files.push_back(probed_file(point));
  files.back().offset = offset;
  code.push_back(code_at(point, offset));
  probes.push_back(probe);
  points.push_back(&point);
}

std::string describe_code(Arch arch, Bytes found, std::uint64_t address,
                          std::span<const process::Mapping> mappings,
                          const process::ProcessMemory* memory) {
  const auto read_word = [&](std::uint64_t slot) -> std::optional<std::uint64_t> {
    std::array<std::byte, sizeof(std::uint64_t)> word{};
    if (memory == nullptr || !memory->read(slot, word)) return std::nullopt;
    return read_at<std::uint64_t>(Bytes(word), 0);
  };
  if (const auto jump = insn::written_jump_at(arch, found, address, read_word))
    return fmt::format("{} to {:#x} in {}", jump->is_call ? "a call" : "a jump", jump->target,
                       mapping_name(mappings, jump->target));
  if (auto text = insn::instruction_text(arch, found, {address})) return "'" + *text + "'";
  return "the bytes " + hex_bytes(found);
}

namespace {

// Compares the code before probes are attached.
class CodeComparison {
public:
  // `pids`: none: all processes.
  CodeComparison(const SiteCode& sites, std::span<const pid_t> pids)
      : sites_(sites), pids_(pids.begin(), pids.end()) {
    process::MappingSurveyor surveyor(sites.files, sites.code, process::CodeState::intact);
    for (const pid_t pid : pids_.empty() ? process::all_processes() : pids_)
      if (pid != ::getpid()) surveyor.add(pid);
    survey_ = surveyor.take_code();
    for (std::size_t i = 0; i < sites.files.size(); ++i) compare(i);
  }

  const std::map<std::size_t, SiteProblem>& problems() const { return problems_; } // by probe

  void warn(output::Output& output) const {
    for (const resolve::ProbePoint* const point : unowned_)
      output.gathered_warning(
          "unknown breakpoint",
          fmt::format("{}: a breakpoint is there already, which is taken for that of another "
                      "uprobe: if it is a debugger's, the debugger loses it",
                      display_name(*point)));
    if (!survey_.unreadable.empty())
      output.warn(fmt::format("the code of {} cannot be compared with the file: the memory is not "
                              "readable (CAP_SYS_PTRACE)",
                              survey_.unreadable.size() == 1
                                  ? process::describe_process(survey_.unreadable.front())
                                  : counted(survey_.unreadable.size(), "process", "processes")));
    if (survey_.omitted > 0)
      output.warn(fmt::format("the code of {} was not compared with the file: there are too many",
                              counted(survey_.omitted, "process", "processes")));
  }

private:
  void compare(std::size_t site) {
    bool has_breakpoint = false;
    for (const process::CodeFinding& each : survey_.findings[site])
      if (each.state == process::CodeState::changed) {
        add(site, each.pid, "has changed its code in memory",
            ": there is " + describe_now(*sites_.points[site], each.pid, each.address),
            "the kernel would run the instruction of the file there, and write its first byte over "
            "the code of the process at the end");
      } else {
        has_breakpoint = true;
        find_owner(site, each.pid);
      }
    const std::vector<process::UnprobeableMapping>& obstacles = survey_.unprobeable[site];
    // A survey that was cut short has not seen all mappings.
    if (!has_breakpoint && !obstacles.empty() && !survey_.is_probeable[site] &&
        survey_.omitted == 0)
      add(site, obstacles.front().pid, describe_obstacle(obstacles.front().obstacle), {}, {});
  }

  void find_owner(std::size_t site, pid_t pid) {
    if (problems_.contains(sites_.probes[site])) return;
    const std::array<process::ProbedFile, 1> file = {sites_.files[site]};
    const std::array<process::ProbedCode, 1> code = {sites_.code[site]};
    const auto is_there = [&] {
      process::MappingSurveyor again(file, code, process::CodeState::intact);
      again.add(pid);
      return !again.take_code().findings[0].empty();
    };
    const BreakpointOwners::Owner owner = owners_.find(file.front(), pid, is_there);
    if (owner == BreakpointOwners::Owner::unknown) unowned_.insert(sites_.points[site]);
    if (owner != BreakpointOwners::Owner::other) return;
    const auto tracer = find_tracer(pid);
    add(site, pid, "has a breakpoint there that is not a uprobe's",
        tracer ? ", but that of " + process::describe_process(*tracer) : std::string(),
        "its owner would not see it any more, and the kernel would remove it at the end");
  }

  void add(std::size_t site, pid_t pid, std::string_view what, const std::string& where,
           std::string_view effect) {
    if (problems_.contains(sites_.probes[site])) return;
    const resolve::ProbePoint& point = *sites_.points[site];
    Error error{ErrorKind::unsupported,
                fmt::format("{}: '{}' cannot be probed: {} {}{}", to_string(point.binary->path),
                            display_name(point), process::describe_process(pid), what, where)};
    if (!effect.empty()) error = std::move(error).hint(std::string(effect));
    if (pids_.empty())
      error = std::move(error).hint("probe the other processes by their pids: -p PID");
    problems_.emplace(
        sites_.probes[site],
        SiteProblem{.error = std::move(error),
                    .reason = fmt::format("{} {}", process::describe_process(pid), what)});
  }

  const SiteCode& sites_;
  std::vector<pid_t> pids_;
  process::CodeSurvey survey_;
  BreakpointOwners owners_;
  std::map<std::size_t, SiteProblem> problems_;
  std::set<const resolve::ProbePoint*> unowned_; // points with a breakpoint of an unknown owner
};

} // namespace

void skip_changed_code(ResolvedProbes& resolved, std::span<const pid_t> pids,
                       output::Output& output) {
  if (pids.empty() && bpf::read_pid_namespace())
    output.warn("the code of processes outside of this container cannot be compared with the file: "
                "one that has changed it would be harmed");
  const SiteCode sites(resolved.probes);
  const CodeComparison comparison(sites, pids);
  comparison.warn(output);
  if (comparison.problems().empty()) return;
  skip_probes(
      resolved,
      [&](const Probe& probe, const PlannedSite&) -> std::optional<SiteProblem> {
        const auto found = comparison.problems().find(probe.number);
        if (found == comparison.problems().end()) return std::nullopt;
        return found->second;
      },
      output);
}

std::optional<Error> find_changed_code(const resolve::ProbePoint& point, pid_t pid,
                                       output::Output& output) {
  SiteCode sites;
  sites.add(point, *uprobe_offset(point), 0);
  const CodeComparison comparison(sites, std::span(&pid, 1));
  comparison.warn(output);
  if (comparison.problems().empty()) return std::nullopt;
  return comparison.problems().begin()->second.error;
}

CodeWatch::CodeWatch(const Probes& probes, const FilteredProcesses& processes,
                     output::Output& output, Time start)
    : probes_(probes), sites_(probes), processes_(processes), output_(output),
      next_(start + first_delay) {
  for (const pid_t pid : processes.known_pids())
    pidfds_.emplace_back(pid, process::open_pidfd(pid));
}

std::vector<pid_t> CodeWatch::find_trapped() const {
  std::vector<pid_t> trapped;
  for (const auto& [pid, pidfd] : pidfds_)
    if (pidfd && process::read_end_signal(pidfd.get()) == SIGTRAP) trapped.push_back(pid);
  return trapped;
}

void CodeWatch::add_incomplete(const MappedFile& file, const std::string& reason) {
  for (const Probe& probe : probes_)
    if (probe.point.binary->file->identity() == file.identity())
      incomplete_.try_emplace(probe.number, reason);
}

std::vector<pid_t> CodeWatch::pids() const {
  if (const std::span<const pid_t> linked = processes_.link_pids(); !linked.empty())
    return {linked.begin(), linked.end()};
  std::vector<pid_t> found =
      processes_.is_system_wide() ? process::all_processes() : processes_.known_pids();
  std::erase(found, ::getpid());
  return found;
}

void CodeWatch::look(Time now) {
  if (now < next_) return;
  Changes changes = find_changes(pids());
  postpone_new(changes);
  report(changes);
  next_ = next_look_after(now, Clock::now(), look_interval);
}

// A process may have executed a program by another thread: its breakpoints are gone until the
// probes are attached again, which is done between two looks.
void CodeWatch::postpone_new(Changes& changes) {
  std::set<std::tuple<Change, std::size_t, pid_t>> dropped;
  for (const auto& [key, what] : changes)
    if (std::get<Change>(key) == Change::dropped) dropped.insert(key);
  std::erase_if(changes, [&](const auto& each) {
    return dropped.contains(each.first) && !postponed_.contains(each.first);
  });
  postponed_ = std::move(dropped);
}

void CodeWatch::look_at_end(const std::function<bool(pid_t)>& is_replaced) {
  Changes changes = find_changes(pids());
  std::erase_if(changes, [&](const auto& each) {
    return std::get<Change>(each.first) == Change::dropped &&
           is_replaced(std::get<pid_t>(each.first));
  });
  report(changes);
}

CodeWatch::Changes CodeWatch::find_changes(std::span<const pid_t> looked_at) {
  const auto survey = [&](std::span<const pid_t> pids, std::set<pid_t>& found) {
    Changes changes;
    process::MappingSurveyor surveyor(sites_.files, sites_.code, process::CodeState::breakpoint);
    for (const pid_t pid : pids) surveyor.add(pid);
    const process::CodeSurvey code = surveyor.take_code();
    const auto add = [&](Change change, std::size_t site, pid_t pid, std::string what) {
      const std::tuple key(change, sites_.probes[site], pid);
      if (reported_.contains(key)) return;
      changes.emplace(key, std::move(what));
      found.insert(pid);
    };
    for (std::size_t i = 0; i < sites_.files.size(); ++i) {
      const resolve::ProbePoint& point = probes_[sites_.probes[i]].point;
      for (const process::CodeFinding& each : code.findings[i])
        if (each.state == process::CodeState::changed)
          add(Change::changed, i, each.pid, describe_now(point, each.pid, each.address));
        else if (each.takes_breakpoints)
          add(Change::dropped, i, each.pid, {});
      for (const auto& [pid, obstacle] : code.unprobeable[i]) {
        if (obstacle == process::MappingObstacle::replaced) add(Change::replaced, i, pid, {});
        // A breakpoint stays where a process makes its code writable afterwards.
        const auto finding =
            std::ranges::find_if(code.findings[i], [&](const process::CodeFinding& each) {
              return each.pid == pid && each.state == process::CodeState::intact &&
                     !each.takes_breakpoints;
            });
        if (finding == code.findings[i].end()) continue;
        add(obstacle == process::MappingObstacle::shared ? Change::shared : Change::writable, i,
            pid, {});
      }
    }
    report_limits(code);
    return changes;
  };
  std::set<pid_t> found;
  Changes changes = survey(looked_at, found);
  if (changes.empty() || found.size() > max_confirmed) return changes;
  // A process may have executed another program, unloaded the file, or just be mapping it: maps can
  // show a mapping before the kernel has put its breakpoints there (Linux 6.17).
  std::this_thread::sleep_for(confirm_delay);
  std::set<pid_t> still;
  const Changes again = survey(std::vector<pid_t>(found.begin(), found.end()), still);
  std::erase_if(changes, [&](const auto& each) { return !again.contains(each.first); });
  return changes;
}

std::string CodeWatch::describe(Change change, pid_t pid, const std::string& what) const {
  const std::string process = process::describe_process(pid);
  switch (change) {
  case Change::changed:
    return fmt::format("{} has changed the code while it was probed: there is {}; its calls are "
                       "not counted any more, and where it runs a copy of the probed instruction, "
                       "the copied breakpoint ends it by SIGTRAP",
                       process, what);
  case Change::dropped:
    return fmt::format("the breakpoint is not in the memory of {}, as after "
                       "madvise(MADV_DONTNEED), or where overlayfs has copied the file up",
                       process);
  case Change::writable:
    return fmt::format("{} {}", process, describe_obstacle(process::MappingObstacle::writable));
  case Change::shared:
    return fmt::format("{} {}", process, describe_obstacle(process::MappingObstacle::shared));
  case Change::replaced:
    break;
  }
  return fmt::format("{} {}, and where the copy has a breakpoint, it ends "
                     "the process by SIGTRAP",
                     process, describe_obstacle(process::MappingObstacle::replaced));
}

void CodeWatch::report(const Changes& changes) {
  std::map<std::pair<Change, pid_t>, std::vector<std::size_t>> by_process; // probes
  for (const auto& [key, what] : changes) {
    const auto& [change, number, pid] = key;
    reported_.insert(key);
    if (change == Change::changed || change == Change::replaced) copied_.insert(pid);
    std::vector<std::size_t>& numbers = by_process[{change, pid}];
    const Probe& probe = probes_[number];
    if (!incomplete_.contains(number)) incomplete_[number] = describe(change, pid, what);
    if (output_.is_verbose())
      output_.warn(fmt::format("{}: the count is incomplete: {}", display_name(probe.point),
                               describe(change, pid, what)));
    numbers.push_back(number);
  }
  if (output_.is_verbose()) return;
  std::size_t lines = 0;
  constexpr std::size_t max_lines = 10;
  for (const auto& [key, numbers] : by_process) {
    const auto& [change, pid] = key;
    if (++lines > max_lines) {
      output_.warn(fmt::format("and {} more processes like these (-v shows each)",
                               by_process.size() - max_lines));
      break;
    }
    const std::string name = display_name(probes_[numbers.front()].point);
    const std::string others =
        numbers.size() > 1 ? fmt::format(" and {}", counted(numbers.size() - 1, "other", "others"))
                           : "";
    output_.warn(fmt::format("{}{}: the count is incomplete: {}", name, others,
                             describe(change, pid, changes.at({change, numbers.front(), pid}))));
  }
}

void CodeWatch::report_limits(const process::CodeSurvey& survey) {
  if (reported_limits_ || survey.omitted == 0) return;
  reported_limits_ = true;
  output_.warn(fmt::format("whether the breakpoints are still there is not known of {}: there are "
                           "too many",
                           counted(survey.omitted, "process", "processes")));
}

void warn_about_copying_command(std::span<const std::string> command, std::span<const Probe> probes,
                                output::Output& output) {
  if (command.empty()) return;
  const std::string_view program = file_name_of(command.front());
  const bool is_probed = std::ranges::any_of(probes, [&](const Probe& probe) {
    return file_name_of(probe.point.binary->real_path) == program ||
           file_name_of(probe.point.binary->path.file) == program;
  });
  if (!is_probed) return;
  constexpr std::string_view option = "--use-largepages=";
  const auto asks = [&](std::string_view text) {
    const auto at = text.find(option);
    return at != std::string_view::npos && !text.substr(at + option.size()).starts_with("off");
  };
  const auto variable = [](const char* name) -> std::string_view {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  std::string_view reason;
  if (program.starts_with("node") &&
      (asks(variable("NODE_OPTIONS")) ||
       std::ranges::any_of(command.subspan(1),
                           [&](const std::string& word) { return asks(word); })))
    reason = "node --use-largepages";
  else if (variable("LD_PRELOAD").contains("liblppreload"))
    reason = "liblppreload.so (iodlr)";
  if (reason.empty()) return;
  output.warn(fmt::format("{} copies the code of '{}' with the breakpoints in it: a copied "
                          "breakpoint ends the command by SIGTRAP; leave it out while it is probed",
                          reason, program));
}

} // namespace uprobectl::trace
