#include "commands.hpp"
#include "console.hpp"
#include "numbers.hpp"
#include "record_file.hpp"
#include "uprobectl/resolve.hpp"
#include "verify_mode.hpp"

namespace uprobectl::cli {

namespace {

// The requests of the command line, or those of a file.
Result<std::vector<RequestLine>> read_all(const OptionParser& parser, const Arguments& arguments,
                                          const std::optional<std::string>& file) {
  if (file && !arguments.words().empty())
    return fail(parser.usage_error("--file takes the requests from a file"));
  if (file) return read_requests(*file);
  auto request = request_of(parser, arguments.words());
  if (!request) return fail(std::move(request).error());
  return std::vector{std::move(*request)};
}

void resolve_all(const RequestLine& request, const Target& target, const ResolveOptions& options,
                 Console& console) {
  for (const std::string& text : request.functions) {
    const auto function = parse_function(text);
    const auto points = function ? target.resolve(*function, options) : fail(function.error());
    if (!points) {
      console.fail(points.error(), request.target, text);
      continue;
    }
    for (const ProbePoint& point : *points) {
      console.warn(point.warnings);
      console.sink().match(point);
    }
  }
  console.report(target);
}

void describe(const RequestLine& request, const Target& target, const Reporter& reporter) {
  if (const elf::Image* image = target.image())
    reporter.detail(request.target + ": " + to_string(target.path()) + ", " +
                    elf::to_string(image->machine()) + ", build id " +
                    image->build_id().value_or("none"));
}

void resolve_all(const std::vector<RequestLine>& requests, const TargetOptions& where,
                 const ResolveOptions& options, Console& console) {
  std::optional<Target> target; // kept while requests ask the same file
  for (const RequestLine& request : requests) {
    if (!target || target->text() != request.target) {
      auto opened = Target::open(request.target, where);
      if (!opened) {
        console.fail(opened.error(), request.target);
        continue;
      }
      target = std::move(*opened);
      console.warn(target->warnings());
      describe(request, *target, console.reporter());
    }
    resolve_all(request, *target, options, console);
  }
}

} // namespace

ExitCode run_resolve(const std::vector<std::string>& arguments) {
  OptionParser parser({.command = "resolve",
                       .usage = "resolve [options] TARGET FUNCTION… | -f FILE | --verify RECORD",
                       .description =
                           "Prints OFFSET FILE SYMBOL for each FUNCTION: the number the kernel's "
                           "uprobes need.\n"
                           "TARGET: FILE, ARCHIVE!/ENTRY, or the name of a library or program.\n"
                           "FUNCTION: name, name@VERSION, name+0xN, a pattern, ns::name, plt:name, "
                           "vaddr:0x…, offset:0x…,\nfile-offset:0x…",
                       .examples = "  uprobectl resolve libc.so.6 malloc\n"
                                   "  uprobectl resolve --json libc.so.6 'mem*' free\n"
                                   "  uprobectl resolve --instruction libc.so.6 malloc\n"});
  CommonOptions options;
  add_common_options(parser, options);
  TargetOptions target_options;
  add_debug_options(parser, target_options.debug_places);
  TextStyle style;
  std::optional<std::string> file;
  std::vector<std::string> pid_lists;
  VerifyOptions verify;
  parser.flag("--offset-only", style.offset_only, "print the number alone");
  ResolveOptions how;
  parser.flag("--all", how.all, "take every place of an ambiguous name");
  parser.flag("--aliases", how.aliases, "show the other names of each place");
  add_instruction_option(parser, style.instruction);
  parser.flag("--clones", how.clones, "take the compiler's clones of a function, too");
  parser.flag("--unsafe", how.unsafe, "allow +N beyond a function and inside an instruction");
  parser.text("-f,--file", file, "FILE", "requests, one `TARGET FUNCTION…` a line; - is stdin");
  add_pid_option(parser, pid_lists);
  add_verify_options(parser, verify);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (const auto checked = check_verify_options(parser, verify, *parsed); !checked)
    return finish_with(checked.error(), options);
  auto pids = parse_pids(pid_lists);
  if (!pids) return finish_with(parser.usage_error(pids.error().message), options);
  target_options.pids = std::move(*pids);

  style.aliases = how.aliases;
  how.thorough = options.verbose;
  verify.unsafe = how.unsafe;
  how.instructions = instructions_of(options, style.instruction);

  std::vector<RequestLine> requests;
  if (!verify.record) {
    auto read = read_all(parser, *parsed, file);
    if (!read) return finish_with(read.error(), options);
    requests = std::move(*read);
  }
  const auto console = Console::open(options, style);
  if (!console) return finish_with(console.error(), options);
  if (verify.record) return run_verify(verify, *parsed, target_options, **console);
  resolve_all(requests, target_options, how, **console);
  return (*console)->finish();
}

} // namespace uprobectl::cli
