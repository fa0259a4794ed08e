#include "uprobectl/attach.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {

constexpr KernelFeatures linux_6_12 = {.uprobe_multi = true,
                                       .multi_pid_filter = true,
                                       .perf_uprobe = true,
                                       .perf_link = true,
                                       .ring_buffer = true};

KernelFeatures linux_6_6() {
  KernelFeatures features = linux_6_12;
  features.multi_pid_filter = false;
  return features;
}

KernelFeatures linux_6_1() {
  KernelFeatures features = linux_6_6();
  features.uprobe_multi = false;
  return features;
}

} // namespace

TEST_CASE("multi is taken where the kernel has it, else perf") {
  CHECK(choose_mechanism(std::nullopt, linux_6_12, true) == Mechanism::multi);
  CHECK(choose_mechanism(std::nullopt, linux_6_1(), true) == Mechanism::perf);
}

TEST_CASE("a multi filter that means threads is used only without pids") {
  CHECK(choose_mechanism(std::nullopt, linux_6_6(), true) == Mechanism::perf);
  CHECK(choose_mechanism(std::nullopt, linux_6_6(), false) == Mechanism::multi);
  const auto insisted = choose_mechanism(Mechanism::multi, linux_6_6(), true);
  REQUIRE_FALSE(insisted);
  CHECK(insisted.error().kind == ErrorKind::unsupported);
}

TEST_CASE("a mechanism that is asked for is taken or refused with the reason") {
  CHECK(choose_mechanism(Mechanism::perf, linux_6_12, false) == Mechanism::perf);
  const auto missing = choose_mechanism(Mechanism::multi, linux_6_1(), false);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "this kernel has no uprobe_multi links");
  CHECK(missing.error().hints.size() == 1);
}

TEST_CASE("a kernel without what every mechanism needs is told so") {
  KernelFeatures features = linux_6_12;
  features.ring_buffer = false;
  CHECK(choose_mechanism(std::nullopt, features, false).error().message ==
        "this kernel has no BPF ring buffer");
  features = linux_6_1();
  features.perf_link = false;
  CHECK(choose_mechanism(std::nullopt, features, false).error().message ==
        "this kernel has no BPF links on perf events");
}

TEST_CASE("each mechanism has its own kind of program") {
  CHECK(program_kind(Mechanism::multi) == ProgramKind::multi);
  CHECK(program_kind(Mechanism::perf) == ProgramKind::plain);
}
