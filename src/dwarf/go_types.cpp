// SPDX-License-Identifier: Apache-2.0
#include "dwarf/go_types.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/entry_walk.hpp"
#include "dwarf/type_table.hpp"

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// struct _type of Go 1.4 to 1.25 (runtime/type.go, internal/abi/type.go).
constexpr std::uint64_t described_size_at = 0; // a word
constexpr std::uint64_t described_kind_at = 23;
constexpr std::uint8_t described_kind_mask = (1U << 5) - 1;
constexpr std::uint64_t string_kind = 24; // reflect.String

std::optional<VirtualAddress> find_types_symbol(const elf::Image& image) {
  const auto search = [](const elf::SymbolTable& table) -> std::optional<VirtualAddress> {
    for (std::uint32_t i = 0; i < table.size(); ++i)
      if (table.has_name(i, "runtime.types"))
        if (const auto symbol = table.at(i); symbol && symbol->defined) return symbol->address;
    return std::nullopt;
  };
  if (const auto own = image.full_symbols())
    if (const auto found = search(*own)) return found;
  for (const elf::SymbolTable& table : image.debug_symbols())
    if (const auto found = search(table)) return found;
  return std::nullopt;
}

} // namespace

GoTypes::GoTypes(const elf::Image& image, const DebugInfo& info) : image_(image), info_(info) {
  const auto types = find_types_symbol(image);
  Context& context = info.context();
  if (!types || !image.machine().is_64bit || context.info_size() > max_debug_info) return;
  types_ = *types;
  EntryWalk walk(context, "types");
  walk.for_each_unit([&](llvm::DWARFUnit& unit, llvm::DWARFUnit& entries) {
    if (&unit != &entries || unsigned_constant(unit.getUnitDIE(), DW_AT_language) != DW_LANG_Go)
      return true;
    walk.for_each_entry(entries, [&](const Die& die, std::uint16_t, std::size_t depth) {
      if (depth != 1) return true;
      const auto offset = die.find(DW_AT_GO_runtime_type);
      const auto kind = unsigned_constant(die, DW_AT_GO_kind);
      if (offset && offset->getRawUValue() != 0 && kind)
        entries_.try_emplace(offset->getRawUValue(), Entry{die.getOffset(), *kind});
      return true;
    });
    return true;
  });
}

bool GoTypes::is_described_at(VirtualAddress address, std::uint64_t size,
                              std::uint64_t kind) const {
  const auto at = image_.to_image(address);
  if (!at) return false;
  const auto described = read_at<std::uint64_t>(image_.bytes(), at->value + described_size_at);
  const auto byte = read_at<std::uint8_t>(image_.bytes(), at->value + described_kind_at);
  return described == size && byte && (*byte & described_kind_mask) == kind;
}

std::optional<GoTypes::Found> GoTypes::find(VirtualAddress address) const {
  if (address.value < types_.value) return std::nullopt;
  const auto found = entries_.find(address.value - types_.value);
  if (found == entries_.end()) return std::nullopt;
  Context& context = info_.context();
  const Die die = context.entry_at(found->second.info_offset);
  const Type* const type = die ? context.types().get(die) : nullptr;
  const std::uint64_t kind = found->second.kind;
  if (type == nullptr || !is_described_at(address, type->size(), kind)) return std::nullopt;
  return Found{.type = type, .is_string = kind == string_kind};
}

} // namespace uprobectl::dwarf
