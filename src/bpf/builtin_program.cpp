#include "bpf/descriptor_limit.hpp"
#include "bpf/embedded.hpp"
#include "bpf/link_create.hpp"
#include "bpf/permission.hpp"
#include "bpf/probe_copy.hpp"
#include "bpf/record.h"
#include "bpf/record_reader.hpp"
#include "bpf/verifier_log.hpp"
#include "uprobectl/bpf.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <map>

namespace uprobectl {

namespace {

struct CloseObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};
Bytes image_for(const BuiltinProgram::Settings& settings) {
  if (settings.buffer == RecordBuffer::perf)
    return settings.cookie ? builtin_perf_cookie() : builtin_perf_number();
  return settings.cookie ? builtin_ring_cookie() : builtin_ring_number();
}

std::uint64_t sum_over_cpus(int map, std::uint32_t index) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_lookup_elem(map, &index, values.data()) != 0) return 0;
  std::uint64_t sum = 0;
  for (const auto value : values) sum += value;
  return sum;
}

} // namespace

struct BuiltinProgram::State {
  Settings settings;
  std::unique_ptr<bpf_object, CloseObject> object;
  std::unique_ptr<RecordReader> reader;
  // At entry and on return; owned by object, like the maps.
  std::array<const bpf_program*, 2> programs{};
  std::vector<std::uint64_t> entry_cookies;                // by probe
  std::array<std::map<std::uint64_t, UniqueFd>, 2> copies; // by cookie, where none is handed over
  int hits = -1;
  int lost = -1;
  int armed = -1;

  Result<void> make_copies() {
    raise_descriptor_limit();
    for (std::uint32_t probe = 0; probe < settings.probes; ++probe)
      for (std::size_t way = 0; way < programs.size(); ++way) {
        const std::uint64_t cookie = way == 0 ? entry_cookies[probe] : probe;
        if (copies[way].contains(cookie)) continue;
        auto copy = load_copy_with_cookie(programs[way], cookie);
        if (!copy) return fail(bpf_load_error(copy.error(), "cannot load a BPF program per probe"));
        copies[way][cookie] = std::move(*copy);
      }
    return {};
  }

  // What finds its place within a page taken goes to the next event.
  Result<void> share_cookies(int places) {
    std::map<std::uint32_t, std::uint32_t> events; // how many by the place within a page
    for (std::uint32_t probe = 0; probe < settings.probes; ++probe) {
      const std::uint64_t offset = settings.shared_places[probe].value;
      const std::uint32_t event = events[PLACE_KEY(0U, offset)]++;
      entry_cookies[probe] = SHARED_COOKIE | event;
      const std::uint32_t key = PLACE_KEY(event, offset);
      if (const int error = bpf_map_update_elem(places, &key, &probe, BPF_NOEXIST); error != 0)
        return fail(system_error(-error, "cannot number the probes"));
    }
    return {};
  }
};

BuiltinProgram::BuiltinProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
BuiltinProgram::BuiltinProgram(BuiltinProgram&&) noexcept = default;
BuiltinProgram& BuiltinProgram::operator=(BuiltinProgram&&) noexcept = default;
BuiltinProgram::~BuiltinProgram() = default;

Result<BuiltinProgram> BuiltinProgram::load(const Settings& settings) {
  libbpf_set_print(nullptr); // its messages go to stderr in a form of its own

  auto state = std::make_unique<State>();
  state->settings = settings;
  std::string log(64 << 10, '\0');
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "uprobectl",
              .kernel_log_buf = log.data(), .kernel_log_size = log.size());
  const Bytes image = image_for(settings);
  state->object.reset(bpf_object__open_mem(image.data(), image.size(), &options));
  if (!state->object) return fail(system_error(errno, "cannot open the built-in BPF object"));

  bpf_object* object = state->object.get();
  bpf_map* records = bpf_object__find_map_by_name(object, "records");
  bpf_map* hits = bpf_object__find_map_by_name(object, "hits");
  bpf_map* places = bpf_object__find_map_by_name(object, "places");
  const bool shares = settings.shared_places.size() == settings.probes && settings.probes > 1;
  if (shares) bpf_map__set_max_entries(places, settings.probes);
  // Of perf buffers there are as many as CPUs, which libbpf sees to.
  if (settings.buffer == RecordBuffer::ring)
    bpf_map__set_max_entries(records, settings.buffer_bytes);
  bpf_map__set_max_entries(hits, std::max(settings.probes, 1U) * 2);

  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    bpf_program__set_expected_attach_type(
        program, static_cast<bpf_attach_type>(expected_attach_type(settings.kind)));
  }
  if (const int error = bpf_object__load(object); error != 0) {
    Error failure = bpf_load_error(-error, "cannot load the built-in BPF program");
    const std::string verifier = last_lines(log.c_str(), 3);
    if (!verifier.empty()) failure = std::move(failure).hint("the verifier said: " + verifier);
    return fail(std::move(failure));
  }

  state->programs = {bpf_object__find_program_by_name(object, "on_entry"),
                     bpf_object__find_program_by_name(object, "on_return")};
  for (std::uint32_t probe = 0; probe < settings.probes; ++probe)
    state->entry_cookies.push_back(probe);
  if (shares)
    if (auto shared = state->share_cookies(bpf_map__fd(places)); !shared)
      return fail(std::move(shared).error());
  if (!settings.cookie)
    if (auto copied = state->make_copies(); !copied) return fail(std::move(copied).error());
  state->hits = bpf_map__fd(hits);
  state->lost = bpf_map__fd(bpf_object__find_map_by_name(object, "lost"));
  state->armed = bpf_map__fd(bpf_object__find_map_by_name(object, ".bss"));
  auto reader = settings.buffer == RecordBuffer::ring
                    ? open_ring_reader(bpf_map__fd(records))
                    : open_perf_reader(bpf_map__fd(records), settings.buffer_bytes);
  if (!reader) return fail(std::move(reader).error());
  state->reader = std::move(*reader);
  return BuiltinProgram(std::move(state));
}

LoadedProgram BuiltinProgram::program(std::uint32_t probe, bool on_return) const {
  const std::size_t way = on_return ? 1 : 0;
  return {.fd = state_->settings.cookie ? bpf_program__fd(state_->programs[way])
                                        : state_->copies[way].at(cookie(probe, on_return)).get(),
          .kind = state_->settings.kind};
}

std::uint64_t BuiltinProgram::cookie(std::uint32_t probe, bool on_return) const {
  return on_return ? probe : state_->entry_cookies[probe];
}

int BuiltinProgram::poll_fd() const { return state_->reader->poll_fd(); }

Result<void> BuiltinProgram::arm(bool on) {
  const std::uint32_t index = 0;
  const std::uint32_t value = on ? 1 : 0; // .bss holds nothing but `armed`
  if (const int error = bpf_map_update_elem(state_->armed, &index, &value, BPF_ANY); error != 0)
    return fail(system_error(-error, "cannot arm the BPF program"));
  return {};
}

bool BuiltinProgram::drain(const std::function<bool(Bytes)>& visit) {
  return state_->reader->drain(visit);
}

std::uint64_t BuiltinProgram::lost() const { return sum_over_cpus(state_->lost, 0); }

std::vector<ProbeCounts> BuiltinProgram::counts() const {
  std::vector<ProbeCounts> result(state_->settings.probes);
  for (std::uint32_t probe = 0; probe < result.size(); ++probe)
    result[probe] = {.entries = sum_over_cpus(state_->hits, probe * 2),
                     .returns = sum_over_cpus(state_->hits, probe * 2 + 1)};
  return result;
}

} // namespace uprobectl
