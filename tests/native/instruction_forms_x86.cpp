// SPDX-License-Identifier: Apache-2.0
// x86-64: every opcode of every map, with register, memory and rip-relative operands.
#include "instruction_forms.hpp"

#include <algorithm>
#include <array>
#include <asm/prctl.h>
#include <cpuid.h>
#include <csignal>
#include <cstring>
#include <set>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using uprobectl::Bytes;

extern "C" {
std::uint64_t forms_in[16], forms_out[16], forms_in_flags, forms_out_flags, forms_ending,
    forms_host_stack, forms_target, forms_fs, forms_mask;
alignas(64) unsigned char forms_vectors_in[8192], forms_vectors_out[8192];
}

// Saves and loads everything relative to rip, so that no register is needed for it. Selectors that
// a form has loaded may have cleared the base of fs, which C++ needs.
asm(R"(
.text
.globl forms_enter, forms_ending_1, forms_ending_2, forms_resume
forms_enter:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rdi, forms_target(%rip)
  mov %rsp, forms_host_stack(%rip)
  mov forms_mask(%rip), %eax
  xor %edx, %edx
  xrstor64 forms_vectors_in(%rip)
  pushq forms_in_flags(%rip)
  popfq
  mov forms_in+0(%rip), %rax
  mov forms_in+8(%rip), %rcx
  mov forms_in+16(%rip), %rdx
  mov forms_in+24(%rip), %rbx
  mov forms_in+32(%rip), %rsp
  mov forms_in+40(%rip), %rbp
  mov forms_in+48(%rip), %rsi
  mov forms_in+56(%rip), %rdi
  mov forms_in+64(%rip), %r8
  mov forms_in+72(%rip), %r9
  mov forms_in+80(%rip), %r10
  mov forms_in+88(%rip), %r11
  mov forms_in+96(%rip), %r12
  mov forms_in+104(%rip), %r13
  mov forms_in+112(%rip), %r14
  mov forms_in+120(%rip), %r15
  jmp *forms_target(%rip)
forms_ending_1:
  movq $1, forms_ending(%rip)
  jmp 1f
forms_ending_2:
  movq $2, forms_ending(%rip)
1:
  mov %rax, forms_out+0(%rip)
  mov %rcx, forms_out+8(%rip)
  mov %rdx, forms_out+16(%rip)
  mov %rbx, forms_out+24(%rip)
  mov %rsp, forms_out+32(%rip)
  mov %rbp, forms_out+40(%rip)
  mov %rsi, forms_out+48(%rip)
  mov %rdi, forms_out+56(%rip)
  mov %r8, forms_out+64(%rip)
  mov %r9, forms_out+72(%rip)
  mov %r10, forms_out+80(%rip)
  mov %r11, forms_out+88(%rip)
  mov %r12, forms_out+96(%rip)
  mov %r13, forms_out+104(%rip)
  mov %r14, forms_out+112(%rip)
  mov %r15, forms_out+120(%rip)
  mov forms_host_stack(%rip), %rsp
  pushfq
  popq forms_out_flags(%rip)
forms_resume:
  pushq $0x202
  popfq
  mov forms_mask(%rip), %eax
  xor %edx, %edx
  xsave64 forms_vectors_out(%rip)
  mov $158, %eax
  mov $0x1002, %edi
  mov forms_fs(%rip), %rsi
  syscall
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
)");

namespace forms {

const uprobectl::Arch arch = uprobectl::Arch::x86_64;

namespace {

// After a form `lea 0(%rip),%r15` and nops, more than the kernel copies with it: what goes on in
// the copy is seen, and does not come to the ending. Then `jmp *0(%rip)` and the address.
constexpr std::uint8_t after[] = {0x4c, 0x8d, 0x3d, 0,    0,    0,    0,    0x90,
                                  0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
constexpr std::uint64_t way_to_ending = sizeof after + 14;
constexpr std::uint64_t trap_flag = 0x100;
constexpr std::uint64_t compared_flags = 0x40cd5 | trap_flag;

struct Vectors {
  bool avx = false;
  bool avx512 = false;
};

Vectors vectors() {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return {};
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return {.avx = (low & 6U) == 6, .avx512 = (low & 0xe6U) == 0xe6};
}

void append_word(Code& code, std::uint64_t word, unsigned size) {
  for (unsigned i = 0; i < size; ++i) code.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
}

// rdtsc, cpuid, rdrand, rdseed, rdpid
bool is_varying(const Code& code) {
  const auto escape = std::ranges::find(code, 0x0f);
  return code.end() - escape >= 2 && (escape[1] == 0x31 || escape[1] == 0xa2 || escape[1] == 0xc7);
}

bool is_prefix(unsigned byte) {
  return (byte & 0xf0U) == 0x40 || byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e ||
         (byte >= 0x64 && byte <= 0x67) || byte == 0xf0 || byte == 0xf2 || byte == 0xf3;
}

// Whether QEMU 7.2 does not do what a processor does (unprobed, too), or ends itself.
bool is_beyond_emulator(const Code& code) {
  std::size_t at = 0;
  const auto byte = [&](std::size_t ahead) -> unsigned {
    return at + ahead < code.size() ? code[at + ahead] : 0U;
  };
  // Scalar vround with VEX.L, which a processor ignores.
  if (byte(0) == 0xc4 && (byte(1) & 0x1fU) == 3)
    return (byte(3) & 0xfeU) == 0x0a && (byte(2) & 4U) != 0;
  bool has_lock = false;
  for (; is_prefix(byte(0)); ++at) has_lock = has_lock || byte(0) == 0xf0;
  // fnstenv and fnsave store where the last instruction of the x87 was, which xrstor leaves alone.
  if (byte(0) == 0xd9 || byte(0) == 0xdd) return byte(1) < 0xc0 && (byte(1) & 0x38U) == 0x30;
  if (byte(0) != 0x0f) return false;
  // bt, bts, btr and btc of a register
  if (has_lock && ((byte(1) & 0xe7U) == 0xa3 || byte(1) == 0xba)) return byte(2) >= 0xc0;
  // shld and shrd by an immediate, relative to rip: from where the immediate is, not after it.
  return (byte(1) == 0xa4 || byte(1) == 0xac) && (byte(2) & 0xc7U) == 5;
}

// Only the length is not known before: what follows the operand may be a part of the instruction.
class Maker {
public:
  Maker(std::size_t every, bool is_emulated) : every_(every), is_emulated_(is_emulated) {}

  void operand_forms(const Code& start, unsigned first_reg, unsigned last_reg, bool vsib) {
    for (unsigned reg = first_reg; reg <= last_reg; ++reg) {
      with_modrm(start, 0xc1U | reg << 3U);
      with_modrm(start, 0x07U | reg << 3U);
      with_modrm(start, 0x05U | reg << 3U);
    }
    if (!vsib) return;
    Code indexed = start;
    append_word(indexed, 0x0f00U | 0x04U | first_reg << 3U, 2);
    cut(indexed);
  }

  void add(Form form) {
    if (is_emulated_ && is_beyond_emulator(form.code)) return;
    if (seen_.insert(form.code).second) found.push_back(std::move(form));
  }

  std::vector<Form> found;

private:
  void with_modrm(Code code, unsigned modrm) {
    code.push_back(static_cast<std::uint8_t>(modrm));
    const bool is_relative = (modrm & 0xc7U) == 5;
    if (is_relative) append_word(code, 0, 4);
    cut(std::move(code), is_relative);
  }

  // Fills up with an immediate of 1, and takes as many bytes as the instruction has.
  void cut(Code code, bool is_relative = false) {
    if (made_++ % every_ != 0) return;
    const std::size_t known = code.size();
    append_word(code, 1, 8);
    const auto size = uprobectl::insn::instruction_size(
        arch, {reinterpret_cast<const std::byte*>(code.data()), code.size()});
    if (!size || *size > 15) return;
    const bool has_operand = *size >= known && is_relative;
    code.resize(*size);
    const bool varies = is_varying(code);
    add({.code = std::move(code), .displacement = has_operand ? known - 4 : 0, .varies = varies});
  }

  std::size_t every_;
  bool is_emulated_;
  std::size_t made_ = 0;
  std::set<Code> seen_;
};

bool is_prefix_or_escape(unsigned opcode) {
  return is_prefix(opcode) || opcode == 0x0f || opcode == 0x62 || opcode == 0x63 ||
         opcode == 0xc4 || opcode == 0xc5 || opcode == 0xd5;
}

bool is_emulated_machine() {
  std::uint32_t a = 0;
  std::uint32_t name[3] = {};
  __cpuid(0x40000000, a, name[0], name[1], name[2]);
  return std::memcmp(name, "TCGTCGTCGTCG", sizeof name) == 0;
}

// Those that need operands of their own, or would end the test.
bool is_special(unsigned map, unsigned opcode) {
  if (map == 1) return (opcode >= 0x80 && opcode <= 0x8f) || opcode == 0x01;
  if (map != 0) return false;
  return (opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3) ||
         opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb || (opcode >= 0xa0 && opcode <= 0xa3) ||
         opcode == 0xc2 || opcode == 0xc3 || (opcode >= 0xca && opcode <= 0xcd) || opcode == 0xcf ||
         opcode == 0x9d || opcode == 0xf1;
}

void add_legacy(Maker& maker) {
  const std::vector<Code> prefixes = {{},     {0x66},       {0xf2},       {0xf3},
                                      {0x48}, {0x66, 0x48}, {0xf2, 0x48}, {0xf3, 0x48},
                                      {0x41}, {0x49},       {0x67}};
  const std::vector<Code> rare = {{0xf0}, {0x2e}, {0x3e}, {0x26}, {0x36}};
  const std::vector<Code> escapes = {{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}};
  const auto add = [&](const Code& prefix, unsigned map, unsigned opcode, unsigned last_reg) {
    if ((map == 0 && is_prefix_or_escape(opcode)) || is_special(map, opcode)) return;
    if (map == 1 && (opcode == 0x38 || opcode == 0x3a)) return;
    Code start = prefix;
    start.insert(start.end(), escapes[map].begin(), escapes[map].end());
    start.push_back(static_cast<std::uint8_t>(opcode));
    maker.operand_forms(start, 0, last_reg, false);
  };
  for (unsigned map = 0; map < escapes.size(); ++map)
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
      for (std::size_t i = 0; i < prefixes.size(); ++i)
        add(prefixes[i], map, opcode, map >= 2 ? 1 : i < 5 ? 7 : 2);
      for (const Code& prefix : rare)
        if (map < 2) add(prefix, map, opcode, 0);
    }
}

void add_vex(Maker& maker) {
  for (unsigned map = 1; map <= 3; ++map)
    for (unsigned opcode = 0; opcode < 256; ++opcode)
      for (unsigned rest = 0; rest < 16; ++rest) // W, L, pp
        for (const unsigned second : {0xfU, 0xdU}) {
          const unsigned last = (rest & 8U) << 4U | second << 3U | (rest & 7U);
          const Code start = {0xc4, static_cast<std::uint8_t>(0xe0U | map),
                              static_cast<std::uint8_t>(last), static_cast<std::uint8_t>(opcode)};
          maker.operand_forms(start, 2, 2, map == 2);
          const bool is_group = (opcode >= 0x71 && opcode <= 0x73) || opcode == 0xae ||
                                opcode == 0xf3 || opcode == 0xc2;
          if (is_group && (rest & 8U) == 0) maker.operand_forms(start, 0, 7, false);
          if (second == 0xd && rest < 4) maker.operand_forms(start, 6, 6, false); // of rsi
          if (map != 1 || (rest & 8U) != 0) continue;
          maker.operand_forms(
              {0xc5, static_cast<std::uint8_t>(0x80U | last), static_cast<std::uint8_t>(opcode)}, 2,
              2, false);
        }
}

void add_evex(Maker& maker) {
  for (const unsigned map : {1U, 2U, 3U, 5U, 6U})
    for (unsigned opcode = 0; opcode < 256; ++opcode)
      for (unsigned rest = 0; rest < 8; ++rest) // W, pp
        for (const unsigned second : {0xfU, 0xdU})
          for (const unsigned length : {0U, 2U})
            for (const unsigned mask : {length == 0 ? 1U : 0U}) {
              const Code start = {
                  0x62, static_cast<std::uint8_t>(0xf0U | map),
                  static_cast<std::uint8_t>((rest & 4U) << 5U | second << 3U | 4U | (rest & 3U)),
                  static_cast<std::uint8_t>(length << 5U | 8U | mask),
                  static_cast<std::uint8_t>(opcode)};
              const bool is_group = opcode >= 0x71 && opcode <= 0x73;
              maker.operand_forms(start, is_group ? 0 : 2, is_group ? 7 : 2, map == 2);
            }
}

void add_special(Maker& maker) {
  const std::uint64_t ending = address_of(forms_ending_1);
  const auto branch = [&](Code code, unsigned size) {
    append_word(code, way_to_ending, size);
    maker.add({.code = std::move(code)});
  };
  for (const Code& prefix : {Code{}, Code{0x48}, Code{0xf2}, Code{0x66}}) {
    const auto with = [&](std::initializer_list<std::uint8_t> opcode) {
      Code code = prefix;
      code.insert(code.end(), opcode);
      return code;
    };
    const bool is_short = prefix == Code{0x66}; // which Intel and AMD read as different lengths
    for (unsigned i = 0; i < 16; ++i) {
      branch(with({static_cast<std::uint8_t>(0x70 + i)}), 1);
      if (!is_short) branch(with({0x0f, static_cast<std::uint8_t>(0x80 + i)}), 4);
    }
    for (std::uint8_t opcode = 0xe0; opcode <= 0xe3; ++opcode) branch(with({opcode}), 1);
    branch(with({0xeb}), 1);
    if (!is_short) branch(with({0xe9}), 4);
    if (!is_short) branch(with({0xe8}), 4);
  }
  for (const Code& code : {Code{0xc3}, Code{0xf3, 0xc3}, Code{0xf2, 0xc3}, Code{0xc2, 0x10, 0x00}})
    maker.add({.code = code, .stack_top = ending});
  for (const Code& code : {Code{0xff, 0x17}, Code{0xff, 0x27}}) // call and jmp *(%rdi)
    maker.add({.code = code, .operand = ending});
  for (const Code& start : {Code{0xff, 0x15}, Code{0xff, 0x25}}) { // relative to rip
    Code code = start;
    append_word(code, 0, 4);
    maker.add({.code = std::move(code), .operand = ending, .displacement = start.size()});
  }
  for (const Code& code :
       {Code{0x41, 0xff, 0xd3}, Code{0x41, 0xff, 0xe3}, Code{0x3e, 0x41, 0xff, 0xe3}})
    maker.add({.code = code}); // call and jmp *%r11
  constexpr std::uint64_t user_code_segment = 0x33;
  if (ending >> 32U == 0) {
    const std::uint64_t far = ending | user_code_segment << 32U;
    maker.add({.code = {0xff, 0x1f}, .operand = far}); // lcall and ljmp *(%rdi)
    maker.add({.code = {0xff, 0x2f}, .operand = far});
    maker.add({.code = {0xcb}, .stack_top = far});
  }
  maker.add({.code = {0x48, 0xcb}, .stack_top = ending, .second_of_stack = user_code_segment});
  for (const Code& code : {Code{0x9d}, Code{0x66, 0x9d}}) // popf
    maker.add({.code = code, .stack_top = 0x246});
  for (std::uint8_t opcode = 0xa0; opcode <= 0xa3; ++opcode) {
    Code code = {0x48, opcode};
    append_word(code, operand_address, 8);
    maker.add({.code = std::move(code)});
  }
  for (const Code& code : {Code{0xcc}, Code{0xf1}, Code{0xcd, 0x80}, Code{0x48, 0xcf}})
    maker.add({.code = code});
  for (unsigned modrm = 0xc0; modrm < 0x100; ++modrm) // 0f 01, without calls of the hypervisor
    if (modrm != 0xc1 && modrm != 0xd9)
      maker.add({.code = {0x0f, 0x01, static_cast<std::uint8_t>(modrm)}, .varies = modrm == 0xf9});
  for (const std::uint8_t modrm : {0x07, 0x0f, 0x27}) // sgdt, sidt, smsw
    maker.add({.code = {0x0f, 0x01, modrm}});
  maker.add({.code = {0x0f, 0x1f, 0x44, 0x00, 0x00}});
  maker.add({.code = {0x66, 0xff, 0x15, 0, 0, 0, 0}, .operand = ending, .displacement = 3});
}

} // namespace

std::vector<Form> all(std::size_t every) {
  Maker maker(every, is_emulated_machine());
  const char* const parts = getenv("FORMS_PARTS");
  const std::string which = parts ? parts : "slve";
  if (which.contains('s')) add_special(maker);
  if (which.contains('l')) add_legacy(maker);
  const Vectors has = vectors();
  if (has.avx && which.contains('v')) add_vex(maker);
  if (has.avx512) add_evex(maker);
  return std::move(maker.found);
}

Code slot(const Form& form, std::uint64_t address) {
  Code code = form.code;
  if (form.displacement != 0) {
    const auto way = static_cast<std::uint32_t>(operand_address - address - code.size());
    std::memcpy(code.data() + form.displacement, &way, sizeof way);
  }
  for (const char* const label : {forms_ending_1, forms_ending_2}) {
    if (label == forms_ending_1) code.insert(code.end(), std::begin(after), std::end(after));
    code.insert(code.end(), {0xff, 0x25, 0, 0, 0, 0});
    append_word(code, address_of(label), 8);
  }
  return code;
}

bool is_breakpoint(const std::uint8_t* code, const Form& form) {
  return code[form.probed] == 0xcc && form.code[form.probed] != 0xcc;
}

void prepare() {
  syscall(SYS_arch_prctl, ARCH_GET_FS, &forms_fs);
  const Vectors has = vectors();
  forms_mask = has.avx512 ? 0xe7 : has.avx ? 7 : 3;
  std::uint64_t eax = forms_mask;
  std::uint64_t edx = 0;
  std::memset(forms_vectors_in, 0, sizeof forms_vectors_in);
  asm volatile("xsave64 %0" : "+m"(forms_vectors_in) : "a"(eax), "d"(edx) : "memory");
  // The legacy area has the low halves of 16 registers at 160, the areas after the header the
  // rest; what is there need not be a number that means anything.
  for (std::size_t i = 160; i < 416; ++i)
    forms_vectors_in[i] = static_cast<unsigned char>(i * 37 + (i >> 4U) * 11);
  std::memset(forms_vectors_in + 160 + 16, 0, 16); // xmm1: indices of gathers
  for (unsigned i = 0; i < 4; ++i)
    forms_vectors_in[160 + 16 + 4 * i] = static_cast<unsigned char>(8 * i);
  for (const unsigned component : {2U, 5U, 6U, 7U}) {
    if ((forms_mask >> component & 1U) == 0) continue;
    std::uint32_t size = 0;
    std::uint32_t at = 0;
    std::uint32_t c = 0;
    std::uint32_t d = 0;
    __cpuid_count(0xd, component, size, at, c, d);
    for (std::uint32_t i = 0; i < size; ++i)
      forms_vectors_in[at + i] = static_cast<unsigned char>(i * 29 + component + (i >> 4U) * 7);
    if (component == 2) std::memset(forms_vectors_in + at + 16, 0, 16); // of ymm1
    if (component == 6) std::memset(forms_vectors_in + at + 32, 0, 32); // of zmm1
    if (component == 5)
      for (unsigned k = 0; k < 8; ++k) // k0 to k7: some of the lowest elements
        std::memcpy(forms_vectors_in + at + 8 * k, "\x5a\0\0\0\0\0\0", 8);
  }
  std::memcpy(forms_vectors_in + 512, &forms_mask, 8);
  constexpr std::uint64_t other = 0x1111222233334444;
  for (unsigned i = 0; i < 16; ++i) forms_in[i] = other * (i + 1);
  forms_in[0] = SYS_getpid;
  forms_in[1] = 5;
  forms_in[2] = 3;
  forms_in[3] = operand_address + 0x100;
  forms_in[4] = stack_address;
  forms_in[5] = stack_address + 64;
  forms_in[6] = operand_address + 0x200;
  forms_in[7] = operand_address;
  forms_in[11] = address_of(forms_ending_1);
  forms_in_flags = 0x293; // CF, AF, SF
}

void run(std::uint64_t address, Outcome& outcome) {
  forms_ending = 0;
  forms_enter(address);
  outcome = {};
  outcome.ending = forms_ending;
  std::memcpy(outcome.general, forms_out, sizeof forms_out);
  outcome.flags = forms_out_flags & compared_flags;
  if (forms_ending >= 100) {
    outcome.address = forms_target;
    return;
  }
  // Without where the last instruction of the x87 was (6 to 23), which is in the copy that the
  // kernel runs, and the header, which says what has not been touched since it was cleared.
  std::memset(forms_vectors_out + 6, 0, 18);
  std::memset(forms_vectors_out + 464, 0, 48 + 64);
  for (std::size_t i = 0; i < 2688; ++i) {
    std::uint64_t& hash = outcome.vectors[i / 64];
    hash = (hash ^ forms_vectors_out[i]) * 1099511628211U;
  }
}

// In a child process, which the signal may end. SIGTRAP is handled on another stack.
static bool resumes_with_any_stack_pointer() {
  const pid_t child = fork();
  if (child == 0) {
    static std::array<char, 65536> stack;
    const stack_t other{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&other, nullptr);
    struct sigaction action{};
    action.sa_flags = SA_ONSTACK;
    action.sa_handler = [](int) {};
    sigaction(SIGTRAP, &action, nullptr);
    signal(SIGSEGV, SIG_DFL);
    asm volatile("mov %%rsp, %%rbx; mov %0, %%rsp; int3; mov %%rbx, %%rsp"
                 :
                 : "r"(0x1234567812345678)
                 : "rbx", "memory");
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status);
}

bool can_be_resumed(const Outcome& outcome) {
  static const bool always = resumes_with_any_stack_pointer();
  const auto stack_pointer = static_cast<std::int64_t>(outcome.general[4]);
  return always || stack_pointer >> 47 == 0 || stack_pointer >> 47 == -1; // canonical
}

// UMIP forbids programs some instructions, whose work the kernel then does (Linux
// arch/x86/kernel/umip.c).
static bool has_umip() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & 1U << 2) != 0;
}

// Whether the operand size prefix makes a near branch one of 16 bits, which cuts the instruction
// pointer. In 64-bit mode it does so on processors of AMD (Programmer's Manual volume 1, Near
// Branches in 64-Bit Mode), while those of Intel ignore it (Software Developer's Manual volume 2,
// opcode map, f64). In a child process, which then ends.
static bool has_16_bit_branches() {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    asm volatile(".byte 0x66, 0xeb, 0x00");
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && !WIFEXITED(status);
}

bool can_go_wrong(std::string_view reason) {
  if (reason == "the kernel does not do this instruction's work in its copy") return has_umip();
  if (reason == "a 16 bit branch in a copy of the instruction goes to another address" ||
      reason == "the kernel stores another return address than this 16 bit call does")
    return has_16_bit_branches();
  return true;
}

std::string processor() {
  if (is_emulated_machine()) return "QEMU";
  std::uint32_t a = 0;
  std::uint32_t name[3] = {};
  __cpuid(0, a, name[0], name[2], name[1]);
  const std::string vendor(reinterpret_cast<const char*>(name), sizeof name);
  if (vendor == "AuthenticAMD") return "AMD";
  if (vendor == "GenuineIntel") return "Intel";
  return vendor;
}

void interrupted(int signal, ucontext_t& context) {
  // Before anything that could need the base of fs.
  asm volatile("syscall" : : "a"(158L), "D"(0x1002L), "S"(forms_fs) : "rcx", "r11", "memory");
  greg_t* const registers = context.uc_mcontext.gregs;
  constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (unsigned i = 0; i < 16; ++i) forms_out[i] = static_cast<std::uint64_t>(registers[order[i]]);
  forms_out_flags = static_cast<std::uint64_t>(registers[REG_EFL]) & ~0x10000ULL; // RF
  forms_ending = 100 + static_cast<std::uint64_t>(signal);
  forms_target = static_cast<std::uint64_t>(registers[REG_RIP]);
  registers[REG_RIP] = static_cast<greg_t>(address_of(forms_resume));
  registers[REG_RSP] = static_cast<greg_t>(forms_host_stack);
  registers[REG_EFL] = 0x202;
}

} // namespace forms
