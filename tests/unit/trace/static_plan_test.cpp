// SPDX-License-Identifier: Apache-2.0
#include "capture_points.hpp"
#include "events/histogram.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"
#include "trace/probes.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

namespace uprobectl::trace {

namespace {

using Kind = usdt::StaticArgument::Kind;

// Registers by the number that the program knows them by, on any machine.
std::string register_at(std::size_t number) {
  return std::string(events::register_names()[number]);
}

usdt::StaticArgument in_register(std::size_t number, std::uint32_t size, bool is_signed) {
  return {.raw = "register",
          .kind = Kind::in_register,
          .size = size,
          .is_signed = is_signed,
          .base = register_at(number)};
}

usdt::StaticArgument in_memory(std::size_t number, std::int64_t displacement) {
  return {.raw = "memory",
          .kind = Kind::in_memory,
          .size = 8,
          .base = register_at(number),
          .displacement = displacement};
}

resolve::ProbePoint point_with(std::vector<usdt::StaticArgument> arguments,
                               std::uint64_t address = 0x1000, std::string raw = "…") {
  resolve::ProbePoint point;
  auto binary = std::make_shared<resolve::ProbedBinary>();
  binary->file = nullptr;
  point.binary = binary;
  point.request = point.symbol.emplace("shop:order");
  point.address.value = address;
  auto probe = std::make_shared<usdt::StaticProbe>();
  probe->provider = "shop";
  probe->name = "order";
  probe->raw_arguments = std::move(raw);
  probe->arguments = std::move(arguments);
  probe->address = point.address;
  point.static_probe = std::move(probe);
  return point;
}

Result<events::CapturePlan> static_plan_of(const events::CaptureSpec& inspection,
                                           std::span<const resolve::ProbePoint> points) {
  return events::CapturePlan::make(inspection, capture_points(points));
}

events::CaptureSpec asking_for(const char* list) {
  events::CaptureSpec inspection;
  inspection.arguments.push_back(*events::parse_arguments(list));
  return inspection;
}

resolve::ProbePoint point_of(const std::string& name) {
  resolve::ProbePoint point = point_with({});
  auto file = MappedFile::open("/etc/passwd");
  REQUIRE(file);
  auto binary = std::make_shared<resolve::ProbedBinary>();
  binary->file = std::make_shared<const MappedFile>(std::move(*file));
  point.binary = std::move(binary);
  point.symbol = name;
  return point;
}

std::string error_of(const events::CaptureSpec& inspection,
                     std::vector<resolve::ProbePoint> points) {
  const auto plan = static_plan_of(inspection, points);
  return plan ? "no error" : plan.error().message;
}

} // namespace

TEST_CASE("an argument of a static probe is read where its note says, and no wider") {
  usdt::StaticArgument high = in_register(2, 1, false);
  high.shift = 8;
  usdt::StaticArgument constant{.raw = "$-7", .kind = Kind::constant, .size = 4, .is_signed = true};
  constant.constant = static_cast<std::uint64_t>(-7);
  usdt::StaticArgument row = in_memory(3, 16);
  row.index = register_at(5);
  row.scale = 4;
  row.index_part = usdt::StaticArgument::IndexPart::signed_low_word;
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(4, 4, true), high, constant, in_memory(6, -24), row})};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  const point_plan& made_plan = plan->plans().front();
  REQUIRE(made_plan.reading_count == 5);
  const reading* const made = made_plan.readings;
  CHECK((made[0].base == 4 && made[0].size == 4 && made[0].is_signed == 1 && made[0].steps == 0));
  CHECK((made[1].base == 2 && made[1].shift == 8 && made[1].size == 1));
  CHECK((made[2].base == NO_REGISTER && made[2].addend == -7 && made[2].steps == 0));
  CHECK((made[3].base == 6 && made[3].steps == 1 && made[3].offsets[0] == -24));
  CHECK(made[3].scale == 0);
  CHECK((made[4].index == 5 && made[4].scale == 4 && made[4].index_size == 4));
  CHECK((made[4].index_is_signed == 1 && made[4].offsets[0] == 16));
}

TEST_CASE("a number of fewer bytes than an address in memory is not followed") {
  usdt::StaticArgument half = in_memory(3, 16);
  half.size = 4;
  CHECK(error_of(asking_for("x:u32@arg0+8"), {point_with({half})}) ==
        "shop:order: arg0: what its 4 bytes in memory point to cannot be read");
  CHECK(error_of(asking_for("x:u32@arg0+8"), {point_with({in_memory(3, 16)})}) == "no error");
}

TEST_CASE("the offset from an address wraps around as the address does") {
  usdt::StaticArgument last{.raw = "$0x7fffffffffffffff", .kind = Kind::constant, .size = 8};
  last.constant = 0x7fffffffffffffff;
  const std::vector<resolve::ProbePoint> points = {point_with({last})};
  const auto plan = static_plan_of(asking_for("x:u32@arg0+1"), points);
  REQUIRE(plan);
  const reading& made = plan->plans().front().readings[0];
  CHECK(made.base_offset == std::numeric_limits<std::int64_t>::min());
  CHECK((made.steps == 1 && made.offsets[0] == 0));
}

TEST_CASE("what a symbol names is as far from the probe as in the file") {
  usdt::StaticArgument variable{.raw = "last(%rip)", .kind = Kind::in_memory, .size = 4};
  variable.address = VirtualAddress{0x4010};
  usdt::StaticArgument address{.raw = "$last", .kind = Kind::constant, .size = 8};
  address.address = VirtualAddress{0x0ff0};
  const std::vector<resolve::ProbePoint> points = {point_with({variable, address}, 0x1000),
                                                   point_with({variable, address}, 0x2000)};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  REQUIRE(plan->plans().size() == 2); // the same text, and yet other distances
  CHECK(plan->plans()[0].readings[0].offsets[0] == 0x3010);
  CHECK(plan->plans()[0].readings[1].addend == -0x10);
  CHECK(plan->plans()[1].readings[0].offsets[0] == 0x2010);
  const std::uint32_t base = plan->plans()[0].readings[0].base;
  CHECK((register_at(base) == "rip" || register_at(base) == "pc"));
}

TEST_CASE("locations whose arguments are at the same locations share a plan") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 8, false)}, 0x1000, "8@a"),
      point_with({in_register(1, 8, false)}, 0x2000, "8@a"),
      point_with({in_register(2, 8, false)}, 0x3000, "8@b")};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  CHECK(plans_of(*plan, 3) == std::vector<std::uint32_t>{0, 0, 1});
}

TEST_CASE("a number in --args gives an argument another type and leaves the others") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 4, true), in_register(2, 8, false)})};
  const auto plan = static_plan_of(asking_for("1:str"), points);
  REQUIRE(plan);
  const point_plan& made_plan = plan->plans().front();
  CHECK(made_plan.reading_count == 2);
  CHECK((made_plan.readings[0].form == READ_INTEGER && made_plan.readings[0].size == 4));
  CHECK((made_plan.readings[1].form == READ_STRING && made_plan.readings[1].base == 2));
  CHECK(error_of(asking_for("2:str"), points) == "--args: no static probe has an arg2");
  CHECK(error_of(asking_for("shop:order=2:str"), points) ==
        "shop:order: the probe has 2 arguments here, not arg2");
  CHECK(error_of(asking_for("name:str@arg2"), points) ==
        "shop:order: the probe has 2 arguments here, not arg2");
}

TEST_CASE("an argument called argN is that of the note, a register what it holds at the probe") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 4, true), in_register(2, 8, false)})};
  const auto plan = static_plan_of(asking_for("arg1:u64"), points);
  REQUIRE(plan);
  REQUIRE(plan->plans().front().reading_count == 1);
  CHECK(plan->plans().front().readings[0].base == 2);
  const auto held =
      static_plan_of(asking_for(("first:s32," + register_at(7) + ":u64").c_str()), points);
  REQUIRE(held);
  CHECK(held->plans().front().readings[0].base == 1);
  CHECK(held->plans().front().readings[1].base == 7);
  CHECK(error_of(asking_for("arg2:s32"), points) ==
        "shop:order: the probe has 2 arguments here, not arg2");
}

TEST_CASE("of several static probes not every one needs to have the argument that is typed") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 8, false)}, 0x1000, "8@a"), point_with({}, 0x2000, "")};
  const auto plan = static_plan_of(asking_for("0:str"), points);
  REQUIRE(plan);
  CHECK(plan->plans()[1].reading_count == 0);
}

TEST_CASE("names in --args are all that is shown, memory that an argument points to included") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 4, true), in_memory(2, 8)})};
  const auto plan = static_plan_of(asking_for("price:u32@arg1+12"), points);
  REQUIRE(plan);
  const point_plan& made_plan = plan->plans().front();
  REQUIRE(made_plan.reading_count == 1);
  const reading& made = made_plan.readings[0];
  CHECK((made.steps == 2 && made.offsets[0] == 8 && made.offsets[1] == 12 && made.size == 4));
}

TEST_CASE("an argument out of reach is an error of its own, the others are shown") {
  usdt::StaticArgument vector{.raw = "8f@%xmm0", .kind = Kind::out_of_reach, .size = 8};
  vector.problem = "a vector register";
  const std::vector<resolve::ProbePoint> points = {point_with({vector, in_register(1, 8, true)})};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  const point_plan& made_plan = plan->plans().front();
  REQUIRE(made_plan.reading_count == 1);
  CHECK(plan->describe_problems(0) ==
        std::vector<std::string>{"arg0 cannot be read (8f@%xmm0: a vector register)"});

  std::vector<std::byte> record(plan->settings().record_size);
  const reading_result read{.status = 0, .value = 42};
  std::memcpy(record.data() + sizeof(probe_record), &read, sizeof(read));
  const auto event = plan->decode(record);
  REQUIRE(event);
  CHECK(event->kind == events::EventKind::static_probe);
  REQUIRE(event->typed_arguments->size() == 2);
  CHECK(unread_part(event->typed_arguments->at(0).value) == "8f@%xmm0: a vector register");
  CHECK(number_of(event->typed_arguments->at(1).value) == 42);
  CHECK(event->typed_arguments->at(1).type_name == "s64");

  events::CaptureSpec condition;
  condition.filter = *events::parse_filter("arg0==1");
  CHECK(
      error_of(condition, points) ==
      "shop:order: --if 'arg0==1': arg0 (8f@%xmm0): a vector register, at character 1, before 'arg0==1'");
}

TEST_CASE("a buffer whose length is not to be had here is an error, the others are shown") {
  const events::CaptureSpec asked = asking_for("0:buf[arg1],1:u32");
  usdt::StaticArgument vector{.raw = "4@%xmm0", .kind = Kind::out_of_reach, .size = 4};
  vector.problem = "a vector register";
  usdt::StaticArgument weight = in_memory(2, 8);
  weight.is_float = true;
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 8, false), in_register(2, 4, false)}, 0x1000, "8@a 4@b"),
      point_with({in_register(1, 8, false)}, 0x2000, "8@a"),
      point_with({in_register(1, 8, false), vector}, 0x3000, "8@a 4@x"),
      point_with({in_register(1, 8, false), weight}, 0x4000, "8@a 8f@m")};
  const auto plan = static_plan_of(asked, points);
  REQUIRE(plan);
  CHECK(plan->describe_problems(0).empty());
  CHECK(plan->describe_problems(1) ==
        std::vector<std::string>{
            "arg0 cannot be read (its length arg1 is not an argument of this probe)"});
  CHECK(plan->describe_problems(2).front() ==
        "arg0 cannot be read (its length arg1 cannot be read)");
  CHECK(plan->describe_problems(3) ==
        std::vector<std::string>{"arg0 cannot be read (its length arg1 cannot be read)"});
}

TEST_CASE("a floating-point number in a general register is read") {
  usdt::StaticArgument weight = in_register(1, 8, false);
  weight.is_float = true;
  CHECK(events::unreadable_reason(weight).empty());
}

TEST_CASE("memory of a size that no number has is read as bytes, and not compared") {
  usdt::StaticArgument pair = in_memory(2, -24);
  pair.size = 16;
  CHECK(events::unreadable_reason(pair).empty());
  usdt::StaticArgument in_two = in_register(1, 16, false);
  CHECK(events::unreadable_reason(in_two) == "unsupported size of 16 bytes");
  usdt::StaticArgument indexed = pair;
  indexed.index = register_at(3);
  CHECK(events::unreadable_reason(indexed) == "unsupported size of 16 bytes");
  const std::vector<resolve::ProbePoint> points = {point_with({pair})};
  events::CaptureSpec condition;
  condition.filter = *events::parse_filter("arg0>1");
  CHECK(error_of(condition, points) ==
        "shop:order: --if 'arg0>1': it is a buffer: compare it with hex\"DIGITS\", at character 6, "
        "before '1'");
  condition.filter = *events::parse_filter("arg0 == hex\"00112233445566778899aabbccddeeff\"");
  CHECK(error_of(condition, points) == "no error");
  condition.filter = *events::parse_filter("arg0 == hex\"00\"");
  CHECK(error_of(condition, points).find("the buffer has 16 bytes, not 1") != std::string::npos);
}

TEST_CASE("floating-point arguments in memory are compared, and not measured") {
  usdt::StaticArgument weight = in_memory(2, 8);
  weight.is_float = true;
  const std::vector<resolve::ProbePoint> points = {point_with({weight, in_register(1, 4, false)})};
  events::CaptureSpec condition;
  condition.filter = *events::parse_filter("arg0>1");
  const auto plan = static_plan_of(condition, points);
  REQUIRE(plan);
  const filter_term& term = plan->filters().filters.at(0).terms[0];
  CHECK(term.float_size == term.value.size);
  CHECK((term.is_signed == 1 && term.value.is_signed == 1));
  CHECK((plan->settings().filter_features & FILTERS_FLOATS) != 0);
  events::CaptureSpec measured;
  measured.measured = *events::parse_summed_value("arg0");
  CHECK(error_of(measured, points) ==
        "shop:order: --measure: 'arg0': only integers can be measured");
}

TEST_CASE("a condition takes sign and size from the note, whatever else is shown") {
  const std::vector<resolve::ProbePoint> points = {
      point_with({in_register(1, 4, false), in_register(2, 4, true)})};
  events::CaptureSpec inspection = asking_for("b:s32@arg1");
  inspection.filter = *events::parse_filter("arg0<5");
  const auto plan = static_plan_of(inspection, points);
  REQUIRE(plan);
  const filter_term& made = plan->filters().filters.front().terms[0];
  CHECK((made.value.size == 4 && made.value.is_signed == 0 && made.guess_sign == 0));
}

TEST_CASE("an argument without a size is as wide as what it is in") {
  usdt::StaticArgument half = in_register(1, 0, false);
  half.size.reset();
  half.width = 2;
  const std::vector<resolve::ProbePoint> points = {point_with({half})};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  CHECK(plan->plans().front().readings[0].size == 2);
}

TEST_CASE("locations with the same text and other numbers do not share a plan") {
  std::vector<resolve::ProbePoint> points = {
      point_with({in_memory(1, 8)}, 0x1000, "4@x@GOTOFF(%ebx)"),
      point_with({in_memory(1, 24)}, 0x1000, "4@x@GOTOFF(%ebx)")};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  CHECK(plans_of(*plan, 2) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("a static probe without arguments shows none, and returns nothing") {
  const std::vector<resolve::ProbePoint> points = {point_with({}, 0x1000, "")};
  const auto plan = static_plan_of({}, points);
  REQUIRE(plan);
  const std::vector<std::byte> record(plan->settings().record_size);
  const auto event = plan->decode(record);
  REQUIRE(event);
  REQUIRE(event->typed_arguments);
  CHECK(event->typed_arguments->empty());
  events::CaptureSpec returns;
  returns.filter = *events::parse_filter("ret<0");
  CHECK(
      error_of(returns, points) ==
      "shop:order: --if 'ret<0': a static probe has no return value, at character 1, before 'ret<0'");
}

TEST_CASE("numbers of two histograms are one") {
  bpf::Histogram sum;
  events::add(sum, bpf::Histogram{});
  CHECK(sum.count == 0);
  events::add(sum, {.count = 2, .total = 5, .min = 2, .max = 3, .buckets = {0, 0, 1, 1}});
  events::add(
      sum, {.count = 1, .negative = 1, .total = 7, .min = -7, .max = -7, .buckets = {0, 0, 0, 0}});
  CHECK((sum.count == 3 && sum.negative == 1 && sum.total == 12));
  CHECK((sum.min == -7 && sum.max == 3));
  CHECK(sum.buckets == std::vector<std::uint64_t>{0, 0, 1, 1});
}

TEST_CASE("hits of the locations of a static probe are those of the probe") {
  Probes probes;
  for (const char* const name : {"a:a", "b:b", "b:b", "c:c", "b:b"}) probes.add(point_of(name));
  const auto set_hits = [&](std::vector<std::optional<std::uint64_t>> hits) {
    for (Probe& probe : probes) probe.hits = hits[probe.number];
    add_up_hits(probes);
  };
  set_hits({5, 0, 7, std::nullopt, 2});
  CHECK(probes[0].total_hits == 5);
  CHECK(probes[1].total_hits == 9);
  CHECK_FALSE(probes[3].total_hits);
  const ProbeTotals totals = probe_totals(probes);
  CHECK((totals.probes == 3 && totals.static_points == 5));
  set_hits({5, 0, std::nullopt, 1, 2});
  CHECK_FALSE(probes[1].total_hits);
}

TEST_CASE("probes that are left keep their order, sites and static probe") {
  Probes probes;
  for (const char* const name : {"a:a", "b:b", "c:c", "b:b"}) {
    Probe& probe = probes.add(point_of(name));
    probe.sites.push_back({.program = probes.size()});
  }
  CHECK((probes[3].number == 3 && probes[3].first == 1));
  probes.remove_if([](const Probe& probe) { return probe.first == 0; });
  REQUIRE(probes.size() == 3);
  CHECK((probes[0].number == 0 && probes[0].point.symbol == "b:b" && probes[0].is_first()));
  CHECK((probes[1].number == 1 && probes[1].point.symbol == "c:c" && probes[1].is_first()));
  CHECK((probes[2].number == 2 && probes[2].first == 0));
  CHECK(probes[2].sites.front().program == 4);
}

} // namespace uprobectl::trace
