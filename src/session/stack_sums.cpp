#include "session/sums.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace uprobectl {

std::vector<Sums::Way> Sums::new_ways() {
  std::vector<StackCount> counted = program_.stack_counts();
  // A library that was loaded after its process was looked at.
  std::set<pid_t> incomplete;
  for (const StackCount& each : counted)
    for (const std::uint64_t address : each.frames)
      if (maps_.find(static_cast<pid_t>(each.pid), address) == nullptr)
        incomplete.insert(static_cast<pid_t>(each.pid));
  for (const pid_t pid : incomplete) maps_.look_at(pid);

  std::map<std::tuple<std::uint32_t, std::uint32_t, std::string>, Way> ways;
  for (StackCount& each : counted) {
    if (each.probe >= points_.size()) continue;
    std::uint64_t& before = by_stack_[{each.probe, each.pid, each.frames}];
    const std::uint64_t count = each.count - before;
    before = each.count;
    if (count == 0) continue;
    if (each.frames.empty()) without_stack_ += count;
    auto frames =
        places_.frames(maps_, static_cast<pid_t>(each.pid), each.frames, points_[each.probe]);
    const auto wholeness = // the kernel does not say whether one of just so many is whole
        each.frames.size() >= MOST_FRAMES ? Wholeness::cut_off : Wholeness::whole;
    std::string text;
    for (const StackFrame& frame : frames) text += display_frame(frame) + "\n";
    text += rest_of(wholeness);
    const bool alone = request_.inspection.count_by_process;
    const auto probe = static_cast<std::uint32_t>(groups_[each.probe]);
    Way& way = ways[{probe, alone ? each.pid : 0, std::move(text)}];
    if (way.count == 0)
      way = {.probe = probe,
             .frames = std::move(frames),
             .wholeness = wholeness,
             .pid = alone ? std::optional(each.pid) : std::nullopt,
             .comm = alone ? name_of_(static_cast<pid_t>(each.pid)).value_or(each.comm)
                           : std::move(each.comm),
             .count = 0};
    way.count += count;
  }
  std::vector<Way> result;
  for (auto& [key, way] : ways) {
    files_.add(way.frames, way.wholeness, way.count);
    result.push_back(std::move(way));
  }
  return result;
}

void Sums::tell_stacks(std::uint64_t now_ns, Sink& sink) {
  std::vector<Way> ways = new_ways();
  const auto before = [](const Way& a, const Way& b) {
    return std::tuple(b.count, a.probe, a.pid) < std::tuple(a.count, b.probe, b.pid);
  };
  std::ranges::sort(ways, before);
  if (request_.top && ways.size() > *request_.top) ways.resize(*request_.top);
  for (const Way& way : ways)
    sink.count({.point = &points_[way.probe],
                .on_return = !request_.inspection.on_entry,
                .count = way.count,
                .pid = way.pid,
                .comm = way.comm,
                .stack = way.frames,
                .rest = rest_of(way.wholeness),
                .since_ns = since_ns_,
                .time_ns = now_ns,
                .of_interval = request_.interval.has_value()});
}

} // namespace uprobectl
