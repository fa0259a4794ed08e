#include "resolve/process_machine.hpp"

#include <fmt/format.h>

namespace uprobectl {

std::optional<elf::Machine> machine_of_process(pid_t pid) {
  const auto file = MappedFile::open(fmt::format("/proc/{}/exe", pid));
  if (!file) return std::nullopt;
  const auto machine = elf::read_machine(file->bytes());
  if (!machine) return std::nullopt;
  return *machine;
}

std::optional<Error> foreign_to(std::span<const pid_t> pids, const elf::Machine& machine,
                                std::string_view subject) {
  std::optional<elf::Machine> other;
  for (const pid_t pid : pids) {
    const auto own = machine_of_process(pid);
    if (!own || *own == machine) return std::nullopt;
    other = own;
  }
  if (!other) return std::nullopt;
  const std::string who =
      pids.size() == 1 ? fmt::format("process {} is", pids.front()) : "the processes are";
  return Error{ErrorKind::wrong_machine,
               fmt::format("{}: the file is {}, but {} {}: a probe in it can never fire there",
                           subject, elf::to_string(machine), who, elf::to_string(*other))};
}

} // namespace uprobectl
