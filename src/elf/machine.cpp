#include "elf/structures.hpp"

#include <fmt/format.h>

namespace uprobectl::elf {

std::string to_string(const Machine& machine) {
  const bool is_little = machine.order == ByteOrder::little;
  switch (machine.id) {
  case raw::EM_X86_64:
    return machine.is_64bit ? "x86-64" : "x32";
  case raw::EM_386:
    return "i386";
  case raw::EM_AARCH64:
    return is_little ? "arm64" : "arm64be";
  case raw::EM_ARM:
    return is_little ? "arm" : "armbe";
  case raw::EM_RISCV:
    return machine.is_64bit ? "riscv64" : "riscv32";
  case raw::EM_S390:
    return machine.is_64bit ? "s390x" : "s390";
  case raw::EM_PPC64:
    return is_little ? "ppc64le" : "ppc64";
  case raw::EM_PPC:
    return "ppc";
  case raw::EM_MIPS:
    return std::string(machine.is_64bit ? "mips64" : "mips") + (is_little ? "el" : "");
  case raw::EM_LOONGARCH:
    return machine.is_64bit ? "loongarch64" : "loongarch32";
  case raw::EM_SPARCV9:
    return "sparc64";
  case raw::EM_PARISC:
    return "hppa";
  case raw::EM_68K:
    return "m68k";
  default:
    return fmt::format("machine {}", machine.id);
  }
}

} // namespace uprobectl::elf
