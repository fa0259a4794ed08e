#include "resolve/process_machine.hpp"

#include <fmt/format.h>

namespace uprobectl {

std::optional<elf::Machine> machine_of_process(pid_t pid) {
  const auto file = MappedFile::open(fmt::format("/proc/{}/exe", pid));
  if (!file) return std::nullopt;
  // e_ident[EI_CLASS], e_ident[EI_DATA] and e_machine: the ELF specification, "ELF Header".
  const Bytes bytes = file->bytes();
  const auto elf_class = read_at<std::uint8_t>(bytes, 4);
  const auto data = read_at<std::uint8_t>(bytes, 5);
  const ByteOrder order = data == 2 ? ByteOrder::big : ByteOrder::little;
  const auto id = read_at<std::uint16_t>(bytes, 18, order);
  if (!elf_class || !id) return std::nullopt;
  return elf::Machine{.id = *id, .is_64bit = *elf_class == 2, .order = order};
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
