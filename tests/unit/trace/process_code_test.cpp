// SPDX-License-Identifier: Apache-2.0
#include "trace/process_code.hpp"

#include "mapped_here.hpp"
#include "process/child.hpp"
#include "process/mapping_kind.hpp"
#include "process/proc.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sys/wait.h>

namespace uprobectl::trace {

using namespace uprobectl::test;

namespace {

std::optional<process::Mapping> replaced(std::string_view maps, std::size_t number) {
  const std::vector<process::Mapping> mappings = process::parse_all_maps(maps);
  REQUIRE(number < mappings.size());
  return find_replaced_code(mappings, number);
}

// A file of two pages of 0x41, mapped executable into this process, and an instruction of five
// bytes at 0x1010.
struct MappedCode {
  MappedCode() : folder(temporary_folder()), mapped(folder + "/code", std::string(8192, 'A')) {}
  ~MappedCode() { std::filesystem::remove_all(folder); }

  // Writes to the copy of this process.
  void write(std::string_view bytes) const {
    auto* const at = static_cast<char*>(mapped.start) + 0x1010;
    REQUIRE(::mprotect(mapped.start, 8192, PROT_READ | PROT_WRITE) == 0);
    std::memcpy(at, bytes.data(), bytes.size());
    REQUIRE(::mprotect(mapped.start, 8192, PROT_READ | PROT_EXEC) == 0);
  }

  process::CodeSurvey look(process::CodeState expected) const {
    const std::array<process::ProbedFile, 1> files = {process::ProbedFile{
        .real_path = mapped.path, .identity = identity_of(mapped.path), .offset = {0x1010}}};
    const std::array<process::ProbedCode, 1> code = {
        process::ProbedCode{.instruction = as_bytes("AAAAA"), .breakpoint = as_bytes("\xcc")}};
    process::MappingSurveyor surveyor(files, code, expected);
    surveyor.add(::getpid());
    return surveyor.take_code();
  }

  std::string folder;
  MappedHere mapped;
};

std::string describe(Arch arch, std::string_view bytes) {
  const std::vector<process::Mapping> mappings =
      process::parse_all_maps("5000-6000 r-xp 00000000 00:00 0 \n"
                              "6000-7000 r-xp 00000000 08:01 7                  /lib/libhook.so\n");
  return describe_code(arch, as_bytes(bytes), 0x1000, mappings, nullptr);
}

} // namespace

TEST_CASE("anonymous memory between two pieces of a file is what it replaced") {
  const auto whole = replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                              "401000-403000 r-xp 00000000 00:00 0 \n"
                              "403000-404000 r--p 00003000 08:01 7      /bin/p\n",
                              1);
  REQUIRE(whole);
  CHECK(whole->path == "/bin/p");
  CHECK(whole->identity.inode == 7);
  CHECK(whole->offset == FileOffset{0x1000});
  CHECK(whole->start == 0x401000);
  CHECK(whole->executable);

  // Only some pages, in two pieces. One has a name.
  const std::string_view pieces = "400000-402000 r-xp 00001000 08:01 7      /bin/p\n"
                                  "402000-403000 r-xp 00000000 00:00 0 \n"
                                  "403000-405000 r-xp 00000000 00:00 0      [anon:text]\n"
                                  "405000-406000 r-xp 00006000 08:01 7      /bin/p\n";
  REQUIRE(replaced(pieces, 2));
  CHECK(replaced(pieces, 1)->offset == FileOffset{0x3000});
  CHECK(replaced(pieces, 2)->offset == FileOffset{0x4000});
  CHECK_FALSE(replaced(pieces, 0));
}

TEST_CASE("segments that share pages of the file are distinguished from those that do not") {
  // lld: .text is at 0x600 of the file and 0x201600, the next segment at 0x1e00 and 0x203e00.
  const auto found = replaced("200000-201000 r--p 00000000 08:01 7      /bin/p\n"
                              "201000-203000 r-xp 00000000 00:00 0 \n"
                              "203000-204000 r--p 00001000 08:01 7      /bin/p\n",
                              1);
  REQUIRE(found);
  CHECK(found->offset == FileOffset{0});
}

TEST_CASE("other anonymous memory is not taken for code of a file") {
  // Compiled code of another size than the gap, between different files, after a gap; the
  // kernel's.
  CHECK_FALSE(replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                       "401000-403000 r-xp 00000000 00:00 0 \n"
                       "403000-404000 r--p 00002000 08:01 7      /bin/p\n",
                       1));
  CHECK_FALSE(replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                       "401000-403000 r-xp 00000000 00:00 0 \n"
                       "403000-404000 r--p 00003000 08:01 8      /bin/q\n",
                       1));
  CHECK_FALSE(replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                       "402000-403000 r-xp 00000000 00:00 0 \n"
                       "403000-404000 r--p 00003000 08:01 7      /bin/p\n",
                       1));
  CHECK_FALSE(replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                       "401000-403000 r-xp 00000000 00:00 0      [uprobes]\n"
                       "403000-404000 r--p 00003000 08:01 7      /bin/p\n",
                       1));
  CHECK_FALSE(replaced("400000-401000 r--p 00000000 08:01 7      /bin/p\n"
                       "401000-403000 rw-p 00000000 00:00 0 \n"
                       "403000-404000 r--p 00003000 08:01 7      /bin/p\n",
                       1));
}

TEST_CASE("the memory of a process is compared with the instruction of the file") {
  const MappedCode code;
  CHECK(code.look(process::CodeState::intact).findings[0].empty());
  const process::CodeSurvey without = code.look(process::CodeState::breakpoint);
  REQUIRE(without.findings[0].size() == 1);
  CHECK(without.findings[0][0].state == process::CodeState::intact);
  CHECK(without.findings[0][0].pid == ::getpid());
  CHECK(without.findings[0][0].address == code.mapped.address() + 0x1010);
  CHECK(without.findings[0][0].takes_breakpoints);

  code.write("\xcc");
  CHECK(code.look(process::CodeState::breakpoint).findings[0].empty());
  REQUIRE(code.look(process::CodeState::intact).findings[0].size() == 1);
  CHECK(code.look(process::CodeState::intact).findings[0][0].state ==
        process::CodeState::breakpoint);

  // A jump over the first byte, a change after a breakpoint, one after the instruction.
  code.write("\xe9");
  REQUIRE(code.look(process::CodeState::intact).findings[0].size() == 1);
  CHECK(code.look(process::CodeState::intact).findings[0][0].state == process::CodeState::changed);
  CHECK(
      code.look(process::CodeState::intact).findings[0][0].found ==
      std::vector{std::byte{0xe9}, std::byte{'A'}, std::byte{'A'}, std::byte{'A'}, std::byte{'A'}});
  code.write("\xcc\x41\x41\x41\x42");
  CHECK(code.look(process::CodeState::intact).findings[0][0].state == process::CodeState::changed);
  code.write("AAAAAB");
  CHECK(code.look(process::CodeState::intact).findings[0].empty());
}

TEST_CASE("mappings without breakpoints are recognized by their kind") {
  const MappedCode code;
  CHECK(code.look(process::CodeState::intact).is_probeable[0]);
  CHECK(code.look(process::CodeState::intact).unprobeable[0].empty());
  // The first page has no probe.
  REQUIRE(::mprotect(code.mapped.start, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  CHECK(code.look(process::CodeState::intact).unprobeable[0].empty());
  REQUIRE(::mprotect(code.mapped.start, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  const process::CodeSurvey writable = code.look(process::CodeState::breakpoint);
  CHECK_FALSE(writable.is_probeable[0]);
  CHECK(writable.unprobeable[0] ==
        std::vector{process::UnprobeableMapping{::getpid(), process::MappingObstacle::writable}});
  REQUIRE(writable.findings[0].size() == 1);
  CHECK_FALSE(writable.findings[0][0].takes_breakpoints);

  REQUIRE(::mprotect(code.mapped.start, 8192, PROT_READ | PROT_EXEC) == 0);
  const int fd = ::open(code.mapped.path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 4096);
  ::close(fd);
  REQUIRE(shared != MAP_FAILED);
  const process::CodeSurvey both = code.look(process::CodeState::intact);
  ::munmap(shared, 4096);
  CHECK(both.is_probeable[0]);
  CHECK(both.unprobeable[0] ==
        std::vector{process::UnprobeableMapping{::getpid(), process::MappingObstacle::shared}});
}

TEST_CASE("code that is not the file's is described by where it leads") {
  using namespace std::string_view_literals;
  CHECK(describe(Arch::x86_64, "\xe9\x0b\x50\x00\x00\x90"sv) ==
        "a jump to 0x6010 in /lib/libhook.so");
  CHECK(describe(Arch::x86_64, "\xe8\xfb\x3f\x00\x00\x90"sv) ==
        "a call to 0x5000 in anonymous memory");
  CHECK(describe(Arch::x86_64, "\xeb\x7f"sv) == "a jump to 0x1081 in memory that is not mapped");
  CHECK(describe(Arch::x86_64, "\xb8\x01\x00\x00\x00"sv) == "'movl $0x1, %eax'");
  // b 0x6000; bl 0xffc, backwards; ldr x17, .+8; br x17; .quad 0x6008
  CHECK(describe(Arch::arm64, "\x00\x14\x00\x14"sv) == "a jump to 0x6000 in /lib/libhook.so");
  CHECK(describe(Arch::arm64, "\xff\xff\xff\x97"sv) ==
        "a call to 0xffc in memory that is not mapped");
  CHECK(describe(Arch::arm64, "\x51\x00\x00\x58\x20\x02\x1f\xd6\x08\x60\0\0\0\0\0\0"sv) ==
        "a jump to 0x6008 in /lib/libhook.so");
  CHECK(describe(Arch::arm64, "\x00\x00\x20\xd4"sv) == "'brk #0'");
}

TEST_CASE("the signal that has ended a process is known from its pidfd, where the kernel tells") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const UniqueFd pidfd = process::open_pidfd(child);
  CHECK_FALSE(process::read_end_signal(pidfd.get()));
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  if (const auto signal = process::read_end_signal(pidfd.get())) CHECK(*signal == SIGKILL);
}

} // namespace uprobectl::trace
