// SPDX-License-Identifier: Apache-2.0
#include "resolve/code_index.hpp"

#include "elf/relocations.hpp"
#include "elf/sections.hpp"
#include "symbols/classify.hpp"

#include <algorithm>

namespace uprobectl::resolve {

CodeMarks::CodeMarks(const elf::Image& image) {
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (symbol && symbol->defined && symbols::is_mapping_symbol(*symbol, image.machine()))
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

Bytes code_bytes(const elf::Image& image, VirtualAddress address, std::uint64_t most) {
  const elf::Segment* const segment = image.find_segment(address);
  if (segment == nullptr || !segment->executable) return {};
  const std::uint64_t into = address.value - segment->address.value;
  const auto code = slice(image.bytes(), segment->offset.value + into, segment->file_size - into);
  return code ? code->first(std::min<std::uint64_t>(code->size(), most)) : Bytes();
}

AddressSet::AddressSet(std::vector<elf::AddressRange> ranges) {
  std::ranges::sort(ranges, {}, &elf::AddressRange::address);
  for (const elf::AddressRange& range : ranges) {
    const auto end = checked_add(range.address.value, range.size);
    if (!end || range.size == 0) continue;
    if (ranges_.empty() || range.address.value - ranges_.back().address.value > ranges_.back().size)
      ranges_.push_back(range);
    else
      ranges_.back().size = std::max(ranges_.back().size, *end - ranges_.back().address.value);
  }
}

bool AddressSet::contains(VirtualAddress address) const {
  const auto after = std::ranges::upper_bound(ranges_, address, {}, &elf::AddressRange::address);
  if (after == ranges_.begin()) return false;
  const elf::AddressRange& last = *std::prev(after);
  return address.value - last.address.value < last.size;
}

bool AddressSet::overlaps(const elf::AddressRange& range) const {
  if (range.size == 0) return false;
  const VirtualAddress last{range.address.value + range.size - 1};
  const auto after = std::ranges::upper_bound(ranges_, last, {}, &elf::AddressRange::address);
  if (after == ranges_.begin()) return false;
  const elf::AddressRange& found = *std::prev(after);
  return found.address >= range.address || range.address.value - found.address.value < found.size;
}

const FrameTable& CodeIndex::frames() {
  if (!frames_) frames_.emplace(image_);
  return *frames_;
}

const CodeMarks& CodeIndex::marks() {
  if (!marks_) marks_.emplace(image_);
  return *marks_;
}

symbols::Bodies& CodeIndex::bodies() {
  if (!bodies_ || bodies_->debug_tables() != image_.debug_symbols().size()) bodies_.emplace(image_);
  return *bodies_;
}

NopPasser& CodeIndex::nop_passer() {
  if (!nop_passer_) nop_passer_.emplace(*this);
  return *nop_passer_;
}

std::optional<CoveringCode> CodeIndex::code_at(VirtualAddress address) {
  // 32-bit ARM has other unwind data.
  const bool has_frames = !image_.machine().info().thumb_bit;
  // A description that begins outside of the segment is not one of this code.
  if (const auto piece = has_frames ? frames().piece_at(address) : std::nullopt;
      piece && image_.find_segment(piece->range.address) == image_.find_segment(address)) {
    CoveringCode code{.is_frame = true, .inside_frame = piece->inside_frame};
    code.symbol.address = piece->range.address;
    code.symbol.size = piece->range.size;
    return code;
  }
  const auto symbol = symbol_at(address);
  return symbol ? std::optional(CoveringCode{.symbol = *symbol}) : std::nullopt;
}

std::optional<elf::Symbol> CodeIndex::symbol_at(VirtualAddress address) {
  const auto found = file_.symbol_at(address);
  return found ? std::optional(found->symbol) : std::nullopt;
}

bool CodeIndex::is_data(VirtualAddress address) {
  if (data_) return data_->contains(address);
  std::vector<elf::AddressRange> all;
  const auto add_objects = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index)
      if (const auto symbol = table.at(index);
          symbol && symbol->defined && symbol->type == elf::SymbolType::object)
        all.push_back({symbol->address, symbol->size});
  };
  if (const auto table = image_.full_symbols()) add_objects(*table);
  if (const auto table = image_.dynamic_symbols()) add_objects(*table);
  for (const elf::SymbolTable& table : image_.debug_symbols()) add_objects(table);
  if (const auto layout = elf::read_layout(image_.bytes()))
    for (const elf::SectionExtent& section : elf::sections_of(*layout))
      if (const auto start = image_.to_address(ImageOffset{section.offset});
          start && section.is_loaded && !section.is_code)
        all.push_back({*start, section.size});
  return data_.emplace(std::move(all)).contains(address);
}

insn::Boundary CodeIndex::boundary_at(Arch arch, VirtualAddress start, VirtualAddress address) {
  const std::uint64_t offset = address.value - start.value;
  const std::uint64_t fixed_size = arch_info(arch).instruction_size;
  const Bytes code = code_bytes(image_, start, offset + insn::max_instruction_size);
  if (offset >= code.size()) return insn::Boundary::no;
  if (fixed_size != 0) return offset % fixed_size == 0 ? insn::Boundary::yes : insn::Boundary::no;
  const std::uint64_t most = max_decoded();
  Decoded& known = decoded_[start.value];
  while (known.begins.size() <= offset && !known.is_complete) {
    const Bytes rest = code.subspan(known.begins.size());
    const auto size = decoded_bytes_ <= most ? insn::instruction_size(arch, rest) : std::nullopt;
    known.is_complete = !size;
    if (!size) break;
    decoded_bytes_ += *size;
    known.begins.push_back(true); // several times as quick as resize() for so few bits
    for (std::uint32_t i = 1; i < *size; ++i) known.begins.push_back(false);
  }
  if (known.begins.size() <= offset) return insn::Boundary::unknown;
  return known.begins[offset] ? insn::Boundary::yes : insn::Boundary::no;
}

std::optional<insn::Instruction> CodeIndex::instruction_around(Arch arch, VirtualAddress start,
                                                               VirtualAddress address) const {
  const std::uint64_t offset = address.value - start.value;
  const std::uint64_t fixed_size = arch_info(arch).instruction_size;
  std::uint64_t begin = fixed_size == 0 ? offset : offset - offset % fixed_size;
  if (fixed_size == 0) {
    const auto known = decoded_.find(start.value);
    if (known == decoded_.end() || offset >= known->second.begins.size()) return std::nullopt;
    while (begin > 0 && !known->second.begins[begin]) --begin;
  }
  const auto size = insn::instruction_size(
      arch, code_bytes(image_, {start.value + begin}, insn::max_instruction_size));
  if (!size) return std::nullopt;
  return insn::Instruction{.offset = begin, .size = *size};
}

std::uint64_t CodeIndex::max_decoded() const {
  constexpr std::uint64_t times = 8;
  constexpr std::uint64_t small = 1U << 20U; // bytes
  return times * (image_.bytes().size() + small);
}

CodeIndex::Reach CodeIndex::reach_at(Arch arch, const elf::AddressRange& code,
                                     VirtualAddress address) {
  const std::uint64_t offset = address.value - code.address.value;
  const Bytes bytes = code_bytes(image_, code.address, code.size);
  if (arch_info(arch).instruction_size != 0 || offset >= bytes.size()) return Reach::unknown;
  const auto [found, is_new] = reached_.try_emplace(code.address.value);
  if (is_new && decoded_bytes_ <= max_decoded() && !may_have_handlers(code, false) &&
      !has_sequence(code)) {
    decoded_bytes_ += bytes.size();
    found->second = insn::reached_code(arch, bytes, code.address, {});
  }
  if (!found->second || offset >= found->second->begins.size()) return Reach::unknown;
  const insn::ReachedCode& reached = *found->second;
  if (reached.begins[offset]) return reached.insides[offset] ? Reach::overlap : Reach::begins;
  if (reached.insides[offset]) return Reach::inside;
  const auto is_reached = [&](std::uint64_t at) {
    return reached.begins[at] || reached.insides[at];
  };
  std::uint64_t at = offset;
  while (at > 0 && !is_reached(at - 1)) --at;
  const auto data = std::ranges::lower_bound(reached.loaded, at);
  if (data != reached.loaded.end() && *data <= offset) return Reach::loaded;
  return insn::instructions_in(arch, bytes, reached)[offset] ? Reach::passed : Reach::undecoded;
}

std::optional<insn::Instruction> CodeIndex::reached_around(Arch arch, const elf::AddressRange& code,
                                                           VirtualAddress address) const {
  const auto found = reached_.find(code.address.value);
  if (found == reached_.end() || !found->second) return std::nullopt;
  std::uint64_t begin = address.value - code.address.value;
  while (begin > 0 && !found->second->begins[begin]) --begin;
  const auto size = insn::instruction_size(
      arch, code_bytes(image_, {code.address.value + begin}, insn::max_instruction_size));
  if (!size) return std::nullopt;
  return insn::Instruction{.offset = begin, .size = *size};
}

void CodeIndex::read_sequences() {
  std::vector<elf::AddressRange> code;
  std::vector<elf::AddressRange> signatures;
  for (const elf::RestartableSequence& each : elf::restartable_sequences(image_)) {
    code.push_back(each.code);
    signatures.push_back({{each.abort.value - elf::rseq_signature_size}, elf::rseq_signature_size});
  }
  sequences_.emplace(std::move(code));
  signatures_.emplace(std::move(signatures));
}

bool CodeIndex::is_in_sequence(VirtualAddress address) {
  if (!sequences_) read_sequences();
  return sequences_->contains(address);
}

bool CodeIndex::is_in_signature(VirtualAddress address) {
  if (!signatures_) read_sequences();
  return signatures_->contains(address);
}

bool CodeIndex::has_sequence(const elf::AddressRange& code) {
  if (!sequences_) read_sequences();
  return sequences_->overlaps(code);
}

bool CodeIndex::is_relocated(const elf::AddressRange& code) {
  if (relocated_) return relocated_->overlaps(code);
  std::vector<elf::AddressRange> words;
  const auto layout = elf::read_layout(image_.bytes());
  const auto dynamic = layout ? elf::read_dynamic(*layout) : std::nullopt;
  if (dynamic && *dynamic && (**dynamic).relocates_code) {
    const std::uint64_t size = image_.machine().is_64bit ? 8 : 4; // some are of half a word
    elf::for_each_relocation(*layout, **dynamic, [&](const elf::Relocation& each) {
      const elf::Segment* const segment = image_.find_segment(each.address);
      if (segment != nullptr && segment->executable) words.push_back({each.address, size});
    });
  }
  return relocated_.emplace(std::move(words)).overlaps(code);
}

bool CodeIndex::may_have_handlers(const elf::AddressRange& code, bool unless_known) {
  std::uint64_t at = code.address.value;
  while (at - code.address.value < code.size) {
    const auto piece = frames().piece_at({at});
    if (!piece) return at == code.address.value && unless_known;
    if (piece->has_handlers) return true;
    at = piece->range.address.value + piece->range.size;
  }
  return false;
}

} // namespace uprobectl::resolve
