// SPDX-License-Identifier: Apache-2.0
#include "symbols/plt.hpp"

#include "util/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

namespace uprobectl::symbols {

namespace {

using namespace std::string_view_literals;
using OptionalStub = std::optional<PltStub>;

// Instructions before the jump of an entry. The longest match counts; "" always matches.
constexpr std::array x86_beginnings = {
    "\xf3\x0f\x1e\xfa\xf2"sv, // endbr64; bnd: GNU ld's .plt.sec of 2017 to 2020
    "\xf3\x0f\x1e\xfa"sv,     // endbr64
    "\xf3\x0f\x1e\xfb"sv,     // endbr32
    "\xf2"sv,                 // bnd, without IBT
    ""sv,
};
// mold loads the relocation's index first: endbr64; mov $N, %r11d. The mov has 6 bytes.
constexpr std::string_view mold_beginning = "\xf3\x0f\x1e\xfa\x41\xbb";
constexpr std::size_t mold_size = 10;

constexpr std::size_t x86_jump_size = 6; // ff /4, ModRM, 32 bits

std::optional<std::size_t> x86_beginning(const CodeBytes& code, std::size_t jump) {
  const auto starts_aligned = [&](std::size_t size) {
    return size <= jump && (code.address.value + jump - size) % 8 == 0;
  };
  const std::string_view text = as_text(code.bytes);
  if (starts_aligned(mold_size) && text.substr(jump - mold_size).starts_with(mold_beginning))
    return mold_size;
  for (const auto beginning : x86_beginnings)
    if (starts_aligned(beginning.size()) &&
        text.substr(jump - beginning.size()).starts_with(beginning))
      return beginning.size();
  return std::nullopt;
}

// 16 bytes, or 8 in .plt.got and the .plt.sec of bnd without IBT. In .plt, push follows the jump.
std::uint64_t x86_stub_size(std::size_t beginning, Bytes after_jump) {
  const auto next = read_at<std::uint8_t>(after_jump, 0);
  constexpr std::uint8_t push = 0x68;
  if (beginning <= 1 && next != push) return 8;
  return 16;
}

OptionalStub decode_x86(const elf::Machine& machine, const CodeBytes& code, std::size_t at,
                        std::optional<VirtualAddress> got) {
  const auto form = read_at<std::uint8_t>(code.bytes, at + 1);
  const auto displacement = read_at<std::uint32_t>(code.bytes, at + 2);
  if (!form || !displacement) return std::nullopt;
  auto slot = static_cast<std::uint64_t>(sign_extended(*displacement, 32));
  const bool is_386 = machine.arch == Arch::i386;
  if (*form == 0x25 && !is_386) // jmp *disp(%rip)
    slot += code.address.value + at + x86_jump_size;
  else if (*form == 0xa3 && is_386 && got) // jmp *disp(%ebx), which holds the GOT's address
    slot += got->value;
  else if (*form != 0x25) // jmp *address
    return std::nullopt;
  if (!machine.is_64bit) slot &= UINT32_MAX;
  const auto beginning = x86_beginning(code, at);
  if (!beginning) return std::nullopt;
  return PltStub{{code.address.value + at - *beginning},
                 x86_stub_size(*beginning, code.bytes.subspan(at + x86_jump_size)),
                 {slot}};
}

// A32 and AArch64 instructions are little-endian even in big-endian (BE8, AArch64) images.
std::uint32_t word_at(const CodeBytes& code, std::size_t at) {
  return read_at<std::uint32_t>(code.bytes, at).value_or(0);
}

// [bti c]; adrp x16, page; ldr x17, [x16, #n]; add x16, x16, #n; [autia1716]; br x17; [nop…].
OptionalStub decode_arm64(const CodeBytes& code, std::size_t at) {
  const std::uint32_t adrp = word_at(code, at);
  const std::uint32_t ldr = word_at(code, at + 4);
  if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211) return std::nullopt;
  constexpr std::uint32_t br_x17 = 0xd61f0220;
  constexpr std::uint32_t nop = 0xd503201f;
  constexpr std::uint32_t bti_c = 0xd503245f;
  std::size_t end = at + 8;
  while (end < at + 16 && word_at(code, end) != br_x17) end += 4;
  if (word_at(code, end) != br_x17) return std::nullopt;
  end += 4;
  const bool marked = at >= 4 && word_at(code, at - 4) == bti_c;
  const std::size_t begin = marked ? at - 4 : at;
  constexpr std::size_t max_bytes = 24;
  while (end - begin < max_bytes && word_at(code, end) == nop) end += 4;

  const auto pages =
      static_cast<std::uint64_t>(sign_extended((adrp >> 29 & 3) | (adrp >> 5 & 0x7ffff) << 2, 21));
  const std::uint64_t page = ((code.address.value + at) & ~std::uint64_t{0xfff}) + (pages << 12);
  return PltStub{
      {code.address.value + begin}, end - begin, {page + (ldr >> 10 & 0xfff) * std::uint64_t{8}}};
}

// add ip, pc, #a; add ip, ip, #b; [add ip, ip, #c]; ldr pc, [ip, #d]!, constants rotated by pairs.
OptionalStub decode_arm(const CodeBytes& code, std::size_t at) {
  const auto constant = [](std::uint32_t word) {
    return std::rotr(word & 0xff, static_cast<int>(word >> 8 & 0xf) * 2);
  };
  std::uint32_t word = word_at(code, at);
  if ((word & 0xfffff000) != 0xe28fc000) return std::nullopt;
  auto slot = static_cast<std::uint32_t>(code.address.value + at + 8) + constant(word);
  std::size_t end = at + 4;
  for (; ((word = word_at(code, end)) & 0xfffff000) == 0xe28cc000 && end < at + 12; end += 4)
    slot += constant(word);
  if ((word & 0xfffff000) != 0xe5bcf000) return std::nullopt;
  slot += word & 0xfff;
  return PltStub{{code.address.value + at}, end + 4 - at, {slot}};
}

using StubFinder = std::vector<PltStub> (*)(const elf::Machine& machine, const CodeBytes& code,
                                            std::optional<VirtualAddress> got);

std::vector<PltStub> find_x86(const elf::Machine& machine, const CodeBytes& code,
                              std::optional<VirtualAddress> got) {
  std::vector<PltStub> stubs;
  const std::string_view text = as_text(code.bytes);
  for (std::size_t at = text.find('\xff'); at != std::string_view::npos;
       at = text.find('\xff', at + 1))
    if (const auto stub = decode_x86(machine, code, at, got)) stubs.push_back(*stub);
  return stubs;
}

template <OptionalStub (*decode)(const CodeBytes& code, std::size_t at)>
std::vector<PltStub> find_words(const elf::Machine& /*machine*/, const CodeBytes& code,
                                std::optional<VirtualAddress> /*got*/) {
  std::vector<PltStub> stubs;
  for (std::size_t at = -code.address.value % 4; at + 4 <= code.bytes.size(); at += 4)
    if (const auto stub = decode(code, at)) stubs.push_back(*stub);
  return stubs;
}

// Null if the stubs of the architecture are not supported.
StubFinder stub_finder(Arch arch) {
  if (arch == Arch::x86_64 || arch == Arch::i386) return find_x86;
  if (arch == Arch::arm64) return find_words<decode_arm64>;
  if (arch == Arch::arm) return find_words<decode_arm>;
  return nullptr;
}

// The GOT entries of functions by address. Decides which stubs are PLT entries.
//
// Only the PLT uses JUMP_SLOT entries, so any stub that jumps through one is a PLT entry. Code that
// was compiled with -fno-plt jumps through GLOB_DAT entries, and such a tail call may have the same
// bytes as an entry of .plt.got. For those the section headers decide.
class PltSlots {
public:
  explicit PltSlots(const elf::Image& image) : sections_(image.plt_sections()) {
    auto slots = image.import_slots();
    if (!slots) return;
    by_address_ = std::move(*slots);
    std::ranges::sort(by_address_, [](const elf::ImportSlot& a, const elf::ImportSlot& b) {
      return std::tuple(a.address, !a.for_plt, a.symbol) <
             std::tuple(b.address, !b.for_plt, b.symbol);
    });
    const auto repeated = std::ranges::unique(by_address_, {}, &elf::ImportSlot::address);
    by_address_.erase(repeated.begin(), repeated.end());
  }

  std::size_t size() const { return by_address_.size(); }

  std::optional<PltEntry> entry(const PltStub& stub) const {
    const auto found =
        std::ranges::lower_bound(by_address_, stub.slot, {}, &elf::ImportSlot::address);
    if (found == by_address_.end() || found->address != stub.slot) return std::nullopt;
    if (!found->for_plt && !is_in_section(stub.address)) return std::nullopt;
    return PltEntry{stub.address, static_cast<std::uint16_t>(stub.size), found->symbol};
  }

  const std::vector<elf::AddressRange>& sections() const { return sections_; }
  std::size_t count_for_plt() const {
    return static_cast<std::size_t>(std::ranges::count_if(by_address_, &elf::ImportSlot::for_plt));
  }

private:
  bool is_in_section(VirtualAddress address) const {
    return std::ranges::any_of(sections_, [&](const elf::AddressRange& range) {
      return address >= range.address && address.value - range.address.value < range.size;
    });
  }

  std::vector<elf::AddressRange> sections_;
  std::vector<elf::ImportSlot> by_address_;
};

// Returns the file bytes of the segment that are in the range; empty if it is not executable.
CodeBytes read_code(const elf::Image& image, const elf::Segment& segment,
                    const elf::AddressRange& range) {
  if (!segment.executable || range.address < segment.address) return {};
  const std::uint64_t skipped = range.address.value - segment.address.value;
  if (skipped >= segment.file_size) return {};
  const auto bytes = slice(image.bytes(), segment.offset.value + skipped,
                           std::min(range.size, segment.file_size - skipped));
  return bytes ? CodeBytes{*bytes, range.address} : CodeBytes{};
}

void add_entries(const elf::Image& image, const PltSlots& slots, const elf::AddressRange& range,
                 std::vector<PltEntry>& entries) {
  const elf::Segment* segment = image.find_segment(range.address);
  if (segment == nullptr) return;
  const CodeBytes code = read_code(image, *segment, range);
  for (const PltStub& stub : find_plt_stubs(image.machine(), code, image.got()))
    if (const auto entry = slots.entry(stub)) entries.push_back(*entry);
}

void sort_unique(std::vector<PltEntry>& entries) {
  std::ranges::sort(entries, {}, &PltEntry::address);
  const auto repeated = std::ranges::unique(entries, {}, &PltEntry::address);
  entries.erase(repeated.begin(), repeated.end());
}

} // namespace

bool has_plt_decoder(const elf::Machine& machine) { return stub_finder(machine.arch) != nullptr; }

std::vector<PltStub> find_plt_stubs(const elf::Machine& machine, const CodeBytes& code,
                                    std::optional<VirtualAddress> got) {
  const StubFinder find = stub_finder(machine.arch);
  return find != nullptr ? find(machine, code, got) : std::vector<PltStub>();
}

bool can_find_plt_entries(const elf::Machine& machine) { return has_plt_decoder(machine); }

elf::Symbol plt_symbol(elf::Symbol symbol, const PltEntry& entry) {
  symbol.address = entry.address;
  symbol.size = entry.size;
  symbol.type = elf::SymbolType::function;
  symbol.table = elf::Table::plt;
  symbol.defined = true;
  symbol.thumb = false;
  return symbol;
}

std::vector<PltEntry> find_plt_entries(const elf::Image& image) {
  std::vector<PltEntry> entries;
  const PltSlots slots(image);
  if (slots.size() == 0) return entries;
  entries.reserve(slots.size());
  for (const elf::AddressRange& section : slots.sections())
    add_entries(image, slots, section, entries);
  sort_unique(entries);
  // The section headers are missing or wrong: search all code.
  if (entries.size() < slots.count_for_plt()) {
    for (const elf::Segment& segment : image.segments())
      if (segment.executable)
        add_entries(image, slots, {segment.address, segment.file_size}, entries);
    sort_unique(entries);
  }
  return entries;
}

std::vector<elf::Symbol> plt_entries(const elf::Image& image) {
  std::vector<elf::Symbol> symbols;
  const auto table = image.dynamic_symbols();
  if (!table) return symbols;
  for (const PltEntry& entry : find_plt_entries(image))
    if (const auto symbol = table->at(entry.symbol)) symbols.push_back(plt_symbol(*symbol, entry));
  return symbols;
}

std::optional<elf::Symbol> plt_entry_at(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* segment = image.find_segment(address);
  if (segment == nullptr || !segment->executable) return std::nullopt;
  constexpr std::uint64_t max_bytes = 24; // bytes of one entry
  const std::uint64_t before = std::min(max_bytes, address.value - segment->address.value);
  const CodeBytes code =
      read_code(image, *segment, {{address.value - before}, before + 2 * max_bytes});
  for (const PltStub& stub : find_plt_stubs(image.machine(), code, image.got())) {
    if (address < stub.address || address.value - stub.address.value >= stub.size) continue;
    const auto entry = PltSlots(image).entry(stub);
    const auto table = image.dynamic_symbols();
    if (!entry || !table) continue;
    if (const auto symbol = table->at(entry->symbol)) return plt_symbol(*symbol, *entry);
  }
  return std::nullopt;
}

} // namespace uprobectl::symbols
