// SPDX-License-Identifier: Apache-2.0
#include "unwind_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <zlib.h>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t unknown_code = load_bias + 0x11040;
constexpr std::uint64_t return_trampoline = 0x6000000000;
// /x/more.so, whose ELF addresses are those of /x/lib.so.
constexpr std::uint64_t more = 0x5600001000 - 0x11000;
constexpr std::string_view more_maps = "5600001000-5600002000 r-xp 00001000 00:00 0 /x/more.so\n";

// struct siginfo, struct ucontext up to its registers (312 bytes), x0 to x30, sp, pc
std::vector<std::uint64_t> signal_frame(std::uint64_t link, std::uint64_t pc) {
  std::vector<std::uint64_t> frame(39 + 33, 0);
  frame[39 + 30] = link;
  frame[39 + 31] = stack_top + 4096;
  frame[39 + 32] = pc;
  return frame;
}

Stack unwind_x86_64(Process& process, std::uint64_t pc, const UnwindLimits& limits = {}) {
  Registers registers(Arch::x86_64);
  registers.set(16, pc);
  registers.set(7, stack_top);
  return unwind_stack(registers, process.memory, *process.space, limits);
}

} // namespace

TEST_CASE("a return probe's trampoline is the first byte of its mapping") {
  // The kernel maps it without r.
  const std::string probes = "6000000000-6000001000 --xp 00000000 00:00 0 [uprobes]\n";
  const std::string neighbour = "5ffffff000-6000000000 r-xp 00000000 00:00 0 [anon:code]\n";
  for (const std::string& maps : {probes, neighbour + probes}) {
    Process process(maps);
    process.stack(stack_top, {0, return_trampoline});
    const Stack by_row =
        process.unwind({{"pc", working}, {"sp", stack_top}, {"lr", return_trampoline}});
    CHECK(names_of(by_row) == "work");
    CHECK(by_row.end == End::return_probe);
    const Stack by_link =
        process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"lr", return_trampoline}});
    CHECK(names_of(by_link) == "bare+0x8");
    CHECK(by_link.end == End::return_probe);
    const Stack by_record =
        process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"x29", stack_top}});
    CHECK(names_of(by_record) == "bare+0x8");
    CHECK(by_record.end == End::return_probe);
  }
}

TEST_CASE("a known return address replaced by a return probe is restored") {
  const std::string probes = "6000000000-6000001000 --xp 00000000 00:00 0 [uprobes]\n";
  Process process(probes);
  process.stack(stack_top, {0, return_trampoline});
  // When work was entered the stack pointer was what the caller's will be.
  const KnownReturn known[] = {{stack_top, outermost + 0x20}, {stack_top + 32, outermost + 8}};
  const auto unwound = [&](std::span<const KnownReturn> returns) {
    return process.unwind({{"pc", working + 4}, {"sp", stack_top}, {"lr", return_trampoline}},
                          {.known_returns = returns});
  };
  const Stack whole = unwound(known);
  CHECK(names_of(whole) == "work+0x4 start+0x4");
  CHECK(whole.end == End::outermost);
  CHECK(whole.frames[1].pc == outermost + 8);
  const Stack without = unwound(std::span(known).first(1));
  CHECK(names_of(without) == "work+0x4");
  CHECK(without.end == End::return_probe);
  // A known return address that is the trampoline itself is useless.
  const KnownReturn useless[] = {{stack_top + 32, return_trampoline}};
  CHECK(unwound(useless).end == End::return_probe);
  // Nor does it hide another of the same stack pointer, as functions have that end by a jump.
  const KnownReturn both[] = {useless[0], known[1]};
  CHECK(names_of(unwound(both)) == "work+0x4 start+0x4");
}

TEST_CASE("on x86-64 the replaced return address lay where the stack pointer was") {
  Process process("6000000000-6000001000 --xp 00000000 00:00 0 [uprobes]\n");
  process.stack(stack_top, {return_trampoline, 0, 0});
  const KnownReturn known[] = {{stack_top, outermost + 8}};
  const Stack stack =
      unwind_x86_64(process, unknown_code, {.at_function_entry = true, .known_returns = known});
  REQUIRE(stack.frames.size() == 2);
  CHECK(stack.frames[1].pc == outermost + 8);
}

TEST_CASE("a thread that is in the kernel's code for probes has a frame there") {
  Process process("6000000000-6000001000 --xp 00000000 00:00 0 [uprobes]\n");
  const Stack stack = process.unwind({{"pc", return_trampoline + 0x80}, {"sp", stack_top}});
  CHECK(names_of(stack) == "?");
  CHECK(explain_end(stack) == "there is no unwind information for 0x6000000080 in [uprobes]");
}

TEST_CASE("a function that has called another and kept no return address ends the stack") {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 30, {0x0c, 31, 0});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {});         // nothing is said of x30
  frames.fde(frames_at, cie_at, 0x11040, 0x40, {0x08, 30}); // x30 is the caller's
  for (const std::uint64_t function : {0x11000, 0x11040}) {
    Process process(more_maps);
    process.files.add("/x/more.so", library_with("EM_AARCH64", frames.hex()));
    // A frame record is there, but it is not known to be this function's.
    process.stack(stack_top, {0, outermost + 8});
    const Stack stack = process.unwind(
        {{"pc", working}, {"sp", stack_top}, {"lr", more + function + 8}, {"x29", stack_top}});
    REQUIRE(stack.frames.size() == 2);
    CHECK(stack.frames[1].pc == more + function + 8);
    CHECK(explain_end(stack) == "the function at " +
                                    std::string(function == 0x11000 ? "0x11004" : "0x11044") +
                                    " in more.so has not saved its return address");
  }
}

TEST_CASE("a function without return address is the outermost") {
  Process process;
  // After a frame record no stack pointer is known, from which the outermost function counts.
  process.stack(stack_top, {0, outermost + 8});
  const Stack stack =
      process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"x29", stack_top}});
  CHECK(names_of(stack) == "bare+0x8 start+0x4");
  CHECK(explain_end(stack) == "the stack ends here");
}

TEST_CASE("a frame record that returns to 0 is the outermost") {
  Process process;
  process.stack(stack_top, {0, 0});
  const Stack stack =
      process.unwind({{"pc", unknown_code + 8}, {"sp", stack_top}, {"x29", stack_top}});
  CHECK(names_of(stack) == "bare+0x8");
  CHECK(explain_end(stack) == "the stack ends here");
}

TEST_CASE("a call through a null pointer is where the signal came") {
  Process process;
  process.stack(stack_top, signal_frame(outermost + 8, 0));
  const Stack stack = process.unwind({{"pc", working}, {"sp", stack_top}, {"lr", handlers_return}});
  CHECK(names_of(stack) == "work signal ? start+0x4");
  REQUIRE(stack.frames.size() == 4);
  CHECK(stack.frames[2].pc == 0);
  CHECK(stack.frames[2].found_by == FoundBy::signal_frame);
  CHECK(stack.frames[3].pc == outermost + 8);
  CHECK(stack.frames[3].found_by == FoundBy::function_entry);
  CHECK(explain_end(stack) == "the stack ends here");
}

TEST_CASE("a call to an address outside of code continues with the return address") {
  constexpr std::uint64_t nowhere = 0x1234567000;
  Process process;
  for (const std::uint64_t pc : {std::uint64_t{0}, nowhere}) {
    const Stack stack = process.unwind({{"pc", pc}, {"sp", stack_top}, {"lr", outermost + 8}});
    CHECK(names_of(stack) == "? start+0x4");
    CHECK(explain_end(stack) == "the stack ends here");
  }
  // x86-64 has pushed it.
  process.stack(stack_top, {outermost + 8});
  const Stack pushed = unwind_x86_64(process, 0);
  REQUIRE(pushed.frames.size() == 2);
  CHECK(pushed.frames[1].pc == outermost + 8);
  CHECK(pushed.frames[1].found_by == FoundBy::function_entry);
  // An address outside of code is not taken for a return address, either.
  Process lost;
  lost.stack(stack_top, {nowhere});
  const Stack neither = unwind_x86_64(lost, 0);
  CHECK(neither.frames.size() == 1);
  CHECK(explain_end(neither) == "0x0 is in no executable mapping");
}

TEST_CASE("a register that was not given is reported as that") {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 30, {0x0c, 31, 0});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {0x09, 30, 5}); // x30 is in x5
  frames.fde(frames_at, cie_at, 0x11040, 0x40, {0x0c, 6, 0});  // the CFA is x6
  Process process(more_maps);
  process.files.add("/x/more.so", library_with("EM_AARCH64", frames.hex()));
  const Stack back = process.unwind({{"pc", more + 0x11008}, {"sp", stack_top}});
  CHECK(explain_end(back) ==
        "the caller of 0x11008 in more.so depends on a register whose value is unknown");
  const Stack frame = process.unwind({{"pc", more + 0x11048}, {"sp", stack_top}});
  CHECK(explain_end(frame) ==
        "the caller of 0x11048 in more.so depends on a register whose value is unknown");
}

TEST_CASE("a link register that was not given is reported as that, and no caller is left out") {
  Process process;
  // The record is the caller's: where it leads to is one further.
  process.stack(stack_top, {0, outermost + 8});
  const Stack stack = process.unwind({{"pc", working}, {"sp", stack_top}, {"x29", stack_top}});
  CHECK(names_of(stack) == "work");
  CHECK(explain_end(stack) ==
        "the caller of 0x11000 in lib.so depends on a register whose value is unknown");
}

TEST_CASE("a register that an expression reads and that was not given is reported as that") {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 30, {0x0c, 31, 0});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {0x0f, 2, 0x76, 0, 0x9e, 1}); // the CFA is x6 + 0
  Process process(more_maps);
  process.files.add("/x/more.so", library_with("EM_AARCH64", frames.hex()));
  const Stack stack = process.unwind({{"pc", more + 0x11008}, {"sp", stack_top}});
  CHECK(explain_end(stack) ==
        "the caller of 0x11008 in more.so depends on a register whose value is unknown");
}

TEST_CASE("at a function's entry a stack that was not saved is reported") {
  Process process(more_maps);
  process.files.add("/x/more.so", library_with("EM_X86_64", {}));
  const Stack stack = unwind_x86_64(process, more + 0x11010, {.at_function_entry = true});
  CHECK(stack.frames.size() == 1);
  CHECK(explain_end(stack) == "the saved stack does not have the bytes at 0x7ffff00100");
}

TEST_CASE("where the table for call frame information leads elsewhere its section is read too") {
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 16, {0x0c, 7, 8, 0x90, 1});
  frames.fde(frames_at, cie_at, 0x11000, 0x40, {});
  // Version 1, relative addresses, no rows: .eh_frame is at 0x11600, where there are zeros.
  for (const std::string header : {"011bffff"
                                   "fcfeffff",
                                   "011bffff"
                                   "fc000000"}) {
    Process process(more_maps);
    process.files.add("/x/more.so", library_with("EM_X86_64", frames.hex(), header));
    process.stack(stack_top, {more + 0x11048});
    const Stack stack = unwind_x86_64(process, more + 0x11000);
    REQUIRE(stack.frames.size() == 2);
    CHECK(stack.frames[1].pc == more + 0x11048);
    CHECK(stack.frames[1].found_by == FoundBy::frame_data);
  }
}

namespace {

std::string deflated(const std::string& bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string content(size, '\0');
  REQUIRE(::compress(reinterpret_cast<Bytef*>(content.data()), &size,
                     reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == Z_OK);
  content.resize(size);
  return content;
}

// Elf64_Chdr: type, what fills it up, size, alignment.
std::string with_header(const std::string& bytes, std::uint64_t size, unsigned type = 1) {
  return FrameBytes().number(4, type).number(4, 0).number(8, size).number(8, 1).bytes +
         deflated(bytes);
}

std::string with_magic(const std::string& bytes) {
  std::string size;
  for (int shift = 56; shift >= 0; shift -= 8) size += static_cast<char>(bytes.size() >> shift);
  return "ZLIB" + size + deflated(bytes);
}

// As Go's linker writes it: main.add at 0x11000 and runtime.goexit at 0x11040, 0x40 bytes each, of
// both of which it knows the caller.
std::string go_frames(Arch arch) {
  const bool x86 = arch == Arch::x86_64;
  FrameBytes cie;
  cie.number(4, 0xffffffff).put({3}).text("");
  if (x86)
    cie.put({1, 0x78, 16, 0x0c, 7, 8, 0x90, 1}); // CFA rsp + 8, return address below it
  else
    cie.put({1, 0x78, 30, 0x0c, 31, 0, 0x08, 30}); // CFA sp, x30 is the caller's
  FrameBytes data;
  data.number(4, cie.at()).bytes += cie.bytes;
  for (const std::uint64_t begin : {0x11000, 0x11040}) {
    FrameBytes fde;
    fde.number(4, 0).number(8, begin).number(8, 0x40);
    if (!x86) fde.put({0x44, 0x0e, 32, 0x9e, 4}); // from 4 on CFA sp + 32, x30 at its begin
    data.number(4, fde.at()).bytes += fde.bytes;
  }
  return data.bytes;
}

std::string go_program(Arch arch, std::string_view section, std::string_view flags,
                       const std::string& content) {
  return elf_from_yaml(fmt::format(R"(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x11000, Offset: 0x1000, FileSize: 0x80, MemSize: 0x80, Align: 0x1000, FirstSec: .text, LastSec: .text }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x11000, Offset: 0x1000, Size: 0x80 }}
  - {{ Name: {}, Type: SHT_PROGBITS, Flags: [ {} ], Content: "{}" }}
Symbols:
  - {{ Name: main.add, Type: STT_FUNC, Section: .text, Value: 0x11000, Size: 0x40 }}
  - {{ Name: runtime.goexit.abi0, Type: STT_FUNC, Section: .text, Value: 0x11040, Size: 0x40 }}
)",
                                   arch == Arch::x86_64 ? "EM_X86_64" : "EM_AARCH64", section,
                                   flags, FrameBytes{content}.hex()));
}

// The names of its frames, and why it ends: from within main.add, which a goroutine runs.
std::pair<std::string, End> unwind_go(Arch arch, const std::string& program) {
  Process process("5700001000-5700002000 r-xp 00001000 00:00 0 /x/go\n");
  process.files.add("/x/go", program);
  constexpr std::uint64_t code = 0x5700001000;
  process.stack(stack_top, {code + (arch == Arch::x86_64 ? 0x41 : 0x44), code + 0x8, code + 0x8,
                            code + 0x8, code + 0x8});
  Registers registers(arch);
  registers.set(arch == Arch::x86_64 ? 16 : 32, code + 0x8);
  registers.set(arch == Arch::x86_64 ? 7 : 31, stack_top);
  const Stack stack = unwind_stack(registers, process.memory, *process.space);
  return {names_of(stack), stack.end};
}

} // namespace

TEST_CASE("a compressed .debug_frame is read, and a goroutine's stack ends where that begins") {
  for (const Arch arch : {Arch::x86_64, Arch::arm64}) {
    const std::string frames = go_frames(arch);
    for (const std::string& program :
         {go_program(arch, ".debug_frame", "", frames),
          go_program(arch, ".debug_frame", "SHF_COMPRESSED", with_header(frames, frames.size())),
          go_program(arch, ".zdebug_frame", "", with_magic(frames))}) {
      const auto [names, end] = unwind_go(arch, program);
      CHECK(names == "main.add+0x8 runtime.goexit.abi0");
      CHECK(end == End::outermost);
    }
  }
}

TEST_CASE("a .debug_frame that cannot be inflated is ignored") {
  const std::string frames = go_frames(Arch::x86_64);
  const std::string whole = with_header(frames, frames.size());
  const auto end_with = [](std::string_view name, std::string_view flags,
                           const std::string& content) {
    const auto [names, end] =
        unwind_go(Arch::x86_64, go_program(Arch::x86_64, name, flags, content));
    CHECK(names == "main.add+0x8");
    return end;
  };
  const std::string_view flags = "SHF_COMPRESSED";
  CHECK(end_with(".debug_frame", flags, whole.substr(0, 23)) == End::no_unwind_data);
  CHECK(end_with(".debug_frame", flags, whole.substr(0, whole.size() - 5)) == End::no_unwind_data);
  CHECK(end_with(".debug_frame", flags, with_header(frames, frames.size(), 2)) ==
        End::no_unwind_data); // zstd
  for (const std::uint64_t size : {frames.size() - 1, frames.size() + 1, std::size_t{1} << 26,
                                   std::size_t{1} << 62, ~std::size_t{0}})
    CHECK(end_with(".debug_frame", flags, with_header(frames, size)) == End::no_unwind_data);
  CHECK(end_with(".zdebug_frame", "", frames) == End::no_unwind_data);
  CHECK(end_with(".zdebug_frame", "", "ZLIB\1") == End::no_unwind_data);
}

} // namespace uprobectl::unwind
