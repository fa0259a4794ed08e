// SPDX-License-Identifier: Apache-2.0
#include "bpf/process_set.hpp"

#include "bpf/embedded.hpp"
#include "bpf/kernel_types.hpp"
#include "bpf/load_error.hpp"
#include "bpf/pid_namespace.hpp"
#include "bpf/processes_record.h"
#include "bpf/record_reader.hpp"
#include "bpf/thread_stack.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

static_assert(ProcessSet::max_members == MAX_PROCESSES);

struct FreeObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};
struct DestroyLink {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};

std::vector<process_name> encode_names(const ProcessSet::Settings& settings) {
  std::vector<process_name> encoded;
  for (const std::string& name : settings.names) {
    if (name.empty() || name.size() >= COMM_BYTES) continue; // longer than any comm
    std::ranges::copy(name, std::begin(encoded.emplace_back().text));
  }
  return encoded;
}

Error with_cause(Error error, const LibbpfLog& libbpf_log) {
  const std::string cause = libbpf_log.cause();
  return cause.empty() ? error : std::move(error).hint("libbpf said: " + cause);
}

} // namespace

struct ProcessSet::State {
  std::unique_ptr<bpf_object, FreeObject> object;
  std::unique_ptr<RecordReader> reader;
  std::vector<std::unique_ptr<bpf_link, DestroyLink>> links; // destroyed before the rest
  int processes = -1;
  int losses = -1;
  bool was_full = false; // for add()

  std::uint32_t membership(std::uint32_t tgid) const {
    std::uint32_t value = 0;
    return bpf_map_lookup_elem(processes, &tgid, &value) == 0 ? value : 0;
  }

  Result<void> load(const process_settings& settings, std::span<const process_name> names) {
    const LibbpfLog libbpf_log;
    std::string log(64U << 10, '\0');
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "uprobectl",
                .kernel_log_buf = log.data(), .kernel_log_size = log.size());
    const Bytes image = processes_object();
    object.reset(bpf_object__open_mem(image.data(), image.size(), &options));
    if (!object)
      return fail(system_error(errno, "cannot open the BPF object that tracks processes"));
    bpf_map* const constants = bpf_object__find_map_by_name(object.get(), ".rodata");
    if (const int error = bpf_map__set_initial_value(constants, &settings, sizeof(settings));
        error != 0)
      return fail(system_error(-error, "cannot set the names of processes"));
    bpf_map* const name_map = bpf_object__find_map_by_name(object.get(), "names");
    bpf_map__set_max_entries(name_map, static_cast<std::uint32_t>(names.size() + 1));
    adapt_tail_calls(object.get());
    if (const int error = bpf_object__load(object.get()); error != 0) {
      return fail(bpf_load_error(-error, "cannot load the BPF program that tracks processes",
                                 log.c_str(), libbpf_log.cause()));
    }
    for (const process_name& name : names) {
      const std::uint32_t value = 1;
      if (const int error = bpf_map_update_elem(bpf_map__fd(name_map), &name, &value, BPF_ANY);
          error != 0)
        return fail(system_error(-error, "cannot set the names of processes"));
    }
    processes = bpf_map__fd(bpf_object__find_map_by_name(object.get(), "processes"));
    losses = bpf_map__fd(bpf_object__find_map_by_name(object.get(), ".bss"));
    return {};
  }

  // .bss holds nothing else.
  process_losses read_losses() const {
    const std::uint32_t index = 0;
    process_losses value{};
    bpf_map_lookup_elem(losses, &index, &value);
    return value;
  }

  Result<void> attach() {
    const LibbpfLog libbpf_log;
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object.get()) {
      bpf_link* const link = bpf_program__attach(program);
      if (link == nullptr)
        return fail(with_cause(bpf_load_error(errno, "cannot track processes"), libbpf_log));
      links.emplace_back(link);
    }
    return {};
  }
};

ProcessSet::ProcessSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProcessSet::ProcessSet(ProcessSet&&) noexcept = default;
ProcessSet& ProcessSet::operator=(ProcessSet&&) noexcept = default;
ProcessSet::~ProcessSet() = default;

bool ProcessSet::is_supported() { return ::access(kernel_types_path, R_OK) == 0; }

Result<ProcessSet> ProcessSet::start(const Settings& settings) {
  if (::access("/sys/kernel", F_OK) != 0)
    return fail(Error{ErrorKind::not_found, "cannot track processes: /sys is not mounted"}.hint(
        "mount -t sysfs sysfs /sys"));
  if (auto enough = prepare_limits(); !enough) return fail(std::move(enough).error());
  if (!is_supported())
    return fail(
        Error{ErrorKind::unsupported, "cannot track processes: this kernel has no BTF"}
            .hint(std::string("needs a kernel with CONFIG_DEBUG_INFO_BTF, which provides ") +
                  kernel_types_path)
            .hint("to trace running processes, name their pids with -p"));
  const auto ids = find_id_namespace();
  if (!ids) return fail(ids.error());
  const std::vector<process_name> names = encode_names(settings);
  auto state = std::make_unique<State>();
  if (auto loaded = state->load({.names = static_cast<unsigned int>(names.size()),
                                 .follow = settings.follow ? 1U : 0U,
                                 .ids = *ids},
                                names);
      !loaded)
    return fail(std::move(loaded).error());
  auto reader =
      open_ring_reader(bpf_map__fd(bpf_object__find_map_by_name(state->object.get(), "renames")));
  if (!reader) return fail(std::move(reader).error());
  state->reader = std::move(*reader);
  if (auto attached = state->attach(); !attached) return fail(std::move(attached).error());
  return ProcessSet(std::move(state));
}

Result<void> ProcessSet::add(pid_t pid, Membership membership) {
  const auto tgid = static_cast<std::uint32_t>(pid);
  const std::uint32_t value =
      state_->membership(tgid) |
      (membership == Membership::until_exit ? MEMBER_UNTIL_EXIT : MEMBER_WHILE_NAMED);
  if (const int error = bpf_map_update_elem(state_->processes, &tgid, &value, BPF_ANY);
      error != 0) {
    state_->was_full |= error == -E2BIG;
    return fail(-error == E2BIG
                    ? Error{ErrorKind::out_of_range,
                            "cannot track more than " + std::to_string(max_members) + " processes"}
                    : system_error(-error, "cannot add process " + std::to_string(pid)));
  }
  // If it had ended before, it would never be removed.
  if (::kill(pid, 0) == 0 || errno != ESRCH) return {};
  bpf_map_delete_elem(state_->processes, &tgid);
  return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
}

void ProcessSet::withdraw(pid_t pid) {
  const auto tgid = static_cast<std::uint32_t>(pid);
  const std::uint32_t before = state_->membership(tgid);
  const std::uint32_t now = before & ~static_cast<std::uint32_t>(MEMBER_WHILE_NAMED);
  if (now == before) return;
  // These only fail if the process has ended meanwhile and was removed.
  if (now == 0)
    bpf_map_delete_elem(state_->processes, &tgid);
  else
    bpf_map_update_elem(state_->processes, &tgid, &now, BPF_EXIST);
}

std::vector<pid_t> ProcessSet::members() const {
  std::vector<pid_t> result;
  std::uint32_t tgid = 0;
  const std::uint32_t* before = nullptr;
  // The iteration restarts if a key is deleted, so the number is limited.
  while (result.size() < max_members &&
         bpf_map_get_next_key(state_->processes, before, &tgid) == 0) {
    result.push_back(static_cast<pid_t>(tgid));
    before = &tgid;
  }
  std::ranges::sort(result);
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

bool ProcessSet::contains(pid_t pid) const {
  return state_->membership(static_cast<std::uint32_t>(pid)) != 0;
}

int ProcessSet::map_fd() const { return state_->processes; }
int ProcessSet::poll_fd() const { return state_->reader->poll_fd(); }

void ProcessSet::drain(const std::function<void(const Renamed&)>& visit) {
  state_->reader->drain([&](Bytes bytes) {
    const auto record = structure_at<rename_record>(bytes, 0);
    if (!record) return true;
    const std::string_view comm(record->comm, sizeof(record->comm));
    visit({.pid = static_cast<pid_t>(record->tgid),
           .comm = std::string(comm.substr(0, comm.find('\0'))),
           .is_member = record->member != 0});
    return true;
  });
}

std::uint64_t ProcessSet::missed() const {
  return state_->read_losses().renames + state_->reader->unsubmitted();
}

bool ProcessSet::was_full() const { return state_->was_full || state_->read_losses().left_out > 0; }

Result<UniqueFd> create_pid_map(std::span<const pid_t> pids) {
  UniqueFd map{bpf_map_create(BPF_MAP_TYPE_HASH, "uprobectl_pids", sizeof(std::uint32_t),
                              sizeof(std::uint32_t), static_cast<std::uint32_t>(pids.size() + 1),
                              nullptr)};
  if (!map) return fail(bpf_load_error(errno, "cannot create a map of processes"));
  const std::uint32_t member = MEMBER_UNTIL_EXIT;
  for (const pid_t pid : pids)
    if (const int error = bpf_map_update_elem(map.get(), &pid, &member, BPF_ANY); error != 0)
      return fail(system_error(-error, "cannot store the pids of processes"));
  return map;
}

} // namespace uprobectl::bpf
