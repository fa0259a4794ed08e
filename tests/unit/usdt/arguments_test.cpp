// SPDX-License-Identifier: Apache-2.0
// Operands as compilers and assemblers write them: from Debian's binaries, from issues of libbpf
// and bcc (libbpf#559, #796, bcc#4185), and from the manuals of GNU as. In the sample image the
// symbol `data` lies at 0x403800.
#include "elf_fixture.hpp"
#include "uprobectl/usdt.hpp"

#include <catch2/catch.hpp>

#include <fmt/format.h>

namespace uprobectl::usdt {

using namespace uprobectl::test;
using Kind = StaticArgument::Kind;

namespace {

constexpr test::Sample x86_64{};
constexpr test::Sample i386{.elf_class = "ELFCLASS32", .machine = "EM_386"};
constexpr test::Sample arm64{.machine = "EM_AARCH64"};
constexpr test::Sample arm{.elf_class = "ELFCLASS32", .machine = "EM_ARM"};

std::vector<StaticArgument> parsed(const test::Sample& sample, std::string_view text) {
  const std::string bytes = sample_elf(sample);
  return parse_static_arguments(text, parse_image(bytes));
}

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:#x}", value); }

// "s4 [rbp+rax*4-0x14]"; sizes as u4, s4, f8, or ? where there is none.
std::string shown(const StaticArgument& argument) {
  std::string text = argument.is_float ? "f" : argument.is_signed ? "s" : "u";
  text = argument.size ? text + std::to_string(*argument.size) : "?";
  switch (argument.kind) {
  case Kind::constant:
    return text + " " + hexadecimal(argument.constant) + (argument.address ? " at an address" : "");
  case Kind::in_register:
    return text + " " + argument.base + (argument.shift != 0 ? ">>8" : "");
  case Kind::in_memory: {
    std::string operand = argument.address ? hexadecimal(argument.address->value) : argument.base;
    if (!argument.index.empty()) {
      using Part = StaticArgument::IndexPart;
      operand += operand.empty() ? "" : "+";
      operand += argument.index_part == Part::low_word          ? "low "
                 : argument.index_part == Part::signed_low_word ? "signed low "
                                                                : "";
      operand += argument.index + "*" + std::to_string(argument.scale);
    }
    const std::int64_t away = argument.displacement;
    if (away < 0) operand += "-" + hexadecimal(0 - static_cast<std::uint64_t>(away));
    if (away > 0) operand += "+" + hexadecimal(static_cast<std::uint64_t>(away));
    return text + " [" + operand + "]";
  }
  case Kind::out_of_reach:
  case Kind::unparsed:
    return text + (argument.kind == Kind::unparsed ? " unparsed: " : " out of reach: ") +
           argument.problem;
  }
  return {};
}

std::string one(const test::Sample& sample, std::string_view operand) {
  const auto arguments = parsed(sample, operand);
  REQUIRE(arguments.size() == 1);
  CHECK(arguments.front().raw == operand);
  return shown(arguments.front());
}

} // namespace

TEST_CASE("the size of an operand says how many bytes, with a sign or as floating point") {
  CHECK(one(x86_64, "1@%al") == "u1 rax");
  CHECK(one(x86_64, "-2@%ax") == "s2 rax");
  CHECK(one(x86_64, "-4@%edi") == "s4 rdi");
  CHECK(one(x86_64, "8@%rdi") == "u8 rdi");
  CHECK(one(x86_64, "8f@-8(%rbp)") == "f8 [rbp-0x8]");
  CHECK(one(x86_64, "4f@(%rsp)") == "f4 [rsp]");
  CHECK(one(x86_64, "-8f@(%rsp)") == "f8 [rsp]");
  CHECK(one(x86_64, "16@(%rsp)") == "u16 [rsp]");
  CHECK(one(x86_64, "%rdi") == "? rdi");
  CHECK(one(x86_64, "$5") == "? 0x5");
  CHECK(one(arm64, "x3") == "? x3");
}

TEST_CASE("x86-64 registers have names for their parts") {
  for (const char* name : {"rax", "eax", "ax", "al"})
    CHECK(one(x86_64, "8@%" + std::string(name)) == "u8 rax");
  CHECK(one(x86_64, "1@%ah") == "u1 rax>>8");
  CHECK(one(x86_64, "1@%bh") == "u1 rbx>>8");
  CHECK(one(x86_64, "1@%ch") == "u1 rcx>>8");
  CHECK(one(x86_64, "1@%dh") == "u1 rdx>>8");
  CHECK(one(x86_64, "1@%bl") == "u1 rbx");
  CHECK(one(x86_64, "2@%cx") == "u2 rcx");
  CHECK(one(x86_64, "4@%edx") == "u4 rdx");
  CHECK(one(x86_64, "1@%sil") == "u1 rsi");
  CHECK(one(x86_64, "1@%dil") == "u1 rdi");
  CHECK(one(x86_64, "1@%bpl") == "u1 rbp");
  CHECK(one(x86_64, "1@%spl") == "u1 rsp");
  CHECK(one(x86_64, "2@%si") == "u2 rsi");
  CHECK(one(x86_64, "8@%r8") == "u8 r8");
  CHECK(one(x86_64, "4@%r9d") == "u4 r9");
  CHECK(one(x86_64, "2@%r10w") == "u2 r10");
  CHECK(one(x86_64, "1@%r15b") == "u1 r15");
  CHECK(one(x86_64, "8@%rip") == "u8 rip");
}

TEST_CASE("x86 memory has an offset, a base, an index and a scale") {
  CHECK(one(x86_64, "8@(%rsp)") == "u8 [rsp]");
  CHECK(one(x86_64, "-4@-20(%rbp)") == "s4 [rbp-0x14]");
  CHECK(one(x86_64, "8@0x10(%r12)") == "u8 [r12+0x10]");
  CHECK(one(x86_64, "8@(%rax,%rbx)") == "u8 [rax+rbx*1]");
  CHECK(one(x86_64, "8@(%rax,%rbx,8)") == "u8 [rax+rbx*8]");
  CHECK(one(x86_64, "1@-12(%r14,%r15,2)") == "u1 [r14+r15*2-0xc]");
  CHECK(one(x86_64, "4@8(,%rcx,4)") == "u4 [rcx*4+0x8]");
  CHECK(one(x86_64, "4@(%eax)") == "u4 [rax]");
  CHECK(one(x86_64, "8@4660") == "u8 [+0x1234]");
  CHECK(one(x86_64, "8@8(%rip)") == "u8 [rip+0x8]");
}

TEST_CASE("x86 operands name variables, with numbers before and after") {
  CHECK(one(x86_64, "4@data(%rip)") == "u4 [0x403800]");
  CHECK(one(x86_64, "-4@data+4(%rip)") == "s4 [0x403804]");
  CHECK(one(x86_64, "8@8+data(%rip)") == "u8 [0x403808]");
  CHECK(one(x86_64, "8@-8+data(%rip)") == "u8 [0x4037f8]");
  CHECK(one(x86_64, "8@-8+data+4(%rip)") == "u8 [0x4037fc]");
  CHECK(one(x86_64, "8@data-8(%rip)") == "u8 [0x4037f8]");
  CHECK(one(x86_64, "8@data") == "u8 [0x403800]");
  CHECK(one(x86_64, "8@data(,%rax,8)") == "u8 [0x403800+rax*8]");
  CHECK(one(x86_64, "8@data+8(%rax)") == "u8 [0x403808+rax*1]");
  CHECK(one(x86_64, "8@$data+2") == "u8 0x403802 at an address");
  CHECK(one(x86_64, "8@missing(%rip)") == "u8 unparsed: the file has no symbol 'missing'");
  CHECK(one(x86_64, "8@malloc(%rip)") == "u8 unparsed: 'malloc' is defined in another file");
  CHECK(one(x86_64, "8@twice(%rip)") == "u8 unparsed: the file has several symbols 'twice'");
  CHECK(one(x86_64, "8@data@GOTPCREL(%rip)") == "u8 unparsed: unsupported relocation '@GOTPCREL'");
  CHECK(one(x86_64, "8@data(%rax,%rbx,4)") ==
        "u8 unparsed: unsupported symbol address with two registers");
}

TEST_CASE("a symbol of a stripped file may be that of a static variable") {
  const auto stripped = [](const test::Sample& sample) {
    std::string bytes = sample_elf(sample);
    bytes.replace(0x28, 8, 8, '\0'); // e_shoff: without section headers there is no .symtab
    const auto arguments = parse_static_arguments("4@data(%rip)", parse_image(bytes));
    REQUIRE(arguments.size() == 1);
    return arguments.front();
  };
  const std::string_view whole = "4@data(%rip)";
  CHECK_FALSE(parsed(x86_64, whole).front().may_be_static);
  CHECK(shown(stripped(x86_64)) ==
        "u4 unparsed: 'data' may be a static variable, whose symbol was stripped");
  const StaticArgument of_program = stripped({.type = "ET_EXEC"});
  CHECK(shown(of_program) == "u4 [0x403800]");
  CHECK(of_program.may_be_static);
}

TEST_CASE("an absolute symbol is not relocated") {
  CHECK(one(x86_64, "8@$absolute") == "u8 0x201010");
  CHECK(one(x86_64, "8@absolute") == "u8 [+0x201010]");
}

TEST_CASE("a constant may be negative, or unsigned with all its 64 bits") {
  CHECK(one(x86_64, "-4@$-5") == "s4 0xfffffffffffffffb");
  CHECK(one(x86_64, "4@$0") == "u4 0x0");
  CHECK(one(x86_64, "8@$18446744073709551614") == "u8 0xfffffffffffffffe");
  CHECK(one(x86_64, "-8@$-9223372036854775808") == "s8 0x8000000000000000");
  CHECK(one(x86_64, "8@$0xffffffffffffffff") == "u8 0xffffffffffffffff");
  CHECK(one(x86_64, "8@$18446744073709551616") == "u8 unparsed: unsupported operand");
  CHECK(one(x86_64, "8@$-9223372036854775809") == "u8 unparsed: unsupported operand");
}

TEST_CASE("i386 has no registers of 64-bit code") {
  CHECK(one(i386, "4@%eax") == "u4 eax");
  CHECK(one(i386, "1@%ah") == "u1 eax>>8");
  CHECK(one(i386, "-2@%di") == "s2 edi");
  CHECK(one(i386, "-4@8(%ebp)") == "s4 [ebp+0x8]");
  CHECK(one(i386, "4@(%esi,%eax,4)") == "u4 [esi+eax*4]");
  CHECK(one(i386, "4@data") == "u4 [0x403800]");
  CHECK(one(i386, "8@%rax") == "u8 unparsed: unknown register 'rax'");
  CHECK(one(i386, "1@%sil") == "u1 unparsed: unknown register 'sil'");
  CHECK(one(i386, "4@%r8d") == "u4 unparsed: unknown register 'r8d'");
  CHECK(one(i386, "4@data@GOTOFF(%ebx)") == "u4 unparsed: the file does not say where its GOT is");
}

TEST_CASE("x86 registers that a probe does not see are out of reach") {
  CHECK(one(x86_64, "8f@%xmm0") ==
        "f8 out of reach: a BPF program cannot read the vector register 'xmm0'");
  CHECK(one(x86_64, "8f@%ymm15") ==
        "f8 out of reach: a BPF program cannot read the vector register 'ymm15'");
  CHECK(one(i386, "8f@%st") == "f8 out of reach: a BPF program cannot read the x87 register 'st'");
  CHECK(one(i386, "8f@%st(1)") ==
        "f8 out of reach: a BPF program cannot read the x87 register 'st(1)'");
  CHECK(one(x86_64, "8@%mm3") ==
        "u8 out of reach: a BPF program cannot read the MMX register 'mm3'");
  CHECK(one(x86_64, "8@%fs:0") == "u8 out of reach: a BPF program cannot read thread-local memory");
  CHECK(one(i386, "4@data@NTPOFF(%eax)") ==
        "u4 out of reach: a BPF program cannot read thread-local memory");
}

TEST_CASE("arm64 registers, the zero register and the stack pointer") {
  CHECK(one(arm64, "8@x0") == "u8 x0");
  CHECK(one(arm64, "-4@w19") == "s4 x19");
  CHECK(one(arm64, "8@x30") == "u8 x30");
  CHECK(one(arm64, "8@fp") == "u8 x29");
  CHECK(one(arm64, "8@lr") == "u8 x30");
  CHECK(one(arm64, "8@sp") == "u8 sp");
  CHECK(one(arm64, "4@wsp") == "u4 sp");
  CHECK(one(arm64, "8@xzr") == "u8 0x0");
  CHECK(one(arm64, "-4@wzr") == "s4 0x0");
  CHECK(one(arm64, "-4@5") == "s4 0x5");
  CHECK(one(arm64, "-4@-1") == "s4 0xffffffffffffffff");
  CHECK(one(arm64, "8@#18446744073709551614") == "u8 0xfffffffffffffffe");
  CHECK(one(arm64, "8@x31") == "u8 unparsed: unsupported operand");
}

TEST_CASE("arm64 memory has an offset or an index, which may be shifted and extended") {
  CHECK(one(arm64, "8@[x0]") == "u8 [x0]");
  CHECK(one(arm64, "-4@[sp, 12]") == "s4 [sp+0xc]");
  CHECK(one(arm64, "-4@[sp,-12]") == "s4 [sp-0xc]");
  CHECK(one(arm64, "8@[x29, #-24]") == "u8 [x29-0x18]");
  CHECK(one(arm64, "8@[x0, x1]") == "u8 [x0+x1*1]");
  CHECK(one(arm64, "8@[x0, x1, lsl 3]") == "u8 [x0+x1*8]");
  CHECK(one(arm64, "8@[x0, x1, lsl #3]") == "u8 [x0+x1*8]");
  CHECK(one(arm64, "4@[x0, w1, sxtw 2]") == "u4 [x0+signed low x1*4]");
  CHECK(one(arm64, "1@[x0, w1, uxtw]") == "u1 [x0+low x1*1]");
  CHECK(one(arm64, "8@[x0, x1, sxtx]") == "u8 [x0+x1*1]");
  CHECK(one(arm64, "8@[x21, #:lo12:data]") == "u8 [0x403800]");
  CHECK(one(arm64, "8@[x21, :lo12:data+4]") == "u8 [0x403804]");
  CHECK(one(arm64, "8@[x21, #:lo12:.LANCHOR2]") ==
        "u8 unparsed: the file has no symbol '.LANCHOR2'");
  for (const char* odd : {"[w0]", "[x0, w1]", "[x0, x1, lsl 5]", "[x0, x1, ror 2]", "[xzr]", "[x0",
                          "[x0, 1, 2]", "[x0, 8]!", "[x0, x1, lsl 3, 4]", "[]", "data"})
    CHECK(one(arm64, "8@" + std::string(odd)) == "u8 unparsed: unsupported operand");
}

TEST_CASE("arm64 vector registers are out of reach") {
  for (const std::string name : {"v0", "d8", "s31", "q0", "h1", "b2", "v0.d[1]"})
    CHECK(one(arm64, "8f@" + name) ==
          "f8 out of reach: a BPF program cannot read the vector register '" + name + "'");
}

TEST_CASE("arm has sixteen registers, some with several names") {
  CHECK(one(arm, "-4@r0") == "s4 r0");
  CHECK(one(arm, "4@r12") == "u4 r12");
  CHECK(one(arm, "4@fp") == "u4 r11");
  CHECK(one(arm, "4@ip") == "u4 r12");
  CHECK(one(arm, "4@r13") == "u4 sp");
  CHECK(one(arm, "4@sp") == "u4 sp");
  CHECK(one(arm, "4@lr") == "u4 lr");
  CHECK(one(arm, "4@pc") == "u4 pc");
  CHECK(one(arm, "-4@#-1") == "s4 0xffffffffffffffff");
  CHECK(one(arm, "4@#4294967295") == "u4 0xffffffff");
  CHECK(one(arm, "4@[r7, #-4]") == "u4 [r7-0x4]");
  CHECK(one(arm, "4@[r7]") == "u4 [r7]");
  CHECK(one(arm, "4@[r0, r1]") == "u4 [r0+r1*1]");
  CHECK(one(arm, "4@[r0, r1, lsl #2]") == "u4 [r0+r1*4]");
  CHECK(one(arm, "4@data+4") == "u4 [0x403804]");
  CHECK(one(arm, "4@.L5") == "u4 unparsed: the file has no symbol '.L5'");
  CHECK(one(arm, "8f@d0") == "f8 out of reach: a BPF program cannot read the vector register 'd0'");
  CHECK(one(arm, "4@[pc, #8]") == "u4 unparsed: unsupported base register 'pc'");
}

TEST_CASE("operands of other machines are kept as they are") {
  const test::Sample s390x{.data = "ELFDATA2MSB", .machine = "EM_S390"};
  CHECK(one(s390x, "-4@160(%r15)") == "s4 unparsed: operands of s390x are not supported");
  const test::Sample riscv{.machine = "EM_RISCV"};
  CHECK(one(riscv, "8@a0") == "u8 unparsed: operands of riscv64 are not supported");
}

TEST_CASE("blanks separate operands, but not inside brackets") {
  const auto arguments = parsed(arm64, " -4@[sp, 12]  8@x0\t8@[x0, x1, lsl 3] ");
  REQUIRE(arguments.size() == 3);
  CHECK(arguments[0].raw == "-4@[sp, 12]");
  CHECK(arguments[1].raw == "8@x0");
  CHECK(shown(arguments[2]) == "u8 [x0+x1*8]");
  CHECK(parsed(x86_64, "8@( %rax , %rbx , 4 )").size() == 1);
}

TEST_CASE("no arguments are an empty text or a colon") {
  CHECK(parsed(x86_64, "").empty());
  CHECK(parsed(x86_64, "  ").empty());
  CHECK(parsed(x86_64, ":").empty());
}

TEST_CASE("an invalid operand is marked, the others are read") {
  const auto arguments = parsed(x86_64, "8@%rdi what? -4@$3 4@(%rax 8@%rbx");
  REQUIRE(arguments.size() == 4);
  CHECK(shown(arguments[0]) == "u8 rdi");
  CHECK(arguments[1].kind == Kind::unparsed);
  CHECK(shown(arguments[2]) == "s4 0x3");
  CHECK(arguments[3].kind == Kind::unparsed); // the bracket is never closed
  CHECK(arguments[3].raw == "4@(%rax 8@%rbx");
  for (const char* odd :
       {"8@", "0@%rax", "8@%", "8@$", "8@-", "8@()", "8@(,)", "8@(%ax)", "8@(%rax,%rbx,3)", "8@a+b",
        "8@-data", "8@(%rax,%rbx,4,1)", "8@1e5(%rax)", "-@%rax", "8@%rax,", "99999999999@%rax"})
    CHECK(parsed(x86_64, odd).front().kind == Kind::unparsed);
}

TEST_CASE("operands beyond the thirty-second are kept together") {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "8@%rax ";
  const auto arguments = parsed(x86_64, text);
  REQUIRE(arguments.size() == 32);
  CHECK(arguments[30].kind == Kind::in_register);
  CHECK(shown(arguments[31]) == "? unparsed: more than 32 operands");
  CHECK(arguments[31].raw.size() == 9 * 7 - 1);
}

} // namespace uprobectl::usdt
