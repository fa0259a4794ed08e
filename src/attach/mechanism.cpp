#include "uprobectl/attach.hpp"

namespace uprobectl {

std::string_view to_string(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return "multi";
  case Mechanism::session:
    return "session";
  case Mechanism::perf:
    return "perf";
  }
  return "";
}

ProgramKind program_kind(Mechanism mechanism) {
  switch (mechanism) {
  case Mechanism::multi:
    return ProgramKind::multi;
  case Mechanism::session:
    return ProgramKind::session;
  case Mechanism::perf:
    break;
  }
  return ProgramKind::plain;
}

namespace {

Result<void> usable_multi(const KernelFeatures& features, const MechanismNeeds& needs) {
  if (!features.uprobe_multi)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe_multi links"}.hint(
        "they came with Linux 6.6; --mechanism perf works from Linux 5.15 on"));
  if (needs.filters_by_pid && !features.multi_pid_filter)
    return fail(Error{ErrorKind::unsupported,
                      "uprobe_multi links of this kernel filter by thread, not by process"}
                    .hint("that was mended in Linux 6.10; use --mechanism perf, or leave out -p"));
  return {};
}

Result<void> usable_session(const KernelFeatures& features) {
  if (!features.uprobe_session)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe session links"}.hint(
        "they came with Linux 6.13; a uprobe and a uretprobe program do the same on others"));
  return {};
}

Result<void> usable_perf(const KernelFeatures& features) {
  if (!features.perf_uprobe)
    return fail(Error{ErrorKind::unsupported, "this kernel has no uprobe perf events"}.hint(
        "needs Linux 4.17 with CONFIG_UPROBE_EVENTS, and a mounted /sys"));
  if (!features.perf_link)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF links on perf events"}.hint(
        "they came with Linux 5.15"));
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
  switch (mechanism) {
  case Mechanism::multi:
    return usable_multi(features, needs);
  case Mechanism::session:
    return usable_session(features);
  case Mechanism::perf:
    return usable_perf(features);
  }
  return {};
}

} // namespace

Result<Mechanism> choose_mechanism(std::optional<Mechanism> wanted, const KernelFeatures& features,
                                   const MechanismNeeds& needs) {
  if (!features.ring_buffer)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF ring buffer"}.hint(
        "it came with Linux 5.8"));
  if (wanted == Mechanism::multi && needs.kind == ProgramKind::session) wanted = Mechanism::session;
  if (wanted) {
    if (auto answer = usable(*wanted, features, needs); !answer)
      return fail(std::move(answer).error());
    return *wanted;
  }
  // The best first; of several that do not work the last one that could tells why.
  std::optional<Error> reason;
  for (const Mechanism mechanism : {Mechanism::multi, Mechanism::session, Mechanism::perf}) {
    if (!serves(mechanism, needs)) continue;
    auto answer = usable(mechanism, features, needs);
    if (answer) return mechanism;
    reason = std::move(answer).error();
  }
  return fail(std::move(*reason));
}

} // namespace uprobectl
