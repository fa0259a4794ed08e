// SPDX-License-Identifier: Apache-2.0
#include "capture_points.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"
#include "events/value_plan.hpp"

#include <catch2/catch.hpp>
#include <list>

namespace uprobectl::events {

namespace {

reading integer(std::uint32_t base = 0) {
  reading made{};
  made.base = base;
  made.size = 8;
  return made;
}
reading buffer(std::uint32_t capacity) {
  reading made = integer();
  made.form = READ_BYTES;
  made.capacity = capacity;
  return made;
}

std::string message_of(const Result<void>& checked) {
  return checked ? "no error" : checked.error().message;
}
std::string error_of(const std::vector<reading>& readings, const CapturePhases& phases = {}) {
  return message_of(check_readings(readings, phases));
}
std::string condition_error(const PreparedTerm& condition, const CapturePhases& phases = {}) {
  return message_of(check_condition(condition, phases));
}
std::shared_ptr<const ValuePlan> values_of(std::vector<reading> readings) {
  return std::make_shared<const ValuePlan>(std::move(readings));
}

CapturePlan prepared_plan_of(const CaptureSpec& capture, std::span<const CapturePoint> points) {
  auto plan = CapturePlan::make(capture, points);
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  return std::move(*plan);
}

// A record of bpf/record.h written out by hand: the head, then results and bytes.
class RawRecord {
public:
  explicit RawRecord(std::uint32_t kind) {
    bytes_.assign(64, '\0');
    bytes_[28] = static_cast<char>(kind);
  }
  RawRecord& put(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  RawRecord& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  Bytes bytes() const { return as_bytes(bytes_); }

private:
  std::string bytes_;
};

std::string text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

TEST_CASE("a prepared reading that the program cannot evaluate is refused by its number") {
  CHECK(error_of({integer(), integer()}) == "no error");
  reading bad = integer();
  bad.steps = 9;
  CHECK(error_of({integer(), bad}) == "value 1: too many steps");
  bad = integer();
  bad.size = 3;
  CHECK(error_of({bad}) == "value 0: invalid size");
  bad = integer(200);
  CHECK(error_of({bad}) == "value 0: unknown register");
  CHECK(error_of({integer(NO_REGISTER)}) == "no error");
  bad = integer();
  bad.bit_offset = 60;
  bad.bit_count = 5;
  CHECK(error_of({bad}) == "value 0: bits beyond the value");
  bad.bit_count = 4;
  CHECK(error_of({bad}) == "no error");
  bad = integer();
  bad.capacity = 8;
  CHECK(error_of({bad}) == "value 0: a capacity belongs to strings and buffers");
  bad = integer();
  bad.phase = PHASE_RETURN;
  CHECK(error_of({bad}) == "value 0: its phase is not probed");
  CHECK(error_of(std::vector<reading>(33, integer())) == "more than 32 values");
}

TEST_CASE("a reading uses earlier ones whose results its record has") {
  reading later = integer();
  later.base_from = 1;
  CHECK(error_of({integer(), later}) == "no error");
  CHECK(error_of({later}) == "value 0: uses a reading that is not before it");
  later.phase = PHASE_RETURN;
  CHECK(error_of({integer(), later}, {.entry = true, .exit = true}) ==
        "value 1: uses a reading of a phase that its record does not have");
  CHECK(error_of({integer(), later}, {.entry = true, .exit = true, .paired = true}) == "no error");
  PreparedTerm condition{.term = {.value = integer()}};
  CHECK(condition_error(condition) == "no error");
  condition.term.value.base_from = 1;
  CHECK(condition_error(condition) == "condition: uses another reading");
  condition = {.term = {.value = integer(), .comparison = MATCHES}};
  CHECK(condition_error(condition) ==
        "condition: numbers are compared with numbers, and texts with patterns");
  condition.term.value.form = READ_STRING;
  CHECK(condition_error(condition) == "no error");
  CHECK(message_of(check_measured(buffer(8), {})) ==
        "measured value: only integers can be compared or measured");
}

TEST_CASE("an earlier reading is added to another before one of its steps") {
  reading sum = integer();
  sum.steps = 1;
  sum.offset_from = 1;
  sum.offset_step = 1;
  CHECK(error_of({integer(), sum}) == "no error");
  CHECK(error_of({buffer(8), sum}) == "value 1: uses a reading that is not an integer");
  CHECK(error_of({sum}) == "value 0: uses a reading that is not before it");
  sum.offset_step = 2;
  CHECK(error_of({integer(), sum}) == "value 1: an offset behind the last step");
  sum.offset_step = 0;
  PreparedTerm condition{.term = {.value = sum}};
  CHECK(condition_error(condition) == "condition: has no reading of its offset");
  condition.offset = integer();
  CHECK(condition_error(condition) == "no error");
  condition.offset = sum;
  CHECK(condition_error(condition) == "condition: uses another reading");
  condition.offset = integer();
  condition.offset->phase = PHASE_RETURN;
  CHECK(condition_error(condition, {.entry = true, .exit = true}) ==
        "condition: its offset is of another phase");
  CHECK(message_of(check_measured(sum, {})) == "measured value: uses another reading");
}

TEST_CASE("only integers are the base or the length of other readings") {
  reading later = integer();
  later.base_from = 1;
  reading text = buffer(8);
  for (const reading_form form :
       {READ_STRING, READ_BYTES, READ_LIBSTDCXX_STRING, READ_LIBCXX_STRING, READ_JAVA_STRING,
        READ_LIBCXX_ALTERNATE_STRING}) {
    text.form = static_cast<record_u8>(form);
    CHECK(error_of({text, later}) == "value 1: uses a reading that is not an integer");
  }
  reading elements = buffer(8);
  elements.length_from = 1;
  CHECK(error_of({integer(), elements}) == "no error");
  CHECK(error_of({text, elements}) == "value 1: uses a reading that is not an integer");
  elements.form = READ_STRING;
  CHECK(error_of({integer(), elements}) == "value 1: a length belongs to buffers");
}

TEST_CASE("the instruction pointer is a base at the entry only") {
  const CapturePhases both{.entry = true, .exit = true, .paired = true};
  reading global = integer(instruction_pointer());
  CHECK(error_of({global}, both) == "no error");
  global.phase = PHASE_RETURN;
  constexpr std::string_view at_return = "the instruction pointer is known only at the entry";
  CHECK(error_of({global}, both) == "value 0: " + std::string(at_return));
  CHECK(condition_error(PreparedTerm{.term = {.value = global}}, both) ==
        "condition: " + std::string(at_return));
  // An earlier reading replaces the register.
  global.base_from = 1;
  CHECK(error_of({integer(), global}, both) == "no error");
}

TEST_CASE("the bytes of a point are limited to 512") {
  const std::vector<reading> readings = {buffer(256), buffer(257)};
  CHECK(error_of(readings) == "the values take up to 513 bytes, the maximum is 512");
}

TEST_CASE("a point with prepared readings has these instead of arguments, others keep theirs") {
  std::vector<resolve::ProbePoint> probed(2);
  probed[0].symbol = "f";
  probed[1].symbol = "g";
  std::vector<CapturePoint> points = capture_points(probed);
  reading member = integer(3);
  member.offsets[member.steps++] = -16;
  points[0].values = values_of({member, buffer(6)});
  const CapturePlan plan = prepared_plan_of({}, points);
  REQUIRE(plan.plans().size() == 2);
  const point_plan& made = plan.plans()[plan.probe_plan(0)];
  REQUIRE(made.reading_count == 2);
  CHECK(made.readings[0].offsets[0] == -16);
  CHECK(made.readings[0].bit_count == 64);
  CHECK(made.readings[0].pointer_size == 8);
  CHECK(made.readings[1].bytes_offset == 64 + 48);
  CHECK(plan.plans()[plan.probe_plan(1)].reading_count == 0);
  CHECK(plan.settings().record_size == 64 + 48 + 8);
  CHECK(plan.settings().max_steps == 1);
  CHECK(plan.settings().plan_flags == SIX_ARGUMENTS);

  const RawRecord record = RawRecord(RECORD_ENTRY)
                               .put(0xfffffffffffffff2) // -EFAULT
                               .put(0x1000)
                               .put(6)
                               .put(0x2000)
                               .put(0) // room for six values
                               .put(0)
                               .text("abcdef??");
  const auto event = plan.decode(record.bytes());
  REQUIRE(event);
  REQUIRE(event->typed_arguments);
  CHECK(event->typed_arguments->empty());
  const auto values = plan.read_results(record.bytes());
  REQUIRE(values.size() == 2);
  CHECK((values[0].was_read && values[0].status == -14 && values[0].value == 0x1000));
  CHECK((values[1].was_read && values[1].status == 6 && values[1].value == 0x2000));
  CHECK(text(values[1].bytes) == "abcdef");
  CHECK_FALSE(values[1].is_truncated);
}

TEST_CASE("a record has the values of its phase") {
  const std::vector<resolve::ProbePoint> probed(1);
  std::vector<CapturePoint> points = capture_points(probed);
  reading returned = integer();
  returned.phase = PHASE_RETURN;
  points[0].values = values_of({integer(), returned});
  CaptureSpec capture;
  capture.on_return = true;
  const CapturePlan plan = prepared_plan_of(capture, points);
  const auto values = [&](std::uint32_t kind) {
    const RawRecord record = RawRecord(kind).put(0).put(1).put(0).put(2);
    return plan.read_results(record.bytes());
  };
  CHECK((values(RECORD_ENTRY)[0].was_read && !values(RECORD_ENTRY)[1].was_read));
  CHECK((!values(RECORD_RETURN)[0].was_read && values(RECORD_RETURN)[1].was_read));
  CHECK((values(RECORD_CALL)[0].was_read && values(RECORD_CALL)[1].was_read));
}

TEST_CASE("a buffer of elements is as long as their number, or their end, says") {
  const std::vector<resolve::ProbePoint> probed(1);
  std::vector<CapturePoint> points = capture_points(probed);
  reading elements = buffer(8);
  elements.length_from = 1;
  elements.element_size = 4;
  reading between = buffer(8);
  between.length_from = 1;
  between.length_is_end = 1;
  points[0].values = values_of({integer(), elements, between});
  const CapturePlan plan = prepared_plan_of({}, points);
  std::list<RawRecord> records; // values are borrowed from them
  const auto decode = [&](std::uint64_t length, std::uint64_t begin, std::uint64_t status) {
    records.push_back(RawRecord(RECORD_ENTRY)
                          .put(0)
                          .put(length)
                          .put(status)
                          .put(begin)
                          .put(status)
                          .put(begin)
                          .text("12345678abcdefgh"));
    return plan.read_results(records.back().bytes());
  };
  const auto counted = decode(2, 0x1000, 8);
  CHECK((text(counted[1].bytes) == "12345678" && !counted[1].is_truncated));
  CHECK(decode(3, 0x1000, 8)[1].is_truncated);
  const auto ended = decode(0x1006, 0x1000, 6);
  CHECK((text(ended[2].bytes) == "abcdef" && !ended[2].is_truncated));
  CHECK(decode(0x1009, 0x1000, 8)[2].is_truncated);
}

TEST_CASE("points with equal prepared readings share a plan") {
  const std::vector<resolve::ProbePoint> probed(3);
  std::vector<CapturePoint> points = capture_points(probed);
  for (CapturePoint& each : points) each.values = values_of({integer(1)});
  CHECK(plans_of(prepared_plan_of({}, points), 3) == std::vector<std::uint32_t>{0, 0, 0});
  points[1].values = values_of({integer(2)});
  const CapturePlan plan = prepared_plan_of({.filter = *parse_filter("arg0==1")}, points);
  CHECK(plans_of(plan, 3) == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(plan.filters().filters.size() == 1);
}

} // namespace uprobectl::events
