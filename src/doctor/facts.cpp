#include "doctor/doctor.hpp"

#include "process/command.hpp"
#include "process/proc.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <filesystem>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace uprobectl {

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

// "none [integrity] confidentiality": the one in brackets holds.
std::optional<std::string> chosen_word(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto open = text->find('[');
  const auto close = text->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  return text->substr(open + 1, close - open - 1);
}

// The first mount point of a file system type: "DEVICE POINT TYPE OPTIONS 0 0" (proc.rst).
std::optional<std::string> mount_of(const std::optional<std::string>& mounts,
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

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::size_t count_entries(const std::string& folder) {
  std::error_code failure;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    ++count;
  return count;
}

// Linux include/linux/proc_ns.h: PROC_USER_INIT_INO, 0xEFFFFFFD. False where it is not told.
bool is_in_user_namespace(const std::string& root) {
  char text[64] = {};
  const auto length = ::readlink((root + "/proc/self/ns/user").c_str(), text, sizeof(text));
  return length > 0 &&
         std::string_view(text, static_cast<std::size_t>(length)) != "user:[4026531837]";
}

// Empty where it is not set, or this is not Android.
std::string android_property(const std::string& name) {
  constexpr std::chrono::seconds patience{5};
  auto result = run_android_command({"getprop", name}, patience);
  if (!result || result->exit_code != 0) return {};
  while (result->output.ends_with('\n')) result->output.pop_back();
  return std::move(result->output);
}

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
  facts.knows_processors = exists(root + "/sys/devices/system/cpu/possible");
  const auto status = pseudo_file_text(root + "/proc/self/status");
  facts.capabilities = number_in<std::uint64_t>(status_field(status, "CapEff"), 16);
  facts.has_seccomp_filter = number_in<int>(status_field(status, "Seccomp")) == 2; // proc(5)
  facts.perf_event_paranoid =
      number_in<std::int64_t>(pseudo_file_text(root + "/proc/sys/kernel/perf_event_paranoid"));
  facts.unprivileged_bpf_disabled = number_in<std::int64_t>(
      pseudo_file_text(root + "/proc/sys/kernel/unprivileged_bpf_disabled"));
  facts.lockdown = chosen_word(pseudo_file_text(root + "/sys/kernel/security/lockdown"));
  if (const auto enforces = number_in<int>(pseudo_file_text(root + "/sys/fs/selinux/enforce")))
    facts.selinux_enforces = *enforces != 0;
  const auto mounts = pseudo_file_text(root + "/proc/self/mounts");
  facts.bpffs = mount_of(mounts, "bpf");
  facts.tracefs = mount_of(mounts, "tracefs");
  facts.kernel_btf = exists(root + "/sys/kernel/btf/vmlinux");
  facts.uprobe_events_writable =
      facts.tracefs && ::access((root + *facts.tracefs + "/uprobe_events").c_str(), W_OK) == 0;
  rlimit memlock{};
  if (::getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur != RLIM_INFINITY)
    facts.memlock_limit = memlock.rlim_cur;
  if (const std::string type = android_property("ro.build.type"); !type.empty())
    facts.android = {.build_type = type,
                     .perf_harden = android_property("security.perf_harden"),
                     .has_uprobestats = exists(root + "/apex/com.android.uprobestats"),
                     .uprobestats_pins = count_entries(root + "/sys/fs/bpf/uprobestats")};
  return facts;
}

} // namespace uprobectl
