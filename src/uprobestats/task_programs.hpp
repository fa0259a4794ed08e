// The pinned programs that task files name, and how each is attached.
#pragma once

#include "trace/trace.hpp"

#include <map>

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
  RunCounting counting_ = RunCounting::start();
  std::map<std::string, Result<TaskProgram>> programs_; // by name
  std::map<std::uint32_t, LostMap> lost_;               // by id: programs share it
};

} // namespace uprobectl
