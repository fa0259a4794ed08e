// SPDX-License-Identifier: Apache-2.0
#include "trace/planned_probes.hpp"

#include "events/argument_lists.hpp"
#include "events/path_resolver.hpp"
#include "events/point_values.hpp"
#include "trace/binary_cache.hpp"
#include "trace/known_functions.hpp"
#include "trace/plan_promises.hpp"
#include "trace/planned_values.hpp"
#include "trace/program_source.hpp"
#include "trace/typed_probes.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"
#include "verify/verdict_formats.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>

namespace uprobectl::trace {

namespace {

using plans::AttachPlan;
using plans::PlannedFile;
using plans::PlannedProbe;

bool is_declared(const events::CaptureSpec& capture, std::string_view name) {
  return std::ranges::any_of(capture.arguments, [&](const events::ArgumentList& list) {
    return find_argument(list.arguments, name) != nullptr;
  });
}

// Whether debug information is needed to know what a name stands for, unless the function has a
// known prototype.
bool needs_debug_info(const events::CaptureSpec& capture, const events::ValuePath& path) {
  if (!path.steps.empty()) return true;
  return !is_declared(capture, path.variable) && !events::parse_source_name(path.variable);
}
bool needs_debug_info(const events::CaptureSpec& capture, const events::ConditionSpec& term) {
  if (!term.path || term.built_in || is_declared(capture, term.name())) return false;
  return term.needs_types() || needs_debug_info(capture, *term.path);
}

// A name of a value that is not declared, and the option that has it.
struct NeededName {
  events::ValuePath path;
  std::string option;
  const events::ArgumentList* list = nullptr; // whose functions need it; null: all
};

std::vector<NeededName> needed_names(const events::CaptureSpec& capture) {
  std::vector<NeededName> needed;
  const auto add = [&](const events::ValuePath& path, std::string option) {
    if (needs_debug_info(capture, path)) needed.push_back({path, std::move(option)});
  };
  for (const std::string& name : capture.groups.names())
    if (const auto path = events::parse_value_path(name)) add(*path, "--by");
  if (capture.measured)
    for (const events::ValuePath& each : capture.measured->operands) add(each, "--measure");
  if (capture.weight)
    for (const events::ValuePath& each : capture.weight->operands)
      if (!find_built_in(each)) add(each, "--weight");
  for (const events::ConditionSpec& term : capture.filter.terms)
    if (needs_debug_info(capture, term))
      needed.push_back({*term.path, fmt::format("--if '{}'", term.text)});
  for (const events::ArgumentList& list : capture.arguments)
    for (const events::ValuePath& path : list.paths) needed.push_back({path, "--args", &list});
  return needed;
}

bool has_parameter(const events::Prototype& prototype, const events::ValuePath& path) {
  return path.steps.empty() &&
         std::ranges::any_of(prototype.parameters, [&](const events::Prototype::Parameter& each) {
           return each.spec.name == path.variable;
         });
}

// How many pointers and references are followed for the types of a plan: as many as the shown
// values need, and at least one more than the steps of each name in the options.
int type_depth(const events::CaptureSpec& capture, std::span<const NeededName> needed,
               std::size_t points) {
  constexpr std::size_t most = 16;
  std::size_t depth =
      points > events::max_whole_functions ? 1 : static_cast<std::size_t>(capture.typed_depth) + 1;
  for (const NeededName& each : needed) depth = std::max(depth, each.path.steps.size() + 1);
  return static_cast<int>(std::min(depth, most));
}

// Collects the probes of a plan by their files.
class PlanMaker {
public:
  // has_debug_info: whether the run with the plan can find the types of the files.
  PlanMaker(const AttachRequest& request, BinaryCache& binaries, bool has_debug_info)
      : request_(request), binaries_(binaries),
        needed_(has_debug_info ? std::vector<NeededName>() : needed_names(request.capture)),
        has_values_(!has_debug_info && request.capture.uses_values() &&
                    (uses_debug_info(request.capture) || request.capture.names_values())),
        types_(binaries, request.capture) {}

  Result<AttachPlan> make(const ResolvedProbes& resolved) {
    const ProbeSelection& selection = request_.probes;
    plan_.target = selection.target;
    events::CaptureSpec capture = request_.capture;
    if (auto added = add_embedded_prototypes(capture, resolved.probes); !added)
      return fail(std::move(added).error());
    prototypes_ = std::move(capture.prototypes);
    const auto has_failed = [&](const resolve::TargetedFunction& named) {
      return std::ranges::any_of(resolved.failures, [&](const ProbeFailure& failure) {
        return !failure.is_required && failure.function == named.function &&
               failure.target == named.target;
      });
    };
    for (const resolve::TargetedFunction& each : selection.functions)
      if (!has_failed(each)) plan_.functions.push_back(word_of(each, selection.target));
    type_depth_ = type_depth(request_.capture, needed_, resolved.probes.size());
    for (const Probe& probe : resolved.probes)
      if (auto added = add(probe); !added) return fail(std::move(added).error());
    if (auto known = problems_.check(); !known) return fail(std::move(known).error());
    add_types();
    return std::move(plan_);
  }

private:
  Result<void> add(const Probe& probe) {
    const resolve::ProbePoint& point = probe.point;
    if (point.java || point.kind == symbols::SymbolKind::method)
      return fail(Error{ErrorKind::unsupported,
                        display_name(point) + ": compiled Java code cannot be in a plan"}
                      .hint("the device compiles it itself: resolve it there, without --plan"));
    File& file = open(point.binary);
    if (!file.image) return fail(file.image.error());
    PlannedProbe planned{.named = static_cast<const resolve::NamedAddress&>(point)};
    if (has_values_ && probe.is_recorded) planned.values = describe_values(point);
    const bool at_exits = std::ranges::any_of(
        probe.sites, [](const PlannedSite& site) { return site.on_return && site.exit; });
    if (at_exits) {
      const auto returns = binaries_.of(point).returns(point);
      if (!returns) return fail(returns.error());
      planned.exits = plans::to_planned_exits(*returns, **file.image);
    }
    plan_.files[file.number].probes.push_back(std::move(planned));
    return {};
  }

  // Returns values with types of the debug information, which add_types() replaces. Null if the
  // debug information does not have the function.
  std::shared_ptr<const plans::PlannedValues> describe_values(const resolve::ProbePoint& point) {
    const auto found = types_.describe_for_plan(point);
    std::shared_ptr<plans::PlannedValues> values;
    if (found)
      values = std::make_shared<plans::PlannedValues>(
          plans::PlannedValues{.function = *(*found)->function});
    const events::Prototype* const prototype = find_prototype(prototypes_, point);
    for (const NeededName& each : needed_) {
      if (each.list != nullptr && !applies_to(*each.list, point)) continue;
      std::optional<Error> problem;
      if (!found)
        problem = needs_debug_info_error(point, each.path, found.error());
      else if (!is_known(**found, each.path) && !add_global(**found, each.path, *values))
        problem = Error{ErrorKind::not_found, fmt::format("{} has no parameter or variable '{}'",
                                                          display_name(point), each.path.variable)}
                      .hint("list them with: uprobectl list-args TARGET FUNCTION");
      if (problem && prototype != nullptr) {
        if (has_parameter(*prototype, each.path))
          problem.reset();
        else
          problem = std::move(*problem).hint("its known arguments are: " +
                                             list_names(prototype->parameters, parameter_name));
      }
      problems_.add(each.option, each.path.text, std::move(problem));
    }
    if (values) values->prologue = types_.prologue_for_plan(point);
    if (values) collected_[files_.at(point.binary).number].add(*values);
    return values;
  }

  static const std::string& parameter_name(const events::Prototype::Parameter& parameter) {
    return parameter.spec.name;
  }

  static Error needs_debug_info_error(const resolve::ProbePoint& point,
                                      const events::ValuePath& path, const Error& reason) {
    Error error = Error(reason).within(
        fmt::format("{}: '{}' needs debug information", display_name(point), path.text));
    return std::move(error).hint("or give values as NAME:TYPE@ARG+OFF, such as count:s32@arg0+16");
  }

  // Whether a path begins at something that every run finds, or at a variable of the function.
  static bool is_known(const events::TypedPoint& typed, const events::ValuePath& path) {
    return events::parse_source_name(path.variable) || names_variable(typed, path) ||
           names_member(typed, path);
  }

  static bool add_global(const events::TypedPoint& typed, const events::ValuePath& path,
                         plans::PlannedValues& values) {
    if (std::ranges::find(values.globals, path.variable, &plans::PlannedGlobal::name) !=
        values.globals.end())
      return true;
    auto found = typed.find_global(path.variable);
    if (!found) return false;
    values.globals.push_back({.name = path.variable, .variable = std::move(*found)});
    return true;
  }

  struct File {
    Result<const elf::Image*> image;
    std::size_t number; // in the plan
  };

  void add_types() {
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      PlannedFile& file = plan_.files[i];
      if (collected_[i].is_empty()) continue;
      file.types = collected_[i].make();
      for (PlannedProbe& probe : file.probes) {
        if (!probe.values) continue;
        auto moved = std::make_shared<plans::PlannedValues>(*probe.values);
        collected_[i].move(*moved, *file.types);
        probe.values = std::move(moved);
      }
    }
  }

  File& open(const std::shared_ptr<const resolve::ProbedBinary>& binary) {
    if (const auto known = files_.find(binary); known != files_.end()) return known->second;
    File file{.image = binaries_.of(binary).image(), .number = plan_.files.size()};
    if (file.image) {
      PlannedFile planned{.target = binary->target, .build = plans::identify(**file.image)};
      // Functions that are triggers have opened the file again.
      const auto same = std::ranges::find_if(plan_.files, [&](const PlannedFile& each) {
        return each.target == planned.target && each.build == planned.build;
      });
      file.number = static_cast<std::size_t>(same - plan_.files.begin());
      if (const auto reader = binaries_.of(binary).functions())
        planned.strings = (*reader)->string_layout();
      if (same == plan_.files.end()) {
        plan_.files.push_back(std::move(planned));
        collected_.emplace_back(type_depth_);
      }
    }
    return files_.emplace(binary, std::move(file)).first->second;
  }

  const AttachRequest& request_;
  BinaryCache& binaries_;
  std::vector<NeededName> needed_;
  events::PrototypeTable prototypes_;
  bool has_values_;
  int type_depth_ = 0;
  events::NameProblems problems_;
  std::vector<PlannedTypes> collected_; // by the number of the file
  TypedProbes types_;
  AttachPlan plan_;
  std::map<std::shared_ptr<const resolve::ProbedBinary>, File> files_;
};

// Finds the locations of one TARGET of a plan.
class PlanFinder {
public:
  PlanFinder(const AttachPlan& plan, const std::string& target,
             std::span<const std::string> functions, const resolve::TargetOptions& where,
             const resolve::ResolveOptions& how, BinaryCache& binaries, output::Output& output)
      : plan_(plan), target_(target), where_(where), how_(how), binaries_(binaries),
        output_(output) {
    for (const PlannedFile& file : plan.files)
      if (file.target == target) files_.push_back(&file);
    found_.points.resize(functions.size());
    found_.errors.resize(functions.size());
    for (std::size_t i = 0; i < functions.size(); ++i) numbers_.emplace(functions[i], i);
  }

  Result<PlannedPoints> find() {
    if (files_.empty())
      return fail(ErrorKind::not_found, "the plan has no probe points in '" + target_ + "'");
    const auto targets = find_files();
    if (!targets) return fail(targets.error());
    add_warnings(targets->warnings);
    auto result = targets->several ? find_in_several(*targets) : find_in_one(*targets);
    if (!result) return fail(std::move(result).error());
    return std::move(found_);
  }

private:
  // The path of another machine may not exist here.
  Result<resolve::Targets> find_files() const {
    auto targets = find_targets(target_, where_);
    if (targets || targets.error().kind != ErrorKind::not_found || !target_.contains('/'))
      return targets;
    if (auto by_name = find_targets(file_name_of(target_), where_)) return by_name;
    return fail(std::move(targets).error().hint(
        "name the file of this machine: uprobectl attach --plan FILE TARGET"));
  }

  Result<void> find_in_one(const resolve::Targets& targets) {
    const auto target = resolve::Target::open(targets.files.front(), target_, where_);
    if (!target) return fail(target.error());
    if (target->architecture_mismatch()) return fail(*target->architecture_mismatch());
    const elf::Image* const image = target->image();
    if (image == nullptr)
      return fail(Error{ErrorKind::no_code, to_string(target->display_path()) +
                                                ": an archive, the plan is for one of its "
                                                "libraries"}
                      .hint("use ARCHIVE!/ENTRY"));
    add_warnings(target->warnings());
    const PlannedFile* const file = find_build(*image);
    if (file != nullptr) {
      add(*target, *file);
      return {};
    }
    return refuse(*image, to_string(target->display_path()));
  }

  // Says what the other build breaks, in the words of `diff --plan`.
  Result<void> refuse(const elf::Image& image, const std::string& path) {
    const std::string machine = elf::to_string(image.machine());
    const auto same_machine = std::ranges::find_if(
        files_, [&](const PlannedFile* file) { return file->build.machine == machine; });
    const PlannedFile& file = same_machine != files_.end() ? **same_machine : *files_.front();
    if (same_machine != files_.end()) {
      const PromisedFile promised{.planned = &file, .target = path};
      const output::Verdict verdict = check_promises(plan_, {&promised, 1}, where_, output_);
      verify::write_verdict(
          verdict,
          {.format = output_.is_json() ? verify::VerdictFormat::json : verify::VerdictFormat::text},
          output_);
    }
    return plans::check_build(file.build, image, path);
  }

  // Uses the files that the plan is for.
  Result<void> find_in_several(const resolve::Targets& targets) {
    std::size_t used = 0;
    const auto visited = visit_targets(targets, where_, [&](const resolve::Target& target) {
      const elf::Image* const image = target.image();
      const PlannedFile* const file = image == nullptr ? nullptr : find_build(*image);
      if (file == nullptr) return;
      add_warnings(target.warnings());
      add(target, *file);
      ++used;
    });
    if (!visited) return fail(visited.error());
    if (used > 0) return {};
    add_warnings(visited->warnings);
    return fail(
        Error{ErrorKind::not_found, fmt::format("{}: the plan is for none of its {}", targets.text,
                                                counted(visited->files, "file", "files"))}
            .hint("see what has changed: uprobectl diff --plan PLAN FILE"));
  }

  const PlannedFile* find_build(const elf::Image& image) const {
    const auto found = std::ranges::find_if(
        files_, [&](const PlannedFile* file) { return plans::is_build(file->build, image); });
    return found == files_.end() ? nullptr : *found;
  }

  void add(const resolve::Target& target, const PlannedFile& file) {
    const auto binary = std::make_shared<const resolve::ProbedBinary>(target.binary());
    binaries_.of(binary).set_strings(file.strings);
    resolve::CodeIndex code(*target.binary().contents);
    for (const PlannedProbe& probe : file.probes) {
      const auto function = numbers_.find(probe.named.request);
      if (function == numbers_.end()) continue;
      const std::size_t index = function->second;
      auto point = plans::find_point(binary, code, probe.named, how_);
      if (!point) {
        add_error(index, std::move(point).error());
        continue;
      }
      if (probe.exits) {
        auto returns = find_exits(target, binary, code, *probe.exits);
        if (!returns) {
          add_error(index, std::move(returns).error());
          continue;
        }
        binaries_.of(*point).set_returns(*point, std::move(*returns));
      }
      if (probe.values) binaries_.of(*point).set_values(*point, probe.values, file.types);
      found_.points[index].push_back(std::move(*point));
    }
  }

  void add_error(std::size_t function, Error error) {
    if (!found_.errors[function]) found_.errors[function] = std::move(error);
  }

  Result<resolve::FunctionReturns>
  find_exits(const resolve::Target& target,
             const std::shared_ptr<const resolve::ProbedBinary>& binary, resolve::CodeIndex& code,
             const plans::PlannedExits& exits) const {
    if (auto wrong = find_wrong_exit(binary, code, exits)) return fail(std::move(*wrong));
    auto returns = plans::to_returns(exits, *target.image());
    if (!returns) return fail(std::move(returns).error().within(to_string(target.display_path())));
    return returns;
  }

  // Returns why one of the exits cannot be probed.
  std::optional<Error> find_wrong_exit(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                                       resolve::CodeIndex& code,
                                       const plans::PlannedExits& exits) const {
    for (const VirtualAddress address : exits.returns)
      if (auto wrong = plans::exit_error(binary, code, address, how_)) return wrong;
    for (const plans::PlannedExits::TailCall& call : exits.tail_calls)
      if (auto wrong = plans::exit_error(binary, code, call.address, how_)) return wrong;
    return std::nullopt;
  }

  void add_warnings(const std::vector<std::string>& warnings) {
    found_.warnings.insert(found_.warnings.end(), warnings.begin(), warnings.end());
  }

  const AttachPlan& plan_;
  const std::string& target_;
  std::map<std::string_view, std::size_t> numbers_; // of the functions
  const resolve::TargetOptions& where_;
  const resolve::ResolveOptions& how_;
  BinaryCache& binaries_;
  output::Output& output_;
  std::vector<const PlannedFile*> files_;
  PlannedPoints found_;
};

} // namespace

Result<AttachPlan> make_plan(const AttachRequest& request, const ResolvedProbes& resolved,
                             BinaryCache& binaries) {
  return PlanMaker(request, binaries, false).make(resolved);
}

Result<AttachPlan> plan_target(const AttachRequest& request, const std::string& target,
                               const std::string& file, output::Output& output) {
  const resolve::TargetOptions where{.debug_paths = request.probes.target_options.debug_paths};
  BinaryCache binaries(where.debug_paths);
  std::vector<ProbeRequest> asked = builtin_probe_requests(request);
  std::erase_if(asked, [&](const ProbeRequest& each) { return each.target != target; });
  std::size_t functions = 0;
  for (ProbeRequest& each : asked) {
    each.target = file;
    functions += each.functions.size();
  }
  auto resolved = resolve_requests(asked, request.probes, where, binaries, output);
  if (!resolved) return fail(std::move(resolved).error());
  plan_returns(request.probes, request.capture, true, {}, binaries, *resolved, output);
  skip_unprobeable(*resolved, false, output);
  if (auto checked = check_failures(functions, request.probes, *resolved, output); !checked)
    return fail(std::move(checked).error());
  auto plan = PlanMaker(request, binaries, true).make(*resolved);
  if (!plan) return plan;
  for (PlannedFile& each : plan->files) each.target = target;
  return plan;
}

Result<std::optional<AttachPlan>> request_plan(const elf::Image& image, const std::string& target,
                                               Workstation& workstation) {
  const auto build_id = image.build_id();
  if (!build_id || !workstation.serves<PlanRequest>()) return std::nullopt;
  UniqueFd content = workstation.request(PlanRequest{.machine = image.machine().id,
                                                     .is_64bit = image.machine().is_64bit,
                                                     .build_id = *build_id,
                                                     .target = target});
  if (!content && errno == ENOENT) return std::nullopt;
  const std::string subject = target + ": the plan of the workstation";
  if (!content) return fail(system_error(errno, subject));
  const auto file = MappedFile::of_copy(std::move(content), subject);
  if (!file) return fail(file.error());
  auto plan = plans::read_plan(as_text(file->bytes()));
  if (!plan) return fail(std::move(plan).error());
  return std::move(*plan);
}

Result<PlannedPoints> find_planned(const AttachPlan& plan, const std::string& target,
                                   std::span<const std::string> functions,
                                   const resolve::TargetOptions& where,
                                   const resolve::ResolveOptions& how, BinaryCache& binaries,
                                   output::Output& output) {
  return PlanFinder(plan, target, functions, where, how, binaries, output).find();
}

} // namespace uprobectl::trace
