#include "session/left_out.hpp"
#include "session/own_pids.hpp"
#include "session/payload.hpp"
#include "session/sums.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

class BuiltinPayload final : public Payload {
public:
  BuiltinPayload(const AttachRequest& request, CodeReaders& readers)
      : request_(request), readers_(readers) {}

  std::string name() const override { return "builtin"; }
  std::vector<Question> questions() const override {
    return {{.target = request_.target,
             .functions = request_.functions,
             .static_probes = request_.static_probes,
             .on_entry = request_.inspection.on_entry || request_.inspection.pair_calls,
             .on_return = request_.inspection.on_return || request_.inspection.pair_calls}};
  }

  std::size_t others() const override { return 0; }

  Result<void> prepare(const KernelFeatures& features) override {
    const auto buffer = choose_buffer(request_.buffer, features);
    if (!buffer) return fail(buffer.error());
    buffer_ = *buffer;
    features_ = features;
    return {};
  }
  std::optional<ProgramKind> kind() const override { return std::nullopt; }
  void set_filter(const ProgramFilter& filter) override { filter_ = filter; }

  Result<void> load(Mechanism mechanism, std::span<const ProbePoint> points) override {
    cookies_ = hands_over_cookie(mechanism, features_);
    points_ = points;
    const bool strings = asks_for(request_.inspection, ArgumentType::cxx_string);
    std::vector<CodeFacts> facts;
    facts.reserve(points.size());
    for (const ProbePoint& point : points) facts.push_back(readers_.facts_of(point, strings));
    Inspection inspection = request_.inspection;
    inspection.filters = filter_.filters;
    inspection.user = filter_.user;
    auto plan = InspectionPlan::make(inspection, points, facts);
    if (!plan) return fail(std::move(plan).error());
    plan_ = std::move(*plan);
    auto program = BuiltinProgram::load({.kind = program_kind(mechanism),
                                         .buffer = buffer_,
                                         .cookie = cookies_,
                                         .shared_places = shared_places(mechanism, points),
                                         .probes = static_cast<std::uint32_t>(points.size()),
                                         .variants = plan_.variants(),
                                         .variant_of = plan_.variant_of(),
                                         .processes = filter_.processes,
                                         .cgroup = filter_.cgroup});
    if (!program) return fail(std::move(program).error());
    program_ = std::move(*program);
    return {};
  }

  LoadedProgram program(const PlannedSite& site) const override {
    return program_->program(static_cast<std::uint32_t>(site.point), role_of(site));
  }
  std::uint64_t cookie(const PlannedSite& site) const override {
    if (!cookies_) return 0;
    return program_->cookie(static_cast<std::uint32_t>(site.point), role_of(site));
  }

  std::vector<std::string> cautions() const override {
    std::vector<std::string> cautions;
    for (std::size_t i = 0; i < points_.size(); ++i)
      for (const std::string& problem : plan_.problems_of(i)) {
        std::string caution = display_name(points_[i]) + ": " + problem;
        if (std::ranges::find(cautions, caution) == cautions.end())
          cautions.push_back(std::move(caution));
      }
    return cautions;
  }

  Result<void> start() override {
    if (request_.counts || request_.histograms) sums_.emplace(request_, *program_, points_);
    return program_->arm(true);
  }
  Result<void> stop() override { return program_->arm(false); }

  void add_to(std::vector<pollfd>& polled) const override {
    polled.push_back({.fd = program_->poll_fd(), .events = POLLIN, .revents = 0});
  }
  bool drain(const Visit& visit) override {
    return program_->drain([&](Bytes record) {
      if (const auto pid = process_with_new_stack(record)) {
        if (sums_) sums_->see_process(static_cast<pid_t>(*pid));
        return true;
      }
      auto event = plan_.decode(record, points_);
      if (!event) {
        ++corrupt_;
        return true;
      }
      event->ns_pid = own_pids_.of(event->pid, event->time_ns);
      return visit(*event);
    });
  }
  std::uint64_t corrupt() const override { return corrupt_; }
  std::uint64_t lost() const override { return program_->lost(); }

  std::vector<std::optional<std::uint64_t>> hits(std::span<const PlannedSite> /*sites*/,
                                                 std::size_t /*points*/) const override {
    std::vector<std::optional<std::uint64_t>> result;
    for (const ProbeCounts& counts : program_->counts())
      result.emplace_back(request_.inspection.pair_calls ? counts.entries
                                                         : counts.entries + counts.returns);
    return result;
  }
  std::vector<std::string> explain_left_out(std::size_t /*points*/) const override {
    std::vector<std::string> result;
    for (const ProbeCounts& counts : program_->counts())
      result.push_back(uprobectl::explain_left_out(counts, request_.inspection));
    return result;
  }
  void tell_sums(Sums::Time now, Sink& sink) override {
    if (sums_) sums_->tell(now, sink);
  }
  void show_maps(Sink& /*sink*/, const Reporter& /*reporter*/) const override {}

private:
  static bool asks_for(const Inspection& inspection, ArgumentType type) {
    return std::ranges::any_of(inspection.arguments, [&](const ArgumentList& list) {
      return std::ranges::find(list.arguments, type, &ArgumentSpec::type) != list.arguments.end();
    });
  }

  static ProbeRole role_of(const PlannedSite& site) {
    if (!site.on_return) return ProbeRole::entry;
    return site.return_instruction ? ProbeRole::return_instruction : ProbeRole::on_return;
  }

  static std::vector<FileOffset> shared_places(Mechanism mechanism,
                                               std::span<const ProbePoint> points) {
    std::vector<FileOffset> places;
    if (mechanism == Mechanism::tracefs)
      for (const ProbePoint& point : points) places.push_back(*point.offset);
    return places;
  }

  const AttachRequest& request_;
  CodeReaders& readers_;
  KernelFeatures features_;
  RecordBuffer buffer_ = RecordBuffer::ring;
  bool cookies_ = true; // else each point has a program of its own
  InspectionPlan plan_;
  std::optional<BuiltinProgram> program_;
  std::optional<Sums> sums_; // where they are asked for
  std::span<const ProbePoint> points_;
  ProgramFilter filter_;
  OwnPids own_pids_;
  std::uint64_t corrupt_ = 0;
};

} // namespace

std::unique_ptr<Payload> make_builtin_payload(const AttachRequest& request, CodeReaders& readers) {
  return std::make_unique<BuiltinPayload>(request, readers);
}

} // namespace uprobectl
