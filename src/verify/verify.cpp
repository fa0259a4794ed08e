// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>

namespace uprobectl {

namespace {

using Change = DriftRecord::Change;

bool same_name(const RecordedMatch& then, const ProbePoint& now) {
  return then.symbol == now.symbol && then.version == now.version &&
         then.symbol_offset == now.symbol_offset;
}

std::string hex_text(std::uint64_t value) { return fmt::format("{:#x}", value); }

// Which of the points now each recorded one has become; now.size() where none. Of several places
// with one name the first that is left: both lists are in order of offset. The places of a static
// probe, of which code that is taken away leaves the others, are paired with themselves first.
std::vector<std::size_t> pairs_of(std::span<const RecordedMatch> then,
                                  std::span<const ProbePoint> now, Pairing pairing) {
  std::vector<std::size_t> pairs(then.size(), now.size());
  std::vector<bool> paired(now.size(), false);
  const auto pair = [&](std::size_t old, bool same_place) {
    for (std::size_t i = 0; i < now.size() && pairs[old] == now.size(); ++i) {
      if (paired[i] || !same_name(then[old], now[i]) || !are_paired(then[old], now[i], pairing))
        continue;
      if (same_place && then[old].image_offset != now[i].image_offset.value) continue;
      pairs[old] = i;
      paired[i] = true;
    }
  };
  for (std::size_t old = 0; old < then.size(); ++old)
    if (then[old].static_probe) pair(old, true);
  for (std::size_t old = 0; old < then.size(); ++old) pair(old, false);
  return pairs;
}

// What differs of a place, and of a static probe's semaphore and arguments. A semaphore is compared
// by its address: that it went along with its archive entry the place tells.
std::vector<DriftRecord> differences(const RecordedMatch& old, const ProbePoint& point,
                                     const DriftRecord& about) {
  std::vector<DriftRecord> drifts;
  const auto add = [&](Change change, std::string recorded, std::string found) {
    DriftRecord drift = about;
    drift.change = change;
    drift.recorded = std::move(recorded);
    drift.found = std::move(found);
    drift.further = !drifts.empty();
    drifts.push_back(std::move(drift));
  };
  const bool same_image_place = point.image_offset.value == old.image_offset;
  const bool same_place = point.offset ? old.offset == point.offset->value : !old.offset;
  if (!same_image_place || !same_place)
    add(same_image_place ? Change::archive_moved : Change::function_moved,
        hex_text(old.offset.value_or(old.image_offset)), hex_text(display_offset(point)));
  if (!old.static_probe || !point.static_probe) return drifts;
  const StaticProbe& probe = *point.static_probe;
  const auto semaphore = probe.semaphore ? std::optional(probe.semaphore->value) : std::nullopt;
  const auto shown = [](const std::optional<std::uint64_t>& address) {
    return address ? hex_text(*address) : "none";
  };
  if (old.static_probe->semaphore_address != semaphore)
    add(Change::semaphore_moved, shown(old.static_probe->semaphore_address), shown(semaphore));
  if (old.static_probe->raw_arguments != probe.raw_arguments)
    add(Change::arguments, old.static_probe->raw_arguments, probe.raw_arguments);
  return drifts;
}

// Where a recorded match is asked again: in the given file, at the entry the record names or with
// the pattern that found it.
std::string place_of(const RecordedMatch& match, const std::optional<std::string>& given) {
  if (!given) return match.target;
  if (match.entry && match.target.ends_with("!/" + *match.entry))
    return *given + "!/" + *match.entry;
  for (const BinaryPath& reading : parse_candidates(match.target))
    if (match.entry && reading.entry && matches_pattern(*reading.entry, *match.entry))
      return *given + "!/" + *reading.entry;
  return *given;
}

// A request that finds nothing any more, as against a file that cannot be asked.
bool means_gone(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported ||
         error.kind == ErrorKind::no_code;
}

// How the request was asked, as far as its matches show: --all for several places of a name,
// --clones for names that it does not hold itself.
ResolveOptions options_of(std::span<const RecordedMatch> then, bool unsafe) {
  ResolveOptions options;
  options.unsafe = unsafe;
  // Several places of a name in one file; one in each of several files is no more than asked for.
  std::set<std::pair<std::optional<std::string>, std::optional<std::string>>> files;
  for (const RecordedMatch& match : then)
    options.all = options.all || !files.emplace(match.file, match.entry).second;
  options.clones = std::ranges::any_of(then, [](const RecordedMatch& match) {
    return match.symbol && is_clone(*match.symbol) && !match.request.starts_with(*match.symbol);
  });
  return options;
}

class Verifier {
public:
  Verifier(Output& output, const VerifyRequest& request)
      : output_(output), options_(request.target_options), unsafe_(request.unsafe) {}

  void verify(const std::string& place, std::span<const RecordedMatch> then) {
    const std::string& request = then.front().request;
    const Result<Targets>& targets = find(place);
    if (!targets) return; // reported once, when they were looked for
    // What was recorded of a compressed library is asked of it as it was then.
    TargetOptions where = options_;
    where.extracted = where.extracted || std::ranges::any_of(then, [](const RecordedMatch& match) {
                        return !match.offset.has_value();
                      });
    const ResolveOptions how = options_of(then, unsafe_);
    const Result<Target>* one = targets->several ? nullptr : &open(place, *targets, where);
    if (one != nullptr && !*one) return;
    auto now = then.front().static_probe
                   ? (one == nullptr ? ask_several_static(*targets, request, where)
                                     : (*one)->static_probes(request))
               : one == nullptr ? ask_several(*targets, request, where, how)
                                : ask_one(**one, request, how);
    if (!now && !means_gone(now.error())) {
      output_.fail(now.error(), place, request);
      return;
    }
    if (!now) {
      ++outcome_.unresolved;
      now.emplace();
    }
    const Pairing pairing = targets->several ? Pairing::in_each_file : Pairing::in_one_file;
    compare_build_ids(place, then, *now, pairing);
    for (DriftRecord& drift : compare_matches(then, *now, place, pairing)) tell(drift);
    for (ProbePoint& point : *now) outcome_.points.push_back(std::move(point));
  }

  VerifyOutcome take() { return std::move(outcome_); }

private:
  const Result<Targets>& find(const std::string& place) {
    const auto known = found_.find(place);
    if (known != found_.end()) return known->second;
    const auto& targets = found_.emplace(place, find_targets(place, options_)).first->second;
    if (!targets) output_.fail(targets.error(), place);
    return targets;
  }

  const Result<Target>& open(const std::string& place, const Targets& targets,
                             const TargetOptions& where) {
    const std::pair key(place, where.extracted);
    const auto known = opened_.find(key);
    if (known != opened_.end()) return known->second;
    const auto& target =
        opened_.emplace(key, Target::open(targets.files.front(), place, where)).first->second;
    if (!target) output_.fail(target.error(), place);
    return target;
  }

  static Result<std::vector<ProbePoint>> ask_one(const Target& target, const std::string& request,
                                                 const ResolveOptions& how) {
    const auto function = parse_function(request);
    return function ? target.resolve(*function, how) : fail(function.error());
  }

  Result<std::vector<ProbePoint>> ask_several(const Targets& targets, const std::string& request,
                                              const TargetOptions& where,
                                              const ResolveOptions& how) {
    auto answers = resolve_all(targets, {&request, 1}, where, how);
    if (!answers) return fail(std::move(answers).error());
    output_.warn_once(answers->warnings);
    FunctionResult& answer = answers->functions.front();
    if (answer.points.empty() && !answer.errors.empty())
      return fail(std::move(answer.errors.front()));
    for (const Error& error : answer.errors) output_.fail(error, targets.text, request);
    return std::move(answer.points);
  }

  // Files without the probe are no failure where another has it.
  Result<std::vector<ProbePoint>> ask_several_static(const Targets& targets,
                                                     const std::string& request,
                                                     const TargetOptions& where) {
    std::vector<ProbePoint> points;
    std::optional<Error> lacking;
    auto visited = visit_targets(targets, where, [&](const Target& target) {
      auto found = target.static_probes(request);
      if (found)
        std::ranges::move(*found, std::back_inserter(points));
      else if (!lacking)
        lacking = std::move(found).error();
    });
    if (!visited) return fail(std::move(visited).error());
    output_.warn_once(visited->warnings);
    if (points.empty() && lacking) return fail(std::move(*lacking));
    return points;
  }

  // Once for each image, however many of its functions were recorded.
  void compare_build_ids(const std::string& place, std::span<const RecordedMatch> then,
                         std::span<const ProbePoint> now, Pairing pairing) {
    for (const ProbePoint& point : now) {
      const auto old = std::ranges::find_if(
          then, [&](const RecordedMatch& match) { return are_paired(match, point, pairing); });
      if (old == then.end() || old->build_id == point.binary->build_id) continue;
      const std::string image =
          pairing == Pairing::in_one_file ? place : to_string(point.binary->path);
      if (!other_builds_.insert(image).second) continue;
      tell({.change = DriftRecord::Change::build_id,
            .target = image,
            .request = std::nullopt,
            .symbol = std::nullopt,
            .recorded = old->build_id,
            .found = point.binary->build_id});
    }
  }

  void tell(const DriftRecord& drift) {
    output_.write(drift);
    outcome_.changes.push_back(drift.change);
    const bool of_a_match =
        drift.change != DriftRecord::Change::build_id && drift.change != DriftRecord::Change::added;
    if (of_a_match && !drift.further) ++outcome_.changed;
  }

  Output& output_;
  const TargetOptions& options_;
  bool unsafe_;
  std::map<std::string, Result<Targets>> found_;
  // Those that are one file, by place and --extracted.
  std::map<std::pair<std::string, bool>, Result<Target>> opened_;
  std::set<std::string> other_builds_;
  VerifyOutcome outcome_;
};

} // namespace

bool are_paired(const RecordedMatch& then, const ProbePoint& now, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return true;
  return then.entry == now.binary->path.entry && (then.entry || then.file == now.binary->real_path);
}

std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> then,
                                         std::span<const ProbePoint> now, const std::string& target,
                                         Pairing pairing) {
  std::vector<DriftRecord> drifts;
  const std::vector<std::size_t> pairs = pairs_of(then, now, pairing);
  std::vector<bool> paired(now.size(), false);
  for (std::size_t i = 0; i < then.size(); ++i) {
    const RecordedMatch& old = then[i];
    DriftRecord drift{.change = Change::gone,
                      .target = target,
                      .request = old.request,
                      .symbol = old.symbol,
                      .recorded = hex_text(old.offset.value_or(old.image_offset)),
                      .found = std::nullopt};
    if (pairs[i] == now.size()) {
      drifts.push_back(std::move(drift));
      continue;
    }
    paired[pairs[i]] = true;
    const ProbePoint& point = now[pairs[i]];
    std::ranges::move(differences(old, point, drift), std::back_inserter(drifts));
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (paired[i]) continue;
    drifts.push_back({.change = Change::added,
                      .target = target,
                      .request = now[i].request,
                      .symbol = now[i].symbol,
                      .recorded = std::nullopt,
                      .found = hex_text(display_offset(now[i]))});
  }
  return drifts;
}

VerifyOutcome verify_matches(const VerifyRequest& request, Output& output) {
  Verifier verifier(output, request);
  // The matches of one request stand together, as resolve has written them.
  const std::vector<RecordedMatch>& all = request.recorded;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && all[end].target == all[begin].target &&
           all[end].request == all[begin].request &&
           all[end].static_probe.has_value() == all[begin].static_probe.has_value())
      ++end;
    verifier.verify(place_of(all[begin], request.target),
                    std::span(all).subspan(begin, end - begin));
    begin = end;
  }
  return verifier.take();
}

} // namespace uprobectl
