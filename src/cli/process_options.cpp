#include "process_options.hpp"

#include "numbers.hpp"

#include <limits>

namespace uprobectl::cli {

namespace {

// What goes through the program, and so not through one of the user's.
std::optional<std::string> filtered_by_program(const AttachRequest& request) {
  if (request.all_processes) return std::nullopt;
  if (!request.names.empty()) return "-p " + request.names.front();
  if (request.follow) return "--follow";
  if (request.target_options.app) return "--app";
  if (request.user) return "--uid";
  if (request.cgroup) return "--cgroup";
  return std::nullopt;
}

std::optional<std::string> contradiction(const AttachRequest& request) {
  const bool processes = !request.pids.empty() || !request.names.empty();
  const bool command = !request.command.empty();
  if (processes && command) return "-p and a command exclude each other";
  if (processes && request.target_options.app) return "-p and --app exclude each other";
  if (command && request.target_options.app) return "--app and a command exclude each other";
  if (request.all_processes) {
    if (command) return "--all-processes and a command exclude each other";
    if (request.follow) return "--all-processes and --follow exclude each other";
    if (request.user) return "--all-processes and --uid exclude each other";
    if (request.cgroup) return "--all-processes and --cgroup exclude each other";
  }
  if (request.follow && !processes && !command)
    return "--follow needs processes whose children are meant: -p or a command";
  return std::nullopt;
}

} // namespace

void add_process_options(OptionParser& parser, ProcessOptions& options) {
  parser.texts("-p,--pid", options.processes, "P",
               "only these processes: pids (1,2,3) or NAME, all that go by it, also later ones; "
               "repeatable (default: every process)");
  parser.text("--app", options.app, "PKG",
              "only the processes of this Android package, also later ones");
  parser.flag("--follow", options.follow, "children of -p or of the command, too");
  parser.text("--uid", options.user, "N", "only processes of the user with this number");
  parser.text("--cgroup", options.cgroup, "PATH",
              "only processes in this control group (cgroup2) or below it");
  parser.flag("--all-processes", options.all,
              "probe every process: -p and --app only say what TARGET means");
}

Result<void> apply(const OptionParser& parser, const ProcessOptions& options,
                   AttachRequest& request) {
  auto words = parse_processes(options.processes);
  if (!words) return fail(parser.usage_error(std::move(words).error().message));
  request.pids = std::move(words->pids);
  request.names = std::move(words->names);
  request.target_options.app = options.app;
  request.follow = options.follow;
  request.cgroup = options.cgroup;
  request.all_processes = options.all;
  if (options.user) {
    const auto user = *options.user == "0" ? std::optional<std::uint64_t>(0) //
                                           : parse_count(*options.user);
    if (!user || *user > std::numeric_limits<std::uint32_t>::max())
      return fail(
          parser.usage_error("'" + *options.user + "' is no user id: --uid takes a number"));
    request.user = static_cast<uid_t>(*user);
  }
  if (const auto wrong = contradiction(request)) return fail(parser.usage_error(*wrong));
  if (request.program)
    if (const auto option = filtered_by_program(request)) {
      Error error = parser.usage_error(*option + " is for the built-in program: programs of yours "
                                                 "filter themselves");
      error.hints.insert(error.hints.begin(),
                         "give pids with -p, by which the kernel filters, or add --all-processes, "
                         "and -p and --app only say what TARGET means");
      return fail(std::move(error));
    }

  if (request.target == "*" && request.pids.empty() && request.names.empty() && !options.app) {
    Error error = parser.usage_error("the TARGET '*' means the files of processes");
    error.hints.insert(error.hints.begin(), "name them with -p or --app");
    return fail(std::move(error));
  }
  return {};
}

} // namespace uprobectl::cli
