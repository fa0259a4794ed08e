// SPDX-License-Identifier: Apache-2.0
// Parts of a function that lie elsewhere: by their names, and in stripped files by unwind data, as
// LSB core 10.6 lays them out. Machine code as GNU as assembles it.
#include "function_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

// .eh_frame_hdr: version 1, the usual encodings, three entries relative to 0x20600.
constexpr std::string_view header = "011b033b"
                                    "3c000000"
                                    "03000000"
                                    "80fafeff58000000"  // 0x10080, described at 0x20658
                                    "90fafeff6c000000"  // 0x10090, 0x2066c
                                    "a0fafeff80000000"; // 0x100a0, 0x20680

constexpr std::string_view cie = "1400000000000000017a520001781001"
                                 "1b0c070890010000";
// Each: length, distance to the CIE, start, 0x10 bytes, no augmentation data, instructions.
constexpr std::string_view inside_frame = "100000001c00000020fafeff10000000" // 0x10080
                                          "000e2000";                        // def_cfa_offset 32
constexpr std::string_view nothing_said = "10000000300000001cfafeff10000000" // 0x10090
                                          "00000000";
constexpr std::string_view sets_frame_up = "100000004400000018fafeff10000000" // 0x100a0
                                           "00410e10"; // advance_loc 1, def_cfa_offset 16

// f jumps to three pieces of code that have no symbols.
CodeLibrary stripped_library() {
  return {.code = {{0x00, "85ff"         // test %edi, %edi
                          "0f8578000000" // 0x02: jne 0x10080
                          "0f8486000000" // 0x08: je 0x10094
                          "c3"           // 0x0e: ret
                          "e98c000000"}, // 0x0f: jmp 0x100a0
                   {0x80, "c3"},         // ret
                   {0x90, "c3909090"     // ret
                          "c3"           // 0x94: ret
                          "e968ffffff"}, // 0x95: jmp f+2
                   {0xa0, "c3"}},        // ret
          .symbols = function_symbol("f", 0x00, 0x14),
          .frame_header = std::string(header),
          .frames = std::string(cie) + std::string(inside_frame) + std::string(nothing_said) +
                    std::string(sets_frame_up)};
}

constexpr std::string_view all_unknown =
    "0x1002 perhaps vaddr:0x10080 returns +0, 0x1008 perhaps vaddr:0x10094 returns +0";

} // namespace

TEST_CASE("unnamed code is part of a function if it begins inside a frame or jumps back") {
  const OpenLibrary library(code_library(stripped_library()));
  CHECK(library.returns("f") == "0x100e 0x100f 0x1080 0x1090 0x1094");
  CHECK(library.tail_calls("f").empty());
}

TEST_CASE("code with its own symbol is not a part of another function") {
  CodeLibrary named = stripped_library();
  named.symbols += function_symbol("g", 0x80, 0x10) + function_symbol("h", 0x90, 0x10);
  const OpenLibrary library(code_library(named));
  CHECK(library.returns("f") == "unsupported: it jumps into the middle of h+0x4, which jumps back");
  // ret, instead of jmp f+2.
  const OpenLibrary apart(patched(code_library(named), 0x1095, 0xc3, 1));
  CHECK(apart.returns("f") == "0x100e 0x100f");
  CHECK(apart.tail_calls("f") == "0x1002 perhaps g, 0x1008 perhaps h+0x4");
}

TEST_CASE("a cold part belongs to its function though nothing jumps there, as landing pads do") {
  CodeLibrary thrown = stripped_library();
  thrown.code = {{0x00, "c3"}, {0x80, "c3"}, {0x90, "c3"}};
  thrown.symbols += function_symbol("f.cold", 0x80, 1) + function_symbol("g.cold", 0x90, 1);
  CHECK(OpenLibrary(code_library(thrown)).returns("f") == "0x1000 0x1080");
  thrown.symbols += function_symbol("f.cold (1)", 0x90, 1); // of another local f, or of this one
  CHECK(OpenLibrary(code_library(thrown)).returns("f") == "0x1000");
}

TEST_CASE("a PLT entry without a name is not a part, though it lies inside a frame") {
  CodeLibrary with_stub = stripped_library();
  with_stub.code.push_back({0x80, "ff257aff0100"}); // jmp *0x30000(%rip): no slot that is named
  const OpenLibrary library(code_library(with_stub));
  CHECK(library.returns("f") == "0x100e 0x100f 0x1090 0x1094");
  CHECK(library.tail_calls("f") == "0x1002 perhaps vaddr:0x10080");
}

TEST_CASE("unwind data of unknown form or with contradictions are ignored") {
  const std::string bytes = code_library(stripped_library());
  const auto tail_calls = [](const std::string& changed) {
    return OpenLibrary(changed).tail_calls("f");
  };
  CHECK(tail_calls(patched(bytes, 0x2600, 2, 1)) == all_unknown);          // version
  CHECK(tail_calls(patched(bytes, 0x2603, 0x3c, 1)) == all_unknown);       // 8-byte entries
  CHECK(tail_calls(patched(bytes, 0x2608, 0, 4)) == all_unknown);          // no entries
  CHECK(tail_calls(patched(bytes, 0x2608, 0x7fffffff, 4)) == all_unknown); // beyond the file
  // The first description: elsewhere, of another address, cut short, with 200 bytes of
  // augmentation.
  const std::string second_only = "0x1002 perhaps vaddr:0x10080 returns +0";
  CHECK(tail_calls(patched(bytes, 0x2610, 0x7fffffff, 4)) == second_only);
  CHECK(tail_calls(patched(bytes, 0x2660, 0, 4)) == second_only);
  CHECK(tail_calls(patched(bytes, 0x2658, 0x7fffffff, 4)) == second_only);
  CHECK(tail_calls(patched(bytes, 0x2668, 200, 1)) == second_only);
  CHECK(tail_calls(patched(bytes, 0x2664, 0, 4)) == second_only); // it covers nothing
}

TEST_CASE("a part may have any of the function's names") {
  CodeLibrary aliased = stripped_library();
  aliased.frame_header = "00";
  aliased.symbols += function_symbol("_IO_f", 0x00, 0x14) + function_symbol("_IO_f.cold", 0x80, 1) +
                     function_symbol("f.part.0", 0x90, 0x10) + function_symbol("f.isra.0", 0xa0, 1);
  const OpenLibrary library(code_library(aliased));
  CHECK(library.returns("f") == "0x100e 0x1080 0x1090 0x1094");
  CHECK(library.returns("_IO_f") == "0x100e 0x1080 0x1090 0x1094");
  CHECK(library.tail_calls("f") == "0x100f f.isra.0");
}

} // namespace uprobectl::resolve
