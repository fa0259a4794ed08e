// SPDX-License-Identifier: Apache-2.0
#include "output/profile.hpp"

#include "output/flame_graph.hpp"
#include "uprobectl/path.hpp"

#include <algorithm>

namespace uprobectl::output {

namespace {

// Frames without a function are named after their mapping or file.
NamedFrame name_frame(const unwind::Frame& frame) {
  if (!frame.code) return {"[unknown]", {}};
  if (frame.jit) return {frame.jit->name(), "[jit]"};
  if (frame.code->module == nullptr) {
    const std::string_view mapping = frame.code->mapping;
    return {mapping.starts_with('[') ? std::string(mapping) : "[" + std::string(mapping) + "]", {}};
  }
  const unwind::Module& module = *frame.code->module;
  const std::string_view file = file_name_of(module.entry() ? *module.entry() : module.path());
  const auto symbolized = frame.symbolized();
  if (frame.inline_depth > 0)
    return {symbolized->positions[frame.inline_depth].inlined->name() + " [inlined]", file};
  if (symbolized->function) return {symbolized->function->name_with_others(), file};
  return {"[" + std::string(file) + "]", file};
}

// Folded lines or a flame graph.
class StackDrawing final : public Profile {
public:
  StackDrawing(ReplacedFile file, ExportFormat format)
      : Profile(std::move(file)), format_(format) {}

private:
  void add_stack(const StackSample& sample, const SampleWeight& weight) override {
    const std::vector<NamedFrame> names = name_frames(sample);
    std::vector<DrawnFrame> drawn;
    drawn.reserve(names.size());
    for (const NamedFrame& each : names)
      drawn.push_back({.name = each.name, .module = each.module});
    tree_.add(drawn, drawn_weight(weight));
  }

  void add_path(std::span<const PathFrame> path, const SampleWeight& weight) override {
    std::vector<DrawnFrame> drawn;
    drawn.reserve(path.size());
    for (const PathFrame& frame : path)
      drawn.push_back(
          {.name = frame.name, .module = frame.point != nullptr ? module_name(*frame.point) : ""});
    tree_.add(drawn, drawn_weight(weight));
  }

  Result<std::string> content(const ExportedEnd& end) override {
    if (format_ == ExportFormat::folded) return tree_.folded();
    return flame_graph(tree_, {.title = header().command,
                               .subtitle = end.summary,
                               .unit = unit().value_or("hit"),
                               .is_value = header().value_unit.has_value(),
                               .view = header().view});
  }

  static std::uint64_t drawn_weight(const SampleWeight& weight) {
    return weight.measured.value_or(weight.hits);
  }

  ExportFormat format_;
  StackTree tree_;
};

Result<std::unique_ptr<Export>> open_drawing(const std::string& path, ExportFormat format,
                                             Workstation& workstation) {
  auto file = ReplacedFile::open(path, workstation);
  if (!file) return fail(std::move(file).error());
  return std::make_unique<StackDrawing>(std::move(*file), format);
}

} // namespace

std::vector<NamedFrame> name_frames(const StackSample& sample) {
  const std::span<const unwind::Frame> frames = sample.stack->frames;
  std::vector<NamedFrame> names;
  names.reserve(frames.size() + 1);
  const std::string_view rest = missing_frames_label(sample.completeness);
  if (!rest.empty()) names.push_back({.name = std::string(rest), .module = {}});
  for (std::size_t i = frames.size(); i-- > 0;) names.push_back(name_frame(frames[i]));
  return names;
}

const std::string& Profile::find_name(const resolve::ProbePoint& point) {
  std::string& name = names_[&point];
  if (name.empty()) name = display_name(point);
  return name;
}

void Profile::write(const Record& record) {
  record.visit([this](const auto& each) { take(each); });
}

void Profile::take(const events::Event& event) {
  const bool has_sample =
      event.sample != nullptr || event.stack != nullptr || event.caller != nullptr;
  if (header().graph || header().has_stacks || has_sample) return;
  PathFrame frame{.name = "record", .point = event.point};
  if (event.point != nullptr)
    frame.name = find_name(*event.point);
  else if (event.record != nullptr)
    frame.name = event.record->type ? *event.record->type : event.record->map;
  add_path({&frame, 1}, {.hits = 1, .measured = event.latency_ns});
}

void Profile::opened(const events::OpenCall& call, const events::Event& /*entry*/) {
  paths_.open(call);
}

void Profile::closed(const events::OpenCall& call, events::CallEnd /*end*/, std::uint64_t end_ns,
                     const events::Event* /*exit*/) {
  const auto path = paths_.close(call);
  if (!path) return;
  std::vector<PathFrame> frames;
  frames.reserve(path->calls.size());
  for (const CallPaths::Call& each : path->calls)
    frames.push_back({.name = find_name(*each.point), .point = each.point});
  const std::uint64_t duration = end_ns - std::min(call.begin_ns, end_ns);
  add_path(frames, {.hits = 1, .measured = duration - std::min(duration, call.children_ns)});
}

void Profile::take(const StackSample& sample) {
  if (header().graph || (header().value_unit && !sample.value)) return;
  add_stack(sample, {.hits = sample.hits,
                     .measured = header().value_unit ? sample.value : sample.latency_ns});
}

// `map`: of the records that were counted, if they belong to no point.
void Profile::add_aggregate(const resolve::ProbePoint* point, std::string_view map,
                            const SampleWeight& weight) {
  if (header().graph || header().has_stacks || header().sends_events) return;
  const PathFrame frame{.name = point != nullptr ? find_name(*point) : map, .point = point};
  add_path({&frame, 1}, weight);
}

namespace {

// Profiles have no negative weights.
std::uint64_t weight_of(std::uint64_t signed_sum) {
  return static_cast<std::int64_t>(signed_sum) < 0 ? 0 : signed_sum;
}

} // namespace

void Profile::take(const CountRecord& count) {
  has_counts_ = true;
  if (header().sends_latencies || count.stack != nullptr) return;
  SampleWeight weight{.hits = count.count};
  if (count.sums) weight.measured = weight_of(count.sums->sum);
  add_aggregate(count.point, count.map, weight);
}

// If the run has counts, too, the counts are the samples, unless the histograms are of latencies.
void Profile::take(const HistogramRecord& record) {
  if (has_counts_ && !header().sends_latencies) return;
  add_aggregate(record.point, record.map,
                {.hits = record.histogram.count, .measured = weight_of(record.histogram.total)});
}

Result<void> Profile::finish(const ExportedEnd& end) {
  auto text = content(end);
  if (!text) return fail(std::move(text).error());
  return file_.write(*text);
}

Result<std::unique_ptr<Export>> open_folded_stacks(const std::string& path,
                                                   Workstation& workstation) {
  return open_drawing(path, ExportFormat::folded, workstation);
}

Result<std::unique_ptr<Export>> open_flame_graph(const std::string& path,
                                                 Workstation& workstation) {
  return open_drawing(path, ExportFormat::flame_graph, workstation);
}

} // namespace uprobectl::output
