// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "unwind_fixture.hpp"
#include "uprobectl/unwind/saved.hpp"
#include "util/inflate.hpp"

#include <catch2/catch.hpp>
#include <zlib.h>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

std::string gzipped(std::string_view content) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  std::string in(content);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

MachineLookup answer(elf::Machine machine) {
  return [machine] { return machine; };
}
const MachineLookup arm64_machine = answer(elf::Machine(183));
const MachineLookup arm_machine = answer(elf::Machine(40, false));
const MachineLookup x86_64_machine = answer(elf::Machine(62));

} // namespace

TEST_CASE("register names determine the machine") {
  const auto x86 = parse_registers("rax: 1\nrsp: 7ffd0\nrip: 0x401000\neflags: 246\n", {});
  REQUIRE(x86);
  CHECK(x86->arch() == Arch::x86_64);
  CHECK(x86->pc() == 0x401000);
  CHECK(x86->stack_pointer() == 0x7ffd0);
  CHECK(x86->get(0) == 1);
  CHECK_FALSE(x86->get(6));

  const auto arm_64 = parse_registers("x29: 7f\nlr: 20\nsp: 10\npc: 30\npst: 80001000\n", {});
  REQUIRE(arm_64);
  CHECK(arm_64->arch() == Arch::arm64);
  CHECK(arm_64->get(30) == 0x20);
  CHECK(arm_64->frame_pointer() == 0x7f);
}

TEST_CASE("a mapped file determines the machine if register names do not") {
  CHECK(parse_registers("pc: 1\nsp: 2\nlr: 3\n", arm64_machine)->arch() == Arch::arm64);
  const auto none = parse_registers("pc: 1\nsp: 2\n", {});
  REQUIRE_FALSE(none);
  CHECK(none.error().message ==
        "unknown architecture: no register name identifies it, and no mapped file was saved");
  // Which has no pc, whatever else is called so.
  CHECK(parse_registers("pc: 1\nsp: 2\n", x86_64_machine).error().message ==
        "rip and rsp are missing");
  const auto other = parse_registers("pc: 1\nsp: 2\nlr: 3\n", arm_machine);
  REQUIRE_FALSE(other);
  CHECK(other.error().kind == ErrorKind::unsupported);
}

TEST_CASE("mapped files are read once and only if register names are ambiguous") {
  int asked = 0;
  const MachineLookup ask = [&] {
    ++asked;
    return arm64_machine();
  };
  CHECK(parse_registers("x0: 1\nsp: 2\npc: 3\n", ask));
  CHECK_FALSE(parse_registers("r0: 1\nsp: 2\npc: 3\n", ask));
  CHECK_FALSE(parse_registers("rax: 1\n", ask));
  CHECK(asked == 0);
  CHECK(parse_registers("lr: 1\nsp: 2\npc: 3\n", ask));
  CHECK(asked == 1);

  FilesInMemory files;
  files.add("/x/text", "not an ELF file");
  files.add("/x/lib.so", arm64_library());
  CHECK(find_machine(process::parse_all_maps("1000-2000 r-xp 0 00:00 0 /x/gone\n"
                                             "2000-3000 r-xp 0 00:00 0 /x/text\n"
                                             "4000-5000 r-xp 0 00:00 0 /x/gone\n"
                                             "5000-6000 r-xp 0 00:00 0 /y/text\n"
                                             "6000-7000 r-xp 0 00:00 0 /x/lib.so\n"),
                     files) == elf::Machine(183));
  CHECK(files.opened == 3);
}

TEST_CASE("32-bit machines are named as not supported") {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"r0: 1\npc: 1\nsp: 2\nlr: 3\n", "arm"}, {"eax: 1\neip: 1\nesp: 2\n", "i386"}}) {
    const auto registers = parse_registers(text, {});
    REQUIRE_FALSE(registers);
    CHECK(registers.error().kind == ErrorKind::unsupported);
    CHECK(registers.error().message ==
          "the registers are of unsupported architecture " + name + " (expected x86-64 or arm64)");
  }
}

TEST_CASE("an invalid register line is reported with its number") {
  CHECK(parse_registers("rip: 1\nrsp: 2\nnonsense\n", {}).error().message ==
        "line 3 is not 'NAME: HEX'");
  CHECK(parse_registers("rip: zz\n", {}).error().kind == ErrorKind::corrupt);
  CHECK(parse_registers("rip: 1\n", {}).error().message == "rsp is missing");
}

TEST_CASE("that a function had just been entered is reported beside the registers") {
  CHECK(was_at_function_entry("rip: 1\nrsp: 2\nat_function_entry: 1\n"));
  CHECK(was_at_function_entry("at_function_entry: 0x1\r\nrip: 1\nrsp: 2"));
  CHECK_FALSE(was_at_function_entry("rip: 1\nrsp: 2\nat_function_entry: 0\n"));
  CHECK_FALSE(was_at_function_entry("rip: 1\nrsp: 2\n"));
  // A reader that does not know the key takes it for an unused register.
  CHECK(parse_registers("rip: 1\nrsp: 2\nat_function_entry: 1\n", {})->pc() == 1);
}

TEST_CASE("registers without pc name the missing rip or pc of their machine") {
  CHECK(parse_registers("rsp: 1\nrbp: 2\n", {}).error().message == "rip is missing");
  CHECK(parse_registers("rax: 1\nrsp: 2\n", {}).error().message == "rip is missing");
  CHECK(parse_registers("rax: 1\n", {}).error().message == "rip and rsp are missing");
  CHECK(parse_registers("x0: 1\n", {}).error().message == "pc and sp are missing");
}

TEST_CASE("a folder gives registers, memory in pieces and mappings, gzipped or not") {
  const Folder folder;
  folder.put("regs.txt.gz", gzipped("rip: 401000\nrsp: 7000\n"));
  folder.put("maps.txt", "400000-402000 r-xp 00000000 00:00 0 /bin/x\n");
  folder.put("stack0.data", std::string("\0\x70\0\0\0\0\0\0abcdefgh", 16));
  folder.put("stack1.data.gz", gzipped(std::string("\0\x90\0\0\0\0\0\0ij", 10)));
  folder.put("x.gz", gzipped("content"));
  const auto saved = read_saved_stack(folder.path());
  REQUIRE(saved);
  CHECK(saved->registers.pc() == 0x401000);
  REQUIRE(saved->memory.size() == 2);
  CHECK(saved->memory[0].address == 0x7000);
  CHECK(as_text(saved->memory[0].bytes) == "abcdefgh");
  CHECK(saved->memory[1].address == 0x9000);
  CHECK(as_text(saved->memory[1].bytes) == "ij");
  REQUIRE(saved->mappings.size() == 1);
  const auto object = open_saved_files(folder.path())->open(saved->mappings[0]);
  REQUIRE(object);
  CHECK(as_text(object->bytes) == "content");
}

TEST_CASE("missing files of a folder are named") {
  const Folder folder;
  CHECK(read_saved_stack(folder.path()).error().message == folder.path() + ": no stack*.data file");
  folder.put("stack.data", "1234567");
  CHECK(read_saved_stack(folder.path()).error().kind == ErrorKind::not_found); // maps.txt
  folder.put("maps.txt", "nothing\n");
  folder.put("regs.txt", "rip: 1\nrsp: 2\n");
  CHECK(read_saved_stack(folder.path()).error().message == folder.path() + "/maps.txt: no mapping");
  folder.put("maps.txt", "1000-2000 r-xp 0 00:00 0 /x\n");
  CHECK(read_saved_stack(folder.path()).error().message ==
        folder.path() + "/stack.data: too short (expected an address of 8 bytes)");
}

TEST_CASE("a copied saved stack owns its data") {
  const Folder folder;
  folder.put("regs.txt", "rip: 401000\nrsp: 7000\n");
  folder.put("maps.txt", "400000-402000 r-xp 00000000 00:00 0 /bin/x\n");
  folder.put("stack0.data.gz", gzipped(std::string("\0\x70\0\0\0\0\0\0abcdefgh", 16)));
  folder.put("stack1.data", std::string("\0\x90\0\0\0\0\0\0ij", 10));
  auto saved = read_saved_stack(folder.path());
  REQUIRE(saved);
  const SavedStack copy = *saved;
  saved = fail(ErrorKind::not_found, "gone");
  REQUIRE(copy.memory.size() == 2);
  CHECK(as_text(copy.memory[0].bytes) == "abcdefgh");
  CHECK(as_text(copy.memory[1].bytes) == "ij");
}

TEST_CASE("gzipped files have a size limit") {
  const Folder folder;
  folder.put("regs.txt", "rip: 401000\nrsp: 7000\n");
  folder.put("maps.txt.gz", gzipped(std::string((16U << 20) + 1, '\n')));
  folder.put("stack0.data", "12345678");
  const auto text = read_saved_stack(folder.path());
  REQUIRE_FALSE(text);
  CHECK(text.error().kind == ErrorKind::unsupported);
  CHECK(text.error().message ==
        folder.path() + "/maps.txt.gz: decompressed size exceeds 16777216 bytes");
  folder.put("maps.txt", "400000-402000 r-xp 00000000 00:00 0 /bin/x\n");
  const std::string stack = gzipped(std::string(16U << 20, '\0'));
  for (const char number : {'1', '2', '3', '4'})
    folder.put(std::string("stack") + number + ".data.gz", stack);
  CHECK(read_saved_stack(folder.path())); // 64 MiB
  folder.put("stack5.data.gz", gzipped("12345678"));
  const auto more = read_saved_stack(folder.path());
  REQUIRE_FALSE(more);
  CHECK(more.error().kind == ErrorKind::unsupported);
  CHECK(more.error().message ==
        folder.path() + ": the gzipped stacks exceed 67108864 bytes when decompressed");
}

TEST_CASE("gzipped mapped files have a common size limit") {
  const Folder folder;
  for (const std::string name : {"one.so.gz", "two.so.gz"})
    folder.put(name, gzipped(std::string(3000, 'x')));
  folder.put("small.so.gz", gzipped(std::string(2000, 'x')));
  folder.put("plain.so", std::string(9000, 'x'));
  const auto files = open_saved_files(folder.path(), 5000);
  const auto open = [&](const std::string& name) {
    process::Mapping mapping;
    mapping.path = "/system/lib64/" + name;
    return files->open(mapping);
  };
  CHECK(open("one.so"));
  const auto more = open("two.so");
  REQUIRE_FALSE(more);
  CHECK(more.error().kind == ErrorKind::unsupported);
  CHECK(more.error().message == "the gzipped files exceed 5000 bytes when decompressed");
  CHECK(open("small.so"));
  CHECK(open("plain.so")); // is mapped, not kept in memory
}

TEST_CASE("gzip files are decoded member after member, within a bound") {
  const std::string two = gzipped("first ") + gzipped("second");
  const auto content = gunzip(as_bytes(two), 100);
  REQUIRE(content);
  CHECK(as_text(*content) == "first second");
  CHECK(gunzip(as_bytes(two), 12)->size() == 12);
  CHECK(gunzip(as_bytes(two), 11).error().kind == ErrorKind::unsupported);
  CHECK(gunzip(as_bytes(gzipped(std::string(1 << 20, 'x'))), 1000).error().kind ==
        ErrorKind::unsupported);
  CHECK(gunzip(as_bytes(two.substr(0, two.size() - 4)), 100).error().kind == ErrorKind::corrupt);
  CHECK(gunzip(as_bytes("plain text"), 100).error().kind == ErrorKind::corrupt);
  CHECK(gunzip({}, 100).error().kind == ErrorKind::corrupt);
}

} // namespace uprobectl::unwind
