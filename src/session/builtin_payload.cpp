#include "session/payload.hpp"

namespace uprobectl {

namespace {

class BuiltinPayload final : public Payload {
public:
  explicit BuiltinPayload(const AttachRequest& request) : request_(request) {}

  std::string name() const override { return "builtin"; }
  std::vector<Question> questions() const override {
    return {{.target = request_.target,
             .functions = request_.functions,
             .on_entry = request_.on_entry,
             .on_return = request_.on_return}};
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

  Result<void> load(Mechanism mechanism, std::span<const ProbePoint> points) override {
    cookies_ = hands_over_cookie(mechanism, features_);
    auto program = BuiltinProgram::load({.kind = program_kind(mechanism),
                                         .buffer = buffer_,
                                         .cookie = cookies_,
                                         .shared_places = shared_places(mechanism, points),
                                         .probes = static_cast<std::uint32_t>(points.size())});
    if (!program) return fail(std::move(program).error());
    program_ = std::move(*program);
    points_ = points;
    return {};
  }

  LoadedProgram program(const PlannedSite& site) const override {
    return program_->program(static_cast<std::uint32_t>(site.point), site.on_return);
  }
  std::uint64_t cookie(const PlannedSite& site) const override {
    if (!cookies_) return 0;
    return program_->cookie(static_cast<std::uint32_t>(site.point), site.on_return);
  }

  Result<void> start() override { return program_->arm(true); }
  Result<void> stop() override { return program_->arm(false); }

  void add_to(std::vector<pollfd>& polled) const override {
    polled.push_back({.fd = program_->poll_fd(), .events = POLLIN, .revents = 0});
  }
  bool drain(const Visit& visit) override {
    return program_->drain([&](Bytes record) {
      const auto event = decode_event(record, points_);
      if (event) return visit(*event);
      ++corrupt_;
      return true;
    });
  }
  std::uint64_t corrupt() const override { return corrupt_; }
  std::uint64_t lost() const override { return program_->lost(); }

  std::vector<std::optional<std::uint64_t>> hits(std::span<const PlannedSite> /*sites*/,
                                                 std::size_t /*points*/) const override {
    std::vector<std::optional<std::uint64_t>> result;
    for (const ProbeCounts& counts : program_->counts())
      result.emplace_back(counts.entries + counts.returns);
    return result;
  }
  void show_maps(Sink& /*sink*/, const Reporter& /*reporter*/) const override {}

private:
  static std::vector<FileOffset> shared_places(Mechanism mechanism,
                                               std::span<const ProbePoint> points) {
    std::vector<FileOffset> places;
    if (mechanism == Mechanism::tracefs)
      for (const ProbePoint& point : points) places.push_back(*point.offset);
    return places;
  }

  const AttachRequest& request_;
  KernelFeatures features_;
  RecordBuffer buffer_ = RecordBuffer::ring;
  bool cookies_ = true; // else each point has a program of its own
  std::optional<BuiltinProgram> program_;
  std::span<const ProbePoint> points_;
  std::uint64_t corrupt_ = 0;
};

} // namespace

std::unique_ptr<Payload> make_builtin_payload(const AttachRequest& request) {
  return std::make_unique<BuiltinPayload>(request);
}

} // namespace uprobectl
