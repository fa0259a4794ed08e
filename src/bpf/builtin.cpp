// SPDX-License-Identifier: Apache-2.0
#include "bpf/builtin.hpp"

#include "bpf/embedded.hpp"
#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "bpf/map_entries.hpp"
#include "bpf/record_reader.hpp"
#include "bpf/scheduler_programs.hpp"
#include "bpf/thread_stack.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <linux/bpf.h>
#include <map>
#include <vector>

namespace uprobectl::bpf {

namespace {

// A 64-bit constant takes two instructions; the second has the upper half only (Linux
// Documentation/bpf/instruction-set.rst).
std::uint64_t wide_constant(const bpf_insn* code) {
  return static_cast<std::uint32_t>(code[0].imm) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(code[1].imm)) << 32;
}

// A copy of a loaded program with `cookie` instead of PROBE_NUMBER_PLACEHOLDER (bpf/record.h), for
// kernels without cookies. It is a plain program and uses the same maps. Fails with an errno.
std::expected<UniqueFd, int> load_copy_with_cookie(const bpf_program* program,
                                                   std::uint64_t cookie) {
  const bpf_insn* const loaded = bpf_program__insns(program);
  std::vector<bpf_insn> code(loaded, loaded + bpf_program__insn_cnt(program));
  std::size_t replaced = 0;
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i].code != (BPF_LD | BPF_IMM | BPF_DW)) continue;
    if (code[i].src_reg == 0 && wide_constant(&code[i]) == PROBE_NUMBER_PLACEHOLDER) {
      code[i].imm = static_cast<std::int32_t>(cookie);
      code[i + 1].imm = static_cast<std::int32_t>(cookie >> 32);
      ++replaced;
    }
    ++i;
  }
  if (replaced == 0) return std::unexpected(EINVAL); // not a program with the placeholder
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  const int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, bpf_program__name(program), "Dual BSD/GPL",
                               code.data(), code.size(), &options);
  if (fd < 0) return std::unexpected(-fd);
  return UniqueFd{fd};
}

// Open calls of one run: 12 MiB without stacks.
constexpr std::uint32_t max_calls = 65536;
constexpr std::uint32_t max_jumped_calls = 16384; // that are open
// Threads for which lost records are counted one by one.
constexpr std::uint32_t max_losing_threads = 16384;
constexpr std::uint32_t max_call_bytes = 64U << 20;
constexpr std::uint32_t max_span_bytes = 128U << 20; // of the hits that began the open ones
constexpr std::uint32_t max_hits = 2048; // whose record is being built, one for each thread
constexpr std::uint32_t max_process_counts = 65536; // also of those by stack
constexpr std::uint32_t max_stacks = 16384;
// About 6,028 of max_stacks stacks have an entry that another stack with their hash took first.
constexpr std::uint32_t max_collided_stacks = 8192;
constexpr std::uint32_t max_groups = 65536;
constexpr std::uint32_t max_group_bytes = 16U << 20;

// The loaded programs with their maps.
class BuiltinObject {
public:
  static Result<BuiltinObject> load(const BuiltinProgram::Settings& settings);

  int map(const char* name) const;               // its descriptor, owned by the object
  std::uint32_t entries(const char* name) const; // the most that the map holds
  Result<void> attach_to_scheduler(const builtin_settings& run);
  const bpf_program* program(ProbeRole role) const {
    return programs_[static_cast<std::size_t>(role)];
  }
  // Loads a copy of the program for this cookie, unless it exists.
  Result<void> make_copy(ProbeRole role, std::uint64_t cookie);
  int copy(ProbeRole role, std::uint64_t cookie) const;

private:
  struct CloseObject {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
  };
  std::unique_ptr<bpf_object, CloseObject> object_;
  std::array<const bpf_program*, 4> programs_{}; // by role; owned by object_
  std::array<std::map<std::uint64_t, UniqueFd>, 4> copies_;
  std::vector<UniqueFd> tracepoints_; // links of programs
};

Bytes image_for(const BuiltinProgram::Settings& settings) {
  if (settings.buffer == RecordBuffer::perf)
    return settings.cookie ? builtin_perf_cookie() : builtin_perf_number();
  if (settings.sleepable) return builtin_ring_sleepable();
  return settings.cookie ? builtin_ring_cookie() : builtin_ring_number();
}

bool shares_offsets(const BuiltinProgram::Settings& settings) {
  return !settings.probes.empty() &&
         std::ranges::all_of(settings.probes, [](const BuiltinProgram::Probe& probe) {
           return probe.shared_offset.has_value();
         });
}

// Bytes of a plan in the map `plans`, where all have the same number of readings.
std::uint32_t plan_bytes(const builtin_settings& run) {
  return static_cast<std::uint32_t>(offsetof(point_plan, readings) +
                                    run.max_readings * sizeof(reading));
}

std::uint32_t filter_bytes(const builtin_settings& run) {
  return static_cast<std::uint32_t>(offsetof(filter, terms) + run.max_terms * sizeof(filter_term));
}
std::uint32_t pattern_bytes(const builtin_settings& run) {
  return std::max(run.pattern_states, 1U) * static_cast<std::uint32_t>(sizeof(pattern_state));
}

// Prepares an opened object for loading: the sizes of its maps, and its settings.
class ObjectSetup {
public:
  ObjectSetup(bpf_object* object, const BuiltinProgram::Settings& settings)
      : object_(object), settings_(settings), run_(settings.run) {}

  void size_maps() const {
    const auto has = [&](unsigned flags) { return (run_.flags & flags) != 0; };
    const auto probes = std::max(static_cast<std::uint32_t>(settings_.probes.size()), 1U);
    // libbpf sizes the map of perf buffers by the number of CPUs.
    if (settings_.buffer == RecordBuffer::ring) resize("records", settings_.buffer_bytes);
    resize("counters", probes);
    // The buffer is smaller than usual if the memory for BPF is limited; so are these tables then.
    const std::uint32_t usual_bytes = BuiltinProgram::Settings().buffer_bytes;
    const std::uint32_t share = usual_bytes / std::min(settings_.buffer_bytes, usual_bytes);
    const auto resize_table = [&](const char* name, std::uint32_t entries) {
      resize(name, std::max(entries / share, 64U));
    };
    resize("plans", std::max(run_.plan_count, 1U));
    resize("probe_plans", run_.plan_count > 1 ? probes : 1);
    bpf_map__set_value_size(find("plans"), plan_bytes(run_));
    size_filter_maps();
    resize("exits", std::max(static_cast<std::uint32_t>(settings_.exit_rules.size()), 1U));
    if (run_.follows_tail_calls != 0) resize_table("jumped_calls", max_jumped_calls);
    resize("probe_numbers", shares_offsets(settings_) ? probes : 1);
    if (run_.sample > 0 || run_.max_in_window > 0) resize("limits", probes);
    if (has(HAS_TRIGGERS)) resize("trigger_flags", probes);
    if (has(NEST_CALLS)) resize_table("thread_losses", max_losing_threads);
    prepare_scheduler_programs(object_, run_, share);
    if (has(MEASURE_LATENCY | MEASURE_VALUE))
      resize("histograms", std::max(probes, settings_.spans));
    if (has(SPANS)) {
      bpf_map__set_value_size(find("spans"), run_.hit_size);
      resize_table("spans", std::min(settings_.max_open_spans, max_span_bytes / run_.hit_size));
      resize("span_counts", settings_.spans);
    }
    if (has(COUNT_BY_PROCESS)) resize_table("process_counts", max_process_counts);
    if (has(COUNT_STACKS)) resize_table("stack_counts", max_process_counts);
    if (has(COUNT_STACKS | SPAN_STACKS) || (run_.group_by & BY_STACK) != 0) {
      resize_table("stacks", max_stacks);
      resize_table("collided_stacks", max_collided_stacks);
    }
    if (run_.group_by != 0) {
      bpf_map__set_key_size(find("groups"), run_.kept_size);
      resize_table("groups", std::min(max_groups, max_group_bytes / run_.kept_size));
    }
    bpf_map__set_value_size(find("calls"), run_.kept_size);
    bpf_map__set_value_size(find("blank"), run_.kept_size);
    // Records for a perf buffer and of sleepable programs, and keys of groups, are built in this
    // map too. It is limited in entries and in memory.
    const bool is_builder = settings_.buffer == RecordBuffer::perf || settings_.sleepable;
    const bool builds = (is_builder && has(SEND_RECORDS)) || run_.group_by != 0 || has(SPANS);
    if (has(PAIR_CALLS) || builds)
      resize_table("calls", std::min(has(PAIR_CALLS) ? max_calls : max_hits,
                                     max_call_bytes / run_.kept_size));
  }

  void size_filter_maps() const {
    const auto size_of = [](const auto& all) {
      return std::max(static_cast<std::uint32_t>(all.size()), 1U);
    };
    const FilterTables& tables = settings_.filters;
    resize("filters", size_of(tables.filters));
    bpf_map__set_value_size(find("filters"), filter_bytes(run_));
    resize("set_members", size_of(tables.members));
    resize("text_chunks", size_of(tables.text_chunks));
    if ((run_.filter_features & 1U << COMPARE_CALLER) != 0)
      resize("callers", BuiltinProgram::max_caller_processes);
    resize("patterns", size_of(tables.patterns));
    bpf_map__set_value_size(find("patterns"), pattern_bytes(run_));
  }

  Result<void> freeze_settings() const {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object_) {
      if (!std::string_view(bpf_map__name(map)).ends_with(".rodata")) continue;
      // Fails if the program's settings have another size.
      if (bpf_map__set_initial_value(map, &run_, sizeof(run_)) != 0) break;
      return {};
    }
    return fail(ErrorKind::corrupt, "the built-in program's settings have an unexpected size");
  }

private:
  bpf_map* find(const char* name) const { return bpf_object__find_map_by_name(object_, name); }
  void resize(const char* name, std::uint32_t entries) const {
    bpf_map__set_max_entries(find(name), entries);
  }

  bpf_object* object_;
  const BuiltinProgram::Settings& settings_;
  const builtin_settings& run_;
};

Result<BuiltinObject> BuiltinObject::load(const BuiltinProgram::Settings& settings) {
  std::string log(64 << 10, '\0');
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "uprobectl",
              .kernel_log_buf = log.data(), .kernel_log_size = log.size());
  const Bytes image = image_for(settings);
  BuiltinObject made;
  made.object_.reset(bpf_object__open_mem(image.data(), image.size(), &options));
  if (!made.object_) return fail(system_error(errno, "cannot open the built-in BPF object"));
  bpf_object* const object = made.object_.get();

  const ObjectSetup setup(object, settings);
  setup.size_maps();
  if (settings.processes >= 0)
    if (const int error = bpf_map__reuse_fd(bpf_object__find_map_by_name(object, "processes"),
                                            settings.processes);
        error != 0)
      return fail(system_error(-error, "cannot share the map of processes"));
  if (auto frozen = setup.freeze_settings(); !frozen) return fail(std::move(frozen).error());

  constexpr std::array roles = {std::pair{ProbeRole::entry, "on_entry"},
                                std::pair{ProbeRole::on_return, "on_return"},
                                std::pair{ProbeRole::exit, "on_exit"},
                                std::pair{ProbeRole::entry_and_exit, "on_entry_and_exit"}};
  for (const auto& [role, name] : roles) {
    bpf_program* const found = bpf_object__find_program_by_name(object, name);
    made.programs_[static_cast<std::size_t>(role)] = found;
    bpf_program__set_autoload(found, settings.roles.contains(role));
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    if (bpf_program__type(program) != BPF_PROG_TYPE_KPROBE) continue;
    bpf_program__set_expected_attach_type(
        program, static_cast<bpf_attach_type>(expected_attach_type(settings.kind)));
    if (settings.sleepable)
      bpf_program__set_flags(program, bpf_program__flags(program) | BPF_F_SLEEPABLE);
  }
  adapt_tail_calls(object);
  if (const int error = bpf_object__load(object); error != 0) {
    return fail(bpf_load_error(-error, "cannot load the built-in BPF program", log.c_str(), {}));
  }
  return made;
}

int BuiltinObject::map(const char* name) const {
  return bpf_map__fd(bpf_object__find_map_by_name(object_.get(), name));
}

std::uint32_t BuiltinObject::entries(const char* name) const {
  const bpf_map* const map = bpf_object__find_map_by_name(object_.get(), name);
  return map != nullptr ? bpf_map__max_entries(map) : 0;
}

Result<void> BuiltinObject::attach_to_scheduler(const builtin_settings& run) {
  auto links = attach_scheduler_programs(object_.get(), run);
  if (!links) return fail(std::move(links).error());
  tracepoints_ = std::move(*links);
  return {};
}

Result<void> BuiltinObject::make_copy(ProbeRole role, std::uint64_t cookie) {
  auto& copies = copies_[static_cast<std::size_t>(role)];
  if (copies.contains(cookie)) return {};
  auto copy = load_copy_with_cookie(program(role), cookie);
  if (!copy) return fail(bpf_load_error(copy.error(), "cannot load a BPF program per probe"));
  copies[cookie] = std::move(*copy);
  return {};
}

int BuiltinObject::copy(ProbeRole role, std::uint64_t cookie) const {
  return copies_[static_cast<std::size_t>(role)].at(cookie).get();
}

ProcessCount make_process_count(std::uint32_t pid, std::uint32_t counted_probe,
                                const process_count& value) {
  return {.probe = counted_probe & ~COUNTED_AT_RETURN,
          .at_return = (counted_probe & COUNTED_AT_RETURN) != 0,
          .pid = pid,
          .comm = std::string(value.comm, ::strnlen(value.comm, sizeof(value.comm))),
          .count = value.count};
}

} // namespace

struct BuiltinProgram::State {
  Settings settings;
  BuiltinObject object;
  std::unique_ptr<RecordReader> reader;
  std::vector<std::uint64_t> entry_cookies; // by probe
  std::size_t cpus = 1;                     // possible ones
  run_state state{};                        // as the program has it
  std::optional<CallRoom> room;             // with PAIR_CALLS

  // Empty if the kernel could not store the stack.
  std::vector<std::uint64_t> find_frames(std::int64_t stack, std::uint64_t caller) const {
    if (stack < 0) return {};
    std::array<std::uint64_t, MAX_FRAMES> frames{};
    const auto key = static_cast<std::uint64_t>(stack);
    const auto id = static_cast<std::uint32_t>(key);
    const bool is_known =
        (key & STACK_COLLIDED) != 0
            ? bpf_map_lookup_elem(object.map("collided_stacks"), &key, frames.data()) == 0
            : bpf_map_lookup_elem(object.map("stacks"), &id, frames.data()) == 0;
    if (!is_known) return {};
    return walked_frames(frames, caller);
  }

  Result<void> make_copies() {
    raise_descriptor_limit();
    for (std::uint32_t probe = 0; probe < settings.probes.size(); ++probe) {
      for (const ProbeRole role : {ProbeRole::entry, ProbeRole::on_return}) {
        if (!settings.roles.contains(role)) continue;
        if (auto made =
                object.make_copy(role, role == ProbeRole::entry ? entry_cookies[probe] : probe);
            !made)
          return made;
      }
    }
    for (const ProbeExit& exit : settings.exits) {
      const ProbeRole role = exit.at_entry ? ProbeRole::entry_and_exit : ProbeRole::exit;
      if (auto made = object.make_copy(role, EXIT_COOKIE(exit.probe, exit.rule)); !made)
        return made;
    }
    return {};
  }

  Result<void> store_plans() {
    const int plans = object.map("plans");
    const int probe_plans = object.map("probe_plans");
    for (std::uint32_t index = 0; index < settings.run.plan_count; ++index)
      if (const int error = bpf_map_update_elem(plans, &index, &settings.plans[index], BPF_ANY);
          error != 0)
        return fail(system_error(-error, "cannot store what the probes capture"));
    if (settings.run.plan_count < 2) return {};
    for (std::uint32_t probe = 0; probe < settings.probes.size(); ++probe)
      if (const int error =
              bpf_map_update_elem(probe_plans, &probe, &settings.probes[probe].plan, BPF_ANY);
          error != 0)
        return fail(system_error(-error, "cannot store what the probes capture"));
    return {};
  }

  Result<void> store_filters() {
    const FilterTables& tables = settings.filters;
    const auto store = [&](const char* map, const void* key, const void* value) -> Result<void> {
      if (const int error = bpf_map_update_elem(object.map(map), key, value, BPF_ANY); error != 0)
        return fail(system_error(-error, "cannot store the filters"));
      return {};
    };
    for (std::uint32_t index = 0; index < tables.filters.size(); ++index)
      if (auto stored = store("filters", &index, &tables.filters[index]); !stored) return stored;
    const std::uint8_t present = 1;
    for (const set_member& each : tables.members)
      if (auto stored = store("set_members", &each, &present); !stored) return stored;
    for (const auto& [chunk, next] : tables.text_chunks)
      if (auto stored = store("text_chunks", &chunk, &next); !stored) return stored;
    for (std::uint32_t index = 0; index < tables.patterns.size(); ++index) {
      auto states = tables.patterns[index];
      states.resize(std::max(settings.run.pattern_states, 1U));
      if (auto stored = store("patterns", &index, states.data()); !stored) return stored;
    }
    return {};
  }

  Result<void> store_exit_rules() {
    const int exits = object.map("exits");
    for (std::uint32_t index = 0; index < settings.exit_rules.size(); ++index)
      if (const int error =
              bpf_map_update_elem(exits, &index, &settings.exit_rules[index], BPF_ANY);
          error != 0)
        return fail(system_error(-error, "cannot store the exit rules of the BPF program"));
    return {};
  }

  Result<void> store_trigger_value(const char* map, std::uint32_t index, const void* value) const {
    if (const int error = bpf_map_update_elem(object.map(map), &index, value, BPF_ANY); error != 0)
      return fail(system_error(-error, "cannot store what starts and stops the recording"));
    return {};
  }

  Result<void> store_recording_state(const recording_state& run) const {
    return store_trigger_value("recording_state", 0, &run);
  }

  Result<void> store_triggers() const {
    for (std::uint32_t probe = 0; probe < settings.probes.size(); ++probe)
      if (auto stored =
              store_trigger_value("trigger_flags", probe, &settings.probes[probe].triggers);
          !stored)
        return stored;
    return store_recording_state(
        {.started = (settings.run.flags & STARTS_LATER) != 0 ? 0U : 1U, .stopped = 0});
  }

  recording_state read_recording_state() const {
    recording_state run{.started = 1, .stopped = 0};
    const std::uint32_t first = 0;
    if ((settings.run.flags & HAS_TRIGGERS) != 0 &&
        bpf_map_lookup_elem(object.map("recording_state"), &first, &run) != 0)
      return {};
    return run;
  }

  // Probes at the same offset within a page get different events.
  Result<void> share_cookies() {
    const int numbers = object.map("probe_numbers");
    std::map<std::uint32_t, std::uint32_t> events; // their number, by offset within a page
    for (std::uint32_t probe = 0; probe < settings.probes.size(); ++probe) {
      const std::uint64_t offset = settings.probes[probe].shared_offset->value;
      const std::uint32_t event = events[PROBE_NUMBER_KEY(0U, offset)]++;
      entry_cookies[probe] = SHARED_COOKIE | event;
      const std::uint32_t key = PROBE_NUMBER_KEY(event, offset);
      if (const int error = bpf_map_update_elem(numbers, &key, &probe, BPF_NOEXIST); error != 0)
        return fail(system_error(-error, "cannot store the numbers of the probes"));
    }
    return {};
  }

  PerfBufferOptions perf_buffer_options() const {
    PerfBufferOptions options{.bytes = settings.buffer_bytes};
    if ((settings.run.flags & COPY_STACK) == 0) return options;
    options.stack_bytes = settings.run.stack_size;
    options.kept_size = settings.run.kept_size;
    return options;
  }

  Result<void> set_cgroup() const {
    const std::uint32_t first = 0;
    const auto group = static_cast<std::uint32_t>(settings.cgroup);
    if (const int error = bpf_map_update_elem(object.map("cgroups"), &first, &group, BPF_ANY);
        error != 0)
      return fail(system_error(-error, "cannot restrict probes to the control group"));
    return {};
  }

  // Stores the program's writable data, which is the whole .bss.
  Result<void> store_state(const run_state& wanted) {
    const std::uint32_t index = 0;
    if (const int error = bpf_map_update_elem(object.map(".bss"), &index, &wanted, BPF_ANY);
        error != 0)
      return fail(system_error(-error, "cannot arm the BPF program"));
    state = wanted;
    return {};
  }

  std::optional<CallEntry> read_call(const CallKey& key) const;
  std::vector<CallEntry> calls() const;
  std::uint64_t remove_calls(std::span<const CallEntry> calls) const;

  // The values of an entry for all CPUs.
  template <typename Value>
  std::vector<Value> on_all_cpus(const char* map, std::uint32_t index) const {
    std::vector<Value> values(cpus);
    if (bpf_map_lookup_elem(object.map(map), &index, values.data()) != 0) values.clear();
    return values;
  }
};

BuiltinProgram::BuiltinProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
BuiltinProgram::BuiltinProgram(BuiltinProgram&&) noexcept = default;
BuiltinProgram& BuiltinProgram::operator=(BuiltinProgram&&) noexcept = default;
BuiltinProgram::~BuiltinProgram() = default;

Result<BuiltinProgram> BuiltinProgram::load(const Settings& settings) {
  libbpf_set_print(nullptr); // libbpf would print to stderr

  auto state = std::make_unique<State>();
  state->settings = settings;
  const auto cpus = possible_cpus();
  if (!cpus) return fail(cpus.error());
  state->cpus = *cpus;
  unsigned& flags = state->settings.run.flags;
  if (settings.probes.size() == 1 && settings.cookie) flags |= ONLY_PROBE;
  if (settings.exit_rules.size() > 1) flags |= EXIT_RULES;
  if (std::ranges::any_of(settings.exit_rules,
                          [](const exit_rule& rule) { return rule.role != EXIT_ENDS_CALL; }))
    state->settings.run.follows_tail_calls = 1;
  // A record for a perf buffer is in one piece.
  if (settings.buffer == RecordBuffer::perf && settings.run.longest_offset != 0)
    state->settings.run.kept_size = settings.run.record_size;
  for (const Probe& probe : settings.probes) {
    if (probe.triggers != 0) flags |= HAS_TRIGGERS;
    if ((probe.triggers & STARTS_RECORDING) != 0) flags |= STARTS_LATER;
  }
  auto object = BuiltinObject::load(state->settings);
  if (!object) return fail(std::move(object).error());
  state->object = std::move(*object);
  for (std::uint32_t probe = 0; probe < settings.probes.size(); ++probe)
    state->entry_cookies.push_back(probe);
  if (shares_offsets(settings) && settings.probes.size() > 1)
    if (auto shared = state->share_cookies(); !shared) return fail(std::move(shared).error());
  if (auto stored = state->store_plans(); !stored) return fail(std::move(stored).error());
  if (auto stored = state->store_filters(); !stored) return fail(std::move(stored).error());
  if (auto stored = state->store_exit_rules(); !stored) return fail(std::move(stored).error());
  if ((flags & HAS_TRIGGERS) != 0)
    if (auto stored = state->store_triggers(); !stored) return fail(std::move(stored).error());
  if (auto attached = state->object.attach_to_scheduler(state->settings.run); !attached)
    return fail(std::move(attached).error());
  if (settings.cgroup >= 0)
    if (auto set = state->set_cgroup(); !set) return fail(std::move(set).error());
  if (!settings.cookie)
    if (auto copied = state->make_copies(); !copied) return fail(std::move(copied).error());
  const int records = state->object.map("records");
  auto reader = settings.buffer == RecordBuffer::ring
                    ? open_ring_reader(records)
                    : open_perf_reader(records, state->perf_buffer_options());
  if (!reader) return fail(std::move(reader).error());
  state->reader = std::move(*reader);
  return BuiltinProgram(std::move(state));
}

LoadedProgram BuiltinProgram::program(std::uint32_t probe, ProbeRole role,
                                      std::uint32_t exit_rule) const {
  const BuiltinObject& object = state_->object;
  return {.fd = state_->settings.cookie ? bpf_program__fd(object.program(role))
                                        : object.copy(role, cookie(probe, role, exit_rule)),
          .kind = state_->settings.kind};
}

std::uint64_t BuiltinProgram::cookie(std::uint32_t probe, ProbeRole role,
                                     std::uint32_t exit_rule) const {
  if (role == ProbeRole::exit || role == ProbeRole::entry_and_exit)
    return EXIT_COOKIE(probe, exit_rule);
  return role == ProbeRole::entry ? state_->entry_cookies[probe] : probe;
}

Result<void> BuiltinProgram::rearm_for(std::uint32_t pid) const {
  const std::uint32_t member = 1;
  if (state_->settings.processes >= 0)
    bpf_map_update_elem(state_->settings.processes, &pid, &member, BPF_ANY);
  if (recording_has_stopped())
    if (auto stored = state_->store_recording_state({.started = 1, .stopped = 0}); !stored)
      return stored;
  return arm(true);
}

int BuiltinProgram::poll_fd() const { return state_->reader->poll_fd(); }

Result<void> BuiltinProgram::arm(bool on) const {
  run_state wanted = state_->state;
  wanted.armed = on ? 1 : 0;
  return state_->store_state(wanted);
}

Result<void> BuiltinProgram::set_callers(std::uint32_t process, const caller_map& code) {
  if (const int error =
          bpf_map_update_elem(state_->object.map("callers"), &process, &code, BPF_ANY);
      error != 0)
    return fail(system_error(-error, "cannot store where the code of callers lies"));
  return {};
}

void BuiltinProgram::forget_callers(std::uint32_t process) {
  bpf_map_delete_elem(state_->object.map("callers"), &process); // it may not be there
}

bool BuiltinProgram::drain(const std::function<bool(Bytes)>& visit) {
  return state_->reader->drain(visit);
}

bool BuiltinProgram::waits() const { return state_->reader->waits(); }
std::uint64_t BuiltinProgram::unsubmitted() const { return state_->reader->unsubmitted(); }

std::uint64_t BuiltinProgram::lost(lost_reason reason) const {
  std::uint64_t sum = 0;
  for (const auto value : state_->on_all_cpus<std::uint64_t>("lost", reason)) sum += value;
  return sum;
}

namespace {

CallEntry make_call_entry(const CallKey& key, const std::byte* kept) {
  probe_record record{};
  std::memcpy(&record, kept, sizeof(record));
  return {.key = key, .thread = record.tid, .began_ns = record.time_ns};
}

} // namespace

std::optional<CallEntry> BuiltinProgram::State::read_call(const CallKey& key) const {
  std::vector<std::byte> kept(settings.run.kept_size);
  if (bpf_map_lookup_elem(object.map("calls"), &key, kept.data()) != 0) return std::nullopt;
  return make_call_entry(key, kept.data());
}

std::vector<CallEntry> BuiltinProgram::State::calls() const {
  std::vector<CallEntry> calls;
  visit_entries(object.map("calls"), sizeof(CallKey), settings.run.kept_size,
                [&](Bytes bytes, Bytes kept) {
                  CallKey key;
                  std::memcpy(&key, bytes.data(), sizeof(key));
                  calls.push_back(make_call_entry(key, kept.data()));
                  return calls.size() < max_calls;
                });
  return calls;
}

// Skips calls that the program has replaced by another call of the same key.
std::uint64_t BuiltinProgram::State::remove_calls(std::span<const CallEntry> calls) const {
  const int map = object.map("calls");
  std::uint64_t removed = 0;
  for (const CallEntry& call : calls) {
    const auto now = read_call(call.key);
    if (now && now->began_ns == call.began_ns && now->thread == call.thread &&
        bpf_map_delete_elem(map, &call.key) == 0)
      ++removed;
  }
  return removed;
}

BuiltinProgram::OpenCalls BuiltinProgram::open_calls() const {
  OpenCalls open;
  for (const CallEntry& call : state_->calls()) {
    const bool is_given_up = call.began_ns != 0 && call.began_ns < state_->state.given_up_before;
    ++(is_given_up ? open.given_up : open.waiting);
  }
  return open;
}

// The calls that are given up are removed by the next call of this function: programs that have
// found their entries before have ended by then.
BuiltinProgram::ForgottenCalls BuiltinProgram::forget_calls(const CallRoom::HasEnded& has_ended) {
  if (!state_->room) state_->room.emplace(state_->object.entries("calls"));
  const auto choice = state_->room->choose(state_->calls(), lost(LOST_CALLS_FULL) > 0,
                                           clock_ns(CLOCK_MONOTONIC), has_ended);
  ForgottenCalls forgotten{.ended = state_->remove_calls(choice.ended),
                           .given_up = state_->remove_calls(choice.given_up)};
  if (choice.given_up_before == state_->state.given_up_before) return forgotten;
  run_state wanted = state_->state;
  wanted.given_up_before = choice.given_up_before;
  forgotten.has_more = state_->store_state(wanted).has_value();
  return forgotten;
}

bool BuiltinProgram::recording_has_started() const {
  return state_->read_recording_state().started != 0;
}
bool BuiltinProgram::recording_has_stopped() const {
  return state_->read_recording_state().stopped != 0;
}

std::vector<span_counts> BuiltinProgram::counts_of_spans() const {
  std::vector<span_counts> result(state_->settings.spans);
  for (std::uint32_t span = 0; span < result.size(); ++span)
    for (const span_counts& each : state_->on_all_cpus<span_counts>("span_counts", span))
      for (std::size_t i = 0; i < SPAN_COUNTERS; ++i) result[span].counters[i] += each.counters[i];
  return result;
}

std::vector<std::vector<std::byte>>
BuiltinProgram::take_open_spans(const std::function<bool(std::uint32_t process)>& is_taken) const {
  const int map = state_->object.map("spans");
  std::vector<span_key> keys;
  std::vector<std::vector<std::byte>> begins;
  visit_entries(map, sizeof(span_key), state_->settings.run.hit_size,
                [&](Bytes bytes, Bytes begin) {
                  span_key key;
                  std::memcpy(&key, bytes.data(), sizeof(key));
                  if (!is_taken(key.process)) return true;
                  keys.push_back(key);
                  begins.emplace_back(begin.begin(), begin.end());
                  return true;
                });
  for (const span_key& key : keys) bpf_map_delete_elem(map, &key);
  return begins;
}

std::vector<std::uint64_t> BuiltinProgram::frames_of(std::int64_t stack,
                                                     std::uint64_t caller) const {
  return state_->find_frames(stack, caller);
}

std::vector<ProbeCounts> BuiltinProgram::counts() const {
  std::vector<ProbeCounts> result(state_->settings.probes.size());
  for (std::uint32_t probe = 0; probe < result.size(); ++probe)
    for (const auto& [counters] : state_->on_all_cpus<probe_counts>("counters", probe)) {
      result[probe].entries += counters[COUNTED_ENTRIES];
      result[probe].returns += counters[COUNTED_RETURNS];
      result[probe].excluded += counters[COUNTED_EXCLUDED];
      result[probe].unpaired += counters[COUNTED_UNPAIRED];
      result[probe].filtered.add(counters[COUNTED_FILTERED], counters[COUNTED_FILTERED_RETURNS]);
      result[probe].invisible.add(counters[COUNTED_INVISIBLE], counters[COUNTED_INVISIBLE_RETURNS]);
      result[probe].sampled_out += counters[COUNTED_SAMPLED_OUT];
      result[probe].rate_limited += counters[COUNTED_RATE_LIMITED];
      result[probe].outside.add(counters[COUNTED_OUTSIDE], counters[COUNTED_OUTSIDE_RETURNS]);
      result[probe].triggers += counters[COUNTED_TRIGGERS];
      result[probe].no_return += counters[COUNTED_NO_RETURN];
      result[probe].ended_no_call += counters[COUNTED_ENDED_NO_CALL];
    }
  return result;
}

std::vector<ProcessCount> BuiltinProgram::process_counts() const {
  const int map = state_->object.map("process_counts");
  std::vector<ProcessCount> result;
  process_probe key{};
  const process_probe* previous = nullptr;
  while (bpf_map_get_next_key(map, previous, &key) == 0) {
    process_count value{};
    if (bpf_map_lookup_elem(map, &key, &value) == 0)
      result.push_back(make_process_count(key.process, key.probe, value));
    previous = &key;
  }
  return result;
}

std::vector<StackCount> BuiltinProgram::stack_counts() const {
  const int counts = state_->object.map("stack_counts");
  std::vector<StackCount> result;
  stack_key key{};
  const stack_key* previous = nullptr;
  for (; bpf_map_get_next_key(counts, previous, &key) == 0; previous = &key) {
    process_count value{};
    if (bpf_map_lookup_elem(counts, &key, &value) != 0) continue;
    result.push_back(
        {make_process_count(key.process, key.probe, value), key, frames_of(key.stack, key.caller)});
  }
  return result;
}

std::vector<GroupCount> BuiltinProgram::group_counts(const GroupChoice& is_wanted) const {
  const builtin_settings& run = state_->settings.run;
  std::vector<GroupCount> result;
  const auto add = [&](Bytes bytes, Bytes value) {
    std::string key(as_text(bytes));
    group_sums sums{};
    std::memcpy(&sums, value.data(), sizeof(sums));
    if (!is_wanted(key, sums)) return true;
    GroupCount group{.key = std::move(key), .frames = {}, .sums = sums};
    if ((run.group_by & BY_STACK) != 0)
      if (const auto stack = structure_at<stack_key>(bytes, run.stack_offset)) {
        group.pid = stack->process;
        group.frames = frames_of(stack->stack, stack->caller);
      }
    result.push_back(std::move(group));
    return true;
  };
  visit_entries(state_->object.map("groups"), run.kept_size, sizeof(group_sums), add);
  return result;
}

Histogram BuiltinProgram::histogram(std::uint32_t probe) const {
  constexpr std::uint64_t sign = 1ULL << 63;
  Histogram sum;
  std::uint64_t highest = 0;
  std::uint64_t lowest = 0;
  for (const histogram_counts& each : state_->on_all_cpus<histogram_counts>("histograms", probe)) {
    sum.buckets.resize(HISTOGRAM_BUCKETS);
    for (std::size_t i = 0; i < sum.buckets.size(); ++i) sum.buckets[i] += each.buckets[i];
    sum.total += each.total;
    sum.negative += each.negative;
    highest = std::max<std::uint64_t>(highest, each.highest);
    lowest = std::max<std::uint64_t>(lowest, each.lowest);
  }
  sum.count = sum.negative;
  for (const std::uint64_t count : sum.buckets) sum.count += count;
  if (sum.count == 0) return {};
  sum.max = static_cast<std::int64_t>(highest ^ sign);
  sum.min = static_cast<std::int64_t>(~lowest ^ sign);
  return sum;
}

std::vector<std::uint64_t> walked_frames(std::span<const std::uint64_t> addresses,
                                         std::uint64_t caller) {
  // Linux Documentation/arch/arm64/tagged-pointers.rst; the kernel strips signatures.
  constexpr std::uint64_t address_bits = (std::uint64_t{1} << 56) - 1;
  // The caller may have a signature.
  const std::uint64_t caller_bits = (std::uint64_t{1} << host_arch_info().mapped_address_bits) - 1;
  std::vector<std::uint64_t> frames;
  for (const std::uint64_t address : addresses) {
    if (address == 0) break;
    frames.push_back(address & address_bits);
  }
  caller &= caller_bits;
  if (caller != 0 && !frames.empty()) frames.insert(frames.begin() + 1, caller);
  return frames;
}

} // namespace uprobectl::bpf
