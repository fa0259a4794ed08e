#include "resolve/boundary.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Bounds the work that a symbol table can ask for: no function known is half as long, and to decode
// this much takes a fifth of a second.
constexpr std::uint64_t most_decoded = std::uint64_t{4} << 20U;

// How the function's places are called, in a form that is taken as a FUNCTION.
std::string place_name(const elf::Symbol& symbol, std::uint64_t plus) {
  return fmt::format("{}+{:#x}", display_name(symbol), plus);
}

std::string unverified(const Question& question, std::string_view reason) {
  return fmt::format("{}: whether an instruction begins at '{}' is not known: {}",
                     question.subject(), question.function.request, reason);
}

// The instructions that lead up to a place: from the symbol on, or from behind data in it.
struct Run {
  Arch arch;
  std::uint64_t start = 0; // from the symbol
  Bytes code = {};         // to beyond the place, if the file has that much
};

bool has_fixed_size(Arch arch) { return arch_info(arch).instruction_size != 0; }

bool has_code_marks(Arch arch) { return arch_info(arch).mapping_symbols != MappingSymbols::none; }

// The mark that decides what a place inside the symbol is; nothing where the symbol's start does.
std::optional<CodeMarks::Mark> mark_of(const Question& question, const elf::Symbol& symbol,
                                       std::uint64_t plus) {
  if (!question.code_marks) question.code_marks.emplace(question.image);
  const auto mark = question.code_marks->last_before({symbol.address.value + plus});
  if (!mark || mark->address <= symbol.address) return std::nullopt;
  return mark;
}

// An error, or with --unsafe a warning.
Result<std::optional<std::string>> refused(const Question& question, Error error) {
  if (question.options.unsafe)
    return error.message + ", so the probe breaks the program that runs over it";
  return fail(std::move(error).hint(
      "--unsafe takes the place as it is: the probe breaks the program that runs over it"));
}

Error is_data(const Question& question, const elf::Symbol& symbol, std::uint64_t start) {
  return {ErrorKind::misaligned,
          fmt::format("{}: '{}' is in the data that begin at {}, not in an instruction",
                      question.subject(), question.function.request, place_name(symbol, start))};
}

Error is_inside(const Question& question, const elf::Symbol& symbol, const Run& run,
                const Instruction& around) {
  const std::uint64_t begin = run.start + around.offset;
  const std::uint64_t end = begin + around.size;
  const auto text = instruction_text(run.arch, run.code.subspan(around.offset, around.size),
                                     {symbol.address.value + begin});
  const std::string before = place_name(symbol, begin);
  return Error{ErrorKind::misaligned,
               fmt::format("{}: '{}' is inside an instruction: {} is {}", question.subject(),
                           question.function.request, before,
                           text ? fmt::format("'{}', {} bytes", *text, around.size)
                                : fmt::format("one of {} bytes", around.size))}
      .hint(end < symbol.size
                ? fmt::format("instructions begin at {} and {}", before, place_name(symbol, end))
                : fmt::format("the last instruction before it begins at {}", before));
}

} // namespace

Bytes code_at(const elf::Image& image, VirtualAddress address, std::uint64_t most) {
  const elf::Segment* const segment = image.segment_of(address);
  if (segment == nullptr || !segment->executable) return {};
  const std::uint64_t into = address.value - segment->address.value;
  const auto code = slice(image.bytes(), segment->offset.value + into, segment->file_size - into);
  return code ? code->first(std::min<std::uint64_t>(code->size(), most)) : Bytes();
}

Result<std::optional<std::string>> check_boundary(const Question& question,
                                                  const elf::Symbol& symbol, std::uint64_t plus) {
  if (plus == 0) return std::nullopt;
  const elf::Machine& machine = question.image.machine();
  const auto arch = code_arch(machine, symbol.thumb);
  if (!arch)
    return unverified(question, fmt::format("{} code is not decoded", elf::to_string(machine)));
  Run run{.arch = *arch};
  if (has_code_marks(*arch)) {
    const auto mark = mark_of(question, symbol, plus);
    if (mark) run.start = mark->address.value - symbol.address.value;
    if (mark && mark->data) return refused(question, is_data(question, symbol, run.start));
  }
  if (*arch == Arch::arm64 && question.options.unsafe) return std::nullopt; // point_at's
  const std::uint64_t into = plus - run.start;
  if (into > most_decoded && !has_fixed_size(*arch))
    return unverified(
        question, fmt::format("no more than {:#x} bytes of a function are decoded", most_decoded));
  run.code = code_at(question.image, {symbol.address.value + run.start}, into + instruction_window);
  if (into >= run.code.size()) return std::nullopt;
  switch (boundary_at(*arch, run.code, into)) {
  case Boundary::yes:
    return std::nullopt;
  case Boundary::unknown:
    return unverified(question, fmt::format("from {} up to there lies what is no known instruction",
                                            display_name(symbol)));
  case Boundary::no:
    break;
  }
  const auto around = instruction_around(*arch, run.code, into);
  if (!around) return std::nullopt;
  return refused(question, is_inside(question, symbol, run, *around));
}

void add_instructions(const Question& question, std::span<ProbePoint> points) {
  using Wish = ResolveOptions::Instructions;
  const Wish wish = question.options.instructions;
  if (wish == Wish::none) return;
  const elf::Machine& machine = question.image.machine();
  const auto arch = code_arch(machine, false);
  const bool has_text = arch && *arch != Arch::arm;
  for (ProbePoint& point : points) {
    if (has_text)
      point.instruction = instruction_text(
          *arch, code_at(question.image, point.address, instruction_window), point.address);
    if (point.instruction || wish != Wish::wanted) continue;
    point.warnings.push_back(has_text ? fmt::format("{}: at '{}' lies no known instruction",
                                                    question.subject(), display_name(point))
                                      : fmt::format("{}: the instructions of {} are not shown",
                                                    question.subject(), elf::to_string(machine)));
  }
}

} // namespace uprobectl
