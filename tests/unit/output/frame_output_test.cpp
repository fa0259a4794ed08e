// SPDX-License-Identifier: Apache-2.0
#include "output/records.hpp"
#include "output/values.hpp"
#include "unwind_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::output {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t known_code = load_bias + 0x11000;
constexpr std::uint64_t unknown_code = load_bias + 0x11040;

// By what each frame's record says it was found.
std::string words_of(const unwind::Stack& stack) {
  std::string words;
  for (const unwind::Frame& frame : stack.frames) {
    std::string record;
    append_json_frame(record, frame);
    const auto at = record.find("\"found_by\":\"");
    REQUIRE(at != std::string::npos);
    words += record.substr(at + 11) + " "; // the last key
  }
  return words;
}

} // namespace

TEST_CASE("a frame that was guessed is marked, one that follows is not") {
  Process process;
  process.stack(stack_top, {0, outermost + 8});
  const unwind::Stack by_link =
      process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"lr", outermost + 8}});
  REQUIRE(by_link.frames.size() == 2);
  CHECK(display_frame(by_link.frames[0]) == "bare+0x8 (lib.so+0x11048)");
  CHECK(display_frame(by_link.frames[1]) == "start+0x4 (lib.so+0x11084) by link register");
  CHECK(words_of(by_link) == "\"registers\" \"link_register\" ");

  const unwind::Stack by_record =
      process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"x29", stack_top}});
  REQUIRE(by_record.frames.size() == 2);
  CHECK(display_frame(by_record.frames[1]) == "start+0x4 (lib.so+0x11084) by frame pointer");
  CHECK(words_of(by_record) == "\"registers\" \"frame_pointer\" ");

  const unwind::Stack by_row =
      process.unwind({{"pc", known_code}, {"sp", stack_top}, {"lr", outermost + 8}});
  REQUIRE(by_row.frames.size() == 2);
  CHECK(display_frame(by_row.frames[1]) == "start+0x4 (lib.so+0x11084)");
  CHECK(words_of(by_row) == "\"registers\" \"frame_data\" ");

  // By the call itself: the function has done nothing yet.
  const unwind::Stack at_entry =
      process.unwind({{"pc", unknown_code}, {"sp", stack_top}, {"lr", outermost + 8}});
  REQUIRE(at_entry.frames.size() == 2);
  CHECK(display_frame(at_entry.frames[1]) == "start+0x4 (lib.so+0x11084)");
  CHECK(words_of(at_entry) == "\"registers\" \"function_entry\" ");
}

TEST_CASE("of a file that cannot be read no address is made up") {
  Process process("5600001000-5600002000 r-xp 00001000 00:00 0 /x/missing.so\n");
  const unwind::Stack stack = process.unwind({{"pc", 0x5600001234}, {"sp", stack_top}});
  REQUIRE_FALSE(stack.frames.empty());
  std::string record;
  append_json_frame(record, stack.frames[0]);
  CHECK(record.find("\"file\":\"/x/missing.so\"") != std::string::npos);
  CHECK(record.find("\"module_address\":null,\"image_offset\":\"0x1234\"") != std::string::npos);
}

TEST_CASE("frames of the kernel's walk are marked in JSON only") {
  unwind::Stack stack;
  stack.end = unwind::End::unknown;
  stack.frames = {{.pc = 0x1000, .code = unwind::ModuleAddress(nullptr, {}, {}, "[heap]")},
                  {.pc = 0x2000,
                   .found_by = unwind::FoundBy::kernel_walk,
                   .code = unwind::ModuleAddress(nullptr, {}, {}, "[heap]")}};
  CHECK(display_frame(stack.frames[1]) == "0x2000 ([heap])");
  std::string records;
  append_json_stack(records, &stack);
  CHECK(records.find("\"mapping\":\"[heap]\",\"found_by\":\"registers\"},{") != std::string::npos);
  CHECK(records.ends_with("\"mapping\":\"[heap]\",\"found_by\":\"kernel_walk\"}]"));
  const unwind::Frame walked{.pc = 0x2000, .found_by = unwind::FoundBy::kernel_walk, .code = {}};
  CHECK(display_frame(walked) == "0x2000");
}

} // namespace uprobectl::output
