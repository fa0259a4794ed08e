// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.hpp"

#include "bpf/load_error.hpp"
#include "probe/mechanisms.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

namespace uprobectl {

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

bool supports_cookies(Mechanism mechanism, const KernelFeatures& features) {
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

ProgramKind program_kind(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return ProgramKind::multi;
  case Mechanism::session:
    return ProgramKind::session;
  case Mechanism::perf:
  case Mechanism::perf_ioctl:
  case Mechanism::tracefs:
    break;
  }
  return ProgramKind::plain;
}

namespace {

// Beyond this many tracefs is better than perf, because probes can share its events: taking away
// 200 is 140 times faster on Linux 6.1.
constexpr std::size_t max_perf_probes = 50;

Result<void> usable_multi(const KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.uprobe_multi)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe_multi links"}.hint(
        "they came with Linux 6.6; --mechanism perf works from Linux 5.15 on"));
  if (needs.filters_by_pid && !features.multi_pid_filter)
    return fail(
        Error{ErrorKind::unsupported,
              "uprobe_multi links of this kernel filter by thread, not by process"}
            .hint("that was mended in Linux 6.10; perf probes filter by process on every kernel: "
                  "--mechanism perf, for a pinned program one that is loaded for it"));
  return {};
}

Result<void> usable_session(const KernelFeatures& features) {
  if (!features.uprobe_session)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe session links"}.hint(
        "they came with Linux 6.13; a uprobe and a uretprobe program do the same on others"));
  return {};
}

Result<void> usable_events(const KernelFeatures& features) {
  if (!features.perf_uprobe)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe perf events"}.hint(
        "needs Linux 4.17 with CONFIG_UPROBE_EVENTS, and a mounted /sys"));
  if (!features.perf_permitted)
    return fail(with_filter_hint(
        Error{ErrorKind::not_permitted, "this user may not open uprobe perf events"}
            .hint("needs CAP_SYS_ADMIN: kernels since July 2025 ask for it (CVE-2025-38466)")
            .hint("uprobe_multi needs only CAP_BPF and CAP_PERFMON: --mechanism multi")));
  return {};
}

Result<void> usable_perf(const KernelFeatures& features) {
  if (!features.perf_link)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF links on perf events"}.hint(
        "they came with Linux 5.15; --mechanism perf-ioctl does without"));
  return usable_events(features);
}

// The rule that Attachment::attach keeps, told before anything is loaded.
Result<void> usable_ioctl(const KernelFeatures& features, const MechanismNeeds& needs) {
  if (!needs.loaded_by_us && features.perf_link)
    return fail(Error{ErrorKind::unsupported,
                      "a program that others have loaded is not attached by perf-ioctl"}
                    .hint("kernels take wrong ones, too, and crash at the first hit; this one has "
                          "BPF links: --mechanism perf"));
  return usable_events(features);
}

Result<void> usable_tracefs(const KernelFeatures& features) {
  if (!features.tracefs_uprobe)
    return fail(Error{ErrorKind::unsupported, "no tracefs with uprobe_events is mounted"}.hint(
        "mount -t tracefs tracefs /sys/kernel/tracing"));
  if (!features.tracefs_permitted)
    return fail(with_filter_hint(
        Error{ErrorKind::not_permitted, "this user may not write uprobe_events of tracefs"}.hint(
            "needs root, or the right to write the file, and a kernel without "
            "lockdown=confidentiality")));
  return {};
}

// A program that is yet to be loaded is never loaded for sessions: it would run twice a call.
bool serves(Mechanism mechanism, const MechanismNeeds& needs) {
  const ProgramKind kind = program_kind(mechanism);
  return needs.kind ? kind == *needs.kind : kind != ProgramKind::session;
}

Result<void> usable(Mechanism mechanism, const KernelFeatures& features,
                    const MechanismNeeds& needs) {
  if (!serves(mechanism, needs))
    return fail(Error{ErrorKind::unsupported,
                      "the program was loaded for " + std::string(to_string(*needs.kind)) +
                          ", not for --mechanism " + std::string(to_string(mechanism))}
                    .hint("leave out --mechanism"));
  const bool has_semaphores = // they came before these links
      program_kind(mechanism) != ProgramKind::plain || features.semaphores;
  if (needs.semaphores && !has_semaphores)
    return fail(Error{ErrorKind::unsupported,
                      "the static probe has a semaphore, which this kernel does not count up"}
                    .hint("Linux 4.20 and later do; without it the program never comes to the "
                          "probe"));
  switch (mechanism) {
  case Mechanism::multi:
    return usable_multi(features, needs);
  case Mechanism::session:
    return usable_session(features);
  case Mechanism::perf:
    return usable_perf(features);
  case Mechanism::perf_ioctl:
    return usable_ioctl(features, needs);
  case Mechanism::tracefs:
    return usable_tracefs(features);
  }
  return {};
}

// ENOTSUPP of Linux include/linux/errno.h, which is not meant to reach user space and does: for
// instructions that arch/x86/kernel/uprobes.c refuses (a `lock` prefix, for example).
constexpr int kernel_enotsupp = 524;

Result<void> attach_by_mechanism(const AttachPlan& plan, ProbeDescriptors& descriptors) {
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

// Closing a uprobe_multi link waits for a grace period, and those that wait at the same time wait
// for the same one. Perf events are no better for it: the kernel closes one at a time.
void close_together(std::vector<UniqueFd>& links) {
  constexpr std::size_t max_threads = 32;
  std::atomic<std::size_t> next = 0;
  const auto close_some = [&] {
    for (std::size_t i = next++; i < links.size(); i = next++) links[i].reset();
  };
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < std::min(links.size(), max_threads)) others.emplace_back(close_some);
  } catch (const std::system_error&) { // no more of them
  }
  close_some();
  others.clear(); // joins them
  links.clear();
}

} // namespace

Result<Mechanism> choose_mechanism(std::optional<Mechanism> wanted, const KernelFeatures& features,
                                   const MechanismNeeds& needs) {
  if (wanted == Mechanism::multi && needs.kind == ProgramKind::session) wanted = Mechanism::session;
  if (wanted) {
    if (auto answer = usable(*wanted, features, needs); !answer)
      return fail(std::move(answer).error());
    return *wanted;
  }
  // The best first. Where none works the reason told is one that a change of user would remove.
  constexpr std::array preference_order = {Mechanism::multi, Mechanism::session, Mechanism::perf,
                                           Mechanism::perf_ioctl, Mechanism::tracefs};
  std::optional<Error> reason;
  for (const Mechanism mechanism : preference_order) {
    if (!serves(mechanism, needs)) continue;
    if (mechanism == Mechanism::perf && needs.probes > max_perf_probes && usable_tracefs(features))
      return Mechanism::tracefs;
    auto answer = usable(mechanism, features, needs);
    if (answer) return mechanism;
    if (!reason || reason->kind != ErrorKind::not_permitted) reason = std::move(answer).error();
  }
  return fail(std::move(*reason));
}

std::string descriptor_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Error attach_error(int errnum, const std::string& label, Mechanism mechanism) {
  const auto says = [&](ErrorKind kind, std::string_view what) {
    return Error{kind, label + ": " + std::string(what)};
  };
  switch (errnum) {
  case EPERM:
  case EACCES:
    if (mechanism == Mechanism::perf || mechanism == Mechanism::perf_ioctl)
      return says(ErrorKind::not_permitted, "the kernel does not permit a perf event here")
          .hint("needs CAP_SYS_ADMIN: kernels since July 2025 ask for it (CVE-2025-38466)")
          .hint("uprobe_multi needs only CAP_BPF and CAP_PERFMON: --mechanism multi");
    return says(ErrorKind::not_permitted, "the kernel does not permit a probe here")
        .hint("needs CAP_BPF and CAP_PERFMON, or root");
  case ESRCH:
    return says(ErrorKind::not_found, "the process to be probed has ended");
  case EMFILE:
  case ENFILE:
    return says(ErrorKind::io, "no file descriptors left: every probe of this mechanism needs two")
        .hint("raise the limit (ulimit -n), or use --mechanism multi");
  case EIO:
    return says(ErrorKind::unsupported,
                "the kernel cannot read this file system's pages for a probe")
        .hint("copy the file to a file system such as ext4, f2fs or tmpfs");
  case EINVAL:
    return says(ErrorKind::unsupported, "the kernel refuses a probe at this offset")
        .hint("another probe with a different semaphore, a breakpoint instruction in the file or a "
              "misaligned offset can be the cause");
  case ENOTSUP:
  case kernel_enotsupp:
    return says(ErrorKind::unsupported, "the kernel cannot probe this instruction")
        .hint("others are probed without it: --keep-going, or leave it out with --exclude");
  default:
    return system_error(errnum, label + ": cannot place the probe");
  }
}

Error semaphore_error(const std::string& label) {
  return Error{ErrorKind::unsupported, label + ": it has a semaphore, which this kernel does not "
                                               "count up for a probe of this mechanism"}
      .hint("Linux 4.20 and later do; without it the program never comes to the probe");
}

Error interrupted_error() {
  return {ErrorKind::interrupted, "interrupted before the probes were in place"};
}

Result<Attachment> Attachment::attach(Mechanism mechanism, std::span<const ProbeSite> sites,
                                      std::span<const pid_t> pids,
                                      const std::function<bool()>& interrupted) {
  // A program loaded for a multi link must never reach a perf event, and the other way round.
  for (const ProbeSite& site : sites)
    if (site.program.kind != program_kind(mechanism))
      return fail(ErrorKind::unsupported,
                  site.label + ": the program was loaded for another mechanism");

  const pid_t everyone[] = {0};
  const AttachPlan plan{.mechanism = mechanism,
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
    close_together(descriptors_->links);
  std::size_t done = 0;
  // Together with its link, if it has one: the time goes by where the second of the two is closed.
  while (!descriptors_->links.empty() || !descriptors_->perf_events.empty()) {
    if (!descriptors_->links.empty()) descriptors_->links.pop_back();
    if (!descriptors_->perf_events.empty()) descriptors_->perf_events.pop_back();
    if (progress) progress(++done);
  }
  descriptors_.reset();
}

} // namespace uprobectl
