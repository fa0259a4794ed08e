// SPDX-License-Identifier: Apache-2.0
#include "trace/process_filter.hpp"

#include "process/proc.hpp"
#include "resolve/android.hpp"
#include "uprobectl/process.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <sys/vfs.h>

namespace uprobectl::trace {

namespace {

// Delays after which a renamed process is checked again. After an execve the arguments are there
// within microseconds. Android's zygote first renames its child and then writes the arguments, much
// later on a busy machine.
constexpr std::array recheck_delays = {std::chrono::milliseconds(2), std::chrono::milliseconds(50),
                                       std::chrono::milliseconds(300)};

// Removes the first field of the line and returns it. Fields are separated by one space.
std::string_view take_field(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

// Decodes octal escapes of spaces and backslashes: "\040".
std::string unescaped(std::string_view field) {
  constexpr std::size_t digits = 3;
  std::string text;
  while (!field.empty()) {
    unsigned value = 0;
    if (field.front() == '\\' && field.size() > digits &&
        std::from_chars(field.data() + 1, field.data() + 1 + digits, value, 8).ptr ==
            field.data() + 1 + digits) {
      text.push_back(static_cast<char>(value));
      field.remove_prefix(1 + digits);
    } else {
      text.push_back(field.front());
      field.remove_prefix(1);
    }
  }
  return text;
}

void add_pids(const std::string& file, std::vector<pid_t>& pids) {
  const auto text = process::read_pseudo_file(file);
  if (!text) return; // the group was removed meanwhile
  std::string_view rest = *text;
  while (!rest.empty()) {
    // 0 means a process of another pid namespace.
    if (const auto pid = parse_number<pid_t>(take_line(rest)); pid && *pid > 0)
      pids.push_back(*pid);
  }
}

Result<std::string> full_path(std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  const auto mounts = process::read_pseudo_file("/proc/self/mountinfo");
  if (!mounts) return fail(mounts.error());
  const auto mount = cgroup2_mount(*mounts);
  if (!mount)
    return fail(Error{ErrorKind::unsupported, "cgroup2 is not mounted"}.hint(
        "mount it with: mount -t cgroup2 none /sys/fs/cgroup"));
  return *mount + "/" + std::string(path);
}

// How often the members of the process set are counted.
constexpr std::chrono::milliseconds member_check_interval{20};
// How often it is checked whether they have ended, and for how many at most.
constexpr std::chrono::milliseconds end_check_interval{500};
constexpr std::size_t max_checked_members = 64;

// The kernel compares names with comm, which has at most 15 bytes.
constexpr std::size_t max_comm_length = 15;

// Ignores errors: the process may have ended, or the set may be full.
void add_if_running(bpf::ProcessSet& set, pid_t pid, bpf::ProcessSet::Membership membership) {
  static_cast<void>(set.add(pid, membership).has_value());
}

// Adds the descendants of a member, including those that start meanwhile.
void add_descendants(bpf::ProcessSet& set, pid_t pid) {
  // A child of a process that is not yet a member may be missed; the next pass finds it.
  for (bool found = true; found;) {
    found = false;
    for (const pid_t child : process::find_descendants(pid)) {
      if (set.contains(child)) continue;
      if (set.add(child)) found = true;
    }
  }
}

void intersect(std::optional<std::vector<pid_t>>& pids, std::vector<pid_t> others) {
  std::ranges::sort(others);
  if (!pids) {
    pids = std::move(others);
    return;
  }
  std::erase_if(*pids, [&](pid_t pid) { return !std::ranges::binary_search(others, pid); });
}

} // namespace

std::string waiting_status(std::string_view name) {
  return fmt::format("waiting for a process named '{}'", name);
}

Result<ProcessWatch> ProcessWatch::start(std::span<const pid_t> pids) {
  ProcessWatch watch;
  for (const pid_t pid : pids) {
    process::ProcessHandle process(pid);
    const int error = process.open_error();
    // The id of a thread fails with EINVAL, or with ENOENT on newer kernels.
    if (error == ESRCH || error == EINVAL || error == ENOENT) {
      if (process::read_comm(pid))
        return fail(
            Error{ErrorKind::not_found, std::to_string(pid) + " is a thread, not a process"}.hint(
                "-p takes the process: Tgid in /proc/" + std::to_string(pid) + "/status"));
      return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
    }
    if (error != 0) return fail(system_error(error, "cannot watch process " + std::to_string(pid)));
    watch.running_.push_back(
        {.name = process::describe_process(pid), .process = std::move(process)});
    watch.watches_ = true;
  }
  return watch;
}

bool ProcessWatch::is_running(pid_t pid) const {
  return std::ranges::any_of(running_, [&](const Running& each) {
    return each.process.pid() == pid && !each.process.has_ended();
  });
}

bool ProcessWatch::all_gone() {
  std::erase_if(running_, [this](const Running& running) {
    if (!running.process.has_ended()) return false;
    ended_.push_back(running.name);
    return true;
  });
  return watches_ && running_.empty();
}

void ProcessWatch::add_to(std::vector<pollfd>& polled) const {
  for (const Running& running : running_) running.process.add_to(polled);
}

std::vector<std::size_t> NameWatch::find_names(pid_t pid) const {
  std::vector<std::size_t> names;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (is_named_(pid, names_[i])) names.push_back(i);
  return names;
}

void NameWatch::visit_process(pid_t pid, const Visit& visit) const { visit(pid, find_names(pid)); }

void NameWatch::scan(const Visit& visit) const {
  for (const pid_t pid : process::all_processes())
    if (const auto names = find_names(pid); !names.empty()) visit(pid, names);
}

bool NameWatch::look(bpf::ProcessSet& set, Time now, const Visit& visit) {
  set.drain([&](const bpf::ProcessSet::Renamed& renamed) {
    visit_process(renamed.pid, visit);
    for (const auto delay : recheck_delays) rechecks_.emplace(now + delay, renamed.pid);
  });
  const auto later = rechecks_.upper_bound(now);
  for (auto at = rechecks_.begin(); at != later; ++at) visit_process(at->second, visit);
  rechecks_.erase(rechecks_.begin(), later);
  const std::uint64_t before = std::exchange(missed_, set.missed());
  return missed_ == before;
}

std::optional<NameWatch::Time> NameWatch::next_look() const {
  return rechecks_.empty() ? std::nullopt : std::optional(rechecks_.begin()->first);
}

// "36 35 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw": the mount point is the
// fifth field, the type follows the lone dash.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    std::string_view line = take_line(mountinfo);
    for (int i = 0; i < 4; ++i) take_field(line);
    const std::string_view point = take_field(line);
    while (!line.empty() && take_field(line) != "-") {
    }
    if (take_field(line) == "cgroup2") return unescaped(point);
  }
  return std::nullopt;
}

Result<ControlGroup> ControlGroup::open(std::string_view path) {
  auto full = full_path(path);
  if (!full) return fail(std::move(full).error());
  UniqueFd fd{::open(full->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd && errno == ENOTDIR)
    return fail(ErrorKind::usage, *full + " is not a control group: it is not a directory");
  if (!fd) return fail(system_error(errno, "cannot open the control group " + *full));
  struct statfs status{};
  if (::fstatfs(fd.get(), &status) != 0)
    return fail(system_error(errno, "cannot examine " + *full));
  if (status.f_type != CGROUP2_SUPER_MAGIC)
    return fail(
        Error{ErrorKind::usage, *full + " is not a control group of cgroup2"}
            .hint(
                "--cgroup takes a directory of a cgroup2 mount, or its path relative to the mount")
            .hint("the group of a process is in /proc/PID/cgroup, after 0::/"));
  return ControlGroup(std::move(fd), std::move(*full));
}

std::vector<pid_t> ControlGroup::processes() const {
  std::vector<pid_t> pids;
  add_pids(path_ + "/cgroup.procs", pids);
  std::error_code error;
  for (auto at = std::filesystem::recursive_directory_iterator(path_, error);
       !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error))
    if (at->is_directory(error)) add_pids(at->path().string() + "/cgroup.procs", pids);
  std::ranges::sort(pids);
  pids.erase(std::ranges::unique(pids).begin(), pids.end());
  return pids;
}

Result<std::vector<pid_t>> find_target_pids(const ProcessFilter& filter,
                                            std::span<const std::string> targets,
                                            output::Output& output) {
  std::vector<pid_t> pids = filter.pids;
  for (const std::string& name : filter.names)
    for (const pid_t pid : process::find_named_processes(name))
      if (std::ranges::find(pids, pid) == pids.end()) pids.push_back(pid);
  if (!pids.empty() || filter.names.empty()) return pids;
  if (std::ranges::find(targets, "*") != targets.end())
    return fail(Error{ErrorKind::not_found, fmt::format("no process named {} is running",
                                                        alternatives(filter.names, "'"))}
                    .hint("TARGET '*' needs running processes: it means the files that they map"));
  for (const std::string& target : targets)
    output.warn(
        fmt::format("{}: resolved before a process named {} is running; its mount namespace is "
                    "not searched",
                    target, alternatives(filter.names, "'")));
  return pids;
}

Result<FilteredProcesses> FilteredProcesses::start(const ProcessFilter& filter,
                                                   const std::optional<std::string>& app,
                                                   ProcessWatch running, output::Output& output) {
  FilteredProcesses chosen(filter, app);
  if (filter.cgroup) {
    auto group = ControlGroup::open(*filter.cgroup);
    if (!group) return fail(std::move(group).error());
    chosen.group_ = std::move(*group);
  }
  if (auto found = chosen.find_user(output); !found) return fail(std::move(found).error());
  if (!filter.all) {
    const bool ends = !filter.pids.empty() && filter.names.empty();
    if (!filter.names.empty() || filter.follow) {
      chosen.ends_with_members_ = ends;
      if (auto watched = chosen.watch(output); !watched) return fail(std::move(watched).error());
    } else {
      chosen.pids_ = filter.pids;
      if (ends) chosen.running_ = std::move(running);
    }
  }
  chosen.initial_pids_ = chosen.known_pids();
  if (chosen.filter().flags != 0 && chosen.pids_.empty())
    output.status(
        "processes are filtered in the BPF program: calls in other processes also stop at "
        "the probes, but are not shown");
  return chosen;
}

Result<void> FilteredProcesses::find_user(output::Output& output) {
  user_ = filter_->user;
  if (!*app_package_ || filter_->all) return {};
  const std::string& package = **app_package_;
  const auto user = resolve::package_user(package);
  if (!user) return fail(user.error());
  if (filter_->user && *filter_->user != user->id) {
    const bool of_other = std::ranges::find(user->others, *filter_->user) != user->others.end();
    if (of_other) return {}; // --uid selects the user of the device
    return fail(Error{ErrorKind::usage, fmt::format("{} runs as user {}, not as {}", package,
                                                    user->id, *filter_->user)}
                    .hint("leave out --uid"));
  }
  user_ = user->id;
  output.detail(fmt::format("{} runs as user {}", package, user->id));
  if (!user->others.empty() && !filter_->user)
    output.warn(fmt::format("{} is also installed for other users of the device: it is not probed "
                            "as {} (choose with --uid)",
                            package, fmt::join(user->others, ", ")));
  return {};
}

Result<void> FilteredProcesses::watch(output::Output& output) {
  auto set = bpf::ProcessSet::start({.names = filter_->names, .follow = filter_->follow});
  if (!set) return fail(std::move(set).error());
  set_ = std::move(*set);
  for (const pid_t pid : filter_->pids) {
    if (auto added = set_->add(pid); !added) return fail(std::move(added).error());
    if (filter_->follow) add_descendants(*set_, pid);
  }
  if (filter_->names.empty()) return {};
  name_watch_.emplace(filter_->names, process::is_process_named);
  add_named();
  for (const std::string& name : filter_->names) {
    if (process::find_named_processes(name).empty()) output.status(waiting_status(name));
    if (name.size() > max_comm_length)
      output.detail(fmt::format("'{}' is longer than the {} bytes that the kernel stores of a "
                                "name: the first calls of new processes may be missed",
                                name, max_comm_length));
  }
  return {};
}

bool links_lose_main_thread(std::string_view release) {
  const auto major = take_number<unsigned>(release);
  if (!major || !release.starts_with('.')) return false;
  release.remove_prefix(1);
  const auto minor = take_number<unsigned>(release);
  return minor && (*major < 6 || (*major == 6 && *minor < 12));
}

std::span<const pid_t> FilteredProcesses::link_pids() const {
  return program_pids_ ? std::span<const pid_t>() : pids_;
}

Result<void> FilteredProcesses::filter_in_program() {
  auto map = bpf::create_pid_map(pids_);
  if (!map) return fail(std::move(map).error());
  program_pids_ = std::move(*map);
  return {};
}

std::vector<pid_t> FilteredProcesses::choose_link_tasks() {
  link_tasks_.clear();
  std::vector<pid_t> tasks;
  for (const pid_t pid : link_pids())
    if (!running_ || running_->is_running(pid))
      link_tasks_.emplace_back(pid, tasks.emplace_back(process::find_live_thread(pid)));
  return tasks;
}

std::vector<std::string> FilteredProcesses::find_lost_tasks() {
  std::vector<std::string> lost;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_task_check_) return lost;
  next_task_check_ = now + task_check_interval;
  for (const auto& [pid, task] : link_tasks_)
    if (process::has_thread_ended(pid, task) &&
        !process::has_thread_ended(pid, process::find_live_thread(pid)))
      lost.push_back(process::describe_process(pid));
  return lost;
}

ProgramFilter FilteredProcesses::filter() const {
  ProgramFilter filter;
  if (program_pids_) {
    filter.flags |= FILTER_BY_PROCESS;
    filter.processes_fd = program_pids_.get();
  }
  if (set_) {
    filter.flags |= FILTER_BY_PROCESS;
    filter.processes_fd = set_->map_fd();
  }
  if (user_) {
    filter.flags |= FILTER_BY_USER;
    filter.uid = *user_;
  }
  if (group_) {
    filter.flags |= FILTER_BY_CGROUP;
    filter.cgroup_fd = group_->fd();
  }
  return filter;
}

void FilteredProcesses::add_named() {
  name_watch_->scan([this](pid_t pid, std::span<const std::size_t> /*names*/) {
    add_if_running(*set_, pid, bpf::ProcessSet::Membership::while_named);
    if (filter_->follow) add_descendants(*set_, pid);
  });
}

bool FilteredProcesses::look(Time now) {
  if (!name_watch_) return true;
  const bool seen_all =
      name_watch_->look(*set_, now, [this](pid_t pid, std::span<const std::size_t> names) {
        if (!names.empty())
          add_if_running(*set_, pid, bpf::ProcessSet::Membership::while_named);
        else if (!filter_->follow)
          set_->withdraw(pid);
      });
  if (!seen_all) add_named();
  return true;
}

std::optional<FilteredProcesses::Time> FilteredProcesses::next_look() const {
  return name_watch_ ? name_watch_->next_look() : std::nullopt;
}

bool FilteredProcesses::all_gone() {
  if (running_) return running_->all_gone();
  if (!ends_with_members_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_member_check_) return false;
  next_member_check_ = now + member_check_interval;
  const std::vector<pid_t> members = set_->members();
  if (members.empty()) return true;
  // A process that was ending already when it was added is not removed by the kernel's side.
  if (now < next_end_check_ || members.size() > max_checked_members) return false;
  next_end_check_ = now + end_check_interval;
  return std::ranges::all_of(members,
                             [](pid_t pid) { return process::ProcessHandle(pid).has_ended(); });
}

std::vector<std::string> FilteredProcesses::take_ended() {
  return running_ ? running_->take_ended() : std::vector<std::string>();
}

void FilteredProcesses::add_to(std::vector<pollfd>& polled) const {
  if (running_) running_->add_to(polled);
  if (name_watch_) polled.push_back({.fd = set_->poll_fd(), .events = POLLIN, .revents = 0});
}

bool FilteredProcesses::is_system_wide() const { return pids_.empty() && filter().flags == 0; }

std::vector<pid_t> FilteredProcesses::known_pids() const {
  std::optional<std::vector<pid_t>> now;
  if (!pids_.empty()) intersect(now, pids_);
  if (set_) intersect(now, set_->members());
  if (user_) intersect(now, process::find_user_processes(*user_));
  if (group_) intersect(now, group_->processes());
  std::vector<pid_t> all = now.value_or(std::vector<pid_t>());
  for (const pid_t pid : initial_pids_)
    if (std::ranges::find(all, pid) == all.end()) all.push_back(pid);
  return all;
}

bool FilteredProcesses::excludes_children() const {
  return !filter_->follow && !user_ && !group_ && (!pids_.empty() || set_);
}

std::string FilteredProcesses::explain_no_process() const {
  if (set_ && !filter_->names.empty())
    return fmt::format("no process named {} is running", alternatives(filter_->names, "'"));
  if (*app_package_ && !filter_->all)
    return fmt::format("no process of {} is running", **app_package_);
  if (group_) return fmt::format("no such process is running in {}", group_->path());
  if (user_) return fmt::format("no such process of user {} is running", *user_);
  return "no target process is running";
}

} // namespace uprobectl::trace
