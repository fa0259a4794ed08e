#include "resolve/boundary.hpp"

#include "uprobectl/insn.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// More than any instruction has (x86: 15).
constexpr std::uint64_t instruction_window = 16;

// Bounds the work that a symbol table can ask for: no function known is half as long, and to decode
// this much takes a fifth of a second.
constexpr std::uint64_t most_decoded = std::uint64_t{4} << 20U;

std::optional<InstructionSet> instruction_set(const elf::Machine& machine, bool thumb) {
  switch (machine.id) {
  case 3: // EM_386
    return InstructionSet::i386;
  case 62: // EM_X86_64, with 32-bit pointers (x32) too
    return InstructionSet::x86_64;
  case 183: // EM_AARCH64: little-endian instructions whatever the data are
    return InstructionSet::arm64;
  case 40: // EM_ARM; whether the code of a big-endian file is so depends on its age (BE32, BE8)
    if (!thumb) return InstructionSet::arm;
    if (machine.order == ByteOrder::big) return std::nullopt;
    return InstructionSet::thumb;
  default:
    return std::nullopt;
  }
}

// The file's code at the address, at most this much of it; empty outside.
Bytes code_at(const elf::Image& image, VirtualAddress address, std::uint64_t most) {
  const elf::Segment* const segment = image.segment_of(address);
  if (segment == nullptr || !segment->executable) return {};
  const std::uint64_t into = address.value - segment->address.value;
  const auto code = slice(image.bytes(), segment->offset.value + into, segment->file_size - into);
  return code ? code->first(std::min<std::uint64_t>(code->size(), most)) : Bytes();
}

// How the function's places are called, in a form that is taken as a FUNCTION.
std::string place_name(const elf::Symbol& symbol, std::uint64_t plus) {
  return fmt::format("{}+{:#x}", display_name(symbol), plus);
}

std::string unverified(const Question& question, std::string_view reason) {
  return fmt::format("{}: whether an instruction begins at '{}' is not known: {}",
                     question.subject(), question.function.request, reason);
}

struct Inside {
  InstructionSet set;
  Bytes code; // from the symbol's start to beyond the place
  Instruction around;
};

Error inside_instruction(const Question& question, const elf::Symbol& symbol,
                         const Inside& inside) {
  const auto& [set, code, around] = inside;
  const auto text = instruction_text(set, code.subspan(around.offset, around.size),
                                     {symbol.address.value + around.offset});
  const std::string what = text ? fmt::format("'{}', {} bytes", *text, around.size)
                                : fmt::format("an instruction of {} bytes", around.size);
  const std::uint64_t next = around.offset + around.size;
  const std::string before = place_name(symbol, around.offset);
  const bool next_is_inside = next < symbol.size;
  return Error{ErrorKind::misaligned,
               fmt::format("{}: '{}' is inside an instruction: {} is {}", question.subject(),
                           question.function.request, before, what)}
      .hint(next_is_inside
                ? fmt::format("instructions begin at {} and {}", before, place_name(symbol, next))
                : fmt::format("the function's last instruction begins at {}", before))
      .hint("--unsafe takes the place as it is: the probe breaks the program that runs over it");
}

} // namespace

Result<std::optional<std::string>> check_boundary(const Question& question,
                                                  const elf::Symbol& symbol, std::uint64_t plus) {
  if (plus == 0) return std::nullopt;
  const elf::Machine& machine = question.image.machine();
  const auto set = instruction_set(machine, symbol.thumb);
  if (!set)
    return unverified(question, fmt::format("{} code is not decoded", elf::to_string(machine)));
  if (*set == InstructionSet::arm64 && question.options.unsafe) return std::nullopt; // point_at's
  if (plus > most_decoded && *set != InstructionSet::arm && *set != InstructionSet::arm64)
    return unverified(
        question, fmt::format("no more than {:#x} bytes of a function are decoded", most_decoded));
  const Bytes code = code_at(question.image, symbol.address, plus + instruction_window);
  if (plus >= code.size()) return std::nullopt;
  switch (boundary_at(*set, code, plus)) {
  case Boundary::yes:
    return std::nullopt;
  case Boundary::unknown:
    return unverified(question, fmt::format("from {} up to there lies what is no known instruction",
                                            display_name(symbol)));
  case Boundary::no:
    break;
  }
  const auto around = instruction_around(*set, code, plus);
  if (!around) return std::nullopt;
  Error error = inside_instruction(question, symbol, {*set, code, *around});
  if (!question.options.unsafe) return fail(std::move(error));
  return error.message + ", so the probe breaks the program that runs over it";
}

void add_instructions(const Question& question, std::span<ProbePoint> points) {
  using Wish = ResolveOptions::Instructions;
  const Wish wish = question.options.instructions;
  if (wish == Wish::none) return;
  const elf::Machine& machine = question.image.machine();
  const auto set = instruction_set(machine, false);
  const bool has_text = set && *set != InstructionSet::arm;
  for (ProbePoint& point : points) {
    if (has_text)
      point.instruction = instruction_text(
          *set, code_at(question.image, point.address, instruction_window), point.address);
    if (point.instruction || wish != Wish::wanted) continue;
    point.warnings.push_back(has_text ? fmt::format("{}: at '{}' lies no known instruction",
                                                    question.subject(), display_name(point))
                                      : fmt::format("{}: the instructions of {} are not shown",
                                                    question.subject(), elf::to_string(machine)));
  }
}

} // namespace uprobectl
