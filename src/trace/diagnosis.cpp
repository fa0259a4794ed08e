// SPDX-License-Identifier: Apache-2.0
#include "trace/diagnosis.hpp"

#include "dwarf/inlined.hpp"
#include "process/proc.hpp"
#include "symbols/classify.hpp"
#include "trace/binary_cache.hpp"
#include "trace/paced_look.hpp"
#include "uprobectl/process.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::trace {

namespace {

// Limits the memory for recorded mappings.
constexpr std::size_t max_mappings = 4096;
// The capacity of process_counts in src/bpf/programs/maps.h.
constexpr std::size_t max_ended = 65536;

// Returns the path of the file as /proc/PID/maps shows it.
std::string path_in_maps(const resolve::ProbedBinary& binary) {
  if (!binary.real_path.starts_with("/proc/")) return binary.real_path;
  return read_descriptor_path(binary.file->fd()).value_or(binary.real_path);
}

constexpr std::size_t max_pids = 65536; // cached

// A pid is not reused within this time, because the kernel assigns pids in a cycle.
constexpr std::uint64_t pid_trust_ns = 1'000'000'000;

template <typename Seen>
void merge_sorted(std::vector<Seen>& into, const std::vector<Seen>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::ranges::sort(into);
  into.erase(std::ranges::unique(into).begin(), into.end());
}

void add_survey(process::MappingSurvey& into, const process::MappingSurvey& survey) {
  merge_sorted(into.executable, survey.executable);
  merge_sorted(into.other_inode, survey.other_inode);
  merge_sorted(into.other_mount_namespace, survey.other_mount_namespace);
  merge_sorted(into.other_copies, survey.other_copies);
}

bool contains(std::span<const pid_t> pids, pid_t pid) {
  return std::ranges::find(pids, pid) != pids.end();
}

std::string explain_other_inode(const process::MappingSurvey& survey, const UnhitFacts& facts) {
  // Prefer a process in our mount namespace: it explains more.
  const auto here = std::ranges::find_if(
      survey.other_inode, [&](pid_t pid) { return !contains(survey.other_mount_namespace, pid); });
  if (here == survey.other_inode.end()) {
    const pid_t pid = survey.other_inode.front();
    const auto way = facts.takes_pids ? fmt::format("-p {} probes that one", pid)
                                      : fmt::format("nsenter -m -t {} runs it there", pid);
    return fmt::format("{} maps another file at this path, that of its own mount namespace: {}",
                       process::describe_process(pid), way);
  }
  if (facts.change == FileChange::replaced)
    return fmt::format("{} maps the new file at this path: the probed file was replaced, run the "
                       "command again",
                       process::describe_process(*here));
  const std::string way = facts.takes_pids
                              ? std::string("with -p, name the file without its folder to probe "
                                            "that one")
                              : std::string("restart the process to probe it");
  return fmt::format("{} maps another file that had this path: it was replaced, {}",
                     process::describe_process(*here), way);
}

std::string explain_unmapped(const process::MappingSurvey& survey, std::span<const pid_t> pids) {
  // If the processes have ended, only their recorded mappings are known.
  if (!pids.empty() &&
      std::ranges::none_of(pids, [](pid_t pid) { return process::read_comm(pid).has_value(); }))
    return pids.size() == 1
               ? fmt::format("process {} has ended and was not seen to map this file executable",
                             pids.front())
               : std::string("the processes have ended, and none was seen to map this file "
                             "executable");
  std::string text = pids.size() == 1
                         ? fmt::format("{} does not map this file executable",
                                       process::describe_process(pids.front()))
                         : std::string(pids.empty() ? "no process maps this file executable"
                                                    : "none of the processes maps this file "
                                                      "executable");
  if (survey.unreadable > 0)
    text += fmt::format(" ({} could not be examined)",
                        counted(survey.unreadable, "process", "processes"));
  return text;
}

// "; process 4711 (app) maps another copy of it: /opt/lib/libfoo.so". Copies are not mentioned if
// all processes were examined and some map the file itself.
std::string mention_copy(const process::MappingSurvey& survey, bool filtered) {
  if (survey.other_copies.empty() || (!filtered && !survey.executable.empty())) return {};
  const process::MappedCopy& copy = survey.other_copies.front();
  const std::string_view too = contains(survey.executable, copy.pid) ? ", too" : "";
  return fmt::format("; {} maps another copy of it{}: {}", process::describe_process(copy.pid), too,
                     copy.path);
}

std::string mention_inlined(const UnhitFacts& facts) {
  if (facts.inlined.value_or(0) == 0) return {};
  return fmt::format("; it is inlined at {}, which no probe sees",
                     counted(*facts.inlined, "address", "addresses"));
}

} // namespace

std::string mention_children(std::span<const pid_t> children) {
  if (children.empty()) return {};
  if (children.size() == 1)
    return fmt::format("; {}, a descendant, {} it: --follow probes it, too",
                       process::describe_process(children.front()),
                       process::read_comm(children.front()) ? "maps" : "mapped");
  const bool any_runs =
      std::ranges::any_of(children, [](pid_t pid) { return process::read_comm(pid).has_value(); });
  return fmt::format("; {} {} it: --follow probes them, too",
                     counted(children.size(), "descendant", "descendants"),
                     any_runs ? "map" : "mapped");
}

namespace {

// Returns the source name of the function that begins at the point. Debug info does not know clones
// such as "f.constprop.0".
std::optional<std::string_view> source_name(const resolve::ProbePoint& point) {
  if (!point.symbol || point.symbol_offset != 0 || point.kind == symbols::SymbolKind::plt ||
      point.inlined_into)
    return std::nullopt;
  return point.function();
}

std::string format_times(std::uint64_t count) {
  return count == 1 ? std::string("once") : fmt::format("{} times", count);
}

// Returns the number of processes that map the file as a library, without those that execute it.
std::size_t count_users(const resolve::ProbedBinary& binary, std::span<const pid_t> pids) {
  return static_cast<std::size_t>(std::ranges::count_if(pids, [&](pid_t pid) {
    return process::process_executable(pid) != binary.file->identity();
  }));
}

constexpr std::chrono::seconds first_report_delay{2};
constexpr std::chrono::seconds report_interval{10};

// The maximum number of reported probes.
constexpr std::size_t max_reported = 20;

} // namespace

std::string_view describe_obstacle(process::MappingObstacle obstacle) {
  switch (obstacle) {
  case process::MappingObstacle::writable:
    return "has its code in writable memory, where the kernel puts no breakpoints";
  case process::MappingObstacle::shared:
    return "maps its code shared (MAP_SHARED), where the kernel puts no breakpoints";
  case process::MappingObstacle::replaced:
    break;
  }
  return "has replaced this part of the file by anonymous memory: it cannot be probed there";
}

process::ProbedFile probed_file(const resolve::ProbePoint& point) {
  return {.real_path = path_in_maps(*point.binary),
          .identity = point.binary->file->identity(),
          .offset = *uprobe_offset(point)};
}

std::vector<process::ProbedFile> probed_files(std::span<const Probe> probes) {
  std::vector<process::ProbedFile> files;
  files.reserve(probes.size());
  for (const Probe& probe : probes) files.push_back(probed_file(probe.point));
  return files;
}

ProcessHistory::ProcessHistory(const ProcessFilter& filter, bool records_names,
                               std::span<const Probe> probes)
    : records_names_(records_names), files_(probed_files(probes)) {
  const bool only_these = !filter.pids.empty() && filter.names.empty() && !filter.all;
  if (!records_names_ && !only_these) return;
  if (only_these) probed_.emplace(files_);
  auto watch = process::MappingWatch::start(only_these ? filter.pids : std::vector<pid_t>());
  if (watch) watch_ = std::move(*watch);
  if (!records_names_) return;
  for (const pid_t pid : only_these ? filter.pids : process::all_processes())
    if (auto name = process::read_comm(pid)) names_[pid] = std::move(*name);
}

void ProcessHistory::update() {
  if (watch_) watch_->drain([this](const process::MappingEvent& event) { add(event); });
}

bool ProcessHistory::is_replaced(pid_t pid) const {
  return std::ranges::find(replaced_, pid, &Replaced::pid) != replaced_.end();
}

void ProcessHistory::add(const process::MappingEvent& event) {
  switch (event.kind) {
  case process::MappingEvent::Kind::mapped:
    record_mapping(event);
    break;
  case process::MappingEvent::Kind::executed:
    if (event.by_other_thread && replaced_.size() < max_pids)
      replaced_.push_back({.pid = event.pid, .time_ns = event.time_ns});
    [[fallthrough]];
  case process::MappingEvent::Kind::renamed:
    if (records_names_) names_[event.pid] = event.name;
    break;
  case process::MappingEvent::Kind::forked:
    names_.erase(event.pid); // the name of a previous process with this pid
    break;
  case process::MappingEvent::Kind::ended:
    forget_ended(event.pid);
    break;
  }
}

void ProcessHistory::record_mapping(const process::MappingEvent& event) {
  if (!probed_) return;
  const process::Mapping& seen = event.mapping;
  if (seen.executable && (seen.path.empty() || seen.path.starts_with("[anon")) &&
      has_new_code_.size() < max_mappings)
    has_new_code_.insert(event.pid);
  if (known_mappings_.size() >= max_mappings || !probed_->is_relevant(event.mapping)) return;
  const process::Mapping& mapping = event.mapping;
  const bool is_new =
      known_mappings_.emplace(event.pid, mapping.identity, mapping.offset.value, mapping.path)
          .second;
  if (is_new) mapped_[event.pid].push_back(mapping);
}

// Drops the names of processes that ended long ago.
void ProcessHistory::forget_ended(pid_t pid) {
  if (!records_names_) return;
  ended_.push_back(pid);
  if (ended_.size() <= max_ended) return;
  names_.erase(ended_.front());
  ended_.pop_front();
}

std::optional<std::string> ProcessHistory::find_name(pid_t pid) const {
  if (!records_names_) return std::nullopt;
  if (auto now = process::read_comm(pid)) return now;
  const auto known = names_.find(pid);
  if (known == names_.end()) return std::nullopt;
  return known->second;
}

std::vector<process::MappingSurvey> ProcessHistory::surveys(std::span<const pid_t> pids,
                                                            bool others) const {
  process::MappingSurveyor survey(files_);
  for (const auto& [pid, mappings] : mapped_) {
    const bool is_one = std::ranges::find(pids, pid) != pids.end();
    if (is_one != others) survey.add(pid, mappings);
  }
  return survey.take();
}

std::optional<std::uint32_t> NamespacePids::find(std::uint32_t pid, std::uint64_t time_ns) {
  const auto found = known_.find(pid);
  // Events of different CPUs may be slightly out of order.
  if (found != known_.end() && time_ns < found->second.read_ns + pid_trust_ns)
    return found->second.own;
  if (known_.size() >= max_pids) known_.clear();
  const auto own = process::pid_in_namespace(static_cast<pid_t>(pid));
  CachedPid& known = known_[pid];
  known.read_ns = time_ns;
  // Keep the known pid if the process has ended since.
  if (own) known.own = static_cast<std::uint32_t>(*own);
  return known.own;
}

std::vector<process::MappingSurvey> survey_points(std::span<const resolve::ProbePoint> points,
                                                  std::span<const pid_t> pids) {
  std::vector<process::ProbedFile> files;
  files.reserve(points.size());
  for (const resolve::ProbePoint& point : points) files.push_back(probed_file(point));
  return survey_mappings(files, pids);
}

std::vector<process::MappingSurvey> survey_probes(std::span<const Probe> probes,
                                                  std::span<const pid_t> pids) {
  return survey_mappings(probed_files(probes), pids);
}

void add_earlier_surveys(std::vector<process::MappingSurvey>& now,
                         std::span<const process::MappingSurvey> earlier) {
  for (std::size_t i = 0; i < now.size() && i < earlier.size(); ++i) add_survey(now[i], earlier[i]);
}

void add_surveys(std::span<Probe> probes, std::span<const process::MappingSurvey> surveys) {
  for (std::size_t i = 0; i < probes.size() && i < surveys.size(); ++i)
    add_survey(probes[i].survey, surveys[i]);
}

std::string diagnose(const process::MappingSurvey& survey, std::span<const pid_t> pids,
                     const UnhitFacts& facts) {
  std::string text;
  if (!facts.without_breakpoint.empty())
    text = facts.without_breakpoint;
  else if (!survey.executable.empty())
    text = fmt::format("mapped by {}, but not called while it was probed",
                       survey.executable.size() == 1
                           ? process::describe_process(survey.executable.front())
                           : counted(survey.executable.size(), "process", "processes")) +
           mention_inlined(facts);
  else if (facts.file_was_hit)
    text = "other functions of this file were hit, this one was not called while it was probed" +
           mention_inlined(facts);
  else if (!survey.other_inode.empty())
    text = explain_other_inode(survey, facts);
  else
    text = explain_unmapped(survey, pids);
  if (!facts.other_definition.empty()) text += "; " + facts.other_definition;
  return text + mention_copy(survey, !pids.empty()) + mention_children(facts.children);
}

void find_unprobed_children(std::span<Probe> probes, std::span<const pid_t> pids) {
  std::vector<pid_t> children;
  for (const pid_t pid : pids) merge_sorted(children, process::find_descendants(pid));
  std::erase_if(children, [&](pid_t pid) { return contains(pids, pid); });
  if (children.empty()) return;
  const std::vector<process::MappingSurvey> surveys = survey_probes(probes, children);
  for (std::size_t i = 0; i < surveys.size(); ++i)
    merge_sorted(probes[i].facts.children, surveys[i].executable);
}

void find_inlined(std::span<Probe* const> probes, BinaryCache& binaries) {
  std::map<std::shared_ptr<const resolve::ProbedBinary>, std::vector<Probe*>> by_binary;
  for (Probe* const probe : probes)
    if (source_name(probe->point)) by_binary[probe->point.binary].push_back(probe);

  for (const auto& [binary, in_it] : by_binary) {
    const auto file = binaries.of(binary).file();
    if (!file) continue;
    const bool is_shared = (*file)->has_opened_debug_info();
    const auto& debug = (*file)->debug_info();
    if (!debug) continue; // missing debug info is not reported
    std::vector<dwarf::CountedFunction> functions;
    for (const Probe* const probe : in_it)
      functions.push_back({.name = *source_name(probe->point), .address = probe->point.address});
    const auto counts = dwarf::count_inlined(*debug, functions);
    for (std::size_t i = 0; counts && i < in_it.size(); ++i) in_it[i]->facts.inlined = (*counts)[i];
    if (!is_shared) (*file)->close_debug_info(); // that of many files would not fit into memory
  }
}

std::uint64_t shown_hits(const bpf::ProbeCounts& counts, const events::CaptureSpec& capture) {
  return capture.pair_calls ? counts.returns : counts.entries + counts.returns;
}

std::string explain_hidden_hits(const bpf::ProbeCounts& counts, const events::CaptureSpec& capture,
                                std::uint64_t undecided) {
  if (shown_hits(counts, capture) > 0) return {};
  if (counts.excluded > 0) {
    const bool slow_only = capture.min_latency.count() > 0;
    if (!slow_only)
      return fmt::format("called {}, but --if held for none of them{}",
                         format_times(counts.excluded),
                         undecided > 0 ? ", as far as it could be decided" : "");
    return fmt::format("called {}, but {} for none of them", format_times(counts.excluded),
                       capture.filter.expressions.empty() ? "--min-latency was reached"
                                                          : "--if and --min-latency held");
  }
  if (capture.pair_calls && counts.entries > 0)
    return fmt::format("called {}, but has not returned yet", format_times(counts.entries));
  if (counts.outside.all() > 0)
    return fmt::format("called {}, but not while --start-on and --stop-on let it be recorded",
                       format_times(counts.outside.calls()));
  if (counts.unpaired > 0)
    return fmt::format("returned {}, from calls that began before it was probed",
                       format_times(counts.unpaired));
  if (counts.filtered.all() > 0)
    return fmt::format("called {}, {}", format_times(counts.filtered.calls()), not_by_probed);
  if (counts.invisible.all() > 0)
    return fmt::format("called {}, but only by processes outside of this container",
                       format_times(counts.invisible.calls()));
  return {};
}

void warn_about_shared_libraries(std::span<const Probe> probes,
                                 std::span<const process::MappingSurvey> surveys,
                                 output::Output& output) {
  // The probe that most processes map, by file path.
  std::map<std::string_view, std::size_t> most;
  for (std::size_t i = 0; i < probes.size() && i < surveys.size(); ++i) {
    const auto [at, is_new] = most.try_emplace(probes[i].point.binary->real_path, i);
    if (!is_new && surveys[i].executable.size() > surveys[at->second].executable.size())
      at->second = i;
  }
  for (const auto& [path, i] : most) {
    if (surveys[i].executable.size() < many_processes) continue;
    const resolve::ProbedBinary& binary = *probes[i].point.binary;
    const std::size_t users = count_users(binary, surveys[i].executable);
    if (users >= many_processes)
      output.gathered_warning(
          "mapped by many",
          fmt::format("{} is mapped by {} processes: every call in any of them stops at the "
                      "probes; restrict with -p, --app, --uid or --cgroup",
                      file_name_of(binary.path.entry.value_or(binary.real_path)), users));
  }
}

UnhitReporter::UnhitReporter(std::span<Probe> probes, const ProgramSource& program,
                             const FilteredProcesses& processes, output::Output& output, Time start)
    : probes_(probes), program_(program), processes_(processes), output_(output),
      next_(start + first_report_delay) {}

std::map<std::size_t, std::string> UnhitReporter::explain_unhit_probes() const {
  program_.count_hits(probes_);
  add_up_hits(probes_);
  std::map<std::size_t, std::string> result;
  std::vector<const Probe*> unexplained;
  for (const Probe& probe : probes_) {
    if (result.size() >= max_reported) break;
    if (probe.total_hits != 0 || !probe.is_first()) continue;
    result[probe.number] = probe.hidden_reason;
    if (probe.hidden_reason.empty()) unexplained.push_back(&probe);
  }
  if (unexplained.empty()) return result;
  const std::vector<pid_t> pids = processes_.known_pids();
  if (pids.empty() && !processes_.is_system_wide()) {
    for (const Probe* const probe : unexplained)
      result[probe->number] = processes_.explain_no_process();
    return result;
  }
  std::vector<process::ProbedFile> files;
  for (const Probe* const probe : unexplained) files.push_back(probed_file(probe->point));
  const auto surveys = survey_mappings(files, pids);
  for (std::size_t i = 0; i < unexplained.size(); ++i)
    result[unexplained[i]->number] = diagnose(
        surveys[i], pids, {.change = unexplained[i]->point.binary->file->change(), .children = {}});
  return result;
}

void UnhitReporter::report(Time now) {
  if (!output_.is_verbose() || now < next_) return;
  std::map<std::size_t, std::string> found = explain_unhit_probes();
  for (const auto& [number, reason] : found)
    if (const auto before = reported_.find(number);
        before == reported_.end() || before->second != reason)
      output_.detail(
          fmt::format("{}: not hit so far: {}", display_name(probes_[number].point), reason));
  reported_ = std::move(found);
  next_ = next_look_after(now, std::chrono::steady_clock::now(), report_interval);
}

} // namespace uprobectl::trace
