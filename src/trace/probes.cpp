// SPDX-License-Identifier: Apache-2.0
#include "trace/probes.hpp"

#include "events/ready_spans.hpp"
#include "resolve/instructions.hpp"
#include "resolve/source_file.hpp"
#include "trace/binary_cache.hpp"
#include "trace/planned_probes.hpp"
#include "trace/self_checks.hpp"
#include "trace/skipped_probes.hpp"
#include "uprobectl/symbols.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

namespace uprobectl::trace {

Probe& Probes::add(resolve::ProbePoint point) {
  probes_.push_back({.point = std::move(point)});
  number(probes_.size() - 1);
  return probes_.back();
}

void Probes::remove_if(const std::function<bool(const Probe&)>& is_removed) {
  if (std::erase_if(probes_, is_removed) == 0) return;
  first_points_.clear();
  for (std::size_t i = 0; i < probes_.size(); ++i) number(i);
}

void Probes::number(std::size_t index) {
  Probe& probe = probes_[index];
  probe.number = index;
  probe.first = index;
  if (!probe.point.static_probe) return;
  const resolve::ProbedBinary& binary = *probe.point.binary;
  probe.first = first_points_
                    .emplace(std::tuple(binary.file->identity(), binary.entry_data.value,
                                        *probe.point.symbol),
                             index)
                    .first->second;
}

// Declared in trace.hpp.
std::vector<std::string> list_targets(std::span<const resolve::TargetedFunction> functions) {
  std::vector<std::string> targets;
  for (const resolve::TargetedFunction& each : functions)
    if (std::ranges::find(targets, each.target) == targets.end()) targets.push_back(each.target);
  return targets;
}

std::vector<ProbeRequest> split_by_target(std::span<const resolve::TargetedFunction> functions,
                                          const ProbeRequest& model) {
  std::vector<ProbeRequest> requests;
  for (const resolve::TargetedFunction& each : functions) {
    auto request = std::ranges::find(requests, each.target, &ProbeRequest::target);
    if (request == requests.end()) {
      requests.push_back(model);
      request = std::prev(requests.end());
      request->target = each.target;
    }
    request->functions.push_back(each.function);
  }
  return requests;
}

ProbeTotals probe_totals(std::span<const Probe> probes) {
  ProbeTotals totals;
  for (const Probe& probe : probes) {
    if (!probe.is_recorded) continue;
    totals.probes += probe.is_first() ? 1 : 0;
    totals.static_probes += probe.is_first() && probe.point.static_probe ? 1 : 0;
    totals.static_points += probe.point.static_probe ? 1 : 0;
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

namespace {

// `attach` never inflates files, so this is an internal safeguard.
Error compressed_error(const resolve::ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, so "
                                          "it cannot be probed"}
      .hint("probe the library where the device has installed it, in the app's lib folder");
}

// Checks that the points of one FUNCTION can be probed as requested.
Result<void> check_points(const ProbeRequest& probe_request, const ProbeSelection& selection,
                          std::span<const resolve::ProbePoint> points) {
  for (const resolve::ProbePoint& point : points)
    if (!point.offset) return fail(compressed_error(point));
  for (const resolve::ProbePoint& point : points)
    if (auto error = nested_error(point)) return fail(std::move(*error));
  if (!probe_request.on_return || selection.returns_are_optional) return {};
  for (const resolve::ProbePoint& point : points)
    if (auto error = find_no_return(point)) return fail(std::move(*error));
  return {};
}

// Returns true for a pattern or a provider without a name.
bool may_match_several(const std::string& static_probes) {
  return symbols::is_pattern(static_probes) || !static_probes.contains(':');
}

// Counts the TARGETs. Unless `with_triggers`, ignores those of triggers.
std::size_t count_targets(std::span<const ProbeRequest> probe_requests, bool with_triggers) {
  std::set<std::string_view> targets;
  for (const ProbeRequest& each : probe_requests)
    if (each.triggers == 0 || with_triggers) targets.insert(each.target);
  return targets.size();
}

std::size_t count_functions(std::span<const ProbeRequest> probe_requests) {
  std::size_t functions = 0;
  for (const ProbeRequest& each : probe_requests) functions += each.functions.size();
  return functions;
}

// Resolves the requests of a run one after the other, and collects their probes and failures.
class RequestResolver {
public:
  RequestResolver(std::span<const ProbeRequest> probe_requests, const ProbeSelection& selection,
                  const resolve::TargetOptions& options, BinaryCache& binaries,
                  output::Output& output)
      : selection_(selection), options_(options),
        shows_files_(count_targets(probe_requests, false) > 1),
        resolve_options_(selection.resolve_options), binaries_(binaries), output_(output) {
    resolve_options_.to_probe = true;
    // Warn of clones and folded functions, too, unless there are many FUNCTIONs: this takes
    // milliseconds for each.
    constexpr std::size_t few = 64;
    resolve_options_.thorough = count_functions(probe_requests) <= few;
    resolved_.replaced_nops = resolve_options_.replaced_nops;
  }

  Result<void> resolve(const ProbeRequest& probe_request) {
    if (selection_.plan) return find_in_plan(*selection_.plan, probe_request);
    if (!found_ || found_->targets.text != probe_request.target ||
        found_->for_static_probes != probe_request.static_probes) {
      auto targets = find_targets(probe_request.target, options_);
      if (!targets) return fail(targets.error());
      // The points keep the file open, but the debug information of many would not fit into memory.
      if (found_ && found_->file)
        if (const auto& opened = found_->file->binary().contents) opened->close_debug_info();
      found_.emplace(std::move(*targets), probe_request.static_probes);
    }
    const resolve::Targets& targets = found_->targets;
    auto result = !targets.several              ? resolve_in_file(probe_request)
                  : probe_request.static_probes ? resolve_static_in_files(probe_request, targets)
                                                : resolve_in_files(probe_request, targets);
    report_without_semaphore();
    return result;
  }

  void add_failures(const ProbeRequest& probe_request, const Error& error) {
    for (const std::string& function : probe_request.functions)
      add_failure(probe_request, function, error);
  }

  // Warns of patterns of --exclude whose TARGET, file or version matches nothing. Another pattern
  // that leaves out nothing is a detail: scripts have them for functions that some builds lack.
  // What a plan leaves out has been left out when it was made.
  void warn_of_useless_exclusions() const {
    if (!has_points_) return;
    const std::vector<std::string> of_plan =
        selection_.plan ? selection_.plan->options : std::vector<std::string>();
    for (const std::string& pattern : selection_.excluded_names) {
      if (useful_exclusions_.contains(pattern)) continue;
      const bool is_of_plan = std::ranges::find(of_plan, "--exclude=" + pattern) != of_plan.end();
      if (is_of_plan || (has_planned_points_ && !selection_.plan)) continue;
      if (const auto target = other_targets_.find(pattern); target != other_targets_.end())
        output_.warn(fmt::format("--exclude '{}' leaves out nothing: no probed file is '{}'",
                                 pattern, target->second));
      else if (!pattern.contains('@'))
        output_.detail(fmt::format("--exclude '{}' leaves out nothing", pattern));
      else if (!has_planned_points_)
        output_.warn(fmt::format("--exclude '{}' leaves out nothing: no probed function of this "
                                 "name has this source file or version",
                                 pattern));
      else
        output_.warn(fmt::format("--exclude '{}' leaves out nothing: source files are known where "
                                 "the plan is written",
                                 pattern));
    }
  }

  ResolvedProbes take_result() && { return std::move(resolved_); }

private:
  // The files of the last TARGET. They are kept because each program of an object has a request of
  // its own for the same TARGET.
  struct FoundTargets {
    FoundTargets(resolve::Targets&& found, bool is_for_static_probes)
        : targets(std::move(found)), for_static_probes(is_for_static_probes) {}

    resolve::Targets targets;
    bool for_static_probes;
    std::optional<resolve::Target> file;   // the only one, once it was opened
    std::optional<plans::AttachPlan> plan; // of the workstation, for this file
    std::size_t reported_sources = 0;
  };

  Result<void> find_in_plan(const plans::AttachPlan& plan, const ProbeRequest& probe_request) {
    const std::vector<std::string>& functions = probe_request.functions;
    has_planned_points_ = true;
    auto found = find_planned(plan, probe_request.target, functions, options_, resolve_options_,
                              binaries_, output_);
    if (!found) return fail(std::move(found).error());
    warn(found->warnings);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      if (found->errors[i])
        add_failure(probe_request, functions[i], std::move(*found->errors[i]));
      else if (found->points[i].empty())
        add_failure(
            probe_request, functions[i],
            {ErrorKind::not_found, "the plan has no probe point of '" + functions[i] + "'"});
      add_points(probe_request, functions[i], std::move(found->points[i]));
    }
    return {};
  }

  // Opens the only file that was found, and asks the workstation for its attach plan.
  Result<void> open_and_request_plan(FoundTargets& found) {
    const resolve::Targets& targets = found.targets;
    warn(targets.warnings);
    auto file = resolve::Target::open(targets.files.front(), targets.text, options_);
    if (!file) return fail(std::move(file).error());
    if (file->architecture_mismatch())
      return fail(Error(*file->architecture_mismatch())
                      .hint("find the mapped file with: uprobectl resolve -p PID '*' "
                            "FUNCTION"));
    warn(file->warnings());
    if (file->image() != nullptr && !found.for_static_probes) {
      auto plan = request_plan(*file->image(), targets.text, output_.workstation());
      if (!plan) return fail(std::move(plan).error());
      found.plan = std::move(*plan);
    }
    found.file.emplace(std::move(*file));
    return {};
  }

  Result<void> resolve_in_file(const ProbeRequest& probe_request) {
    if (!found_->file)
      if (auto opened = open_and_request_plan(*found_); !opened) return opened;
    if (found_->plan) return find_in_plan(*found_->plan, probe_request);
    const resolve::Target& target = *found_->file;
    for (const std::string& text : probe_request.functions) {
      auto points = probe_request.static_probes
                        ? static_points(target, text)
                        : function_points(target, text, how_to_resolve(probe_request));
      if (points)
        add_points(probe_request, text, std::move(*points));
      else
        add_failure(probe_request, text, std::move(points).error());
    }
    const elf::SymbolSources& symbols = target.symbol_sources();
    for (std::size_t& i = found_->reported_sources; i < symbols.used.size(); ++i)
      output_.detail(probe_request.target + ": symbols from " + symbols.used[i]);
    for (const std::string& warning : symbols.warnings)
      warn({probe_request.target + ": " + warning});
    return {};
  }

  Result<void> resolve_in_files(const ProbeRequest& probe_request,
                                const resolve::Targets& targets) {
    auto results =
        resolve_all(targets, probe_request.functions, options_, how_to_resolve(probe_request));
    if (!results) return fail(std::move(results).error());
    warn(results->warnings);
    for (const std::string& detail : results->details) output_.detail(detail);
    for (resolve::FunctionResult& result : results->functions) {
      for (Error& error : result.errors)
        add_failure(probe_request, result.request, std::move(error));
      add_points(probe_request, result.request, std::move(result.points));
    }
    return {};
  }

  // Nobody sees what is suggested for an optional function, and it takes a pass over the debug
  // information for each of them.
  resolve::ResolveOptions how_to_resolve(const ProbeRequest& probe_request) const {
    resolve::ResolveOptions how = resolve_options_;
    if (probe_request.is_optional) how.suggest = how.other_spellings = false;
    return how;
  }

  static Result<std::vector<resolve::ProbePoint>>
  function_points(const resolve::Target& target, const std::string& text,
                  const resolve::ResolveOptions& how) {
    const auto function = resolve::parse_function(text);
    if (!function) return fail(function.error());
    return target.resolve(*function, how);
  }

  // Skips probes with all their locations if the kernel cannot increment their semaphore.
  Result<std::vector<resolve::ProbePoint>> static_points(const resolve::Target& target,
                                                         const std::string& text) {
    auto points = target.static_probes(text, resolve_options_);
    if (!points) return points;
    std::set<std::string> skipped;
    for (const resolve::ProbePoint& point : *points)
      if (point.static_probe->semaphore && !point.semaphore) skipped.insert(*point.symbol);
    if (skipped.empty()) return points;
    const auto is_skipped = [&](const resolve::ProbePoint& point) {
      return skipped.contains(*point.symbol);
    };
    if (std::ranges::all_of(*points, is_skipped))
      return fail(ErrorKind::unsupported,
                  display_name(points->front()) +
                      ": its semaphore is not in a mapped page of the file, so the kernel cannot "
                      "increment it");
    std::erase_if(*points, is_skipped);
    for (const std::string& name : skipped)
      output_.detail(
          fmt::format("skipped: {} of {}", name, to_string(points->front().binary->path)));
    without_semaphore_ += skipped.size();
    return points;
  }

  void report_without_semaphore() {
    if (const auto count = std::exchange(without_semaphore_, 0); count > 0)
      output_.warn(fmt::format(
          "{} skipped: {} not in a mapped page of the file, so the kernel cannot increment {} "
          "(-v lists {})",
          counted(count, "static probe is", "static probes are"),
          count == 1 ? "its semaphore is" : "their semaphores are", count == 1 ? "it" : "them",
          count == 1 ? "it" : "them"));
  }

  // It is enough if one of the files has the static probe.
  Result<void> resolve_static_in_files(const ProbeRequest& probe_request,
                                       const resolve::Targets& targets) {
    std::vector<std::optional<Error>> reasons(probe_request.functions.size());
    std::vector<bool> found(probe_request.functions.size());
    const auto visited = visit_targets(targets, options_, [&](const resolve::Target& target) {
      warn(target.warnings());
      for (std::size_t i = 0; i < found.size(); ++i) {
        auto points = static_points(target, probe_request.functions[i]);
        if (auto whole = check_size(*target.file()); !whole)
          points = fail(std::move(whole).error());
        if (points) {
          found[i] = true;
          add_points(probe_request, probe_request.functions[i], std::move(*points));
          continue;
        }
        Error error = std::move(points).error();
        const bool is_skipped =
            error.kind == ErrorKind::misaligned ||
            (error.kind == ErrorKind::unsupported && may_match_several(probe_request.functions[i]));
        if (is_skipped) warn({"skipped: " + error.message});
        if (!is_skipped && error.kind != ErrorKind::not_found)
          add_failure(probe_request, probe_request.functions[i], std::move(error));
        else if (!reasons[i])
          reasons[i] = std::move(error);
      }
    });
    if (!visited) return fail(visited.error());
    warn(visited->warnings);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i] && reasons[i])
        add_failure(
            probe_request, probe_request.functions[i],
            visited->files == 1
                ? std::move(*reasons[i])
                : Error{ErrorKind::not_found,
                        fmt::format("{}: none of its {} files has a static probe '{}'",
                                    targets.text, visited->files, probe_request.functions[i]),
                        std::move(reasons[i]->hints)});
    return {};
  }

  void add_failure(const ProbeRequest& probe_request, const std::string& function, Error error) {
    // An imported function is missing too: libstdc++.so defines operator new, and imports malloc.
    const bool is_missing = error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported;
    if (probe_request.is_optional && is_missing) return output_.detail(error.message);
    if (probe_request.triggers == ENDS_WAITING && is_missing)
      if (const auto example = events::example_condition(function))
        error.hints.insert(error.hints.begin(),
                           fmt::format("'{}' is also a value: a condition compares it, for "
                                       "example: --until '{}'",
                                       function, *example));
    // Without "usdt:", the PROVIDER of "PROVIDER:NAME" was taken for a TARGET.
    if (!probe_request.roles.empty() && is_missing && !probe_request.static_probes &&
        probe_request.target != selection_.target)
      error.hints.insert(error.hints.begin(),
                         fmt::format("a static probe has 'usdt:' before it: 'usdt:{}:{}'",
                                     probe_request.target, function));
    resolved_.failures.push_back(
        {.target = probe_request.target,
         .function = function,
         .error = resolve::explain_target(std::move(error), {probe_request.target, function},
                                          selection_.target, probe_request.static_probes),
         .is_required = probe_request.is_required()});
  }

  void add_points(const ProbeRequest& probe_request, const std::string& function,
                  std::vector<resolve::ProbePoint> points) {
    if (probe_request.is_optional && events::is_inner_allocator(function)) {
      std::erase_if(points,
                    [&](const resolve::ProbePoint& point) { return has_malloc(*point.binary); });
      if (points.empty()) return;
    }
    if (auto checked = check_points(probe_request, selection_, points); !checked) {
      add_failure(probe_request, function, std::move(checked).error());
      return;
    }
    const std::size_t found = points.size();
    for (const resolve::ProbePoint& point : points) note_targets(point);
    if (probe_request.triggers == 0)
      std::erase_if(points, [&](const resolve::ProbePoint& point) { return is_excluded(point); });
    if (points.empty() && found > 0)
      add_failure(probe_request, function,
                  Error(ErrorKind::not_found, "'" + function + "': all matches are excluded"));
    output_.gather_warnings(points);
    for (resolve::ProbePoint& point : points) {
      point.shows_file = shows_files_;
      if (point.uprobe_distance > 0)
        output_.detail(fmt::format("'{}' is probed {} bytes later, after a nop that this kernel "
                                   "replaces by a call",
                                   display_name(point), point.uprobe_distance));
      const auto [known, is_new] =
          probed_.emplace(std::tuple(point.binary->file->identity(), uprobe_offset(point)->value,
                                     name_at_offset(point), probe_request.triggers == ENDS_WAITING),
                          resolved_.probes.size());
      if (is_new) resolved_.probes.add(std::move(point)).is_recorded = probe_request.triggers == 0;
      Probe& probe = resolved_.probes[known->second];
      probe.triggers |= probe_request.triggers;
      probe.is_graph_root |= probe_request.graph_roots;
      for (const events::SpanRole& role : probe_request.roles)
        if (std::ranges::find(probe.roles, role) == probe.roles.end()) probe.roles.push_back(role);
      for (const bool on_return : {false, true})
        if (on_return ? probe_request.on_return : probe_request.on_entry)
          add_site(probe, {.program = probe_request.program,
                           .on_return = on_return,
                           .by_uretprobe = on_return && probe_request.by_uretprobe});
      // The site of the entry comes first, as in other probes.
      if (probe.triggers != 0 || !probe.roles.empty())
        std::ranges::partition(probe.sites,
                               [](const PlannedSite& site) { return !site.on_return; });
    }
  }

  bool has_malloc(const resolve::ProbedBinary& binary) const {
    return std::ranges::any_of(resolved_.probes, [&](const Probe& probe) {
      const resolve::ProbePoint& point = probe.point;
      return point.binary->file->identity() == binary.file->identity() &&
             point.binary->entry_data == binary.entry_data && point.function() == "malloc";
    });
  }

  // Static probes and inlined calls at one offset are separate probes: returns a key for each.
  // Empty for functions.
  static std::string name_at_offset(const resolve::ProbePoint& point) {
    if (point.static_probe) return *point.symbol;
    if (point.inlined_into == nullptr) return {};
    const resolve::InlinedInto& into = *point.inlined_into;
    return fmt::format("{} {}:{} {:#x}", *point.symbol, into.source, into.line,
                       into.debug_offset.value_or(0));
  }

  // Skips duplicates: the kernel would hit twice if two FUNCTIONs name one location.
  static void add_site(Probe& probe, const PlannedSite& site) {
    if (std::ranges::none_of(probe.sites, [&](const PlannedSite& known) {
          return known.program == site.program && known.on_return == site.on_return;
        }))
      probe.sites.push_back(site);
  }

  // Prints each warning once.
  void warn(const std::vector<std::string>& warnings) { output_.warn_once(warnings); }

  // Notes which TARGETs of --exclude mean no file. The programs of an object may be for functions
  // and for static probes: "a:b" has a TARGET for the former only.
  void note_targets(const resolve::ProbePoint& point) {
    for (const std::string& pattern : selection_.excluded_names) {
      const auto split = resolve::split_target(pattern, point.static_probe != nullptr);
      if (!split || split->target.empty() || is_in_target(point, split->target))
        other_targets_.erase(pattern);
      else if (!has_points_)
        other_targets_.emplace(pattern, split->target);
    }
    has_points_ = true;
  }

  bool is_excluded(const resolve::ProbePoint& point) {
    bool excluded = false;
    for (const std::string& pattern : selection_.excluded_names)
      if (selects(pattern, point, [&](const std::string& name) {
            return is_body_of(point, name) || is_in_source_file(point, name);
          })) {
        useful_exclusions_.insert(pattern);
        excluded = true;
      }
    return excluded;
  }

  // Whether the point is in a body of the function "f@FILE".
  bool is_in_source_file(const resolve::ProbePoint& point, const std::string& name) {
    const auto named = resolve::split_source_file(name);
    if (!named || has_planned_points_ || point.static_probe ||
        point.kind == symbols::SymbolKind::method || !is_body_of(point, std::string(named->name)))
      return false;
    const auto file = binaries_.of(point).file();
    return file && is_declared_in(point, named->file, **file);
  }

  const ProbeSelection& selection_;
  const resolve::TargetOptions& options_;
  bool shows_files_; // see ProbePoint::shows_file
  resolve::ResolveOptions resolve_options_;
  std::set<std::string> useful_exclusions_;
  std::map<std::string, std::string> other_targets_; // of patterns: TARGETs that no point is in
  bool has_points_ = false;
  bool has_planned_points_ = false;
  std::optional<FoundTargets> found_;
  BinaryCache& binaries_;
  output::Output& output_;
  ResolvedProbes resolved_;
  std::size_t without_semaphore_ = 0; // number of skipped static probes
  // The probe number by file, offset and name_at_offset(), and whether it is a trigger.
  std::map<std::tuple<FileIdentity, std::uint64_t, std::string, bool>, std::size_t> probed_;
};

// Returns true for a site at an exit. Others, also uretprobes, are at the function's first
// instruction.
bool is_exit_only(const PlannedSite& site) { return site.on_return && site.exit; }

// Returns the problem of probing the instruction at the site.
std::optional<SiteProblem> find_unprobeable(const Probe& probe, const PlannedSite& site) {
  const resolve::ProbePoint& point = probe.point;
  if (!is_exit_only(site)) {
    auto error = probe_error(point);
    if (!error) return std::nullopt;
    return SiteProblem{std::move(*error), std::string(point.effect.reason)};
  }
  const insn::ProbeEffect& effect = site.exit->effect;
  if (effect.kind == insn::ProbeEffect::Kind::safe) return std::nullopt;
  return SiteProblem{
      {ErrorKind::unsupported, fmt::format("{}: '{}' cannot be probed at its exit at {:#x}: {}",
                                           to_string(point.binary->path), display_name(point),
                                           site.exit->offset.value, effect.reason)},
      std::string(effect.reason)};
}

// TARGET and FUNCTION of a pattern, as typed.
using PatternKey = std::pair<std::string, std::string>;

// Removes the probes with a problem, and reports them.
class UnprobeableFilter {
public:
  UnprobeableFilter(ResolvedProbes& resolved, const FindSiteProblem& find_problem,
                    output::Output& output)
      : resolved_(resolved), find_problem_(find_problem), output_(output) {}

  void run() {
    find();
    if (skipped_.empty()) return;
    count_matches();
    report();
    resolved_.probes.remove_if([&](const Probe& probe) { return skipped_.contains(probe.first); });
  }

private:
  void find() {
    for (const Probe& probe : resolved_.probes)
      for (const PlannedSite& site : probe.sites) {
        if (skipped_.contains(probe.first)) break;
        if (auto problem = find_problem_(probe, site))
          skipped_.emplace(probe.first, std::move(*problem));
      }
  }

  static PatternKey pattern_key(const resolve::ProbePoint& point) {
    return {point.binary->target, point.request};
  }

  // Counts the matches of each pattern.
  void count_matches() {
    for (const Probe& probe : resolved_.probes)
      if (probe.is_first() && is_pattern_match(probe.point)) ++matched_[pattern_key(probe.point)];
  }

  void report() {
    std::map<PatternKey, std::map<std::string_view, std::vector<const resolve::ProbePoint*>>>
        skipped_matches;
    std::map<PatternKey, std::size_t> total;
    for (auto& [first, skipped] : skipped_) {
      const resolve::ProbePoint& point = resolved_.probes[first].point;
      if (!is_pattern_match(point)) {
        resolved_.failures.push_back({.target = point.binary->target,
                                      .function = point.request,
                                      .error = std::move(skipped.error),
                                      .is_required = resolved_.probes[first].is_required()});
        continue;
      }
      output_.detail("skipped: " + skipped.error.message);
      skipped_matches[pattern_key(point)][skipped.reason].push_back(&point);
      ++total[pattern_key(point)];
    }
    for (const auto& [key, reasons] : skipped_matches) {
      for (const auto& [reason, points] : reasons) warn(key, reason, points);
      if (total[key] != matched_[key]) continue;
      resolved_.failures.push_back(
          {.target = key.first,
           .function = key.second,
           .error = Error{ErrorKind::unsupported, fmt::format("{}: no match of '{}' can be probed",
                                                              key.first, key.second)}});
    }
  }

  void warn(const PatternKey& key, std::string_view reason,
            std::span<const resolve::ProbePoint* const> points) const {
    const std::string which =
        points.size() == 1
            ? fmt::format("'{}' (matched by '{}') is", display_name(*points.front()), key.second)
            : fmt::format("{} of {} matches of '{}' are", points.size(), matched_.at(key),
                          key.second);
    output_.warn(fmt::format("{}: {} skipped: {}", key.first, which, reason));
  }

  ResolvedProbes& resolved_;
  const FindSiteProblem& find_problem_;
  output::Output& output_;
  std::map<std::size_t, SiteProblem> skipped_; // by Probe::first
  std::map<PatternKey, std::size_t> matched_;
};

} // namespace

namespace {

// Warns of functions of a plan's probes that are not requested: a plan may be damaged, and an
// option of the command line may replace a function of the plan.
void warn_of_unused(const plans::AttachPlan& plan, std::span<const ProbeRequest> probe_requests,
                    output::Output& output) {
  std::set<std::pair<std::string_view, std::string_view>> asked;
  for (const ProbeRequest& each : probe_requests)
    for (const std::string& function : each.functions) asked.emplace(each.target, function);
  std::uint64_t points = 0;
  std::set<std::string_view> unused;
  for (const plans::PlannedFile& file : plan.files)
    for (const plans::PlannedProbe& probe : file.probes) {
      if (asked.contains({file.target, probe.named.request})) continue;
      ++points;
      unused.insert(probe.named.request);
    }
  if (unused.empty()) return;
  const std::string others =
      unused.size() > 1 ? " and " + counted(unused.size() - 1, "other", "others") : "";
  output.warn(fmt::format("{} of the plan {} not probed: '{}'{} not among its functions",
                          counted(points, "probe point", "probe points"),
                          points == 1 ? "is" : "are", *unused.begin(),
                          others + (unused.size() > 1 ? " are" : " is")));
}

} // namespace

Result<ResolvedProbes> resolve_requests(std::span<const ProbeRequest> probe_requests,
                                        const ProbeSelection& selection,
                                        const resolve::TargetOptions& options,
                                        BinaryCache& binaries, output::Output& output) {
  const std::size_t targets = count_targets(probe_requests, true);
  RequestResolver resolver(probe_requests, selection, options, binaries, output);
  Result<void> result;
  for (const ProbeRequest& probe_request : probe_requests) {
    result = resolver.resolve(probe_request);
    if (result) continue;
    if (targets == 1) {
      result = fail(resolve::explain_target(std::move(result).error(),
                                            {probe_request.target, probe_request.functions.front()},
                                            selection.target, selection.static_probes));
      break;
    }
    resolver.add_failures(probe_request, result.error());
    result = {};
  }
  if (selection.plan) warn_of_unused(*selection.plan, probe_requests, output);
  output.report_repeated();
  if (!result) return fail(std::move(result).error());
  resolver.warn_of_useless_exclusions();
  return std::move(resolver).take_result();
}

Result<void> check_unused_target(const ProbeSelection& selection,
                                 const resolve::TargetOptions& options) {
  const bool is_used =
      selection.functions.empty() || selection.plan != nullptr ||
      std::ranges::find(selection.functions, selection.target,
                        &resolve::TargetedFunction::target) != selection.functions.end();
  if (is_used) return {};
  const auto found = find_targets(selection.target, options);
  return found ? Result<void>() : fail(found.error());
}

Result<void> check_failures(std::size_t functions, const ProbeSelection& selection,
                            const ResolvedProbes& resolved, output::Output& output) {
  if (resolved.failures.empty()) return {};
  const bool goes_on = selection.keep_going &&
                       std::ranges::any_of(resolved.probes, &Probe::is_recorded) &&
                       std::ranges::none_of(resolved.failures, &ProbeFailure::is_required);
  // A FUNCTION can fail in several files of a TARGET, each with its own error, and in the same way
  // for several programs.
  std::set<std::pair<std::string_view, std::string_view>> failed;
  std::set<std::pair<std::string_view, std::string_view>> errors;
  for (const ProbeFailure& failure : resolved.failures) {
    failed.emplace(failure.target, failure.function);
    errors.emplace(failure.target, failure.error.message);
  }
  if (functions == 1 && errors.size() == 1 && !goes_on)
    return fail(resolved.failures.front().error);
  for (const ProbeFailure& failure : resolved.failures)
    if (errors.erase({failure.target, failure.error.message}) > 0)
      output.fail(failure.error, failure.target, failure.function);
  if (goes_on) return {};
  Error error{ErrorKind::not_found,
              fmt::format("{} of {} {} cannot be probed, so nothing was attached", failed.size(),
                          functions, selection.static_probes ? "static probes" : "functions")};
  const bool needs_all = std::ranges::any_of(resolved.failures, &ProbeFailure::is_required);
  if (needs_all || resolved.probes.empty()) return fail(std::move(error));
  return fail(std::move(error).hint("attach the others with --keep-going"));
}

std::optional<Error> find_no_return(const resolve::ProbePoint& point) {
  if (point.inlined_into)
    return Error{ErrorKind::usage, "'" + display_name(point) +
                                       "' does not return: it is part of the function it is "
                                       "inlined into"}
        .hint("leave out --inlined, or --return and --latency");
  if (point.static_probe || (point.symbol && point.symbol_offset != 0))
    return Error{ErrorKind::usage,
                 "'" + point.request + "' is inside a function: returns need its start"}
        .hint("leave out --return, or the offset");
  return std::nullopt;
}

bool is_pattern_match(const resolve::ProbePoint& point) {
  if (point.static_probe) return symbols::is_pattern(point.request) || !point.request.contains(':');
  const auto function = resolve::parse_function(point.request);
  return function && symbols::is_name_pattern(function->name);
}

void skip_probes(ResolvedProbes& resolved, const FindSiteProblem& find_problem,
                 output::Output& output) {
  UnprobeableFilter(resolved, find_problem, output).run();
}

void skip_unprobeable(ResolvedProbes& resolved, bool programs_may_start, output::Output& output) {
  skip_probes(resolved, find_unprobeable, output);
  skip_self_checked(resolved, programs_may_start, output);
}

} // namespace uprobectl::trace
