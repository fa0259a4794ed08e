// SPDX-License-Identifier: Apache-2.0
#include "probe/mechanisms.hpp"
#include "probe/probe.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::probe {

namespace {

constexpr bpf::KernelFeatures linux_6_12 = {.uprobe_multi = true,
                                            .multi_pid_filter = true,
                                            .perf_uprobe = true,
                                            .perf_permitted = true,
                                            .perf_link = true,
                                            .attach_cookie = true,
                                            .tracefs_uprobe = true,
                                            .tracefs_permitted = true,
                                            .ring_buffer = true,
                                            .perf_buffer = true,
                                            .perf_buffer_permitted = true};

bpf::KernelFeatures linux_6_6() {
  bpf::KernelFeatures features = linux_6_12;
  features.multi_pid_filter = false;
  return features;
}

bpf::KernelFeatures linux_6_1() {
  bpf::KernelFeatures features = linux_6_6();
  features.uprobe_multi = false;
  return features;
}

bpf::KernelFeatures linux_5_4() {
  bpf::KernelFeatures features = linux_6_1();
  features.perf_link = false;
  features.attach_cookie = false;
  features.ring_buffer = false;
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

TEST_CASE("a semaphore needs a kernel that counts it up, which all with multi do") {
  const MechanismNeeds needs{.semaphores = true};
  CHECK(choose_mechanism(std::nullopt, linux_6_12, needs) == Mechanism::multi);
  const auto old = choose_mechanism(std::nullopt, linux_5_4(), needs);
  REQUIRE_FALSE(old);
  CHECK(old.error().message ==
        "the static probe has a semaphore, which this kernel does not support");
  bpf::KernelFeatures newer = linux_5_4();
  newer.semaphores = true;
  CHECK(choose_mechanism(std::nullopt, newer, needs) == Mechanism::perf_ioctl);
}

TEST_CASE("a requested mechanism is used or refused with the reason") {
  CHECK(choose_mechanism(Mechanism::perf, linux_6_12, {}) == Mechanism::perf);
  const auto missing = choose_mechanism(Mechanism::multi, linux_6_1(), {});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "this kernel has no uprobe_multi links");
  CHECK(missing.error().hints.size() == 1);
}

TEST_CASE("the next mechanism in preference order is chosen if one is missing") {
  bpf::KernelFeatures features = linux_5_4();
  CHECK(choose_mechanism(std::nullopt, features, {}) == Mechanism::perf_ioctl);
  features.perf_uprobe = false;
  CHECK(choose_mechanism(std::nullopt, features, {}) == Mechanism::tracefs);
  features.tracefs_uprobe = false;
  features.tracefs_permitted = false;
  CHECK(choose_mechanism(std::nullopt, features, {}).error().message ==
        "no tracefs with uprobe_events is mounted");
}

TEST_CASE("a user who may not open perf events gets tracefs if permitted, else hints") {
  bpf::KernelFeatures features = linux_6_1();
  features.perf_permitted = false;
  CHECK(choose_mechanism(std::nullopt, features, {}) == Mechanism::tracefs);
  const auto insisted = choose_mechanism(Mechanism::perf, features, {});
  REQUIRE_FALSE(insisted);
  CHECK(insisted.error().kind == ErrorKind::not_permitted);
  CHECK_THAT(insisted.error().hints.front(), Catch::Contains("CAP_SYS_ADMIN"));
  features.tracefs_uprobe = false;
  features.tracefs_permitted = false;
  CHECK(choose_mechanism(std::nullopt, features, {}).error().kind == ErrorKind::not_permitted);
}

TEST_CASE("where multi is missing, more than 50 probes that can share an event go to tracefs") {
  CHECK(choose_mechanism(std::nullopt, linux_6_1(), {.probes = 50}) == Mechanism::perf);
  CHECK(choose_mechanism(std::nullopt, linux_6_1(), {.probes = 51}) == Mechanism::tracefs);
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.probes = 10'000}) == Mechanism::multi);
  CHECK(choose_mechanism(Mechanism::perf, linux_6_1(), {.probes = 51}) == Mechanism::perf);
  bpf::KernelFeatures features = linux_6_1();
  features.tracefs_permitted = false;
  CHECK(choose_mechanism(std::nullopt, features, {.probes = 51}) == Mechanism::perf);
}

TEST_CASE("a program of others gets no ioctl where the kernel has links") {
  const MechanismNeeds pinned{.loaded_by_us = false, .kind = bpf::ProgramKind::plain};
  const auto refused = choose_mechanism(Mechanism::perf_ioctl, linux_6_12, pinned);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "perf-ioctl cannot attach a program loaded by another process");
  CHECK(choose_mechanism(Mechanism::perf_ioctl, linux_5_4(), pinned) == Mechanism::perf_ioctl);
  CHECK(choose_mechanism(Mechanism::perf_ioctl, linux_6_12, {}) == Mechanism::perf_ioctl);
}

TEST_CASE("hints for a pinned program do not name a mechanism that it was not loaded for") {
  bpf::KernelFeatures features = linux_6_12;
  features.perf_permitted = false;
  features.tracefs_uprobe = false;
  MechanismNeeds pinned{.loaded_by_us = false, .kind = bpf::ProgramKind::plain};
  const auto refused = choose_mechanism(Mechanism::perf, features, pinned);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().hints.at(1) ==
        "uprobe_multi needs only CAP_BPF and CAP_PERFMON: for --mechanism multi, a pinned program "
        "has to be loaded again, with SEC(\"uprobe.multi\")");
  CHECK(choose_mechanism(Mechanism::perf, features, {}).error().hints.at(1) ==
        "uprobe_multi needs only CAP_BPF and CAP_PERFMON: use --mechanism multi");
  pinned.kind = bpf::ProgramKind::multi;
  const auto by_thread = choose_mechanism(
      std::nullopt, linux_6_6(),
      {.filters_by_pid = true, .loaded_by_us = false, .kind = bpf::ProgramKind::multi});
  REQUIRE_FALSE(by_thread);
  CHECK(by_thread.error().hints.front() ==
        "for --mechanism perf, which filters by process on every kernel, a pinned program has to "
        "be loaded again, with SEC(\"uprobe\")");
  CHECK_THAT(choose_mechanism(std::nullopt, linux_6_1(), pinned).error().hints.front(),
             Catch::Contains("SEC(\"uprobe\")"));
}

TEST_CASE("cookies need a helper and a link") {
  CHECK(supports_cookies(Mechanism::multi, linux_6_12));
  CHECK(supports_cookies(Mechanism::perf, linux_6_1()));
  CHECK(supports_cookies(Mechanism::tracefs, linux_6_1()));
  CHECK_FALSE(supports_cookies(Mechanism::tracefs, linux_5_4()));
  CHECK_FALSE(supports_cookies(Mechanism::perf_ioctl, linux_6_12));
}

TEST_CASE("the ring buffer is taken where the kernel has it, else the perf buffer") {
  CHECK(choose_buffer(std::nullopt, linux_6_1()) == bpf::RecordBuffer::ring);
  CHECK(choose_buffer(bpf::RecordBuffer::perf, linux_6_1()) == bpf::RecordBuffer::perf);
  CHECK(choose_buffer(std::nullopt, linux_5_4()) == bpf::RecordBuffer::perf);
  CHECK(choose_buffer(bpf::RecordBuffer::ring, linux_5_4()).error().message ==
        "this kernel has no BPF ring buffer");
  bpf::KernelFeatures features = linux_5_4();
  features.perf_buffer_permitted = false;
  CHECK(choose_buffer(std::nullopt, features).error().kind == ErrorKind::not_permitted);
  features.perf_buffer = false;
  CHECK(choose_buffer(std::nullopt, features).error().kind == ErrorKind::unsupported);
}

// The kernel would say something else: there is no such program.
TEST_CASE("a wrong kind of program is refused before the kernel sees it") {
  const std::function<bool()> never = [] { return false; };
  for (const bpf::ProgramKind kind : {bpf::ProgramKind::multi, bpf::ProgramKind::session}) {
    const ProbeSite site{.program = {.fd = -1, .kind = kind}, .label = "f"};
    for (const Mechanism mechanism : {Mechanism::perf, Mechanism::perf_ioctl, Mechanism::tracefs}) {
      const auto refused = Attachment::attach(mechanism, std::span(&site, 1), {}, never);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().message == "f: the program was loaded for another mechanism");
    }
  }
}

TEST_CASE("sites with one program and one cookie share an event of tracefs") {
  const auto site = [](int program, std::uint64_t offset, bool on_return, std::uint64_t cookie) {
    return ProbeSite{.file = 3,
                     .offset = {offset},
                     .on_return = on_return,
                     .program = {.fd = program},
                     .cookie = cookie};
  };
  const ProbeSite sites[] = {site(5, 0x10, false, 7), site(5, 0x20, false, 7),
                             site(5, 0x20, true, 7),  site(5, 0x30, false, 8),
                             site(6, 0x40, false, 7), site(5, 0x10, false, 7)};
  // The first two; a return; another cookie; another program; an offset that the first has.
  CHECK(count_perf_events(Mechanism::tracefs, sites, 0) == 5);
  CHECK(count_perf_events(Mechanism::tracefs, sites, 2) == 10);
  CHECK(count_perf_events(Mechanism::perf, sites, 0) == 6);
  CHECK(count_perf_events(Mechanism::multi, sites, 0) == 0);
}

TEST_CASE("a loaded program gets the mechanism of its kind or none") {
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.kind = bpf::ProgramKind::plain}) ==
        Mechanism::perf);
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.kind = bpf::ProgramKind::multi}) ==
        Mechanism::multi);
  const auto deadly =
      choose_mechanism(Mechanism::perf, linux_6_12, {.kind = bpf::ProgramKind::multi});
  REQUIRE_FALSE(deadly);
  CHECK(deadly.error().message ==
        "the program was loaded for uprobe_multi links, not for --mechanism perf");
}

TEST_CASE("session links serve session programs and no others") {
  bpf::KernelFeatures linux_6_18 = linux_6_12;
  linux_6_18.uprobe_session = true;
  CHECK(choose_mechanism(std::nullopt, linux_6_18, {.kind = bpf::ProgramKind::session}) ==
        Mechanism::session);
  CHECK(choose_mechanism(Mechanism::multi, linux_6_18, {.kind = bpf::ProgramKind::session}) ==
        Mechanism::session);
  CHECK(choose_mechanism(std::nullopt, linux_6_18, {}) == Mechanism::multi);
  CHECK(choose_mechanism(std::nullopt, linux_6_12, {.kind = bpf::ProgramKind::session})
            .error()
            .message == "this kernel has no uprobe session links");
}

TEST_CASE("each mechanism has its own kind of program") {
  CHECK(program_kind(Mechanism::multi) == bpf::ProgramKind::multi);
  CHECK(program_kind(Mechanism::perf) == bpf::ProgramKind::plain);
  CHECK(program_kind(Mechanism::perf_ioctl) == bpf::ProgramKind::plain);
  CHECK(program_kind(Mechanism::tracefs) == bpf::ProgramKind::plain);
}

TEST_CASE("each errno for a refused instruction gives the same error") {
  // EOPNOTSUPP, and ENOTSUPP of include/linux/errno.h.
  const std::function<bool()> never = [] { return false; };
  for (const int error : {95, 524}) {
    const Error said = attach_error(
        error, "libc.so.6: pthread_spin_lock",
        {.mechanism = Mechanism::multi, .sites = {}, .pids = {}, .interrupted = never});
    CHECK(said.kind == ErrorKind::unsupported);
    CHECK(said.message == "libc.so.6: pthread_spin_lock: the kernel cannot probe this instruction");
  }
}

} // namespace uprobectl::probe
