// SPDX-License-Identifier: Apache-2.0
#include "unwind_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t top = 0x7ffff00100; // a stack pointer
constexpr std::uint64_t work = load_bias + 0x11000;
constexpr std::uint64_t bare = load_bias + 0x11040;
constexpr std::uint64_t start = load_bias + 0x11080;
constexpr std::uint64_t broken = load_bias + 0x110c0;
constexpr std::uint64_t library_trampoline = load_bias + 0x11100;
constexpr std::uint64_t signed_bits = 0x0035008000000000; // above the 39 bits of an address

} // namespace

TEST_CASE("at a function's entry its first row holds, and the link register leads to the caller") {
  Process process;
  const Stack stack = process.unwind({{"pc", work}, {"sp", top}, {"lr", start + 8}});
  CHECK(names_of(stack) == "work start+0x4"); // inside of the call, 4 bytes before
  CHECK(stack.end == End::outermost);
  CHECK(stack.frames[0].pc == work);
  CHECK(stack.frames[1].pc == start + 8);
  CHECK(stack.frames[1].code->address.value == 0x11084);
  CHECK(stack.frames[1].code->offset.value == 0x1084);
  CHECK(stack.frames[1].found_by == FoundBy::frame_data);
}

TEST_CASE("after the prologue the caller is read from the stack without signature and tag") {
  Process process;
  process.stack(top, {0x7ffff00200, signed_bits | (work + 8), 0, 0, //
                      0, signed_bits | (start + 8), 0, 0});
  const Stack stack = process.unwind(
      {{"pc", signed_bits | (work + 12)}, {"sp", 0xb4ULL << 56 | top}, {"lr", 0x1234}});
  CHECK(names_of(stack) == "work+0xc work+0x4 start+0x4");
  CHECK(stack.frames[0].pc == work + 12);
  CHECK(stack.frames[1].pc == work + 8);
  CHECK(stack.end == End::outermost);
}

TEST_CASE("a stack in memory whose addresses have a tag is unwound") {
  constexpr std::uint64_t tagged = 0xb4ULL << 56 | top;
  Process process;
  process.stack(tagged, {tagged + 0x20, work + 8, 0, 0, 0, start + 8, 0, 0});
  CHECK(names_of(process.unwind({{"pc", work + 12}, {"sp", tagged}})) ==
        "work+0xc work+0x4 start+0x4");
  // The frame pointer has no tag, or another one.
  for (const std::uint64_t tag : {0x00ULL, 0x12ULL}) {
    const std::uint64_t record = tag << 56 | top;
    const Stack stack = process.unwind({{"pc", bare + 8}, {"sp", tagged}, {"x29", record}});
    CHECK(names_of(stack) == "bare+0x8 work+0x4 start+0x4");
    CHECK(stack.frames.at(1).found_by == FoundBy::frame_pointer);
  }
}

TEST_CASE("without unwind data the link register is used for the innermost frame only") {
  Process process;
  const Stack stack = process.unwind({{"pc", bare + 8}, {"sp", top}, {"lr", start + 8}});
  CHECK(names_of(stack) == "bare+0x8 start+0x4");
  CHECK(stack.frames[1].found_by == FoundBy::link_register);
  // The caller's own link register is not known.
  const Stack twice = process.unwind({{"pc", bare + 8}, {"sp", top}, {"lr", bare + 0x20}});
  CHECK(names_of(twice) == "bare+0x8");
  CHECK(twice.end == End::no_unwind_data);
  CHECK(explain_end(twice) == "there is no unwind information for 0x11048 in lib.so");
}

TEST_CASE("a link register that points back into the function is left for the frame pointer") {
  Process process;
  process.stack(top, {0, start + 8});
  const Stack stack =
      process.unwind({{"pc", bare + 8}, {"sp", top}, {"lr", bare + 0x20}, {"x29", top}});
  CHECK(names_of(stack) == "bare+0x8 start+0x4");
  CHECK(stack.frames[1].found_by == FoundBy::frame_pointer);
}

TEST_CASE("a loop of frame pointers ends the stack") {
  Process process;
  process.stack(top, {top, bare + 0x20});
  const Stack stack = process.unwind({{"pc", bare + 8}, {"sp", top}, {"x29", top}});
  CHECK(names_of(stack) == "bare+0x8 bare+0x1c");
  CHECK(stack.end == End::no_unwind_data);
}

TEST_CASE("repeated frames are a loop") {
  Process process;
  // work saves x29 at sp, and its caller is work again, 32 bytes above, which is not so here: the
  // row of its first instruction moves nothing.
  const Stack stack = process.unwind({{"pc", work}, {"sp", top}, {"lr", work}});
  CHECK(stack.end == End::loop);
  CHECK(explain_end(stack) == "the frames repeat without end");
}

TEST_CASE("why a stack ends early is reported") {
  Process process("6000000000-6000001000 r-xp 00000000 00:00 0 [uprobes]\n"
                  "6000002000-6000003000 r-xp 00000000 00:00 0 [anon:dalvik-jit-code-cache]\n"
                  "6000004000-6000005000 r-xp 00000000 00:00 0 /x/gone.so\n");
  process.stack(top, {0, 0x123456780});
  const Stack unmapped = process.unwind({{"pc", work + 8}, {"sp", top}});
  CHECK(names_of(unmapped) == "work+0x8");
  CHECK(unmapped.end == End::no_mapping);
  CHECK(explain_end(unmapped) == "0x123456780 is in no executable mapping");

  const Stack missing = process.unwind({{"pc", work + 8}, {"sp", top + 16}});
  CHECK(missing.end == End::stack_too_short);
  CHECK(explain_end(missing) == "the saved stack does not have the bytes at 0x7ffff00118");

  const Stack probed = process.unwind({{"pc", work}, {"sp", top}, {"lr", 0x6000000010}});
  CHECK(names_of(probed) == "work");
  CHECK(probed.end == End::return_probe);

  const Stack jit = process.unwind({{"pc", work}, {"sp", top}, {"lr", 0x6000002010}});
  CHECK(names_of(jit) == "work ?");
  CHECK(jit.frames[1].code->mapping == "[anon:dalvik-jit-code-cache]");
  CHECK(explain_end(jit) ==
        "there is no unwind information for 0x6000002010 in [anon:dalvik-jit-code-cache]");

  const Stack gone = process.unwind({{"pc", 0x6000004010}, {"sp", top}});
  CHECK(names_of(gone) == "-");
  CHECK(explain_end(gone) == "gone.so cannot be read: no such file");

  const Stack nowhere = process.unwind({{"pc", 0x1000}, {"sp", top}});
  CHECK(names_of(nowhere) == "?");
  CHECK(nowhere.end == End::no_mapping);

  const Stack short_of =
      process.unwind({{"pc", work}, {"sp", top}, {"lr", start + 8}}, {.max_frames = 1});
  CHECK(short_of.end == End::too_many);
  CHECK(explain_end(short_of) == "there are more than 1 frames");
}

TEST_CASE("an invalid entry only affects its function") {
  Process process;
  const Stack stack = process.unwind({{"pc", broken + 8}, {"sp", top}});
  CHECK(stack.end == End::corrupt);
  CHECK(explain_end(stack) == "the unwind information is corrupt for 0x110c8 in lib.so");
  const Stack other = process.unwind({{"pc", work}, {"sp", top}, {"lr", start + 8}});
  CHECK(other.end == End::outermost);
}

TEST_CASE("after a signal handler the stack continues at the interrupted pc") {
  Process process;
  // struct siginfo, struct ucontext up to its registers (312 bytes), x0 to x30, sp, pc
  std::vector<std::uint64_t> frame(39 + 33, 0);
  frame[39 + 30] = start + 8;  // x30
  frame[39 + 31] = top + 4096; // sp
  frame[39 + 32] = work;       // pc: nothing was called from there
  process.stack(top, frame);
  const Stack stack = process.unwind({{"pc", work}, {"sp", top}, {"lr", library_trampoline}});
  // The code to which the handler returns was not called, either.
  CHECK(names_of(stack) == "work signal work start+0x4");
  CHECK(stack.frames[2].found_by == FoundBy::signal_frame);
  CHECK(stack.frames[2].code->address.value == 0x11000);
  CHECK(stack.end == End::outermost);
}

TEST_CASE("a file is opened once, and a mapping of what is not an ELF file ends the stack") {
  Process process("6000004000-6000005000 r-xp 00000000 00:00 0 /x/text\n");
  process.files.add("/x/text", "not an ELF file");
  for (int i = 0; i < 3; ++i) process.unwind({{"pc", work}, {"sp", top}, {"lr", start + 8}});
  CHECK(process.files.opened == 1);
  const Stack stack = process.unwind({{"pc", 0x6000004010}, {"sp", top}});
  CHECK(explain_end(stack) == "text cannot be read: no ELF file is mapped there");
}

TEST_CASE("registers of another machine than the file's are rejected") {
  Process process;
  Registers registers(Arch::x86_64);
  registers.set(16, work);
  registers.set(7, top);
  const Stack stack = unwind_stack(registers, {}, *process.space);
  CHECK(stack.frames.size() == 1);
  CHECK(stack.end == End::no_unwind_data);
}

TEST_CASE("how many bits an address has follows from the highest mapping") {
  FilesInMemory files;
  ModuleCache cache;
  const auto mask = [&](std::string_view maps, Arch arch = Arch::arm64) {
    return code_mask(AddressSpace(process::parse_all_maps(maps), cache, files), arch);
  };
  CHECK(mask("5500000000-5500001000 r-xp 0 00:00 0 /a\n") == (1ULL << 39) - 1);
  CHECK(mask("7ffffff000-8000000000 rw-p 0 00:00 0 [stack]\n") == (1ULL << 39) - 1);
  CHECK(mask("ffffb0000000-ffffb0001000 r-xp 0 00:00 0 /a\n") == (1ULL << 48) - 1);
  CHECK(mask("ffffb0000000-ffffb0001000 r-xp 0 00:00 0 /a\n", Arch::x86_64) == ~0ULL);
}

} // namespace uprobectl::unwind
