// SPDX-License-Identifier: Apache-2.0
// Machine code as GNU as assembles it.
#include "function_fixture.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

constexpr std::string_view plt_stub = // at 0x100: jmp *0x30010; push $0; jmp 0x100f0
    "ff250aff0100"
    "6800000000"
    "e9e0ffffff";

// f: at 0 a part of its own that returns, then a jump of each kind.
CodeLibrary x64_library() {
  return {.code = {{0x00, "85ff"         // test %edi, %edi
                          "0f8578000000" // 0x02: jne f.cold
                          "c3"           // 0x08: ret
                          "e932000000"   // 0x09: jmp g
                          "e9ed000000"   // 0x0e: jmp ext@plt
                          "ff25ffff0100" // 0x13: jmp *0x30018
                          "ffe0"         // 0x19: jmp *%rax
                          "e928000000"   // 0x1b: jmp g+8
                          "0f842a010000" // 0x20: je 0x10150
                          "3effe0"},     // 0x26: notrack jmp *%rax
                   {0x40, "31c0f3c3"},   // g: xor %eax, %eax; rep ret
                   {0x50, "ebee"},       // only_calls: jmp g
                   {0x54, "ffe1"},       // only_through: jmp *%rcx
                   {0x58, "ebfe"},       // forever: jmp to itself
                   {0x60, "06c3c3"},     // broken: no instruction; ret; ret
                   {0x68, "85ff"},       // unended: test %edi, %edi
                   {0x6c, "e3d2c3"},     // counted: jrcxz g; ret
                   {0x70, "ffcf75fcc3"}, // looped: dec %edi; jne looped; ret
                   {0x78, "5dffe0"},     // torn: pop %rbp; jmp *%rax
                   {0x80, "9090c3eb83"}, // f.cold: nop; nop; ret; jmp f+8
                   {0x90, "c3"},         // fx.cold, of another function
                   {0xa0, "89f8"         // tabled: mov %edi, %eax
                          "eb08"         // 0xa2: jmp 0xac
                          "9090c390"     // 0xa4: two words of data
                          "9090c390"
                          "488d15f1ffffff" // 0xac: lea 0xa4(%rip), %rdx
                          "8b0482c3"},     // 0xb3: mov (%rdx, %rax, 4), %eax; ret
                   {0xc0, "488d1504000000" // handled: lea 0xcb(%rip), %rdx
                          "52eb0290c3c3"}, // 0xc7: push %rdx; jmp 0xcc; nop; ret; ret
                   {0xd0, "eb01b8"         // skipping: jmp 0xd3; a byte of data
                          "b9c3900000c3"}, // 0xd3: mov $0x90c3, %ecx; ret
                   {0xe0, "eb0106c3"},     // passing: jmp 0xe3; no instruction; ret
                   {0x100, std::string(plt_stub)}},
          .symbols = function_symbol("f", 0x00, 0x30) + function_symbol("g", 0x40, 0x10) +
                     function_symbol("only_calls", 0x50, 2) +
                     function_symbol("only_through", 0x54, 2) +
                     function_symbol("forever", 0x58, 2) + function_symbol("broken", 0x60, 3) +
                     function_symbol("unended", 0x68, 2) + function_symbol("counted", 0x6c, 3) +
                     function_symbol("looped", 0x70, 5) + function_symbol("torn", 0x78, 3) +
                     function_symbol("f.cold", 0x80, 5) + function_symbol("fx.cold", 0x90, 1) +
                     function_symbol("tabled", 0xa0, 0x17) + function_symbol("handled", 0xc0, 13) +
                     function_symbol("skipping", 0xd0, 9) + function_symbol("passing", 0xe0, 4) +
                     function_symbol("sizeless", 0x1d8, 0) + function_symbol("long", 0x1f0, 0x20) +
                     function_symbol("huge", 0x1e0, 0x500000)};
}

// f: paciasp, a branch to its cold part, a switch, a tail call and data that read as `ret`.
CodeLibrary arm64_library() {
  return {.machine = "EM_AARCH64",
          .code = {{0x00, "3f2303d5"    // paciasp
                          "e1030054"    // 0x04: b.ne f.cold
                          "2088208b"    // 0x08: add x0, x1, w0, sxtb #2
                          "00001fd6"    // 0x0c: br x0
                          "ff0b5fd6"    // 0x10: retaa
                          "0b000014"    // 0x14: b g
                          "00021fd6"    // 0x18: br x16
                          "c0035fd6"    // 0x1c: data
                          "ffffffff"},  // 0x20: data
                   {0x40, "00008052"    // g: mov w0, #0
                          "c0035fd6"},  // 0x44: ret
                   {0x50, "ffffffff"},  // literals: no instruction
                   {0x80, "c0035fd6"    // f.cold: ret
                          "e0ffff17"}}, // 0x84: b f+4
          .symbols = function_symbol("f", 0x00, 0x24) + function_symbol("g", 0x40, 8) +
                     function_symbol("literals", 0x50, 4) + function_symbol("f.cold", 0x80, 8) +
                     "  - { Name: $x, Section: .text, Value: 0x10000 }\n"
                     "  - { Name: $d, Section: .text, Value: 0x1001c }\n"
                     "  - { Name: $x.1, Section: .text, Value: 0x10024 }\n"};
}

} // namespace

TEST_CASE("a function's returns are offsets in the file, those of its cold part among them") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("f") == "0x1008 0x1082");
  CHECK(library.returns("g") == "0x1042");
}

TEST_CASE("jumps to other functions are tail calls with a name") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.tail_calls("f") == "0x1009 g, 0x100e ext@plt, 0x1013 other, 0x1019 perhaps ?, "
                                   "0x101b g+0x8, 0x1020 perhaps vaddr:0x10150");
  CHECK(library.tail_calls("g").empty());
}

TEST_CASE("a jump to a return thunk is a return, also if it is conditional") {
  const CodeLibrary what{.code = {{0x00, "85ff"         // f: test %edi, %edi
                                         "0f84f8000000" // 0x02: je thunk
                                         "e9f3000000"   // 0x08: jmp thunk
                                         "e90e010000"}, // 0x0d: jmp thunk without a name
                                  {0x100, "e807000000f3900faee8ebf9488d642408c3"}, // thunk
                                  {0x120, "e807000000f3900faee8ebf9488d642408c3"}},
                         .symbols = function_symbol("f", 0x00, 0x12) +
                                    function_symbol("thunk", 0x100, 0x12)};
  const OpenLibrary library(code_library(what));
  CHECK(library.returns("f") == "0x1008 0x100d");
  CHECK(library.tail_calls("f") == "0x1002 perhaps thunk returns +0");
}

TEST_CASE("a jump to an end that functions share is a return if the result is there") {
  const CodeLibrary what{.machine = "EM_AARCH64",
                         .code = {{0x00, "40000054"    // f: b.eq f+8
                                         "0f000014"    // 0x04: b OUTLINED_FUNCTION_0
                                         "17000014"    // 0x08: b OUTLINED_FUNCTION_1
                                         "c0010054"    // 0x0c: b.eq OUTLINED_FUNCTION_0+4
                                         "1c000014"    // 0x10: b set
                                         "23000014"},  // 0x14: b 0x100a0, without a name
                                  {0x40, "090d00f9"    // str x9, [x8, #24]
                                         "c0035fd6"},  // ret
                                  {0x64, "fd7bc3a8"    // ldp x29, x30, [sp], #48
                                         "c0035fd6"},  // ret
                                  {0x80, "090d00f9"    // set: a function that stores
                                         "c0035fd6"},  // ret
                                  {0xa0, "090d00f9"    // str x9, [x8, #24]
                                         "c0035fd6"}}, // ret
                         .symbols = function_symbol("f", 0x00, 0x18) +
                                    function_symbol("OUTLINED_FUNCTION_0", 0x40, 8) +
                                    function_symbol("OUTLINED_FUNCTION_1", 0x64, 8) +
                                    function_symbol("set", 0x80, 8)};
  const OpenLibrary library(code_library(what));
  CHECK(library.returns("f").empty());
  CHECK(library.tail_calls("f") ==
        "0x1004 OUTLINED_FUNCTION_0 returns +0 stores, 0x1008 OUTLINED_FUNCTION_1 returns +48, "
        "0x100c perhaps OUTLINED_FUNCTION_0+0x4 returns +0, 0x1010 set, "
        "0x1014 vaddr:0x100a0 returns +0 stores");
}

TEST_CASE("a jump with the frame is a return if its target takes the frame down and returns") {
  const CodeLibrary what{
      .code = {{0x00, "53"           // f: push %rbx
                      "4883ec10"     // 0x01: sub $16, %rsp
                      "7479"         // 0x05: je shared
                      "e994000000"}, // 0x07: jmp by_register
               {0x10, "53"           // g: push %rbx
                      "7475"         // 0x11: je shared+8
                      "c3"},
               {0x80, "4883c4105bc3" // shared: add $16, %rsp; pop %rbx; ret
                      "9090"         // 0x86: nop; nop
                      "31c05bc3"},   // 0x88: xor %eax, %eax; pop %rbx; ret
               {0xa0, "440f283e"     // by_register: movaps (%rsi), %xmm15
                      "4c89d4c3"}},  // 0xa4: mov %r10, %rsp; ret
      .symbols = function_symbol("f", 0x00, 0xc) + function_symbol("g", 0x10, 4) +
                 function_symbol("shared", 0x80, 0xc) + function_symbol("by_register", 0xa0, 8)};
  const OpenLibrary library(code_library(what));
  constexpr std::uint8_t stack_pointer = 7;
  const std::map<std::uint64_t, StackFrame> known = {
      {0x10005, {.base = stack_pointer, .distance = 24}},
      {0x10007, {.base = stack_pointer, .distance = 24}},
      {0x10080, {.base = stack_pointer, .distance = 24}},
      {0x10088, {.base = stack_pointer, .distance = 8}},
      {0x100a0, {.base = 10, .distance = 0}}};
  const auto returns = [&](std::string_view function, const auto& frames) {
    FunctionReader reader = library.reader();
    reader.use_frames([&](const elf::Image&, VirtualAddress at) {
      const auto found = frames.find(at.value);
      return found == frames.end() ? std::nullopt : std::optional(found->second);
    });
    const auto read = reader.returns(library.point(function));
    if (!read) return read.error().message;
    std::string text;
    for (const auto& call : read->tail_calls)
      text += fmt::format("{}{} ", *call.callee,
                          call.returns ? fmt::format(" +{}", call.returns->raises_stack) : "");
    return text;
  };
  CHECK(returns("f", known) == "shared +24 by_register +24 ");
  CHECK_THAT(
      returns("g", known),
      Catch::EndsWith("the jump at vaddr:0x10011 leaves its stack frame to shared+0x8, which "
                      "does not only return"));
  // Without unwind data they are functions.
  CHECK(returns("f", std::map<std::uint64_t, StackFrame>()) == "shared by_register ");
  // The code does not take down the frame that it begins with, or not the one at the jump.
  auto other = known;
  other[0x10080].distance = 16;
  CHECK_THAT(returns("f", other),
             Catch::Contains("vaddr:0x10005 leaves its stack frame to shared"));
  other = known;
  other[0x100a0].base = 9;
  CHECK_THAT(returns("f", other), Catch::Contains("vaddr:0x10007 leaves its stack frame"));
  other = known;
  other[0x10007].base = 6;
  CHECK_THAT(returns("f", other), Catch::Contains("vaddr:0x10007 leaves its stack frame"));
}

TEST_CASE("a return in a piece of the function is not counted at the jump to it as well") {
  const CodeLibrary what{.code = {{0x00, "7405"         // f: je 0x07
                                         "e974000000"   // 0x02: jmp 0x7b
                                         "e96c000000"}, // 0x07: jmp 0x78, f.part.0
                                  {0x78, "31c0"         // f.part.0: xor %eax, %eax
                                         "90"           // 0x7a: nop
                                         "5b"           // 0x7b: pop %rbx
                                         "c3"}},        // 0x7c: ret
                         .symbols = function_symbol("f", 0x00, 0xc) +
                                    function_symbol("f.part.0", 0x78, 5)};
  const OpenLibrary library(code_library(what));
  CHECK(library.returns("f") == "0x107c");
  CHECK(library.tail_calls("f").empty());
}

TEST_CASE("arm64 functions: authenticated returns, switches and data among the code") {
  const OpenLibrary library(code_library(arm64_library()));
  CHECK(library.returns("f") == "0x1010 0x1080");
  CHECK(library.tail_calls("f") == "0x100c perhaps ?, 0x1014 g, 0x1018 perhaps ?");
  CHECK(library.returns("literals") ==
        "corrupt: the bytes at vaddr:0x10050 are not a known instruction");
}

TEST_CASE("data between instructions have no returns, by what direct branches reach") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("tabled") == "0x10b6");
  CHECK(library.returns("skipping") == "0x10d8");
  CHECK(library.returns("passing") == "0x10e3");
  // What uses the stored address is not known.
  CHECK(library.returns("handled") == "0x10cb 0x10cc");
}

TEST_CASE("offsets of an entry's functions count from the start of the archive") {
  // 30 bytes of local header and 11 of the name before the library.
  const ZipFile archive{.entries = {{.name = "lib/libf.so", .data = code_library(x64_library())}}};
  const OpenLibrary library(archive.bytes(), "x.apk", "!/lib/libf.so");
  CHECK(library.returns("f") == "0x1031 0x10ab");
  CHECK(library.returns("g") == "0x106b");
}

TEST_CASE("a function may have only tail calls as exits, or none") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("only_calls").empty());
  CHECK(library.tail_calls("only_calls") == "0x1050 g");
  CHECK(library.returns("only_through").empty());
  CHECK(library.tail_calls("only_through") == "0x1054 perhaps ?");
  CHECK(library.returns("forever") == "it never leaves");
}

TEST_CASE("a function that begins anew has left itself by a tail call") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("looped") == "0x1074");
  CHECK(library.tail_calls("looped") == "0x1072 perhaps looped");
}

TEST_CASE("a function with unknown exits has a reason") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("broken") ==
        "corrupt: the bytes at vaddr:0x10060 are not a known instruction");
  CHECK(library.returns("unended") == "unsupported: it runs on into the code after it");
  CHECK(library.returns("counted") == "unsupported: the jump out of it at vaddr:0x1006c depends on "
                                      "more than flags or a register");
  CHECK(library.returns("long") ==
        "corrupt: its 0x20 bytes at 0x101f0 are not all in an executable segment");
}

TEST_CASE("an indirect jump stays in a function whose frame is still there") {
  const OpenLibrary library(code_library(x64_library()));
  const auto tail_calls = [&](std::string_view function, bool has_frame) {
    FunctionReader reader = library.reader();
    reader.use_frames([=](const elf::Image&, VirtualAddress at) {
      constexpr std::uint8_t frame_pointer = 6;
      const bool is_indirect_jump = at.value == 0x10019 || at.value == 0x10079;
      return has_frame && is_indirect_jump
                 ? std::optional(StackFrame{.base = frame_pointer, .distance = 8})
                 : std::nullopt;
    });
    std::string text;
    const auto returns = reader.returns(library.point(function));
    for (const auto& call : returns->tail_calls)
      if (call.source) text += fmt::format("{:#x} ", call.offset.value);
    return text;
  };
  CHECK(tail_calls("f", false) == "0x1019 ");
  CHECK(tail_calls("f", true).empty());
  // The frame is not, though no unwind row covers the instruction that removed it.
  CHECK(tail_calls("torn", true) == "0x1079 ");
}

TEST_CASE("only functions of known size are read") {
  const OpenLibrary library(code_library(x64_library()));
  CHECK(library.returns("f+0x8") == "unsupported: it is not the start of the function");
  CHECK(library.returns("vaddr:0x10008") == "unsupported: it is not the start of the function");
  CHECK(library.returns("vaddr:0x10040") == "0x1042");
  CHECK(library.returns("vaddr:0x10150") ==
        "unsupported: no symbol covers it, so its start and end are not known");
  CHECK(library.returns("sizeless") ==
        "unsupported: its symbol has no size, so its end is not known");
  CHECK(library.returns("huge") ==
        "unsupported: its symbol has 0x500000 bytes, expected at most 0x400000");
}

TEST_CASE("code of other machines is not read") {
  const OpenLibrary library(
      code_library({.machine = "EM_RISCV", .symbols = function_symbol("f", 0, 0x10)}));
  CHECK(library.returns("f") == "unsupported: riscv64 code is not decoded");
}

} // namespace uprobectl::resolve
