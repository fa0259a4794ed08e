// SPDX-License-Identifier: Apache-2.0
#include "bpf/object_check.hpp"

#include "elf/elf_types.hpp"
#include "uprobectl/elf.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <linux/btf.h>
#include <map>
#include <vector>

namespace uprobectl::bpf {

namespace {

constexpr std::uint32_t kind_enum64 = 19; // Linux 6.0, BTF_KIND_ENUM64
constexpr std::uint16_t btf_magic = 0xeb9f;
// libbpf recurses into members and elements; compilers nest some ten levels.
constexpr unsigned max_nesting = 64;

std::unexpected<Error> damaged_object(std::string what) {
  return fail(ErrorKind::corrupt, std::move(what));
}

// A type with the data that follows it.
struct TypeEntry {
  btf_type type{};
  Bytes rest; // the array, members, parameters, values or variables

  std::uint32_t kind() const { return type.info >> 24 & 0x1f; }
  std::uint32_t count() const { return type.info & 0xffff; }
  template <typename T>
  T part(std::size_t index = 0) const {
    return structure_at<T>(rest, index * sizeof(T)).value_or(T{}); // the length was checked
  }
};

// The bytes that follow a type of this kind; nullopt for an unknown kind.
std::optional<std::uint64_t> rest_size(std::uint32_t kind, std::uint64_t count) {
  switch (kind) {
  case BTF_KIND_INT:
  case BTF_KIND_VAR:
  case BTF_KIND_DECL_TAG:
    return sizeof(std::uint32_t);
  case BTF_KIND_ARRAY:
    return sizeof(struct btf_array);
  case BTF_KIND_STRUCT:
  case BTF_KIND_UNION:
    return count * sizeof(btf_member);
  case BTF_KIND_ENUM:
    return count * sizeof(struct btf_enum);
  case BTF_KIND_FUNC_PROTO:
    return count * sizeof(btf_param);
  case BTF_KIND_DATASEC:
    return count * sizeof(btf_var_secinfo);
  case kind_enum64:
    return count * 3 * sizeof(std::uint32_t);
  case BTF_KIND_PTR:
  case BTF_KIND_FWD:
  case BTF_KIND_TYPEDEF:
  case BTF_KIND_VOLATILE:
  case BTF_KIND_CONST:
  case BTF_KIND_RESTRICT:
  case BTF_KIND_FUNC:
  case BTF_KIND_FLOAT:
  case BTF_KIND_TYPE_TAG:
    return 0;
  default:
    return std::nullopt;
  }
}

class TypeCheck {
public:
  TypeCheck(Bytes btf, const SectionSize& section_size) : btf_(btf), section_size_(section_size) {}

  Result<CheckedTypes> run() && {
    if (auto parts = take_parts(); !parts) return fail(std::move(parts).error());
    if (auto listed = list_types(); !listed) return fail(std::move(listed).error());
    for (std::uint32_t id = 1; id < entries_.size(); ++id)
      if (auto valid = check(id); !valid)
        return damaged_object(fmt::format("type {}: {}", id, valid.error().message));
    if (auto valid = check_nesting(); !valid) return fail(std::move(valid).error());
    return std::move(checked_);
  }

private:
  Result<void> take_parts() {
    const auto header = structure_at<btf_header>(btf_, 0);
    if (!header) return damaged_object("its header is truncated");
    if (header->magic != btf_magic || header->version != BTF_VERSION)
      return damaged_object("its header has another magic number or version");
    if (header->hdr_len < sizeof(btf_header) || header->hdr_len > btf_.size())
      return damaged_object(
          fmt::format("its header has an invalid length of {} bytes", header->hdr_len));
    const Bytes body = btf_.subspan(header->hdr_len);
    const auto types = slice(body, header->type_off, header->type_len);
    const auto strings = slice(body, header->str_off, header->str_len);
    if (!types || header->type_off % 4 != 0) return damaged_object("its types lie outside of it");
    if (!strings) return damaged_object("its strings lie outside of it");
    if (strings->empty() || strings->front() != std::byte{} || strings->back() != std::byte{})
      return damaged_object("its strings do not begin and end with NUL");
    types_ = *types;
    checked_.strings = *strings;
    return {};
  }

  Result<void> list_types() {
    entries_.resize(1); // void
    for (std::uint64_t at = 0; at < types_.size();) {
      const auto type = structure_at<btf_type>(types_, at);
      if (!type) return damaged_object(fmt::format("type {} is truncated", entries_.size()));
      TypeEntry entry{.type = *type, .rest = {}};
      const auto size = rest_size(entry.kind(), entry.count());
      if (!size)
        return damaged_object(
            fmt::format("type {} has the unknown kind {}", entries_.size(), entry.kind()));
      const auto rest = slice(types_, at + sizeof(btf_type), *size);
      if (!rest) return damaged_object(fmt::format("type {} is truncated", entries_.size()));
      entry.rest = *rest;
      entries_.push_back(entry);
      if (entries_.size() > BTF_MAX_TYPE) return damaged_object("it has too many types");
      at += sizeof(btf_type) + *size;
    }
    for (const TypeEntry& entry : entries_) checked_.kinds.push_back(entry.kind());
    return {};
  }

  Result<void> check_type_id(std::uint32_t id) const {
    if (checked_.has_type(id)) return {};
    return damaged_object(
        fmt::format("invalid type id {} (expected at most {})", id, entries_.size() - 1));
  }
  Result<void> check_name(std::uint32_t offset) const {
    if (checked_.has_string(offset)) return {};
    return damaged_object(fmt::format("its name is outside the strings, at {:#x} of {:#x} bytes",
                                      offset, checked_.strings.size()));
  }
  Result<void> check_name_and_type(std::uint32_t name, std::uint32_t type) const {
    if (auto valid = check_name(name); !valid) return valid;
    return check_type_id(type);
  }

  Result<void> check(std::uint32_t id) const {
    const TypeEntry& entry = entries_[id];
    if (auto valid = check_name(entry.type.name_off); !valid) return valid;
    switch (entry.kind()) {
    case BTF_KIND_INT:
      return check_integer(entry);
    case BTF_KIND_FLOAT:
      if (entry.type.size > 16)
        return damaged_object("a floating-point number of more than 16 bytes");
      return {};
    case BTF_KIND_ARRAY:
      return check_array(entry);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return check_members(entry);
    case BTF_KIND_ENUM:
    case kind_enum64:
      return check_values(entry);
    case BTF_KIND_FUNC_PROTO:
      return check_parameters(entry);
    case BTF_KIND_DATASEC:
      return check_variables(entry);
    case BTF_KIND_FUNC:
      if (auto valid = check_type_id(entry.type.type); !valid) return valid;
      if (checked_.kinds[entry.type.type] != BTF_KIND_FUNC_PROTO)
        return damaged_object("a function without a prototype");
      return {};
    case BTF_KIND_FWD:
      return {};
    default:
      return check_type_id(entry.type.type);
    }
  }

  static Result<void> check_integer(const TypeEntry& entry) {
    const auto details = entry.part<std::uint32_t>();
    const std::uint32_t bits = BTF_INT_BITS(details);
    if (entry.type.size > 16 || bits + BTF_INT_OFFSET(details) > entry.type.size * 8)
      return damaged_object(
          fmt::format("an integer of {} bytes and {} bits", entry.type.size, bits));
    return {};
  }

  Result<void> check_array(const TypeEntry& entry) const {
    const auto array = entry.part<struct btf_array>();
    if (auto valid = check_type_id(array.type); !valid) return valid;
    if (auto valid = check_type_id(array.index_type); !valid) return valid;
    if (array.type == 0) return damaged_object("an array of void");
    return {};
  }

  Result<void> check_members(const TypeEntry& entry) const {
    const bool has_bit_fields = entry.type.info >> 31 != 0;
    for (std::uint32_t i = 0; i < entry.count(); ++i) {
      const auto member = entry.part<btf_member>(i);
      if (auto valid = check_name_and_type(member.name_off, member.type); !valid) return valid;
      const std::uint32_t bit =
          has_bit_fields ? BTF_MEMBER_BIT_OFFSET(member.offset) : member.offset;
      if (bit / 8 > entry.type.size)
        return damaged_object(
            fmt::format("member {} begins at bit {} of {} bytes", i, bit, entry.type.size));
    }
    return {};
  }

  Result<void> check_values(const TypeEntry& entry) const {
    const std::size_t step = entry.kind() == kind_enum64 ? 12 : sizeof(struct btf_enum);
    for (std::uint32_t i = 0; i < entry.count(); ++i) {
      const auto name = structure_at<std::uint32_t>(entry.rest, i * step);
      if (auto valid = check_name(name.value_or(0)); !valid) return valid;
    }
    if (entry.type.size > 8)
      return damaged_object(fmt::format("an enumeration of {} bytes", entry.type.size));
    return {};
  }

  Result<void> check_parameters(const TypeEntry& entry) const {
    if (auto valid = check_type_id(entry.type.type); !valid) return valid;
    for (std::uint32_t i = 0; i < entry.count(); ++i) {
      const auto parameter = entry.part<btf_param>(i);
      if (auto valid = check_name_and_type(parameter.name_off, parameter.type); !valid)
        return valid;
    }
    return {};
  }

  // Compilers leave offsets and size 0; libbpf takes them from the symbols.
  Result<void> check_variables(const TypeEntry& entry) const {
    const auto section = section_size_(checked_.string(entry.type.name_off));
    for (std::uint32_t i = 0; i < entry.count(); ++i) {
      const auto variable = entry.part<btf_var_secinfo>(i);
      if (auto valid = check_type_id(variable.type); !valid) return valid;
      const std::uint32_t kind = checked_.kinds[variable.type];
      if (kind != BTF_KIND_VAR && kind != BTF_KIND_FUNC)
        return damaged_object(fmt::format("entry {} is not a variable", i));
      if (section && (variable.offset > *section || variable.size > *section - variable.offset))
        return damaged_object(
            fmt::format("variable {} lies outside of the section of {} bytes", i, *section));
    }
    return {};
  }

  // The number of types that this one contains or refers to by value.
  std::size_t count_contained_types(const TypeEntry& entry) const {
    switch (entry.kind()) {
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return entry.count();
    case BTF_KIND_ARRAY:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_TYPE_TAG:
    case BTF_KIND_VAR:
      return 1;
    default:
      return 0;
    }
  }
  static std::uint32_t contained_type(const TypeEntry& entry, std::size_t index) {
    if (entry.kind() == BTF_KIND_STRUCT || entry.kind() == BTF_KIND_UNION)
      return entry.part<btf_member>(index).type;
    return entry.kind() == BTF_KIND_ARRAY ? entry.part<struct btf_array>().type : entry.type.type;
  }

  // Visits each type and part once, without recursion.
  Result<void> check_nesting() const {
    enum : std::uint8_t { unseen, open, done };
    struct Step {
      std::uint32_t id = 0;
      std::size_t next = 0; // part
    };
    std::vector<std::uint8_t> states(entries_.size(), unseen);
    std::vector<unsigned> depths(entries_.size());
    std::vector<Step> path;
    for (std::uint32_t root = 1; root < entries_.size(); ++root) {
      if (states[root] == unseen) path.push_back({root, 0});
      while (!path.empty()) {
        const std::uint32_t id = path.back().id;
        states[id] = open;
        if (path.back().next == count_contained_types(entries_[id])) {
          states[id] = done;
          path.pop_back();
          if (!path.empty())
            depths[path.back().id] = std::max(depths[path.back().id], depths[id] + 1);
          if (depths[id] > max_nesting)
            return damaged_object(
                fmt::format("type {} is nested more than {} deep", id, max_nesting));
          continue;
        }
        const std::uint32_t part = contained_type(entries_[id], path.back().next++);
        if (states[part] == open)
          return damaged_object(fmt::format("type {} contains itself", part));
        if (states[part] == unseen)
          path.push_back({part, 0});
        else
          depths[id] = std::max(depths[id], depths[part] + 1);
      }
    }
    return {};
  }

  Bytes btf_;
  const SectionSize& section_size_;
  Bytes types_;
  std::vector<TypeEntry> entries_; // by type id
  CheckedTypes checked_;
};

// struct btf_ext_header of libbpf, which is not public.
struct ExtendedHeader {
  std::uint16_t magic = 0;
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  std::uint32_t length = 0;
  std::uint32_t functions_offset = 0;
  std::uint32_t functions_length = 0;
  std::uint32_t lines_offset = 0;
  std::uint32_t lines_length = 0;
};
// Follows it since Linux 5.4.
struct RelocationsHeader {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

// struct bpf_func_info, bpf_line_info and bpf_core_relo begin with the instruction's offset.
using RecordFields = std::array<std::uint32_t, 4>;
enum class RecordKind : std::uint8_t { function, line, relocation };

class ExtendedCheck {
public:
  ExtendedCheck(Bytes bytes, const CheckedTypes& types, const SectionSize& section_size)
      : bytes_(bytes), types_(types), section_size_(section_size) {}

  Result<void> run() {
    const auto header = structure_at<ExtendedHeader>(bytes_, 0);
    if (!header) return damaged_object("its header is truncated");
    if (header->magic != btf_magic || header->version != BTF_VERSION)
      return damaged_object("its header has another magic number or version");
    if (header->length < sizeof(ExtendedHeader) || header->length > bytes_.size())
      return damaged_object(
          fmt::format("its header has an invalid length of {} bytes", header->length));
    body_ = bytes_.subspan(header->length);
    if (auto valid =
            check_part(RecordKind::function, header->functions_offset, header->functions_length, 8);
        !valid)
      return valid;
    if (auto valid = check_part(RecordKind::line, header->lines_offset, header->lines_length, 16);
        !valid)
      return valid;
    if (header->length < sizeof(ExtendedHeader) + sizeof(RelocationsHeader)) return {};
    const auto more = structure_at<RelocationsHeader>(bytes_, sizeof(ExtendedHeader));
    return check_part(RecordKind::relocation, more->offset, more->length, 16);
  }

private:
  // The record size, then for each section its name, the number of records, and the records.
  Result<void> check_part(RecordKind kind, std::uint32_t offset, std::uint32_t length,
                          std::uint32_t least) const {
    if (length == 0) return {};
    const auto part = slice(body_, offset, length);
    if (!part || offset % 4 != 0) return damaged_object("records lie outside of it");
    const auto size = structure_at<std::uint32_t>(*part, 0);
    if (!size || *size < least || *size % 4 != 0)
      return damaged_object(fmt::format("records of {} bytes", size.value_or(0)));
    for (std::uint64_t at = sizeof(std::uint32_t); at < part->size();) {
      struct Head {
        std::uint32_t name = 0;
        std::uint32_t count = 0;
      };
      const auto head = structure_at<Head>(*part, at);
      if (!head || head->count == 0 || !types_.has_string(head->name))
        return damaged_object("a section's records have an invalid name or count");
      const auto records =
          slice(*part, at + sizeof(Head), std::uint64_t{head->count} * std::uint64_t{*size});
      if (!records) return damaged_object(fmt::format("{} records lie outside of it", head->count));
      const auto section = section_size_(types_.string(head->name));
      for (std::uint64_t i = 0; i < head->count; ++i)
        if (auto valid = check_record(kind, records->subspan(i * *size, *size), section); !valid)
          return valid;
      at += sizeof(Head) + records->size();
    }
    return {};
  }

  Result<void> check_record(RecordKind kind, Bytes record,
                            std::optional<std::uint64_t> section) const {
    constexpr std::uint32_t instruction = 8; // bytes
    RecordFields fields{};
    std::memcpy(fields.data(), record.data(), std::min(record.size(), sizeof(fields)));
    const auto [offset, second, third, fourth] = fields;
    if (offset % instruction != 0 || (section && offset >= *section))
      return damaged_object(
          fmt::format("a record has the invalid instruction offset {:#x}", offset));
    switch (kind) {
    case RecordKind::function:
      if (!types_.has_type(second) || types_.kinds[second] != BTF_KIND_FUNC)
        return damaged_object(fmt::format("type {} is not a function", second));
      return {};
    case RecordKind::line:
      if (!types_.has_string(second) || !types_.has_string(third))
        return damaged_object("the text of a line lies outside of the strings");
      return {};
    case RecordKind::relocation:
      if (!types_.has_type(second) || second == 0 || !types_.has_string(third))
        return damaged_object(fmt::format("a relocation has the invalid type id {}", second));
      return {};
    }
    return {};
  }

  Bytes bytes_;
  const CheckedTypes& types_;
  const SectionSize& section_size_;
  Bytes body_;
};

namespace raw = llvm::ELF;
using ELFT = llvm::object::ELF64LE; // as made by clang -target bpf

constexpr std::size_t max_section_name = 4096;

class ObjectCheck {
public:
  explicit ObjectCheck(Bytes file) : file_(file) {}

  Result<void> run() {
    const auto* const header = elf::view_at<ELFT::Ehdr>(file_, 0);
    if (header == nullptr || !elf::looks_like_elf(file_) ||
        header->e_ident[raw::EI_CLASS] != raw::ELFCLASS64 ||
        header->e_ident[raw::EI_DATA] != raw::ELFDATA2LSB || header->e_type != raw::ET_REL ||
        (header->e_machine != raw::EM_BPF && header->e_machine != raw::EM_NONE))
      return {}; // libbpf rejects it
    if (auto taken = take_sections(*header); !taken) return taken;
    for (const Section& section : sections_)
      if (auto valid = check(section); !valid) return valid;
    return check_btf_sections();
  }

  // The section .BTF of any 64-bit little-endian ELF file.
  Result<Bytes> types() {
    const auto* const header = elf::view_at<ELFT::Ehdr>(file_, 0);
    if (header == nullptr || !elf::looks_like_elf(file_) ||
        header->e_ident[raw::EI_CLASS] != raw::ELFCLASS64 ||
        header->e_ident[raw::EI_DATA] != raw::ELFDATA2LSB)
      return fail(ErrorKind::not_elf, "neither BTF nor a 64-bit little-endian ELF file");
    if (auto taken = take_sections(*header); !taken) return fail(std::move(taken).error());
    const Section* const btf = named(".BTF");
    if (btf == nullptr) return fail(ErrorKind::not_found, "it has no section .BTF");
    return btf->bytes;
  }

  // After run().
  std::vector<std::string> map_programs() const {
    std::vector<std::string> names;
    for (const Section& section : sections_) {
      const Section* const target = section_at(section.header.sh_info);
      const Section* const symbols = section_at(section.header.sh_link);
      if (section.header.sh_type != raw::SHT_REL || target == nullptr || target->name != ".maps" ||
          symbols == nullptr)
        continue;
      const Section* const strings = section_at(symbols->header.sh_link);
      for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(ELFT::Rel)) {
        const auto* const relocation = elf::view_at<ELFT::Rel>(section.bytes, at);
        const auto* const symbol =
            relocation == nullptr
                ? nullptr
                : elf::view_at<ELFT::Sym>(symbols->bytes,
                                          std::uint64_t{relocation->getSymbol(false)} *
                                              sizeof(ELFT::Sym));
        if (symbol == nullptr || symbol->getType() != raw::STT_FUNC || strings == nullptr) continue;
        if (const auto name = section_name(strings->bytes, symbol->st_name))
          names.emplace_back(*name);
      }
    }
    return names;
  }

private:
  struct Section {
    ELFT::Shdr header{};
    std::string_view name;
    Bytes bytes; // empty for .bss
  };

  Result<void> take_sections(const ELFT::Ehdr& header) {
    if (header.e_shentsize != sizeof(ELFT::Shdr) || header.e_shstrndx >= header.e_shnum)
      return damaged_object("its section headers are damaged");
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto offset = checked_add(header.e_shoff, i * sizeof(ELFT::Shdr));
      const auto* const section = offset ? elf::view_at<ELFT::Shdr>(file_, *offset) : nullptr;
      if (section == nullptr) return damaged_object("its section headers lie outside of the file");
      sections_.push_back({.header = *section, .name = {}, .bytes = {}});
      if (section->sh_type == raw::SHT_NOBITS || section->sh_type == raw::SHT_NULL) continue;
      const auto bytes = slice(file_, section->sh_offset, section->sh_size);
      if (!bytes) return damaged_object(fmt::format("its section {} lies outside of the file", i));
      sections_.back().bytes = *bytes;
    }
    const Bytes names = sections_[header.e_shstrndx].bytes;
    for (Section& section : sections_) {
      const auto name = section_name(names, section.header.sh_name);
      if (!name) return damaged_object("the names of its sections are damaged");
      section.name = *name;
      const bool is_first = by_name_.try_emplace(*name, &section).second;
      // libbpf would read the last one.
      if (!is_first && (*name == ".BTF" || *name == ".BTF.ext"))
        return damaged_object(fmt::format("it has several sections '{}'", *name));
    }
    return {};
  }

  static std::optional<std::string_view> section_name(Bytes strings, std::uint64_t offset) {
    if (offset >= strings.size()) return std::nullopt;
    // Limited, because many sections may share one long name.
    const std::string_view text = as_text(strings).substr(offset, max_section_name);
    const auto end = text.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    return text.substr(0, end);
  }

  const Section* section_at(std::uint64_t index) const {
    return index < sections_.size() ? &sections_[index] : nullptr;
  }
  const Section* named(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  Result<void> check(const Section& section) const {
    switch (section.header.sh_type) {
    case raw::SHT_SYMTAB:
      return check_symbols(section);
    case raw::SHT_REL:
      return check_relocations(section);
    default:
      return {};
    }
  }

  Result<void> check_symbols(const Section& section) const {
    const Section* const strings = section_at(section.header.sh_link);
    if (section.header.sh_entsize != sizeof(ELFT::Sym) || strings == nullptr ||
        strings->bytes.empty() || strings->bytes.back() != std::byte{} ||
        section.bytes.size() % sizeof(ELFT::Sym) != 0)
      return damaged_object("its symbol table is damaged");
    for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(ELFT::Sym)) {
      const auto* const symbol = elf::view_at<ELFT::Sym>(section.bytes, at);
      const std::uint64_t index = at / sizeof(ELFT::Sym);
      if (symbol->st_name >= strings->bytes.size())
        return damaged_object(fmt::format("the name of its symbol {} is damaged", index));
      const bool is_special =
          symbol->st_shndx >= raw::SHN_LORESERVE || symbol->st_shndx == raw::SHN_UNDEF;
      const Section* const container = section_at(symbol->st_shndx);
      if (is_special) continue;
      if (container == nullptr || symbol->st_value > container->header.sh_size ||
          symbol->st_size > container->header.sh_size - symbol->st_value)
        return damaged_object(fmt::format("its symbol {} lies outside of its section", index));
    }
    return {};
  }

  Result<void> check_relocations(const Section& section) const {
    const Section* const symbols = section_at(section.header.sh_link);
    const Section* const target = section_at(section.header.sh_info);
    if (section.header.sh_entsize != sizeof(ELFT::Rel) || symbols == nullptr || target == nullptr ||
        symbols->header.sh_type != raw::SHT_SYMTAB || section.bytes.size() % sizeof(ELFT::Rel) != 0)
      return damaged_object(fmt::format("its relocations '{}' are damaged", section.name));
    for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(ELFT::Rel)) {
      const auto* const relocation = elf::view_at<ELFT::Rel>(section.bytes, at);
      if (relocation->r_offset >= target->header.sh_size ||
          relocation->getSymbol(false) >= symbols->bytes.size() / sizeof(ELFT::Sym))
        return damaged_object(fmt::format("relocation {} of '{}' has an invalid offset or symbol",
                                          at / sizeof(ELFT::Rel), section.name));
    }
    return {};
  }

  Result<void> check_btf_sections() const {
    const Section* const btf = named(".BTF");
    if (btf == nullptr) return {};
    const SectionSize size = [this](std::string_view name) -> std::optional<std::uint64_t> {
      const Section* const section = named(name);
      return section != nullptr ? std::optional(section->header.sh_size) : std::nullopt;
    };
    const auto types = check_types(btf->bytes, size);
    if (!types) return damaged_object("its types (.BTF): " + types.error().message);
    const Section* const extended = named(".BTF.ext");
    if (extended == nullptr) return {};
    if (const auto valid = check_extended_types(extended->bytes, *types, size); !valid)
      return damaged_object("its types (.BTF.ext): " + valid.error().message);
    return {};
  }

  Bytes file_;
  std::vector<Section> sections_;
  std::map<std::string_view, const Section*> by_name_; // the first of each name
};

} // namespace

std::string_view CheckedTypes::string(std::uint32_t offset) const {
  if (!has_string(offset)) return {};
  constexpr std::size_t max_name = 4096; // of a section; many types may share one long name
  const std::string_view rest = as_text(strings).substr(offset, max_name);
  return rest.substr(0, rest.find('\0'));
}

Result<CheckedTypes> check_types(Bytes btf, const SectionSize& section_size) {
  return TypeCheck(btf, section_size).run();
}

Result<void> check_extended_types(Bytes btf_ext, const CheckedTypes& types,
                                  const SectionSize& section_size) {
  return ExtendedCheck(btf_ext, types, section_size).run();
}

Result<void> check_bpf_object(Bytes file) { return ObjectCheck(file).run(); }

Result<Bytes> find_types(Bytes file) {
  const bool is_alone = structure_at<std::uint16_t>(file, 0) == btf_magic;
  auto types = is_alone ? Result<Bytes>(file) : ObjectCheck(file).types();
  if (!types) return types;
  const SectionSize no_sections = [](std::string_view) { return std::nullopt; };
  if (const auto valid = check_types(*types, no_sections); !valid)
    return fail(Error(valid.error()).within("its types (.BTF)"));
  return types;
}

std::vector<std::string> list_map_programs(Bytes file) {
  ObjectCheck object(file);
  return object.run() ? object.map_programs() : std::vector<std::string>();
}

} // namespace uprobectl::bpf
