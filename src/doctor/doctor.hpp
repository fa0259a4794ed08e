// SPDX-License-Identifier: Apache-2.0
// What this kernel and this user can do, and what to change where they cannot: the facts read from
// the system, and what follows from them. Nothing is attached to find out.
#pragma once

#include "probe/probe.hpp"

namespace uprobectl {

// What the files of a running system say. Nothing where a file is missing or may not be read.
struct SystemFacts {
  std::string kernel_release;     // uname -r
  std::string machine;            // uname -m
  bool is_root = false;           // effective user id 0
  bool in_user_namespace = false; // not the initial one: its capabilities do not count
  bool has_seccomp_filter = false;
  bool has_proc = true;          // /proc is mounted
  bool has_possible_cpus = true; // sysfs tells how many there may be, which per-CPU maps need
  std::optional<std::uint64_t> capabilities; // effective ones, bit numbers of linux/capability.h
  std::optional<std::int64_t> perf_event_paranoid;
  std::optional<std::int64_t> unprivileged_bpf_disabled;
  std::optional<std::string> lockdown;  // "none", "integrity", "confidentiality"
  std::optional<bool> selinux_enforces; // nothing: there is no SELinux
  std::optional<std::string> bpffs;     // where the first one is mounted
  std::optional<std::string> tracefs;
  bool kernel_btf = false;
  bool uprobe_events_writable = false;        // of the tracefs
  std::optional<std::uint64_t> memlock_limit; // bytes; nothing: unlimited

  struct Android {
    std::string build_type;  // "user", "userdebug", "eng"
    std::string perf_harden; // security.perf_harden
    bool has_uprobestats = false;
    std::size_t uprobestats_pins = 0;
  };
  std::optional<Android> android; // nothing on other systems
};

// Reads files below a root folder, which is empty for the running system; Android's properties
// through /system/bin/getprop.
SystemFacts read_system_facts(const std::string& root = "");

struct Check {
  std::string name;
  bool ok = false;
  std::string reason;             // the fact
  std::optional<std::string> fix; // what to type; nothing where all is well
};

// The facts one by one, then each subcommand: whether it works here, and what to do where not.
std::vector<Check> check_system(const SystemFacts& facts, const Result<KernelFeatures>& features);

} // namespace uprobectl
