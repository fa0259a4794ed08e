// SPDX-License-Identifier: Apache-2.0
#include "trace/probes.hpp"

#include "uprobectl/symbols.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

namespace uprobectl {

Probe& Probes::add(ProbePoint point) {
  probes_.push_back({.point = std::move(point)});
  number(probes_.size() - 1);
  return probes_.back();
}

void Probes::remove_if(const std::function<bool(const Probe&)>& is_removed) {
  if (std::erase_if(probes_, is_removed) == 0) return;
  first_places_.clear();
  for (std::size_t i = 0; i < probes_.size(); ++i) number(i);
}

void Probes::number(std::size_t index) {
  Probe& probe = probes_[index];
  probe.number = index;
  probe.first = index;
  if (!probe.point.static_probe) return;
  const ProbedBinary& binary = *probe.point.binary;
  probe.first = first_places_
                    .emplace(std::tuple(binary.file->identity(), binary.entry_data.value,
                                        *probe.point.symbol),
                             index)
                    .first->second;
}

ProbeTotals probe_totals(std::span<const Probe> probes) {
  ProbeTotals totals;
  for (const Probe& probe : probes) {
    totals.probes += probe.is_first() ? 1 : 0;
    totals.static_places += probe.point.static_probe ? 1 : 0;
  }
  return totals;
}

void add_up_hits(std::span<Probe> probes) {
  for (Probe& probe : probes) {
    if (probe.is_first()) {
      probe.total_hits = probe.hits;
      continue;
    }
    std::optional<std::uint64_t>& total = probes[probe.first].total_hits;
    total = total && probe.hits ? std::optional(*total + *probe.hits) : std::nullopt;
  }
}

// SPDX-License-Identifier: Apache-2.0

namespace {

// Nothing asks `attach` to inflate, so this is to be read only if somebody changes that.
Error not_in_a_file(const ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, there "
                                          "is not a file to probe"}
      .hint("probe the library where the device has installed it, in the app's lib folder");
}

// Whether the places of one FUNCTION can be probed as asked.
Result<void> check_places(const ProbeRequest& question, std::span<const ProbePoint> points) {
  for (const ProbePoint& point : points)
    if (!point.offset) return fail(not_in_a_file(point));
  if (!question.on_return) return {};
  for (const ProbePoint& point : points)
    if (point.static_probe || (point.symbol && point.symbol_offset != 0))
      return fail(Error{ErrorKind::usage, "'" + point.request +
                                              "' is inside a function: a return can only be "
                                              "probed from its start"}
                      .hint("leave out --return, or the offset"));
  return {};
}

// A pattern, or a provider alone.
bool names_several(const std::string& static_probes) {
  return is_pattern(static_probes) || !static_probes.contains(':');
}

class Resolving {
public:
  Resolving(const ProbeSelection& selection, const TargetOptions& options, Output& output)
      : options_(options), how_(selection.resolve_options), excluded_(selection.excluded),
        output_(output) {
    how_.to_probe = true;
  }

  Result<void> resolve(const ProbeRequest& question) {
    // A probe that misses calls is worse than milliseconds of searching; but not for each of many.
    constexpr std::size_t few = 64;
    how_.thorough = question.functions.size() <= few;
    const auto targets = find_targets(question.target, options_);
    if (!targets) return fail(targets.error());
    auto asked = !targets->several        ? ask_one(question, *targets)
                 : question.static_probes ? ask_several_static(question, *targets)
                                          : ask_several(question, *targets);
    report_left_out();
    return asked;
  }

  Resolved take() && { return std::move(resolved_); }

private:
  Result<void> ask_one(const ProbeRequest& question, const Targets& targets) {
    warn(targets.warnings);
    const auto target = Target::open(targets.files.front(), targets.text, options_);
    if (!target) return fail(target.error());
    if (target->architecture_mismatch())
      return fail(Error(*target->architecture_mismatch())
                      .hint("what is mapped there is found with: uprobectl resolve -p PID '*' "
                            "FUNCTION"));
    warn(target->warnings());
    for (const std::string& text : question.functions) {
      auto points = question.static_probes ? static_places(*target, text) : places(*target, text);
      if (points)
        take(question, text, std::move(*points));
      else
        add_failure(question, text, std::move(points).error());
    }
    for (const std::string& source : target->debug_notes().used)
      output_.detail(question.target + ": symbols from " + source);
    for (const std::string& warning : target->debug_notes().warnings)
      warn({question.target + ": " + warning});
    return {};
  }

  Result<void> ask_several(const ProbeRequest& question, const Targets& targets) {
    auto answers = resolve_all(targets, question.functions, options_, how_);
    if (!answers) return fail(std::move(answers).error());
    warn(answers->warnings);
    for (const std::string& detail : answers->details) output_.detail(detail);
    for (FunctionResult& answer : answers->functions) {
      for (Error& error : answer.errors) add_failure(question, answer.request, std::move(error));
      take(question, answer.request, std::move(answer.points));
    }
    return {};
  }

  Result<std::vector<ProbePoint>> places(const Target& target, const std::string& text) const {
    const auto function = parse_function(text);
    if (!function) return fail(function.error());
    return target.resolve(*function, how_);
  }

  // Probes whose semaphore the kernel cannot count up are left out with all their places.
  Result<std::vector<ProbePoint>> static_places(const Target& target, const std::string& text) {
    auto points = target.static_probes(text);
    if (!points) return points;
    std::set<std::string> left_out;
    for (const ProbePoint& point : *points)
      if (point.static_probe->semaphore && !point.semaphore) left_out.insert(*point.symbol);
    if (left_out.empty()) return points;
    const auto is_left_out = [&](const ProbePoint& point) {
      return left_out.contains(*point.symbol);
    };
    if (std::ranges::all_of(*points, is_left_out))
      return fail(
          ErrorKind::unsupported,
          display_name(points->front()) +
              ": its semaphore is in no page of the file, so the kernel cannot count it up");
    std::erase_if(*points, is_left_out);
    for (const std::string& name : left_out)
      output_.detail(
          fmt::format("left out: {} of {}", name, to_string(points->front().binary->path)));
    without_semaphore_ += left_out.size();
    return points;
  }

  void report_left_out() {
    if (const auto count = std::exchange(without_semaphore_, 0); count > 0)
      output_.warn(fmt::format(
          "{} left out: {} in no page of the file, so the kernel cannot count {} up (-v lists {})",
          counted(count, "static probe is", "static probes are"),
          count == 1 ? "its semaphore is" : "their semaphores are", count == 1 ? "it" : "them",
          count == 1 ? "it" : "them"));
  }

  // What one file has no other needs to have.
  Result<void> ask_several_static(const ProbeRequest& question, const Targets& targets) {
    std::vector<std::optional<Error>> reasons(question.functions.size());
    std::vector<bool> found(question.functions.size());
    const auto visited = visit_targets(targets, options_, [&](const Target& target) {
      warn(target.warnings());
      for (std::size_t i = 0; i < found.size(); ++i) {
        auto points = static_places(target, question.functions[i]);
        if (auto whole = check_size(*target.file()); !whole)
          points = fail(std::move(whole).error());
        if (points) {
          found[i] = true;
          take(question, question.functions[i], std::move(*points));
          continue;
        }
        Error error = std::move(points).error();
        const bool is_left_out =
            error.kind == ErrorKind::misaligned ||
            (error.kind == ErrorKind::unsupported && names_several(question.functions[i]));
        if (is_left_out) warn({"left out: " + error.message});
        if (!is_left_out && error.kind != ErrorKind::not_found)
          add_failure(question, question.functions[i], std::move(error));
        else if (!reasons[i])
          reasons[i] = std::move(error);
      }
    });
    if (!visited) return fail(visited.error());
    warn(visited->warnings);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i] && reasons[i])
        add_failure(question, question.functions[i],
                    visited->files == 1
                        ? std::move(*reasons[i])
                        : Error{ErrorKind::not_found,
                                fmt::format("{}: none of its {} files has a static probe '{}'",
                                            targets.text, visited->files, question.functions[i]),
                                std::move(reasons[i]->hints)});
    return {};
  }

  void add_failure(const ProbeRequest& question, const std::string& function, Error error) {
    resolved_.failures.push_back(
        {.target = question.target, .function = function, .error = std::move(error)});
  }

  void take(const ProbeRequest& question, const std::string& function,
            std::vector<ProbePoint> points) {
    if (auto checked = check_places(question, points); !checked) {
      add_failure(question, function, std::move(checked).error());
      return;
    }
    const std::size_t found = points.size();
    std::erase_if(points, [&](const ProbePoint& point) { return is_excluded(point); });
    if (points.empty() && found > 0)
      add_failure(
          question, function,
          Error(ErrorKind::not_found, "'" + function + "': all that it stands for is excluded"));
    output_.gather_warnings(points);
    for (ProbePoint& point : points) {
      const auto [known, is_new] =
          probed_.emplace(std::tuple(point.binary->file->identity(), point.offset->value,
                                     point.static_probe ? *point.symbol : std::string()),
                          resolved_.probes.size());
      if (is_new) resolved_.probes.add(std::move(point));
      for (const bool on_return : {false, true})
        if (on_return ? question.on_return : question.on_entry)
          add_site(resolved_.probes[known->second],
                   {.program = question.program,
                    .on_return = on_return,
                    .by_trampoline = on_return && question.by_trampoline});
    }
  }

  // The kernel would fire twice for a place that two FUNCTIONs name.
  static void add_site(Probe& probe, const PlannedSite& site) {
    if (std::ranges::none_of(probe.sites, [&](const PlannedSite& known) {
          return known.program == site.program && known.on_return == site.on_return;
        }))
      probe.sites.push_back(site);
  }

  // Said once, however many places it is true of.
  void warn(const std::vector<std::string>& warnings) { output_.warn_once(warnings); }

  bool is_excluded(const ProbePoint& point) const {
    return std::ranges::any_of(excluded_, [&](const std::string& pattern) {
      return (point.symbol && matches_pattern(pattern, *point.symbol)) ||
             (point.demangled && matches_pattern(pattern, *point.demangled));
    });
  }

  const TargetOptions& options_;
  ResolveOptions how_;
  const std::vector<std::string>& excluded_;
  Output& output_;
  Resolved resolved_;
  std::size_t without_semaphore_ = 0; // static probes that are left out
  // By file and offset the number of the probe; two static probes may be at one place.
  std::map<std::tuple<FileIdentity, std::uint64_t, std::string>, std::size_t> probed_;
};

// The instruction by which the function of the point is left.
ProbeEffect effect_of_exit(const ProbePoint& point, FileOffset place) {
  const auto arch = code_arch(point.binary->machine);
  const Bytes file = point.binary->file->bytes();
  if (!arch || place.value >= file.size()) return {};
  const Bytes rest = file.subspan(place.value);
  return probe_effect(*arch, rest.first(std::min<std::uint64_t>(rest.size(), max_instruction_size)),
                      0, CodeExtent::part);
}

// Not the function's first instruction besides.
bool is_exit_only(const PlannedSite& site) { return site.on_return && site.exit; }

// Why a site must not be probed.
std::optional<Error> trouble_of(const PlannedSite& site, const ProbePoint& point) {
  if (!is_exit_only(site)) return probe_error(point);
  const ProbeEffect effect = effect_of_exit(point, site.exit->offset);
  if (effect.kind == ProbeEffect::Kind::safe) return std::nullopt;
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
  Leaving(Resolved& resolved, Output& output) : resolved_(resolved), output_(output) {}

  void run() {
    find();
    if (troubled_.empty()) return;
    count();
    tell();
    resolved_.probes.remove_if([&](const Probe& probe) { return troubled_.contains(probe.first); });
  }

private:
  struct Trouble {
    Error error;
    std::string_view reason;
  };

  void find() {
    for (const Probe& probe : resolved_.probes)
      for (const PlannedSite& site : probe.sites) {
        if (troubled_.contains(probe.first)) break;
        if (auto error = trouble_of(site, probe.point))
          troubled_.emplace(probe.first, Trouble{std::move(*error), reason_of(site, probe.point)});
      }
  }

  static PatternKey key_of(const ProbePoint& point) {
    return {point.binary->target, point.request};
  }

  // How many probes each pattern stands for.
  void count() {
    for (const Probe& probe : resolved_.probes)
      if (probe.is_first() && is_of_pattern(probe.point)) ++asked_[key_of(probe.point)];
  }

  void tell() {
    std::map<PatternKey, std::map<std::string_view, std::vector<const ProbePoint*>>> left_out;
    std::map<PatternKey, std::size_t> total;
    for (auto& [first, trouble] : troubled_) {
      const ProbePoint& point = resolved_.probes[first].point;
      if (!is_of_pattern(point)) {
        resolved_.failures.push_back({.target = point.binary->target,
                                      .function = point.request,
                                      .error = std::move(trouble.error)});
        continue;
      }
      output_.detail("left out: " + trouble.error.message);
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
    output_.warn(fmt::format("{}: {} left out of '{}': {}", key.first, which, key.second, reason));
  }

  Resolved& resolved_;
  Output& output_;
  std::map<std::size_t, Trouble> troubled_; // by Probe::first
  std::map<PatternKey, std::size_t> asked_;
};

} // namespace

Result<Resolved> resolve_questions(std::span<const ProbeRequest> questions,
                                   const ProbeSelection& selection, const TargetOptions& options,
                                   Output& output) {
  Resolving resolving(selection, options, output);
  Result<void> asked;
  for (const ProbeRequest& question : questions)
    if (asked = resolving.resolve(question); !asked) break;
  output.report_repeated();
  if (!asked) return fail(std::move(asked).error());
  return std::move(resolving).take();
}

Result<void> check_failures(std::size_t functions, const ProbeSelection& selection,
                            const Resolved& resolved, Output& output) {
  if (resolved.failures.empty()) return {};
  const bool goes_on = selection.keep_going && !resolved.probes.empty();
  if (functions == 1 && resolved.failures.size() == 1 && !goes_on)
    return fail(resolved.failures.front().error);
  // Several files of one TARGET can each have a reason.
  std::set<std::pair<std::string_view, std::string_view>> failed;
  for (const Failure& failure : resolved.failures) {
    failed.emplace(failure.target, failure.function);
    output.fail(failure.error, failure.target, failure.function);
  }
  if (goes_on) return {};
  Error error{ErrorKind::not_found,
              fmt::format("{} of {} {} cannot be probed, so nothing was attached", failed.size(),
                          functions, selection.static_probes ? "static probes" : "functions")};
  if (resolved.probes.empty()) return fail(std::move(error));
  return fail(std::move(error).hint("attach the others with --keep-going"));
}

bool is_of_pattern(const ProbePoint& point) {
  return is_pattern(point.request) || (point.static_probe && !point.request.contains(':'));
}

void skip_unprobeable(Resolved& resolved, Output& output) { Leaving(resolved, output).run(); }

} // namespace uprobectl
