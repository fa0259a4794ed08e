#include "commands.hpp"
#include "console.hpp"
#include "doctor/doctor.hpp"

namespace uprobectl::cli {

ExitCode run_doctor(std::span<const std::string_view> arguments) {
  const auto console = open_console_without_arguments("doctor", arguments);
  if (!console) return console.error();
  bool can_attach = true;
  for (const Check& check : examine(read_system_facts(), probe_kernel_features())) {
    (*console)->sink().check(check);
    if (check.name == "attach") can_attach = check.ok;
  }
  const ExitCode written = (*console)->finish();
  return can_attach ? written : ExitCode::failed;
}

} // namespace uprobectl::cli
