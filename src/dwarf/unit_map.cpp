// SPDX-License-Identifier: Apache-2.0
#include "dwarf/unit_map.hpp"

#include "dwarf/context.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <llvm/DebugInfo/DWARF/DWARFDebugArangeSet.h>
#include <tuple>

namespace uprobectl::dwarf {

namespace {

// Limits the ranges of all units. The largest programs have some million functions, each in a
// section of its own.
constexpr std::size_t max_unit_ranges = std::size_t{1} << 23;

// One end of a range of a unit.
struct RangeEnd {
  std::uint64_t address = 0;
  std::uint64_t unit = 0; // its offset
  bool is_begin = false;
};

// Collects the ranges of the units.
class UnitRanges {
public:
  explicit UnitRanges(Context& context) : context_(context) {}

  std::vector<RangeEnd> read() {
    read_aranges();
    for (const auto& unit : context_.dwarf().compile_units()) {
      if (is_full_) break;
      if (listed_.contains(unit->getOffset())) continue;
      limit_ranges_of_units();
      if (!context_.has_sound_root(*unit)) continue;
      auto ranges = unit->collectAddressRanges();
      if (!ranges) {
        context_.warn(ranges.takeError());
        continue;
      }
      for (const llvm::DWARFAddressRange& range : *ranges)
        add(range.LowPC, range.HighPC, unit->getOffset());
    }
    return std::move(ends_);
  }

private:
  // Compilers write a list for each unit, and at least two bytes for each of its ranges.
  void limit_ranges_of_units() {
    if (is_limited_) return;
    is_limited_ = true;
    const llvm::DWARFObject& sections = context_.dwarf().getDWARFObj();
    const std::size_t size =
        sections.getRangesSection().Data.size() + sections.getRnglistsSection().Data.size();
    const std::size_t units = context_.dwarf().getNumCompileUnits();
    max_count_ = std::min(max_unit_ranges, count_ + size / 2 + units);
  }

  void read_aranges() {
    const llvm::DWARFObject& sections = context_.dwarf().getDWARFObj();
    const llvm::DWARFDataExtractor data(sections.getArangesSection(), sections.isLittleEndian(), 0);
    std::uint64_t at = 0;
    while (data.isValidOffset(at)) {
      llvm::DWARFDebugArangeSet set;
      if (auto error =
              set.extract(data, &at, [&](llvm::Error one) { context_.warn(std::move(one)); }))
        return context_.warn(std::move(error));
      const std::uint64_t unit = set.getCompileUnitDIEOffset();
      for (const auto& each : set.descriptors()) add(each.Address, each.getEndAddress(), unit);
      listed_.insert(unit);
    }
  }

  void add(std::uint64_t begin, std::uint64_t end, std::uint64_t unit) {
    if (is_full_) return;
    if (++count_ > max_count_) {
      is_full_ = true;
      return context_.warn(fmt::format("the units have more than {} ranges", max_count_));
    }
    if (begin >= end || !context_.is_code(begin)) return;
    ends_.push_back({begin, unit, true});
    ends_.push_back({end, unit, false});
  }

  Context& context_;
  std::vector<RangeEnd> ends_;
  std::set<std::uint64_t> listed_; // units in .debug_aranges
  std::size_t count_ = 0;          // of ranges, also of empty ones
  std::size_t max_count_ = max_unit_ranges;
  bool is_limited_ = false;
  bool is_full_ = false;
};

} // namespace

UnitMap::UnitMap(Context& context) {
  std::vector<RangeEnd> ends = UnitRanges(context).read();
  std::ranges::sort(ends, {}, [](const RangeEnd& each) {
    return std::tuple(each.address, each.unit, each.is_begin);
  });
  std::multiset<std::uint64_t> units; // whose ranges contain the addresses before `each`
  std::uint64_t begin = 0;
  for (const RangeEnd& each : ends) {
    if (!units.empty() && begin < each.address) {
      const std::uint64_t unit = *units.begin();
      if (!ranges_.empty() && ranges_.back().end == begin && ranges_.back().unit == unit)
        ranges_.back().end = each.address;
      else
        ranges_.push_back({begin, each.address, unit});
    }
    begin = each.address;
    if (each.is_begin)
      units.insert(each.unit);
    else
      units.erase(units.find(each.unit));
  }
}

std::optional<std::uint64_t> UnitMap::unit_at(VirtualAddress address) const {
  const auto after = std::ranges::upper_bound(ranges_, address.value, {}, &Range::begin);
  if (after == ranges_.begin() || address.value >= std::prev(after)->end) return std::nullopt;
  return std::prev(after)->unit;
}

} // namespace uprobectl::dwarf
