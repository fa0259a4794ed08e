#include "session/placing.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Detaching perf events takes a grace period each, one after the other and unkillable: 0.04 s on
// Linux 6.8, up to 0.5 s on 6.12.
constexpr std::size_t many_perf_probes = 50;

std::vector<ProbeSite> sites_of(std::span<const ProbePoint> points, const BuiltinProgram& program,
                                const AttachRequest& request) {
  std::vector<ProbeSite> sites;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ProbePoint& point = points[i];
    ProbeSite site{.file = point.binary->file->fd(),
                   .offset = *point.offset, // resolve_functions() takes no others
                   .on_return = false,
                   .program = program.program(static_cast<std::uint32_t>(i), false),
                   .cookie = i,
                   .label = to_string(point.binary->path) + ": " + display_name(point)};
    if (request.on_entry) sites.push_back(site);
    site.on_return = true;
    site.program = program.program(static_cast<std::uint32_t>(i), true);
    if (request.on_return) sites.push_back(std::move(site));
  }
  return sites;
}

// One place's own fault, as against what would keep every probe from being placed.
bool is_about_one_place(const Error& error) {
  return error.kind == ErrorKind::unsupported || error.kind == ErrorKind::io;
}

class Placer {
public:
  Placer(const AttachRequest& request, Mechanism mechanism, SignalWatch& signals)
      : request_(request), mechanism_(mechanism), signals_(signals) {}

  Result<Attachment> attach(std::span<const ProbeSite> sites) const {
    return Attachment::attach(mechanism_, sites, request_.pids,
                              [this] { return signals_.arrived(); });
  }

  // The sites that the kernel refuses, among some that it refused together; attaches for moments.
  void find_refused(std::span<const ProbeSite> sites,
                    std::vector<std::pair<std::size_t, Error>>& refused) const {
    const auto tried = attach(sites);
    if (tried) return;
    if (sites.size() == 1 || !is_about_one_place(tried.error())) {
      refused.emplace_back(sites.front().cookie, tried.error());
      return;
    }
    const std::size_t half = sites.size() / 2;
    find_refused(sites.first(half), refused);
    find_refused(sites.subspan(half), refused);
  }

private:
  const AttachRequest& request_;
  Mechanism mechanism_;
  SignalWatch& signals_;
};

void drop_refused(std::span<const std::pair<std::size_t, Error>> refused,
                  const AttachRequest& request, Resolved& resolved, Sink& sink,
                  const Reporter& reporter) {
  std::vector<ProbePoint> kept;
  for (std::size_t i = 0; i < resolved.points.size(); ++i) {
    ProbePoint& point = resolved.points[i];
    const auto refusal = std::ranges::find(refused, i, &std::pair<std::size_t, Error>::first);
    if (refusal == refused.end()) {
      kept.push_back(std::move(point));
      continue;
    }
    reporter.error(refusal->second);
    sink.error({.target = request.target, .request = point.request, .error = refusal->second});
    resolved.failures.push_back({.function = point.request, .error = refusal->second});
  }
  resolved.points = std::move(kept);
}

void warn_of_slow_detach(std::size_t probes, Mechanism mechanism, const Reporter& reporter) {
  if (mechanism != Mechanism::perf || probes <= many_perf_probes) return;
  reporter.warning(fmt::format("taking away {} perf event probes will take {} to {} s, and cannot "
                               "be interrupted",
                               probes, probes / 25, probes / 2));
}

} // namespace

Result<Placed> place(const AttachRequest& request, Mechanism mechanism, Resolved& resolved,
                     SignalWatch& signals, Sink& sink, const Reporter& reporter) {
  for (;;) {
    auto program =
        BuiltinProgram::load({.kind = program_kind(mechanism),
                              .probes = static_cast<std::uint32_t>(resolved.points.size())});
    if (!program) return fail(std::move(program).error());
    const std::vector<ProbeSite> sites = sites_of(resolved.points, *program, request);
    const std::size_t probes = sites.size() * std::max<std::size_t>(request.pids.size(), 1);
    warn_of_slow_detach(probes, mechanism, reporter);
    const Placer placer(request, mechanism, signals);
    auto attachment = placer.attach(sites);
    if (attachment) return Placed{std::move(*program), std::move(*attachment), probes};
    if (sites.size() == 1 || !is_about_one_place(attachment.error()))
      return fail(std::move(attachment).error());

    std::vector<std::pair<std::size_t, Error>> refused;
    placer.find_refused(sites, refused);
    if (refused.empty()) return fail(std::move(attachment).error()); // only together: too many
    if (!request.keep_going) return fail(std::move(refused.front().second));
    drop_refused(refused, request, resolved, sink, reporter);
    if (resolved.points.empty())
      return fail(ErrorKind::unsupported, "the kernel takes none of the probes");
  }
}

} // namespace uprobectl
