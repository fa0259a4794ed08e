// SPDX-License-Identifier: Apache-2.0
// The pinned programs that task files name, and the records that these send.
#pragma once

#include "events/user_record.hpp"
#include "trace/event_source.hpp"
#include "trace/trace.hpp"
#include "uprobestats/statsd.hpp"
#include "uprobestats/uprobestats.hpp"

#include <map>
#include <set>

namespace uprobectl {

// Where a name of a task file is pinned; what is a path stays one.
std::string pin_path(const std::string& folder, const std::string& name);

struct TaskProgram {
  PinnedProgram pinned;
  Mechanism mechanism = Mechanism::perf;
};

class TaskPrograms {
public:
  TaskPrograms(std::string folder, const KernelFeatures& features)
      : folder_(std::move(folder)), features_(features) {}

  // Each is opened once. not_found tells where it was looked for. Stays where it is.
  const Result<TaskProgram>& open(const std::string& name);
  // Records that found a buffer full since the programs were opened, where they count them.
  std::uint64_t lost() const;
  // How often the program has run, where the kernel counts it.
  std::optional<std::uint64_t> runs(const TaskProgram& program) const {
    return counting_.runs(program.pinned.program().fd);
  }

private:
  struct LostMap {
    UserMap map;
    std::uint64_t before = 0;
  };
  Result<TaskProgram> open_pin_of(const std::string& name);
  void take_lost_map(const TaskProgram& program);

  std::string folder_;
  KernelFeatures features_;
  ProgramRunCounter counting_ = ProgramRunCounter::start();
  std::map<std::string, Result<TaskProgram>> programs_; // by name
  std::map<std::uint32_t, LostMap> lost_;               // by id: programs share it
};

// What the programs of tasks send through their pinned maps: shown, and logged as atoms.

class TaskRecords final : public EventSource {
public:
  static constexpr std::string_view buffer_full = "buffer full"; // reason of a loss
  // Of 65,536 records: other runs may never stop sending.
  static constexpr std::size_t max_drains = 1024;

  TaskRecords(const TaskPrograms& programs, Output& output, std::optional<std::string> statsd);

  // A map of a task, which others may have as well. `btf`: of a program that writes to it, 0 for
  // none. What is in it already is of earlier runs.
  Result<void> add(std::size_t task, const std::string& path, std::uint32_t btf,
                   const std::optional<StatsdAtom>& atom);

  // Records of maps of tasks that run are taken; of others they are passed over.
  void begin(std::size_t task) { running_.insert(task); }
  void end(std::size_t task) { running_.erase(task); }
  // No task runs any more: what is sent from now on comes from other runs and is left in the maps.
  void close() { closed_ = true; }

  void add_to(std::vector<pollfd>& polled) const override;
  bool drain(const Visit& visit) override;
  std::vector<Loss> losses() const override;
  std::uint64_t discard() override;

  // What was passed over, or could not be logged.
  void tell_end() const;

private:
  struct Listener {
    std::size_t task = 0;
    std::optional<StatsdAtom> atom; // that its records become
  };
  struct Stream {
    std::vector<UserMap> map; // one: its descriptor stays open as long as it is read
    std::optional<UserRecordDecoder> decoder;
    std::optional<RecordStreams> records;
    std::vector<Listener> listeners;
    std::uint64_t stale = 0; // sent while no task of the map ran
    std::uint64_t damaged = 0;
    std::uint64_t unlogged = 0;
    std::string why_unlogged;
  };
  static Result<Stream> open(UserMap map, const std::string& path, std::uint32_t btf);
  void listen(Stream& stream, Listener listener) const;
  bool take(Stream& stream, Bytes sent, const Visit& visit);
  void log(Stream& stream, const UserRecord& record);

  const TaskPrograms& programs_;
  Output& output_;
  std::optional<StatsdSocket> statsd_;
  std::vector<Stream> streams_;
  std::set<std::size_t> running_;
  bool closed_ = false;
};

} // namespace uprobectl
