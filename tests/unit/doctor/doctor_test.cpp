// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"
#include "util/inflate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace uprobectl::doctor {

namespace {

SystemFacts root_on_linux() {
  SystemFacts facts;
  facts.kernel_release = "6.12.1";
  facts.machine = "x86_64";
  facts.is_root = true;
  facts.capabilities = 0x1ffffffffff;
  facts.bpffs = "/sys/fs/bpf";
  facts.tracefs = "/sys/kernel/tracing";
  facts.uprobe_events_writable = true;
  return facts;
}

bpf::KernelFeatures everything() {
  return {.uprobe_multi = true,
          .multi_pid_filter = true,
          .uprobe_session = true,
          .perf_uprobe = true,
          .perf_permitted = true,
          .perf_link = true,
          .attach_cookie = true,
          .tracefs_uprobe = true,
          .tracefs_permitted = true,
          .ring_buffer = true,
          .perf_buffer = true,
          .perf_buffer_permitted = true};
}

Check check_of(const std::vector<Check>& checks, std::string_view name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  REQUIRE(found != checks.end());
  return *found;
}

// A folder with files in it, gone at the end.
class Tree {
public:
  Tree() {
    std::string pattern = "/tmp/uprobectl-doctor-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { std::filesystem::remove_all(root_); }

  void put(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

private:
  std::string root_;
};

} // namespace

TEST_CASE("doctor: a kernel with all features needs no fix") {
  for (const Check& check : check_system(root_on_linux(), everything())) {
    if (check.name == "kernel_btf") continue;
    INFO(check.name);
    CHECK(check.ok);
    CHECK(!check.fix);
  }
}

TEST_CASE("doctor: tracing that an oops has switched off is named with what switches it on") {
  const Tree tree;
  tree.put("/proc/self/mounts", "tracefs /tracing tracefs rw 0 0\n");
  const auto examine = [&] {
    return check_of(check_system(read_system_facts(tree.root()), everything()), "tracing_on");
  };
  tree.put("/tracing/tracing_on", "1\n");
  CHECK(examine().ok);
  tree.put("/tracing/tracing_on", "0\n");
  const Check check = examine();
  CHECK(!check.ok);
  CHECK(check.fix == "echo 1 >/tracing/tracing_on");
}

TEST_CASE("doctor: settings that the kernel's own configuration lacks are named") {
  const Tree tree;
  const auto packed =
      gzip("CONFIG_UPROBES=y\nCONFIG_UPROBE_EVENTS=y\nCONFIG_PERF_EVENTS=y\n"
           "CONFIG_BPF_SYSCALL=y\n# CONFIG_BPF_EVENTS is not set\nCONFIG_BPF_JIT=y\n");
  REQUIRE(packed);
  tree.put("/proc/config.gz", *packed);
  const Check check =
      check_of(check_system(read_system_facts(tree.root()), everything()), "kernel_config");
  CHECK(!check.ok);
  CHECK(check.reason == "not set: CONFIG_BPF_EVENTS; without CONFIG_DEBUG_INFO_BTF");
  CHECK(check.fix == "a kernel with CONFIG_BPF_EVENTS");
}

TEST_CASE("doctor: without capabilities attach is refused with a fix") {
  SystemFacts facts = root_on_linux();
  facts.is_root = false;
  facts.capabilities = 0;
  const auto checks = check_system(
      facts, fail(Error{ErrorKind::not_permitted, "cannot load"}.hint("needs CAP_BPF")));
  CHECK(!check_of(checks, "capabilities").ok);
  const Check attach = check_of(checks, "attach");
  CHECK(!attach.ok);
  CHECK(attach.fix == "run as root, or: setcap cap_bpf,cap_perfmon+ep uprobectl");
  facts.android = {.build_type = "userdebug", .perf_harden = {}};
  CHECK(
      check_of(check_system(facts, fail(Error{ErrorKind::not_permitted, "cannot load"})), "attach")
          .fix == "run as root: --adb-root on userdebug and eng builds, or su");
  CHECK(check_of(checks, "resolve").ok);
}

TEST_CASE("doctor: reasons why root cannot attach are distinguished") {
  const auto refused = [](const SystemFacts& facts) {
    return check_system(facts, fail(Error{ErrorKind::not_permitted, "cannot load"}.hint(
                                   "needs CAP_BPF and CAP_PERFMON, or root")));
  };
  SystemFacts facts = root_on_linux();
  facts.in_user_namespace = true;
  Check attach = check_of(refused(facts), "attach");
  CHECK(!attach.ok);
  CHECK(attach.reason == "cannot load: BPF ignores capabilities of a user namespace");
  CHECK_THAT(attach.fix.value_or(""), Catch::Contains("outside of the user namespace"));
  const Check capabilities = check_of(refused(facts), "capabilities");
  CHECK(!capabilities.ok);
  CHECK(capabilities.reason == "root of a user namespace, whose capabilities BPF ignores");

  facts = root_on_linux();
  facts.capabilities = 0;
  attach = check_of(refused(facts), "attach");
  CHECK(attach.reason == "cannot load: root without CAP_BPF and CAP_PERFMON");
  CHECK(attach.fix == "give it CAP_BPF and CAP_PERFMON, for containers: --cap-add BPF --cap-add "
                      "PERFMON (before Linux 5.8: SYS_ADMIN)");
  for (const Check& check : refused(facts)) {
    INFO(check.name);
    CHECK(check.fix.value_or("").find("root") == std::string::npos); // it is root
  }

  facts = root_on_linux();
  facts.has_seccomp_filter = true;
  attach = check_of(refused(facts), "attach");
  CHECK(attach.reason == "cannot load: a seccomp filter is in force");
  CHECK_THAT(attach.fix.value_or(""), Catch::Contains("seccomp=unconfined"));

  facts = root_on_linux();
  facts.lockdown = "confidentiality";
  attach = check_of(refused(facts), "attach");
  CHECK(attach.fix == "boot without lockdown=confidentiality");
}

TEST_CASE("doctor: a user namespace and a seccomp filter are read from /proc") {
  const Tree tree;
  tree.put("/proc/self/status", "Name:\tx\nSeccomp:\t2\nCapEff:\t000001ffffffffff\n");
  tree.put("/proc/self/ns/.keep", "");
  const std::string link = tree.root() + "/proc/self/ns/user";
  std::filesystem::create_symlink("user:[4026532001]", link);
  SystemFacts facts = read_system_facts(tree.root());
  CHECK(facts.in_user_namespace);
  CHECK(facts.has_seccomp_filter);
  std::filesystem::remove(link);
  std::filesystem::create_symlink("user:[4026531837]", link); // PROC_USER_INIT_INO
  tree.put("/proc/self/status", "Name:\tx\nSeccomp:\t0\n");
  facts = read_system_facts(tree.root());
  CHECK_FALSE(facts.in_user_namespace);
  CHECK_FALSE(facts.has_seccomp_filter);
}

TEST_CASE("doctor: CAP_BPF and CAP_PERFMON do where the kernel has uprobe_multi, and only there") {
  SystemFacts facts = root_on_linux();
  facts.is_root = false;
  facts.capabilities = (1ULL << 38) | (1ULL << 39); // linux/capability.h
  bpf::KernelFeatures features = everything();
  features.perf_permitted = false;
  CHECK(check_of(check_system(facts, features), "capabilities").reason ==
        "CAP_BPF and CAP_PERFMON");
  CHECK(check_of(check_system(facts, features), "attach").ok);
  features.uprobe_multi = false;
  features.tracefs_permitted = false;
  const Check attach = check_of(check_system(facts, features), "attach");
  CHECK(!attach.ok);
  CHECK(attach.fix == "run as root");
}

TEST_CASE("doctor: mechanisms agree with the choice of attach") {
  bpf::KernelFeatures features = everything();
  features.uprobe_multi = false;
  features.perf_permitted = false;
  const auto checks = check_system(root_on_linux(), features);
  CHECK(!check_of(checks, "mechanism_multi").ok);
  CHECK_THAT(check_of(checks, "mechanism_multi").fix.value_or(""),
             Catch::StartsWith("needs another kernel"));
  // It is root, with all capabilities.
  CHECK_THAT(check_of(checks, "mechanism_perf").fix.value_or(""),
             Catch::StartsWith("needs another kernel"));
  CHECK(check_of(checks, "mechanism_tracefs").ok);
  CHECK(check_of(checks, "attach").reason == "through tracefs, events through a ring buffer");
  features.tracefs_uprobe = false;
  CHECK(check_of(check_system(root_on_linux(), features), "mechanism_tracefs").fix ==
        "mount -t tracefs tracefs /sys/kernel/tracing");
}

TEST_CASE("doctor: missing kernel features are not reported as missing capabilities") {
  bpf::KernelFeatures features = everything();
  features.ring_buffer = false;
  CHECK(check_of(check_system(root_on_linux(), features), "attach").ok);
  features.perf_buffer = false;
  features.perf_buffer_permitted = false;
  const Check attach = check_of(check_system(root_on_linux(), features), "attach");
  CHECK(!attach.ok);
  CHECK_THAT(attach.fix.value_or(""), Catch::StartsWith("needs another kernel"));
}

TEST_CASE("doctor: without /sys the mount is missing, not the kernel's version") {
  bpf::KernelFeatures features = everything();
  features.sysfs = false;
  features.perf_uprobe = features.perf_permitted = features.semaphores = false;
  features.uprobe_multi = false;
  SystemFacts facts = root_on_linux();
  facts.bpffs.reset();
  facts.tracefs.reset();
  const auto checks = check_system(facts, features);
  CHECK(check_of(checks, "sysfs").reason == "/sys is not mounted");
  for (const std::string_view name : {"sysfs", "perf_uprobe", "semaphores", "kernel_btf",
                                      "mechanism_perf", "mechanism_perf-ioctl"}) {
    CAPTURE(name);
    CHECK(check_of(checks, name).fix == "mount -t sysfs sysfs /sys");
  }
  CHECK(check_of(checks, "bpffs").fix == "mount -t sysfs sysfs /sys; mount -t bpf bpf /sys/fs/bpf");
}

TEST_CASE("doctor: sleepable programs are reported if they were tried") {
  bpf::KernelFeatures features = everything();
  const auto names_it = [](const Check& check) { return check.name == "sleepable"; };
  CHECK(std::ranges::none_of(check_system(root_on_linux(), features), names_it));
  features.sleepable = true;
  CHECK(check_of(check_system(root_on_linux(), features), "sleepable").ok);
  features.sleepable = false;
  const auto checks = check_system(root_on_linux(), features);
  CHECK_FALSE(check_of(checks, "sleepable").ok);
  CHECK(check_of(checks, "attach").ok);
}

TEST_CASE("doctor: a limit of BPF memory is reported where the kernel has one") {
  SystemFacts facts = root_on_linux();
  const bpf::KernelFeatures features = everything();
  CHECK(check_of(check_system(facts, features), "memlock").ok);
  facts.memlock_limit = 8U << 20;
  auto checks = check_system(facts, features);
  CHECK_FALSE(check_of(checks, "memlock").ok);
  CHECK(check_of(checks, "attach").ok);
  facts.memlock_limit = 64U << 10;
  checks = check_system(facts, features);
  CHECK_FALSE(check_of(checks, "attach").ok);
  CHECK(check_of(checks, "attach").reason == "BPF memory is limited by RLIMIT_MEMLOCK");
}

TEST_CASE("doctor: Android's build type and hardening are reported on Android only") {
  SystemFacts facts = root_on_linux();
  const auto names_it = [](const Check& check) { return check.name == "android_build"; };
  CHECK(std::ranges::none_of(check_system(facts, everything()), names_it));
  facts.android = {
      .build_type = "user", .perf_harden = "1", .has_uprobestats = true, .uprobestats_pins = 3};
  CHECK(check_of(check_system(facts, everything()), "android_build").ok); // rooted
  facts.is_root = false;
  facts.capabilities = 0;
  const auto checks = check_system(facts, everything());
  CHECK(!check_of(checks, "android_build").ok);
  CHECK(check_of(checks, "perf_harden").fix == "setprop security.perf_harden 0");
  CHECK(check_of(checks, "uprobestats").reason == "the module is installed, with 3 pins");
}

TEST_CASE("the system's files are read as the kernel writes them") {
  const Tree tree;
  tree.put("/proc/self/status", "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000000c000000000\n");
  tree.put("/proc/sys/kernel/perf_event_paranoid", "-1\n");
  tree.put("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
  tree.put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  tree.put("/sys/fs/selinux/enforce", "1");
  tree.put("/proc/self/mounts", "proc /proc proc rw 0 0\nbpf /data/tracefs bpf rw 0 0\n"
                                "none /sys/kernel/tracing tracefs rw,nosuid 0 0\n");
  tree.put("/sys/kernel/tracing/uprobe_events", "");
  const SystemFacts facts = read_system_facts(tree.root());
  CHECK(facts.capabilities == 0xc000000000);
  CHECK(facts.perf_event_paranoid == -1);
  CHECK(facts.unprivileged_bpf_disabled == 2);
  CHECK(facts.lockdown == "integrity");
  CHECK(facts.selinux_enforces == true);
  CHECK(facts.bpffs == "/data/tracefs");
  CHECK(facts.tracefs == "/sys/kernel/tracing");
  CHECK(facts.uprobe_events_writable);
  CHECK(!facts.kernel_btf);
}

TEST_CASE("files that are missing or odd give no facts") {
  const Tree tree;
  tree.put("/proc/self/status", "CapEff:\n");
  tree.put("/proc/sys/kernel/perf_event_paranoid", "two\n");
  tree.put("/sys/kernel/security/lockdown", "] none [\n");
  tree.put("/proc/self/mounts", "x\nbpf /a\n\n");
  const SystemFacts facts = read_system_facts(tree.root());
  CHECK(!facts.capabilities);
  CHECK(!facts.perf_event_paranoid);
  CHECK(!facts.lockdown);
  CHECK(!facts.selinux_enforces);
  CHECK(!facts.bpffs);
  CHECK(!facts.tracefs);
}

} // namespace uprobectl::doctor
