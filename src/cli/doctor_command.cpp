#include "commands.hpp"
#include "console.hpp"
#include "doctor/doctor.hpp"

namespace uprobectl::cli {

ExitCode run_doctor(std::span<const std::string_view> arguments) {
  const auto output = open_output_without_arguments("doctor", arguments);
  if (!output) return output.error();
  bool can_attach = true;
  for (const Check& check : examine(read_system_facts(), probe_kernel_features())) {
    (*output)->write(check);
    if (check.name == "attach") can_attach = check.ok;
  }
  const ExitCode written = finish(**output);
  return can_attach ? written : ExitCode::failed;
}

} // namespace uprobectl::cli
