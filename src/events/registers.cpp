#include "events/registers.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

#if defined(__x86_64__)

// struct pt_regs of Linux arch/x86/include/asm/ptrace.h.
constexpr std::array<std::string_view, 21> names_by_number = {
    "r15", "r14", "r13", "r12", "rbp",      "rbx", "r11", "r10",    "r9",  "r8", "rax",
    "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",  "rflags", "rsp", "ss"};
enum : std::uint32_t {
  rbx = 5,
  r11 = 6,
  r10 = 7,
  r9 = 8,
  r8 = 9,
  rax = 10,
  rcx = 11,
  rdx = 12,
  rsi = 13,
  rdi = 14,
  program_counter = 16,
  rsp = 19
};
// System V AMD64 ABI 3.2.3.
constexpr std::array<std::uint32_t, 6> native_arguments = {rdi, rsi, rdx, rcx, r8, r9};
// go/src/cmd/compile/abi-internal.md, Go 1.17.
constexpr std::array<std::uint32_t, 9> go_arguments = {rax, rbx, rcx, rdi, rsi, r8, r9, r10, r11};

#elif defined(__aarch64__)

// struct user_pt_regs of Linux arch/arm64/include/uapi/asm/ptrace.h.
constexpr std::array<std::string_view, 34> names_by_number = {
    "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",    "x10", "x11",
    "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",   "x22", "x23",
    "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc",  "pstate"};
constexpr std::uint32_t program_counter = 32;
constexpr std::array<std::uint32_t, 16> first_registers = {0, 1, 2,  3,  4,  5,  6,  7,
                                                           8, 9, 10, 11, 12, 13, 14, 15};

#endif

} // namespace

std::span<const std::string_view> register_names() { return names_by_number; }

std::optional<std::uint32_t> register_number(std::string_view name) {
#if defined(__x86_64__)
  const bool is_half = name.size() == 3 && name.starts_with('e');
  const std::string full = "r" + std::string(name.substr(is_half ? 1 : 0));
#else
  const std::string full = name == "lr" ? "x30" : std::string(name);
#endif
  for (std::uint32_t i = 0; i < names_by_number.size(); ++i)
    if (names_by_number[i] == name || names_by_number[i] == full) return i;
  return std::nullopt;
}

std::uint32_t instruction_pointer() { return program_counter; }

std::optional<std::uint32_t> register_meant_by(std::string_view name) {
  if (name == "flags") return std::nullopt;
  return register_number(name);
}

bool is_ambiguous_register(std::string_view name) {
  const bool is_numbered = name.size() == 2 && name[1] >= '0' && name[1] <= '9'; // "r8", "x0"
  return name.size() == 2 && !is_numbered && register_meant_by(name).has_value();
}

std::optional<std::uint32_t> argument_in_register(std::string_view name) {
  const auto number = register_meant_by(name);
  const auto convention = calling_convention(CodeKind::native);
  if (!number || !convention) return std::nullopt;
  const auto registers = convention->argument_registers;
  const auto found = std::ranges::find(registers, *number);
  if (found == registers.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - registers.begin());
}

#if defined(__x86_64__)

std::optional<ForeignRegister> foreign_register(std::string_view name) {
  if (name.size() < 2 || name.size() > 3 || name.front() != 'x') return std::nullopt;
  const auto number = parse_unsigned(name.substr(1));
  constexpr std::uint64_t last = 30;
  constexpr std::uint64_t arguments = 8; // AAPCS64 6.8.2
  if (!number || *number > last) return std::nullopt;
  ForeignRegister found{.machine = "arm64", .argument = {}};
  if (*number < arguments) found.argument = static_cast<std::uint32_t>(*number);
  return found;
}

#elif defined(__aarch64__)

std::optional<ForeignRegister> foreign_register(std::string_view name) {
  // In the order of arguments (System V AMD64 ABI 3.2.3), then the others.
  constexpr std::array<std::string_view, 17> names = {"rdi", "rsi", "rdx", "rcx", "r8",  "r9",
                                                      "rax", "rbx", "rbp", "rsp", "r10", "r11",
                                                      "r12", "r13", "r14", "r15", "rip"};
  constexpr std::uint32_t arguments = 6;
  std::string full(name);
  if (name.size() == 3 && name.starts_with('e')) full.front() = 'r';
  const auto* const found = std::ranges::find(names, full);
  if (found == names.end()) return std::nullopt;
  ForeignRegister made{.machine = "x86-64", .argument = {}};
  const auto at = static_cast<std::uint32_t>(found - names.begin());
  if (at < arguments) made.argument = at;
  return made;
}

#endif

#if defined(__x86_64__)

std::optional<CallingConvention> calling_convention(CodeKind kind) {
  CallingConvention convention{.argument_registers = native_arguments,
                               .first_on_stack = 8,
                               .stack_pointer = rsp,
                               .return_register = rax};
  if (kind == CodeKind::go) {
    convention.argument_registers = go_arguments;
    convention.has_stack_arguments = false; // they share their place with spilled registers
  }
  if (kind == CodeKind::native_32) { // System V i386 ABI 2.2.3: all of them lie on the stack
    convention.argument_registers = {};
    convention.first_on_stack = convention.slot = convention.pointer_size = 4;
  }
  return convention;
}

#elif defined(__aarch64__)

std::optional<CallingConvention> calling_convention(CodeKind kind) {
  if (kind == CodeKind::native_32) return std::nullopt; // Linux probes no 32-bit code here
  CallingConvention convention{.stack_pointer = 31, .return_register = 0};
  const std::span<const std::uint32_t> registers = first_registers;
  // AAPCS64 6.8.2; go/src/cmd/compile/abi-internal.md.
  convention.argument_registers = kind == CodeKind::go ? registers : registers.first(8);
  convention.has_stack_arguments = kind != CodeKind::go;
  return convention;
}

#endif

} // namespace uprobectl
