#include "uprobectl/attach.hpp"

namespace uprobectl {

std::string_view to_string(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return "multi";
  case Mechanism::perf:
    return "perf";
  }
  return "";
}

ProgramKind program_kind(Mechanism mechanism) {
  return mechanism == Mechanism::multi ? ProgramKind::multi : ProgramKind::plain;
}

namespace {

Result<void> usable(Mechanism mechanism, const KernelFeatures& features, bool filters_by_pid) {
  if (mechanism == Mechanism::multi) {
    if (!features.uprobe_multi)
      return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe_multi links"}.hint(
          "they came with Linux 6.6; --mechanism perf works from Linux 5.15 on"));
    if (filters_by_pid && !features.multi_pid_filter)
      return fail(
          Error{ErrorKind::unsupported,
                "uprobe_multi links of this kernel filter by thread, not by process"}
              .hint("that was mended in Linux 6.10; use --mechanism perf, or leave out -p"));
    return {};
  }
  if (!features.perf_uprobe)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe perf events"}.hint(
        "needs Linux 4.17 with CONFIG_UPROBE_EVENTS, and a mounted /sys"));
  if (!features.perf_link)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF links on perf events"}.hint(
        "they came with Linux 5.15"));
  return {};
}

} // namespace

Result<Mechanism> choose_mechanism(std::optional<Mechanism> wanted, const KernelFeatures& features,
                                   bool filters_by_pid) {
  if (!features.ring_buffer)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF ring buffer"}.hint(
        "it came with Linux 5.8"));
  if (wanted) {
    if (auto answer = usable(*wanted, features, filters_by_pid); !answer)
      return fail(std::move(answer).error());
    return *wanted;
  }
  if (usable(Mechanism::multi, features, filters_by_pid)) return Mechanism::multi;
  if (auto answer = usable(Mechanism::perf, features, filters_by_pid); !answer)
    return fail(std::move(answer).error());
  return Mechanism::perf;
}

} // namespace uprobectl
