// SPDX-License-Identifier: Apache-2.0
// Attaches probes by one mechanism, and detaches them. Files are passed to the kernel as open
// descriptors (/proc/self/fd/N), so a path that is replaced meanwhile does not matter. Kernel
// interfaces: Linux include/uapi/linux/bpf.h (BPF_LINK_CREATE), perf_event_open(2).
#pragma once

#include "bpf/bpf.hpp"

#include <functional>
#include <sys/types.h>

namespace uprobectl::probe {

// How the kernel attaches uprobes.
enum class Mechanism {
  // One uprobe_multi BPF link per file (Linux 6.6). Attaches and detaches fast.
  multi,
  // One uprobe_multi BPF link per file, for programs that run at entry and at return (Linux 6.13).
  session,
  // One perf event with a BPF link per probe (Linux 5.15). Detaching takes 0.04 to 0.5 s per probe.
  perf,
  // One perf event per probe without a link (Linux 4.17), for plain programs that this process
  // loaded.
  perf_ioctl,
  // Events of uprobe_events (Linux 3.5). Probes share one if their program can distinguish them.
  // Detaching 200 probes then takes 0.1 s, with perf 14 s.
  tracefs,
};
std::string_view to_string(Mechanism mechanism); // the value of --mechanism
// Whether programs get the cookie of a probe, by which they distinguish probes.
bool supports_cookies(Mechanism mechanism, const bpf::KernelFeatures& features);

// The kind of program that the mechanism needs.
bpf::ProgramKind program_kind(Mechanism mechanism);

// The requirements for the choice of a mechanism.
struct MechanismNeeds {
  bool filters_by_pid = false;
  bool main_thread_ended = false; // of a process that is filtered by pid
  std::size_t probes = 0;         // number of probes that could share an event of tracefs
  bool loaded_by_us = true;       // this process loads the program
  bool semaphores = false;        // static probes with semaphores, which the kernel must increment
  // The kind of a program that is loaded already or supports no other kind. nullopt if the program
  // will be loaded for the chosen mechanism.
  std::optional<bpf::ProgramKind> kind = {};
};

// Returns the requested mechanism, or the first in preference order that this kernel supports. For
// a session program, multi means session. Call it before loading programs. Errors: unsupported or
// not_permitted, with the reason.
Result<Mechanism> choose_mechanism(std::optional<Mechanism> requested,
                                   const bpf::KernelFeatures& features,
                                   const MechanismNeeds& needs);

// A location to probe and the program to run there.
struct ProbeSite {
  int file = -1; // open descriptor of the file, borrowed
  FileOffset offset;
  // Offset in the same file of a counter that the kernel increments in each probed process while
  // the probe is attached; nullopt if there is none.
  std::optional<FileOffset> semaphore = {};
  bool on_return = false; // ignored for session programs, which run at entry and return
  bpf::LoadedProgram program;
  std::uint64_t cookie = 0; // reaches the program through bpf_get_attach_cookie
  std::string label;        // names the site in errors
  std::size_t probe = 0;    // the caller's index of its probe
};

// Returns the number of perf events to attach the sites. Detaching each takes one or two RCU grace
// periods.
std::size_t count_perf_events(Mechanism mechanism, std::span<const ProbeSite> sites,
                              std::size_t processes);

struct ProbeDescriptors;

// Attached probes. The destructor detaches them.
class Attachment {
public:
  // Attaches all sites or none, to all processes or to those in `pids`, including their later
  // threads. With perf events, a pid may be that of any thread of the process that has not ended.
  // Rejects a program that was loaded for another mechanism, before the kernel sees it. Calls
  // `interrupted` between sites and returns an error of that kind if it is true.
  static Result<Attachment> attach(Mechanism mechanism, std::span<const ProbeSite> sites,
                                   std::span<const pid_t> pids,
                                   const std::function<bool()>& interrupted);

  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  std::size_t detach_steps() const; // number of calls of `progress` in detach()
  // Detaches the probes, as the destructor does. Calls `progress` after each step.
  void detach(const std::function<void(std::size_t done)>& progress = {});

private:
  explicit Attachment(std::unique_ptr<ProbeDescriptors> descriptors);
  std::unique_ptr<ProbeDescriptors> descriptors_;
};

} // namespace uprobectl::probe
