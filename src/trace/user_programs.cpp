// SPDX-License-Identifier: Apache-2.0
#include "trace/user_programs.hpp"

#include "bpf/pid_namespace.hpp"
#include "events/readings.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace uprobectl::trace {

namespace {

const bpf::ObjectProgram* find_program(const bpf::BpfObject& object, std::string_view name) {
  const auto found = std::ranges::find(object.programs(), name, &bpf::ObjectProgram::name);
  return found == object.programs().end() ? nullptr : &*found;
}

// Whether the map is that of Inspektor Gadget for the ring buffer.
bool counts_losses_of(const bpf::UserMap& map, const bpf::UserMap& ring) {
  return ring.use == bpf::MapUse::ring_buffer && map.name == ring.name + "_lost_samples";
}

} // namespace

Result<UserPrograms> UserPrograms::open(const AttachRequest& request, Workstation& workstation) {
  UserPrograms programs(request);
  programs.name_ = joined(request.program->paths);
  if (auto opened =
          request.program->pinned ? programs.open_pins() : programs.open_objects(workstation);
      !opened)
    return fail(std::move(opened).error());
  if (auto set = programs.set_up(request); !set) return fail(std::move(set).error());
  if (auto located = programs.locate(request); !located) return fail(std::move(located).error());
  if (auto checked = programs.check_kinds(); !checked) return fail(std::move(checked).error());
  return programs;
}

Result<void> UserPrograms::open_pins() {
  for (const std::string& path : request_->paths) {
    auto pinned = bpf::open_pinned_objects(path);
    if (!pinned) return fail(std::move(pinned).error());
    std::ranges::move(pinned->warnings, std::back_inserter(skipped_));
    for (bpf::PinnedObject& each : pinned->objects) {
      are_one_pin_.push_back(each.is_one_pin);
      paths_.push_back(pinned->objects.size() == 1 ? path
                                                   : fmt::format("{} ({})", path, each.name));
      objects_.push_back(std::move(each.object));
      files_.push_back(std::move(each.file));
      pinned_maps_.push_back(std::move(each.maps));
    }
  }
  return {};
}

Result<void> UserPrograms::open_objects(Workstation& workstation) {
  if (!request_->kernel_types.empty()) {
    auto file = workstation.map(request_->kernel_types);
    if (!file) return fail(std::move(file).error());
    kernel_types_.emplace(std::move(*file));
  }
  for (const std::string& path : request_->paths) {
    auto file = workstation.map(path);
    if (!file) return fail(std::move(file).error());
    auto object = bpf::BpfObject::open(*file, kernel_types_ ? &*kernel_types_ : nullptr);
    if (!object) return fail(std::move(object).error());
    paths_.push_back(path);
    files_.emplace_back(std::move(*file));
    objects_.push_back(std::move(*object));
  }
  return {};
}

namespace {

using GlobalValues = std::vector<std::pair<std::string, std::string>>;

GlobalValues with_pid(GlobalValues globals, std::string_view pid) {
  for (auto& [name, value] : globals)
    if (value == bpf::pid_value) value = pid;
  return globals;
}

} // namespace

Result<void> UserPrograms::set_up(const AttachRequest& request) {
  const ProcessFilter& processes = request.processes;
  bpf::ObjectSettings settings = request_->settings;
  const auto of_pid =
      std::ranges::find(settings.globals, bpf::pid_value, &GlobalValues::value_type::second);
  if (of_pid != settings.globals.end() && processes.command.empty() && processes.pids.empty() &&
      processes.names.empty())
    return fail(Error{ErrorKind::usage, fmt::format("--set {}={}: there is no process",
                                                    of_pid->first, bpf::pid_value)}
                    .hint("name one: -p PID, or -- COMMAND"));
  // Programs compare the pid with bpf_get_current_pid_tgid(), whose ids are those of the initial
  // namespace.
  if (of_pid != settings.globals.end() && bpf::read_pid_namespace())
    return fail(
        Error{ErrorKind::unsupported,
              fmt::format("--set {}={}: in this pid namespace, the pid that the program sees "
                          "is not known",
                          of_pid->first, bpf::pid_value)}
            .hint(fmt::format("run uprobectl on the host, or give the pid that the process "
                              "has there: --set {}=PID",
                              of_pid->first)));
  settings.globals = with_pid(std::move(settings.globals), "0"); // set_pid_variables() follows
  return apply_settings(objects_, settings);
}

Result<void> UserPrograms::set_pid_variables() {
  const GlobalValues& globals = request_->settings.globals;
  const auto of_pid = std::ranges::find(globals, bpf::pid_value, &GlobalValues::value_type::second);
  if (of_pid == globals.end()) return {};
  if (pids_.size() != 1)
    return fail(ErrorKind::usage,
                fmt::format("--set {}={}: {} (expected one)", of_pid->first, bpf::pid_value,
                            counted(pids_.size(), "process", "processes")));
  return apply_settings(objects_, {.globals = with_pid(globals, std::to_string(pids_.front()))});
}

// The programs of all objects; of pinned ones those that have a pin. A folder and a pin in it may
// both be named.
std::vector<ProgramOfObject> UserPrograms::list_programs() const {
  std::vector<ProgramOfObject> programs;
  std::map<std::uint32_t, std::size_t> known; // by id in the kernel
  for (std::size_t i = 0; i < objects_.size(); ++i)
    for (ProgramOfObject each : programs_of(objects_[i], paths_[i], i)) {
      if (request_->pinned) {
        if (each.program->pin.empty()) continue;
        each.is_chosen = are_one_pin_[i];
        if (const auto id = bpf::find_program_id(each.program->loaded.fd)) {
          const auto [same, is_new] = known.try_emplace(*id, programs.size());
          if (!is_new) {
            programs[same->second].is_chosen |= each.is_chosen;
            continue;
          }
        }
      }
      programs.push_back(each);
    }
  return programs;
}

Result<void> UserPrograms::locate(const AttachRequest& request) {
  const std::vector<ProgramOfObject> programs = list_programs();
  if (programs.empty()) return fail(ErrorKind::not_found, name_ + ": no program is pinned there");
  auto located = locate_programs(programs, request);
  if (!located) return fail(std::move(located).error());
  std::ranges::move(located->skipped, std::back_inserter(skipped_));
  notes_ = std::move(located->notes);
  for (const PlacedProgram& placed : located->placed) {
    const bpf::ObjectProgram& program = *placed.program.program;
    Selected selected{.object = placed.program.object, .name = program.name};
    if (!placed.is_probe()) {
      other_programs_.push_back(std::move(selected));
      continue;
    }
    if (program.is_kprobe) objects_[selected.object].use_for_uprobes(program.name);
    const ProbeRequest probe_request{.static_probes = placed.static_probes,
                                     .program = selected_.size(),
                                     .on_entry = placed.on_entry,
                                     .on_return = placed.on_return,
                                     .by_uretprobe = program.on_return};
    std::ranges::move(split_by_target(placed.functions, probe_request),
                      std::back_inserter(probe_requests_));
    selected_.push_back(std::move(selected));
  }
  return {};
}

// A run uses one mechanism, and only session links accept session programs.
Result<void> UserPrograms::check_kinds() const {
  const auto sessions = std::ranges::count_if(
      selected_, [&](const Selected& each) { return trace::is_session(find(each)); });
  if (sessions == 0 || static_cast<std::size_t>(sessions) == selected_.size()) return {};
  return fail(Error{ErrorKind::unsupported,
                    name_ + ": session programs and other programs cannot be attached in one run"}
                  .hint("choose one of them with --program-name"));
}

const bpf::ObjectProgram& UserPrograms::find(const Selected& selected) const {
  return *find_program(objects_[selected.object], selected.name);
}

std::string UserPrograms::describe(const Selected& selected) const {
  return fmt::format("{}: program '{}' ({})", paths_[selected.object], selected.name,
                     find(selected).section);
}

Result<void> UserPrograms::prepare(const bpf::KernelFeatures& features) {
  if (!request_->pinned) {
    // load() makes all other programs of the kind that the mechanism needs.
    if (!selected_.empty() && is_session(0)) kind_ = bpf::ProgramKind::session;
    return {};
  }
  for (Selected& each : selected_) {
    const bpf::ObjectProgram& program = find(each);
    // The kind by the section of the program, which a name of Android's loader does not tell
    // exactly.
    std::optional<bpf::ProgramKind> kept;
    if (files_[each.object]) kept = program_kind_for(program.kind);
    const auto known = query_pinned_program(program.loaded.fd, program.pin, features, kept);
    if (!known) return fail(known.error());
    objects_[each.object].set_kind(each.name, known->kind);
    each.btf_id = known->btf_id;
    if (kind_ && *kind_ != known->kind)
      return fail(Error{ErrorKind::unsupported,
                        fmt::format("{}: program '{}' was loaded for {}, '{}' for {}, and a run "
                                    "uses one of these",
                                    name_, selected_.front().name, to_string(*kind_), each.name,
                                    to_string(known->kind))}
                      .hint("choose programs of one kind with --program-name NAME"));
    kind_ = known->kind;
  }
  if (kind_ == bpf::ProgramKind::session &&
      std::ranges::any_of(probe_requests_, &ProbeRequest::static_probes))
    return fail(ErrorKind::unsupported,
                name_ + ": a session program runs at returns, too, and a static probe has none");
  return {};
}

void warn_of_skipped_programs(const bpf::BpfObject& object, std::string_view path,
                              output::Output& output) {
  for (const ProgramOfObject& each : programs_of(object, path))
    if (const std::string reason = find_skip_reason(*each.program);
        !reason.empty() && each.program->loaded.fd < 0)
      output.warn(describe_skipped(each, reason));
}

void say_chosen_sizes(const bpf::BpfObject& object, std::string_view path, output::Output& output) {
  for (const bpf::ObjectMap& map : object.maps())
    if (map.chosen_size)
      output.status(fmt::format(
          "{}: map '{}' has no size, which its own loader sets: it gets {} {} "
          "(--map-entries {}=N)",
          path, map.name, *map.chosen_size, map.size_in_bytes ? "bytes" : "entries", map.name));
}

void UserPrograms::report_locations(bool is_dry_run, output::Output& output) const {
  for (const std::string& skipped : skipped_) output.warn(skipped);
  for (const std::string& note : notes_) output.status(note);
  if (!is_dry_run) return;
  for (const Selected& each : other_programs_)
    output.status(describe(each) + " is attached as its section says, for all processes");
}

void warn_of_private_stacks(const bpf::BpfObject& object, std::string_view path,
                            output::Output& output) {
  for (const bpf::ObjectProgram& program : object.programs())
    if (program.has_private_stack)
      output.warn(
          fmt::format("{}: program '{}': threads of one CPU overwrite its local variables on "
                      "this kernel: a tail call in it prevents this (docs/bpf-programs.md)",
                      path, program.name));
}

Result<void> UserPrograms::load(probe::Mechanism mechanism, output::Output& output) {
  if (std::exchange(loaded_, true)) return {};
  warn_of_guesses(output);
  mechanism_ = mechanism;
  if (auto set = set_pid_variables(); !set) return set;
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (auto loaded = load_object(i, mechanism, output); !loaded) return loaded;
  return {};
}

void UserPrograms::warn_of_guesses(output::Output& output) const {
  if (!request_->phase_by_section || kind_ == bpf::ProgramKind::session) return;
  for (const ProbeRequest& request : probe_requests_)
    if (const bpf::ObjectProgram& program = find(selected_[request.program]);
        program.is_guessed && !request.static_probes)
      output.warn_once(program.pin +
                       ": whether the program is for entries or returns is not known without "
                       "what uprobectl load keeps: it is attached to entries (-r: to returns)");
}

Result<void> UserPrograms::load_object(std::size_t index, probe::Mechanism mechanism,
                                       output::Output& output) {
  bpf::BpfObject& object = objects_[index];
  bpf::ObjectLoading loading{.kind = program_kind(mechanism), .only = {}};
  for (const Selected& each : selected_)
    if (each.object == index && find(each).loaded.loaded_by_us) loading.only.push_back(each.name);
  for (const Selected& each : other_programs_)
    if (each.object == index) loading.only.push_back(each.name);
  if (loading.only.empty()) return {};
  for (std::size_t i = 0; i < index && request_->shares_maps; ++i)
    if (auto shared = object.share_maps(objects_[i]); !shared) return shared;
  auto loaded = object.load(loading);
  if (!object.verifier_log().empty()) output.detail(object.verifier_log());
  if (!loaded) return loaded;
  say_chosen_sizes(object, paths_[index], output);
  warn_of_private_stacks(object, paths_[index], output);
  return {};
}

void UserPrograms::load_copies(std::span<const std::size_t> locations, output::Output& output) {
  if (!copies_.empty()) return;
  for (std::size_t limit = max_copies;; --limit) {
    copies_.assign(selected_.size(), 1);
    for (std::size_t i = 0; i < locations.size(); ++i)
      if (locations[i] <= limit && files_[selected_[i].object])
        copies_[i] = std::max<std::size_t>(locations[i], 1);
    if (count_copied() <= max_copied) break; // 0 at the latest with the limit 1
  }
  const std::size_t most = copies_.empty() ? 1 : std::ranges::max(copies_);
  for (std::size_t copy = 1; copy < most; ++copy) {
    auto opened = open_copies(copy);
    if (!opened) {
      output.detail("hits at single locations are not known: " + opened.error().message);
      copies_.assign(selected_.size(), 1);
      copied_.clear();
      return;
    }
    copied_.push_back(std::move(*opened));
  }
}

// The number of programs that open_copies() loads for all copies: also those which an object loads
// each time, for its maps.
std::size_t UserPrograms::count_copied() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    std::size_t most = 1;
    for (std::size_t program = 0; program < selected_.size(); ++program) {
      if (selected_[program].object != i) continue;
      sum += copies_[program] - 1;
      most = std::max(most, copies_[program]);
    }
    const auto always =
        std::ranges::count_if(objects_[i].programs(), &bpf::ObjectProgram::is_always_loaded);
    sum += (most - 1) * static_cast<std::size_t>(always);
  }
  return sum;
}

// Opens and loads the objects again, with the programs that have a copy of this number.
Result<std::vector<bpf::BpfObject>> UserPrograms::open_copies(std::size_t copy) const {
  std::vector<bpf::BpfObject> opened;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (!files_[i]) {
      opened.push_back(bpf::BpfObject::of_pins(paths_[i], {}));
      continue;
    }
    auto object = bpf::BpfObject::open(*files_[i], kernel_types_ ? &*kernel_types_ : nullptr);
    if (!object) return fail(std::move(object).error());
    bpf::ObjectLoading loading{.kind = program_kind(*mechanism_), .only = {}};
    for (std::size_t program = 0; program < selected_.size(); ++program) {
      if (selected_[program].object != i || copies_[program] <= copy) continue;
      loading.only.push_back(selected_[program].name);
      object->use_for_uprobes(selected_[program].name);
    }
    if (!loading.only.empty()) {
      if (auto shared = object->share_maps(objects_[i], true); !shared)
        return fail(std::move(shared).error());
      if (auto loaded = object->load(loading); !loaded) return fail(std::move(loaded).error());
    }
    opened.push_back(std::move(*object));
  }
  return opened;
}

std::size_t UserPrograms::copies(std::size_t index) const {
  return copies_.empty() ? 1 : copies_[index];
}

bpf::LoadedProgram UserPrograms::program(std::size_t index, std::size_t location) const {
  const Selected& selected = selected_[index];
  if (location == 0 || location >= copies(index)) return find(selected).loaded;
  return find_program(copied_[location - 1][selected.object], selected.name)->loaded;
}

bool UserPrograms::is_session(std::size_t index) const {
  return trace::is_session(find(selected_[index]));
}

bool UserPrograms::reads_function_address(std::size_t index) const {
  return find(selected_[index]).reads_function_address;
}

Result<std::vector<bpf::ObjectLink>> UserPrograms::attach_other_programs(output::Output& output) {
  std::vector<bpf::ObjectLink> links;
  std::vector<Selected> attached;
  for (const Selected& each : other_programs_) {
    auto link = objects_[each.object].attach_by_section(each.name);
    const bool is_only = selected_.empty() && other_programs_.size() == 1;
    const bool is_wanted =
        is_only || std::ranges::find(request_->choices, each.name, &ProgramChoice::name) !=
                       request_->choices.end();
    // This kernel need not have what a section names.
    if (!link && (is_wanted || (link.error().kind != ErrorKind::not_found &&
                                link.error().kind != ErrorKind::unsupported))) {
      Error error = std::move(link).error();
      error.message = fmt::format("{} cannot be attached: {}", describe(each), error.message);
      return fail(std::move(error));
    }
    if (!link) {
      output.warn(fmt::format("{} is skipped: {}", describe(each), link.error().message));
    } else if (*link) {
      links.push_back(std::move(**link));
      attached.push_back(each);
    } else if (is_wanted) {
      return fail(ErrorKind::unsupported,
                  fmt::format("{} cannot be attached: {}", describe(each), not_attached));
    } else if (!find(each).is_tail_call) {
      output.warn(fmt::format("{} is skipped: {}", describe(each), not_attached));
    }
  }
  if (selected_.empty() && links.empty() && !other_programs_.empty())
    return fail(ErrorKind::unsupported, name_ + ": contains no program that can be attached");
  other_programs_ = std::move(attached);
  return links;
}

std::uint32_t UserPrograms::find_kernel_types(std::size_t object) const {
  for (const Selected& each : selected_)
    if (each.object == object && each.btf_id != 0) return each.btf_id;
  return 0;
}

Result<void> UserPrograms::add_object_maps(std::size_t object,
                                           std::vector<bpf::UserMap>& maps) const {
  const auto& offset = type_offsets_[object];
  for (const bpf::ObjectMap& map : objects_[object].maps()) {
    if (map.fd < 0) continue; // no program of the object is attached
    auto described = bpf::describe_map(UniqueFd{::fcntl(map.fd, F_DUPFD_CLOEXEC, 0)});
    if (!described) return fail(std::move(described).error());
    if (std::ranges::find(maps, described->id, &bpf::UserMap::id) != maps.end()) continue; // shared
    described->name = map.name; // the kernel keeps only 15 bytes of it
    described->is_of_run = !map.is_of_pin;
    if (!request_->shares_maps) described->object = object;
    if (offset) {
      const auto type_of = [&](std::uint32_t id) { return id != 0 ? id + *offset : 0; };
      described->key_type = type_of(map.key_type);
      described->value_type = type_of(map.value_type);
      described->has_object_types = true;
    }
    maps.push_back(std::move(*described));
  }
  return {};
}

Result<std::vector<bpf::UserMap>> UserPrograms::maps() const {
  std::vector<bpf::UserMap> maps;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (files_[i]) {
      if (auto added = add_object_maps(i, maps); !added) return fail(std::move(added).error());
      continue;
    }
    if (std::ranges::find(selected_, i, &Selected::object) == selected_.end()) continue;
    auto found = find_pinned_maps(objects_[i], pinned_maps_[i], find_kernel_types(i));
    if (!found) return fail(std::move(found).error());
    for (bpf::UserMap& map : *found)
      if (std::ranges::find(maps, map.id, &bpf::UserMap::id) == maps.end())
        maps.push_back(std::move(map));
  }
  return maps;
}

Result<std::vector<UserPrograms::UnusableMap>> UserPrograms::unusable_maps() const {
  std::vector<UnusableMap> unusable;
  for (std::size_t i = 0; i < objects_.size(); ++i)
    for (const bpf::ObjectMap& map : objects_[i].maps()) {
      if (!map.pin_problem) continue;
      UnusableMap found{.name = map.name, .problem = *map.pin_problem, .is_buffer = map.is_buffer};
      for (const Selected& each : selected_) {
        if (each.object != i) continue;
        const auto used = bpf::list_map_ids(find(each).loaded.fd);
        if (!used) return fail(used.error());
        found.is_used |= std::ranges::find(*used, map.pinned_id) != used->end();
      }
      unusable.push_back(std::move(found));
    }
  return unusable;
}

std::shared_ptr<const values::BtfTypes> UserPrograms::read_types(output::Output& output) {
  std::shared_ptr<values::BtfTypes> types;
  type_offsets_.assign(objects_.size(), std::nullopt);
  const auto warn = [&](const std::string& file, const Error& problem) {
    if (problem.kind != ErrorKind::not_found)
      output.warn(fmt::format("{}: records may be shown as bytes: {}", file, problem.message));
  };
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const std::uint32_t kernel_types = find_kernel_types(i);
    if (!files_[i] && kernel_types == 0) continue;
    const auto btf = objects_[i].type_information();
    auto known = !files_[i] ? values::BtfTypes::load_from_kernel(kernel_types)
                 : btf      ? values::BtfTypes::parse(*btf)
                            : fail(btf.error());
    if (!known) {
      warn(paths_[i], known.error());
    } else if (types) {
      types->begin_object(i);
      type_offsets_[i] = types->add(*known);
    } else {
      types = std::make_shared<values::BtfTypes>(std::move(*known));
      types->begin_object(i, 1);
      type_offsets_[i] = 0;
    }
  }
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (!files_[i]) continue;
    const auto debug = dwarf::DebugInfo::parse(files_[i]->bytes());
    if (!debug) {
      warn(paths_[i], debug.error());
      continue;
    }
    if (!types) types = std::make_shared<values::BtfTypes>();
    types->begin_object(i);
    types->add(*debug);
    for (const std::string& problem : debug->warnings())
      warn(paths_[i], Error{ErrorKind::corrupt, problem});
  }
  return types;
}

Result<void> UserStaticProbes::load(std::span<const bpf::UserMap> tables, std::span<Probe> probes,
                                    std::uint64_t cookie, bool supports_cookies) {
  specs_.reset(); // before it is filled again
  cautions_.clear();
  if (tables.empty() || std::ranges::none_of(probes, [](const Probe& probe) {
        return probe.point.static_probe != nullptr;
      }))
    return {};
  if (!supports_cookies)
    return fail(Error{ErrorKind::unsupported,
                      "the mechanism has no cookies, which usdt.bpf.h needs to find the arguments"}
                    .hint("use --mechanism multi or perf on Linux 5.15 or later"));
  auto specs = bpf::UsdtSpecs::open(tables.front());
  if (!specs) return fail(std::move(specs).error());
  specs_ = std::move(*specs);
  return add(probes, cookie);
}

Result<void> UserStaticProbes::add(std::span<Probe> probes, std::uint64_t cookie) {
  std::map<std::string, std::uint32_t> known; // points with the same arguments share an entry
  for (Probe& probe : probes) {
    const resolve::ProbePoint& point = probe.point;
    if (!point.static_probe) continue;
    const events::StaticProbeLocation location{.probe = point.static_probe.get(),
                                               .address = uprobe_address(point)};
    const bool is_64bit = point.binary->machine.is_64bit;
    const auto [entry, is_new] =
        known.try_emplace((is_64bit ? "64 " : "32 ") + reading_key(location));
    if (is_new) {
      bpf::UsdtSpecs::Spec spec{.arguments = make_static_readings(location), .cookie = cookie};
      for (std::size_t n = 0; n < spec.arguments.size(); ++n) {
        std::optional<reading>& argument = spec.arguments[n];
        if (!argument) {
          add_caution(point, n, events::unreadable_reason(location.probe->arguments[n]));
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

void UserStaticProbes::add_caution(const resolve::ProbePoint& point, std::size_t argument,
                                   std::string_view problem) {
  cautions_.push_back(
      {.problem = std::string(problem),
       .text = fmt::format("{}: arg{} cannot be read ({}: {}), bpf_usdt_arg() fails for it",
                           display_name(point), argument,
                           point.static_probe->arguments[argument].raw, problem)});
}

void UserStaticProbes::report_cautions(output::Output& output) const {
  for (const Caution& caution : cautions_) output.gathered_warning(caution.problem, caution.text);
}

std::vector<bpf::UserMap> find_lost_maps(std::span<const bpf::UserMap> maps) {
  std::vector<bpf::UserMap> found;
  for (const bpf::UserMap& map : maps) {
    const bool counts =
        map.name == "lost" || std::ranges::any_of(maps, [&](const bpf::UserMap& other) {
          return counts_losses_of(map, other);
        });
    if (!counts || map.key_size != 4 || (map.value_size != 8 && map.value_size != 4)) continue;
    if (map.use != bpf::MapUse::table && map.use != bpf::MapUse::per_cpu) continue;
    found.push_back(map);
  }
  return found;
}

std::uint64_t read_lost_count(const bpf::UserMap& map) {
  const auto table = read_table(map, 1);
  std::uint64_t sum = 0;
  if (!table || table->entries.empty()) return 0;
  for (const auto& value : table->entries.front().values)
    sum += map.value_size == 8 ? read_at<std::uint64_t>(value, 0).value_or(0)
                               : read_at<std::uint32_t>(value, 0).value_or(0);
  return sum;
}

std::string explain_uncounted_losses(std::span<const bpf::UserMap> maps,
                                     std::span<const bpf::UserMap> counters) {
  for (const bpf::UserMap& map : maps) {
    if (map.use != bpf::MapUse::ring_buffer) continue;
    if (std::ranges::any_of(counters, [&](const bpf::UserMap& counter) {
          return counter.name == "lost" || counts_losses_of(counter, map);
        }))
      continue;
    return fmt::format("the program has no map 'lost' or '{}_lost_samples'", map.name);
  }
  return {};
}

} // namespace uprobectl::trace
