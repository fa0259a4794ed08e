// SPDX-License-Identifier: Apache-2.0
#include "capture_points.hpp"
#include "events/plan.hpp"
#include "events/plan_layout.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

Result<CapturePlan> plan_of(const CaptureSpec& inspection,
                            std::span<const resolve::ProbePoint> points, CodeAbi facts = {}) {
  return CapturePlan::make(inspection, capture_points(points, facts));
}

std::vector<resolve::ProbePoint> points_named(std::initializer_list<const char*> names) {
  std::vector<resolve::ProbePoint> points;
  for (const char* const name : names) {
    resolve::ProbePoint& point = points.emplace_back();
    point.binary = std::make_shared<resolve::ProbedBinary>();
    point.request = name;
    point.symbol = name;
  }
  return points;
}

CaptureSpec typed(std::initializer_list<std::string> lists) {
  CaptureSpec inspection;
  for (const std::string& list : lists) inspection.arguments.push_back(*parse_arguments(list));
  return inspection;
}

std::string error_of(const CaptureSpec& inspection, CodeAbi facts = {}) {
  const auto plan = plan_of(inspection, points_named({"f"}), facts);
  return plan ? "no error" : plan.error().message;
}

constexpr std::uint32_t plain_record = 64 + 6 * 8;

} // namespace

TEST_CASE("without questions the program needs no plan and sends six values") {
  const auto plan = plan_of({}, points_named({"f", "g"}));
  REQUIRE(plan);
  REQUIRE(plan->plans().size() == 1);
  CHECK(plan->settings().flags == (SEND_RECORDS | SIX_ARGUMENTS));
  CHECK(plan->settings().record_size == plain_record);
  CHECK(plan->settings().plan_count == 0);
  CHECK(plan->plans()[0].reading_count == 0);
  CHECK(plans_of(*plan, 2) == std::vector<std::uint32_t>{0, 0});
}

TEST_CASE("a function's own arguments make a plan of their own, records have one size") {
  const auto plan = plan_of(typed({"g=a:s32,b:buf[100]"}), points_named({"f", "g", "h"}));
  REQUIRE(plan);
  REQUIRE(plan->plans().size() == 2);
  CHECK(plans_of(*plan, 3) == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(plan->plans()[1].reading_count == 2);
  CHECK(plan->plans()[1].readings[1].bytes_offset == 64 + 48); // after the six values of others
  CHECK(plan->settings().record_size == 64 + 48 + 104);
  CHECK(plan->settings().plan_count == 2);
  CHECK(plan->settings().plan_flags == SIX_ARGUMENTS);
  CHECK(plan->settings().max_readings == 2);
  CHECK(plan->settings().max_capacity == 100);
  CHECK(plan->settings().max_bytes_offset == 64 + 48);
}

TEST_CASE("a function's own list goes before the one for all") {
  const auto plan = plan_of(typed({"a:s32", "g=a:s8,b:s8"}), points_named({"f", "g"}));
  REQUIRE(plan);
  CHECK(plan->plans()[plan->probe_plan(0)].reading_count == 1);
  CHECK(plan->plans()[plan->probe_plan(1)].reading_count == 2);
  CHECK(error_of(typed({"a:s32", "b:s32"})) == "--args without a function given twice");
  CHECK(error_of(typed({"k=a:s32"})) == "--args: 'k' is not a probed function");
}

TEST_CASE("an argument beyond the registers is read from the stack") {
#if defined(__x86_64__)
  constexpr std::uint32_t stack_pointer = 19;
  constexpr std::int64_t offset = 8 + 2 * 8; // after the return address, the third there
#else
  constexpr std::uint32_t stack_pointer = 31;
  constexpr std::int64_t offset = 0;
#endif
  const auto plan = plan_of(typed({"ninth:s32@arg8"}), points_named({"f"}));
  REQUIRE(plan);
  const reading& made = plan->plans()[0].readings[0];
  CHECK(made.base == stack_pointer);
  CHECK(made.steps == 1);
  CHECK(made.offsets[0] == offset);
  CHECK(made.size == 4);
  CHECK(made.is_signed == 1);
}

TEST_CASE("stack arguments are refused inside a function, where the stack has moved") {
  auto points = points_named({"f"});
  points[0].symbol_offset = 4;
  const auto plan = plan_of(typed({"ninth:s32@arg8"}), points);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().message.ends_with(
      "arg8 is on the stack, and the stack pointer has changed inside the function"));
  CHECK(plan_of(typed({"first:s32"}), points));
}

TEST_CASE("an inlined call has no numbered arguments, but registers") {
  auto points = points_named({"f", "f"});
  points[1].inlined_into = std::make_shared<resolve::InlinedInto>();
  CHECK(plan_of(typed({"first:s32"}), points).error().message ==
        "f (inlined): arg0 is in no fixed register at an inlined call");
  CaptureSpec filtered;
  filtered.filter = *parse_filter("arg0==5");
  CHECK_FALSE(plan_of(filtered, points));
  CHECK(plan_of(typed({"x:u64@" + std::string(register_names()[0])}), points));
  const auto plan = plan_of({}, points); // the first one's six arguments are not the second one's
  REQUIRE(plan);
  CHECK(plan->plans().size() == 2);
}

TEST_CASE("a buffer at the return has no length from the entry unless calls are paired") {
  CaptureSpec both = typed({"n:u64@arg1,b:buf[n]@ret"});
  both.on_return = true;
  CHECK(error_of(both) == "f: b: its length n is known only at the entry, which is another event");
  both.pair_calls = true;
  CHECK(error_of(both) == "no error");
}

TEST_CASE("a step through memory is taken from the argument") {
  const auto plan = plan_of(typed({"len:u32@arg2+0x10,text:str@&arg0+24"}), points_named({"f"}));
  REQUIRE(plan);
  const auto& readings = plan->plans()[0].readings;
  CHECK(readings[0].steps == 1);
  CHECK(readings[0].offsets[0] == 16);
  CHECK(readings[0].addend == 0);
  CHECK(readings[1].steps == 0);
  CHECK(readings[1].addend == 24);
  CHECK(readings[1].form == READ_STRING);
}

TEST_CASE("a value is read at the phase in which it is known") {
  CaptureSpec on_return = typed({"a:s32"});
  on_return.on_entry = false;
  on_return.on_return = true;
  CHECK(error_of(on_return) == "f: arg0 is only known at the entry, which is not probed");
  CHECK(error_of(typed({"ret:s32"})) == "f: ret is only known at the return, which is not probed");
  CaptureSpec paired = typed({"a:s32,ret:s32"});
  paired.pair_calls = true;
  CHECK(error_of(paired) == "no error");
}

TEST_CASE("a std::string is read as its library lays it out") {
  CHECK(error_of(typed({"s:cxxstring"})) == "f: s: unknown layout of std::string");
  const auto plan = plan_of(typed({"s:cxxstring"}), points_named({"f"}),
                            {.kind = CodeKind::native, .strings = READ_LIBCXX_STRING});
  REQUIRE(plan);
  CHECK(plan->plans()[0].readings[0].form == READ_LIBCXX_STRING);
}

TEST_CASE("conditions take the type that the list gives a value") {
  CaptureSpec inspection = typed({"fd:s32,n:u64"});
  inspection.filter = *parse_filter("fd==-1 && n>0 && arg2<0 && arg0<0");
  const auto plan = plan_of(inspection, points_named({"f"}));
  REQUIRE(plan);
  REQUIRE(plan->filters().filters.size() == 1);
  CHECK(plan->plans()[0].filters[PHASE_ENTRY] == 1);
  CHECK(plan->plans()[0].filters[PHASE_RETURN] == 0);
  const auto& conditions = plan->filters().filters[0].terms;
  CHECK(plan->filters().filters[0].term_count == 4);
  CHECK(conditions[0].value.size == 4);
  CHECK(conditions[0].constant == 0xffffffffffffffff);
  CHECK(conditions[0].guess_sign == 0);
  CHECK(conditions[1].is_signed == 0);
  CHECK(conditions[2].value.size == 8);
  CHECK(conditions[2].guess_sign == 1); // nobody said how wide it is
  CHECK(conditions[3].value.size == 4); // arg0 is fd
  inspection.filter = *parse_filter("elsewhere==1");
  CHECK(error_of(inspection) == "f: --if 'elsewhere==1': 'elsewhere' is not an argument, at "
                                "character 1, before 'elsewhere==1'");
}

TEST_CASE("bits are those of the number, not of its position among signed ones") {
  CaptureSpec inspection = typed({"n:s64"});
  inspection.filter = *parse_filter("n&0x8000000000000000 && arg1&-1");
  const auto plan = plan_of(inspection, points_named({"f"}));
  REQUIRE(plan);
  CHECK(plan->filters().filters[0].terms[0].is_signed == 0);
  CHECK(plan->filters().filters[0].terms[1].is_signed == 0);
}

TEST_CASE("Go's arguments lie in Go's registers") {
  const auto plan = plan_of({}, points_named({"main.f"}), {.kind = CodeKind::go, .strings = {}});
  REQUIRE(plan);
  CHECK(plan->plans()[0].reading_count == 6);
#if defined(__x86_64__)
  CHECK(plan->plans()[0].readings[0].base == 10); // rax
  CHECK(plan->plans()[0].readings[1].base == 5);  // rbx
#endif
  CHECK(error_of(typed({"many:s32@arg20"}), {.kind = CodeKind::go, .strings = {}}) ==
        "f: arg20: Go passes it on the stack at no fixed offset");
}

TEST_CASE("functions at which the same is read share a plan, whatever the values are called") {
  const auto plan = plan_of(typed({"f=a:s32,b:str", "g=c:s32,d:str", "h=c:u32,d:str"}),
                            points_named({"f", "g", "h"}));
  REQUIRE(plan);
  CHECK(plans_of(*plan, 3) == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(plan->settings().plan_flags == 0);
  CHECK(plan->settings().reading_features == (1U << READ_INTEGER | 1U << READ_STRING));
}

TEST_CASE("the largest of a plan's buffers is last, so that none of another plan ends after it") {
  const auto plan = plan_of(typed({"f=a:buf[100],b:buf[8],c:buf[16]", "g=a:buf[64],b:buf[64]"}),
                            points_named({"f", "g"}));
  REQUIRE(plan);
  const reading* const first = plan->plans()[0].readings;
  const std::uint32_t begin = 64 + 3 * 16;
  CHECK(first[1].bytes_offset == begin);
  CHECK(first[2].bytes_offset == begin + 8);
  CHECK(first[0].bytes_offset == begin + 8 + 16);
  CHECK(plan->plans()[1].readings[1].bytes_offset == begin + 64);
  // The program compares offsets and capacities with their maxima.
  CHECK(plan->settings().max_bytes_offset == begin + 64);
  CHECK(plan->settings().max_capacity == 100);
  CHECK(plan->settings().record_size == begin + 64 + 104);
}

TEST_CASE("conditions of a run take part in what the program must be able to do") {
  CaptureSpec inspection;
  inspection.filter = *parse_filter("arg1==1 && arg8==1");
  const auto plan = plan_of(inspection, points_named({"f", "g"}));
  REQUIRE(plan);
  CHECK(plan->settings().max_terms == 2);
  CHECK(plan->settings().max_readings == 0);
  CHECK(plan->settings().plan_count == 1);
#if defined(__x86_64__)
  CHECK(plan->settings().max_steps == 1); // from the stack
#endif
}

TEST_CASE("an offset that is too large for a step is added to the base") {
  const auto plan = plan_of(typed({"far:u64@arg0+0x100000000"}), points_named({"f"}));
  REQUIRE(plan);
  const reading& made = plan->plans()[0].readings[0];
  CHECK(made.steps == 1);
  CHECK(made.offsets[0] == 0);
  CHECK(made.base_offset == 0x100000000);
#if defined(__x86_64__)
  CHECK(error_of(typed({"far:u64@arg8+0x100000000"})) ==
        "f: arg8: the offset does not fit in 32 bits");
#endif
}

TEST_CASE("what would not fit into one record is refused") {
  CaptureSpec inspection = typed({"a:buf[4096],b:buf[4096],c:buf[4096],d:buf[4096],e:buf[4096],"
                                  "f:buf[4096],g:buf[4096],h:buf[4096],i:buf[4096],j:buf[4096],"
                                  "k:buf[4096],l:buf[4096],m:buf[4096],n:buf[4096],o:buf[4096]"});
  CHECK(error_of(inspection) ==
        "f: the arguments take up to 61744 bytes per event, the maximum is 60000");
}

TEST_CASE("a run reads memory if a value or a condition is behind an address") {
  const auto points = points_named({"f"});
  const auto reads = [&](const CaptureSpec& capture) {
    const auto plan = plan_of(capture, points);
    REQUIRE(plan);
    return reads_memory(plan->settings(), plan->plans(), plan->filters().filters);
  };
  CHECK_FALSE(reads({}));
  CHECK_FALSE(reads(typed({"a:s32,b:u64"})));
  CHECK(reads(typed({"a:s32@arg0+0"})));
  CHECK(reads(typed({"text:str"})));
  CHECK(reads(typed({"data:buf[8]"})));
  CaptureSpec counts = typed({"a:s32@arg0+0"});
  counts.send_events = false;
  CHECK_FALSE(reads(counts)); // hits are only counted
  counts.measured = *parse_summed_value("a");
  CHECK(reads(counts));
  counts.measured = *parse_summed_value("arg0");
  CHECK_FALSE(reads(counts));
  counts.filter = *parse_filter("a==1");
  CHECK(reads(counts));
  for (const char* const condition : {"arg0==1", "tid==1 && cpu==2", "comm==x"}) {
    CaptureSpec filtered;
    filtered.filter = *parse_filter(condition);
    CHECK_FALSE(reads(filtered));
  }
  for (const char* const condition : {R"(arg0:str=="x")", R"(arg0==1 || arg1:str!="x")"}) {
    CaptureSpec filtered;
    filtered.filter = *parse_filter(condition);
    CHECK(reads(filtered));
  }
  CaptureSpec stacks;
  stacks.stack = StackWalk::frame_data;
  stacks.stack_bytes = 4096;
  CHECK(reads(stacks));
  stacks.stack = StackWalk::caller; // the call has just stored the return address
  CHECK_FALSE(reads(stacks));
}

} // namespace uprobectl::events
