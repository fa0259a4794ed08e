// SPDX-License-Identifier: Apache-2.0
#include "unwind_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t trampoline = 0x6000000000;
constexpr std::uint64_t signature = 0x0035008000000000; // above the 39 bits of an address
// /x/more.so, whose ELF addresses are those of /x/lib.so.
constexpr std::uint64_t returning = 0x5600001000;
constexpr std::string_view maps_with_uprobes =
    "5600001000-5600002000 r-xp 00001000 00:00 0 /x/more.so\n"
    "6000000000-6000001000 --xp 00000000 00:00 0 [uprobes]\n";

// A function at 0x11000 that begins with this code, whose row says all along that its frame record
// is at the frame pointer.
std::string stale(const std::string& code) {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 30, {0x0c, 31, 0});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {0x0c, 29, 16, 0x9d, 2, 0x9e, 1});
  return library_with("EM_AARCH64", frames.hex(), {}, code);
}

struct Returning : Process {
  // ret, if nothing else is said. work called it, and has its frame record at the stack pointer.
  explicit Returning(const std::string& code = "c0035fd6") : Process(maps_with_uprobes) {
    files.add("/x/more.so", stale(code));
    stack(stack_top, {0, outermost + 8, 0, 0});
  }
};

} // namespace

TEST_CASE("at a return instruction of arm64 its register has the caller") {
  for (const std::string code : {"c0035fd6", "ff0b5fd6", "ff0f5fd6"}) { // ret, retaa, retab
    INFO(code);
    Returning process(code);
    const Stack stack = process.unwind({{"pc", returning},
                                        {"sp", stack_top},
                                        {"lr", signature | (working + 8)},
                                        {"x29", stack_top}});
    CHECK(names_of(stack) == "- work+0x4 start+0x4");
    CHECK(stack.end == End::outermost);
    REQUIRE(stack.frames.size() == 3);
    CHECK(stack.frames[1].pc == working + 8);
    CHECK(stack.frames[1].found_by == FoundBy::return_instruction);
    CHECK(stack.frames[2].found_by == FoundBy::frame_data);
  }
}

TEST_CASE("a return instruction of arm64 may name another register") {
  Returning process("a0005fd6"); // ret x5
  const Stack stack = process.unwind({{"pc", returning},
                                      {"sp", stack_top},
                                      {"lr", 0x1234},
                                      {"x5", working + 8},
                                      {"x29", stack_top}});
  CHECK(names_of(stack) == "- work+0x4 start+0x4");
}

TEST_CASE("a return instruction without its register ends the stack") {
  Returning process;
  const Stack stack = process.unwind({{"pc", returning}, {"sp", stack_top}, {"x29", stack_top}});
  CHECK(names_of(stack) == "-");
  CHECK(explain_end(stack) ==
        "the caller of 0x11000 in more.so depends on a register whose value is unknown");
}

TEST_CASE("at other instructions the row holds") {
  Returning process("c0031fd6"); // br x30
  const Stack stack = process.unwind(
      {{"pc", returning}, {"sp", stack_top}, {"lr", working + 8}, {"x29", stack_top}});
  CHECK(names_of(stack) == "- start+0x4");
  CHECK(stack.frames.at(1).found_by == FoundBy::frame_data);
}

TEST_CASE("a return instruction after a call is not yet executed") {
  Returning process("1f2003d5c0035fd6"); // nop; ret
  const Stack stack = process.unwind(
      {{"pc", working}, {"sp", stack_top}, {"lr", returning + 4}, {"x29", stack_top}});
  CHECK(names_of(stack) == "work - start+0x4");
  CHECK(stack.frames.at(2).found_by == FoundBy::frame_data);
}

TEST_CASE("a thread interrupted at a return instruction continues from it") {
  Returning process;
  // struct siginfo, struct ucontext up to its registers (312 bytes), x0 to x30, sp, pc
  std::vector<std::uint64_t> frame(39 + 33, 0);
  frame[39 + 29] = stack_top;
  frame[39 + 30] = working + 8;
  frame[39 + 31] = stack_top;
  frame[39 + 32] = returning;
  process.stack(stack_top - 4096, frame);
  const Stack stack =
      process.unwind({{"pc", working}, {"sp", stack_top - 4096}, {"lr", handlers_return}});
  CHECK(names_of(stack) == "work signal - work+0x4 start+0x4");
}

TEST_CASE(
    "a return instruction that goes to a return probe's trampoline goes to the known caller") {
  Returning process;
  const KnownReturn known[] = {{stack_top, working + 8}};
  const auto unwound = [&](std::span<const KnownReturn> returns) {
    return process.unwind(
        {{"pc", returning}, {"sp", stack_top}, {"lr", trampoline}, {"x29", stack_top}},
        {.known_returns = returns});
  };
  CHECK(names_of(unwound(known)) == "- work+0x4 start+0x4");
  CHECK(names_of(unwound({})) == "-");
  CHECK(unwound({}).end == End::return_probe);
}

TEST_CASE("at a return instruction of x86-64 the return address is on top of the stack") {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 16, {0x0c, 7, 8, 0x90, 1});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {0x0c, 6, 16, 0x86, 2}); // the CFA is rbp + 16
  const auto unwound = [&](Process& process, const std::string& code) {
    process.files.add("/x/more.so", library_with("EM_X86_64", frames.hex(), {}, code));
    Registers registers(Arch::x86_64);
    registers.set(16, returning);
    registers.set(7, stack_top);
    registers.set(6, stack_top + 16);
    return unwind_stack(registers, process.memory, *process.space);
  };
  for (const std::string code : {"c3", "f3c3", "f2c3"}) {
    INFO(code);
    Process process(maps_with_uprobes);
    process.stack(stack_top, {returning + 0x108, 0, 0, returning + 0x118});
    const Stack stack = unwound(process, code);
    REQUIRE(stack.frames.size() >= 2);
    CHECK(stack.frames[1].pc == returning + 0x108);
    CHECK(stack.frames[1].found_by == FoundBy::return_instruction);
  }
  Process other(maps_with_uprobes);
  other.stack(stack_top, {returning + 0x108, 0, 0, returning + 0x118});
  CHECK(unwound(other, "90").frames.at(1).pc == returning + 0x118); // nop
  Process short_of(maps_with_uprobes);
  short_of.stack(stack_top + 16, {0, returning + 0x118});
  CHECK(explain_end(unwound(short_of, "c3")) ==
        "the saved stack does not have the bytes at 0x7ffff00100");
}

} // namespace uprobectl::unwind
