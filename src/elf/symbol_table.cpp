// SPDX-License-Identifier: Apache-2.0
#include "elf/elf_types.hpp"
#include "elf/prefetch.hpp"
#include "util/text.hpp"

#include <cstring>

namespace uprobectl::elf {

namespace {

Binding to_binding(std::uint8_t binding) {
  switch (binding) {
  case raw::STB_GLOBAL:
  case raw::STB_GNU_UNIQUE: // one definition per process; otherwise like global
    return Binding::global;
  case raw::STB_WEAK:
    return Binding::weak;
  default:
    return Binding::local;
  }
}

SymbolType to_symbol_type(std::uint8_t type) {
  switch (type) {
  case raw::STT_NOTYPE:
    return SymbolType::none;
  case raw::STT_OBJECT:
  case raw::STT_COMMON:
    return SymbolType::object;
  case raw::STT_FUNC:
    return SymbolType::function;
  case raw::STT_GNU_IFUNC:
    return SymbolType::ifunc;
  case raw::STT_SECTION:
    return SymbolType::section;
  case raw::STT_FILE:
    return SymbolType::file;
  case raw::STT_TLS:
    return SymbolType::tls;
  default:
    return SymbolType::other;
  }
}

// Whether the text has the form of a version name, for files without a list of versions.
bool may_be_version(std::string_view text) {
  return !text.empty() && !is_ascii_digit(text.front()) && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) { return in_ascii_identifier(c) || c == '.'; });
}

// The index of the '@' before a version in a name; npos without one. The static linker writes
// versions into the names of .symtab: "f@V" hidden, "f@@V" default. Some names contain an '@'
// themselves ("x_veneer@island-2"). The version_names of tables other than .dynsym are
// KnownVersions.
std::size_t version_begin(const SymbolTable::Parts& parts, std::string_view name) {
  constexpr std::size_t none = std::string_view::npos;
  if (parts.table == Table::dynsym) return none;
  const std::size_t at = name.find('@', 1);
  if (at == none) return none;
  const bool is_default = name.substr(at).starts_with("@@");
  const auto version = name.substr(at + (is_default ? 2 : 1));
  const bool is_known =
      parts.version_names != nullptr &&
      std::ranges::binary_search(*parts.version_names, version, {}, &VersionName::name);
  if (is_known) return at;
  // A program has no version section if it defines no version of a symbol that it exports. Names of
  // Microsoft's compilers begin with '?' and have "@@" themselves.
  const bool may_be_one = is_default ? name.front() != '?' : parts.version_names == nullptr;
  return may_be_one && parts.table != Table::gnu_debugdata && may_be_version(version) ? at : none;
}

// Whether the section does not contain code. False for reserved indexes.
template <class ELFT>
bool is_data_section(Bytes sections, std::uint16_t index) {
  if (index >= raw::SHN_LORESERVE) return false;
  const auto headers = views_in<typename ELFT::Shdr>(sections);
  return index < headers.size() && (headers[index].sh_flags & raw::SHF_EXECINSTR) == 0;
}

// Whether the value of the symbol has bit 0 set for Thumb code (ARM ELF supplement, section 5.5.3).
template <class Entry>
bool is_thumb(const SymbolTable::Parts& parts, const Entry& entry) {
  const std::uint8_t type = entry.getType();
  const bool is_code = type == raw::STT_FUNC || type == raw::STT_GNU_IFUNC;
  return parts.machine.info().thumb_bit && is_code && (entry.st_value & 1) != 0;
}

// Reads a symbol without its version.
template <class ELFT>
std::optional<Symbol> read_symbol(const SymbolTable::Parts& parts, std::uint32_t index) {
  const auto& entry = views_in<typename ELFT::Sym>(parts.entries)[index];
  const auto name = symbol_name_at(parts.strings, entry.st_name);
  if (!name) return std::nullopt;
  const std::uint16_t section = entry.st_shndx;
  Symbol symbol{.name = *name,
                .address = {entry.st_value},
                .size = entry.st_size,
                .type = to_symbol_type(entry.getType()),
                .binding = to_binding(entry.getBinding()),
                .table = parts.table,
                .defined = section != raw::SHN_UNDEF,
                .absolute = section == raw::SHN_ABS};
  symbol.thumb = is_thumb(parts, entry);
  if (symbol.thumb) symbol.address.value &= ~std::uint64_t{1};
  if (symbol.type == SymbolType::none && symbol.defined)
    symbol.in_data = is_data_section<ELFT>(parts.sections, section);
  return symbol;
}

// The version that DT_VERSYM gives an entry of .dynsym.
template <class ELFT>
std::optional<SymbolVersion> read_version(const SymbolTable::Parts& parts, std::uint32_t index,
                                          bool defined) {
  const auto words = views_in<typename ELFT::Versym>(parts.versions);
  if (index >= words.size() || !parts.version_names) return std::nullopt;
  const std::uint16_t word = words[index].vs_index;
  const auto& names = *parts.version_names;
  // Indexes 0 and 1 are reserved: local, and global without version.
  const std::size_t slot = word & raw::VERSYM_VERSION;
  if (slot <= 1 || slot >= names.size() || names[slot].name.empty()) return std::nullopt;
  const bool is_default = defined && (word & raw::VERSYM_HIDDEN) == 0;
  return SymbolVersion{names[slot].name, is_default, names[slot].library};
}

// The offset of an entry's name in the string table. The index must be valid.
std::uint32_t name_offset(const SymbolTable::Parts& parts, std::uint32_t index) {
  return with_elf_type(parts.machine, [&]<class ELFT>() -> std::uint32_t {
    return views_in<typename ELFT::Sym>(parts.entries)[index].st_name;
  });
}

} // namespace

SymbolTable::SymbolTable(Parts parts) : parts_(std::move(parts)) {
  const std::uint64_t fit = parts_.entries.size() / symbol_size(parts_.machine);
  count_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(fit, UINT32_MAX));
}

std::optional<std::string_view> SymbolTable::name(std::uint32_t index) const {
  if (index >= count_) return std::nullopt;
  const auto whole = symbol_name_at(parts_.strings, name_offset(parts_, index));
  return whole ? std::optional(whole->substr(0, version_begin(parts_, *whole))) : std::nullopt;
}

std::optional<Symbol> SymbolTable::at(std::uint32_t index) const {
  if (index >= count_) return std::nullopt;
  return with_elf_type(parts_.machine, [&]<class ELFT>() {
    auto symbol = read_symbol<ELFT>(parts_, index);
    if (!symbol) return symbol;
    if (parts_.table == Table::dynsym) {
      symbol->version = read_version<ELFT>(parts_, index, symbol->defined);
    } else if (const std::size_t begin = version_begin(parts_, symbol->name);
               begin != std::string_view::npos) {
      const bool is_default = symbol->name.substr(begin).starts_with("@@");
      symbol->version =
          SymbolVersion{symbol->name.substr(begin + (is_default ? 2 : 1)), is_default, {}};
      symbol->name = symbol->name.substr(0, begin);
    }
    return symbol;
  });
}

void Prefetch::entry(const SymbolTable& table, std::uint32_t index) {
  if (index >= table.count_) return;
  const SymbolTable::Parts& parts = table.parts_;
  __builtin_prefetch(&parts.entries[index * symbol_size(parts.machine)]);
  const std::uint64_t version = index * std::uint64_t{2};
  if (version < parts.versions.size()) __builtin_prefetch(&parts.versions[version]);
}

void Prefetch::name(const SymbolTable& table, std::uint32_t index) {
  if (index >= table.count_) return;
  const Bytes strings = table.parts_.strings;
  const std::uint64_t start = name_offset(table.parts_, index);
  // Bytes. Mangled names are long, and a prefetch loads one cache line.
  constexpr std::uint64_t usual_name = 256;
  constexpr std::uint64_t cache_line = 64;
  const std::uint64_t end = std::min<std::uint64_t>(start + usual_name, strings.size());
  for (std::uint64_t at = start; at < end; at += cache_line) __builtin_prefetch(&strings[at]);
}

// Returns the character after the name if the name of the entry begins with it.
std::optional<char> SymbolTable::character_after(std::uint32_t index, std::string_view name) const {
  if (index >= count_) return std::nullopt;
  const auto text = slice(parts_.strings, name_offset(parts_, index), name.size() + 1);
  if (!text || !as_text(*text).starts_with(name)) return std::nullopt;
  return as_text(*text).back();
}

bool SymbolTable::has_name(std::uint32_t index, std::string_view name) const {
  const auto after = character_after(index, name);
  if (!after) return false;
  const bool is_truncated = name.size() == max_name_length; // symbol_name_at() gives no more of it
  return *after == '\0' || is_truncated || (*after == '@' && parts_.table != Table::dynsym);
}

bool SymbolTable::has_name_or_suffix(std::uint32_t index, std::string_view name) const {
  return has_name(index, name) || character_after(index, name) == '.';
}

VirtualAddress SymbolTable::address(std::uint32_t index) const {
  if (index >= count_) return {};
  return with_elf_type(parts_.machine, [&]<class ELFT>() -> VirtualAddress {
    const auto& entry = views_in<typename ELFT::Sym>(parts_.entries)[index];
    const std::uint64_t value = entry.st_value;
    return {is_thumb(parts_, entry) ? value & ~std::uint64_t{1} : value};
  });
}

bool SymbolTable::is_file(std::uint32_t index) const {
  if (index >= count_) return false;
  return with_elf_type(parts_.machine, [&]<class ELFT>() {
    return views_in<typename ELFT::Sym>(parts_.entries)[index].getType() == raw::STT_FILE;
  });
}

bool SymbolTable::may_have_suffix(std::string_view text) const {
  const Bytes strings = parts_.strings;
  return count_ > 0 && memmem(strings.data(), strings.size(), text.data(), text.size()) != nullptr;
}

} // namespace uprobectl::elf
