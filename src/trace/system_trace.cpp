// SPDX-License-Identifier: Apache-2.0
#include "trace/system_trace.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

using namespace std::chrono_literals;

constexpr off_t max_trace_bytes = off_t{1} << 30U; // of its file

// The only folder that perfetto may write to on Android (SELinux).
constexpr std::string_view android_folder = "/data/misc/perfetto-traces";

// Returns the path that perfetto writes to: a file in that folder, or else in a new folder, to
// which others cannot write. The second path is that of the new folder.
Result<std::vector<std::string>> make_paths() {
  if (::access(android_folder.data(), W_OK) == 0)
    return std::vector{fmt::format("{}/uprobectl-{}.pftrace", android_folder, ::getpid())};
  const char* const temporary = std::getenv("TMPDIR");
  std::string folder = temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
  folder += "/uprobectl-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return fail(system_error(errno, folder));
  return std::vector{folder + "/run.pftrace", folder};
}

void remove(const std::vector<std::string>& paths) {
  ::unlink(paths.front().c_str());
  if (paths.size() > 1) ::rmdir(paths[1].c_str());
}

// The categories of atrace are those of Android's frameworks/native/cmds/atrace. For kernels
// without Android, adds the events of a category by their names, too.
void add_kernel_events(std::string& config, std::string_view category) {
  constexpr std::pair<std::string_view, std::string_view> events[] = {
      {"sched", "sched/sched_switch"},       {"sched", "sched/sched_waking"},
      {"sched", "sched/sched_wakeup_new"},   {"sched", "sched/sched_blocked_reason"},
      {"sched", "sched/sched_process_exit"}, {"sched", "sched/sched_process_free"},
      {"sched", "task/task_newtask"},        {"sched", "task/task_rename"},
      {"freq", "power/cpu_frequency"},       {"freq", "power/cpu_idle"},
      {"freq", "power/suspend_resume"},
  };
  for (const auto& [name, event] : events)
    if (name == category) config += fmt::format("      ftrace_events: \"{}\"\n", event);
}

Error explain_end(const process::BackgroundCommand& perfetto, std::string_view what) {
  const std::string errors = perfetto.read_errors();
  const std::string_view last = last_line(errors);
  return Error{ErrorKind::io, fmt::format("perfetto {}{}{}", what, last.empty() ? "" : ": ", last)}
      .hint("Android 9 and 10 record only after: setprop persist.traced.enable 1");
}

Error no_perfetto() {
  return Error{ErrorKind::not_found, "--with-system-trace needs perfetto, which is not here"}.hint(
      "Android has it since version 9; elsewhere put it in PATH, and start traced and "
      "traced_probes");
}

} // namespace

std::string make_perfetto_config(const SystemTraceSpec& spec, std::span<const std::string> apps,
                                 std::optional<std::chrono::milliseconds> longest) {
  std::string config = "write_into_file: true\n"
                       "file_write_period_ms: 500\n"
                       "max_file_size_bytes: 1073741824\n"; // max_trace_bytes
  if (longest) config += fmt::format("duration_ms: {}\n", longest->count());
  config += "buffers { size_kb: 32768 }\n"
            "buffers { size_kb: 2048 }\n"
            "data_sources {\n"
            "  config {\n"
            "    name: \"linux.process_stats\"\n"
            "    target_buffer: 1\n"
            "    process_stats_config { scan_all_processes_on_start: true }\n"
            "  }\n"
            "}\n"
            "data_sources {\n"
            "  config {\n"
            "    name: \"linux.ftrace\"\n"
            "    ftrace_config {\n";
  for (const std::string& category : spec.categories) {
    if (category == frames_category) continue;
    add_kernel_events(config, category);
    config += fmt::format("      atrace_categories: \"{}\"\n", category);
  }
  if (apps.empty()) config += "      atrace_apps: \"*\"\n";
  for (const std::string& app : apps) config += fmt::format("      atrace_apps: \"{}\"\n", app);
  config += "    }\n"
            "  }\n"
            "}\n";
  if (std::ranges::find(spec.categories, frames_category) != spec.categories.end())
    config += "data_sources { config { name: \"android.surfaceflinger.frametimeline\" } }\n";
  return config;
}

Result<std::unique_ptr<SystemTrace>>
SystemTrace::start(const std::string& config, const std::function<bool()>& is_interrupted) {
  const auto paths = make_paths();
  if (!paths) return fail(Error(paths.error()).within("--with-system-trace"));
  const std::string& path = paths->front();
  auto perfetto = process::BackgroundCommand::start({"perfetto", "--txt", "-c", "-", "-o", path},
                                                    config, *paths);
  if (!perfetto) {
    remove(*paths);
    return fail(perfetto.error().kind == ErrorKind::not_found ? no_perfetto()
                                                              : std::move(perfetto).error());
  }
  // It writes the first packets when it has recorded for half a second.
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  for (;;) {
    UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    struct stat status{};
    if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size > 0) {
      remove(*paths);
      return std::unique_ptr<SystemTrace>(new SystemTrace(std::move(*perfetto), std::move(file)));
    }
    const auto end = perfetto->find_end();
    std::optional<Error> error;
    if (end && end->shell_status() == 127)
      error = no_perfetto();
    else if (end)
      error = explain_end(*perfetto, fmt::format("ended with status {}", end->shell_status()));
    else if (is_interrupted())
      error = {ErrorKind::interrupted, "interrupted before the probes were attached"};
    else if (std::chrono::steady_clock::now() >= deadline)
      error = explain_end(*perfetto, "does not record within 10 s");
    if (error) {
      static_cast<void>(perfetto->end(2s));
      remove(*paths);
      return fail(std::move(*error).within("--with-system-trace"));
    }
    std::this_thread::sleep_for(20ms);
  }
}

void SystemTrace::finish(output::Exports& exports, const std::function<bool()>& is_interrupted,
                         output::Output& output) {
  const auto early = perfetto_.find_end();
  if (!early) output.status("waiting for what perfetto has recorded");
  perfetto_.terminate();
  // It asks all sources for the rest, and waits 5 s for them.
  const auto deadline = std::chrono::steady_clock::now() + 15s;
  while (!perfetto_.find_end() && !is_interrupted() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(20ms);
  struct stat status{};
  if (early && ::fstat(file_.get(), &status) == 0 && status.st_size >= max_trace_bytes / 10 * 9)
    output.warn("--with-system-trace: perfetto ended before the run, with 1 GiB");
  else if (early)
    output.warn("--with-system-trace: " +
                explain_end(perfetto_, fmt::format("ended before the run, with status {}",
                                                   early->shell_status()))
                    .message);
  else if (!perfetto_.end(0ms))
    output.warn("--with-system-trace: perfetto did not end after SIGTERM, and was killed");
  const auto trace = MappedFile::open(fmt::format("/proc/self/fd/{}", file_.get()));
  if (!trace) {
    output.fail(Error(trace.error()).within("--with-system-trace"));
    return;
  }
  const std::uint64_t taken = exports.add_trace(trace->bytes());
  if (const std::uint64_t left = trace->bytes().size() - taken; left > 0)
    output.warn(fmt::format("--with-system-trace: {} of {} bytes of perfetto's trace are damaged "
                            "or incomplete, and left out",
                            left, trace->bytes().size()));
}

Result<std::unique_ptr<SystemTrace>>
start_system_trace(const AttachRequest& request, const std::function<bool()>& is_interrupted) {
  if (!request.system_trace) return nullptr;
  const auto& app = request.probes.target_options.app;
  std::optional<std::chrono::milliseconds> longest; // should this process be unable to end it
  if (request.limits.duration)
    longest = std::chrono::ceil<std::chrono::milliseconds>(*request.limits.duration) + 5min;
  return SystemTrace::start(
      make_perfetto_config(*request.system_trace,
                           app ? std::span(&*app, 1) : std::span<const std::string>(), longest),
      is_interrupted);
}

} // namespace uprobectl::trace
