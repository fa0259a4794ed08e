// SPDX-License-Identifier: Apache-2.0
#include "events/event_values.hpp"
#include "events/groups.hpp"
#include "events/record_filter.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

Event make_event(values::Value value, const values::ValueType* type = nullptr) {
  auto record = std::make_shared<UserRecord>();
  record->map = "events";
  record->value = std::move(value);
  if (type != nullptr) record->value_type = std::make_shared<values::ValueType>(*type);
  Event event;
  event.kind = EventKind::record;
  event.record = std::move(record);
  return event;
}

// {pid=42 delta=-5 big=2^64-1 ratio=1.5 comm="app" color=RED at={port=443 codes=[7 8]} raw=6162}
Event make_record() {
  values::Value::Struct at = {
      {"port", {std::uint64_t{443}}},
      {"codes", {values::Value::Array{{std::uint64_t{7}}, {std::uint64_t{8}}}}}};
  values::Value::Struct members = {
      {"pid", {std::uint64_t{42}}},
      {"delta", {std::int64_t{-5}}},
      {"big", {UINT64_MAX}},
      {"ratio", {1.5}},
      {"comm", {std::string("app")}},
      {"color", {values::Value::Name{"RED", 3}}},
      {"at", {std::move(at)}},
      {"", {values::Value::Struct{{"inside", {true}}}}},
      {"raw", {values::Value::Raw{{std::byte{'a'}, std::byte{'b'}}}}},
  };
  return make_event({std::move(members)});
}

bool selects(std::string_view condition, const Event& event = make_record()) {
  CAPTURE(condition);
  auto parsed = parse_filter(condition);
  REQUIRE(parsed);
  auto filter = RecordFilter::make(std::move(*parsed));
  REQUIRE(filter);
  return filter->holds(event);
}

} // namespace

TEST_CASE("numbers of records are compared with their signs") {
  CHECK(selects("pid == 42"));
  CHECK_FALSE(selects("pid != 42"));
  CHECK(selects("delta < 0"));
  CHECK(selects("delta == -5"));
  CHECK_FALSE(selects("delta > -5"));
  CHECK(selects("big > 0"));
  CHECK_FALSE(selects("big < 0"));
  CHECK(selects("big == 0xffffffffffffffff"));
  CHECK(selects("ratio > 1.25"));
  CHECK(selects("pid & 2"));
  CHECK_FALSE(selects("pid & 1"));
  CHECK(selects("pid in {1, 42}"));
  CHECK_FALSE(selects("pid in {1, 2}"));
  CHECK(selects("inside"));
}

TEST_CASE("texts and enumerators of records are compared") {
  CHECK(selects("comm == \"app\""));
  CHECK(selects("comm ^= \"ap\""));
  CHECK(selects("comm ~ \"a?p\""));
  CHECK_FALSE(selects("comm == \"other\""));
  CHECK(selects("comm in {\"x\", \"app\"}"));
  CHECK(selects("color == RED"));
  CHECK(selects("color == 3"));
  CHECK_FALSE(selects("color == BLUE"));
  CHECK(selects("raw == hex\"6162\""));
}

TEST_CASE("enumerators are numbers of the record's type, and what it cannot have is a problem") {
  values::ValueType kind{.name = "kind", .bits = 32, .member_name = "kind"};
  kind.enumeration = std::make_shared<values::Enumeration>(
      values::Enumeration{.name = "kind", .enumerators = {{"OPEN", 1}, {"CLOSE", 4}}});
  const values::ValueType type{.use = values::ValueUse::none, .name = "event", .members = {kind}};
  const Event named =
      make_event({values::Value::Struct{{"kind", {values::Value::Name{"OPEN", 1}}}}}, &type);
  Event unnamed = make_event({values::Value::Struct{{"kind", {std::uint64_t{9}}}}});
  const auto record = std::make_shared<UserRecord>(*unnamed.record);
  record->value_type = named.record->value_type; // of all records of a map
  unnamed.record = record;
  const auto test = [&](std::string_view condition, const Event& event) {
    auto filter = RecordFilter::make(*parse_filter(condition));
    REQUIRE(filter);
    const bool holds = filter->holds(event);
    CHECK(filter->take_problems().empty());
    return holds;
  };
  CHECK(test("kind == OPEN", named));
  CHECK_FALSE(test("kind == OPEN", unnamed));
  CHECK(test("kind != OPEN", unnamed));
  CHECK_FALSE(test("kind != OPEN", named));
  CHECK(test("kind < CLOSE", named));
  CHECK(test("kind > CLOSE", unnamed));
  CHECK(test("kind & OPEN", unnamed));
  CHECK(test("kind in {CLOSE, OPEN}", named));
  for (const std::string_view condition :
       {"kind == OPN", "kind > 2.5", "kind == \"OPEN\"", "kind == 0x100000000", "!(kind == OPN)"}) {
    CAPTURE(condition);
    auto filter = RecordFilter::make(*parse_filter(condition));
    REQUIRE(filter);
    CHECK_FALSE(filter->holds(named));
    CHECK(filter->take_problems().size() == 1);
    CHECK_FALSE(filter->holds(unnamed));
    CHECK(filter->take_problems().empty()); // once
    CHECK(filter->list_unknown().empty());
  }
  auto filter = RecordFilter::make(*parse_filter("kind == OPN"));
  CHECK_FALSE(filter->holds(named));
  CHECK(filter->take_problems().front().hints == std::vector<std::string>{"did you mean 'OPEN'?"});
}

TEST_CASE("a comparison that is impossible with all types of records is an error") {
  const auto event = [](std::string name, values::ValueType member) {
    member.member_name = "kind";
    return values::ValueType{
        .use = values::ValueUse::none, .name = std::move(name), .members = {member}};
  };
  const values::ValueType number = event("one", {.name = "u32", .bits = 32});
  const values::ValueType text = event("two", {.use = values::ValueUse::text, .name = "char[16]"});
  const values::ValueType other{.use = values::ValueUse::none, .name = "three"};
  const auto error_of = [](std::string_view condition, std::vector<values::ValueType> types) {
    auto filter = RecordFilter::make(*parse_filter(condition));
    REQUIRE(filter);
    const auto checked = filter->check(types);
    return checked ? "no error" : checked.error().message;
  };
  CHECK(error_of("kind == \"x\"", {number}) ==
        "--if 'kind == \"x\"': u32 cannot be compared with a string, at character 9, before "
        "'\"x\"'");
  CHECK(error_of("kind == 0x100000000", {number, other}) ==
        "--if 'kind == 0x100000000': u32 cannot have this value, at character 9, before "
        "'0x100000000'");
  CHECK(error_of("kind == \"x\"", {number, text}) == "no error");
  CHECK(error_of("pid == 1", {other}) == "no error");
  CHECK(error_of("kind == \"x\"", {}) == "no error"); // nothing is known before
}

TEST_CASE("a member that no type of records has is an error, and so is an element") {
  const auto named = [](std::string_view name, values::ValueType member) {
    member.member_name = name;
    return member;
  };
  const values::ValueType short_type{.name = "short", .bits = 16, .is_signed = true, .size = 2};
  const values::ValueType numbers{
      .use = values::ValueUse::none, .name = "an array", .size = 6, .element = {short_type}};
  const values::ValueType open{
      .use = values::ValueUse::none, .name = "an array", .element = {short_type}};
  const values::ValueType inner{.use = values::ValueUse::none,
                                .members = {named("inside", short_type)}};
  const values::ValueType point{
      .use = values::ValueUse::none, .name = "point", .members = {named("x", short_type)}};
  const values::ValueType one{.use = values::ValueUse::none,
                              .name = "one",
                              .members = {named("result", short_type), named("b", numbers),
                                          named("open", open), inner, named("at", point)}};
  const values::ValueType two{.use = values::ValueUse::none,
                              .name = "two",
                              .members = {named("text", {.use = values::ValueUse::text})}};
  const auto error_of = [](std::string_view condition, std::vector<values::ValueType> types) {
    auto filter = RecordFilter::make(*parse_filter(condition));
    REQUIRE(filter);
    const auto checked = filter->check(types);
    if (checked) return std::string("no error");
    std::string text = checked.error().message;
    for (const std::string& hint : checked.error().hints) text += "; " + hint;
    return text;
  };
  CHECK(error_of("resul > 8", {one}) ==
        "--if 'resul > 8': one has no member 'resul', at character 1, before 'resul > 8'; did you "
        "mean 'result'?; its members: result, b, open, inside, at");
  CHECK(
      error_of("b[2] == 7 && b[3] == 7", {one}) ==
      "--if 'b[2] == 7 && b[3] == 7': an array has 3 elements, at character 16, before '3] == 7'");
  CHECK(error_of("at.y", {one, two}) ==
        "--if 'at.y': point has no member 'y', at character 4, before 'y'; its members: x");
  CHECK(error_of("result[0] == 1", {one}) ==
        "--if 'result[0] == 1': short has no elements, at character 8, before '0] == 1'");
  CHECK(error_of("result == 1 || zzz == 2", {two, one}) ==
        "--if 'result == 1 || zzz == 2': none of the records has a member 'zzz', at character "
        "16, before 'zzz == 2'; their members: text, result, b, open, inside, at");
  CHECK(error_of("zzz == 2", {short_type}) ==
        "--if 'zzz == 2': a record is short, without members: its name is 'value', at character 1, "
        "before 'zzz == 2'");
  CHECK(error_of("open[9] == 7", {one}) == "no error");
  CHECK(error_of("text == \"x\" && inside", {one, two}) == "no error");
  CHECK(error_of("value == 2", {short_type}) == "no error");
  CHECK(error_of("zzz == 2", {}) == "no error"); // nothing is known before
}

TEST_CASE("an element that no record had is known at the end") {
  const values::ValueType number{.name = "u64"};
  const values::ValueType codes{
      .use = values::ValueUse::none, .name = "codes", .member_name = "codes", .element = {number}};
  const values::ValueType type{.use = values::ValueUse::none, .name = "event", .members = {codes}};
  const Event event = make_event(
      {values::Value::Struct{{"codes", {values::Value::Array{{std::uint64_t{7}}}}}}}, &type);
  auto filter = RecordFilter::make(*parse_filter("codes[9] == 7 || codes[0] == 7"));
  REQUIRE(filter);
  CHECK(filter->holds(event));
  CHECK(filter->list_unknown() == std::vector<std::string>{"codes[9] == 7"});
}

TEST_CASE("what was sent is compared, not the form in which it is shown") {
  const Event event =
      make_event({values::Value::Struct{{"address", {values::Value::Name{"127.0.0.1", {}}}}}});
  const auto record = std::make_shared<UserRecord>(*event.record);
  record->sent = values::Value{values::Value::Struct{{"address", {std::uint64_t{0x0100007f}}}}};
  Event shown = event;
  shown.record = record;
  CHECK(selects("address == 0x0100007f", shown));
  CHECK_FALSE(selects("address == 0x0100007f", event));
}

TEST_CASE("paths lead to members of structures and to elements") {
  CHECK(selects("at.port == 443"));
  CHECK(selects("at.codes[1] == 8"));
  CHECK_FALSE(selects("at.codes[2] == 8"));
  CHECK_FALSE(selects("at.none == 443"));
}

TEST_CASE("expressions are combined; what is not known makes them fail") {
  CHECK(selects("pid == 42 && delta < 0"));
  CHECK(selects("pid == 1 || delta < 0"));
  CHECK_FALSE(selects("!(pid == 42)"));
  CHECK_FALSE(selects("unknown == 1"));
  CHECK_FALSE(selects("!(unknown == 1)"));
  CHECK(selects("unknown == 1 || pid == 42"));
  CHECK_FALSE(selects("raw > 3"));
}

TEST_CASE("a record that is not a structure is called value") {
  CHECK(selects("value == 7", make_event({std::uint64_t{7}})));
  CHECK_FALSE(selects("value == 8", make_event({std::uint64_t{7}})));
}

TEST_CASE("the sender of a record counts where no member has the name") {
  Event event = make_event({values::Value::Struct{{"x", {std::uint64_t{1}}}}});
  CHECK_FALSE(selects("pid == 99", event)); // a ring buffer does not say
  event.time_ns = 5;
  event.pid = 99;
  event.tid = 100;
  CHECK(selects("pid == 99 && tid == 100", event));
}

TEST_CASE("comparisons whose member no record has are known at the end") {
  auto filter = RecordFilter::make(*parse_filter("pid == 42 || missing == 1"));
  REQUIRE(filter);
  CHECK(filter->list_unknown().empty());
  CHECK(filter->holds(make_record()));
  CHECK(filter->list_unknown() == std::vector<std::string>{"missing == 1"});
}

TEST_CASE("members of records have the types of their source") {
  const auto filter = RecordFilter::make(*parse_filter("pid:s32 < 0"));
  REQUIRE_FALSE(filter);
  CHECK(filter.error().kind == ErrorKind::usage);
}

TEST_CASE("records are grouped by their members") {
  const Event event = make_record();
  const auto groups = parse_groups("comm,at.port", {});
  REQUIRE(groups);
  const std::optional<ArgumentValue> port = find_value("at.port", event);
  REQUIRE(port);
  CHECK(number_of(port->value) == 443);
  CHECK(std::get<std::string>(find_value("comm", event)->value.value) == "app");
  CHECK_FALSE(find_value("none", event));
}

TEST_CASE("a product needs a record with both numbers") {
  const auto record_of = [](std::string_view first, std::string_view second) {
    values::ValueType record{.use = values::ValueUse::none, .name = "record"};
    for (const std::string_view name : {first, second})
      record.members.push_back({.name = "int", .bits = 32, .member_name = std::string(name)});
    return record;
  };
  const std::vector<values::ValueType> types = {record_of("a", "b"), record_of("c", "errno")};
  CHECK(check_record_sum("--measure", *parse_summed_value("a*b"), types));
  CHECK(check_record_sum("--measure", *parse_summed_value("a*b"), {})); // not known before
  CHECK(check_record_sum("--measure", *parse_summed_value("c"), types));
  const auto checked = check_record_sum("--measure", *parse_summed_value("a*c"), types);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().message == "--measure: none of the records has all numbers of 'a*c'");

  CHECK(check_record_groups(*parse_groups("comm,errno", {}), types)); // a member
  CHECK_FALSE(check_record_groups(*parse_groups("failed", {}), types));
}

} // namespace uprobectl::events
