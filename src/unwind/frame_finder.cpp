#include "unwind/frame_finder.hpp"

#include <algorithm>

namespace uprobectl::stacks {

namespace {

// So many entries may begin between an address and the begin of the one that covers it: entries
// that overlap are mistakes.
constexpr int most_looked_at = 8;

} // namespace

FrameFinder::FrameFinder(FrameSection section, Extent entries, bool is_end_known,
                         std::optional<FrameHeader> header)
    : section_(section), entries_(entries), is_end_known_(is_end_known), header_(header) {}

std::optional<FoundEntry> FrameFinder::read(std::uint64_t at) const {
  const auto head = read_entry_head(section_, at);
  if (!head || head->kind != EntryHead::Kind::fde) return std::nullopt;
  auto cie = read_cie(section_, head->cie_at);
  if (!cie) return std::nullopt;
  const auto fde = read_fde(section_, *head, *cie);
  if (!fde) return std::nullopt;
  return FoundEntry{*cie, *fde};
}

// The table is believed only as far as the entry it names says the same.
std::optional<FoundEntry> FrameFinder::find_by_header(std::uint64_t address) const {
  if (!header_) return std::nullopt;
  const auto fde = look_up(*header_, address);
  if (!fde) return std::nullopt;
  auto entry = read(*fde - section_.address.value);
  if (!entry || !entry->fde.covers(address)) return std::nullopt;
  return entry;
}

// One pass over all entries; of each FDE the address is read, no more: 2 ms for the 20,000 of a
// library of 10 MB.
void FrameFinder::build_index() {
  indexed_ = true;
  std::optional<std::uint64_t> cie_at; // entries with the same CIE lie side by side
  Result<Cie> cie = fail(ErrorKind::corrupt, "no CIE");
  for (std::uint64_t at = entries_.begin; at < entries_.end;) {
    const auto head = read_entry_head(section_, at);
    if (!head) break; // nobody knows where the next one begins
    if (head->kind == EntryHead::Kind::empty && !is_end_known_) break;
    const std::uint64_t here = at;
    at = head->body.end;
    if (head->kind != EntryHead::Kind::fde) continue;
    if (cie_at != head->cie_at) {
      cie_at = head->cie_at;
      cie = read_cie(section_, *cie_at);
    }
    if (!cie) continue;
    const auto fde = read_fde(section_, *head, *cie);
    // What a linker has dropped begins at 0.
    if (fde && fde->begin != 0 && fde->size != 0) index_.push_back({fde->begin, here});
  }
  std::ranges::sort(index_, {}, &IndexEntry::begin);
}

std::optional<FoundEntry> FrameFinder::find(std::uint64_t address) {
  if (!indexed_) {
    if (auto entry = find_by_header(address)) return entry;
    build_index();
  }
  auto after = std::ranges::upper_bound(index_, address, {}, &IndexEntry::begin);
  for (int looked = 0; looked < most_looked_at && after != index_.begin(); ++looked) {
    --after;
    auto entry = read(after->at);
    if (entry && entry->fde.covers(address)) return entry;
  }
  return std::nullopt;
}

} // namespace uprobectl::stacks
