#include "session/probeable_sites.hpp"

#include "resolve/instruction_set.hpp"
#include "session/counted.hpp"
#include "session/probe_groups.hpp"
#include "uprobectl/symbols.hpp"

#include <fmt/format.h>
#include <map>
#include <tuple>

namespace uprobectl {

namespace {

// The instruction by which the function of the point is left.
ProbeEffect effect_of_exit(const ProbePoint& point, FileOffset place) {
  const auto set = instruction_set(point.binary->machine);
  const Bytes file = point.binary->file->bytes();
  if (!set || place.value >= file.size()) return {};
  const Bytes rest = file.subspan(place.value);
  return probe_effect(*set, rest.first(std::min<std::uint64_t>(rest.size(), instruction_window)), 0,
                      CodeExtent::part);
}

// Not the function's first instruction besides.
bool is_exit_only(const PlannedSite& site) { return site.on_return && site.exit; }

// Why a site must not be probed.
std::optional<Error> trouble_of(const PlannedSite& site, const ProbePoint& point) {
  if (!is_exit_only(site)) return probe_trouble(point);
  const ProbeEffect effect = effect_of_exit(point, site.exit->offset);
  if (effect.kind == ProbeEffect::Kind::right) return std::nullopt;
  return Error{ErrorKind::unsupported,
               fmt::format("{}: '{}' cannot be probed where it is left (at {:#x}): {}",
                           to_string(point.binary->path), display_name(point),
                           site.exit->offset.value, effect.reason)};
}

std::string_view reason_of(const PlannedSite& site, const ProbePoint& point) {
  return is_exit_only(site) ? effect_of_exit(point, site.exit->offset).reason : point.effect.reason;
}

// What a pattern stands for in one file.
using PatternKey = std::pair<std::string, std::string>; // TARGET and FUNCTION as typed

class Leaving {
public:
  Leaving(Resolved& resolved, const Reporter& reporter)
      : resolved_(resolved), reporter_(reporter), groups_(probe_groups(resolved.points)) {}

  void run() {
    find();
    if (troubled_.empty()) return;
    count();
    tell();
    std::set<std::size_t> dropped;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (troubled_.contains(groups_[i])) dropped.insert(i);
    drop_points(dropped, resolved_);
  }

private:
  struct Trouble {
    Error error;
    std::string_view reason;
  };

  void find() {
    for (const PlannedSite& site : resolved_.sites) {
      const std::size_t group = groups_[site.point];
      if (troubled_.contains(group)) continue;
      const ProbePoint& point = resolved_.points[site.point];
      if (auto error = trouble_of(site, point))
        troubled_.emplace(group, Trouble{std::move(*error), reason_of(site, point)});
    }
  }

  static PatternKey key_of(const ProbePoint& point) {
    return {point.binary->target, point.request};
  }

  // How many probes each pattern stands for.
  void count() {
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (is_first(groups_, i) && is_of_pattern(resolved_.points[i]))
        ++asked_[key_of(resolved_.points[i])];
  }

  void tell() {
    std::map<PatternKey, std::map<std::string_view, std::vector<const ProbePoint*>>> left_out;
    std::map<PatternKey, std::size_t> total;
    for (auto& [index, trouble] : troubled_) {
      const ProbePoint& point = resolved_.points[index];
      if (!is_of_pattern(point)) {
        resolved_.failures.push_back({.target = point.binary->target,
                                      .function = point.request,
                                      .error = std::move(trouble.error)});
        continue;
      }
      reporter_.detail("left out: " + trouble.error.message);
      left_out[key_of(point)][trouble.reason].push_back(&point);
      ++total[key_of(point)];
    }
    for (const auto& [key, reasons] : left_out) {
      for (const auto& [reason, points] : reasons) warn(key, reason, points);
      if (total[key] != asked_[key]) continue;
      resolved_.failures.push_back(
          {.target = key.first,
           .function = key.second,
           .error = Error{
               ErrorKind::unsupported,
               fmt::format("{}: nothing that '{}' matches can be probed", key.first, key.second)}});
    }
  }

  void warn(const PatternKey& key, std::string_view reason,
            std::span<const ProbePoint* const> points) const {
    const std::string_view what = points.front()->static_probe ? "static probes" : "functions";
    const std::string which =
        points.size() == 1 ? fmt::format("'{}' is", display_name(*points.front()))
                           : fmt::format("{} of {} {} are", points.size(), asked_.at(key), what);
    reporter_.warning(
        fmt::format("{}: {} left out of '{}': {}", key.first, which, key.second, reason));
  }

  Resolved& resolved_;
  const Reporter& reporter_;
  std::vector<std::size_t> groups_;
  std::map<std::size_t, Trouble> troubled_; // by the first point of the probe
  std::map<PatternKey, std::size_t> asked_;
};

} // namespace

bool is_of_pattern(const ProbePoint& point) {
  return is_pattern(point.request) || (point.static_probe && !point.request.contains(':'));
}

void leave_out_unprobeable(Resolved& resolved, const Reporter& reporter) {
  Leaving(resolved, reporter).run();
}

} // namespace uprobectl
