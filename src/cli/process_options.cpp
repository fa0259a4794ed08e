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
  if (command && request.target_options.app) return "--app and a command exclude each other";
  if (command && request.all_processes) return "--all-processes and a command exclude each other";
  if (request.follow && !processes && !command)
    return "--follow needs processes whose children are meant: -p or a command";
  return std::nullopt;
}

} // namespace

void bind_process_options(OptionParser& parser, ProcessOptions& options) {
  parser.bind("--pid", options.processes);
  parser.bind("--app", options.app);
  parser.bind("--follow", options.follow);
  parser.bind("--uid", options.user,
              CountReader{.mistake = "'{}' is no user id: --uid takes a number",
                          .least = 0,
                          .most = std::numeric_limits<std::uint32_t>::max()});
  parser.bind("--cgroup", options.cgroup);
  parser.bind("--all-processes", options.all);
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
  if (options.user) request.user = static_cast<uid_t>(*options.user);
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
