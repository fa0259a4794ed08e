#include "elf/names.hpp"
#include "elf/structures.hpp"

#include <algorithm>

namespace uprobectl::elf {

namespace {

constexpr std::uint8_t stb_gnu_unique = 10; // one definition a process; global in all that matters

Binding binding_of(std::uint8_t info) {
  switch (info >> 4) {
  case raw::STB_GLOBAL:
  case stb_gnu_unique:
    return Binding::global;
  case raw::STB_WEAK:
    return Binding::weak;
  default:
    return Binding::local;
  }
}

SymbolType type_of(std::uint8_t info) {
  switch (info & 0xf) {
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

// What names of versions are made of, where the file does not tell them.
bool may_be_version(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
  });
}

// Where a version begins in a name; npos without one. The static linker writes versions into the
// names of .symtab: "f@V" hidden, "f@@V" default. Other names have an '@' of their own
// ("x_veneer@island-2"). Of tables other than .dynsym version_names are KnownVersions.
std::size_t version_begin(const SymbolTable::Parts& parts, std::string_view name) {
  constexpr std::size_t none = std::string_view::npos;
  if (parts.table == Table::dynsym) return none;
  const std::size_t at = name.find('@', 1);
  if (at == none) return none;
  const auto version = name.substr(at + (name.substr(at).starts_with("@@") ? 2 : 1));
  const bool is_one =
      parts.version_names != nullptr
          ? std::ranges::binary_search(*parts.version_names, version, {}, &VersionName::name)
          : parts.table != Table::gnu_debugdata && may_be_version(version);
  return is_one ? at : none;
}

// Whether the header of a section says that it holds no code. Reserved indexes name no section.
bool is_data_section(Bytes sections, std::uint16_t index, const Machine& machine) {
  if (sections.empty() || index >= raw::SHN_LORESERVE) return false;
  const auto header = read_section_header(sections, index * section_header_size(machine), machine);
  return header && (header->flags & raw::SHF_EXECINSTR) == 0;
}

} // namespace

SymbolTable::SymbolTable(Parts parts) : parts_(std::move(parts)) {
  const std::uint64_t fit = parts_.entries.size() / symbol_size(parts_.machine);
  count_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(fit, UINT32_MAX));
}

std::optional<std::string_view> SymbolTable::name(std::uint32_t index) const {
  if (index >= count_) return std::nullopt;
  const std::uint64_t offset = index * symbol_size(parts_.machine);
  const auto start =
      read_at<std::uint32_t>(parts_.entries, offset, parts_.machine.order); // st_name
  const auto whole = start ? name_at(parts_.strings, *start) : std::nullopt;
  return whole ? std::optional(whole->substr(0, version_begin(parts_, *whole))) : std::nullopt;
}

std::optional<Symbol> SymbolTable::at(std::uint32_t index) const {
  if (index >= count_) return std::nullopt;
  const std::uint64_t offset = index * symbol_size(parts_.machine);
  const auto record = read_symbol(parts_.entries, offset, parts_.machine);
  if (!record) return std::nullopt;
  const auto name = name_at(parts_.strings, record->name);
  if (!name) return std::nullopt;

  Symbol symbol{.name = *name,
                .address = {record->value},
                .size = record->size,
                .type = type_of(record->info),
                .binding = binding_of(record->info),
                .table = parts_.table,
                .defined = record->section != raw::SHN_UNDEF,
                .absolute = record->section == raw::SHN_ABS};
  // ARM ELF supplement, section 5.5.3: bit 0 of a function's value means Thumb code.
  const bool is_code = symbol.type == SymbolType::function || symbol.type == SymbolType::ifunc;
  if (parts_.machine.id == raw::EM_ARM && is_code && (record->value & 1) != 0) {
    symbol.thumb = true;
    symbol.address.value &= ~std::uint64_t{1};
  }
  if (symbol.type == SymbolType::none && symbol.defined)
    symbol.in_data = is_data_section(parts_.sections, record->section, parts_.machine);

  if (parts_.table != Table::dynsym) {
    if (const std::size_t begin = version_begin(parts_, symbol.name);
        begin != std::string_view::npos) {
      const bool is_default = symbol.name.substr(begin).starts_with("@@");
      symbol.version =
          SymbolVersion{symbol.name.substr(begin + (is_default ? 2 : 1)), is_default, {}};
      symbol.name = symbol.name.substr(0, begin);
    }
  } else if (const auto word = read_at<std::uint16_t>(parts_.versions, index * std::uint64_t{2},
                                                      parts_.machine.order)) {
    // Indexes 0 and 1 are reserved: local, and global without version.
    const std::size_t slot = *word & raw::VERSYM_VERSION;
    const auto& names = parts_.version_names;
    if (slot > 1 && names && slot < names->size() && !(*names)[slot].name.empty()) {
      const bool is_default = symbol.defined && (*word & raw::VERSYM_HIDDEN) == 0;
      symbol.version = SymbolVersion{(*names)[slot].name, is_default, (*names)[slot].library};
    }
  }
  return symbol;
}

void SymbolTable::expect_entry(std::uint32_t index) const {
  if (index >= count_) return;
  __builtin_prefetch(&parts_.entries[index * symbol_size(parts_.machine)]);
  const std::uint64_t version = index * std::uint64_t{2};
  if (version < parts_.versions.size()) __builtin_prefetch(&parts_.versions[version]);
}

void SymbolTable::expect(std::uint32_t index) const {
  if (index >= count_) return;
  const std::uint64_t offset = index * symbol_size(parts_.machine);
  const auto start =
      read_at<std::uint32_t>(parts_.entries, offset, parts_.machine.order); // st_name
  if (!start) return;
  // Bytes: mangled names are long, and a processor fetches a line of its cache at a time.
  constexpr std::uint64_t usual_name = 256;
  constexpr std::uint64_t cache_line = 64;
  const std::uint64_t end = std::min<std::uint64_t>(*start + usual_name, parts_.strings.size());
  for (std::uint64_t at = *start; at < end; at += cache_line)
    __builtin_prefetch(&parts_.strings[at]);
}

bool SymbolTable::has_name(std::uint32_t index, std::string_view name) const {
  if (index >= count_) return false;
  const std::uint64_t offset = index * symbol_size(parts_.machine);
  const auto start =
      read_at<std::uint32_t>(parts_.entries, offset, parts_.machine.order); // st_name
  if (!start) return false;
  const auto text = slice(parts_.strings, *start, name.size() + 1);
  if (!text || !as_text(*text).starts_with(name)) return false;
  const char end = as_text(*text).back();
  return end == '\0' || (end == '@' && parts_.table != Table::dynsym);
}

} // namespace uprobectl::elf
