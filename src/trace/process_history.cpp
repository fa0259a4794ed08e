#include "trace/process_history.hpp"

#include "uprobectl/process.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// Beyond this many a run does not depend on who else maps the file.
constexpr std::size_t max_mappings = 4096;
// As many as are counted for themselves (process_counts of src/bpf/programs/maps.h).
constexpr std::size_t max_ended = 65536;

// Most files have the same path here and there.
std::string path_in_maps(const ProbedBinary& binary) {
  if (!binary.real_path.starts_with("/proc/")) return binary.real_path;
  return path_of_descriptor(binary.file->fd()).value_or(binary.real_path);
}

constexpr std::size_t most_pids = 65536; // that are remembered

// A pid is not used again within this time: all others come first.
constexpr std::uint64_t trusted_ns = 1'000'000'000;

} // namespace

ProbedFile probed_file(const ProbePoint& point) {
  return {.real_path = path_in_maps(*point.binary),
          .identity = point.binary->file->identity(),
          .offset = *point.offset};
}

std::vector<ProbedFile> probed_files(std::span<const Probe> probes) {
  std::vector<ProbedFile> files;
  files.reserve(probes.size());
  for (const Probe& probe : probes) files.push_back(probed_file(probe.point));
  return files;
}

ProcessHistory::ProcessHistory(const AttachRequest& request, std::span<const Probe> probes)
    // The program tells pids as the kernel itself has them.
    : wants_names_(request.capture.count_by_process && in_initial_pid_namespace()),
      files_(probed_files(probes)) {
  const bool only_these =
      !request.processes.pids.empty() && request.processes.names.empty() && !request.processes.all;
  if (!wants_names_ && !only_these) return;
  if (only_these) probed_.emplace(files_);
  auto watch = MappingWatch::start(only_these ? request.processes.pids : std::vector<pid_t>());
  if (watch) watch_ = std::move(*watch);
  if (!wants_names_) return;
  for (const pid_t pid : only_these ? request.processes.pids : all_processes())
    if (auto name = command_name(pid)) names_[pid] = std::move(*name);
}

void ProcessHistory::look() {
  if (watch_) watch_->drain([this](const MappingEvent& event) { add(event); });
}

void ProcessHistory::add(const MappingEvent& event) {
  switch (event.kind) {
  case MappingEvent::Kind::mapped:
    keep_mapping(event);
    break;
  case MappingEvent::Kind::executed:
  case MappingEvent::Kind::renamed:
    if (wants_names_) names_[event.pid] = event.name;
    break;
  case MappingEvent::Kind::forked:
    names_.erase(event.pid); // that of a process that had the pid before
    break;
  case MappingEvent::Kind::ended:
    forget_ended(event.pid);
    break;
  }
}

void ProcessHistory::keep_mapping(const MappingEvent& event) {
  if (!probed_ || known_mappings_.size() >= max_mappings || !probed_->concerns(event.mapping))
    return;
  const Mapping& mapping = event.mapping;
  const bool is_new =
      known_mappings_.emplace(event.pid, mapping.identity, mapping.offset.value, mapping.path)
          .second;
  if (is_new) mapped_[event.pid].push_back(mapping);
}

// Those that ended long ago.
void ProcessHistory::forget_ended(pid_t pid) {
  if (!wants_names_) return;
  ended_.push_back(pid);
  if (ended_.size() <= max_ended) return;
  names_.erase(ended_.front());
  ended_.pop_front();
}

std::optional<std::string> ProcessHistory::name_of(pid_t pid) const {
  if (!wants_names_) return std::nullopt;
  if (auto now = command_name(pid)) return now;
  const auto known = names_.find(pid);
  if (known == names_.end()) return std::nullopt;
  return known->second;
}

std::vector<MappingSurvey> ProcessHistory::surveys(std::span<const pid_t> pids, bool others) const {
  MappingSurveyor survey(files_);
  for (const auto& [pid, mappings] : mapped_) {
    const bool is_one = std::ranges::find(pids, pid) != pids.end();
    if (is_one != others) survey.add(pid, mappings);
  }
  return survey.take();
}

OwnPids::OwnPids() : possible_(in_initial_pid_namespace()) {}

std::optional<std::uint32_t> OwnPids::of(std::uint32_t pid, std::uint64_t time_ns) {
  if (!possible_) return std::nullopt;
  const auto found = known_.find(pid);
  // Events of several CPUs may be a little out of order.
  if (found != known_.end() && time_ns < found->second.asked_ns + trusted_ns)
    return found->second.own;
  if (known_.size() >= most_pids) known_.clear();
  const auto own = pid_in_namespace(static_cast<pid_t>(pid));
  Known& known = known_[pid];
  known.asked_ns = time_ns;
  // Where it has ended since, it is still what it was.
  if (own) known.own = static_cast<std::uint32_t>(*own);
  return known.own;
}

} // namespace uprobectl
