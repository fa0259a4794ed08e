#include "uprobestats/task_programs.hpp"

#include "trace/user_programs.hpp"

namespace uprobectl {

std::string pin_path(const std::string& folder, const std::string& name) {
  return name.starts_with('/') ? name : folder + "/" + name;
}

Result<TaskProgram> TaskPrograms::open_pin_of(const std::string& name) {
  auto pinned = PinnedProgram::open(pin_path(folder_, name), features_);
  if (!pinned && pinned.error().kind == ErrorKind::not_found)
    return fail(std::move(pinned).error().hint(
        "load an object's programs under such names with: uprobectl load FILE.o --naming "
        "uprobestats --pin " +
        folder_));
  if (!pinned) return fail(std::move(pinned).error());
  if (pinned->program().kind == ProgramKind::session)
    return fail(ErrorKind::unsupported,
                name + " is a session program, which replaces return addresses: a task probes Java "
                       "code, and ART would end the app");
  const auto mechanism = choose_mechanism(
      std::nullopt, features_,
      {.filters_by_pid = true, .loaded_by_us = false, .kind = pinned->program().kind});
  if (!mechanism) return fail(mechanism.error());
  TaskProgram program{std::move(*pinned), *mechanism};
  take_lost_map(program);
  return program;
}

void TaskPrograms::take_lost_map(const TaskProgram& program) {
  const auto maps = maps_of_program(program.pinned.program().fd);
  auto lost = maps ? find_lost_map(*maps) : std::nullopt;
  if (!lost) return;
  const std::uint32_t id = lost->id;
  const std::uint64_t before = lost_in(*lost);
  lost_.emplace(id, LostMap{std::move(*lost), before});
}

std::uint64_t TaskPrograms::lost() const {
  std::uint64_t sum = 0;
  for (const auto& [id, lost] : lost_) sum += lost_in(lost.map) - lost.before;
  return sum;
}

const Result<TaskProgram>& TaskPrograms::open(const std::string& name) {
  const auto known = programs_.find(name);
  if (known != programs_.end()) return known->second;
  return programs_.emplace(name, open_pin_of(name)).first->second;
}

} // namespace uprobectl
