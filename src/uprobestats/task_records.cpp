// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_records.hpp"

#include "process/proc.hpp"
#include "trace/user_programs.hpp"
#include "uprobectl/process.hpp"
#include "util/clock.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::uprobestats {

namespace {

constexpr std::string_view transaction_type = "BinderTransaction";

// "map_id:\t17" of /proc/PID/fdinfo/N, of a descriptor that is a map.
bool refers_to_map(const std::string& descriptor_info, std::uint32_t map_id) {
  const auto text = process::try_read_pseudo_file(descriptor_info);
  if (!text) return false;
  constexpr std::string_view field = "map_id:";
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (line.starts_with(field))
      return parse_number<std::uint32_t>(trimmed(line.substr(field.size()))) == map_id;
  }
  return false;
}

bool has_map_open(pid_t pid, std::uint32_t map_id) {
  std::error_code error;
  auto at = std::filesystem::directory_iterator(process::proc_path(pid, "fd"), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code closed;
    const auto target = std::filesystem::read_symlink(at->path(), closed);
    if (closed || target.native().find("bpf-map") == std::string::npos) continue;
    if (refers_to_map(process::proc_path(pid, "fdinfo/" + at->path().filename().string()), map_id))
      return true;
  }
  return false;
}

} // namespace

std::vector<pid_t> find_map_holders(std::uint32_t map_id) {
  std::vector<pid_t> holders;
  for (const pid_t pid : process::all_processes())
    if (pid != ::getpid() && has_map_open(pid, map_id)) holders.push_back(pid);
  return holders;
}

std::optional<Error> find_other_reader(const std::string& path) {
  const auto map = bpf::open_pinned_map(path);
  if (!map) return std::nullopt;
  const auto holders = find_map_holders(map->id);
  if (holders.empty()) return std::nullopt;
  return Error{ErrorKind::unsupported,
               fmt::format("{} is open in process {} ({}): each record reaches one reader only",
                           path, holders.front(),
                           process::read_comm(holders.front()).value_or("ended"))};
}

std::string pin_path(const std::string& folder, const std::string& name) {
  return name.starts_with('/') ? name : folder + "/" + name;
}

Result<TaskProgram> TaskPrograms::open_pin_of(const std::string& name) {
  auto pinned = bpf::PinnedProgram::open(pin_path(folder_, name), features_);
  if (!pinned && pinned.error().kind == ErrorKind::not_found)
    return fail(std::move(pinned).error().hint(
        "load an object's programs under such names with: uprobectl load FILE.o --naming "
        "uprobestats --pin " +
        folder_));
  if (!pinned) return fail(std::move(pinned).error());
  if (pinned->program().kind == bpf::ProgramKind::session)
    return fail(
        ErrorKind::unsupported,
        name + " is a session program: it replaces return addresses, and ART aborts an app when it "
               "finds that");
  const auto mechanism = probe::choose_mechanism(
      std::nullopt, features_,
      {.filters_by_pid = true, .loaded_by_us = false, .kind = pinned->program().kind});
  if (!mechanism) return fail(mechanism.error());
  TaskProgram program{std::move(*pinned), *mechanism};
  take_lost_maps(program);
  return program;
}

void TaskPrograms::take_lost_maps(const TaskProgram& program) {
  const auto maps = bpf::find_program_maps(program.pinned.program().fd);
  if (!maps) return;
  for (bpf::UserMap& lost : trace::find_lost_maps(*maps)) {
    const std::uint32_t id = lost.id;
    const std::uint64_t before = trace::read_lost_count(lost);
    lost_.emplace(id, LostMap{std::move(lost), before});
  }
}

std::string TaskPrograms::explain_uncounted_losses(std::span<const bpf::UserMap> maps) const {
  std::string reason = trace::explain_uncounted_losses(maps, {});
  for (const auto& [id, lost] : lost_)
    if (!reason.empty()) reason = trace::explain_uncounted_losses(maps, std::span(&lost.map, 1));
  return reason;
}

std::uint64_t TaskPrograms::lost() const {
  std::uint64_t sum = 0;
  for (const auto& [id, lost] : lost_) sum += trace::read_lost_count(lost.map) - lost.before;
  return sum;
}

const Result<TaskProgram>& TaskPrograms::open(const std::string& name) {
  const auto known = programs_.find(name);
  if (known != programs_.end()) return known->second;
  auto opened = open_pin_of(name);
  if (!opened && opened.error().kind == ErrorKind::not_found)
    if (const auto other = uprobestats::other_program_name(name))
      if (auto renamed = open_pin_of(std::string(*other))) opened = std::move(renamed);
  return programs_.emplace(name, std::move(opened)).first->second;
}

TaskRecords::TaskRecords(const TaskPrograms& programs, output::Output& output,
                         std::optional<std::string> statsd)
    : programs_(programs), output_(output) {
  if (statsd) statsd_.emplace(std::move(*statsd));
}

Result<TaskRecords::Stream> TaskRecords::open(bpf::UserMap map, const std::string& path,
                                              std::uint32_t btf) {
  if (!is_buffer(map.use))
    return fail(ErrorKind::unsupported, path + ": not a ring buffer or perf event array");
  Stream stream;
  stream.map.push_back(std::move(map));
  std::shared_ptr<const values::BtfTypes> types;
  if (btf != 0)
    if (auto known = values::BtfTypes::load_from_kernel(btf))
      types = std::make_shared<const values::BtfTypes>(std::move(*known));
  auto decoder = events::UserRecordDecoder::make(std::move(types), stream.map);
  if (!decoder) return fail(std::move(decoder).error().within(path));
  stream.decoder = std::move(*decoder);
  auto records = bpf::RecordStreams::open(stream.map);
  if (!records) return fail(std::move(records).error());
  stream.records = std::move(*records);
  return stream;
}

Result<void> TaskRecords::add(std::size_t task, const std::string& path, std::uint32_t btf,
                              const TaskAtoms& atoms) {
  auto map = bpf::open_pinned_map(path);
  if (!map) return fail(std::move(map).error());
  // Several paths may lead to one map. Open it once: two readers would take each other's records.
  auto known = std::ranges::find_if(
      streams_, [&](const Stream& stream) { return stream.map.front().id == map->id; });
  if (known == streams_.end()) {
    auto stream = open(std::move(*map), path, btf);
    if (!stream) return fail(std::move(stream).error());
    known = streams_.insert(known, std::move(*stream));
    // No task runs yet: skip the records of earlier runs.
    known->records->drain([&](std::size_t, Bytes) {
      ++known->skipped;
      return true;
    });
  }
  const bool twice = std::ranges::any_of(
      known->listeners, [&](const Listener& listener) { return listener.task == task; });
  if (!twice) add_listener(*known, {task, atoms});
  return {};
}

// Warns if tasks with the same map log different atoms: a record does not identify its probe.
void TaskRecords::add_listener(Stream& stream, Listener listener) const {
  const auto differs = std::ranges::find_if(stream.listeners, [&](const Listener& other) {
    return other.atoms.filters.empty() && listener.atoms.filters.empty() &&
           other.atoms.logging != listener.atoms.logging;
  });
  if (differs != stream.listeners.end() && statsd_) {
    output_.repeated_warning(
        "differ: " + stream.map.front().pin,
        fmt::format(
            "{}: no atoms are sent for its records while tasks {} and {} both "
            "run: their logging configurations differ, and records do not identify their task",
            stream.map.front().pin, differs->task, listener.task));
  }
  stream.listeners.push_back(std::move(listener));
}

void TaskRecords::add_to(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_)
    for (const int fd : stream.records->poll_fds())
      polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

// Android's own program sends selected transactions only; another one may send all.
bool TaskRecords::is_selected(const Stream& stream, const events::UserRecord& record) const {
  if (record.type != transaction_type) return true;
  return std::ranges::any_of(stream.listeners, [&](const Listener& listener) {
    return running_.contains(listener.task) &&
           (listener.atoms.filters.empty() || find_binder_method(record, listener.atoms.filters));
  });
}

// Logs the atoms of the filters. A filter of several running tasks with the same atom is logged
// once.
void TaskRecords::log_transaction(Stream& stream, const events::UserRecord& record) {
  std::vector<BinderMethod> logged;
  for (const Listener& listener : stream.listeners) {
    if (!running_.contains(listener.task)) continue;
    const auto* const method = find_binder_method(record, listener.atoms.filters);
    if (method == nullptr || !method->atom_id || std::ranges::find(logged, *method) != logged.end())
      continue;
    logged.push_back(*method);
    auto encoded = encode_binder_atom(record, *method, clock_ns(CLOCK_BOOTTIME));
    if (encoded)
      statsd_->send(*encoded);
    else if (stream.unlogged++ == 0)
      stream.why_unlogged = std::move(encoded.error().message);
  }
}

// Logs the record once if all running tasks of the map have the same atom.
void TaskRecords::log_record(Stream& stream, const events::UserRecord& record) {
  if (record.type == transaction_type) return log_transaction(stream, record);
  const Listener* whose = nullptr;
  bool differ = false;
  for (const Listener& listener : stream.listeners) {
    if (!running_.contains(listener.task)) continue;
    differ = differ || (whose != nullptr && whose->atoms.logging != listener.atoms.logging);
    whose = &listener;
  }
  const auto count_unlogged = [&](std::string why) {
    if (stream.unlogged++ == 0) stream.why_unlogged = std::move(why);
  };
  if (differ) return count_unlogged("the logging configurations of the running tasks differ");
  if (whose == nullptr || !whose->atoms.logging) return;
  auto encoded = encode_atom(record, *whose->atoms.logging, clock_ns(CLOCK_BOOTTIME));
  if (!encoded) return count_unlogged(std::move(encoded.error().message));
  statsd_->send(*encoded);
}

bool TaskRecords::handle_record(Stream& stream, Bytes sent, const Visit& visit) {
  const bool is_running = std::ranges::any_of(
      stream.listeners, [&](const Listener& listener) { return running_.contains(listener.task); });
  if (!is_running) {
    ++stream.skipped;
    return true;
  }
  const auto record = stream.records->decode(0, sent);
  if (!record) {
    ++stream.damaged;
    return true;
  }
  events::Event event = stream.decoder->decode(0, record->record);
  // The kernel truncates map names to 15 bytes, so report the name of the pin.
  auto named = std::make_shared<events::UserRecord>(*event.record);
  named->map = stream.map.front().pin;
  event.record = std::move(named);
  if (!is_selected(stream, *event.record)) {
    ++stream.filtered;
    return true;
  }
  if (statsd_) log_record(stream, *event.record);
  return visit(event);
}

bool TaskRecords::drain(const Visit& visit) {
  if (closed_) return false;
  bool more = false;
  for (Stream& stream : streams_) {
    bool stopped = false;
    if (stream.records->drain([&](std::size_t, Bytes sent) {
          stopped = !handle_record(stream, sent, visit);
          return !stopped;
        }))
      more = true;
    if (stopped) return true;
  }
  return more;
}

trace::SourceState TaskRecords::state() const {
  trace::SourceState state;
  for (const Stream& stream : streams_) {
    state.has_unfinished_record |= !closed_ && stream.records->waits();
    state.unsubmitted += stream.records->unsubmitted();
  }
  return state;
}

std::vector<trace::Loss> TaskRecords::losses() const {
  std::uint64_t lost = programs_.lost();
  for (const Stream& stream : streams_) lost += stream.records->lost() + stream.damaged;
  return {{.reason = buffer_full, .count = lost}};
}

std::string TaskRecords::uncounted_losses() const {
  for (const Stream& stream : streams_)
    if (std::string reason = programs_.explain_uncounted_losses(stream.map); !reason.empty())
      return reason;
  return {};
}

std::uint64_t TaskRecords::discard() {
  std::uint64_t events = 0;
  const auto count = [&](const events::Event& /*event*/) {
    ++events;
    return true;
  };
  for (std::size_t round = 0; round < max_drains && drain(count); ++round) {
  }
  return events;
}

void TaskRecords::report_end() const {
  for (const Stream& stream : streams_) {
    const std::string& name = stream.map.front().pin;
    if (stream.skipped > 0)
      output_.warn(fmt::format("{}: {} skipped: not sent by a probe of this run", name,
                               counted(stream.skipped, "record", "records")));
    if (stream.filtered > 0)
      output_.warn(fmt::format("{}: {} skipped: no binder_transaction_filters select them", name,
                               counted(stream.filtered, "transaction", "transactions")));
    if (const std::uint64_t odd = stream.decoder->unknown_layouts(); odd > 0)
      output_.warn(
          fmt::format("{}: {} of unexpected size", name, counted(odd, "record", "records")));
    if (stream.damaged > 0)
      output_.warn(fmt::format("{}: {} could not be decoded", name,
                               counted(stream.damaged, "record", "records")));
    if (stream.unlogged > 0)
      output_.warn(fmt::format("{}: no atom was sent for {}: {}", name,
                               counted(stream.unlogged, "record", "records"), stream.why_unlogged));
  }
  if (!statsd_) return;
  output_.status(fmt::format("{} sent to statsd", counted(statsd_->sent(), "atom", "atoms")));
  if (statsd_->refused() > 0)
    output_.warn(
        fmt::format("{} refused by statsd{}", counted(statsd_->refused(), "atom", "atoms"),
                    statsd_->last_error() ? ": " + statsd_->last_error()->message : std::string()));
}

} // namespace uprobectl::uprobestats
