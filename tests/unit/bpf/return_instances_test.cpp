// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_types.hpp"

#include <bpf/btf.h>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

namespace uprobectl::bpf {

namespace {

struct Member {
  const char* name;
  std::uint32_t offset;
};
struct Structure {
  const char* name;
  std::vector<Member> members;
};

// As Linux 6.1 has them on x86-64, with what matters here.
std::vector<Structure> usual() {
  return {{"task_struct", {{"thread_info", 0}, {"utask", 2896}, {"pagefault_disabled", 2904}}},
          {"uprobe_task", {{"state", 0}, {"", 8}, {"return_instances", 56}}},
          {"return_instance",
           {{"uprobe", 0}, {"func", 8}, {"stack", 16}, {"orig_ret_vaddr", 24}, {"next", 40}}}};
}

std::optional<return_instance_layout> layout_of(const std::vector<Structure>& structures) {
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__new_empty(), btf__free);
  const int word = btf__add_int(types.get(), "long", 8, 0);
  for (const Structure& structure : structures) {
    REQUIRE(btf__add_struct(types.get(), structure.name, 4096) > 0);
    for (const Member& member : structure.members)
      REQUIRE(btf__add_field(types.get(), member.name, word, member.offset * 8, 0) == 0);
  }
  return read_return_instance_layout(types.get());
}

} // namespace

TEST_CASE("where the kernel keeps replaced return addresses is read from its types") {
  const auto layout = layout_of(usual());
  REQUIRE(layout);
  CHECK(layout->utask == 2896);
  CHECK(layout->return_instances == 56);
  CHECK(layout->stack == 16);
  CHECK(layout->orig_ret_vaddr == 24);
  CHECK(layout->next == 40);
}

TEST_CASE("a missing structure or member gives no offsets") {
  CHECK_FALSE(layout_of({}));
  for (std::size_t i = 0; i < usual().size(); ++i) {
    std::vector<Structure> fewer = usual();
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_FALSE(layout_of(fewer));
  }
  for (const std::string_view name :
       {"utask", "return_instances", "stack", "orig_ret_vaddr", "next"}) {
    std::vector<Structure> renamed = usual();
    for (Structure& structure : renamed)
      for (Member& member : structure.members)
        if (member.name == name) member.name = "other";
    INFO(name);
    CHECK_FALSE(layout_of(renamed));
  }
}

namespace {

// `parameters`: of the function that sched_switch calls; 0: its type is not there.
std::optional<task_state_layout> state_layout_of(const char* member, unsigned parameters) {
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__new_empty(), btf__free);
  const int word = btf__add_int(types.get(), "long", 8, 0);
  REQUIRE(btf__add_struct(types.get(), "task_struct", 4096) > 0);
  REQUIRE(btf__add_field(types.get(), member, word, 24 * 8, 0) == 0);
  if (parameters == 0) return read_task_state_layout(types.get());
  const int function = btf__add_func_proto(types.get(), 0);
  REQUIRE(function > 0);
  for (unsigned i = 0; i < parameters; ++i)
    REQUIRE(btf__add_func_param(types.get(), "", word) == 0);
  const int pointer = btf__add_ptr(types.get(), function);
  REQUIRE(btf__add_typedef(types.get(), "btf_trace_sched_switch", pointer) > 0);
  return read_task_state_layout(types.get());
}

} // namespace

TEST_CASE("the state of a task is a member, and since Linux 5.18 an argument of sched_switch") {
  const auto old = state_layout_of("state", 4);
  REQUIRE(old);
  CHECK(old->state == 24);
  CHECK(old->has_prev_state == 0);
  const auto renamed = state_layout_of("__state", 5);
  REQUIRE(renamed);
  CHECK(renamed->state == 24);
  CHECK(renamed->has_prev_state == 1);
  CHECK(state_layout_of("__state", 0)->has_prev_state == 0);
  CHECK_FALSE(state_layout_of("status", 5));
}

} // namespace uprobectl::bpf
