#include "commands.hpp"
#include "console.hpp"
#include "uprobectl/doctor.hpp"

namespace uprobectl::cli {

ExitCode run_doctor(std::span<const std::string_view> arguments) {
  const auto console = open_console_without_arguments(
      {.command = "doctor",
       .usage = "doctor [options]",
       .description = "Prints NAME OK REASON [FIX]: what this kernel and this user can do, and at "
                      "the end each subcommand.\n"
                      "Tries what it says, but attaches nothing. Ends with 1 if attaching is not "
                      "possible.",
       .examples = "  uprobectl doctor\n"
                   "  uprobectl doctor --json\n"},
      arguments);
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
