// SPDX-License-Identifier: Apache-2.0
// Prepared readings, evaluated by the built-in program at a function of this process.
#include "bpf/builtin.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"
#include "events/value_plan.hpp"
#include "probe/probe.hpp"
#include "probe/sleepable.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

using namespace uprobectl;

#define NEEDS_ROOT()                                                                               \
  if (geteuid() != 0) {                                                                            \
    WARN("skipped: needs root");                                                                   \
    return;                                                                                        \
  }

namespace {

struct Fields { // gcc and clang order them from bit 0 on
  unsigned low : 2;
  unsigned middle : 3;
  int small : 5;
  unsigned high : 22;
  std::uint64_t first : 33;
  std::int64_t wide : 20;
};
struct Node {
  std::int32_t id;
  Node* next;
};
struct Shop {
  std::int32_t id;
  std::uint16_t port;
  std::int8_t offset;
  Node* first;
  std::uint32_t* prices;
  std::uint64_t price_count;
  std::int16_t* begin;
  std::int16_t* end;
  const char* name;
  Node* nothing;
  Fields fields;
};

constexpr int node_count = 9;
Node nodes[node_count];
std::uint32_t prices[] = {0x11111111, 0x22222222, 0x33333333};
std::int16_t steps[] = {0x0102, 0x0304, 0x0506};
Shop shop{.id = 7,
          .port = 8080,
          .offset = -5,
          .first = &nodes[0],
          .prices = prices,
          .price_count = 3,
          .begin = steps,
          .end = steps + 3,
          .name = "corner shop",
          .nothing = nullptr,
          .fields = {.low = 3, .middle = 5, .small = -7, .high = 0x2aaaaa, .first = 0, .wide = -3}};

} // namespace

extern "C" {
std::int32_t prepared_readings_global = -77;

// Changes the shop's id while it runs.
[[gnu::noinline]] std::int32_t prepared_readings_take(Shop* self, std::uint32_t amount) {
  self->id = 70 + static_cast<std::int32_t>(amount);
  asm volatile("" : : "r"(self) : "memory");
  return -static_cast<std::int32_t>(amount);
}
}

namespace {

std::uint32_t argument_register(std::size_t number) {
  return calling_convention(events::CodeKind::native)->argument_registers[number];
}

// The offset in this program's file of what is mapped at the address.
std::uint64_t file_offset(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long offset = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) != 3) continue;
    if (begin <= address && address < end) return address - begin + offset;
  }
  return 0;
}

reading with_base(std::uint32_t base, std::uint32_t size, bool is_signed,
                  std::initializer_list<std::size_t> offsets = {}) {
  reading made{};
  made.base = base;
  made.size = size;
  made.is_signed = is_signed ? 1 : 0;
  for (const std::size_t offset : offsets)
    made.offsets[made.steps++] = static_cast<std::int32_t>(offset);
  return made;
}
reading from(std::size_t earlier, std::uint32_t size, bool is_signed,
             std::initializer_list<std::size_t> offsets = {}) {
  reading made = with_base(NO_REGISTER, size, is_signed, offsets);
  made.base_from = earlier + 1;
  return made;
}
reading bits(reading made, std::uint32_t offset, std::uint32_t count) {
  made.bit_offset = offset;
  made.bit_count = count;
  return made;
}
reading memory(reading made, reading_form form, std::uint32_t capacity) {
  made.form = form;
  made.capacity = capacity;
  return made;
}

// The mechanism and the object of the built-in program that it needs.
struct Way {
  probe::Mechanism mechanism;
  bpf::RecordBuffer buffer;
  bool cookie;
  bool sleepable = false;
};

std::uint64_t address_of_function() {
  return reinterpret_cast<std::uint64_t>(&prepared_readings_take);
}

// Attaches to the function, and with pair_calls to its return, in this process.
class Probed {
public:
  Probed(const Way& way, const events::CaptureSpec& capture, std::vector<reading> readings) {
    point_.symbol = "prepared_readings_take";
    const events::CapturePoint points[] = {
        {.point = &point_,
         .code = {},
         .values = std::make_shared<const events::ValuePlan>(std::move(readings))}};
    auto plan = events::CapturePlan::make(capture, points);
    INFO((plan ? "" : plan.error().message));
    REQUIRE(plan);
    plan_ = std::move(*plan);
    auto program = bpf::BuiltinProgram::load({.kind = program_kind(way.mechanism),
                                              .buffer = way.buffer,
                                              .cookie = way.cookie,
                                              .sleepable = way.sleepable,
                                              .probes = {{.plan = plan_.probe_plan(0)}},
                                              .exit_rules = {{.left_by = LEFT_BY_RETURN}},
                                              .exits = {},
                                              .run = plan_.settings(),
                                              .plans = plan_.plans(),
                                              .filters = plan_.filters()});
    INFO((program ? "" : program.error().message));
    REQUIRE(program);
    program_.emplace(std::move(*program));
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0);
    std::vector<probe::ProbeSite> sites;
    for (const bpf::ProbeRole role : {bpf::ProbeRole::entry, bpf::ProbeRole::on_return}) {
      probe::ProbeSite site{.file = file, .offset = FileOffset{file_offset(address_of_function())}};
      site.on_return = role == bpf::ProbeRole::on_return;
      site.program = program_->program(0, role);
      site.cookie = way.cookie ? program_->cookie(0, role) : 0;
      if (!site.on_return || capture.pair_calls) sites.push_back(site);
    }
    const pid_t self[] = {::getpid()};
    auto attached = probe::Attachment::attach(way.mechanism, sites, self, [] { return false; });
    ::close(file);
    INFO((attached ? "" : attached.error().message));
    REQUIRE(attached);
    attachment_.emplace(std::move(*attached));
    REQUIRE(program_->arm(true));
  }

  // Calls `visit` for each record.
  void read(const std::function<void(Bytes)>& visit) {
    while (program_->drain([&](Bytes record) {
      visit(record);
      return true;
    })) {
    }
  }
  const events::CapturePlan& plan() const { return plan_; }

private:
  resolve::ProbePoint point_;
  events::CapturePlan plan_;
  std::optional<bpf::BuiltinProgram> program_;
  std::optional<probe::Attachment> attachment_;
};

std::vector<Way> ways() {
  const auto features = bpf::probe_kernel_features();
  REQUIRE(features);
  std::vector<Way> found;
  const bool perf = features->perf_uprobe && features->perf_permitted;
  if (features->uprobe_multi)
    found.push_back({probe::Mechanism::multi, bpf::RecordBuffer::ring, true});
  for (const probe::Mechanism mechanism : {probe::Mechanism::multi, probe::Mechanism::perf})
    if (choose_mechanism(mechanism, *features, {}) && supports_cookies(mechanism, *features) &&
        sleepable_programs_run(mechanism))
      found.push_back({mechanism, bpf::RecordBuffer::ring, true, true});
  if (features->uprobe_multi && features->perf_buffer_permitted)
    found.push_back({probe::Mechanism::multi, bpf::RecordBuffer::perf, true});
  for (const bool cookie : {false, true}) {
    if (!perf || (cookie && !supports_cookies(probe::Mechanism::perf, *features))) continue;
    found.push_back({probe::Mechanism::perf, bpf::RecordBuffer::ring, cookie});
    if (features->perf_buffer_permitted)
      found.push_back({probe::Mechanism::perf, bpf::RecordBuffer::perf, cookie});
  }
  return found;
}

std::string text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// 32 readings; the names in comments are their indexes.
std::vector<reading> all_readings() {
  const std::uint32_t self = argument_register(0);
  const std::uint32_t amount = argument_register(1);
  const std::size_t next = offsetof(Node, next);
  const std::size_t fields = offsetof(Shop, fields);
  std::vector<reading> made = {
      with_base(self, 8, false, {offsetof(Shop, first)}), // 0
      from(0, 8, false, {next}),                          // 1
      from(1, 8, false, {next}),                          // 2
      from(2, 4, true, {offsetof(Node, id)}),             // 3
      with_base(self, 4, true,
                {offsetof(Shop, first), next, next, next, next, next, next, // 4
                 offsetof(Node, id)}),
      bits(with_base(self, 4, false, {fields}), 2, 3),          // 5: middle
      bits(with_base(self, 4, true, {fields}), 5, 5),           // 6: small
      bits(with_base(self, 4, false, {fields}), 10, 22),        // 7: high
      bits(with_base(self, 8, true, {fields + 8}), 33, 20),     // 8: wide
      with_base(events::instruction_pointer(), 4, true, {0}),   // 9: the global, see below
      with_base(events::instruction_pointer(), 8, false),       // 10: its address
      memory(with_base(self, 8, false), READ_BYTES, 8),         // 11: the beginning of the shop
      with_base(self, 8, false, {offsetof(Shop, price_count)}), // 12
      memory(with_base(self, 8, false, {offsetof(Shop, prices)}), READ_BYTES, 64),       // 13
      memory(with_base(self, 8, false, {offsetof(Shop, prices)}), READ_BYTES, 8),        // 14
      with_base(self, 8, false, {offsetof(Shop, end)}),                                  // 15
      memory(with_base(self, 8, false, {offsetof(Shop, begin)}), READ_BYTES, 32),        // 16
      memory(with_base(self, 8, false, {offsetof(Shop, name)}), READ_STRING, 32),        // 17
      memory(with_base(self, 8, false, {offsetof(Shop, name)}), READ_STRING, 8),         // 18
      with_base(calling_convention(events::CodeKind::native)->return_register, 4, true), // 19
      with_base(self, 8, false),                                                         // 20
      from(20, 4, true, {offsetof(Shop, id)}),                                 // 21: at the return
      with_base(self, 4, true, {offsetof(Shop, nothing), offsetof(Node, id)}), // 22
      with_base(self, 8, false, {offsetof(Shop, nothing), next}),              // 23
      from(23, 4, true, {offsetof(Node, id)}),                                 // 24
      with_base(self, 2, false, {offsetof(Shop, port)}),                       // 25
      with_base(self, 1, true, {offsetof(Shop, offset)}),                      // 26
      with_base(self, 4, false, {offsetof(Shop, prices), 4 * 4}),              // 27: minus 12
      with_base(amount, 4, false),                                             // 28
      with_base(amount, 1, true),                                              // 29
      bits(with_base(amount, 4, false), 4, 4),                                 // 30
      with_base(NO_REGISTER, 8, false),                                        // 31
  };
  const std::int64_t distance = reinterpret_cast<std::int64_t>(&prepared_readings_global) -
                                static_cast<std::int64_t>(address_of_function());
  made[9].base_offset = made[10].base_offset = distance;
  made[13].length_from = made[14].length_from = 12 + 1;
  made[13].element_size = made[14].element_size = sizeof(std::uint32_t);
  made[16].length_from = 15 + 1;
  made[16].length_is_end = 1;
  made[27].offset_from = 12 + 1;
  made[27].offset_step = 1;
  made[27].offset_scale = -4;
  made[19].phase = made[21].phase = PHASE_RETURN;
  made[31].addend = 12345;
  return made;
}

void set_values() {
  for (int i = 0; i < node_count; ++i)
    nodes[i] = {.id = 100 + i, .next = i + 1 < node_count ? &nodes[i + 1] : nullptr};
  shop.id = 7;
}

void check_values(std::span<const events::ReadResult> values) {
  const auto number = [&](std::size_t index) {
    REQUIRE(values[index].was_read);
    CHECK(values[index].status == 0);
    return static_cast<std::int64_t>(values[index].value);
  };
  const auto address = [](const void* pointer) { return reinterpret_cast<std::int64_t>(pointer); };
  CHECK(number(0) == address(&nodes[0]));
  CHECK(number(1) == address(&nodes[1]));
  CHECK(number(2) == address(&nodes[2]));
  CHECK(number(3) == 102);
  CHECK(number(4) == 106);
  CHECK(number(5) == 5);
  CHECK(number(6) == -7);
  CHECK(number(7) == 0x2aaaaa);
  CHECK(number(8) == -3);
  CHECK(number(9) == -77);
  CHECK(number(10) == address(&prepared_readings_global));
  CHECK(values[11].status == 8);
  CHECK(text(values[11].bytes) == std::string("\x07\0\0\0\x90\x1f\xfb\0", 8));
  CHECK(number(12) == 3);
  CHECK(values[13].status == 12);
  CHECK(text(values[13].bytes) == "\x11\x11\x11\x11\x22\x22\x22\x22\x33\x33\x33\x33");
  CHECK_FALSE(values[13].is_truncated);
  CHECK(text(values[14].bytes) == "\x11\x11\x11\x11\x22\x22\x22\x22");
  CHECK(values[14].is_truncated);
  CHECK(number(15) == address(steps + 3));
  CHECK(text(values[16].bytes) == "\x02\x01\x04\x03\x06\x05");
  CHECK_FALSE(values[16].is_truncated);
  CHECK(text(values[17].bytes) == "corner shop");
  CHECK(text(values[18].bytes) == "corner");
  CHECK(values[18].is_truncated);
  CHECK(number(19) == -0x1f5);
  CHECK(number(20) == address(&shop));
  CHECK(number(21) == 70 + 0x1f5);
  for (const std::size_t failed : {22, 23, 24}) CHECK(values[failed].status == -EFAULT);
  CHECK(values[22].value == 0);
  CHECK(values[23].value == offsetof(Node, next));
  CHECK(values[24].value == offsetof(Node, next));
  CHECK(number(25) == 8080);
  CHECK(number(26) == -5);
  CHECK(number(27) == 0x22222222);
  CHECK(number(28) == 0x1f5);
  CHECK(number(29) == -11); // 0xf5
  CHECK(number(30) == 0xf);
  CHECK(number(31) == 12345);
}

} // namespace

TEST_CASE("32 readings with steps, bit-fields and bases return the program's values") {
  NEEDS_ROOT();
  events::CaptureSpec capture;
  capture.pair_calls = true;
  REQUIRE(all_readings().size() == MAX_READINGS);
  for (const Way& way : ways()) {
    INFO("mechanism " << to_string(way.mechanism) << ", buffer " << to_string(way.buffer));
    Probed probed(way, capture, all_readings());
    set_values();
    CHECK(prepared_readings_take(&shop, 0x1f5) == -0x1f5);
    int records = 0;
    probed.read([&](Bytes record) {
      ++records;
      const auto event = probed.plan().decode(record);
      REQUIRE(event);
      CHECK(event->latency_ns);
      CHECK(event->typed_arguments->empty());
      const auto values = probed.plan().read_results(record);
      REQUIRE(values.size() == MAX_READINGS);
      check_values(values);
    });
    CHECK(records == 1);
  }
}
