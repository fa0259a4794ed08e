// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_types.hpp"

#include "bpf/btf_reading.hpp"
#include "bpf/load_error.hpp"
#include "bpf/test_program.hpp"
#include "uprobectl/util.hpp"

#include <array>

namespace uprobectl::bpf {

namespace {

// Returns the offset of a member in bytes.
std::optional<std::uint32_t> member_offset(const btf* types, const char* structure,
                                           std::string_view member) {
  const int id = btf__find_by_name_kind(types, structure, BTF_KIND_STRUCT);
  if (id < 0) return std::nullopt;
  const btf_type* const type = btf__type_by_id(types, static_cast<std::uint32_t>(id));
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i)
    if (btf_name(types, btf_members(type)[i].name_off) == member)
      return btf_member_bit_offset(type, i) / 8;
  return std::nullopt;
}

// Linux commit 6ae08ae3dea2 ("bpf: Add probe_read_{user, kernel} and probe_read_{user, kernel}_str
// helpers") in v5.5. With lockdown=confidentiality programs that call it are rejected.
bool programs_may_read_kernel() {
  return load_test_program(std::array{move_register(BPF_REG_1, BPF_REG_10),
                                      add_to_register(BPF_REG_1, -8), move_number(BPF_REG_2, 8),
                                      move_number(BPF_REG_3, 0),
                                      call_helper(BPF_FUNC_probe_read_kernel),
                                      move_number(BPF_REG_0, 0), exit_program})
      .has_value();
}

OwnedBtf running_kernel_types() {
  const LibbpfLog ignored;
  return OwnedBtf(btf__parse(kernel_types_path, nullptr));
}

} // namespace

void BtfDeleter::operator()(btf* types) const { btf__free(types); }

std::optional<return_instance_layout> read_return_instance_layout(const btf* kernel_types) {
  const auto utask = member_offset(kernel_types, "task_struct", "utask");
  const auto first = member_offset(kernel_types, "uprobe_task", "return_instances");
  const auto stack = member_offset(kernel_types, "return_instance", "stack");
  const auto address = member_offset(kernel_types, "return_instance", "orig_ret_vaddr");
  const auto next = member_offset(kernel_types, "return_instance", "next");
  if (!utask || !first || !stack || !address || !next) return std::nullopt;
  return return_instance_layout{.utask = *utask,
                                .return_instances = *first,
                                .stack = *stack,
                                .orig_ret_vaddr = *address,
                                .next = *next};
}

std::optional<nesting_layout> read_nesting_layout(const btf* kernel_types) {
  const auto utask = member_offset(kernel_types, "task_struct", "utask");
  const auto depth = member_offset(kernel_types, "uprobe_task", "depth");
  if (!utask || !depth) return std::nullopt;
  return nesting_layout{.utask = *utask, .depth = *depth};
}

std::optional<process_name_layout> read_process_name_layout(const btf* kernel_types) {
  const auto leader = member_offset(kernel_types, "task_struct", "group_leader");
  const auto comm = member_offset(kernel_types, "task_struct", "comm");
  if (!leader || !comm) return std::nullopt;
  return process_name_layout{.group_leader = *leader, .comm = *comm};
}

// x86-64 (arch/x86/include/asm/processor.h): the system calls that set the base of fs store it
// there as well, also for the running thread. arm64 stores tpidr_el0, which programs set
// themselves, when the thread is switched from: too late. What set_tid_address() and clone() store
// is always there, and execve() clears it.
std::optional<thread_layout> read_thread_layout(const btf* kernel_types) {
#if defined(__x86_64__)
  const auto thread = member_offset(kernel_types, "task_struct", "thread");
  const auto base = member_offset(kernel_types, "thread_struct", "fsbase");
  if (!thread || !base) return std::nullopt;
  return thread_layout{.address = *thread + *base, .robust_list = 0};
#else
  const auto tid = member_offset(kernel_types, "task_struct", "clear_child_tid");
  const auto robust_list = member_offset(kernel_types, "task_struct", "robust_list");
  if (!tid || !robust_list) return std::nullopt;
  return thread_layout{.address = *tid, .robust_list = *robust_list};
#endif
}

// Linux commit 2f064a59a11f ("sched: Change task_struct::state") in v5.14 has renamed the member,
// and 9c2136be0878 ("sched/tracing: Append prev_state to tp args instead") in v5.18 has added the
// argument. The type of what a tracepoint calls has a first parameter of its own.
std::optional<task_state_layout> read_task_state_layout(const btf* kernel_types) {
  auto state = member_offset(kernel_types, "task_struct", "__state");
  if (!state) state = member_offset(kernel_types, "task_struct", "state");
  if (!state) return std::nullopt;
  const int id = btf__find_by_name_kind(kernel_types, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
  const btf_type* type =
      id < 0 ? nullptr : btf__type_by_id(kernel_types, static_cast<std::uint32_t>(id));
  while (type != nullptr && (btf_is_typedef(type) || btf_is_ptr(type)))
    type = btf__type_by_id(kernel_types, type->type);
  constexpr std::uint32_t parameters = 5; // data, preempt, prev, next, prev_state
  const bool has_state = type != nullptr && btf_is_func_proto(type) && btf_vlen(type) >= parameters;
  return task_state_layout{.state = *state, .has_prev_state = has_state ? 1U : 0U};
}

// Linux commit 2c4704756cab ("pids: Move the pgrp and session pid pointers from task_struct to
// signal_struct") in v4.19 has the names of today.
std::optional<id_namespace> read_id_layout(const btf* kernel_types) {
  const auto thread = member_offset(kernel_types, "task_struct", "thread_pid");
  const auto leader = member_offset(kernel_types, "task_struct", "group_leader");
  const auto level = member_offset(kernel_types, "pid", "level");
  const auto numbers = member_offset(kernel_types, "pid", "numbers");
  const auto nr = member_offset(kernel_types, "upid", "nr");
  const auto ns = member_offset(kernel_types, "upid", "ns");
  const auto common = member_offset(kernel_types, "pid_namespace", "ns");
  const auto inum = member_offset(kernel_types, "ns_common", "inum");
  const int upid = btf__find_by_name_kind(kernel_types, "upid", BTF_KIND_STRUCT);
  if (!thread || !leader || !level || !numbers || !nr || !ns || !common || !inum || upid < 0)
    return std::nullopt;
  return id_namespace{.inode = 0,
                      .device = 0,
                      .thread_pid = *thread,
                      .group_leader = *leader,
                      .level = *level,
                      .numbers = *numbers,
                      .number_size =
                          btf__type_by_id(kernel_types, static_cast<std::uint32_t>(upid))->size,
                      .nr = *nr,
                      .ns = *ns,
                      .inum = *common + *inum};
}

namespace {

template <typename Layout>
std::optional<Layout> find_layout(std::optional<Layout> (*read)(const btf*)) {
  if (!programs_may_read_kernel()) return std::nullopt;
  const OwnedBtf types = running_kernel_types();
  return types ? read(types.get()) : std::nullopt;
}

} // namespace

std::optional<return_instance_layout> find_return_instance_layout() {
  return find_layout(read_return_instance_layout);
}

std::optional<nesting_layout> find_nesting_layout() { return find_layout(read_nesting_layout); }

std::optional<process_name_layout> find_process_name_layout() {
  return find_layout(read_process_name_layout);
}

std::optional<thread_layout> find_thread_layout() { return find_layout(read_thread_layout); }

std::optional<task_state_layout> find_task_state_layout() {
  return find_layout(read_task_state_layout);
}

std::optional<id_namespace> find_id_layout() { return find_layout(read_id_layout); }

std::optional<bool> kernel_structure_has(const char* structure, std::string_view member) {
  const OwnedBtf types = running_kernel_types();
  if (!types) return std::nullopt;
  return member_offset(types.get(), structure, member).has_value();
}

} // namespace uprobectl::bpf
