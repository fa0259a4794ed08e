#include "bpf/embedded.hpp"
#include "bpf/link_create.hpp"
#include "bpf/permission.hpp"
#include "bpf/verifier_log.hpp"
#include "uprobectl/bpf.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

namespace uprobectl {

namespace {

struct CloseObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};
struct FreeRing {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// A drain ends here even if a hot probe refills the ring as fast as it is read.
constexpr std::uint32_t most_records_per_drain = 1U << 16;

struct DrainVisit {
  const std::function<bool(Bytes)>* visit = nullptr;
  std::uint32_t left = 0;
  bool stopped = false;
};

int visit_record(void* context, void* data, std::size_t size) {
  auto& drain = *static_cast<DrainVisit*>(context);
  if (drain.visit == nullptr) return 0;
  if (!(*drain.visit)({static_cast<const std::byte*>(data), size})) drain.stopped = true;
  return drain.stopped || --drain.left == 0 ? -1 : 0;
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
  DrainVisit drain; // the ring's callback context: must stay where it is
  std::unique_ptr<ring_buffer, FreeRing> ring;
  int entry = -1; // owned by object, like the maps
  int on_return = -1;
  int hits = -1;
  int lost = -1;
  int armed = -1;
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
  const Bytes image = builtin_object();
  state->object.reset(bpf_object__open_mem(image.data(), image.size(), &options));
  if (!state->object) return fail(system_error(errno, "cannot open the built-in BPF object"));

  bpf_object* object = state->object.get();
  bpf_map* records = bpf_object__find_map_by_name(object, "records");
  bpf_map* hits = bpf_object__find_map_by_name(object, "hits");
  bpf_map__set_max_entries(records, settings.ring_bytes);
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

  state->entry = bpf_program__fd(bpf_object__find_program_by_name(object, "on_entry"));
  state->on_return = bpf_program__fd(bpf_object__find_program_by_name(object, "on_return"));
  state->hits = bpf_map__fd(hits);
  state->lost = bpf_map__fd(bpf_object__find_map_by_name(object, "lost"));
  state->armed = bpf_map__fd(bpf_object__find_map_by_name(object, ".bss"));
  state->ring.reset(ring_buffer__new(bpf_map__fd(records), visit_record, &state->drain, nullptr));
  if (!state->ring) return fail(system_error(errno, "cannot map the BPF ring buffer"));
  return BuiltinProgram(std::move(state));
}

LoadedProgram BuiltinProgram::program(std::uint32_t /*probe*/, bool on_return) const {
  return {.fd = on_return ? state_->on_return : state_->entry, .kind = state_->settings.kind};
}

int BuiltinProgram::poll_fd() const { return ring_buffer__epoll_fd(state_->ring.get()); }

Result<void> BuiltinProgram::arm(bool on) {
  const std::uint32_t index = 0;
  const std::uint32_t value = on ? 1 : 0; // .bss holds nothing but `armed`
  if (const int error = bpf_map_update_elem(state_->armed, &index, &value, BPF_ANY); error != 0)
    return fail(system_error(-error, "cannot arm the BPF program"));
  return {};
}

bool BuiltinProgram::drain(const std::function<bool(Bytes)>& visit) {
  state_->drain = {.visit = &visit, .left = most_records_per_drain, .stopped = false};
  const int consumed = ring_buffer__consume(state_->ring.get());
  state_->drain.visit = nullptr;
  return consumed < 0;
}

std::uint64_t BuiltinProgram::lost() const { return sum_over_cpus(state_->lost, 0); }

std::vector<ProbeCounts> BuiltinProgram::counts() const {
  std::vector<ProbeCounts> result(state_->settings.probes);
  for (std::uint32_t cookie = 0; cookie < result.size(); ++cookie)
    result[cookie] = {.entries = sum_over_cpus(state_->hits, cookie * 2),
                      .returns = sum_over_cpus(state_->hits, cookie * 2 + 1)};
  return result;
}

} // namespace uprobectl
