// SPDX-License-Identifier: Apache-2.0
#include "resolve/instructions.hpp"

#include "archive/nested.hpp"
#include "resolve/point.hpp"

#include "symbols/classify.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::resolve {

namespace {

// Limits the code of a function, bytes, and so the work that a malformed symbol table can cause:
// decoding this much takes 0.2 s. No known function is half as long.
constexpr std::uint64_t max_code = std::uint64_t{4} << 20U;

// Returns the address as a valid FUNCTION, for hints.
std::string format_address(const elf::Symbol& symbol, std::uint64_t plus) {
  if (symbol.name.empty()) return fmt::format("vaddr:{:#x}", symbol.address.value + plus);
  return fmt::format("{}+{:#x}", symbols::display_name(symbol), plus);
}

bool has_code_marks(Arch arch) { return arch_info(arch).mapping_symbols != MappingSymbols::none; }

// Maximum distance from a point to the instruction that a hint suggests, in bytes.
constexpr std::uint64_t max_hint_distance = 64;

constexpr std::string_view sequence_reason =
    "it is in a restartable sequence (rseq) and the kernel runs a copy of it elsewhere, so that an "
    "interrupted sequence is not started again";
constexpr std::string_view signature_reason =
    "it is the signature in front of the abort handler of a restartable sequence (rseq), and the "
    "kernel kills the program if it is changed";

constexpr std::string_view relocated_reason =
    "the loader changes it (a text relocation), and the kernel runs it as it is in the file";

// Checks that an instruction begins at a point.
class InstructionCheck {
public:
  InstructionCheck(const Query& query, ProbePoint& point, std::string_view found)
      : query_(query), index_(query.code), point_(point), found_(found) {}

  // `code`: what covers the point.
  void check(const std::optional<CoveringCode>& code) {
    const elf::Machine& machine = query_.image.machine();
    const auto arch = code_arch(machine, code && code->symbol.thumb);
    if (!arch) {
      if (code) warn(fmt::format("{} code is not decoded", elf::to_string(machine)));
      return;
    }
    std::optional<CodeMarks::Mark> mark;
    if (has_code_marks(*arch)) mark = index_.marks().last_at_or_before(address());
    if (mark &&
        (code ? mark->address < code->symbol.address
              : query_.image.find_segment(mark->address) != query_.image.find_segment(address())))
      mark.reset();
    if (mark && mark->data) return reject(data_error(code, mark->address));
    if (code) return check_boundary(*arch, *code, mark ? mark->address : code->symbol.address);
    if (index_.is_data(address())) return reject(data_error({}, address()));
    if (query_.options.to_probe && !mark && !machine.info().thumb_bit)
      warn("no symbol and no unwind data cover it");
  }

  std::optional<Error> take_error() { return std::move(misplaced_); }

private:
  VirtualAddress address() const { return point_.address; }

  std::string name() const {
    return found_.empty() ? fmt::format("'{}'", query_.function.request)
                          : fmt::format("'{}' at {:#x}", found_, address().value);
  }

  // `start`: the start of the code, or of the instructions after data in it.
  void check_boundary(Arch arch, const CoveringCode& code, VirtualAddress start) {
    // An instruction begins at each aligned address, and make_point() warns of others.
    const bool is_known = arch_info(arch).instruction_size == arch_info(arch).instruction_alignment;
    if (is_known && query_.options.unsafe) return;
    if (address().value - start.value > max_code && arch_info(arch).instruction_size == 0) {
      const std::string limit =
          fmt::format("no more than {:#x} bytes of a function are decoded", max_code);
      if (found_.empty()) return warn(limit);
      return reject({ErrorKind::misaligned, fmt::format("{}: {} may be inside an instruction: {}",
                                                        query_.subject(), name(), limit)});
    }
    if (const bool is_checked = check_reach(arch, code); is_checked) return;
    switch (index_.boundary_at(arch, start, address())) {
    case insn::Boundary::yes:
      return warn_about_label(code);
    case insn::Boundary::unknown:
      if (const auto closer = closer_symbol(code)) return check(closer);
      return warn(fmt::format("the code from {} to there does not decode",
                              code.symbol.name.empty() ? format_address(code.symbol, 0)
                                                       : symbols::display_name(code.symbol)));
    case insn::Boundary::no:
      if (const auto closer = closer_symbol(code)) return check(closer);
      return reject_inside(arch, code, start, index_.instruction_around(arch, start, address()));
    }
  }

  // Checks the point by the direct branches of the code. Returns false if they do not decide.
  bool check_reach(Arch arch, const CoveringCode& code) {
    using Reach = CodeIndex::Reach;
    if (code.symbol.size > max_code) return false;
    const elf::AddressRange range{code.symbol.address, code.symbol.size};
    const Reach reach = index_.reach_at(arch, range, address());
    if (reach == Reach::unknown) return false;
    if (reach == Reach::begins) {
      warn_about_label(code);
      return true;
    }
    // The code of another symbol begins anew.
    if (closer_symbol(code)) return false;
    if (reach == Reach::inside)
      reject_inside(arch, code, code.symbol.address, index_.reached_around(arch, range, address()));
    else if (reach == Reach::loaded)
      reject({ErrorKind::misaligned,
              fmt::format("{}: {} is in data that the function loads, not in an instruction",
                          query_.subject(), name())});
    else if (reach == Reach::overlap)
      reject({ErrorKind::misaligned,
              fmt::format("{}: two instructions overlap at {}", query_.subject(), name())});
    else if (reach == Reach::undecoded &&
             index_.boundary_at(arch, code.symbol.address, address()) == insn::Boundary::yes)
      reject({ErrorKind::misaligned,
              fmt::format("{}: whether an instruction begins at {} cannot be known: no jump of the "
                          "function leads there",
                          query_.subject(), name())});
    else
      return false;
    return true;
  }

  // One frame description may cover several functions of assembly, and data between them.
  std::optional<CoveringCode> closer_symbol(const CoveringCode& code) {
    if (!code.is_frame) return std::nullopt;
    const auto symbol = index_.symbol_at(address());
    if (!symbol || symbol->address <= code.symbol.address) return std::nullopt;
    return CoveringCode{.symbol = *symbol};
  }

  // A symbol without a type may be code or data. Points that get its name are checked later
  // (check_labels).
  void warn_about_label(const CoveringCode& code) {
    if (code.is_frame || code.is_known ||
        symbols::symbol_kind(code.symbol) != symbols::SymbolKind::label)
      return;
    if (query_.options.to_probe)
      warn(fmt::format("only the label {} covers it, which may be data",
                       symbols::display_name(code.symbol)));
  }

  void reject_inside(Arch arch, const CoveringCode& code, VirtualAddress start,
                     const std::optional<insn::Instruction>& around) {
    const elf::Symbol& symbol = code.symbol;
    if (!around)
      return reject({ErrorKind::misaligned,
                     fmt::format("{}: no instruction begins at {}", query_.subject(), name())});
    const VirtualAddress begin{start.value + around->offset};
    const std::uint64_t offset = begin.value - symbol.address.value;
    const std::uint64_t end = offset + around->size;
    const auto text =
        insn::instruction_text(arch, code_bytes(query_.image, begin, around->size), begin);
    const std::string before = format_address(symbol, offset);
    reject(Error{ErrorKind::misaligned,
                 fmt::format("{}: {} is inside an instruction: {} is {}", query_.subject(), name(),
                             before,
                             text ? fmt::format("'{}', {} bytes", *text, around->size)
                                  : fmt::format("one of {} bytes", around->size))}
               .hint(end < symbol.size
                         ? fmt::format("instructions begin at {} and {}", before,
                                       format_address(symbol, end))
                         : fmt::format("the last instruction before it begins at {}", before)));
  }

  Error data_error(const std::optional<CoveringCode>& code, VirtualAddress start) const {
    const std::string where =
        code ? format_address(code->symbol, start.value - code->symbol.address.value)
             : fmt::format("{:#x}", start.value);
    return {ErrorKind::misaligned,
            start == address() && !code
                ? fmt::format("{}: {} is in data, not in an instruction", query_.subject(), name())
                : fmt::format("{}: {} is in the data that begin at {}, not in an instruction",
                              query_.subject(), name(), where)};
  }

  void reject(Error error) {
    if (query_.options.unsafe) {
      point_.warnings.push_back(error.message + ": a probe there breaks the program");
      return;
    }
    misplaced_ = std::move(error);
    // Nobody should force a probe at an address that a damaged file names.
    if (found_.empty())
      misplaced_ = std::move(*misplaced_)
                       .hint("--unsafe skips this check, but a probe there breaks the program");
  }

  void warn(std::string_view reason) {
    point_.warnings.push_back(fmt::format("{}: cannot check that an instruction begins at {}: {}",
                                          query_.subject(), name(), reason));
  }

  const Query& query_;
  CodeIndex& index_;
  ProbePoint& point_;
  std::string_view found_;
  std::optional<Error> misplaced_ = {};
};

// The effect by the instruction and the code around it.
insn::ProbeEffect effect_in(const elf::Image& image, VirtualAddress address,
                            const std::optional<CoveringCode>& code) {
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  constexpr std::uint64_t around = 128; // bytes; an exclusive load or store may be as near
  if (!code) {
    const elf::Segment* const segment = image.find_segment(address);
    if (segment == nullptr) return {};
    const std::uint64_t fixed_size = arch_info(*arch).instruction_size;
    const std::uint64_t before =
        fixed_size == 0 ? 0 : std::min(address.value - segment->address.value, around);
    return insn::probe_effect(*arch, code_bytes(image, {address.value - before}, before + around),
                              before);
  }
  const std::uint64_t size = code->symbol.size;
  const std::uint64_t offset = address.value - code->symbol.address.value;
  const bool is_whole = offset < size && size <= max_code;
  const std::uint64_t known = is_whole ? size : offset + around;
  return insn::probe_effect(*arch, code_bytes(image, code->symbol.address, known), offset);
}

// Linux kernel/events/uprobes.c, valid_vma(). The kernel accepts the probe without an error.
constexpr insn::ProbeEffect writable_effect{
    .kind = insn::ProbeEffect::Kind::refused,
    .reason = "its segment is writable, where the kernel puts no breakpoints"};

bool is_relocated(CodeIndex& index, VirtualAddress address, bool thumb) {
  // Few files have text relocations. Decode only near one.
  if (!index.is_relocated({address, insn::max_instruction_size})) return false;
  const auto arch = code_arch(index.image().machine(), thumb);
  const Bytes bytes = code_bytes(index.image(), address, insn::max_instruction_size);
  const auto size = arch ? insn::instruction_size(*arch, bytes) : std::nullopt;
  return index.is_relocated({address, size.value_or(bytes.size())});
}

insn::ProbeEffect effect_of(CodeIndex& index, VirtualAddress address,
                            const std::optional<CoveringCode>& code) {
  const elf::Segment* const segment = index.image().find_segment(address);
  if (segment != nullptr && segment->writable) return writable_effect;
  const insn::ProbeEffect effect = effect_in(index.image(), address, code);
  if (effect.kind != insn::ProbeEffect::Kind::safe) return effect;
  if (index.is_in_signature(address))
    return {.kind = insn::ProbeEffect::Kind::unsafe, .reason = signature_reason};
  if (is_relocated(index, address, code && code->symbol.thumb))
    return {.kind = insn::ProbeEffect::Kind::unsafe, .reason = relocated_reason};
  if (!effect.emulated && index.is_in_sequence(address))
    return {.kind = insn::ProbeEffect::Kind::unsafe, .reason = sequence_reason};
  return effect;
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
    const auto length = insn::instruction_size(*arch, function->subspan(at));
    if (!length || *length >= size - at) return std::nullopt;
    at += *length;
    const insn::ProbeEffect effect = insn::probe_effect(*arch, *function, at);
    if (effect.kind != insn::ProbeEffect::Kind::safe) continue;
    // Where the sequence ends is not known here.
    if (point.effect.reason == sequence_reason && !effect.emulated) continue;
    ProbePoint next = point;
    next.symbol_offset = at;
    return display_name(next);
  }
  return std::nullopt;
}

// Says what is known of the bytes at a symbol without a type. Assembly writes such symbols before
// functions and before tables.
enum class LabelContent { code, data, unknown };

LabelContent content_at(const Query& query, VirtualAddress address) {
  if (const auto arch = code_arch(query.image.machine()); arch && has_code_marks(*arch))
    if (const auto mark = query.code.marks().last_at_or_before(address))
      return mark->data ? LabelContent::data : LabelContent::code;
  return query.code.frames().piece_at(address) ? LabelContent::code : LabelContent::unknown;
}

constexpr std::string_view data_reason =
    "it is data, by the mapping symbols of the file, and a probe changes it";
constexpr std::string_view unknown_reason =
    "it may be data, which a probe changes: the symbol has no type and no unwind data cover it";

// A breakpoint in a table of constants, such as K256 of OpenSSL, makes the program compute wrong
// results. Labels that can be data are left out of patterns; one that is named is probed, with a
// warning.
void check_labels(const Query& query, std::span<ProbePoint> points) {
  const bool is_pattern = query.function.form == FunctionSpec::Form::name &&
                          symbols::is_name_pattern(query.function.name);
  for (ProbePoint& point : points) {
    if (point.kind != symbols::SymbolKind::label || !point.symbol) continue;
    if (point.effect.kind != insn::ProbeEffect::Kind::safe) continue;
    const LabelContent content = content_at(query, point.address);
    if (content == LabelContent::data || (content == LabelContent::unknown && is_pattern))
      point.effect = {.kind = insn::ProbeEffect::Kind::unsafe,
                      .reason = content == LabelContent::data ? data_reason : unknown_reason};
    else if (content == LabelContent::unknown && query.options.to_probe)
      point.warnings.push_back(
          fmt::format("{}: '{}': {}", query.subject(), display_name(point), unknown_reason));
  }
}

std::optional<insn::OptimizedNop> nop_at(const Query& query, const ProbePoint& point) {
  const auto arch = code_arch(query.image.machine());
  if (!arch) return std::nullopt;
  return insn::optimized_nop(*arch,
                             code_bytes(query.image, point.address, insn::max_instruction_size));
}

// Returns the code of the function that contains the point.
std::optional<elf::AddressRange> code_around(const Query& query, const ProbePoint& point) {
  if (point.symbol && !point.inlined_into && !point.static_probe && point.size.value_or(0) > 0)
    return elf::AddressRange{{point.address.value - point.symbol_offset}, *point.size};
  if (const auto symbol = query.code.symbol_at(point.address); symbol && symbol->size > 0)
    return elf::AddressRange{symbol->address, symbol->size};
  const auto piece = query.code.frames().piece_at(point.address);
  return piece ? std::optional(piece->range) : std::nullopt;
}

// Moves the probes of nops that this kernel replaces past them. A nop of ten bytes has a segment
// prefix, so that all other kernels refuse it.
void pass_nops(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points) {
    const auto nop = nop_at(query, point);
    if (!nop || point.effect.kind == insn::ProbeEffect::Kind::unsafe) continue;
    if (*nop == insn::OptimizedNop::five_bytes && !query.options.replaced_nops.five_bytes) continue;
    const auto code = code_around(query, point);
    const auto passed =
        query.code.nop_passer().pass(point.address, code.value_or(elf::AddressRange{}));
    if (passed) {
      point.uprobe_distance = *passed;
      point.effect = effect_at(query.code, uprobe_address(point));
    } else if (*nop == insn::OptimizedNop::five_bytes) {
      point.effect = {.kind = insn::ProbeEffect::Kind::unsafe, .reason = passed.error()};
    }
  }
}

constexpr std::string_view nop_reason =
    "Linux 6.18 to 7.1 make a call of the nop of five bytes there, which ends forked children";

void warn_about_effects(const Query& query, std::span<ProbePoint> points) {
  std::map<std::string_view, std::vector<ProbePoint*>> by_reason;
  for (ProbePoint& point : points)
    if (point.effect.kind != insn::ProbeEffect::Kind::safe)
      by_reason[point.effect.reason].push_back(&point);
    else if (nop_at(query, point) == insn::OptimizedNop::five_bytes)
      by_reason[nop_reason].push_back(&point);
  for (const auto& [reason, affected] : by_reason) {
    ProbePoint& first = *affected.front();
    const std::string must =
        affected.size() == 1 ? fmt::format("'{}' must", display_name(first))
                             : fmt::format("'{}' and {} others of '{}' must", display_name(first),
                                           affected.size() - 1, query.function.request);
    first.warnings.push_back(
        fmt::format("{}: {} not be probed: {}", query.subject(), must, reason));
  }
}

void add_instructions(const Query& query, std::span<ProbePoint> points) {
  using Mode = ResolveOptions::Instructions;
  const Mode mode = query.options.instructions;
  if (mode == Mode::none) return;
  const elf::Machine& machine = query.image.machine();
  const auto arch = code_arch(machine, false);
  const bool has_text = arch && arch_info(*arch).has_disassembler();
  for (ProbePoint& point : points) {
    if (has_text)
      point.instruction = insn::instruction_text(
          *arch, code_bytes(query.image, point.address, insn::max_instruction_size), point.address);
    if (point.instruction || mode != Mode::required) continue;
    point.warnings.push_back(has_text ? fmt::format("{}: no known instruction at '{}'",
                                                    query.subject(), display_name(point))
                                      : fmt::format("{}: {} instructions cannot be shown",
                                                    query.subject(), elf::to_string(machine)));
  }
}

} // namespace

std::optional<Error> check_instruction(const Query& query, ProbePoint& point,
                                       const elf::Symbol* known, std::string_view found) {
  std::optional<CoveringCode> code;
  if (known != nullptr)
    code = {.symbol = *known, .is_known = true};
  else
    code = query.code.code_at(point.address);
  point.effect = effect_of(query.code, point.address, code);
  // An instruction begins at the address of a symbol, unless it is a label (check_labels).
  if (known != nullptr && known->address == point.address) return std::nullopt;
  InstructionCheck check(query, point, found);
  check.check(code);
  return check.take_error();
}

insn::ProbeEffect effect_at(CodeIndex& index, VirtualAddress address) {
  return effect_of(index, address, index.code_at(address));
}

void finish_points(const Query& query, std::span<ProbePoint> points) {
  check_labels(query, points);
  if (query.options.to_probe)
    pass_nops(query, points);
  else
    warn_about_effects(query, points);
  add_instructions(query, points);
}

std::optional<Error> nested_error(const ProbePoint& point) {
  const auto& entry = point.binary->path.entry;
  if (!entry || !point.binary->file || !archive::split_nested(point.binary->file->bytes(), *entry))
    return std::nullopt;
  return Error{ErrorKind::unsupported, to_string(point.binary->path) +
                                           ": in an archive inside an archive, which no process "
                                           "maps"}
      .hint("install the app and probe its APK on the device (--app PACKAGE, or -p PID)");
}

std::optional<Error> probe_error(const ProbePoint& point) {
  if (auto nested = nested_error(point)) return nested;
  if (point.effect.kind == insn::ProbeEffect::Kind::safe) return std::nullopt;
  const bool is_refused = point.effect.kind == insn::ProbeEffect::Kind::refused;
  Error error{ErrorKind::unsupported,
              fmt::format("{}: '{}' cannot be probed{}: {}", to_string(point.binary->path),
                          display_name(point), is_refused ? "" : " without harm to the program",
                          point.effect.reason)};
  if (point.effect.reason == writable_effect.reason) return error;
  if (const auto next = next_probeable(point))
    error =
        std::move(error).hint(fmt::format("the next instruction that can be probed: '{}'", *next));
  return error;
}

} // namespace uprobectl::resolve
