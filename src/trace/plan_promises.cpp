// SPDX-License-Identifier: Apache-2.0
#include "trace/plan_promises.hpp"

#include "resolve/point_details.hpp"
#include "trace/typed_probes.hpp"
#include "verify/details.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl::trace {

namespace {

using plans::AttachPlan;
using plans::PlannedFile;
using plans::PlannedProbe;

// Null if values of the machine are not read.
const ArchInfo* find_arch(const PlannedFile& file) {
  const auto archs = all_archs();
  const auto found = std::ranges::find_if(archs, [&](const ArchInfo* arch) {
    return elf::to_string(elf::Machine(arch->elf_machine)) == file.build.machine;
  });
  return found != archs.end() ? *found : nullptr;
}

resolve::DetailParameter detail_of(const std::string& name, const dwarf::Variable& variable,
                                   const ArchInfo* arch) {
  return {.name = name,
          .type = variable.type->name(),
          .location =
              arch != nullptr ? std::optional(to_string(variable.location, *arch)) : std::nullopt};
}

// How often members are followed at most: a plan has the types that paths in its options lead to,
// such as request->host->port.
constexpr std::size_t max_followed = 16;

// Sets what a plan knows of values: types, locations, and the structures that they lead to when
// members are followed `depth` times. Returns how often they were.
std::size_t add_values(const dwarf::FunctionInfo& function, const ArchInfo* arch, std::size_t depth,
                       verify::TypeDetails& types, resolve::PointDetails& details) {
  types.describe(function, details);
  details.structures.clear();
  std::size_t parameters = 0;
  std::size_t followed = 0;
  for (const dwarf::Variable& variable : function.variables) {
    if (!variable.inlined_function.empty()) continue;
    followed = std::max(followed, types.add_reachable(*variable.type, depth, details));
    resolve::DetailParameter detail = detail_of(variable.name, variable, arch);
    if (variable.is_parameter)
      (*details.parameters)[parameters++].location = std::move(detail.location);
    else if (variable.location.is_readable())
      details.variables.push_back(std::move(detail));
  }
  return std::max(followed, types.add_reachable(*function.result, depth, details));
}

std::vector<std::int64_t> distances_of(const plans::PlannedExits& exits, VirtualAddress begin) {
  std::vector<std::int64_t> distances;
  const auto add = [&](VirtualAddress exit) {
    distances.push_back(static_cast<std::int64_t>(exit.value - begin.value));
  };
  std::ranges::for_each(exits.returns, add);
  for (const auto& call : exits.tail_calls) add(call.address);
  std::ranges::sort(distances);
  return distances;
}

// `depth`: raised to how often members were followed.
std::shared_ptr<const resolve::PointDetails> details_of(const PlannedProbe& probe,
                                                        VirtualAddress begin, const ArchInfo* arch,
                                                        verify::TypeDetails& types,
                                                        std::size_t& depth) {
  resolve::PointDetails details;
  if (probe.values) {
    depth = std::max(depth, add_values(probe.values->function, arch, max_followed, types, details));
    for (const plans::PlannedGlobal& global : probe.values->globals) {
      details.variables.push_back(detail_of(global.name, global.variable, arch));
      depth = std::max(depth, types.add_reachable(*global.variable.type, max_followed, details));
    }
  }
  if (probe.exits) details.exits = distances_of(*probe.exits, begin);
  return std::make_shared<const resolve::PointDetails>(std::move(details));
}

resolve::ResolveOptions::Clones clones_of(const AttachPlan& plan) {
  const auto has = [&](std::string_view option) {
    return std::ranges::find(plan.options, option) != plan.options.end();
  };
  return has("--clones")      ? resolve::ResolveOptions::Clones::all
         : has("--no-clones") ? resolve::ResolveOptions::Clones::none
                              : resolve::ResolveOptions::Clones::bodies;
}

std::optional<std::string> entry_of(const std::string& target) {
  for (BinaryPath& path : parse_candidates(target))
    if (path.entry) return std::move(path.entry);
  for (BinaryPath& path : parse_library_names(target))
    if (!path.entry->contains('/')) return std::move(path.entry);
  return std::nullopt;
}

verify::RecordedMatch match_of(const PlannedFile& file, const PlannedProbe& probe,
                               const std::string& target) {
  const resolve::NamedAddress& named = probe.named;
  return {.target = target,
          .request = named.request,
          .entry = entry_of(target),
          .file = std::nullopt,
          .offset = std::nullopt,
          .address = named.address,
          .symbol = named.symbol,
          .symbol_offset = {named.symbol_offset},
          .version = named.version,
          .build_id = file.build.build_id,
          .table = named.table ? std::optional(std::string(to_string(*named.table))) : std::nullopt,
          .is_inlined = named.inlined_into != nullptr};
}

// Reads from the points of another build what the plan has of its own.
class PromiseReader {
public:
  // `depth`: how often members are followed in the plan.
  PromiseReader(std::span<const PromisedFile> files, const resolve::TargetOptions& where,
                std::size_t depth)
      : binaries_(where.debug_paths), depth_(depth) {
    for (const PromisedFile& file : files)
      for (const PlannedProbe& probe : file.planned->probes)
        if (probe.values)
          for (const plans::PlannedGlobal& global : probe.values->globals)
            globals_.insert(global.name);
  }

  void read(resolve::ProbePoint& point) {
    resolve::PointDetails details;
    const ArchInfo* const arch = &point.binary->machine.info();
    if (const auto typed = types_.describe_for_plan(point)) {
      add_values(*(*typed)->function, arch, depth_, structures_, details);
      for (const std::string& name : globals_)
        if (const auto global = (*typed)->find_global(name)) {
          details.variables.push_back(detail_of(name, *global, arch));
          structures_.add_reachable(*global->type, depth_, details);
        }
    }
    if (const auto returns = binaries_.of(point).returns(point))
      if (const auto image = binaries_.of(point).image())
        details.exits = distances_of(plans::to_planned_exits(*returns, **image), point.address);
    point.details = std::make_shared<const resolve::PointDetails>(std::move(details));
  }

private:
  BinaryCache binaries_;
  events::CaptureSpec capture_; // none: all that is known of the functions is read
  TypedProbes types_{binaries_, capture_};
  verify::TypeDetails structures_;
  std::size_t depth_;
  std::set<std::string> globals_;
};

// Nullopt if it cannot be read, which verify_matches() reports.
std::optional<plans::BuildIdentity> identify(const PromisedFile& file,
                                             const resolve::TargetOptions& where) {
  const auto target = resolve::Target::open(file.target, where);
  if (!target || target->image() == nullptr) return std::nullopt;
  return plans::identify(*target->image());
}

} // namespace

Result<std::vector<PromisedFile>> find_promised(const AttachPlan& plan,
                                                std::span<const std::string> targets,
                                                const resolve::TargetOptions& where) {
  std::vector<verify::RecordedMatch> matches;
  matches.reserve(plan.files.size());
  for (const PlannedFile& file : plan.files)
    matches.push_back(match_of(file, PlannedProbe{}, file.target));
  const auto replacements = verify::replace_targets(matches, targets);
  if (!replacements) return fail(replacements.error());
  verify::retarget(matches, *replacements);
  std::vector<PromisedFile> files;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    files.push_back({.planned = &plan.files[i], .target = std::move(matches[i].target)});
    std::string& target = files.back().target;
    const auto found = find_targets(target, where);
    if (!found || !found->several) continue;
    // Only the machine of a file tells which of the files is meant.
    std::vector<std::string> same_machine;
    const auto visited = visit_targets(*found, where, [&](const resolve::Target& each) {
      if (each.image() != nullptr &&
          elf::to_string(each.image()->machine()) == plan.files[i].build.machine)
        same_machine.push_back(to_string(each.display_path()));
    });
    if (!visited) return fail(visited.error());
    if (same_machine.size() != 1)
      return fail(Error{ErrorKind::usage,
                        fmt::format("{}: the plan is for a file of {}, {} of these files are",
                                    target, plan.files[i].build.machine, same_machine.size())}
                      .hint("name one file"));
    target = std::move(same_machine.front());
  }
  return files;
}

output::Verdict check_promises(const AttachPlan& plan, std::span<const PromisedFile> files,
                               const resolve::TargetOptions& where, output::Output& output) {
  verify::VerifyRequest request{.target_options = where, .with_added = false};
  request.target_options.extracted = true; // a plan has no file offsets
  std::vector<output::Finding> of_files;
  verify::TypeDetails structures;
  std::size_t depth = 0;
  const std::string clones{to_string(clones_of(plan))};
  for (const PromisedFile& file : files) {
    const plans::BuildIdentity& planned = file.planned->build;
    const auto found = identify(file, request.target_options);
    if (found && found->machine != planned.machine) {
      const output::Finding other_machine{.change = output::Change::not_checked,
                                          .target = file.target,
                                          .entry = entry_of(file.target),
                                          .reason =
                                              fmt::format("the plan is for {}, the file is for {}",
                                                          planned.machine, found->machine)};
      of_files.insert(of_files.end(), file.planned->probes.size(), other_machine);
      continue;
    }
    // Build ids are compared with the functions.
    if (found && !planned.build_id && !found->build_id && planned != *found)
      of_files.push_back({.change = output::Change::build_id,
                          .target = file.target,
                          .recorded = planned.sha256,
                          .found = found->sha256,
                          .entry = entry_of(file.target)});
    const ArchInfo* const arch = find_arch(*file.planned);
    for (const PlannedProbe& probe : file.planned->probes) {
      verify::RecordedMatch match = match_of(*file.planned, probe, file.target);
      match.clones = clones;
      match.details = details_of(probe, *match.address, arch, structures, depth);
      request.recorded.push_back(std::move(match));
    }
  }
  PromiseReader reader(files, request.target_options, depth);
  request.read_details = [&](resolve::ProbePoint& point) { reader.read(point); };
  output::Verdict verdict = verify_matches(request, output).verdict;
  for (output::Finding& finding : of_files)
    finding.change == output::Change::build_id ? verdict.add(std::move(finding))
                                               : verdict.add_to_library(std::move(finding));
  return verdict;
}

} // namespace uprobectl::trace
