#include "commands.hpp"
#include "console.hpp"
#include "uprobectl/doctor.hpp"

namespace uprobectl::cli {

ExitCode run_doctor(const std::vector<std::string>& arguments) {
  OptionParser parser(
      {.command = "doctor",
       .usage = "doctor [options]",
       .description = "Prints NAME OK REASON [FIX]: what this kernel and this user can do, and at "
                      "the end each subcommand.\n"
                      "Tries what it says, but attaches nothing. Ends with 0, whatever it finds.",
       .examples = "  uprobectl doctor\n"
                   "  uprobectl doctor --json\n"});
  CommonOptions options;
  add_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (!parsed->words().empty())
    return finish_with(parser.usage_error("it takes no argument"), options);
  const auto console = Console::open(options);
  if (!console) return finish_with(console.error(), options);
  for (const Check& check : examine(read_system_facts(), probe_kernel_features()))
    (*console)->sink().check(check);
  return (*console)->finish();
}

} // namespace uprobectl::cli
