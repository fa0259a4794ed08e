#include "uprobectl/unwind/saved.hpp"

#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>

namespace uprobectl::stacks {

namespace {

struct NamedValue {
  std::string_view name;
  std::uint64_t value = 0;
};

// "NAME: HEX", with or without 0x.
std::optional<NamedValue> parse_register(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  NamedValue found{trimmed(line.substr(0, colon)), 0};
  std::string_view number = trimmed(line.substr(colon + 1));
  if (number.starts_with("0x")) number.remove_prefix(2);
  const auto value = parse_number<std::uint64_t>(number, 16);
  if (!value || found.name.empty()) return std::nullopt;
  found.value = *value;
  return found;
}

Result<Arch> unsupported(std::string_view machine) {
  return fail(ErrorKind::unsupported, "the registers are of " + std::string(machine) +
                                          ", whose stacks are not unwound: x86-64 and arm64 are");
}

Result<Arch> arch_of(std::span<const NamedValue> registers, const MachineQuestion& ask) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(registers, name, &NamedValue::name) != registers.end();
  };
  if (has("rip") || has("rsp") || has("rax")) return Arch::x86_64;
  if (has("eip")) return unsupported("i386");
  if (has("x0") || has("x29")) {
    if (has("x31") || has("ra")) return unsupported("riscv64");
    return Arch::arm64;
  }
  if (has("r0") || has("r11")) return unsupported("arm");
  const auto machine = ask ? ask() : std::nullopt;
  if (!machine)
    return fail(ErrorKind::unsupported, "no register says which machine they are of, and no mapped "
                                        "file is there to tell");
  if (const auto arch = unwound_arch(*machine)) return *arch;
  return unsupported(elf::to_string(*machine));
}

// Which of the two that every stack begins with are missing: "rip and rsp are missing".
Result<void> check_complete(const Registers& registers) {
  if (registers.pc() && registers.stack_pointer()) return {};
  const std::string pc = register_name(registers.arch(), registers.info().pc);
  const std::string stack_pointer = register_name(registers.arch(), registers.info().stack_pointer);
  if (!registers.pc() && !registers.stack_pointer())
    return fail(ErrorKind::corrupt, pc + " and " + stack_pointer + " are missing");
  return fail(ErrorKind::corrupt, (registers.pc() ? stack_pointer : pc) + " is missing");
}

} // namespace

Result<Registers> parse_registers(std::string_view text, const MachineQuestion& machine) {
  std::vector<NamedValue> found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take_line(text));
    if (line.empty()) continue;
    const auto named = parse_register(line);
    if (!named)
      return fail(ErrorKind::corrupt, "line " + std::to_string(number) + " is no 'NAME: HEX'");
    found.push_back(*named);
  }
  const auto arch = arch_of(found, machine);
  if (!arch) return fail(arch.error());
  Registers registers(*arch);
  for (const NamedValue& named : found)
    if (const auto number = register_number(*arch, named.name)) registers.set(*number, named.value);
  if (auto complete = check_complete(registers); !complete) return fail(complete.error());
  return registers;
}

bool was_at_function_entry(std::string_view text) {
  while (!text.empty()) {
    const auto named = parse_register(trimmed(take_line(text)));
    if (named && named->name == "at_function_entry") return named->value != 0;
  }
  return false;
}

} // namespace uprobectl::stacks
