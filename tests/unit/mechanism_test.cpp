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
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.filters_by_pid = true}) == Mechanism::multi);
  CHECK(choose_mechanism(std::nullopt, linux_6_1(), {.filters_by_pid = true}) == Mechanism::perf);
}

TEST_CASE("a multi filter that means threads is used only without pids") {
  CHECK(choose_mechanism(std::nullopt, linux_6_6(), {.filters_by_pid = true}) == Mechanism::perf);
  CHECK(choose_mechanism(std::nullopt, linux_6_6(), {}) == Mechanism::multi);
  const auto insisted = choose_mechanism(Mechanism::multi, linux_6_6(), {.filters_by_pid = true});
  REQUIRE_FALSE(insisted);
  CHECK(insisted.error().kind == ErrorKind::unsupported);
}

TEST_CASE("a mechanism that is asked for is taken or refused with the reason") {
  CHECK(choose_mechanism(Mechanism::perf, linux_6_12, {}) == Mechanism::perf);
  const auto missing = choose_mechanism(Mechanism::multi, linux_6_1(), {});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "this kernel has no uprobe_multi links");
  CHECK(missing.error().hints.size() == 1);
}

TEST_CASE("a kernel without what every mechanism needs is told so") {
  KernelFeatures features = linux_6_12;
  features.ring_buffer = false;
  CHECK(choose_mechanism(std::nullopt, features, {}).error().message ==
        "this kernel has no BPF ring buffer");
  features = linux_6_1();
  features.perf_link = false;
  CHECK(choose_mechanism(std::nullopt, features, {}).error().message ==
        "this kernel has no BPF links on perf events");
}

TEST_CASE("a program that is loaded already gets the mechanism of its kind or none") {
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.kind = ProgramKind::plain}) ==
        Mechanism::perf);
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.kind = ProgramKind::multi}) ==
        Mechanism::multi);
  const auto deadly = choose_mechanism(Mechanism::perf, linux_6_12, {.kind = ProgramKind::multi});
  REQUIRE_FALSE(deadly);
  CHECK(deadly.error().message ==
        "the program was loaded for uprobe_multi links, not for --mechanism perf");
}

TEST_CASE("session links serve session programs and no others") {
  KernelFeatures linux_6_18 = linux_6_12;
  linux_6_18.uprobe_session = true;
  CHECK(choose_mechanism(std::nullopt, linux_6_18, {.kind = ProgramKind::session}) ==
        Mechanism::session);
  CHECK(choose_mechanism(Mechanism::multi, linux_6_18, {.kind = ProgramKind::session}) ==
        Mechanism::session);
  CHECK(choose_mechanism(std::nullopt, linux_6_18, {}) == Mechanism::multi);
  CHECK(
      choose_mechanism(std::nullopt, linux_6_12, {.kind = ProgramKind::session}).error().message ==
      "this kernel has no uprobe session links");
}

TEST_CASE("each mechanism has its own kind of program") {
  CHECK(program_kind(Mechanism::multi) == ProgramKind::multi);
  CHECK(program_kind(Mechanism::perf) == ProgramKind::plain);
}
