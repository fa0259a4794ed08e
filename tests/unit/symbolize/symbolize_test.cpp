// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "oat_samples.hpp"
#include "output/output.hpp"
#include "unwind/live.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::symbolize {

using namespace uprobectl::test;

// Exported to the symbol table under a unique name.
extern "C" [[gnu::noinline]] long symbolize_test_here(long n) {
  asm volatile("" ::: "memory");
  return n + 1;
}

namespace {

std::uint64_t address_of_here() { return reinterpret_cast<std::uint64_t>(&symbolize_test_here); }

// The point in this very program.
resolve::ProbePoint here() {
  const auto target = resolve::Target::open("/proc/self/exe");
  REQUIRE(target);
  const std::string name = "symbolize_test_here";
  auto points = target->resolve(*resolve::parse_function(name));
  REQUIRE(points);
  return std::move(points->front());
}

// "f", "f+0x4", "f@plt", "-" where nothing covers the address.
std::string text_of(const std::optional<std::string>& symbol, bool is_plt_entry,
                    std::uint64_t offset) {
  if (!symbol) return "-";
  return *symbol + (is_plt_entry ? "@plt" : "") +
         (offset == 0 ? std::string() : fmt::format("+{:#x}", offset));
}

std::string by_resolve(const resolve::Target& target, std::uint64_t address) {
  const std::string text = fmt::format("vaddr:{:#x}", address);
  const auto points = target.resolve(*resolve::parse_function(text), {.unsafe = true});
  REQUIRE(points);
  const resolve::ProbePoint& point = points->front();
  return text_of(point.symbol, point.kind == symbols::SymbolKind::plt, point.symbol_offset);
}

std::string by_frame(Module& module, std::uint64_t address) {
  const auto frame = module.frame({address});
  if (!frame->function) return "-";
  return text_of(frame->function->symbol, frame->function->is_plt_entry, frame->function->offset);
}

// Compares both results for each address, twice, because an index may give the second one.
void check_names(const std::string& path, const std::map<std::uint64_t, std::string>& expected,
                 const std::vector<std::string>& debug_paths = {}, FileOffset begin = {}) {
  const auto target = resolve::Target::open(path, {.debug_paths = debug_paths});
  REQUIRE(target);
  ModuleCache cache({.paths = debug_paths});
  const auto file = std::make_shared<const MappedFile>(*MappedFile::open(path));
  const elf::Segment* code = nullptr;
  for (const elf::Segment& segment : target->image()->segments())
    if (segment.executable) code = &segment;
  REQUIRE(code);
  const auto found = cache.find(file, path, {begin.value + code->offset.value});
  REQUIRE(found);
  for (int times = 0; times < 2; ++times)
    for (const auto& [address, name] : expected) {
      INFO(fmt::format("{:#x}", address));
      CHECK(by_resolve(*target, address) == name);
      CHECK(by_frame(*found->module, address) == name);
    }
}

} // namespace

TEST_CASE("a number and a frame are named alike: functions, gaps, aliases, labels") {
  const Folder folder;
  const std::string path = folder.put("lib.so", elf_from_yaml(R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x400, MemSize: 0x400, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x400 }
Symbols:
  - { Name: longer_first, Type: STT_FUNC, Section: .text, Value: 0x1100, Size: 0x40, Binding: STB_GLOBAL }
  - { Name: short, Type: STT_FUNC, Section: .text, Value: 0x1100, Size: 0x40, Binding: STB_GLOBAL }
  - { Name: weak, Type: STT_FUNC, Section: .text, Value: 0x1180, Size: 0x40, Binding: STB_WEAK }
  - { Name: strong, Type: STT_FUNC, Section: .text, Value: 0x1180, Size: 0x40, Binding: STB_GLOBAL }
  - { Name: outer, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x100 }
  - { Name: inner, Type: STT_FUNC, Section: .text, Value: 0x1040, Size: 0x10 }
  - { Name: label, Section: .text, Value: 0x1200 }
  - { Name: _ZN2ns1fEi, Type: STT_FUNC, Section: .text, Value: 0x1300, Size: 0x10 }
)"));
  check_names(path, {{0x1000, "outer"},
                     {0x1044, "inner+0x4"},
                     {0x1050, "outer+0x50"},
                     {0x1110, "longer_first+0x10"},
                     {0x1150, "-"},
                     {0x1184, "strong+0x4"},
                     {0x1200, "label"},
                     {0x12ff, "label+0xff"},
                     {0x1304, "_ZN2ns1fEi+0x4"},
                     {0x1320, "-"}});
}

TEST_CASE("a symbol without a size does not extend over what signal handlers return to") {
  const Folder folder;
  // mov $15, %rax; syscall. mov x8, #139; svc #0. At 0x1010 and 0x1040.
  for (const auto& [machine, code] : {std::pair("EM_X86_64", "48c7c00f0000000f05909090"),
                                      std::pair("EM_AARCH64", "681180d2010000d41f2003d5")}) {
    const std::string text =
        std::string(32, '0') + code + std::string(std::size_t{2} * (0x30 - 12), '0') + code;
    const std::string path = folder.put(machine, elf_from_yaml(fmt::format(R"(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x100, MemSize: 0x100, FirstSec: .text, LastSec: .text }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x100, Content: "{}" }}
Symbols:
  - {{ Name: before, Section: .text, Value: 0x1000 }}
  - {{ Name: named, Section: .text, Value: 0x1040 }}
)",
                                                                           machine, text)));
    check_names(path, {{0x1000, "before"},
                       {0x100c, "before+0xc"},
                       {0x1010, "-"},
                       {0x1014, "-"},
                       {0x1020, "before+0x20"},
                       {0x1040, "named"},
                       {0x1044, "named+0x4"}});
  }
}

TEST_CASE("a number and a frame are named alike: PLT entries and what lies before them") {
  const Folder folder;
  const std::string path = folder.put("lib.so", arm64_plt_elf("0204", ".plt"));
  check_names(path, {{0x10000, "-"}, {0x10008, "ext@plt"}, {0x1000c, "ext@plt+0x4"}});
}

TEST_CASE("a number and a frame are named alike: .gnu_debugdata and debug files") {
  const std::map<std::uint64_t, std::string> names = {
      {0x201044, "local_one+0x4"}, {0x201080, "_ZN2ns1fEi"}, {0x2010a0, "-"}, {0x2010cc, "f+0xc"}};
  const Folder folder;
  check_names(folder.put("embedded.so", stripped_elf({.debug_data = xz(symbols_elf())})), names);
  const std::string stripped = folder.put("stripped.so", stripped_elf({}));
  check_names(stripped, {{0x201044, "-"}, {0x201080, "-"}});
  check_names(stripped, names, {folder.put("symbols/stripped.debug", symbols_elf())});
}

TEST_CASE("a number and a frame are named alike: methods of OAT files") {
  for (const char* name : {"v138", "v244"}) {
    const OatSample sample = made_sample(name);
    std::map<std::string, std::vector<std::string>> methods; // by offset
    for (const auto& row : read_table(sample.list))
      if (row.at(0) != "-") methods[row.at(0)].push_back(row.at(1));
    REQUIRE_FALSE(methods.empty());
    const auto target = resolve::Target::open(sample.oat);
    REQUIRE(target);
    ModuleCache cache;
    const auto file = std::make_shared<const MappedFile>(*MappedFile::open(sample.oat));
    for (const auto& [offset, signatures] : methods) {
      const FileOffset at{std::stoull(offset, nullptr, 16)};
      const auto found = cache.find(file, sample.oat, at);
      REQUIRE(found);
      const std::string named = by_frame(*found->module, found->address.value);
      CHECK(std::ranges::find(signatures, named) != signatures.end());
      CHECK(by_resolve(*target, found->address.value) == named);
    }
  }
}

TEST_CASE("frames of the kernel's walk are named by their files, callers by their calls") {
  unwind::LiveProcesses processes({});
  const std::uint64_t address = address_of_here();
  // Whatever returns to the function's own start was called by what lies before it.
  const std::uint64_t addresses[] = {address, address + 4, 0x10};
  const auto stack = processes.make_stack(::getpid(), 0, addresses);
  REQUIRE(stack.frames.size() == 3);
  REQUIRE(stack.frames[0].symbolized());
  REQUIRE(stack.frames[0].symbolized()->function);
  CHECK(stack.frames[0].symbolized()->function->symbol == "symbolize_test_here");
  CHECK(stack.frames[0].symbolized()->function->offset == 0);
  CHECK(stack.frames[1].pc == address + 4);
  REQUIRE(stack.frames[1].symbolized()->function);
  CHECK(stack.frames[1].symbolized()->function->symbol == "symbolize_test_here");
#if defined(__aarch64__)
  CHECK(stack.frames[1].symbolized()->function->offset == 0);
#else
  CHECK(stack.frames[1].symbolized()->function->offset == 3);
#endif
  CHECK_FALSE(stack.frames[2].code);
  CHECK(output::display_frame(stack.frames[2]) == "0x10");
}

TEST_CASE("frames in memory that is not a file are named by that") {
  constexpr std::size_t size = 0x1000;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const UniqueFd fd{::memfd_create("jit-cache", MFD_CLOEXEC)};
  REQUIRE(::ftruncate(fd.get(), size) == 0);
  void* const compiled = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_SHARED, fd.get(), 0);
  REQUIRE(compiled != MAP_FAILED);
  unwind::LiveProcesses processes({});
  const std::uint64_t addresses[] = {reinterpret_cast<std::uint64_t>(memory) + 16,
                                     reinterpret_cast<std::uint64_t>(compiled) + 16};
  const auto stack = processes.make_stack(::getpid(), 0, addresses);
  REQUIRE(stack.frames.size() == 2);
  // Neighbours without a name are one mapping.
  CHECK_THAT(std::string(stack.frames[0].code->mapping), Catch::StartsWith("[anon 0x"));
  CHECK_THAT(output::display_frame(stack.frames[1]), Catch::EndsWith(" (/memfd:jit-cache)"));
  ::munmap(memory, size);
  ::munmap(compiled, size);
}

TEST_CASE("addresses of the probed file are symbolized without mappings") {
  unwind::LiveProcesses processes({});
  const resolve::ProbePoint point = here();
  const std::uint64_t anywhere = 0x7f0000000000 + point.address.value;
  const std::uint64_t addresses[] = {anywhere, anywhere + 4, 0x10};
  const unwind::ProbedInstruction known{.pc = anywhere,
                                        .file = point.binary->file,
                                        .path = point.binary->real_path,
                                        .offset = *point.offset};
  constexpr pid_t nobody = 1 << 30; // above every pid
  const auto stack = processes.make_stack(nobody, 0, addresses, &known);
  REQUIRE(stack.frames[0].symbolized());
  CHECK(stack.frames[0].symbolized()->function->symbol == "symbolize_test_here");
  REQUIRE(stack.frames[1].symbolized());
  CHECK(stack.frames[1].symbolized()->function->symbol == "symbolize_test_here");
  CHECK_FALSE(stack.frames[2].code);
  CHECK_FALSE(processes.make_stack(nobody, 0, addresses).frames[0].code);
}

TEST_CASE("a frame is a function, a file and an address in it, as far as they are known") {
  std::string text;
  symbolize::append_module_offset(text, "/data/app/base.apk", "lib/arm64-v8a/libfoo.so", {0x4000},
                                  {0x5a1c});
  CHECK(text == "(base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)");
  text.clear();
  symbolize::append_module_offset(text, "/x/FILE", std::nullopt, {0x4000}, {0x66c});
  CHECK(text == "(FILE@0x4000+0x66c)");
}

} // namespace uprobectl::symbolize
