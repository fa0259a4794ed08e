// SPDX-License-Identifier: Apache-2.0
// The checks of `uprobectl doctor`: what this kernel and this user support, and how to fix what
// they do not.
#pragma once

#include "probe/probe.hpp"

#include <set>

namespace uprobectl::doctor {

// Describes the running system. A member is nullopt if its file is missing or not readable.
struct SystemFacts {
  std::string kernel_release;     // uname -r
  std::string machine;            // uname -m
  bool is_root = false;           // effective user id 0
  bool in_user_namespace = false; // not the initial one: BPF ignores its capabilities
  bool has_seccomp_filter = false;
  bool has_proc = true;          // /proc is mounted
  bool has_possible_cpus = true; // sysfs has the number of possible CPUs, which per-CPU maps need
  std::optional<std::uint64_t> capabilities; // effective ones, bit numbers of linux/capability.h
  std::optional<std::int64_t> perf_event_paranoid;
  std::optional<std::int64_t> unprivileged_bpf_disabled;
  std::optional<std::string> lockdown;  // "none", "integrity", "confidentiality"
  std::optional<bool> selinux_enforces; // nullopt without SELinux
  std::optional<std::string> bpffs;     // mount point
  std::optional<std::string> tracefs;
  bool kernel_btf = false;
  // The settings of /proc/config.gz that are y or m: "CONFIG_UPROBES"; nullopt without the file.
  std::optional<std::set<std::string, std::less<>>> kernel_config;
  bool uprobe_events_writable = false;        // in `tracefs`
  bool tracing_off = false;                   // `tracing_on` in it is 0
  std::optional<std::uint64_t> memlock_limit; // bytes for BPF; nullopt: no limit

  struct Android {
    std::string build_type;  // "user", "userdebug", "eng"
    std::string perf_harden; // security.perf_harden
    bool has_uprobestats = false;
    std::size_t uprobestats_pins = 0;
  };
  std::optional<Android> android; // nullopt on other systems
};

// Reads it from files below `root`, which is empty for the running system, and Android's
// properties with /system/bin/getprop.
SystemFacts read_system_facts(const std::string& root = "");

// The name of the check whether probes can be attached.
constexpr std::string_view attach_check = "attach";

// The result of one check, also of those of list-symbols --check.
struct Check {
  std::string name;
  bool ok = false;
  std::string reason;                   // the fact that decided
  std::optional<std::string> fix;       // an instruction or a command; set only if the check failed
  std::optional<std::string> rule = {}; // list-symbols: what a file breaks, if it failed
};

// Checks one after the other, then whether each subcommand works.
std::vector<Check> check_system(const SystemFacts& facts,
                                const Result<bpf::KernelFeatures>& features);

} // namespace uprobectl::doctor
