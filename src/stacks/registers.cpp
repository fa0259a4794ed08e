#include "uprobectl/stacks/registers.hpp"

#include <charconv>

namespace uprobectl::stacks {

namespace {

constexpr std::array<std::string_view, 17> x86_64_names = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                           "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                           "r12", "r13", "r14", "r15", "rip"};

// "x0" to "x30"
std::optional<std::uint8_t> arm64_number(std::string_view name) {
  if (name == "lr") return arm64_link_register;
  if (name == "fp") return roles_of(Isa::arm64).frame_pointer;
  if (name == "sp") return roles_of(Isa::arm64).stack_pointer;
  if (name == "pc") return roles_of(Isa::arm64).pc;
  if (name.size() < 2 || name[0] != 'x') return std::nullopt;
  std::uint8_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 1, end, number);
  if (error != std::errc() || stop != end || number > arm64_link_register) return std::nullopt;
  return number;
}

} // namespace

std::string_view to_string(Isa isa) { return isa == Isa::x86_64 ? "x86-64" : "arm64"; }

std::optional<std::uint8_t> register_number(Isa isa, std::string_view name) {
  if (isa == Isa::arm64) return arm64_number(name);
  for (std::size_t i = 0; i < x86_64_names.size(); ++i)
    if (x86_64_names[i] == name) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

std::string register_name(Isa isa, std::uint8_t number) {
  if (isa == Isa::x86_64)
    return std::string(number < x86_64_names.size() ? x86_64_names[number] : "");
  if (number == roles_of(isa).stack_pointer) return "sp";
  if (number == roles_of(isa).pc) return "pc";
  return number < roles_of(isa).stack_pointer ? "x" + std::to_string(number) : "";
}

} // namespace uprobectl::stacks
