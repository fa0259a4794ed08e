// SPDX-License-Identifier: Apache-2.0
// The text form of task files. Expected bytes are written by hand after
// protobuf.dev/programming-guides/encoding.
#include "uprobestats/forms.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::uprobestats {

using uprobestats::parse_text_form;
using uprobestats::write_binary_form;

namespace {

std::string wire_of(std::string_view text) {
  const auto form = parse_text_form(text);
  INFO((form ? std::string() : form.error().message));
  REQUIRE(form);
  return write_binary_form(form->config);
}

std::string text_fault_of(std::string_view text) {
  const auto form = parse_text_form(text);
  REQUIRE_FALSE(form);
  return form.error().message;
}

// A task with one field, that of number 3: a text.
std::string named(std::string_view name) {
  std::string task = {'\x1a', static_cast<char>(name.size())};
  task += name;
  return std::string{'\x0a', static_cast<char>(task.size())} + task;
}

} // namespace

TEST_CASE("a text's fields become those of the wire format") {
  CHECK(wire_of("").empty());
  CHECK(wire_of("# nothing\n\n").empty());
  CHECK(wire_of("tasks {}") == std::string("\x0a\x00", 2));
  CHECK(wire_of("tasks { duration_seconds: 60 }") == "\x0a\x02\x20\x3c");
  CHECK(wire_of("tasks { target_process_name: \"abc\" }") == named("abc"));
  CHECK(wire_of("tasks { bpf_maps: 'a' bpf_maps: 'b' }") == "\x0a\x06\x12\x01\x61\x12\x01\x62");
}

TEST_CASE("a message may have a colon, angle brackets, and separators after its fields") {
  const std::string expected = "\x0a\x05\x1a\x01\x61\x20\x05";
  for (const std::string_view text :
       {"tasks{target_process_name:\"a\"duration_seconds:5}",
        "tasks: { target_process_name: 'a', duration_seconds: 5, },",
        "tasks < target_process_name: 'a'; duration_seconds: 5; >;",
        "tasks: <\n  target_process_name: 'a' # why\n  duration_seconds: 0x5\n>\n",
        "tasks [{ target_process_name: 'a' duration_seconds: 05 }]",
        "tasks: [ < target_process_name: \"a\" duration_seconds: 5 > ]"})
    CHECK(wire_of(text) == expected);
}

TEST_CASE("a list gives each of its elements, and may be empty") {
  CHECK(wire_of("tasks { bpf_maps: ['a', \"b\"] }") == "\x0a\x06\x12\x01\x61\x12\x01\x62");
  CHECK(wire_of("tasks { bpf_maps: [] }") == std::string("\x0a\x00", 2));
  CHECK(wire_of("tasks { statsd_logging_config { primitive_argument_positions: [0, 2] } }") ==
        std::string("\x0a\x06\x2a\x04\x10\x00\x10\x02", 8));
  CHECK(wire_of("tasks [{}, {}]") == std::string("\x0a\x00\x0a\x00", 4));
  CHECK(text_fault_of("tasks { duration_seconds: [5] }") ==
        "line 1, column 9: 'duration_seconds' is not a repeated field");
  CHECK(text_fault_of("tasks { bpf_maps: ['a' 'b', ] }") ==
        "line 1, column 29: expected a text in quotes, found ']'");
  CHECK(text_fault_of("tasks { bpf_maps ['a'] }") == "line 1, column 18: expected ':', found '['");
}

TEST_CASE("texts are joined, and have C's escapes") {
  CHECK(wire_of("tasks { target_process_name: \"a\" 'b'\n \"c\" }") == named("abc"));
  CHECK(wire_of(R"(tasks { target_process_name: "\a\b\f\n\r\t\v\?\\\'\"" })") ==
        named("\a\b\f\n\r\t\v?\\'\""));
  CHECK(wire_of(R"(tasks { target_process_name: "\1018\x41\x4a4\0" })") ==
        named(std::string_view("A8AJ4\0", 6)));
  CHECK(wire_of(R"(tasks { target_process_name: "\u00e9\U0001f34e$" })") ==
        named("\xc3\xa9\xf0\x9f\x8d\x8e$"));
  CHECK(text_fault_of("tasks { target_process_name: \"a\n\" }") ==
        "line 1, column 30: the quote is not closed");
  CHECK(text_fault_of("tasks { target_process_name: \"abc") ==
        "line 1, column 30: the quote is not closed");
  CHECK(text_fault_of(R"(tasks { target_process_name: "\q" })") ==
        "line 1, column 31: invalid escape sequence");
  CHECK(text_fault_of(R"(tasks { target_process_name: "\400" })") ==
        "line 1, column 31: '\\400' is more than a byte");
  CHECK(text_fault_of(R"(tasks { target_process_name: "\ud800" })") ==
        "line 1, column 31: '\\ud800' is not a character");
}

TEST_CASE("numbers are decimal, hexadecimal or octal, and within their type") {
  CHECK(wire_of("tasks { duration_seconds: 017 }") == "\x0a\x02\x20\x0f");
  CHECK(wire_of("tasks { duration_seconds: 2147483647 }") == "\x0a\x06\x20\xff\xff\xff\xff\x07");
  CHECK(wire_of("tasks { duration_seconds: -1 }") ==
        "\x0a\x0b\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(wire_of("tasks { duration_seconds: - 2147483648 }") ==
        "\x0a\x0b\x20\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01");
  CHECK(wire_of("tasks { task_id: 9223372036854775807 }") ==
        "\x0a\x0a\x38\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
  CHECK(text_fault_of("tasks { duration_seconds: 2147483648 }") ==
        "line 1, column 27: invalid value 2147483648 for 'duration_seconds'");
  CHECK(text_fault_of("tasks { duration_seconds: -2147483649 }") ==
        "line 1, column 27: invalid value -2147483649 for 'duration_seconds'");
  CHECK(text_fault_of("tasks { task_id: 99999999999999999999 }") ==
        "line 1, column 18: invalid value 99999999999999999999 for 'task_id'");
  CHECK(text_fault_of("tasks { duration_seconds: 08 }") ==
        "line 1, column 27: invalid value 08 for 'duration_seconds'");
  CHECK(text_fault_of("tasks { duration_seconds: 1.5 }") ==
        "line 1, column 27: expected a number, found '1.5'");
  CHECK(text_fault_of("tasks { duration_seconds: '5' }") ==
        "line 1, column 27: expected a number, found ''5''");
}

TEST_CASE("enumerations have names or numbers") {
  CHECK(wire_of("tasks { target_process_selection: SPECIFIC_APP_PROCESS_ON_START }") ==
        "\x0a\x02\x30\x03");
  CHECK(wire_of("tasks { target_process_selection: 1 }") == "\x0a\x02\x30\x01");
  CHECK(text_fault_of("tasks { target_process_selection: ANY }") ==
        "line 1, column 35: invalid value 'ANY' for 'target_process_selection' (expected UNKNOWN, "
        "SPECIFIC_PROCESS_NAME, ANY_APP_PROCESS_ON_START, SPECIFIC_APP_PROCESS_ON_START)");
  CHECK(text_fault_of("tasks { target_process_selection: 7 }") ==
        "line 1, column 35: invalid value '7' for 'target_process_selection' (expected UNKNOWN, "
        "SPECIFIC_PROCESS_NAME, ANY_APP_PROCESS_ON_START, SPECIFIC_APP_PROCESS_ON_START)");
  CHECK(text_fault_of("tasks { target_process_selection: -1 }") ==
        "line 1, column 35: invalid value '-' for 'target_process_selection' (expected UNKNOWN, "
        "SPECIFIC_PROCESS_NAME, ANY_APP_PROCESS_ON_START, SPECIFIC_APP_PROCESS_ON_START)");
}

TEST_CASE("a field that is given twice, or not closed, is reported with its position") {
  CHECK(text_fault_of("tasks {\n  duration_seconds: 5\n  duration_seconds: 6\n}") ==
        "line 3, column 3: 'duration_seconds' is given twice");
  CHECK(text_fault_of("tasks {\n  duration_seconds: 5\n") ==
        "line 3, column 1: expected a field of Task, found the end of the file");
  CHECK(text_fault_of("tasks {}\n}") ==
        "line 2, column 1: expected a field of UprobestatsConfig, found '}'");
  CHECK(text_fault_of("tasks 5") == "line 1, column 7: expected '{', found '5'");
  CHECK(text_fault_of("tasks { \x01 }") == "line 1, column 9: byte 0x01 is not text");
  CHECK(text_fault_of("tasks { !") == "line 1, column 9: unexpected '!'");
}

TEST_CASE("a field that is not known is left out with a warning") {
  const auto form = parse_text_form("tasks {\n  duration: 5\n  duration_seconds: 6\n}");
  REQUIRE(form);
  CHECK(write_binary_form(form->config) == "\x0a\x02\x20\x06");
  CHECK(form->warnings ==
        std::vector<std::string>{"line 2, column 3: 'duration' is not a field of Task and is "
                                 "skipped: did you mean 'duration_seconds'?"});
  for (const std::string_view odd :
       {"x: 1.5e-3", "x: -inf", "x: \"a\" 'b'", "x { y: 1 z < w: [1, 2] > }", "x: [{}, {a: b}]",
        "[com.example.x]: 5", "x: [], y: ENUM"}) {
    INFO(odd);
    const auto left_out = parse_text_form("tasks { " + std::string(odd) + " duration_seconds: 6 }");
    REQUIRE(left_out);
    CHECK(write_binary_form(left_out->config) == "\x0a\x02\x20\x06");
    CHECK_FALSE(left_out->warnings.empty());
  }
  CHECK(text_fault_of("tasks { x }") == "line 1, column 11: expected ':' or '{', found '}'");
  CHECK(text_fault_of("tasks { x: }") == "line 1, column 12: expected a value, found '}'");
}

TEST_CASE("unbounded nesting is rejected") {
  std::string deep = "x ";
  for (int i = 0; i < 100'000; ++i) deep += "{x ";
  CHECK(text_fault_of(deep).ends_with("too many levels"));
  std::string lists = "x: ";
  for (int i = 0; i < 100'000; ++i) lists += '[';
  CHECK(text_fault_of(lists).ends_with("too many levels"));
}

} // namespace uprobectl::uprobestats
