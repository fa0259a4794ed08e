// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "dwarf/frames.hpp"
#include "dwarf_fixture.hpp"
#include "output/records.hpp"
#include "output/values.hpp"
#include "uprobectl/unwind.hpp"
#include "util/mapped_file.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::output {

using namespace uprobectl::test;

namespace {

Bytes data_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

// Returns "tiny* /src/engine.cpp:12:3 < outer /src/engine.cpp:33:7"; the star marks inlined ones.
std::string frames_text(const std::string& image, std::uint64_t address) {
  const auto debug = dwarf::DebugInfo::parse(data_of(image));
  REQUIRE(debug);
  std::string text;
  for (const dwarf::SourceFrame& frame : dwarf::frames_at(*debug, {address}))
    text += fmt::format("{}{}{} {}:{}:{}", text.empty() ? "" : " < ", frame.function,
                        frame.is_inlined ? "*" : "", frame.file, frame.line, frame.column);
  return text;
}

// A file with the image, opened as stacks open it.
class OpenedModule {
public:
  explicit OpenedModule(bool with_lines, const std::string& image = inlining_elf())
      : path_(folder_.put("libengine.so", image)) {
    if (with_lines) cache_.use_source_lines();
  }

  unwind::Stack stack(std::initializer_list<std::uint64_t> addresses) {
    const auto file = std::make_shared<const MappedFile>(*MappedFile::open(path_));
    unwind::Stack stack;
    for (const std::uint64_t address : addresses)
      stack.frames.push_back({.pc = address, .code = cache_.find(file, path_, {address})});
    return stack;
  }

private:
  Folder folder_;
  std::string path_;
  symbolize::ModuleCache cache_;
};

std::string texts_of(const unwind::Stack& stack) {
  std::string text;
  for (const unwind::Frame& frame : stack.frames) text += display_frame(frame) + "\n";
  return text;
}

} // namespace

TEST_CASE("the frames of an address are the inlined functions and the function with the code") {
  const std::string image = inlining_elf();
  CHECK(frames_text(image, 0x1000) == "outer /src/engine.cpp:30:0");
  CHECK(frames_text(image, 0x1012) ==
        "_Z6middlei* /src/engine.cpp:21:0 < outer /src/engine.cpp:33:7");
  CHECK(frames_text(image, 0x1014) == "_Z4tinyi* /src/engine.cpp:12:3 < _Z6middlei* "
                                      "/src/engine.cpp:22:5 < outer /src/engine.cpp:33:7");
  CHECK(frames_text(image, 0x1020) == "outer /src/engine.cpp:0:0");
  CHECK(frames_text(image, 0x103f) == "outer /src/engine.cpp:35:0");
  // In the unit, after its last line; in no unit.
  CHECK(frames_text(image, 0x1040).empty());
  CHECK(frames_text(image, 0x1084).empty());
}

TEST_CASE("entries that are nested deeply do not exhaust the stack") {
  // DW_TAG_compile_unit with a range, then DW_TAG_lexical_block in each other.
  const std::string abbreviations("\x01\x11\x01\x11\x01\x12\x06\x00\x00\x02\x0b\x01\x00\x00\x00",
                                  15);
  constexpr std::size_t depth = 500'000;
  std::string unit("\x04\x00\x00\x00\x00\x00\x08\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x10\x00"
                   "\x00",
                   20);
  unit += std::string(depth, '\x02');
  std::string info(4, '\0');
  for (unsigned i = 0; i < 4; ++i) info[i] = static_cast<char>(unit.size() >> (8 * i));
  const std::string image =
      elf_with_sections({{".debug_info", info + unit}, {".debug_abbrev", abbreviations}});
  CHECK(frames_text(image, 0x1004).empty());
}

TEST_CASE("source lines are read only on request") {
  OpenedModule module(false);
  const unwind::Stack stack = module.stack({0x1014});
  CHECK(texts_of(stack) == "outer+0x14 (libengine.so+0x1014)\n");
  CHECK(stack.frames[0].symbolized()->positions.empty());
  std::string json;
  append_json_stack(json, &stack);
  CHECK(json.find("source") == std::string::npos);
}

TEST_CASE("inlined functions are frames of their own, with the line of the code or call") {
  OpenedModule module(true);
  unwind::Stack stack = module.stack({0x1014, 0x1034, 0x1020, 0x1084});
  unwind::add_inlined_frames(stack);
  CHECK(texts_of(stack) == "tiny(int) [inlined] (libengine.so+0x1014) at engine.cpp:12\n"
                           "middle(int) [inlined] (libengine.so+0x1014) at engine.cpp:22\n"
                           "outer+0x14 (libengine.so+0x1014) at engine.cpp:33\n"
                           "outer+0x34 (libengine.so+0x1034) at engine.cpp:35\n"
                           "outer+0x20 (libengine.so+0x1020) at engine.cpp\n"
                           "plain+0x4 (libengine.so+0x1084)\n");
  std::string json;
  append_json_stack(json, &stack);
  CHECK(json.find("{\"index\":0,\"pc\":\"0x1014\",") != std::string::npos);
  CHECK(json.find("\"symbol\":\"_Z4tinyi\",\"symbol_offset\":null,\"build_id\":null,\"demangled\":"
                  "\"tiny(int)\",\"mapping\":null,\"found_by\":\"registers\",\"source\":\"/src/"
                  "engine.cpp\",\"line\":12,\"column\":3,\"inlined\":true}") != std::string::npos);
  CHECK(json.find("\"symbol\":\"outer\",\"symbol_offset\":\"0x14\",\"build_id\":null,\"demangled\":"
                  "null,\"mapping\":null,\"found_by\":\"registers\",\"source\":\"/src/engine.cpp\","
                  "\"line\":33,\"column\":7,\"inlined\":false}") != std::string::npos);
  CHECK(json.find("\"line\":null,\"column\":null,\"inlined\":false}") != std::string::npos);
  CHECK(json.ends_with("\"found_by\":\"registers\"}]")); // no unit has the last address
}

TEST_CASE("a stack does not grow without bound by inlined functions") {
  OpenedModule module(true);
  unwind::Stack stack = module.stack({0x1014});
  stack.frames.resize(10'000, stack.frames.front());
  unwind::add_inlined_frames(stack);
  CHECK(stack.frames.size() > 16'384);
  CHECK(stack.frames.size() < 21'000);
  CHECK(display_frame(stack.frames.back()) == "outer+0x14 (libengine.so+0x1014) at engine.cpp:33");
}

} // namespace uprobectl::output
