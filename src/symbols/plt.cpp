#include "symbols/plt.hpp"

#include "symbols/plt_stub.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl {

namespace {

// The slots by address, and which stubs may be believed to be made for them.
//
// JUMP_SLOT slots exist for the PLT alone, so whatever jumps through one is a PLT entry. Through a
// GLOB_DAT slot any code may jump that was compiled with -fno-plt, and such a tail call can look
// like an entry of .plt.got to the last byte: there the section headers decide.
class Slots {
public:
  explicit Slots(const elf::Image& image) : sections_(image.plt_sections()) {
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

// The file bytes of the part of an executable segment that lies in the range.
CodeBytes code_of(const elf::Image& image, const elf::Segment& segment,
                  const elf::AddressRange& range) {
  if (!segment.executable || range.address < segment.address) return {};
  const std::uint64_t skipped = range.address.value - segment.address.value;
  if (skipped >= segment.file_size) return {};
  const auto bytes = slice(image.bytes(), segment.offset.value + skipped,
                           std::min(range.size, segment.file_size - skipped));
  return bytes ? CodeBytes{*bytes, range.address} : CodeBytes{};
}

void add_entries(const elf::Image& image, const Slots& slots, const elf::AddressRange& range,
                 std::vector<PltEntry>& entries) {
  const elf::Segment* segment = image.segment_of(range.address);
  if (segment == nullptr) return;
  const CodeBytes code = code_of(image, *segment, range);
  for (const PltStub& stub : find_plt_stubs(image.machine(), code, image.got()))
    if (const auto entry = slots.entry(stub)) entries.push_back(*entry);
}

void sort_unique(std::vector<PltEntry>& entries) {
  std::ranges::sort(entries, {}, &PltEntry::address);
  const auto repeated = std::ranges::unique(entries, {}, &PltEntry::address);
  entries.erase(repeated.begin(), repeated.end());
}

} // namespace

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
  const Slots slots(image);
  if (slots.size() == 0) return entries;
  entries.reserve(slots.size());
  for (const elf::AddressRange& section : slots.sections())
    add_entries(image, slots, section, entries);
  sort_unique(entries);
  // No section headers, or wrong ones: then all code is looked through.
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
  const elf::Segment* segment = image.segment_of(address);
  if (segment == nullptr || !segment->executable) return std::nullopt;
  constexpr std::uint64_t longest = 24; // bytes of one entry
  const std::uint64_t before = std::min(longest, address.value - segment->address.value);
  const CodeBytes code = code_of(image, *segment, {{address.value - before}, before + 2 * longest});
  for (const PltStub& stub : find_plt_stubs(image.machine(), code, image.got())) {
    if (address < stub.address || address.value - stub.address.value >= stub.size) continue;
    const auto entry = Slots(image).entry(stub);
    const auto table = image.dynamic_symbols();
    if (!entry || !table) continue;
    if (const auto symbol = table->at(entry->symbol)) return plt_symbol(*symbol, *entry);
  }
  return std::nullopt;
}

} // namespace uprobectl
