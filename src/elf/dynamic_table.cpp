// SPDX-License-Identifier: Apache-2.0
#include "elf/dynamic_table.hpp"

#include "elf/elf_types.hpp"
#include "elf/relocations.hpp"

namespace uprobectl::elf {

namespace {

// The bytes of PT_DYNAMIC, located by address as in the loader.
std::optional<Bytes> dynamic_bytes(const Layout& layout) {
  if (!layout.dynamic) return std::nullopt;
  const auto bytes = bytes_from(layout, layout.dynamic->address);
  if (!bytes) return std::nullopt;
  return bytes->first(std::min<std::uint64_t>(bytes->size(), layout.dynamic->size));
}

// Calls visit with the tag and the value of each entry before DT_NULL.
template <typename Visit>
void for_each_entry(const Layout& layout, Bytes bytes, Visit visit) {
  with_elf_type(layout.machine, [&]<class ELFT>() {
    for (const auto& entry : views_in<typename ELFT::Dyn>(bytes)) {
      if (entry.getTag() == raw::DT_NULL) return;
      visit(entry.getTag(), entry.getVal());
    }
  });
}

void set_entry(DynamicTable& table, std::int64_t tag, std::uint64_t value) {
  const VirtualAddress address{value};
  switch (tag) {
  case raw::DT_TEXTREL:
    table.relocates_code = true;
    break;
  case raw::DT_FLAGS:
    table.relocates_code = table.relocates_code || (value & raw::DF_TEXTREL) != 0;
    break;
  case raw::DT_FLAGS_1:
    table.is_program = (value & raw::DF_1_PIE) != 0;
    break;
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
  case raw::DT_ANDROID_RELA:
    table.packed_rela = address;
    break;
  case raw::DT_ANDROID_REL:
    table.packed_rel = address;
    break;
  case raw::DT_PLTGOT:
    table.got = address;
    break;
  case raw::DT_PLTRELSZ:
    table.plt_relocations_size = value;
    break;
  case raw::DT_PLTREL:
    table.plt_relocation_type = value;
    break;
  case raw::DT_RELASZ:
    table.rela_size = value;
    break;
  case raw::DT_RELSZ:
    table.rel_size = value;
    break;
  case raw::DT_ANDROID_RELASZ:
    table.packed_rela_size = value;
    break;
  case raw::DT_ANDROID_RELSZ:
    table.packed_rel_size = value;
    break;
  case raw::DT_STRSZ:
    table.strings_size = value;
    break;
  case raw::DT_SYMENT:
    table.symbol_size = value;
    break;
  default:
    break;
  }
}

// Collects names by index. An index has 15 bits, which bounds the entries of a valid file; the
// bound also ends overlapping lists of a malicious file.
class VersionNames {
public:
  explicit VersionNames(Bytes strings) : strings_(strings) {}

  bool full() const { return seen_ > raw::VERSYM_VERSION; }
  void add(std::uint16_t index, std::uint32_t name_offset, std::string_view library) {
    ++seen_;
    const std::size_t slot = index & raw::VERSYM_VERSION;
    const auto name = name_at(strings_, name_offset);
    if (!name) return;
    if (slot >= names_.size()) names_.resize(slot + 1);
    names_[slot] = {*name, library};
  }
  std::string_view text(std::uint32_t offset) const {
    return name_at(strings_, offset).value_or(std::string_view());
  }
  std::vector<VersionName> take() { return std::move(names_); }

private:
  Bytes strings_;
  std::vector<VersionName> names_;
  std::size_t seen_ = 0;
};

template <class ELFT>
void add_definitions(VersionNames& names, Bytes bytes) {
  for (std::uint64_t at = 0; !names.full();) {
    const auto* const definition = view_at<typename ELFT::Verdef>(bytes, at);
    if (definition == nullptr) return;
    // The first auxiliary entry names the version, further ones its ancestors.
    const auto* const name = view_at<typename ELFT::Verdaux>(bytes, at + definition->vd_aux);
    if (name == nullptr) return;
    names.add(definition->vd_ndx, name->vda_name, {});
    if (definition->vd_next == 0) return;
    at += definition->vd_next;
  }
}

// Each library has one Verneed with a list of Vernaux.
template <class ELFT>
void add_needs(VersionNames& names, Bytes bytes) {
  for (std::uint64_t at = 0; !names.full();) {
    const auto* const need = view_at<typename ELFT::Verneed>(bytes, at);
    if (need == nullptr) return;
    const std::string_view library = names.text(need->vn_file);
    for (std::uint64_t entry = at + need->vn_aux; !names.full();) {
      const auto* const version = view_at<typename ELFT::Vernaux>(bytes, entry);
      if (version == nullptr) return;
      names.add(version->vna_other, version->vna_name, library);
      if (version->vna_next == 0) break;
      entry += version->vna_next;
    }
    if (need->vn_next == 0) return;
    at += need->vn_next;
  }
}

bool may_be_function(const Symbol& symbol) {
  return symbol.type == SymbolType::function || symbol.type == SymbolType::ifunc ||
         symbol.type == SymbolType::none;
}

// Collects the GOT entries of functions from relocation tables.
class SlotReader {
public:
  SlotReader(const Layout& layout, const SymbolTable& symbols, SlotKind kind)
      : layout_(layout), arch_(layout.machine.info()), symbols_(symbols), kind_(kind) {}

  // Reserved memory that is not used is never touched; growing in steps would touch more.
  void reserve(const DynamicTable& table) {
    std::uint64_t size = 0;
    for (const std::uint64_t each : {table.plt_relocations_size, table.rela_size, table.rel_size})
      size += std::min<std::uint64_t>(each, layout_.bytes.size());
    constexpr std::uint64_t usual_size = 24; // bytes: Elf64_Rela
    slots_.reserve(std::min<std::uint64_t>(size, layout_.bytes.size()) / usual_size);
  }

  void add(const Relocation& relocation) {
    const std::uint32_t type = relocation.type;
    if (relocation.symbol == 0 || (type != arch_.jump_slot && type != arch_.glob_dat)) return;
    const auto symbol = symbols_.at(relocation.symbol);
    if (!symbol || symbol->name.empty() || !is_wanted(*symbol)) return;
    slots_.push_back({relocation.address, relocation.symbol, type == arch_.jump_slot});
  }

  std::vector<ImportSlot> take() { return std::move(slots_); }

private:
  bool is_wanted(const Symbol& symbol) const {
    if (kind_ == SlotKind::functions) return may_be_function(symbol);
    return symbol.type == SymbolType::object;
  }

  const Layout& layout_;
  const ArchInfo& arch_;
  const SymbolTable& symbols_;
  SlotKind kind_;
  std::vector<ImportSlot> slots_;
};

} // namespace

Result<std::optional<DynamicTable>> read_dynamic(const Layout& layout) {
  const auto bytes = dynamic_bytes(layout);
  if (!bytes) {
    // Debug files have PT_DYNAMIC without its bytes; only a truncated file is an error.
    if (layout.dynamic && layout.truncated)
      return fail(unmapped(layout, "PT_DYNAMIC", layout.dynamic->address));
    return std::nullopt;
  }
  DynamicTable table;
  for_each_entry(layout, *bytes,
                 [&](std::int64_t tag, std::uint64_t value) { set_entry(table, tag, value); });
  return table;
}

Result<Bytes> dynamic_strings(const Layout& layout, const DynamicTable& table) {
  if (!table.strings) return Bytes{};
  const auto bytes = bytes_from(layout, *table.strings);
  if (!bytes) return fail(unmapped(layout, "DT_STRTAB", *table.strings));
  if (table.strings_size == 0) return *bytes;
  return bytes->first(std::min<std::uint64_t>(bytes->size(), table.strings_size));
}

NeededLibraries needed_libraries(const Layout& layout) {
  NeededLibraries needed;
  const auto dynamic = read_dynamic(layout);
  if (!dynamic || !*dynamic) return needed;
  const auto strings = dynamic_strings(layout, **dynamic);
  if (!strings) return needed;
  for_each_entry(layout, *dynamic_bytes(layout), [&](std::int64_t tag, std::uint64_t value) {
    if (tag != raw::DT_NEEDED && tag != raw::DT_RPATH && tag != raw::DT_RUNPATH) return;
    const auto text = name_at(*strings, value);
    if (!text) return;
    if (tag == raw::DT_NEEDED) needed.names.push_back(*text);
    if (tag == raw::DT_RPATH) needed.rpath = *text;
    if (tag == raw::DT_RUNPATH) needed.runpath = *text;
  });
  return needed;
}

std::vector<VersionName> read_version_names(const Layout& layout, const DynamicTable& table,
                                            Bytes strings) {
  VersionNames names(strings);
  with_elf_type(layout.machine, [&]<class ELFT>() {
    if (table.defined_versions)
      if (const auto bytes = bytes_from(layout, *table.defined_versions))
        add_definitions<ELFT>(names, *bytes);
    if (table.needed_versions)
      if (const auto bytes = bytes_from(layout, *table.needed_versions))
        add_needs<ELFT>(names, *bytes);
  });
  return names.take();
}

Result<std::vector<ImportSlot>> read_slots(const Layout& layout, const SymbolTable& symbols,
                                           SlotKind kind) {
  const auto dynamic = read_dynamic(layout);
  if (!dynamic) return fail(dynamic.error());
  if (layout.machine.info().jump_slot == 0 || !*dynamic) return std::vector<ImportSlot>();
  SlotReader reader(layout, symbols, kind);
  reader.reserve(**dynamic);
  for_each_relocation(layout, **dynamic, [&](const Relocation& each) { reader.add(each); });
  return reader.take();
}

std::optional<VirtualAddress> find_thread_offset_slot(const Layout& layout, std::uint64_t offset,
                                                      std::string_view variable,
                                                      const SymbolTable& symbols) {
  const std::uint32_t type = layout.machine.info().thread_offset;
  const auto dynamic = read_dynamic(layout);
  if (type == 0 || !dynamic || !*dynamic) return std::nullopt;
  std::optional<VirtualAddress> found;
  for_each_relocation(layout, **dynamic, [&](const Relocation& each) {
    if (found || each.type != type || !each.addend) return;
    const auto symbol = each.symbol == 0 ? std::nullopt : symbols.at(each.symbol);
    const bool is_it = each.symbol == 0 ? *each.addend == offset
                                        : symbol && symbol->name == variable && *each.addend == 0;
    if (is_it) found = each.address;
  });
  return found;
}

} // namespace uprobectl::elf
