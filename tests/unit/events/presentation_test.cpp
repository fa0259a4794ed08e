// SPDX-License-Identifier: Apache-2.0
#include "events/presentation.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace uprobectl::events {

namespace {

ArgumentSpec spec_of(std::string_view text) {
  const auto list = parse_arguments(text);
  INFO(text);
  REQUIRE(list);
  REQUIRE(list->arguments.front().shown_as != nullptr);
  return list->arguments.front();
}

RawArgument value_of(const ArgumentSpec& spec, std::uint64_t number) {
  return {.type = spec.type, .number = number};
}

// "plain" if the presentation does not apply.
std::string name_of(const values::Value& value) {
  const auto* const name = std::get_if<values::Value::Name>(&value.value);
  return name != nullptr ? name->text : "plain";
}

std::string name_shown(std::string_view type, std::uint64_t number) {
  const ArgumentSpec spec = spec_of(type);
  return name_of(present(*spec.shown_as, value_of(spec, number), 0));
}

std::string error_text(std::string_view text) {
  const auto list = parse_arguments(text);
  return list ? "" : list.error().message;
}

} // namespace

TEST_CASE("numbers have the names that --args gives them") {
  CHECK(name_shown("a:u32{read=0,write=1}", 1) == "write");
  CHECK(name_shown("a:u32{read=0,write=1}", 2) == "2?");
  CHECK(name_shown("a:u32{read=0,write=1,*}", 2) == "plain");
  CHECK(name_shown("a:s8{none=-1}", 0xffff'ffff'ffff'ffff) == "none");
  CHECK(name_shown("a:u8{none=-1}", 0xff) == "none");
  CHECK(name_shown("a:u64{none=0}", ~0ULL) == "18446744073709551615?");
  CHECK(name_shown("a:s64{none=0}", ~0ULL) == "-1?");
  CHECK(name_shown("a:char{start='s'}", 's') == "start");
}

TEST_CASE("names of a number may depend on another argument") {
  const auto list =
      parse_arguments("level:s32,option:s32{level:REUSE=2/1,NODELAY=1/6,DEBUG=1/1,*}");
  REQUIRE(list);
  const ArgumentSpec& spec = list->arguments[1];
  const auto shown = [&](std::uint64_t number, std::optional<std::uint64_t> level) {
    return name_of(present(*spec.shown_as, value_of(spec, number), 0, level));
  };
  CHECK(shown(1, 6) == "NODELAY");
  CHECK(shown(1, 1) == "DEBUG");
  CHECK(shown(2, 1) == "REUSE");
  CHECK(shown(2, 6) == "plain");
  CHECK(shown(1, std::nullopt) == "plain"); // the level was not read
  CHECK(check_selectors(*list));
  const auto unordered = parse_arguments("option:s32{level:A=1/6},level:s32");
  REQUIRE(unordered);
  CHECK(check_selectors(*unordered).error().message == "no integer 'level' before 'option'");
  CHECK(error_text("level:s32,option:s32{level:A=1}").find("expected NAME=NUMBER/NUMBER") !=
        std::string::npos);
}

TEST_CASE("a float is shown with the digits that tell it from other floats") {
  const auto shown = [](std::uint64_t bits) {
    return std::get<double>(plain_value({.type = ArgumentType::f32, .number = bits}).value);
  };
  CHECK(shown(0x3dcccccd) == 0.1);
  CHECK(shown(0x3fc00000) == 1.5);
  CHECK(shown(0xff7fffff) == -3.4028235e38);
  CHECK(std::isinf(shown(0x7f800000)));
  CHECK(std::isnan(shown(0x7fc00000)));
}

TEST_CASE("flags are named one by one, the rest is a number") {
  constexpr std::string_view mode = "a:x32{|O_RDONLY=0/3,O_WRONLY=1/3,O_RDWR=2/3,O_CREAT=0x40}";
  CHECK(name_shown(mode, 0) == "O_RDONLY");
  CHECK(name_shown(mode, 0x41) == "O_WRONLY|O_CREAT");
  CHECK(name_shown(mode, 0x1002) == "O_RDWR|0x1000");
  CHECK(name_shown("a:x32{|A=1}", 0) == "0");
  CHECK(name_shown("a:x32{|none=0,A=1}", 0) == "none");
}

TEST_CASE("the number of a character has no sign") {
  CHECK(number_of(plain_value({.type = ArgumentType::character, .number = 200})) == 200);
  CHECK(number_of(plain_value({.type = ArgumentType::character, .number = 'a'})) == 97);
}

TEST_CASE("numbers of errno, times and IPv4 addresses have their usual text") {
  CHECK(name_shown("ret:errno", 2) == "ENOENT");
  CHECK(name_shown("ret:errno", static_cast<std::uint64_t>(-11)) == "-EAGAIN");
  CHECK(name_shown("ret:errno", 0) == "plain");
  CHECK(name_shown("ret:errno", 100'000) == "plain");
  CHECK(name_shown("a:time", 1'000'000'000) == "2001-09-09T01:46:40Z"); // date -u -d @1000000000
  CHECK(name_shown("a:in_addr", 0x0100'007f) == "127.0.0.1");
}

TEST_CASE("elements of arrays have the sign and size of their type") {
  const ArgumentSpec spec = spec_of("a:s16[3]");
  CHECK(spec.length == 6);
  RawArgument value = value_of(spec, 0);
  value.bytes = std::string("\x01\x00\xfe\xff\x2c", 5); // the last one is not complete
  value.is_truncated = true;
  const auto shown = present(*spec.shown_as, value, 0);
  const auto& elements = std::get<values::Value::Array>(shown.value);
  REQUIRE(elements.size() == 3);
  CHECK(std::get<std::int64_t>(elements[0].value) == 1);
  CHECK(std::get<std::int64_t>(elements[1].value) == -2);
  CHECK(std::holds_alternative<values::Value::Omitted>(elements[2].value));
}

TEST_CASE("a socket address that is cut is not shown as another") {
  const ArgumentSpec spec = spec_of("a:sockaddr");
  RawArgument value = value_of(spec, 0);
  value.bytes = std::string("\x02\x00\x1f\x90", 4);
  const auto shown = present(*spec.shown_as, value, 0);
  CHECK(std::get<values::Value::Unreadable>(shown.value).reason == "too short");
}

TEST_CASE("a hexdump has 16 bytes in a row") {
  const auto rows = hexdump_rows(std::as_bytes(std::span("0123456789abcdef\n", 17)));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == "0000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  |0123456789abcdef|");
  CHECK(rows[1] == "0010  0a                                               |.|");
}

TEST_CASE("a value behind pointers is reached by offsets") {
  const auto list = parse_arguments("len:u32@arg0+8->16->-4");
  REQUIRE(list);
  CHECK(list->arguments[0].source == ArgumentSource{.number = 0, .offsets = {8, 16, -4}});
  CHECK(error_text("a:u32@arg0+8-4") == "'arg0+8-4': invalid offset");
  CHECK(error_text("a:str@&arg0+8->4") == "'&arg0+8->4': '&' cannot be followed by '->'");
}

TEST_CASE("braces with names may have commas and '='") {
  const auto list = parse_arguments("send=op:u32{read=0,write=1},n:u64");
  REQUIRE(list);
  CHECK(list->function == "send");
  CHECK(list->arguments.size() == 2);
  CHECK(error_text("op:u32{read}") == "invalid name 'read' (expected NAME=NUMBER or '*')");
  CHECK(error_text("op:u32{|A=3/1}") ==
        "invalid name 'A=3/1' (expected a mask after '/' with all bits of the number)");
  CHECK(error_text("op:str{a=1}") == "'str{a=1}': only integers can have names");
  CHECK(error_text("op:u32{a=1") == "'u32{a=1': missing '}'");
  CHECK(error_text("a:cxxstring[4]") == "'cxxstring[4]': cxxstring has no length");
  CHECK(error_text("a:u32[2000]") == "'u32[2000]': invalid length (expected 1 to 1024)");
}

} // namespace uprobectl::events
