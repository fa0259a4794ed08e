// SPDX-License-Identifier: Apache-2.0
// The pinned programs that task files name, and the records that they send.
#pragma once

#include "events/user_record.hpp"
#include "trace/event_source.hpp"
#include "trace/trace.hpp"
#include "uprobestats/statsd.hpp"
#include "uprobestats/uprobestats.hpp"

#include <map>
#include <set>

namespace uprobectl::uprobestats {

// Returns the path of a pin that a task file names. A path is returned unchanged.
std::string pin_path(const std::string& folder, const std::string& name);

// An opened program and the mechanism that attaches it.
struct TaskProgram {
  bpf::PinnedProgram pinned;
  probe::Mechanism mechanism = probe::Mechanism::perf;
};

// Opens the pinned programs of all tasks.
class TaskPrograms {
public:
  TaskPrograms(std::string folder, const bpf::KernelFeatures& features)
      : folder_(std::move(folder)), features_(features) {}

  // Opens a program, or returns the result of the earlier call. A program that was renamed is also
  // opened by its other name. not_found: the message has the path of the pin. The reference stays
  // valid.
  const Result<TaskProgram>& open(const std::string& name);
  // The number of records that were lost because a buffer was full, since the programs were opened.
  // Includes only programs that count lost records.
  std::uint64_t lost() const;
  // Returns why this is not known for a ring buffer among the maps; empty if it is.
  std::string explain_uncounted_losses(std::span<const bpf::UserMap> maps) const;
  // How often the program has run, or nullopt if the kernel does not count runs.
  std::optional<std::uint64_t> runs(const TaskProgram& program) const {
    return counting_.runs(program.pinned.program().fd);
  }

private:
  struct LostMap {
    bpf::UserMap map;
    std::uint64_t before = 0;
  };
  Result<TaskProgram> open_pin_of(const std::string& name);
  void take_lost_maps(const TaskProgram& program);

  std::string folder_;
  bpf::KernelFeatures features_;
  bpf::ProgramRunCounter counting_ = bpf::ProgramRunCounter::start();
  std::map<std::string, Result<TaskProgram>> programs_; // by name
  std::map<std::uint32_t, LostMap> lost_;               // by id: programs share it
};

// Returns the other processes that have a map open, and so may read its records, ascending.
// Processes whose descriptors this user may not read are left out.
std::vector<pid_t> find_map_holders(std::uint32_t map_id);
// Returns why a pinned map should not be read: another process has it open. nullopt: nobody has, or
// the map cannot be opened.
std::optional<Error> find_other_reader(const std::string& path);

// The atoms that a task logs for the records of its maps.
struct TaskAtoms {
  std::optional<StatsdAtom> logging; // statsd_logging_config
  BinderFilters filters;             // of all its probes; empty: all transactions are reported

  bool operator==(const TaskAtoms&) const = default;
};

// Reads the records that the programs of tasks send through pinned maps, and logs them as atoms.
class TaskRecords final : public trace::EventSource {
public:
  static constexpr std::string_view buffer_full = "buffer full"; // reason of a loss
  // Maximum of drains, of 65,536 records each: other runs may never stop sending.
  static constexpr std::size_t max_drains = 1024;

  TaskRecords(const TaskPrograms& programs, output::Output& output,
              std::optional<std::string> statsd);

  // Adds a map of a task; several tasks may have the same map. `btf`: BTF id of a program that
  // writes to it, or 0. Records that it already contains are from earlier runs and are skipped.
  Result<void> add(std::size_t task, const std::string& path, std::uint32_t btf,
                   const TaskAtoms& atoms);

  // Records of a map are reported while one of its tasks runs, and skipped otherwise.
  void begin(std::size_t task) { running_.insert(task); }
  void end(std::size_t task) { running_.erase(task); }
  // Called when no task runs any more. Later records are from other runs and stay in the maps.
  void close() { closed_ = true; }

  void add_to(std::vector<pollfd>& polled) const override;
  bool drain(const Visit& visit) override;
  trace::SourceState state() const override;
  std::vector<trace::Loss> losses() const override;
  std::uint64_t discard() override;
  std::string uncounted_losses() const; // why more may be lost than losses() has; empty if not

  // Warns about records that were skipped or not logged.
  void report_end() const;

private:
  struct Listener {
    std::size_t task = 0;
    TaskAtoms atoms;
  };
  struct Stream {
    std::vector<bpf::UserMap> map; // one element; its descriptor stays open while it is read
    std::optional<events::UserRecordDecoder> decoder;
    std::optional<bpf::RecordStreams> records;
    std::vector<Listener> listeners;
    std::uint64_t skipped = 0;  // sent while no task of the map was running
    std::uint64_t filtered = 0; // transactions that no filter of a running task selects
    std::uint64_t damaged = 0;
    std::uint64_t unlogged = 0;
    std::string why_unlogged;
  };
  static Result<Stream> open(bpf::UserMap map, const std::string& path, std::uint32_t btf);
  void add_listener(Stream& stream, Listener listener) const;
  bool handle_record(Stream& stream, Bytes sent, const Visit& visit);
  bool is_selected(const Stream& stream, const events::UserRecord& record) const;
  void log_record(Stream& stream, const events::UserRecord& record);
  void log_transaction(Stream& stream, const events::UserRecord& record);

  const TaskPrograms& programs_;
  output::Output& output_;
  std::optional<StatsdSocket> statsd_;
  std::vector<Stream> streams_;
  std::set<std::size_t> running_;
  bool closed_ = false;
};

} // namespace uprobectl::uprobestats
