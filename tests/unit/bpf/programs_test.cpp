// SPDX-License-Identifier: Apache-2.0
// The requirements of the embedded programs: an old kernel refuses programs with helpers,
// instructions or maps that it does not have.
#include "bpf/embedded.hpp"
#include "bpf/thread_stack.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <catch2/catch.hpp>
#include <cstring>
#include <linux/bpf.h>
#include <llvm/Object/ELF.h>
#include <memory>
#include <set>
#include <span>

namespace uprobectl::bpf {

namespace {

struct Needs {
  std::set<int> helpers;
  std::set<int> maps;
  bool has_new_atomics = false; // all but adding without reading back: Linux 5.12
};

using OpenedObject = std::unique_ptr<bpf_object, decltype(&bpf_object__close)>;

OpenedObject open_object(Bytes object) {
  OpenedObject opened(bpf_object__open_mem(object.data(), object.size(), nullptr),
                      bpf_object__close);
  REQUIRE(opened);
  return opened;
}

std::ptrdiff_t tail_calls(const bpf_program* program) {
  const std::span code(bpf_program__insns(program), bpf_program__insn_cnt(program));
  return std::ranges::count_if(code, [](const bpf_insn& insn) {
    return insn.code == (BPF_JMP | BPF_CALL) && insn.src_reg == 0 && insn.imm == BPF_FUNC_tail_call;
  });
}

Needs needs_of(Bytes object) {
  Needs needs;
  const auto file = llvm::cantFail(llvm::object::ELF64LEFile::create(
      llvm::StringRef(reinterpret_cast<const char*>(object.data()), object.size())));
  for (const auto& section : llvm::cantFail(file.sections())) {
    if ((section.sh_flags & llvm::ELF::SHF_EXECINSTR) == 0) continue;
    const auto code = llvm::cantFail(file.getSectionContents(section));
    for (std::size_t at = 0; at + sizeof(bpf_insn) <= code.size(); at += sizeof(bpf_insn)) {
      bpf_insn insn{};
      std::memcpy(&insn, code.data() + at, sizeof(insn));
      if (insn.code == (BPF_JMP | BPF_CALL) && insn.src_reg == 0) needs.helpers.insert(insn.imm);
      const bool is_atomic = BPF_CLASS(insn.code) == BPF_STX && BPF_MODE(insn.code) == BPF_ATOMIC;
      if (is_atomic && insn.imm != BPF_ADD) needs.has_new_atomics = true;
      if (insn.code == (BPF_LD | BPF_IMM | BPF_DW)) at += sizeof(insn); // two words
    }
  }
  const OpenedObject opened = open_object(object);
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, opened.get()) needs.maps.insert(bpf_map__type(map));
  return needs;
}

// The helpers of Linux 5.4, and bpf_probe_read_user and _kernel, which libbpf replaces on kernels
// before 5.5.
const std::set<int> old_helpers = {
    BPF_FUNC_map_lookup_elem,
    BPF_FUNC_map_update_elem,
    BPF_FUNC_map_delete_elem,
    BPF_FUNC_ktime_get_ns,
    BPF_FUNC_get_smp_processor_id,
    BPF_FUNC_get_current_pid_tgid,
    BPF_FUNC_get_current_uid_gid,
    BPF_FUNC_get_current_comm,
    BPF_FUNC_perf_event_output,
    BPF_FUNC_get_stackid,
    BPF_FUNC_get_current_task,
    BPF_FUNC_current_task_under_cgroup,
    BPF_FUNC_tail_call, // never reached: programs/thread_stack.h
    BPF_FUNC_get_stack,
    BPF_FUNC_probe_read_user,
    BPF_FUNC_probe_read_kernel,
    BPF_FUNC_probe_read_user_str,
    BPF_FUNC_probe_read_kernel_str,
    BPF_FUNC_send_signal, // Linux 5.3
};
const std::set<int> old_maps = {
    BPF_MAP_TYPE_HASH,        BPF_MAP_TYPE_ARRAY,        BPF_MAP_TYPE_PERCPU_ARRAY,
    BPF_MAP_TYPE_PERCPU_HASH,
    BPF_MAP_TYPE_LRU_HASH, // Linux 4.10
    BPF_MAP_TYPE_STACK_TRACE, BPF_MAP_TYPE_CGROUP_ARRAY, BPF_MAP_TYPE_PERF_EVENT_ARRAY,
};
const std::set<int> ring_helpers = {
    BPF_FUNC_ringbuf_output, BPF_FUNC_ringbuf_reserve,
    BPF_FUNC_ringbuf_submit, BPF_FUNC_ringbuf_discard,
    BPF_FUNC_ringbuf_query,  BPF_FUNC_get_ns_current_pid_tgid}; // Linux 5.7, others 5.8

// The elements that are not in the other sets.
std::set<int> newer(std::set<int> all, const std::set<int>& known, const std::set<int>& more = {}) {
  std::erase_if(all, [&](int each) { return known.contains(each) || more.contains(each); });
  return all;
}

using Set = std::set<int>;

} // namespace

TEST_CASE("the program for the oldest kernels has helpers, maps and instructions of Linux 5.4") {
  const Needs needs = needs_of(builtin_perf_number());
  CHECK(needs.helpers.contains(BPF_FUNC_perf_event_output));
  CHECK(newer(needs.helpers, old_helpers) == Set{});
  CHECK(newer(needs.maps, old_maps) == Set{});
  CHECK_FALSE(needs.has_new_atomics);
}

TEST_CASE("the program with a ring buffer adds what Linux 5.8 has") {
  const Needs needs = needs_of(builtin_ring_number());
  CHECK(needs.helpers.contains(BPF_FUNC_ringbuf_reserve));
  CHECK(newer(needs.helpers, old_helpers, ring_helpers) == Set{});
  CHECK(newer(needs.maps, old_maps) == Set{BPF_MAP_TYPE_RINGBUF});
  CHECK_FALSE(needs.has_new_atomics);
}

TEST_CASE("programs with cookies add what Linux 5.15 has") {
  const Needs ring = needs_of(builtin_ring_cookie());
  CHECK(newer(ring.helpers, old_helpers, ring_helpers) == Set{BPF_FUNC_get_attach_cookie});
  CHECK(newer(ring.maps, old_maps) == Set{BPF_MAP_TYPE_RINGBUF});
  const Needs perf = needs_of(builtin_perf_cookie());
  CHECK(newer(perf.helpers, old_helpers) == Set{BPF_FUNC_get_attach_cookie});
  CHECK(newer(perf.maps, old_maps) == Set{});
}

// So that no kernel runs them on a stack of the CPU (programs/thread_stack.h).
TEST_CASE("programs of more than 48 bytes of stack without a tail call get a private stack") {
  const auto stores = [](std::uint8_t base, int offset) {
    return bpf_insn{.code = BPF_STX | BPF_MEM | BPF_DW,
                    .dst_reg = base,
                    .src_reg = BPF_REG_1,
                    .off = static_cast<__s16>(offset),
                    .imm = 0};
  };
  const bpf_insn copies_frame_pointer{.code = BPF_ALU64 | BPF_MOV | BPF_X,
                                      .dst_reg = BPF_REG_2,
                                      .src_reg = BPF_REG_10,
                                      .off = 0,
                                      .imm = 0};
  const auto adds = [](std::uint8_t to, int number) {
    return bpf_insn{
        .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = to, .src_reg = 0, .off = 0, .imm = number};
  };
  const bpf_insn tail_call{
      .code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_tail_call};
  const auto wants = [](std::vector<bpf_insn> code) { return wants_private_stack(code); };
  CHECK_FALSE(wants({}));
  CHECK_FALSE(wants({stores(BPF_REG_10, -48)}));
  CHECK(wants({stores(BPF_REG_10, -56)}));
  CHECK_FALSE(wants({stores(BPF_REG_10, -56), tail_call}));
  CHECK(wants({copies_frame_pointer, adds(BPF_REG_2, -200)}));
  CHECK_FALSE(wants({copies_frame_pointer, adds(BPF_REG_3, -200)}));
  CHECK_FALSE(wants({stores(BPF_REG_7, -200)}));
}

TEST_CASE("each program contains a tail call") {
  for (const Bytes object : {builtin_ring_cookie(), builtin_ring_number(), builtin_ring_sleepable(),
                             builtin_perf_cookie(), builtin_perf_number(), processes_object()}) {
    const OpenedObject opened = open_object(object);
    bpf_program* program = nullptr;
    int with_tail_call = 0;
    bpf_object__for_each_program(program, opened.get()) {
      CAPTURE(bpf_program__name(program));
      CHECK(tail_calls(program) == 1);
      ++with_tail_call;
    }
    CHECK(with_tail_call >= 3);
  }
}

// Sleepable programs may only use arrays, hash maps and ring buffers
// (check_map_prog_compatibility() of Linux). The maps of stacks and control groups are declared,
// but nothing uses them.
TEST_CASE("the sleepable program waits for memory, and uses no maps that it may not use") {
  const Needs needs = needs_of(builtin_ring_sleepable());
  CHECK(newer(needs.helpers, old_helpers, ring_helpers) ==
        Set{BPF_FUNC_get_attach_cookie, BPF_FUNC_copy_from_user, BPF_FUNC_loop}); // Linux 5.17
  CHECK_FALSE(needs.helpers.contains(BPF_FUNC_get_stackid));
  CHECK_FALSE(needs.helpers.contains(BPF_FUNC_current_task_under_cgroup));
  CHECK_FALSE(needs.helpers.contains(BPF_FUNC_perf_event_output));
}

} // namespace uprobectl::bpf
