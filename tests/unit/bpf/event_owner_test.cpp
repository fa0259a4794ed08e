// SPDX-License-Identifier: Apache-2.0
#include "bpf/tracefs.hpp"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::bpf {

TEST_CASE("the group of tracefs events encodes and decodes its process") {
  const EventOwner owner{.pid_namespace = 4026531836, .pid = 4711, .start_time = 98765};
  CHECK(owner.group() == "uprobectl_4026531836_4711_98765");
  CHECK(EventOwner::parse_group(owner.group()) == owner);
  const EventOwner longest{
      .pid_namespace = 0xffffffff, .pid = 0x7fffffff, .start_time = 0xffffffffffffffff};
  CHECK(longest.group().size() < 64);
}

TEST_CASE("groups of other tools are not decoded") {
  for (const char* group :
       {"uprobes", "uprobectl", "uprobectl_", "uprobectl_1_2", "uprobectl_1_2_3_4",
        "uprobectl_1_0_3", "uprobectl_1_-2_3", "uprobectl_x_2_3", "myuprobectl_1_2_3"})
    CHECK_FALSE(EventOwner::parse_group(group));
}

TEST_CASE("a process has ended if its pid is free or reused") {
  EventOwner owner = EventOwner::self();
  CHECK(owner.pid == ::getpid());
  CHECK(owner.start_time > 0);
  CHECK_FALSE(owner.has_ended());
  ++owner.start_time; // another process of the same id
  CHECK(owner.has_ended());

  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(EventOwner{.pid_namespace = EventOwner::self().pid_namespace, .pid = child, .start_time = 1}
            .has_ended());
}

TEST_CASE("processes of another pid namespace are not considered ended") {
  EventOwner owner = EventOwner::self();
  ++owner.pid_namespace;
  ++owner.start_time;
  CHECK_FALSE(owner.has_ended());
}

} // namespace uprobectl::bpf
