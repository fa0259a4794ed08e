// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include "bpf/load_error.hpp"
#include "bpf/tracefs.hpp"
#include "process/command.hpp"
#include "process/proc.hpp"
#include "uprobectl/arch.hpp"
#include "util/inflate.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace uprobectl::doctor {

namespace {

template <typename T>
std::optional<T> number_in(const std::optional<std::string>& text, int base = 10) {
  return text ? parse_number<T>(trimmed(first_line(*text), " \t"), base) : std::nullopt;
}

// The value of "Name:\tvalue" in /proc/self/status.
std::optional<std::string> status_field(const std::optional<std::string>& status,
                                        std::string_view name) {
  if (!status) return std::nullopt;
  const auto at = status->find("\n" + std::string(name) + ":");
  if (at == std::string::npos) return std::nullopt;
  const auto start = at + name.size() + 2;
  return status->substr(start, status->find('\n', start) - start);
}

// Returns the word in brackets, which is the selected one: "none [integrity] confidentiality".
std::optional<std::string> selected_word(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto open = text->find('[');
  const auto close = text->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  return text->substr(open + 1, close - open - 1);
}

// The first mount point of a file system type: "DEVICE POINT TYPE OPTIONS 0 0" (proc.rst).
std::optional<std::string> find_mount_point(const std::optional<std::string>& mounts,
                                            std::string_view type) {
  std::string_view rest = mounts ? std::string_view(*mounts) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    const auto point = line.find(' ');
    const auto kind = point == std::string_view::npos ? point : line.find(' ', point + 1);
    if (kind == std::string_view::npos) continue;
    if (line.substr(kind + 1).substr(0, line.find(' ', kind + 1) - kind - 1) == type)
      return std::string(line.substr(point + 1, kind - point - 1));
  }
  return std::nullopt;
}

// Reads "NAME=y" and "NAME=m" of the configuration that the kernel has in itself
// (CONFIG_IKCONFIG_PROC).
std::optional<std::set<std::string, std::less<>>> read_kernel_config(const std::string& path) {
  constexpr std::uint64_t max_size = 16U << 20;
  const auto compressed = process::try_read_pseudo_file(path);
  if (!compressed) return std::nullopt;
  const auto text = gunzip(std::as_bytes(std::span(*compressed)), max_size);
  if (!text) return std::nullopt;
  std::set<std::string, std::less<>> names;
  std::string_view rest(reinterpret_cast<const char*>(text->data()), text->size());
  while (!rest.empty())
    if (const std::string_view line = take_line(rest); line.ends_with("=y") || line.ends_with("=m"))
      names.emplace(line.substr(0, line.size() - 2));
  return names;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::size_t count_entries(const std::string& folder) {
  std::error_code failure;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    ++count;
  return count;
}

// Linux include/linux/proc_ns.h: PROC_USER_INIT_INO, 0xEFFFFFFD. Returns false if it is unknown.
bool is_in_user_namespace(const std::string& root) {
  const auto name = read_link(root + "/proc/self/ns/user");
  return name && *name != "user:[4026531837]";
}

// Returns an empty string if the property is not set or this is not Android.
std::string android_property(const std::string& name) {
  constexpr std::chrono::seconds timeout{5};
  auto result = process::run_android_command({"getprop", name}, timeout);
  if (!result || result->exit_code != 0) return {};
  while (result->output.ends_with('\n')) result->output.pop_back();
  return std::move(result->output);
}

constexpr std::string_view mount_sysfs = "mount -t sysfs sysfs /sys";
constexpr std::string_view needs_other_kernel =
    "needs another kernel version or kernel configuration";

constexpr std::uint64_t enough_memory = 64U << 20;
// Less does not suffice for the programs and tables of a small run.
constexpr std::uint64_t least_memory = 1U << 20;
constexpr std::string_view raise_memlock =
    "ulimit -l unlimited as root, systemd: LimitMEMLOCK=infinity; or CAP_SYS_RESOURCE";

class SystemChecks {
public:
  SystemChecks(const SystemFacts& facts, const Result<bpf::KernelFeatures>& features)
      : facts_(facts), features_(features) {}

  std::vector<Check> run() && {
    kernel();
    kernel_config();
    programs();
    user();
    mounts();
    if (facts_.android) android(*facts_.android);
    subcommands();
    return std::move(checks_);
  }

private:
  void add(std::string_view name, bool ok, std::string reason, std::string_view fix = {}) {
    checks_.push_back(
        {.name = std::string(name), .ok = ok, .reason = std::move(reason), .fix = {}});
    if (!ok && !fix.empty()) checks_.back().fix = fix;
  }

  bool has(unsigned capability) const {
    if (facts_.in_user_namespace) return false;
    if (!facts_.capabilities) return facts_.is_root;
    return (*facts_.capabilities >> capability & 1) != 0;
  }
  // CAP_SYS_ADMIN includes the capabilities that were split off it (capabilities(7)).
  bool may_load() const { return has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON)); }

  // The fix if the kernel denies a permission to this user.
  std::string permission_fix(bool system_wide = false) const {
    const std::string_view needed = system_wide ? "CAP_SYS_ADMIN" : "CAP_BPF and CAP_PERFMON";
    const bool enough = system_wide ? has(CAP_SYS_ADMIN) : may_load();
    if (facts_.in_user_namespace)
      return "run it as root of the machine, outside of the user namespace (unshare --user, rootless "
             "container)";
    if (enough && facts_.lockdown == "confidentiality")
      return "boot without lockdown=confidentiality";
    if (enough && facts_.has_seccomp_filter)
      return "start it without the seccomp filter, for containers: --security-opt seccomp=unconfined";
    if (enough) return std::string(needs_other_kernel);
    if (!facts_.is_root && facts_.android)
      return "run as root: --adb-root on userdebug and eng builds, or su";
    if (!facts_.is_root)
      return system_wide ? "run as root"
                         : "run as root, or: setcap cap_bpf,cap_perfmon+ep uprobectl";
    return fmt::format("give it {}, for containers: {}", needed,
                       system_wide
                           ? "--cap-add SYS_ADMIN"
                           : "--cap-add BPF --cap-add PERFMON (before Linux 5.8: SYS_ADMIN)");
  }

  // The error with its likely cause.
  std::string explain(const Error& error) const {
    if (error.kind != ErrorKind::not_permitted && !facts_.has_seccomp_filter) return error.message;
    if (facts_.in_user_namespace)
      return error.message + ": BPF ignores capabilities of a user namespace";
    if (!may_load())
      return facts_.is_root ? error.message + ": root without CAP_BPF and CAP_PERFMON"
                            : error.message;
    if (facts_.has_seccomp_filter) return error.message + ": a seccomp filter is in force";
    return error.message;
  }

  std::string_view user_name() const {
    if (facts_.in_user_namespace)
      return facts_.is_root ? "root of a user namespace, whose capabilities BPF ignores"
                            : "in a user namespace, whose capabilities BPF ignores";
    if (may_load() && facts_.is_root) return "root";
    if (has(CAP_SYS_ADMIN)) return "CAP_SYS_ADMIN";
    if (may_load()) return "CAP_BPF and CAP_PERFMON";
    return facts_.is_root ? "root without CAP_BPF and CAP_PERFMON"
                          : "neither root nor CAP_BPF and CAP_PERFMON";
  }

  void kernel() {
    const bool known = arch_from_kernel(facts_.machine) != nullptr;
    add("kernel", known, fmt::format("Linux {}, {}", facts_.kernel_release, facts_.machine),
        fmt::format("attach needs a machine of {}; resolve works for files of any architecture",
                    kernel_names()));
  }

  // Checks the options of the kernel that probes need, and those that add features.
  void kernel_config() {
    const auto& config = facts_.kernel_config;
    if (!config) return;
    const auto missing = [&](std::initializer_list<std::string_view> names) {
      std::string list;
      for (const std::string_view name : names)
        if (!config->contains(name)) list.append(list.empty() ? "" : ", ").append(name);
      return list;
    };
    const std::string needed =
        missing({"CONFIG_UPROBES", "CONFIG_UPROBE_EVENTS", "CONFIG_PERF_EVENTS",
                 "CONFIG_BPF_SYSCALL", "CONFIG_BPF_EVENTS"});
    const std::string useful = missing({"CONFIG_DEBUG_INFO_BTF", "CONFIG_BPF_JIT"});
    add("kernel_config", needed.empty(),
        (needed.empty() ? "has what probes need" : "not set: " + needed) +
            (useful.empty() ? "" : "; without " + useful),
        "a kernel with " + needed);
  }

  void programs() {
    if (!features_) {
      add("bpf", false, explain(features_.error()), suggest_fix(features_.error()));
      return;
    }
    add("bpf", true, "programs for probes can be loaded");
    const bpf::KernelFeatures& features = *features_;
    if (!features.sysfs) add("sysfs", false, "/sys is not mounted", mount_sysfs);
    // Adds a feature that is found through /sys.
    const auto described = [&](std::string_view name, bool there, std::string_view what) {
      if (there || features.sysfs)
        add(name, there, fmt::format("{}{}", there ? "" : "missing: ", what), needs_other_kernel);
      else
        add(name, false, fmt::format("not known without /sys: {}", what), mount_sysfs);
    };
    const auto feature = [&](std::string_view name, bool there, std::string_view what) {
      add(name, there, fmt::format("{}{}", there ? "" : "missing: ", what), needs_other_kernel);
    };
    feature("uprobe_multi", features.uprobe_multi,
            "one link for many probes (Linux 6.6), fast to detach");
    feature("multi_pid_filter", features.multi_pid_filter,
            "uprobe_multi probes of one process (Linux 6.10)");
    feature("uprobe_session", features.uprobe_session,
            "one program at entry and return (Linux 6.13)");
    described("perf_uprobe", features.perf_uprobe, "probes as perf events (Linux 4.17)");
    feature("perf_link", features.perf_link,
            "BPF links on perf events, with a cookie (Linux 5.15)");
    feature("attach_cookie", features.attach_cookie,
            "cookies for programs (Linux 5.15); without them each probe has a copy of its program");
    described("semaphores", features.uprobe_multi || features.semaphores,
              "semaphores of static probes (Linux 4.20)");
    feature("ring_buffer", features.ring_buffer, "BPF ring buffers (Linux 5.8)");
    if (features.sleepable)
      feature("sleepable", *features.sleepable,
              "programs that wait for memory that is not resident (Linux 6.0)");
    if (!features.perf_buffer || features.perf_buffer_permitted)
      feature("perf_buffer", features.perf_buffer, "perf event arrays (Linux 4.4)");
    else
      add("perf_buffer", false, "this user may not open perf event arrays (Linux 4.4)",
          permission_fix(true));
    described("kernel_btf", facts_.kernel_btf,
              "types of the kernel (BTF), for programs that read kernel data");
    mechanisms(features);
    if (features.perf_uprobe)
      add("perf_event_open", features.perf_permitted,
          fmt::format("this user may {}open uprobe perf events",
                      features.perf_permitted ? "" : "not "),
          permission_fix(true) +
              (has(CAP_SYS_ADMIN) ? "" : ": kernels since July 2025 require it (CVE-2025-38466)"));
  }

  // Checks each value of --mechanism as attach does.
  void mechanisms(const bpf::KernelFeatures& features) {
    for (const probe::Mechanism mechanism :
         {probe::Mechanism::multi, probe::Mechanism::perf, probe::Mechanism::perf_ioctl,
          probe::Mechanism::tracefs}) {
      const std::string name = fmt::format("mechanism_{}", to_string(mechanism));
      if (const auto usable = choose_mechanism(mechanism, features, {}))
        add(name, true, fmt::format("attach --mechanism {} works", to_string(mechanism)));
      else
        add(name, false, usable.error().message, suggest_fix(usable.error()));
    }
  }

  // The fix for an error of the bpf and probe modules.
  std::string suggest_fix(const Error& error) const {
    if (error.kind == ErrorKind::not_permitted || (!features_ && facts_.has_seccomp_filter))
      return permission_fix(features_.has_value());
    // A missing mount can be added, a missing kernel feature cannot.
    if (!error.hints.empty() && (error.hints.front().starts_with("mount ") || !features_))
      return error.hints.front();
    return std::string(needs_other_kernel);
  }

  void user() {
    add("capabilities", may_load(), std::string(user_name()), permission_fix());
    if (facts_.unprivileged_bpf_disabled)
      add("unprivileged_bpf_disabled", true,
          fmt::format("{}: unprivileged users may {}load BPF programs, but none for probes",
                      *facts_.unprivileged_bpf_disabled,
                      *facts_.unprivileged_bpf_disabled == 0 ? "" : "not "));
    if (facts_.perf_event_paranoid)
      add("perf_event_paranoid", true,
          fmt::format("{}: {}", *facts_.perf_event_paranoid,
                      *facts_.perf_event_paranoid > 2
                          ? "kernels of Debian and Android then require CAP_SYS_ADMIN for perf "
                            "events and perf buffers"
                          : "does not affect probes"));
    if (facts_.lockdown)
      add("lockdown", *facts_.lockdown != "confidentiality", *facts_.lockdown,
          "boot without lockdown=confidentiality: it disables tracefs and hides kernel memory");
    if (facts_.selinux_enforces)
      add("selinux", !*facts_.selinux_enforces || features_.has_value(),
          *facts_.selinux_enforces ? "enforcing" : "permissive",
          "setenforce 0, if this build permits it");
    memlock();
  }

  void memlock() {
    if (!facts_.memlock_limit) return add("memlock", true, "BPF memory is not limited by it");
    const bool is_enough = *facts_.memlock_limit >= enough_memory;
    add("memlock", is_enough,
        fmt::format("{} bytes for BPF, which Linux before 5.11 counts as locked memory: {}",
                    *facts_.memlock_limit,
                    is_enough ? "enough for most runs" : "buffers are smaller"),
        raise_memlock);
  }

  void mounts() {
    const std::string first = features_ && !features_->sysfs ? std::string(mount_sysfs) + "; " : "";
    add("bpffs", facts_.bpffs.has_value(), facts_.bpffs.value_or("no bpf file system is mounted"),
        first + "mount -t bpf bpf /sys/fs/bpf");
    add("tracefs", facts_.tracefs.has_value(), facts_.tracefs.value_or("no tracefs is mounted"),
        first + "mount -t tracefs tracefs /sys/kernel/tracing");
    if (facts_.tracefs)
      add("uprobe_events", facts_.uprobe_events_writable,
          facts_.uprobe_events_writable
              ? "can be written"
              : fmt::format("{}/uprobe_events is missing or not writable", *facts_.tracefs),
          permission_fix(true));
    if (facts_.tracefs)
      add("tracing_on", !facts_.tracing_off,
          facts_.tracing_off ? "0, as after a kernel oops: bpf_printk prints nothing"
                             : "bpf_printk is not switched off",
          fmt::format("echo 1 >{}/tracing_on", *facts_.tracefs));
  }

  void android(const SystemFacts::Android& android) {
    const bool is_rooted = android.build_type == "user" && may_load();
    add("android_build", android.build_type != "user" || is_rooted,
        android.build_type + (is_rooted ? ", with root"
                              : android.build_type == "user"
                                  ? ", without root: files can be read (resolve, list-symbols, "
                                    "symbolize), nothing can be attached"
                              : may_load() ? ""
                                           : ": root is there with adb root"),
        "probing needs root: a userdebug or eng build (adb root), or a rooted user build");
    add("perf_harden", android.perf_harden != "1",
        android.perf_harden.empty() ? "not set" : android.perf_harden,
        "setprop security.perf_harden 0");
    add("uprobestats", true,
        !android.has_uprobestats
            ? std::string("the module is not installed")
            : fmt::format("the module is installed, with {} pins", android.uprobestats_pins));
  }

  void subcommands() {
    add("resolve", true, "needs nothing but the file");
    add("list-symbols", true, "needs nothing but the file");
    if (!features_) {
      add(attach_check, false, explain(features_.error()), suggest_fix(features_.error()));
      return;
    }
    const auto mechanism = probe::choose_mechanism(std::nullopt, *features_, {});
    const auto buffer = choose_buffer(std::nullopt, *features_);
    if (!facts_.has_proc)
      add(attach_check, false, "/proc is not mounted", "mount -t proc proc /proc");
    else if (!facts_.has_possible_cpus)
      add(attach_check, false, bpf::unknown_cpu_count().message,
          suggest_fix(bpf::unknown_cpu_count()));
    else if (facts_.memlock_limit && *facts_.memlock_limit < least_memory)
      add(attach_check, false, "BPF memory is limited by RLIMIT_MEMLOCK", raise_memlock);
    else if (!mechanism)
      add(attach_check, false, mechanism.error().message, suggest_fix(mechanism.error()));
    else if (!buffer)
      add(attach_check, false, buffer.error().message, suggest_fix(buffer.error()));
    else
      add(attach_check, true,
          fmt::format("through {}, events through a {} buffer", to_string(*mechanism),
                      to_string(*buffer)));
  }

  const SystemFacts& facts_;
  const Result<bpf::KernelFeatures>& features_;
  std::vector<Check> checks_;
};

} // namespace

SystemFacts read_system_facts(const std::string& root) {
  SystemFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.kernel_release = names.release;
    facts.machine = names.machine;
  }
  facts.is_root = ::geteuid() == 0;
  facts.in_user_namespace = is_in_user_namespace(root);
  facts.has_proc = exists(root + "/proc/self/status");
  facts.has_possible_cpus = exists(root + "/sys/devices/system/cpu/possible");
  const auto status = process::try_read_pseudo_file(root + "/proc/self/status");
  facts.capabilities = number_in<std::uint64_t>(status_field(status, "CapEff"), 16);
  facts.has_seccomp_filter = number_in<int>(status_field(status, "Seccomp")) == 2; // proc(5)
  facts.perf_event_paranoid = number_in<std::int64_t>(
      process::try_read_pseudo_file(root + "/proc/sys/kernel/perf_event_paranoid"));
  facts.unprivileged_bpf_disabled = number_in<std::int64_t>(
      process::try_read_pseudo_file(root + "/proc/sys/kernel/unprivileged_bpf_disabled"));
  facts.lockdown =
      selected_word(process::try_read_pseudo_file(root + "/sys/kernel/security/lockdown"));
  if (const auto enforces =
          number_in<int>(process::try_read_pseudo_file(root + "/sys/fs/selinux/enforce")))
    facts.selinux_enforces = *enforces != 0;
  const auto mounts = process::try_read_pseudo_file(root + "/proc/self/mounts");
  facts.bpffs = find_mount_point(mounts, "bpf");
  facts.tracefs = find_mount_point(mounts, "tracefs");
  facts.kernel_btf = exists(root + "/sys/kernel/btf/vmlinux");
  facts.kernel_config = read_kernel_config(root + "/proc/config.gz");
  facts.uprobe_events_writable =
      facts.tracefs && ::access((root + *facts.tracefs + "/uprobe_events").c_str(), W_OK) == 0;
  facts.tracing_off = facts.tracefs && bpf::is_switched_off(root + *facts.tracefs + "/tracing_on");
  facts.memlock_limit = bpf::bpf_memory_limit();
  if (const std::string type = android_property("ro.build.type"); !type.empty())
    facts.android = {.build_type = type,
                     .perf_harden = android_property("security.perf_harden"),
                     .has_uprobestats = exists(root + "/apex/com.android.uprobestats"),
                     .uprobestats_pins = count_entries(root + "/sys/fs/bpf/uprobestats")};
  return facts;
}

std::vector<Check> check_system(const SystemFacts& facts,
                                const Result<bpf::KernelFeatures>& features) {
  return SystemChecks(facts, features).run();
}

} // namespace uprobectl::doctor
