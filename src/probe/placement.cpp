#include "probe/placement.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

namespace uprobectl {

std::string descriptor_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

namespace {

// ENOTSUPP of Linux include/linux/errno.h, which is not meant to reach user space and does: for
// instructions that arch/x86/kernel/uprobes.c refuses (a `lock` prefix, for example).
constexpr int kernel_enotsupp = 524;

} // namespace

Error placement_error(int errnum, const std::string& label, Mechanism mechanism) {
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

Error no_semaphores(const std::string& label) {
  return Error{ErrorKind::unsupported, label + ": it has a semaphore, which this kernel does not "
                                               "count up for a probe of this mechanism"}
      .hint("Linux 4.20 and later do; without it the program never comes to the probe");
}

Error interrupted_error() {
  return {ErrorKind::interrupted, "interrupted before the probes were in place"};
}

namespace {

Result<void> place_by(const Placement& placement, Descriptors& placed) {
  switch (placement.mechanism) {
  case Mechanism::multi:
  case Mechanism::session:
    return place_multi(placement, placed);
  case Mechanism::perf:
  case Mechanism::perf_ioctl:
    return place_perf(placement, placed);
  case Mechanism::tracefs:
    break;
  }
  return place_tracefs(placement, placed);
}

} // namespace

Result<Attachment> Attachment::attach(Mechanism mechanism, std::span<const ProbeSite> sites,
                                      std::span<const pid_t> pids,
                                      const std::function<bool()>& interrupted) {
  // A program loaded for a multi link must never reach a perf event, and the other way round.
  for (const ProbeSite& site : sites)
    if (site.program.kind != program_kind(mechanism))
      return fail(ErrorKind::unsupported,
                  site.label + ": the program was loaded for another mechanism");

  const pid_t everyone[] = {0};
  const Placement placement{.mechanism = mechanism,
                            .sites = sites,
                            .pids = pids.empty() ? std::span<const pid_t>(everyone) : pids,
                            .interrupted = interrupted};
  Descriptors placed;
  auto done = place_by(placement, placed);
  if (!done) return fail(std::move(done).error());
  return Attachment(std::make_unique<Descriptors>(std::move(placed)));
}

Attachment::Attachment(std::unique_ptr<Descriptors> placed) : placed_(std::move(placed)) {}
Attachment::Attachment(Attachment&&) noexcept = default;
Attachment& Attachment::operator=(Attachment&&) noexcept = default;
Attachment::~Attachment() = default;

std::size_t Attachment::parts() const {
  return placed_ ? std::max(placed_->links.size(), placed_->perf_events.size()) : 0;
}

namespace {

// Closing a uprobe_multi link waits for a grace period, and those that wait at the same time wait
// for the same one. Perf events are no better for it: the kernel closes one at a time.
void close_together(std::vector<UniqueFd>& links) {
  constexpr std::size_t most_threads = 32;
  std::atomic<std::size_t> next = 0;
  const auto close_some = [&] {
    for (std::size_t i = next++; i < links.size(); i = next++) links[i].reset();
  };
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < std::min(links.size(), most_threads))
      others.emplace_back(close_some);
  } catch (const std::system_error&) { // no more of them
  }
  close_some();
  others.clear(); // joins them
  links.clear();
}

} // namespace

void Attachment::detach(const std::function<void(std::size_t done)>& progress) {
  if (!placed_) return;
  if (placed_->perf_events.empty() && placed_->links.size() > 1) close_together(placed_->links);
  std::size_t done = 0;
  // Together with its link, if it has one: the time goes by where the second of the two is closed.
  while (!placed_->links.empty() || !placed_->perf_events.empty()) {
    if (!placed_->links.empty()) placed_->links.pop_back();
    if (!placed_->perf_events.empty()) placed_->perf_events.pop_back();
    if (progress) progress(++done);
  }
  placed_.reset();
}

} // namespace uprobectl
