#include "session/unwound_counts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace uprobectl {

namespace {

constexpr std::size_t most_stacks = 65536;
constexpr std::size_t most_frames = 1U << 20; // of all stacks together: some 64 MiB

std::pair<const stacks::Module*, std::uint64_t> place_of(const stacks::Frame& frame) {
  if (frame.place && frame.place->module != nullptr)
    return {frame.place->module, frame.place->address.value};
  return {nullptr, frame.pc};
}

std::uint64_t in_nanoseconds(UnwoundCounts::Time time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

} // namespace

UnwoundCounts::UnwoundCounts(const AttachRequest& request, std::span<const ProbePoint> points,
                             const Reporter& reporter, ProcessNames name_of)
    : request_(request), points_(points), groups_(probe_groups(points)), reporter_(reporter),
      name_of_(std::move(name_of)), since_ns_(in_nanoseconds(Time::clock::now())) {}

bool UnwoundCounts::Order::operator()(const Key& left, const Key& right) const {
  const auto alone = [](const Key& key) {
    return std::tuple(key.probe, key.on_return, key.pid, key.wholeness);
  };
  if (alone(left) != alone(right)) return alone(left) < alone(right);
  return std::ranges::lexicographical_compare(left.stack->frames, right.stack->frames, {}, place_of,
                                              place_of);
}

bool UnwoundCounts::has_room_for(const stacks::Stack& stack) {
  if (stacks_.size() < most_stacks && frames_ + stack.frames.size() <= most_frames) return true;
  reporter_.warning_once(
      "more different stacks than can be kept: further ones are counted together, "
      "without frames");
  return false;
}

const stacks::Stack* UnwoundCounts::keep(const stacks::Stack& stack) {
  stacks::Stack& kept = stacks_.emplace_back(stack);
  kept.frames.shrink_to_fit();
  frames_ += kept.frames.size();
  return &kept;
}

void UnwoundCounts::add(const Event& event, const stacks::Stack& stack, Wholeness wholeness) {
  Key key{.probe = groups_[static_cast<std::size_t>(event.point - points_.data())],
          .on_return = event.kind == EventKind::on_return && !request_.inspection.pair_calls,
          .pid = request_.inspection.count_by_process ? event.pid : 0,
          .wholeness = wholeness,
          .stack = &stack};
  auto way = ways_.find(key);
  const stacks::Stack without_frames;
  if (way == ways_.end() && !has_room_for(stack)) {
    key.wholeness = Wholeness::whole;
    key.stack = &without_frames;
    way = ways_.find(key);
  }
  if (way == ways_.end()) {
    key.stack = keep(*key.stack);
    way = ways_.emplace(key, Way{.comm = event.comm}).first;
  }
  ++way->second.count;
}

void UnwoundCounts::tell(Time now, Sink& sink) {
  std::vector<std::pair<std::uint64_t, std::pair<const Key, Way>*>> fresh;
  for (auto& way : ways_)
    if (way.second.count > way.second.told)
      fresh.emplace_back(way.second.count - std::exchange(way.second.told, way.second.count), &way);
  std::ranges::sort(fresh, [](const auto& a, const auto& b) {
    const Key& left = a.second->first;
    const Key& right = b.second->first;
    return std::tuple(b.first, left.probe, left.pid) < std::tuple(a.first, right.probe, right.pid);
  });
  if (request_.top && fresh.size() > *request_.top) fresh.resize(*request_.top);
  const std::uint64_t now_ns = in_nanoseconds(now);
  for (const auto& [count, way] : fresh) {
    const auto& [key, met] = *way;
    std::optional<std::string> name;
    if (request_.inspection.count_by_process) name = name_of_(static_cast<pid_t>(key.pid));
    sink.count({.point = &points_[key.probe],
                .on_return = key.on_return,
                .count = count,
                .pid = request_.inspection.count_by_process ? std::optional(key.pid) : std::nullopt,
                .comm = name.value_or(met.comm),
                .unwound = key.stack,
                .rest = rest_of(key.wholeness),
                .since_ns = since_ns_,
                .time_ns = now_ns,
                .of_interval = request_.interval.has_value()});
  }
  sink.settle();
  since_ns_ = now_ns;
}

} // namespace uprobectl
