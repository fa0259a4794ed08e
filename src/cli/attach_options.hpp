// The options of attach and usdt attach, which differ in what they probe.
#pragma once

#include "console.hpp"
#include "inspection_options.hpp"
#include "process_options.hpp"
#include "program_options.hpp"
#include "stack_options.hpp"
#include "target_options.hpp"

namespace uprobectl::cli {

struct AttachOptions {
  // Of the outer one: not given; of the inner one: forever.
  std::optional<std::optional<std::chrono::nanoseconds>> duration;
  std::optional<std::uint64_t> max_events;
  std::optional<std::string> mechanism;
  std::optional<std::string> buffer;
  bool keep_going = false;
  bool dry_run = false;
  ResolveOptions resolve = {};
  bool instruction = false;
  std::vector<std::string> debug_places;
  DexWords dex;
  std::optional<std::string> oatdump;
  std::optional<std::string> command_line;
  bool forward_exit = false;
  std::optional<std::string> command_output;
  ProgramOptions program;
  InspectionOptions inspection;
  StackOptions stack;
  ProcessOptions processes;
};

// `words`: what stands behind TARGET, and so which options there are.
void bind_attach_options(OptionParser& parser, AttachOptions& options, ProbeWords words);

Result<AttachRequest> make_attach_request(const OptionParser& parser, const AttachOptions& options,
                                          const CommonOptions& common, ProbeWords words,
                                          const Arguments& arguments);

// Runs it and says how the program ends. `forward_exit`: as the command did.
ExitCode attach(const AttachRequest& request, Console& console, bool forward_exit);

} // namespace uprobectl::cli
