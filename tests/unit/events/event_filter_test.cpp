// SPDX-License-Identifier: Apache-2.0
#include "events/event_filter.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace uprobectl::events {

using namespace std::literals;
using Catch::Matchers::Contains;
using Decision = EventFilter::Decision;

namespace {

values::ValueType number(std::string name, unsigned bits, bool is_signed) {
  return {.name = std::move(name), .bits = bits, .is_signed = is_signed};
}

values::ValueType text(std::string name) {
  return {.use = values::ValueUse::text, .name = std::move(name)};
}

// take(int n, unsigned char small, float ratio, char* text, Item item, Color color, reg, bool flag,
// char letter, std::chrono::duration<double> pause) -> short. `letter` is a char of Rust.
PointDescription point() {
  auto color = std::make_shared<values::Enumeration>();
  color->name = "shop::Color";
  color->enumerators = {{.name = "red", .value = -1}, {.name = "blue", .value = 7}};
  values::ValueType color_type = number("shop::Color", 32, true);
  color_type.enumeration = color;
  values::ValueType ratio{.name = "float", .bits = 32, .is_floating = true};
  values::ValueType pause{.name = "double", .bits = 64, .is_floating = true};
  values::ValueType pointer = text("char*");
  pointer.is_address = true;
  values::ValueType id = number("unsigned short", 16, false);
  id.member_name = "id";
  values::ValueType item{.use = values::ValueUse::none, .name = "Item", .members = {id}};
  return {.values = {{.name = "n", .type = number("int", 32, true), .source = "arg0"},
                     {.name = "small", .type = number("unsigned char", 8, false)},
                     {.name = "ratio", .type = ratio},
                     {.name = "text", .type = pointer},
                     {.name = "*item", .type = item},
                     {.name = "color", .type = color_type},
                     {.name = "flag", .type = number("bool", 8, false)},
                     {.name = "letter", .type = number("char", 32, false)},
                     {.name = "pause", .type = pause},
                     {.name = "ret", .type = number("short", 16, true), .at_return = true}},
          .hidden = {"tid"}};
}

// An event with one value.
Event entry(std::string_view name, values::Value value) {
  Event event;
  event.has_arguments = true;
  event.pid = 7;
  event.comm = "worker";
  event.typed_arguments = {{.name = name, .type_name = "t", .value = std::move(value)}};
  return event;
}

Event returned(std::int64_t value) {
  Event event;
  event.kind = EventKind::on_return;
  event.typed_return = ArgumentValue{.name = "ret", .type_name = "short", .value = {value}};
  return event;
}

Decision decide(std::string_view condition, const Event& event,
                PointDescription description = point()) {
  const auto filter = parse_filter(condition);
  REQUIRE(filter);
  auto made = EventFilter::make(*filter, {});
  REQUIRE(made);
  made->add_point(0, description, "f");
  const auto added = made->check("{}");
  INFO((added ? "" : added.error().message));
  REQUIRE(added);
  return made->decide(event);
}

bool holds(std::string_view condition, const Event& event) {
  return decide(condition, event) == Decision::holds;
}

std::string filter_error(std::string_view condition, bool nests_calls = false) {
  const auto filter = parse_filter(condition);
  REQUIRE(filter);
  auto made = EventFilter::make(*filter, {.nests_calls = nests_calls});
  REQUIRE(made);
  made->add_point(0, point(), "f");
  const auto added = made->check("{}");
  return added ? "" : added.error().message;
}

} // namespace

TEST_CASE("numbers of events are compared by the sign and width of their types") {
  const Event event = entry("n", {std::int64_t{-3}});
  CHECK(holds("n < 0", event));
  CHECK(holds("n == -3", event));
  CHECK(holds("n in {5, -3}", event));
  CHECK(holds("n & 1", event));
  CHECK(holds("arg0 == -3", event));
  CHECK_FALSE(holds("n > 0", event));
  const Event small = entry("small", {std::uint64_t{255}});
  CHECK(holds("small > 127", small));
  CHECK(holds("small == -1", small)); // as C converts it
  CHECK_FALSE(holds("small < 0 || small == 0", small));
  CHECK_THAT(filter_error("small == 256"), Contains("unsigned char cannot have this value"));
  CHECK_THAT(filter_error("n == 0.5"), Contains("int has no fraction"));
}

// GDB prints the number of a bool in memory that is neither 0 nor 1, and compares it.
TEST_CASE("a bool of another number than 0 and 1 is compared as its number") {
  const Event two = entry("flag", values::boolean_value(2));
  CHECK(holds("flag == 2", two));
  CHECK(holds("flag", two));
  CHECK(holds("flag > 1", two));
  CHECK_FALSE(holds("flag == 1", two));
  CHECK_FALSE(holds("flag == 0", two));
  CHECK(holds("flag == 1", entry("flag", values::boolean_value(1))));
  CHECK(holds("!flag", entry("flag", values::boolean_value(0))));
}

TEST_CASE("a character of Rust that is shown as text is compared as its code point") {
  const Event event = entry("letter", {std::string("\xc3\xa9")}); // U+00E9
  CHECK(holds("letter == 233", event));
  CHECK(holds("letter > 127", event));
  CHECK_FALSE(holds("letter == 195", event));
  CHECK(holds("letter == 0x1f600", entry("letter", {std::string("\xf0\x9f\x98\x80")})));
  CHECK(holds("letter == 97", entry("letter", {values::Value::Character{'a'}})));
}

TEST_CASE("a duration with a fraction is compared as its number") {
  const Event event = entry("pause", {values::Value::Name{"1.5s"}});
  CHECK(holds("pause == 1.5", event));
  CHECK(holds("pause < 2", event));
  CHECK_FALSE(holds("pause < 1.5", event));
  CHECK(holds("pause == -0.25", entry("pause", {values::Value::Name{"-0.25*1/3s"}})));
  CHECK(holds("pause == 1e20", entry("pause", {values::Value::Name{"1e+20ms"}})));
}

TEST_CASE("a wait is selected by its times and its thread, not by values of its call") {
  PointDescription description = point();
  description.pairs_calls = description.knows_waits = description.knows_causes = true;
  Event wait;
  wait.kind = EventKind::wait;
  wait.comm = "worker";
  wait.wait = CallWait{.duration_ns = 2000, .cause = WAIT_BLOCKED};
  wait.waiting_ns = 2000;
  wait.caused_ns = {0, 0, 2000};
  CHECK(decide("blocked > 1us", wait, description) == Decision::holds);
  CHECK(decide("waiting == 2us && comm == \"worker\"", wait, description) == Decision::holds);
  CHECK(decide("slept > 1us", wait, description) == Decision::fails);
  CHECK(decide("latency >= 0", wait, description) == Decision::fails);
  CHECK(decide("n == 0 || n != 0", wait, description) == Decision::fails);
  CHECK(decide("ret == 0 || ret != 0", wait, description) == Decision::fails);
}

TEST_CASE("floating-point numbers of events are compared as such") {
  // What is shown as 0.1 is not the float.
  CHECK(holds("ratio == 0.1", entry("ratio", {0.1})));
  CHECK(holds("ratio <= -0.25", entry("ratio", {-0.5})));
  CHECK(holds("ratio == 0", entry("ratio", {-0.0})));
  const Event nan = entry("ratio", {std::numeric_limits<double>::quiet_NaN()});
  CHECK_FALSE(holds("ratio < 1", nan));
  CHECK_FALSE(holds("ratio >= 1", nan));
  CHECK(holds("ratio != 1", nan));
}

TEST_CASE("a condition on the rest of a text that was cut is not decided") {
  const Event whole = entry("text", {std::string("abc")});
  CHECK(holds("text == \"abc\"", whole));
  CHECK(holds("text ~ \"a?c\"", whole));
  CHECK_FALSE(holds("text == \"ab\"", whole));
  const Event cut = entry("text", {values::Value::TruncatedString{"abc"}});
  CHECK(decide("text ^= \"ab\"", cut) == Decision::holds);
  CHECK(decide("text == \"abc\"", cut) == Decision::undecided);
  CHECK(decide("text == \"b\"", cut) == Decision::fails);
  CHECK(decide("text $= \"c\"", cut) == Decision::undecided);
  CHECK(decide("text == \"abc\" || pid == 7", cut) == Decision::holds);
  CHECK(decide("!(text == \"abc\")", cut) == Decision::undecided);
}

TEST_CASE("the address of a text is compared with NULL only") {
  CHECK(holds("text == 0", entry("text", {values::Value::Pointer{0}})));
  CHECK(holds("text != 0", entry("text", {std::string()})));
  CHECK(decide("text == \"a\"", entry("text", {values::Value::Pointer{0}})) == Decision::undecided);
  CHECK(holds("text > 0", entry("text", {std::string()})));
  CHECK_FALSE(holds("text < 0", entry("text", {std::string()})));
  CHECK_THAT(filter_error("text == 4096"), Contains("the address of a string is not saved"));
}

TEST_CASE("parts of values of events are compared") {
  const Event event = entry("*item", {values::Value::Struct{{"id", {std::uint64_t{40000}}}}});
  CHECK(holds("item->id == 40000", event));
  CHECK(holds("(*item).id > 32767", event));
  CHECK_THAT(filter_error("item->name == 1"), Contains("'item->name' was not saved"));
  CHECK_THAT(filter_error("*item == 1"), Contains("only numbers can be compared or measured"));
  values::ValueType numbers{.use = values::ValueUse::none,
                            .name = "short[4]",
                            .size = 8,
                            .element = {number("short", 16, true)}};
  numbers.element[0].size = 2;
  const PointDescription array{.values = {{.name = "numbers", .type = numbers}}};
  values::Value::Array three = {{std::int64_t{1}}, {std::int64_t{2}}, {std::int64_t{3}}};
  three.push_back({values::Value::Omitted{}});
  const Event elements = entry("numbers", {std::move(three)});
  CHECK(decide("numbers[2] == 3", elements, array) == Decision::holds);
  CHECK(decide("numbers[3] == 4", elements, array) == Decision::undecided);
  const auto beyond = parse_filter("numbers[4] == 0");
  REQUIRE(beyond);
  auto made = EventFilter::make(*beyond, {});
  REQUIRE(made);
  made->add_point(0, array, "f");
  const auto added = made->check("{}");
  REQUIRE_FALSE(added);
  CHECK_THAT(added.error().message, Contains("short[4] has 4 elements"));
  CHECK(made->decide(elements) == Decision::fails);
  const Event unread = entry("*item", {values::Value::Unreadable{"not resident"}});
  CHECK(decide("item->id == 1", unread) == Decision::undecided);
}

TEST_CASE("enumerators of events are numbers and names") {
  const Event event = entry("color", {values::Value::Name{"blue", 7}});
  CHECK(holds("color == blue", event));
  CHECK(holds("color == shop::blue", event));
  CHECK(holds("color in {red, 7}", event));
  CHECK_FALSE(holds("color < 0", event));
  CHECK_THAT(filter_error("color == green"), Contains("shop::Color has no enumerator 'green'"));
}

TEST_CASE("a condition applies to the events that have its values") {
  CHECK(holds("ret == -2", returned(-2)));
  CHECK_FALSE(holds("ret > 0", returned(-2)));
  CHECK(holds("ret > 0", entry("n", {std::int64_t{1}})));
  CHECK(holds("n == 5", returned(1)));
  Event tail_call = returned(0);
  tail_call.left_by = ExitKind::tail_call;
  CHECK(decide("ret == 0", tail_call) == Decision::fails);
  CHECK_THAT(filter_error("n == 1 && ret == 1"), Contains("which are two events"));
  CHECK_THAT(filter_error("ret == 1", true), Contains("a tree shows a call before its result"));
  PointDescription calls = point();
  calls.pairs_calls = true;
  Event call = returned(-2);
  call.latency_ns = 3'000'000;
  call.typed_arguments = {{.name = "n", .type_name = "int", .value = {std::int64_t{1}}}};
  CHECK(decide("n == 1 && ret == -2 && latency > 2ms", call, calls) == Decision::holds);
  CHECK(decide("n == 2 && ret == -2", call, calls) == Decision::fails);
}

TEST_CASE("a span that began at an entry does not fulfil conditions on the result") {
  PointDescription calls = point();
  calls.pairs_calls = true;
  calls.begins_spans = true;
  Event span = entry("n", {std::int64_t{1}});
  span.span = std::make_shared<Span>();
  CHECK(decide("n == 1", span, calls) == Decision::holds);
  CHECK(decide("ret > 0", span, calls) == Decision::fails);
}

TEST_CASE("built-in variables of events are compared unless a variable has the name") {
  const Event event = entry("n", {std::int64_t{1}});
  CHECK(holds("pid == 7 && comm == \"worker\"", event));
  CHECK_THAT(filter_error("tid == 1"), Contains("'tid' was not saved"));
  CHECK(filter_error("$tid == 1").empty());
  CHECK_THAT(filter_error("latency > 1"), Contains("saved without --latency"));
  CHECK_THAT(filter_error("uid == 0"), Contains("not saved with events"));
  // It may have changed since the hit.
  CHECK_THAT(filter_error("process == \"server\""), Contains("not saved with events"));
}

TEST_CASE("registers of events have the type that a condition gives them") {
  PointDescription description{
      .values = {{.name = "arg0", .type = {}}, {.name = "arg1", .type = {}}}};
  Event event;
  event.has_arguments = true;
  event.arguments = {0xffff'ffff, 0x1'0000'0005};
  CHECK(decide("arg0 < 0", event, description) == Decision::holds); // 32 bits with a sign
  CHECK(decide("arg0 == 0xffffffff", event, description) == Decision::holds);
  CHECK(decide("arg1:u32 == 5", event, description) == Decision::holds);
  CHECK(decide("arg1 == 5", event, description) == Decision::fails);
}

TEST_CASE("failures and errno of saved calls are compared") {
  PointDescription described = point();
  described.knows_failure = described.knows_errno = true;
  const auto call = [](std::optional<bool> failed, int number = 0) {
    Event event = returned(failed == true ? -1 : 3);
    event.failed = failed;
    event.return_errno = number;
    return event;
  };
  const auto decide = [&](std::string_view condition, const Event& event) {
    const auto filter = parse_filter(condition);
    REQUIRE(filter);
    auto made = EventFilter::make(*filter, {});
    REQUIRE(made);
    made->add_point(0, described, "f");
    REQUIRE(made->check("{}"));
    return made->decide(event);
  };
  const Event missing = call(true, 2);
  const Event fine = call(false);
  CHECK(decide("failed", missing) == Decision::holds);
  CHECK(decide("failed", fine) == Decision::fails);
  CHECK(decide("!failed", fine) == Decision::holds);
  CHECK(decide("!failed", call(std::nullopt)) == Decision::fails); // left by a tail call
  CHECK(decide("errno == ENOENT", missing) == Decision::holds);
  CHECK(decide("errno == 2", missing) == Decision::holds);
  CHECK(decide("errno == EIO", missing) == Decision::fails);
  CHECK(decide("errno != EIO", missing) == Decision::holds);
  CHECK(decide("errno != EIO", fine) == Decision::holds);
  CHECK(decide("errno == 0", fine) == Decision::holds);
  CHECK(decide("errno", fine) == Decision::fails);

  described.knows_errno = false;
  const auto filter = parse_filter("errno == 2");
  auto made = EventFilter::make(*filter, {});
  made->add_point(0, described, "f");
  const auto added = made->check("{}");
  REQUIRE(!added);
  CHECK_THAT(added.error().message, Contains("'errno' was not saved"));
}

} // namespace uprobectl::events
