// SPDX-License-Identifier: Apache-2.0
#include "output/values.hpp"
#include "values/shown_as.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::output {

namespace {

values::Value raw(std::string_view bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {values::Value::Raw{std::vector<std::byte>(begin, begin + bytes.size())}};
}

values::Value number(std::uint64_t value) { return {value}; }

values::ShownAsContext make_context() {
  return {.address = [](std::uint64_t address) -> values::Value {
            return {values::Value::Name{"f+" + std::to_string(address),
                                        static_cast<std::int64_t>(address)}};
          },
          .stack = [](std::int64_t id) -> values::Value {
            return {values::Value::Frames{{"inner", "outer" + std::to_string(id)}}};
          },
          .frames = [](std::span<const std::uint64_t> addresses) -> values::Value {
            return {values::Value::Frames{std::vector<std::string>(addresses.size(), "frame")}};
          },
          .time = [](std::uint64_t time) { return "at " + std::to_string(time); }};
}

// The text of a value of map "events", or of a key or value, with these rules.
std::string shown(values::Value value, std::initializer_list<std::string_view> rules,
                  std::string_view part = {}, std::span<const values::ShownAsRule> tags = {}) {
  std::vector<values::ShownAsRule> parsed;
  for (const std::string_view rule : rules) {
    auto read = values::parse_shown_as_rule(rule);
    REQUIRE(read);
    parsed.push_back(std::move(*read));
  }
  show_as(value, {.map = "events", .part = part}, parsed, tags, make_context());
  std::string text;
  append_text_value(text, value);
  return text;
}

values::Value record(std::string name, values::Value value) {
  values::Value::Struct members;
  members.push_back({std::move(name), std::move(value)});
  return {std::move(members)};
}

using namespace std::string_literals;

} // namespace

TEST_CASE("an IP address is shown in the byte order of the network") {
  CHECK(shown(record("a", number(0x0100007f)), {"a=ip"}) == "a=127.0.0.1");
  CHECK(shown(record("a", raw("\x0a\x01\x02\x03")), {"a=ip"}) == "a=10.1.2.3");
  const std::string v6 = "\x20\x01\x0d\xb8"s + std::string(11, '\0') + "\x01";
  CHECK(shown(record("a", raw(v6)), {"a=ip"}) == "a=2001:db8::1");
  const values::Value words{
      values::Value::Array{number(0xb80d0120), number(0), number(0), number(0x01000000)}};
  CHECK(shown(record("a", words), {"a=ip"}) == "a=2001:db8::1");
  CHECK(shown(record("a", raw("\x01\x02\x03")), {"a=ip"}) == "a=010203"); // not an address
}

TEST_CASE("bytes are shown as text up to their first NUL") {
  CHECK(shown(record("a", raw("ab\0cd"s)), {"a=text"}) == "a=\"ab\"");
  CHECK(shown(record("a", number(5)), {"a=text"}) == "a=5");
}

TEST_CASE("numbers are shown as addresses, times, stacks and in hexadecimal") {
  CHECK(shown(record("a", number(7)), {"a=address"}) == "a=f+7");
  CHECK(shown(record("a", number(7)), {"a=time"}) == "a=at 7");
  CHECK(shown(record("a", number(7)), {"a=stack"}) == "a=[inner < outer7]");
  CHECK(shown(record("a", number(31)), {"a=hex"}) == "a=0x1f");
  CHECK(shown(record("a", {std::int64_t{-1}}), {"a=hex"}) == "a=0xffffffffffffffff");
  const values::Value addresses{values::Value::Array{number(1), number(2), number(0), number(3)}};
  CHECK(shown(record("a", addresses), {"a=stack"}) == "a=[frame < frame]");
  CHECK(shown(record("a", addresses), {"a=hex"}) == "a=[0x1 0x2 0x0 0x3]");
}

TEST_CASE("numbers are shown with the width of their types") {
  const auto shown_with = [](values::Value value, values::ValueType member, values::ShownAs as) {
    member.member_name = "a";
    const values::ValueType type{
        .use = values::ValueUse::none, .name = "all", .members = {std::move(member)}};
    const std::vector<values::ShownAsRule> rules = {{.path = "a", .as = as}};
    std::vector<std::string> refused;
    values::ShownAsContext context = make_context();
    context.report_no_ip = [&](std::string_view path) { refused.emplace_back(path); };
    values::Value all = record("a", std::move(value));
    show_as(all, {.map = "events", .type = &type}, rules, {}, context);
    std::string text;
    append_text_value(text, all);
    for (const std::string& each : refused) text += " no ip: " + each;
    return text;
  };
  const values::ValueType s32{.name = "int", .bits = 32, .is_signed = true};
  const values::ValueType u64{.name = "u64", .bits = 64};
  const values::ValueType u32{.name = "u32", .bits = 32};
  const values::ValueType list{.use = values::ValueUse::none, .name = "an array", .element = {u32}};
  const values::Value pair{values::Value::Array{number(0x0100007f), number(0x0200007f)}};
  CHECK(shown_with({std::int64_t{-1}}, s32, values::ShownAs::hex) == "a=0xffffffff");
  CHECK(shown_with({std::int64_t{-1}}, u64, values::ShownAs::hex) == "a=0xffffffffffffffff");
  CHECK(shown_with(number(0x0100007f), u32, values::ShownAs::ip) == "a=127.0.0.1");
  CHECK(shown_with(number(0x0100007f), u64, values::ShownAs::ip) == "a=16777343 no ip: a");
  CHECK(shown_with(pair, list, values::ShownAs::ip) == "a=[127.0.0.1 127.0.0.2]");
}

TEST_CASE("what is shown in another form keeps its number, for conditions") {
  values::Value value = record("a", number(7));
  const std::vector<values::ShownAsRule> rules = {{.path = "a", .as = values::ShownAs::time}};
  show_as(value, {.map = "m"}, rules, {}, make_context());
  CHECK(number_of(std::get<values::Value::Struct>(value.value).front().value) == 7);
}

TEST_CASE("a rule names a member, that of a map, or the key or value of one") {
  const values::Value nested = record("conn", record("port", number(16)));
  CHECK(shown(nested, {"conn.port=hex"}) == "conn={port=0x10}");
  CHECK(shown(nested, {"events.conn.port=hex"}) == "conn={port=0x10}");
  CHECK(shown(nested, {"others.conn.port=hex"}) == "conn={port=16}");
  CHECK(shown(nested, {"port=hex"}) == "conn={port=16}");
  CHECK(shown(number(16), {"key=hex"}, "key") == "0x10");
  CHECK(shown(number(16), {"key=hex"}, "value") == "16");
  CHECK(shown(number(16), {"events.value=hex"}, "value") == "0x10");
  CHECK(shown(number(16), {"events=hex"}, "value") == "0x10");
  CHECK(shown(number(16), {"events=hex"}, "key") == "16");
  CHECK(shown(nested, {"key.conn.port=hex"}, "key") == "conn={port=0x10}");
}

TEST_CASE("members of anonymous structures are named without them, elements as their array") {
  CHECK(shown(record("", record("port", number(16))), {"port=hex"}) == "{port=0x10}");
  const values::Value list{values::Value::Array{record("port", number(16))}};
  CHECK(shown(record("all", list), {"all.port=hex"}) == "all=[{port=0x10}]");
}

TEST_CASE("a tag of the source counts unless a rule names the member") {
  const std::vector<values::ShownAsRule> tags = {{.path = "a", .as = values::ShownAs::ip}};
  CHECK(shown(record("a", number(0x0100007f)), {}, {}, tags) == "a=127.0.0.1");
  CHECK(shown(record("a", number(0x0100007f)), {"a=hex"}, {}, tags) == "a=0x100007f");
}

TEST_CASE("ids of stacks are known by their names, as bcc's programs have them") {
  CHECK(shown(record("user_stack_id", number(3)), {}) == "user_stack_id=[inner < outer3]");
  CHECK(shown(record("stack_size", number(3)), {}) == "stack_size=3");
  CHECK(shown(record("stack_id", number(3)), {"stack_id=hex"}) == "stack_id=0x3");
}

TEST_CASE("rules that no value has are known after those that were used") {
  values::Value value = record("a", number(7));
  const std::vector<values::ShownAsRule> rules = {{.path = "a", .as = values::ShownAs::hex},
                                                  {.path = "b", .as = values::ShownAs::hex}};
  std::vector<bool> is_used;
  show_as(value, {.map = "m"}, rules, {}, {}, &is_used);
  CHECK(is_used == std::vector<bool>{true, false});
}

TEST_CASE("a rule has a field and one of the forms") {
  CHECK(values::parse_shown_as_rule("a=b=ip")->path == "a=b");
  for (const std::string_view text : {"a", "a=", "=ip", "a=IP", ""}) {
    CAPTURE(text);
    const auto rule = values::parse_shown_as_rule(text);
    REQUIRE_FALSE(rule);
    CHECK(rule.error().kind == ErrorKind::usage);
  }
  CHECK(values::parse_shown_as_rule("a=IP").error().message ==
        "invalid value 'a=IP' (expected [MAP.]FIELD=address, ip, text, stack, time or hex)");
}

} // namespace uprobectl::output
