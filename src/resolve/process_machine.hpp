// Whether a process can run the code of a file: a 64-bit process never runs 32-bit code, nor that
// of another machine.
#pragma once

#include "uprobectl/elf.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl {

// The machine of the program that a process runs; nothing if /proc/PID/exe cannot be read.
std::optional<elf::Machine> machine_of_process(pid_t pid);

// wrong_machine if none of the processes can run code of this machine. Those that cannot be looked
// at are taken to.
std::optional<Error> foreign_to(std::span<const pid_t> pids, const elf::Machine& machine,
                                std::string_view subject);

} // namespace uprobectl
