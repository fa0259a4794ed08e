// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.hpp"

#include "bpf/load_error.hpp"
#include "probe/mechanisms.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fmt/format.h>
#include <system_error>
#include <thread>

namespace uprobectl::probe {

std::string_view to_string(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return "multi";
  case Mechanism::session:
    return "session";
  case Mechanism::perf:
    return "perf";
  case Mechanism::perf_ioctl:
    return "perf-ioctl";
  case Mechanism::tracefs:
    return "tracefs";
  }
  return "";
}

bool supports_cookies(Mechanism mechanism, const bpf::KernelFeatures& features) {
  switch (mechanism) {
  case Mechanism::multi:
  case Mechanism::session:
    return true;
  case Mechanism::perf:
  case Mechanism::tracefs:
    return features.perf_link && features.attach_cookie;
  case Mechanism::perf_ioctl:
    break;
  }
  return false;
}

bpf::ProgramKind program_kind(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return bpf::ProgramKind::multi;
  case Mechanism::session:
    return bpf::ProgramKind::session;
  case Mechanism::perf:
  case Mechanism::perf_ioctl:
  case Mechanism::tracefs:
    break;
  }
  return bpf::ProgramKind::plain;
}

namespace {

// The hint to use another mechanism, with what it is better for. A program that was pinned is
// loaded for one kind of link.
std::string instead(bool loaded_by_us, std::string_view mechanism, std::string_view section) {
  if (loaded_by_us) return fmt::format("use {}", mechanism);
  return fmt::format("for {}, a pinned program has to be loaded again, with SEC(\"{}\")", mechanism,
                     section);
}

std::string fewer_rights(bool loaded_by_us) {
  return "uprobe_multi needs only CAP_BPF and CAP_PERFMON: " +
         instead(loaded_by_us, "--mechanism multi", "uprobe.multi");
}

// With more probes than this, prefer tracefs to perf: probes can share its events, and detaching
// 200 is 140 times faster on Linux 6.1.
constexpr std::size_t max_perf_probes = 50;

// Links compare the memory of the process's main thread, which has none when it has ended (Linux
// kernel/trace/bpf_trace.c, uprobe_multi_link_filter()).
Result<void> check_main_threads(const MechanismNeeds& needs) {
  if (!needs.main_thread_ended) return {};
  return fail(
      Error{ErrorKind::unsupported,
            "the main thread of the process has ended: a uprobe_multi link cannot select "
            "it"}
          .hint(instead(needs.loaded_by_us,
                        "--mechanism perf, which selects the process by another thread", "uprobe"))
          .hint("or -p NAME, which filters in the BPF program"));
}

Result<void> check_multi(const bpf::KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.uprobe_multi)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe_multi links"}.hint(
        "uprobe_multi links need Linux 6.6; " +
        instead(needs.loaded_by_us, "--mechanism perf (Linux 5.15)", "uprobe")));
  if (needs.filters_by_pid && !features.multi_pid_filter)
    return fail(
        Error{ErrorKind::unsupported,
              "uprobe_multi links of this kernel filter by thread, not by process"}
            .hint(instead(needs.loaded_by_us,
                          "--mechanism perf, which filters by process on every kernel", "uprobe"))
            .hint("or use Linux 6.10"));
  return check_main_threads(needs);
}

Result<void> check_session(const bpf::KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.uprobe_session)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe session links"}.hint(
        "session links need Linux 6.13; use a uprobe and a uretprobe program on older kernels"));
  return check_main_threads(needs);
}

Result<void> check_perf_events(const bpf::KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.sysfs)
    return fail(Error{ErrorKind::unsupported,
                      "uprobe perf events are described in /sys, which is not mounted"}
                    .hint("mount -t sysfs sysfs /sys"));
  if (!features.perf_uprobe)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe perf events"}.hint(
        "needs Linux 4.17 with CONFIG_UPROBE_EVENTS, and a mounted /sys"));
  if (!features.perf_permitted)
    return fail(bpf::with_refusal_hints(
        Error{ErrorKind::not_permitted, "this user may not open uprobe perf events"}
            .hint("needs CAP_SYS_ADMIN: kernels since July 2025 require it (CVE-2025-38466)")
            .hint(fewer_rights(needs.loaded_by_us))));
  return {};
}

Result<void> check_perf(const bpf::KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.perf_link)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF links on perf events"}.hint(
        "BPF links on perf events need Linux 5.15; use --mechanism perf-ioctl"));
  return check_perf_events(features, needs);
}

// The rule of check_binding(), checked before anything is loaded.
Result<void> check_ioctl(const bpf::KernelFeatures& features, const MechanismNeeds& needs) {
  if (!needs.loaded_by_us && features.perf_link)
    return fail(Error{ErrorKind::unsupported,
                      "perf-ioctl cannot attach a program loaded by another process"}
                    .hint("the ioctl does not check the kind of program: a wrong one crashes the "
                          "kernel at the first hit")
                    .hint("use --mechanism perf, which lets the kernel check the program"));
  return check_perf_events(features, needs);
}

Result<void> check_tracefs(const bpf::KernelFeatures& features) {
  if (!features.tracefs_uprobe)
    return fail(bpf::with_lockdown_hint(
        Error{ErrorKind::unsupported, "no tracefs with uprobe_events is mounted"}.hint(
            "mount -t tracefs tracefs /sys/kernel/tracing")));
  if (!features.tracefs_permitted)
    return fail(bpf::with_refusal_hints(
        Error{ErrorKind::not_permitted, "this user may not write uprobe_events of tracefs"}.hint(
            "needs root, or write permission for the file, and a kernel without "
            "lockdown=confidentiality")));
  return {};
}

// Programs that are not loaded yet are not loaded for sessions, because they would run twice per
// call.
bool fits_program(Mechanism mechanism, const MechanismNeeds& needs) {
  const bpf::ProgramKind kind = program_kind(mechanism);
  return needs.kind ? kind == *needs.kind : kind != bpf::ProgramKind::session;
}

Result<void> check_mechanism(Mechanism mechanism, const bpf::KernelFeatures& features,
                             const MechanismNeeds& needs) {
  if (!fits_program(mechanism, needs))
    return fail(Error{ErrorKind::unsupported,
                      "the program was loaded for " + std::string(to_string(*needs.kind)) +
                          ", not for --mechanism " + std::string(to_string(mechanism))}
                    .hint("leave out --mechanism"));
  const bool has_semaphores = // kernels with uprobe_multi links have them
      program_kind(mechanism) != bpf::ProgramKind::plain || features.semaphores;
  if (needs.semaphores && !has_semaphores)
    return fail(
        Error{ErrorKind::unsupported,
              "the static probe has a semaphore, which this kernel does not support"}
            .hint("needs Linux 4.20: while the semaphore is 0 the program skips the probe"));
  switch (mechanism) {
  case Mechanism::multi:
    return check_multi(features, needs);
  case Mechanism::session:
    return check_session(features, needs);
  case Mechanism::perf:
    return check_perf(features, needs);
  case Mechanism::perf_ioctl:
    return check_ioctl(features, needs);
  case Mechanism::tracefs:
    return check_tracefs(features);
  }
  return {};
}

// ENOTSUPP of Linux include/linux/errno.h, an internal errno that the kernel returns for
// instructions that arch/x86/kernel/uprobes.c rejects (a `lock` prefix, for example).
constexpr int kernel_enotsupp = 524;

Result<void> attach_by_mechanism(const MechanismRequest& plan, ProbeDescriptors& descriptors) {
  switch (plan.mechanism) {
  case Mechanism::multi:
  case Mechanism::session:
    return attach_multi(plan, descriptors);
  case Mechanism::perf:
  case Mechanism::perf_ioctl:
    return attach_perf(plan, descriptors);
  case Mechanism::tracefs:
    break;
  }
  return attach_tracefs(plan, descriptors);
}

// Closes uprobe_multi links in parallel, so that they wait for the same RCU grace period. This does
// not help with perf events, which the kernel closes one at a time.
void close_in_parallel(std::vector<UniqueFd>& links) {
  constexpr std::size_t max_threads = 32;
  std::atomic<std::size_t> next = 0;
  const auto close_some = [&] {
    for (std::size_t i = next++; i < links.size(); i = next++) links[i].reset();
  };
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < std::min(links.size(), max_threads)) others.emplace_back(close_some);
  } catch (const std::system_error&) { // thread limit
  }
  close_some();
  others.clear(); // joins them
  links.clear();
}

} // namespace

Result<Mechanism> choose_mechanism(std::optional<Mechanism> requested,
                                   const bpf::KernelFeatures& features,
                                   const MechanismNeeds& needs) {
  if (requested == Mechanism::multi && needs.kind == bpf::ProgramKind::session)
    requested = Mechanism::session;
  if (requested) {
    if (auto checked = check_mechanism(*requested, features, needs); !checked)
      return fail(std::move(checked).error());
    return *requested;
  }
  // If none works, prefer to report a missing permission, which the user can change.
  constexpr std::array preference_order = {Mechanism::multi, Mechanism::session, Mechanism::perf,
                                           Mechanism::perf_ioctl, Mechanism::tracefs};
  std::optional<Error> reason;
  for (const Mechanism mechanism : preference_order) {
    if (!fits_program(mechanism, needs)) continue;
    if (mechanism == Mechanism::perf && needs.probes > max_perf_probes && check_tracefs(features))
      return Mechanism::tracefs;
    auto checked = check_mechanism(mechanism, features, needs);
    if (checked) return mechanism;
    if (!reason || reason->kind != ErrorKind::not_permitted) reason = std::move(checked).error();
  }
  return fail(std::move(*reason));
}

std::string descriptor_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Error attach_error(int errnum, const std::string& label, const MechanismRequest& plan) {
  const Mechanism mechanism = plan.mechanism;
  const bool loaded_by_us = std::ranges::all_of(
      plan.sites, [](const ProbeSite& site) { return site.program.loaded_by_us; });
  const auto error = [&](ErrorKind kind, std::string_view what) {
    return Error{kind, label + ": " + std::string(what)};
  };
  switch (errnum) {
  case EPERM:
  case EACCES:
    if (mechanism == Mechanism::perf || mechanism == Mechanism::perf_ioctl)
      return bpf::with_refusal_hints(
          error(ErrorKind::not_permitted, "the kernel does not permit a perf event here")
              .hint("needs CAP_SYS_ADMIN: kernels since July 2025 require it (CVE-2025-38466)")
              .hint(fewer_rights(loaded_by_us)));
    return bpf::with_refusal_hints(
        error(ErrorKind::not_permitted, "the kernel does not permit a probe here")
            .hint("needs CAP_BPF and CAP_PERFMON, or root"));
  case ESRCH:
    return error(ErrorKind::not_found, "the target process has ended");
  case EMFILE:
  case ENFILE:
    return error(ErrorKind::io, "out of file descriptors: each probe of this mechanism needs two")
        .hint("raise the limit (ulimit -n)")
        .hint("or " + instead(loaded_by_us, "--mechanism multi", "uprobe.multi"));
  case EIO:
    return error(ErrorKind::unsupported,
                 "the kernel cannot read this file system's pages for a probe")
        .hint("copy the file to a file system such as ext4, f2fs or tmpfs");
  case EINVAL:
    return error(ErrorKind::unsupported, "the kernel refuses a probe at this offset")
        .hint("another probe with a different semaphore, a breakpoint instruction in the file or a "
              "misaligned offset can be the cause");
  case ENOTSUP:
  case kernel_enotsupp:
    return error(ErrorKind::unsupported, "the kernel cannot probe this instruction")
        .hint("skip it with --keep-going or --exclude");
  default:
    return system_error(errnum, label + ": cannot attach the probe");
  }
}

Error semaphore_error(const std::string& label) {
  return Error{ErrorKind::unsupported, label + ": it has a semaphore, which this kernel does not "
                                               "support for this mechanism"}
      .hint("needs Linux 4.20: while the semaphore is 0 the program skips the probe");
}

Error interrupted_error() {
  return {ErrorKind::interrupted, "interrupted before the probes were attached"};
}

Result<Attachment> Attachment::attach(Mechanism mechanism, std::span<const ProbeSite> sites,
                                      std::span<const pid_t> pids,
                                      const std::function<bool()>& interrupted) {
  // A program loaded for a multi link must never be attached to a perf event, or vice versa.
  for (const ProbeSite& site : sites)
    if (site.program.kind != program_kind(mechanism))
      return fail(ErrorKind::unsupported,
                  site.label + ": the program was loaded for another mechanism");

  const pid_t everyone[] = {0};
  const MechanismRequest plan{.mechanism = mechanism,
                              .sites = sites,
                              .pids = pids.empty() ? std::span<const pid_t>(everyone) : pids,
                              .interrupted = interrupted};
  ProbeDescriptors descriptors;
  auto done = attach_by_mechanism(plan, descriptors);
  if (!done) return fail(std::move(done).error());
  return Attachment(std::make_unique<ProbeDescriptors>(std::move(descriptors)));
}

Attachment::Attachment(std::unique_ptr<ProbeDescriptors> descriptors)
    : descriptors_(std::move(descriptors)) {}
Attachment::Attachment(Attachment&&) noexcept = default;
Attachment& Attachment::operator=(Attachment&&) noexcept = default;
Attachment::~Attachment() = default;

std::size_t Attachment::detach_steps() const {
  return descriptors_ ? std::max(descriptors_->links.size(), descriptors_->perf_events.size()) : 0;
}

void Attachment::detach(const std::function<void(std::size_t done)>& progress) {
  if (!descriptors_) return;
  if (descriptors_->perf_events.empty() && descriptors_->links.size() > 1)
    close_in_parallel(descriptors_->links);
  std::size_t done = 0;
  // Close each perf event together with its link: closing the second of the two takes the time.
  while (!descriptors_->links.empty() || !descriptors_->perf_events.empty()) {
    if (!descriptors_->links.empty()) descriptors_->links.pop_back();
    if (!descriptors_->perf_events.empty()) descriptors_->perf_events.pop_back();
    if (progress) progress(++done);
  }
  descriptors_.reset();
}

} // namespace uprobectl::probe
