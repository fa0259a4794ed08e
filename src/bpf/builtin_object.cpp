#include "bpf/builtin_object.hpp"

#include "bpf/embedded.hpp"
#include "bpf/link_create.hpp"
#include "bpf/permission.hpp"
#include "bpf/probe_copy.hpp"

#include <algorithm>
#include <bpf/bpf.h>

namespace uprobectl {

namespace {

Bytes image_for(const BuiltinProgram::Settings& settings) {
  if (settings.buffer == RecordBuffer::perf)
    return settings.cookie ? builtin_perf_cookie() : builtin_perf_number();
  return settings.cookie ? builtin_ring_cookie() : builtin_ring_number();
}

constexpr std::uint32_t most_call_bytes = 64U << 20;
constexpr std::uint32_t most_process_counts = 65536; // those by stack, too
constexpr std::uint32_t most_stacks = 16384;

class Setup {
public:
  Setup(bpf_object* object, const BuiltinProgram::Settings& settings,
        const builtin_settings& variant)
      : object_(object), settings_(settings), variant_(variant) {}

  // Sizes of what the first one makes and the others share.
  void size_maps() const {
    const auto has = [&](unsigned flag) {
      return std::ranges::any_of(settings_.variants, [&](const builtin_settings& each) {
        return (each.flags & flag) != 0;
      });
    };
    const std::uint32_t probes = std::max(settings_.probes, 1U);
    // Of perf buffers there are as many as CPUs, which libbpf sees to.
    if (settings_.buffer == RecordBuffer::ring) resize("records", settings_.buffer_bytes);
    resize("counters", probes);
    resize("exits", std::max(static_cast<std::uint32_t>(settings_.exit_rules.size()), 1U));
    resize("places", settings_.shared_places.empty() ? 1 : probes);
    if (has(MEASURE_LATENCY | MEASURE_VALUE)) resize("histograms", probes);
    if (has(COUNT_BY_PROCESS)) resize("process_counts", most_process_counts);
    if (has(COUNT_STACKS)) {
      resize("stacks", most_stacks);
      resize("stack_counts", most_process_counts);
    }
    bpf_map__set_value_size(find("calls"), variant_.kept_size);
    bpf_map__set_value_size(find("blank"), variant_.kept_size);
    // A perf buffer takes records only from memory that is somebody's own. Of calls that have not
    // returned there are so many, or as many as this much memory holds.
    if (has(PAIR_CALLS) || (settings_.buffer == RecordBuffer::perf && has(SEND_RECORDS)))
      resize("calls", std::min(most_calls, most_call_bytes / variant_.kept_size));
  }

  Result<void> share(const BuiltinObject& first) const {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object_) {
      // Its settings are its own; `armed`, which is all that .bss holds, is one for all.
      const bool is_armed = std::string_view(bpf_map__name(map)).ends_with(".bss");
      if (bpf_map__is_internal(map) && !is_armed) continue;
      const int shared = first.map(is_armed ? ".bss" : bpf_map__name(map));
      if (const int error = bpf_map__reuse_fd(map, shared); error != 0)
        return fail(system_error(-error, "cannot share a map of the built-in program"));
    }
    return {};
  }

  Result<void> freeze_settings() const {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, object_) {
      if (!std::string_view(bpf_map__name(map)).ends_with(".rodata")) continue;
      // Which refuses another size than that of what the program has there.
      if (bpf_map__set_initial_value(map, &variant_, sizeof(variant_)) != 0) break;
      return {};
    }
    return fail(ErrorKind::corrupt, "the built-in program has other settings than this build's");
  }

private:
  bpf_map* find(const char* name) const { return bpf_object__find_map_by_name(object_, name); }
  void resize(const char* name, std::uint32_t entries) const {
    bpf_map__set_max_entries(find(name), entries);
  }

  bpf_object* object_;
  const BuiltinProgram::Settings& settings_;
  const builtin_settings& variant_;
};

} // namespace

Result<BuiltinObject> BuiltinObject::load(const BuiltinProgram::Settings& settings,
                                          const builtin_settings& variant,
                                          const BuiltinObject* first) {
  std::string log(64 << 10, '\0');
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "uprobectl",
              .kernel_log_buf = log.data(), .kernel_log_size = log.size());
  const Bytes image = image_for(settings);
  BuiltinObject made;
  made.object_.reset(bpf_object__open_mem(image.data(), image.size(), &options));
  if (!made.object_) return fail(system_error(errno, "cannot open the built-in BPF object"));
  bpf_object* const object = made.object_.get();

  const Setup setup(object, settings, variant);
  setup.size_maps();
  if (settings.processes >= 0 && first == nullptr)
    if (const int error = bpf_map__reuse_fd(bpf_object__find_map_by_name(object, "processes"),
                                            settings.processes);
        error != 0)
      return fail(system_error(-error, "cannot share the map of processes"));
  if (first != nullptr)
    if (auto shared = setup.share(*first); !shared) return fail(std::move(shared).error());
  if (auto frozen = setup.freeze_settings(); !frozen) return fail(std::move(frozen).error());

  bpf_program* const both = bpf_object__find_program_by_name(object, "on_entry_and_exit");
  bpf_program__set_autoload(both, std::ranges::any_of(settings.exits, &ProbeExit::at_entry));
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    bpf_program__set_expected_attach_type(
        program, static_cast<bpf_attach_type>(expected_attach_type(settings.kind)));
  }
  if (const int error = bpf_object__load(object); error != 0) {
    return fail(bpf_load_error(-error, "cannot load the built-in BPF program", log.c_str(), {}));
  }
  made.programs_ = {bpf_object__find_program_by_name(object, "on_entry"),
                    bpf_object__find_program_by_name(object, "on_return"),
                    bpf_object__find_program_by_name(object, "on_exit"), both};
  return made;
}

int BuiltinObject::map(const char* name) const {
  return bpf_map__fd(bpf_object__find_map_by_name(object_.get(), name));
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

} // namespace uprobectl
