#include "elf/dynamic.hpp"

#include <algorithm>

namespace uprobectl::elf {

namespace {

// PT_DYNAMIC's own bytes, found by address because that is what the loader uses.
std::optional<Bytes> dynamic_bytes(const Layout& layout) {
  if (!layout.dynamic) return std::nullopt;
  const auto bytes = bytes_from(layout, layout.dynamic->address);
  if (!bytes) return std::nullopt;
  return bytes->first(std::min<std::uint64_t>(bytes->size(), layout.dynamic->size));
}

template <typename Visit>
void for_each_entry(const Layout& layout, Bytes bytes, Visit visit) {
  const std::uint64_t size = dynamic_entry_size(layout.machine);
  for (std::uint64_t at = 0;; at += size) {
    const auto entry = read_dynamic_entry(bytes, at, layout.machine);
    if (!entry || entry->tag == raw::DT_NULL) return;
    visit(*entry);
  }
}

} // namespace

Result<std::optional<DynamicTable>> read_dynamic(const Layout& layout) {
  const auto bytes = dynamic_bytes(layout);
  if (!bytes) {
    // Files of debug data keep PT_DYNAMIC but not its bytes; only missing bytes are an error.
    if (layout.dynamic && layout.truncated)
      return fail(unmapped(layout, "PT_DYNAMIC", layout.dynamic->address));
    return std::nullopt;
  }
  DynamicTable table;
  for_each_entry(layout, *bytes, [&](const DynamicEntry& entry) {
    const VirtualAddress address{entry.value};
    switch (entry.tag) {
    case raw::DT_SYMTAB:
      table.symbols = address;
      break;
    case raw::DT_STRTAB:
      table.strings = address;
      break;
    case raw::DT_HASH:
      table.hash = address;
      break;
    case raw::DT_GNU_HASH:
      table.gnu_hash = address;
      break;
    case raw::DT_VERSYM:
      table.versions = address;
      break;
    case raw::DT_VERDEF:
      table.defined_versions = address;
      break;
    case raw::DT_VERNEED:
      table.needed_versions = address;
      break;
    case raw::DT_JMPREL:
      table.plt_relocations = address;
      break;
    case raw::DT_RELA:
      table.rela = address;
      break;
    case raw::DT_REL:
      table.rel = address;
      break;
    case raw::DT_PLTGOT:
      table.got = address;
      break;
    case raw::DT_PLTRELSZ:
      table.plt_relocations_size = entry.value;
      break;
    case raw::DT_PLTREL:
      table.plt_relocation_type = entry.value;
      break;
    case raw::DT_RELASZ:
      table.rela_size = entry.value;
      break;
    case raw::DT_RELSZ:
      table.rel_size = entry.value;
      break;
    case raw::DT_STRSZ:
      table.strings_size = entry.value;
      break;
    case raw::DT_SYMENT:
      table.symbol_size = entry.value;
      break;
    default:
      break;
    }
  });
  return table;
}

Result<Bytes> dynamic_strings(const Layout& layout, const DynamicTable& table) {
  if (!table.strings) return Bytes{};
  const auto bytes = bytes_from(layout, *table.strings);
  if (!bytes) return fail(unmapped(layout, "DT_STRTAB", *table.strings));
  if (table.strings_size == 0) return *bytes;
  return bytes->first(std::min<std::uint64_t>(bytes->size(), table.strings_size));
}

std::vector<std::uint64_t> needed_offsets(const Layout& layout) {
  std::vector<std::uint64_t> offsets;
  const auto bytes = dynamic_bytes(layout);
  if (!bytes) return offsets;
  for_each_entry(layout, *bytes, [&](const DynamicEntry& entry) {
    if (entry.tag == raw::DT_NEEDED) offsets.push_back(entry.value);
  });
  return offsets;
}

} // namespace uprobectl::elf
