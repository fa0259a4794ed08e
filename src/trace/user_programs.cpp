// SPDX-License-Identifier: Apache-2.0
#include "trace/user_programs.hpp"

#include "events/readings.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

namespace {

std::string list_programs(std::span<const ObjectProgram> programs) {
  std::string names;
  for (const ObjectProgram& program : programs)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", program.name, program.section);
  return names;
}

const ObjectProgram* find_program(const BpfObject& object, std::string_view name) {
  const auto found = std::ranges::find(object.programs(), name, &ObjectProgram::name);
  return found == object.programs().end() ? nullptr : &*found;
}

bool is_static(const ObjectProgram& program) { return program.section.starts_with("usdt"); }

bool is_session(const ObjectProgram& program) {
  return program.kind == SectionKind::uprobe_session;
}

// Whether the map is that of Inspektor Gadget for the ring buffer.
bool counts_losses_of(const UserMap& map, const UserMap& ring) {
  return ring.use == MapUse::ring_buffer && map.name == ring.name + "_lost_samples";
}

// Why a program is left out that is not named; empty if it is not.
std::string find_skip_reason(const ObjectProgram& program) {
  if (program.is_optional) return "its section begins with '?' (--program-name loads it)";
  return program.load_problem;
}

constexpr std::string_view not_attached = "libbpf does not attach programs of such a section";

std::string describe_skipped(std::string_view path, const ObjectProgram& program,
                             std::string_view reason) {
  return fmt::format("{}: program '{}' ({}) is skipped: {}", path, program.name, program.section,
                     reason);
}

} // namespace

Result<UserPrograms> UserPrograms::open(const AttachRequest& request, Workstation& workstation) {
  UserPrograms programs(request);
  if (!request.program->pinned) {
    if (auto opened = programs.open_object(request, workstation); !opened)
      return fail(std::move(opened).error());
    return programs;
  }
  programs.selected_ = {request.program->path};
  ProbeRequest probes{.static_probes = request.probes.static_probes,
                      .on_entry = request.capture.on_entry,
                      .on_return = request.capture.on_return};
  const bool is_chosen = !request.program->direction_by_section || request.probes.static_probes;
  programs.on_return_ = find_pinned_direction(request.program->path);
  programs.is_guessed_ = !is_chosen && !programs.on_return_;
  if (!is_chosen && programs.on_return_) {
    probes.on_entry = !*programs.on_return_;
    probes.on_return = *programs.on_return_;
  }
  probes.by_uretprobe = programs.on_return_.value_or(false);
  programs.probe_requests_ = split_by_target(request.probes.functions, probes);
  return programs;
}

Result<void> UserPrograms::open_object(const AttachRequest& request, Workstation& workstation) {
  const auto file = workstation.map(request_->path);
  if (!file) return fail(file.error());
  auto object = BpfObject::open(*file);
  if (!object) return fail(std::move(object).error());
  object_ = std::move(*object);
  if (auto set = object_->apply(request_->settings); !set) return set;
  if (auto selected = select_programs(request); !selected) return fail(std::move(selected).error());
  return check_kinds();
}

Result<void> UserPrograms::select_programs(const AttachRequest& request) {
  if (auto known = check_program_names(*object_, path(), request_->names); !known) return known;
  const bool by_sections = request.probes.target.empty();
  std::vector<const ObjectProgram*> candidates;
  for (const ObjectProgram& program : object_->programs()) {
    const bool is_named = std::ranges::find(request_->names, program.name) != request_->names.end();
    if (!request_->names.empty() && !is_named) continue;
    const std::string reason = is_named ? program.load_problem : find_skip_reason(program);
    if (is_named && !reason.empty())
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: program '{}' ({}) cannot be loaded: {}", path(), program.name,
                              program.section, reason));
    if (!reason.empty())
      skipped_.push_back(describe_skipped(path(), program, reason));
    else if (is_named || !program.is_tail_call || (by_sections && parse_section_place(program)))
      candidates.push_back(&program);
  }
  if (by_sections) return select_by_sections(candidates);
  std::erase_if(candidates,
                [](const ObjectProgram* program) { return program->kind == SectionKind::other; });
  if (candidates.empty())
    return fail(Error{ErrorKind::not_found, path() + ": contains no uprobe programs"}.hint(
        "without a TARGET they are attached where their sections say: " +
        list_programs(object_->programs())));
  if (candidates.size() > 1 && request_->names.empty())
    return fail(Error{ErrorKind::ambiguous, path() + ": contains several programs"}.hint(
        "name one or several with --program-name: " + list_programs(object_->programs())));
  for (const ObjectProgram* program : candidates)
    if (auto added = add_program(*program, request); !added) return added;
  return {};
}

// Programs without a place are left out if another one has a place, as libbpf does.
Result<void> UserPrograms::select_by_sections(std::span<const ObjectProgram* const> candidates) {
  std::optional<Error> problem;
  for (const ObjectProgram* program : candidates) {
    auto added = add_program_by_section(*program);
    if (added) continue;
    if (!request_->names.empty()) return added;
    skipped_.push_back(describe_skipped(
        path(), *program,
        program->can_be_attached ? "its section does not name a place" : not_attached));
    if (!problem) problem = std::move(added).error();
  }
  if (!probe_requests_.empty() || !other_programs_.empty()) return {};
  if (problem) return fail(std::move(*problem));
  return fail(
      Error{ErrorKind::not_found, path() + ": contains no program that can be attached"}.hint(
          "name one or several with --program-name: " + list_programs(object_->programs())));
}

Result<void> UserPrograms::add_program(const ObjectProgram& program, const AttachRequest& request) {
  if (is_static(program) && !request.probes.static_probes)
    return fail(Error{ErrorKind::usage, fmt::format("{}: program '{}' is for static probes ({})",
                                                    path(), program.name, program.section)}
                    .hint("attach it with: uprobectl usdt attach --object FILE TARGET "
                          "PROVIDER:NAME"));
  if (request.probes.static_probes)
    if (auto may = check_static_use(program); !may) return may;
  ProbeRequest probe_request{.static_probes = request.probes.static_probes,
                             .program = selected_.size(),
                             .on_entry = request.capture.on_entry,
                             .on_return = request.capture.on_return};
  if (request_->direction_by_section || is_session(program)) {
    probe_request.on_entry = !program.on_return;
    probe_request.on_return = program.on_return;
  }
  probe_request.by_uretprobe = program.on_return;
  selected_.push_back(program.name);
  std::ranges::move(split_by_target(request.probes.functions, probe_request),
                    std::back_inserter(probe_requests_));
  return {};
}

// A return probe takes the top of the stack for the return address, which is true only at the start
// of a function.
Result<void> UserPrograms::check_static_use(const ObjectProgram& program) const {
  if (!program.on_return && !is_session(program)) return {};
  return fail(Error{ErrorKind::usage,
                    fmt::format("{}: program '{}' is for returns ({}), and a static probe has none",
                                path(), program.name, program.section)}
                  .hint("give it the section \"usdt\" or \"uprobe\""));
}

Result<void> UserPrograms::add_program_by_section(const ObjectProgram& program) {
  // It is not loaded either: an older kernel may not have its type.
  if (!program.can_be_attached)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: program '{}' ({}) cannot be attached: {}", path(), program.name,
                            program.section, not_attached));
  if (program.kind == SectionKind::other) {
    other_programs_.push_back(program.name);
    return {};
  }
  auto place = parse_section_place(program);
  if (!place)
    return fail(Error{ErrorKind::not_found,
                      fmt::format("{}: the section of program '{}' does not name a place: '{}'",
                                  path(), program.name, program.section)}
                    .hint(is_static(program)
                              ? "give the place: usdt attach --object FILE TARGET "
                                "PROVIDER:NAME"
                              : "give the place: attach --object FILE TARGET FUNCTION…")
                    .hint(is_static(program)
                              ? "or name the places in sections: SEC(\"usdt/FILE:PROVIDER:NAME\")"
                              : "or name the places in sections: "
                                "SEC(\"uprobe/libc.so.6:malloc\")"));
  probe_requests_.push_back({.target = std::move(place->target),
                             .functions = {std::move(place->function)},
                             .static_probes = is_static(program),
                             .program = selected_.size(),
                             .on_entry = !program.on_return,
                             .on_return = program.on_return,
                             .by_uretprobe = program.on_return});
  selected_.push_back(program.name);
  return {};
}

// A run uses one mechanism, and only session links accept session programs.
Result<void> UserPrograms::check_kinds() const {
  const auto sessions = std::ranges::count_if(selected_, [&](const std::string& name) {
    return is_session(*find_program(*object_, name));
  });
  if (sessions == 0 || static_cast<std::size_t>(sessions) == selected_.size()) return {};
  return fail(Error{ErrorKind::unsupported,
                    path() + ": session programs and other programs cannot be attached in one run"}
                  .hint("choose one of them with --program-name"));
}

Result<void> UserPrograms::prepare(const KernelFeatures& features) {
  if (object_) {
    if (!selected_.empty() && is_session(*find_program(*object_, selected_.front())))
      kind_ = ProgramKind::session;
    return {};
  }
  auto pinned = PinnedProgram::open(request_->path, features);
  if (!pinned) return fail(std::move(pinned).error());
  pinned_ = std::move(*pinned);
  kind_ = pinned_->program().kind;
  if (kind_ == ProgramKind::session &&
      std::ranges::any_of(probe_requests_, &ProbeRequest::static_probes))
    return fail(ErrorKind::unsupported,
                path() + ": a session program runs at returns, too, and a static probe has none");
  return {};
}

Result<void> check_program_names(const BpfObject& object, std::string_view path,
                                 std::span<const std::string> names) {
  for (const std::string& name : names)
    if (find_program(object, name) == nullptr)
      return fail(Error{ErrorKind::not_found, fmt::format("{}: no program '{}'", path, name)}.hint(
          "use one of: " + list_programs(object.programs())));
  return {};
}

void warn_of_skipped_programs(const BpfObject& object, std::string_view path, Output& output) {
  for (const ObjectProgram& program : object.programs())
    if (const std::string reason = find_skip_reason(program);
        !reason.empty() && program.loaded.fd < 0)
      output.warn(describe_skipped(path, program, reason));
}

void UserPrograms::report_skipped(Output& output) const {
  for (const std::string& skipped : skipped_) output.warn(skipped);
}

void warn_of_private_stacks(const BpfObject& object, std::string_view path, Output& output) {
  for (const ObjectProgram& program : object.programs())
    if (program.has_private_stack)
      output.warn(
          fmt::format("{}: program '{}': threads of one CPU overwrite its local variables on "
                      "this kernel: a tail call in it prevents this (docs/bpf-programs.md)",
                      path, program.name));
}

Result<void> UserPrograms::load(Mechanism mechanism, Output& output) {
  if (is_guessed_ && kind_ != ProgramKind::session)
    output.warn_once(path() +
                     ": whether the program is for entries or returns is not known, because "
                     "uprobectl load has not pinned it: it is attached to entries (-r: to "
                     "returns)");
  if (!object_ || std::exchange(loaded_, true)) return {};
  ObjectLoading loading{.kind = program_kind(mechanism), .only = selected_};
  loading.only.insert(loading.only.end(), other_programs_.begin(), other_programs_.end());
  auto loaded = object_->load(loading);
  if (!object_->verifier_log().empty()) output.detail(object_->verifier_log());
  if (loaded) warn_of_private_stacks(*object_, path(), output);
  return loaded;
}

LoadedProgram UserPrograms::program(std::size_t index) const {
  if (pinned_) return pinned_->program();
  return find_program(*object_, selected_[index])->loaded;
}

Result<std::vector<ObjectLink>> UserPrograms::attach_other_programs(Output& output) {
  std::vector<ObjectLink> links;
  std::vector<std::string> attached;
  for (const std::string& name : other_programs_) {
    const ObjectProgram& program = *find_program(*object_, name);
    auto link = object_->attach_by_section(name);
    if (!link) return fail(std::move(link).error());
    if (*link) {
      links.push_back(std::move(**link));
      attached.push_back(name);
    } else if (std::ranges::find(request_->names, name) != request_->names.end() ||
               (selected_.empty() && other_programs_.size() == 1)) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: program '{}' ({}) cannot be attached: {}", path(), name,
                              program.section, not_attached));
    } else if (!program.is_tail_call) {
      output.warn(describe_skipped(path(), program, not_attached));
    }
  }
  if (selected_.empty() && links.empty() && !other_programs_.empty())
    return fail(ErrorKind::unsupported, path() + ": contains no program that can be attached");
  other_programs_ = std::move(attached);
  return links;
}

Result<std::vector<UserMap>> UserPrograms::maps() const {
  if (pinned_) {
    auto maps = find_program_maps(pinned_->program().fd);
    if (maps && pinned_->btf_id() != 0) complete_map_names(*maps, pinned_->btf_id());
    return maps;
  }
  std::vector<UserMap> maps;
  for (const ObjectMap& map : object_->maps()) {
    auto described = describe_map(UniqueFd{::fcntl(map.fd, F_DUPFD_CLOEXEC, 0)});
    if (!described) return fail(std::move(described).error());
    described->name = map.name; // the kernel keeps only 15 bytes of it
    maps.push_back(std::move(*described));
  }
  return maps;
}

std::optional<DataTypes> UserPrograms::types() const {
  if (pinned_ && pinned_->btf_id() == 0) return std::nullopt;
  const auto of_object = [&] {
    const auto btf = object_->type_information();
    return btf ? DataTypes::parse(*btf) : fail(btf.error());
  };
  auto types = pinned_ ? DataTypes::load_from_kernel(pinned_->btf_id()) : of_object();
  if (!types) return std::nullopt;
  return std::move(*types);
}

Result<void> UserStaticProbes::load(std::span<const UserMap> maps, std::span<Probe> probes,
                                    std::uint64_t cookie, bool supports_cookies) {
  specs_.reset(); // before it is filled again
  cautions_.clear();
  const auto table = std::ranges::find_if(maps, UsdtSpecs::is_table);
  if (table == maps.end()) return {};
  if (std::ranges::none_of(probes,
                           [](const Probe& probe) { return probe.point.static_probe != nullptr; }))
    return {};
  if (!supports_cookies)
    return fail(Error{ErrorKind::unsupported,
                      "the mechanism has no cookies, which usdt.bpf.h needs to find the arguments"}
                    .hint("use --mechanism multi or perf on Linux 5.15 or later"));
  auto specs = UsdtSpecs::open(*table);
  if (!specs) return fail(std::move(specs).error());
  specs_ = std::move(*specs);
  return add(probes, cookie);
}

Result<void> UserStaticProbes::add(std::span<Probe> probes, std::uint64_t cookie) {
  std::map<std::string, std::uint32_t> known; // places with the same arguments share an entry
  for (Probe& probe : probes) {
    const ProbePoint& point = probe.point;
    if (!point.static_probe) continue;
    const StaticProbeLocation place{.probe = point.static_probe.get(),
                                    .address = uprobe_address(point)};
    const bool is_64bit = point.binary->machine.is_64bit;
    const auto [entry, is_new] = known.try_emplace((is_64bit ? "64 " : "32 ") + reading_key(place));
    if (is_new) {
      UsdtSpecs::Spec spec{.arguments = make_static_readings(place), .cookie = cookie};
      for (std::size_t n = 0; n < spec.arguments.size(); ++n) {
        std::optional<reading>& argument = spec.arguments[n];
        if (!argument) {
          add_caution(point, n, unreadable_reason(place.probe->arguments[n]));
        } else if (!specs_->can_express(*argument, is_64bit)) {
          add_caution(point, n, "not supported by the usdt.bpf.h of this program");
          argument.reset();
        }
      }
      const auto added = specs_->add(spec);
      if (!added) return fail(Error(added.error()).within(display_name(point)));
      entry->second = *added;
    }
    for (PlannedSite& site : probe.sites) site.cookie = entry->second;
  }
  return {};
}

void UserStaticProbes::add_caution(const ProbePoint& point, std::size_t argument,
                                   std::string_view problem) {
  cautions_.push_back(
      {.problem = std::string(problem),
       .text = fmt::format("{}: arg{} cannot be read ({}: {}), bpf_usdt_arg() fails for it",
                           display_name(point), argument,
                           point.static_probe->arguments[argument].raw, problem)});
}

void UserStaticProbes::report_cautions(Output& output) const {
  for (const Caution& caution : cautions_) output.gathered_warning(caution.problem, caution.text);
}

std::vector<UserMap> find_lost_maps(std::span<const UserMap> maps) {
  std::vector<UserMap> found;
  for (const UserMap& map : maps) {
    const bool counts = map.name == "lost" || std::ranges::any_of(maps, [&](const UserMap& other) {
                          return counts_losses_of(map, other);
                        });
    if (!counts || map.key_size != 4 || (map.value_size != 8 && map.value_size != 4)) continue;
    if (map.use != MapUse::table && map.use != MapUse::per_cpu) continue;
    auto copy = describe_map(UniqueFd{::fcntl(map.fd.get(), F_DUPFD_CLOEXEC, 0)});
    if (!copy) continue;
    copy->name = map.name;
    found.push_back(std::move(*copy));
  }
  return found;
}

std::uint64_t read_lost_count(const UserMap& map) {
  const auto table = read_table(map, 1);
  std::uint64_t sum = 0;
  if (!table || table->entries.empty()) return 0;
  for (const auto& value : table->entries.front().values)
    sum += map.value_size == 8 ? read_at<std::uint64_t>(value, 0).value_or(0)
                               : read_at<std::uint32_t>(value, 0).value_or(0);
  return sum;
}

std::string explain_uncounted_losses(std::span<const UserMap> maps,
                                     std::span<const UserMap> counters) {
  for (const UserMap& map : maps) {
    if (map.use != MapUse::ring_buffer) continue;
    if (std::ranges::any_of(counters, [&](const UserMap& counter) {
          return counter.name == "lost" || counts_losses_of(counter, map);
        }))
      continue;
    return fmt::format("the program has no map 'lost' or '{}_lost_samples'", map.name);
  }
  return {};
}

} // namespace uprobectl
