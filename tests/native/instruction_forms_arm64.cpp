// SPDX-License-Identifier: Apache-2.0
// arm64: each kind of branch by hand, and of everything else words with fixed registers and other
// bits taken at random, always the same ones.
#include "instruction_forms.hpp"

#include <cstring>
#include <fstream>
#include <random>
#include <sys/syscall.h>

extern "C" {
// x0 to x30 and sp; then v0 to v31, two words each; then fpsr
std::uint64_t forms_in[100], forms_out[100], forms_ending, forms_flags, forms_host_stack;
}

// x28 is the test's own: it points to what is saved.
asm(R"(
.text
.globl forms_enter, forms_ending_1, forms_ending_2, forms_resume
forms_enter:
  stp x29, x30, [sp, #-176]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  str x0, [sp, #160]
  adrp x1, forms_host_stack
  mov x2, sp
  str x2, [x1, :lo12:forms_host_stack]
  adrp x28, forms_in
  add x28, x28, :lo12:forms_in
  add x1, x28, #256
  ldp q0, q1, [x1, #0]
  ldp q2, q3, [x1, #32]
  ldp q4, q5, [x1, #64]
  ldp q6, q7, [x1, #96]
.irp number, 8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  movi v\number\().2d, #0
.endr
  ldr x1, [x28, #248]
  mov x30, x0
  mov sp, x1
  mov x1, #0x20000000
  msr nzcv, x1
  msr fpsr, xzr
  ldp x0, x1, [x28, #0]
  ldp x2, x3, [x28, #16]
  ldp x4, x5, [x28, #32]
  ldp x6, x7, [x28, #48]
  ldp x8, x9, [x28, #64]
  ldp x10, x11, [x28, #80]
  ldp x12, x13, [x28, #96]
  ldp x14, x15, [x28, #112]
  ldp x16, x17, [x28, #128]
  ldp x18, x19, [x28, #144]
  ldp x20, x21, [x28, #160]
  ldp x22, x23, [x28, #176]
  ldp x24, x25, [x28, #192]
  ldp x26, x27, [x28, #208]
  ldr x29, [x28, #232]
  adrp x28, forms_out
  add x28, x28, :lo12:forms_out
  br x30
forms_ending_1:
  stp x0, x1, [x28]
  mov x0, #1
  b 1f
forms_ending_2:
  stp x0, x1, [x28]
  mov x0, #2
1:
  adrp x1, forms_ending
  str x0, [x1, :lo12:forms_ending]
  mrs x0, nzcv
  adrp x1, forms_flags
  str x0, [x1, :lo12:forms_flags]
  stp x2, x3, [x28, #16]
  stp x4, x5, [x28, #32]
  stp x6, x7, [x28, #48]
  stp x8, x9, [x28, #64]
  stp x10, x11, [x28, #80]
  stp x12, x13, [x28, #96]
  stp x14, x15, [x28, #112]
  stp x16, x17, [x28, #128]
  stp x18, x19, [x28, #144]
  stp x20, x21, [x28, #160]
  stp x22, x23, [x28, #176]
  stp x24, x25, [x28, #192]
  stp x26, x27, [x28, #208]
  str x30, [x28, #240]
  mov x0, sp
  str x0, [x28, #248]
  add x1, x28, #256
  stp q0, q1, [x1, #0]
  stp q2, q3, [x1, #32]
  stp q4, q5, [x1, #64]
  stp q6, q7, [x1, #96]
  mrs x0, fpsr
  str x0, [x28, #392]
forms_resume:
  adrp x1, forms_host_stack
  ldr x1, [x1, :lo12:forms_host_stack]
  mov sp, x1
  msr fpsr, xzr
  msr fpcr, xzr
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #176
  ret
)");

namespace forms {

const uprobectl::Arch arch = uprobectl::Arch::arm64;

namespace {

constexpr std::uint32_t nop = 0xd503201f;
constexpr std::uint64_t nops_after = 12; // bytes

Code words(std::initializer_list<std::uint32_t> all) {
  Code code;
  for (const std::uint32_t word : all)
    for (unsigned i = 0; i < 4; ++i) code.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
  return code;
}

std::uint32_t branch(std::uint64_t from, const char* label) {
  return 0x14000000U | (static_cast<std::uint32_t>((address_of(label) - from) >> 2U) & 0x03ffffffU);
}

void add_branches(std::vector<Form>& found) {
  // To the second ending: after the word, adr and nops, and the branch to the first.
  constexpr std::uint32_t ahead = 4 + 4 + nops_after + 4;
  const std::uint32_t imm19 = (ahead >> 2U) << 5U;
  const auto add = [&](std::uint32_t word) { found.push_back({.code = words({word})}); };
  add(0x14000000U | ahead >> 2U); // b
  add(0x94000000U | ahead >> 2U); // bl
  for (std::uint32_t condition = 0; condition < 16; ++condition) {
    add(0x54000000U | imm19 | condition); // b.cond
    add(0x54000010U | imm19 | condition); // bc.cond
  }
  for (const std::uint32_t base : {0x34000000U, 0x35000000U, 0xb4000000U, 0xb5000000U})
    for (const std::uint32_t reg : {0U, 2U}) add(base | imm19 | reg); // cbz, cbnz
  for (const std::uint32_t base : {0x36000000U, 0x37000000U, 0xb6000000U, 0xb7000000U})
    for (const std::uint32_t bit : {0U, 1U, 7U})
      add(base | bit << 19U | (ahead >> 2U) << 5U | 2U); // tbz, tbnz
  // x11 has the first ending
  for (const std::uint32_t base : {0xd61f0000U, 0xd63f0000U, 0xd65f0000U}) add(base | 11U << 5U);
  for (const std::uint32_t base : {0xd61f081fU, 0xd63f081fU, 0xd71f0800U}) add(base | 11U << 5U);
  add(0xd65f0bff); // retaa
  for (const std::uint32_t base : {0x10000000U, 0x30000000U, 0x90000000U, 0xb0000000U})
    add(base | 0x40U | 2U); // adr, adrp
  // Loads of the words after the code.
  for (const std::uint32_t base :
       {0x18000000U, 0x58000000U, 0x98000000U, 0xd8000000U, 0x1c000000U, 0x5c000000U, 0x9c000000U})
    add(base | imm19 | 2U);
}

void add_system(std::vector<Form>& found) {
  const auto add = [&](std::uint32_t word) { found.push_back({.code = words({word})}); };
  for (std::uint32_t number = 0; number < 128; ++number)
    if (number != 2 && number != 3) add(0xd503201fU | number << 5U); // hints but wfe and wfi
  for (const std::uint32_t word :
       {0xd4000001U, 0xd4200000U, 0xd4400000U, 0xd53bd042U, 0xd51b4202U, 0xd51b4402U, 0xd53b4202U,
        0xd53b4402U, 0xd53be042U, 0xd500401fU, 0xd5033bbfU, 0xd5033f9fU, 0xd5033fdfU, 0xd503305fU,
        0xd50b7421U, 0xd50b7b21U, 0xd50b7e21U, 0xd50330ffU})
    add(word); // svc brk hlt mrs msr cfinv dmb dsb isb clrex dc sb
}

// Loops around an exclusive load and store, with the probe at each of their words: they must end.
void add_exclusives(std::vector<Form>& found) {
  for (std::uint64_t probed = 0; probed < 16; probed += 4)
    found.push_back(
        {.code = words({0xc85f7c22U, 0x91000442U, 0xc8037c22U, 0x35ffffa3U}), .probed = probed});
  for (std::uint64_t probed = 0; probed < 8; probed += 4)
    found.push_back({.code = words({0xc85f7c22U, 0xc8037c22U}), .probed = probed});
}

// Fields that hold registers get those that point to memory, or small numbers.
void add_random(std::vector<Form>& found, std::size_t every) {
  constexpr std::size_t per_group = 6000;
  std::mt19937 random(20261122);
  // Bits 28 to 25 (Arm DDI 0602, top level): data, loads and stores, vectors, SVE.
  for (const std::uint32_t group : {2U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 13U, 14U, 15U})
    for (std::size_t i = 0; i < per_group; ++i) {
      std::uint32_t word = random();
      word = (word & ~(0xfU << 25U)) | group << 25U;
      word = (word & ~0x3ffU) | 1U << 5U | 2U; // Rn x1, Rd x2
      word = (word & ~(0x1fU << 16U)) | 3U << 16U;
      if ((group & 5U) == 4U && i % 2 == 0)
        word = (word & ~(0x1fU << 10U)) | 4U << 10U | (word & 0x800U);
      if (i % every != 0) continue;
      Code code = words({word});
      if (uprobectl::insn::instruction_text(
              arch, {reinterpret_cast<const std::byte*>(code.data()), code.size()}, {0}))
        found.push_back({.code = std::move(code)});
    }
}

} // namespace

std::vector<Form> all(std::size_t every) {
  std::vector<Form> found;
  add_branches(found);
  add_system(found);
  add_exclusives(found);
  add_random(found, every);
  return found;
}

// After the form `adr x10, .` and nops: what goes on in a copy is seen.
Code slot(const Form& form, std::uint64_t address) {
  Code code = form.code;
  const auto add = [&](std::uint32_t word) {
    const Code more = words({word});
    code.insert(code.end(), more.begin(), more.end());
  };
  add(0x1000000a);
  for (std::uint64_t i = 0; i < nops_after; i += 4) add(nop);
  add(branch(address + code.size(), forms_ending_1));
  add(branch(address + code.size(), forms_ending_2));
  return code;
}

bool is_breakpoint(const std::uint8_t* code, const Form& form) {
  std::uint32_t word = 0;
  std::memcpy(&word, code + form.probed, sizeof word);
  return word == 0xd42000a0; // brk #5
}

void prepare() {
  std::memset(forms_in, 0, sizeof forms_in);
  forms_in[0] = 0x1111222233334444;
  forms_in[1] = operand_address;
  forms_in[2] = 0x82; // bits that tbz looks at
  forms_in[3] = 8;
  forms_in[4] = operand_address + 0x100;
  for (unsigned i = 5; i < 30; ++i) forms_in[i] = 0x0101010101010101U * i;
  forms_in[8] = SYS_getpid;
  forms_in[11] = address_of(forms_ending_1);
  forms_in[31] = stack_address;
  for (unsigned i = 32; i < 48; ++i) forms_in[i] = 0x3ff0000000000000U + i * 0x0123456789abU;
}

void run(std::uint64_t address, Outcome& outcome) {
  forms_ending = 0;
  std::memset(forms_out, 0, sizeof forms_out);
  forms_enter(address);
  outcome = {};
  outcome.ending = forms_ending;
  outcome.flags = forms_flags;
  std::memcpy(outcome.general, forms_out, 28 * 8);
  outcome.general[30] = forms_out[30];
  outcome.general[31] = forms_out[31];
  if (forms_ending >= 100) {
    outcome.address = forms_out[99];
    return;
  }
  std::memcpy(outcome.vectors, forms_out + 32, 16 * 8);
  outcome.vectors[16] = forms_out[49];
}

bool can_be_resumed(const Outcome&) { return true; }
bool can_go_wrong(std::string_view) { return true; }

// QEMU's processor `max` has the implementer 0, which Arm has not assigned.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  constexpr std::string_view field = "CPU implementer\t: ";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field))
      return line.ends_with(" 0x00") ? "QEMU" : "implementer " + line.substr(field.size());
  return "unknown";
}

void interrupted(int signal, ucontext_t& context) {
  auto& machine = context.uc_mcontext;
  std::memcpy(forms_out, machine.regs, 31 * 8);
  forms_out[28] = 0;
  forms_out[31] = machine.sp;
  forms_out[99] = machine.pc;
  forms_flags = machine.pstate & 0xf0000000U;
  forms_ending = 100 + static_cast<std::uint64_t>(signal);
  machine.pc = address_of(forms_resume);
  machine.pstate &= ~std::uint64_t{0xc00}; // the kind of branch that led here (BTI)
}

} // namespace forms
