// SPDX-License-Identifier: Apache-2.0
#include "resolve/instructions.hpp"

#include "archive/nested.hpp"
#include "resolve/point.hpp"

#include "symbols/classify.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

namespace {

// In bytes. Bounds the work that a malformed symbol table can cause: decoding this much takes 0.2
// s. No known function is half as long.
constexpr std::uint64_t max_code = std::uint64_t{4} << 20U;

// Returns at most `most` bytes of code at the address; empty outside of executable segments.
Bytes code_at(const elf::Image& image, VirtualAddress address, std::uint64_t most) {
  const elf::Segment* const segment = image.find_segment(address);
  if (segment == nullptr || !segment->executable) return {};
  const std::uint64_t into = address.value - segment->address.value;
  const auto code = slice(image.bytes(), segment->offset.value + into, segment->file_size - into);
  return code ? code->first(std::min<std::uint64_t>(code->size(), most)) : Bytes();
}

// Returns the place as a valid FUNCTION, for hints.
std::string place_name(const elf::Symbol& symbol, std::uint64_t plus) {
  if (symbol.name.empty()) return fmt::format("vaddr:{:#x}", symbol.address.value + plus);
  return fmt::format("{}+{:#x}", display_name(symbol), plus);
}

std::string unverified_warning(const Query& query, std::string_view reason) {
  return fmt::format("{}: cannot check that an instruction begins at '{}': {}", query.subject(),
                     query.function.request, reason);
}

// The code from the symbol's start, or from the end of data inside the function, past a place.
struct CodeRun {
  Arch arch;
  std::uint64_t start = 0; // from the symbol
  Bytes code = {};         // past the place, if the file is long enough
};

bool has_fixed_size(Arch arch) { return arch_info(arch).instruction_size != 0; }

bool has_code_marks(Arch arch) { return arch_info(arch).mapping_symbols != MappingSymbols::none; }

// Returns the last mapping symbol between the symbol's start and the place.
std::optional<CodeMarks::Mark> find_mark(const Query& query, const elf::Symbol& symbol,
                                         std::uint64_t plus) {
  if (!query.code_marks) query.code_marks.emplace(query.image);
  const auto mark = query.code_marks->last_at_or_before({symbol.address.value + plus});
  if (!mark || mark->address <= symbol.address) return std::nullopt;
  return mark;
}

// Returns the error, or with --unsafe its text as a warning.
Result<std::optional<std::string>> error_or_warning(const Query& query, Error error) {
  if (query.options.unsafe) return error.message + ": a probe there breaks the program";
  return fail(
      std::move(error).hint("--unsafe skips this check, but a probe there breaks the program"));
}

Error data_error(const Query& query, const elf::Symbol& symbol, std::uint64_t start) {
  return {ErrorKind::misaligned,
          fmt::format("{}: '{}' is in the data that begin at {}, not in an instruction",
                      query.subject(), query.function.request, place_name(symbol, start))};
}

Error inside_error(const Query& query, const elf::Symbol& symbol, const CodeRun& run,
                   const Instruction& around) {
  const std::uint64_t begin = run.start + around.offset;
  const std::uint64_t end = begin + around.size;
  const auto text = instruction_text(run.arch, run.code.subspan(around.offset, around.size),
                                     {symbol.address.value + begin});
  const std::string before = place_name(symbol, begin);
  return Error{ErrorKind::misaligned,
               fmt::format("{}: '{}' is inside an instruction: {} is {}", query.subject(),
                           query.function.request, before,
                           text ? fmt::format("'{}', {} bytes", *text, around.size)
                                : fmt::format("one of {} bytes", around.size))}
      .hint(end < symbol.size
                ? fmt::format("instructions begin at {} and {}", before, place_name(symbol, end))
                : fmt::format("the last instruction before it begins at {}", before));
}

// Maximum distance from a point to the instruction that a hint suggests, in bytes.
constexpr std::uint64_t max_hint_distance = 64;

ProbeEffect effect_at(const elf::Image& image, VirtualAddress start, std::uint64_t size,
                      std::uint64_t offset) {
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  const std::uint64_t known = std::max(std::min(size, max_code), offset + max_instruction_size);
  const bool is_whole = offset < size && size <= max_code;
  return probe_effect(*arch, code_at(image, start, is_whole ? size : known), offset,
                      is_whole || offset == 0 ? CodeExtent::function : CodeExtent::part);
}

constexpr std::string_view writable_segment =
    "its segment is writable, where the kernel puts no breakpoints";

// Linux kernel/events/uprobes.c, valid_vma(). The kernel accepts the probe without an error.
std::optional<ProbeEffect> segment_effect(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.find_segment(address);
  if (segment == nullptr || !segment->executable || !segment->writable) return std::nullopt;
  return ProbeEffect{.kind = ProbeEffect::Kind::refused, .reason = writable_segment};
}

ProbeEffect effect_of(const elf::Image& image, const ProbePoint& point) {
  if (const auto effect = segment_effect(image, point.address)) return *effect;
  if (point.inlined_into) return static_probe_effect(image, point.address);
  if (point.symbol)
    return effect_at(image, {point.address.value - point.symbol_offset}, point.size.value_or(0),
                     point.symbol_offset);
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  return probe_effect(*arch, code_at(image, point.address, max_instruction_size), 0,
                      CodeExtent::part);
}

// Returns the name, "f+0x4", of the first instruction after the point that can be probed.
std::optional<std::string> next_probeable(const ProbePoint& point) {
  const auto arch = code_arch(point.binary->machine);
  if (!arch || !point.offset || !point.symbol || point.static_probe) return std::nullopt;
  const std::uint64_t size = point.size.value_or(0);
  if (point.symbol_offset >= size || size > max_code) return std::nullopt;
  const auto function =
      slice(point.binary->file->bytes(), point.offset->value - point.symbol_offset, size);
  if (!function) return std::nullopt;
  std::uint64_t at = point.symbol_offset;
  while (at - point.symbol_offset < max_hint_distance) {
    const auto length = instruction_size(*arch, function->subspan(at));
    if (!length || *length >= size - at) return std::nullopt;
    at += *length;
    if (probe_effect(*arch, *function, at).kind != ProbeEffect::Kind::safe) continue;
    ProbePoint next = point;
    next.symbol_offset = at;
    return display_name(next);
  }
  return std::nullopt;
}

// The table of all queries, or `own`.
const FrameTable& frames_of(const Query& query, std::optional<FrameTable>& own) {
  std::optional<FrameTable>& table = query.frames != nullptr ? *query.frames : own;
  if (!table) table.emplace(query.image);
  return *table;
}

// What is known of the bytes at a symbol without a type, which assembly writes in front of
// functions and of tables alike.
enum class LabelContent { code, data, unknown };

LabelContent content_at(const Query& query, const FrameTable& frames, VirtualAddress address) {
  if (const auto arch = code_arch(query.image.machine()); arch && has_code_marks(*arch)) {
    if (!query.code_marks) query.code_marks.emplace(query.image);
    if (const auto mark = query.code_marks->last_at_or_before(address))
      return mark->data ? LabelContent::data : LabelContent::code;
  }
  return frames.piece_at(address) ? LabelContent::code : LabelContent::unknown;
}

constexpr std::string_view data_reason =
    "it is data, by the mapping symbols of the file, and a probe changes it";
constexpr std::string_view unknown_reason =
    "it may be data, which a probe changes: the symbol has no type and no unwind data cover it";

// A breakpoint in a table of constants, such as K256 of OpenSSL, makes the program compute wrong
// results. Labels that can be data are left out of patterns; one that is named is probed, with a
// warning.
void check_labels(const Query& query, std::span<ProbePoint> points) {
  std::optional<FrameTable> own;
  const bool is_pattern =
      query.function.form == FunctionSpec::Form::name && is_name_pattern(query.function.name);
  for (ProbePoint& point : points) {
    if (point.kind != SymbolKind::label || !point.symbol) continue;
    if (point.effect.kind != ProbeEffect::Kind::safe) continue;
    const LabelContent content = content_at(query, frames_of(query, own), point.address);
    if (content == LabelContent::data || (content == LabelContent::unknown && is_pattern))
      point.effect = {.kind = ProbeEffect::Kind::unsafe,
                      .reason = content == LabelContent::data ? data_reason : unknown_reason};
    else if (content == LabelContent::unknown && query.options.to_probe)
      point.warnings.push_back(
          fmt::format("{}: '{}': {}", query.subject(), display_name(point), unknown_reason));
  }
}

void warn_about_effects(const Query& query, std::span<ProbePoint> points) {
  std::map<std::string_view, std::vector<ProbePoint*>> by_reason;
  for (ProbePoint& point : points)
    if (point.effect.kind != ProbeEffect::Kind::safe)
      by_reason[point.effect.reason].push_back(&point);
  for (const auto& [reason, affected] : by_reason) {
    ProbePoint& first = *affected.front();
    const std::string places =
        affected.size() == 1 ? fmt::format("'{}' must", display_name(first))
                             : fmt::format("'{}' and {} others of '{}' must", display_name(first),
                                           affected.size() - 1, query.function.request);
    first.warnings.push_back(
        fmt::format("{}: {} not be probed: {}", query.subject(), places, reason));
  }
}

void add_instructions(const Query& query, std::span<ProbePoint> points) {
  using Mode = ResolveOptions::Instructions;
  const Mode mode = query.options.instructions;
  if (mode == Mode::none) return;
  const elf::Machine& machine = query.image.machine();
  const auto arch = code_arch(machine, false);
  const bool has_text = arch && *arch != Arch::arm;
  for (ProbePoint& point : points) {
    if (has_text)
      point.instruction = instruction_text(
          *arch, code_at(query.image, point.address, max_instruction_size), point.address);
    if (point.instruction || mode != Mode::required) continue;
    point.warnings.push_back(has_text ? fmt::format("{}: no known instruction at '{}'",
                                                    query.subject(), display_name(point))
                                      : fmt::format("{}: {} instructions cannot be shown",
                                                    query.subject(), elf::to_string(machine)));
  }
}

} // namespace

CodeMarks::CodeMarks(const elf::Image& image) {
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (symbol && symbol->defined && is_mapping_symbol(*symbol, image.machine()))
        marks_.push_back({.address = symbol->address, .data = symbol->name[1] == 'd'});
    }
  };
  if (const auto table = image.full_symbols()) read(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) read(table);
  std::ranges::sort(marks_, {}, &Mark::address);
}

std::optional<CodeMarks::Mark> CodeMarks::last_at_or_before(VirtualAddress address) const {
  const auto after = std::ranges::upper_bound(marks_, address, {}, &Mark::address);
  if (after == marks_.begin()) return std::nullopt;
  return *std::prev(after);
}

Result<std::optional<std::string>> check_boundary(const Query& query, const elf::Symbol& symbol,
                                                  std::uint64_t plus) {
  if (plus == 0) return std::nullopt;
  const elf::Machine& machine = query.image.machine();
  const auto arch = code_arch(machine, symbol.thumb);
  if (!arch)
    return unverified_warning(query,
                              fmt::format("{} code is not decoded", elf::to_string(machine)));
  CodeRun run{.arch = *arch};
  if (has_code_marks(*arch)) {
    const auto mark = find_mark(query, symbol, plus);
    if (mark) run.start = mark->address.value - symbol.address.value;
    if (mark && mark->data) return error_or_warning(query, data_error(query, symbol, run.start));
  }
  if (*arch == Arch::arm64 && query.options.unsafe) return std::nullopt; // point_at() warns
  const std::uint64_t into = plus - run.start;
  if (into > max_code && !has_fixed_size(*arch))
    return unverified_warning(
        query, fmt::format("no more than {:#x} bytes of a function are decoded", max_code));
  run.code = code_at(query.image, {symbol.address.value + run.start}, into + max_instruction_size);
  if (into >= run.code.size()) return std::nullopt;
  switch (boundary_at(*arch, run.code, into)) {
  case Boundary::yes:
    return std::nullopt;
  case Boundary::unknown:
    return unverified_warning(
        query, fmt::format("the code from {} to there does not decode",
                           symbol.name.empty() ? place_name(symbol, 0) : display_name(symbol)));
  case Boundary::no:
    break;
  }
  const auto around = instruction_around(*arch, run.code, into);
  if (!around) return std::nullopt;
  return error_or_warning(query, inside_error(query, symbol, run, *around));
}

Result<std::optional<std::string>> check_unnamed(const Query& query, VirtualAddress address) {
  if (query.image.machine().info().thumb_bit) return std::nullopt; // ARM has other unwind data
  std::optional<FrameTable> own;
  const auto piece = frames_of(query, own).piece_at(address);
  if (!piece) {
    if (!query.options.to_probe) return std::nullopt;
    return unverified_warning(query, "no symbol and no unwind data cover it");
  }
  elf::Symbol code;
  code.address = piece->range.address;
  code.size = piece->range.size;
  return check_boundary(query, code, address.value - code.address.value);
}

void finish_points(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points) point.effect = effect_of(query.image, point);
  check_labels(query, points);
  if (!query.options.to_probe) warn_about_effects(query, points);
  add_instructions(query, points);
}

ProbeEffect static_probe_effect(const elf::Image& image, VirtualAddress address) {
  if (const auto effect = segment_effect(image, address)) return *effect;
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  const ProbeEffect alone =
      probe_effect(*arch, code_at(image, address, max_instruction_size), 0, CodeExtent::part);
  if (alone.kind == ProbeEffect::Kind::safe) return alone;
  const auto covering = symbol_at(image, address);
  if (!covering) return alone;
  return effect_at(image, covering->symbol.address, covering->symbol.size, covering->offset);
}

std::optional<Error> nested_error(const ProbePoint& point) {
  const auto& entry = point.binary->path.entry;
  if (!entry || !point.binary->file || !split_nested(point.binary->file->bytes(), *entry))
    return std::nullopt;
  return Error{ErrorKind::unsupported, to_string(point.binary->path) +
                                           ": in an archive inside an archive, which no process "
                                           "maps"}
      .hint("install the app and probe its APK on the device (--app PACKAGE, or -p PID)");
}

std::optional<Error> probe_error(const ProbePoint& point) {
  if (auto nested = nested_error(point)) return nested;
  if (point.effect.kind == ProbeEffect::Kind::safe) return std::nullopt;
  const bool is_refused = point.effect.kind == ProbeEffect::Kind::refused;
  Error error{ErrorKind::unsupported,
              fmt::format("{}: '{}' cannot be probed{}: {}", to_string(point.binary->path),
                          display_name(point), is_refused ? "" : " without harm to the program",
                          point.effect.reason)};
  if (point.effect.reason == writable_segment) return error;
  if (const auto next = next_probeable(point))
    error =
        std::move(error).hint(fmt::format("the next instruction that can be probed: '{}'", *next));
  return error;
}

} // namespace uprobectl
