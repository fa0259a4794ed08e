// SPDX-License-Identifier: Apache-2.0
// Places probes through one mechanism and takes them away again. All attaching goes to open files
// (through /proc/self/fd), so a path that is replaced meanwhile cannot move a probe. Source of the
// interfaces: Linux include/uapi/linux/bpf.h (BPF_LINK_CREATE), perf_event_open(2).
#pragma once

#include "bpf/bpf.hpp"

#include <functional>
#include <sys/types.h>

namespace uprobectl {

enum class Mechanism {
  multi,   // one uprobe_multi BPF link per file (Linux 6.6): fast to attach, fast to detach
  session, // the same for programs that run at entry and at return (Linux 6.13)
  perf, // one perf event with a BPF link per probe (Linux 5.15): detaching costs 0.04 to 0.5 s each
  perf_ioctl, // the same without the link (Linux 4.17), for programs loaded here as plain ones
  tracefs, // events of uprobe_events (Linux 3.5), one for many probes where their program can tell
           // them apart: 0.1 s to detach 200, for which perf takes 14 s
};
std::string_view to_string(Mechanism mechanism); // as --mechanism has it
// Whether what is attached so can tell its probes apart by their cookies.
bool supports_cookies(Mechanism mechanism, const KernelFeatures& features);

ProgramKind program_kind(Mechanism mechanism);

struct MechanismNeeds {
  bool filters_by_pid = false;
  std::size_t probes = 0;   // how many there will be that could share an event of tracefs
  bool loaded_by_us = true; // not a program that somebody else has loaded
  bool semaphores = false;  // of static probes, which the kernel is to count up
  // Of a program that is loaded already, or can be of no other kind; nothing: it will be loaded for
  // the mechanism that is chosen.
  std::optional<ProgramKind> kind = {};
};

// Which mechanism to use: the one asked for, or the best one this kernel has for these needs.
// unsupported with the reason if there is none. To be called before any program is loaded. Who asks
// for multi gets session for a program of that kind.
Result<Mechanism> choose_mechanism(std::optional<Mechanism> wanted, const KernelFeatures& features,
                                   const MechanismNeeds& needs);

struct ProbeSite {
  int file = -1; // an open descriptor of the file, borrowed
  FileOffset offset;
  // In the same file: a counter that the kernel counts up in each process that is probed, for as
  // long as it is. Nothing: there is none.
  std::optional<FileOffset> semaphore = {};
  bool on_return = false; // ignored for session programs, which run at both
  LoadedProgram program;
  std::uint64_t cookie = 0; // reaches the program through bpf_get_attach_cookie
  std::string label;        // names the site in errors
  std::size_t probe = 0;    // the caller's number of the probe that it belongs to
};

// How many perf events that takes. Each costs one or two grace periods of the kernel when it goes.
std::size_t count_perf_events(Mechanism mechanism, std::span<const ProbeSite> sites,
                              std::size_t processes);

struct ProbeDescriptors;

// Probes that are in place. Destroying it detaches them.
class Attachment {
public:
  // All sites or none. Without pids every process is probed; with pids only those, present threads
  // and later ones. A program that was loaded for another mechanism is refused before the kernel
  // sees it. Between placements `interrupted` is asked; true ends it with that kind of error.
  static Result<Attachment> attach(Mechanism mechanism, std::span<const ProbeSite> sites,
                                   std::span<const pid_t> pids,
                                   const std::function<bool()>& interrupted);

  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  std::size_t detach_steps() const; // that are taken away one after the other
  // The same as destroying it; tells after each step how many have been taken away.
  void detach(const std::function<void(std::size_t done)>& progress = {});

private:
  explicit Attachment(std::unique_ptr<ProbeDescriptors> descriptors);
  std::unique_ptr<ProbeDescriptors> descriptors_;
};

} // namespace uprobectl
