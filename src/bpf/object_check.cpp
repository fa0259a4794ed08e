#include "bpf/object_check.hpp"

#include "bpf/type_check.hpp"
#include "elf/elf_types.hpp"
#include "uprobectl/elf.hpp"

#include <fmt/format.h>
#include <map>
#include <vector>

namespace uprobectl {

namespace {

namespace raw = llvm::ELF;
using ELFT = llvm::object::ELF64LE; // what clang makes for -target bpf

constexpr std::size_t longest_section_name = 4096;

std::unexpected<Error> unsound(std::string what) {
  return fail(ErrorKind::corrupt, std::move(what));
}

class ObjectCheck {
public:
  explicit ObjectCheck(Bytes file) : file_(file) {}

  Result<void> run() {
    const auto* const header = elf::view_at<ELFT::Ehdr>(file_, 0);
    if (header == nullptr || !elf::looks_like_elf(file_) ||
        header->e_ident[raw::EI_CLASS] != raw::ELFCLASS64 ||
        header->e_ident[raw::EI_DATA] != raw::ELFDATA2LSB || header->e_type != raw::ET_REL ||
        (header->e_machine != raw::EM_BPF && header->e_machine != raw::EM_NONE))
      return {}; // libbpf's business
    if (auto taken = take_sections(*header); !taken) return taken;
    for (const Section& section : sections_)
      if (auto sound = check(section); !sound) return sound;
    return check_types_of();
  }

private:
  struct Section {
    ELFT::Shdr header{};
    std::string_view name;
    Bytes bytes; // none of .bss
  };

  Result<void> take_sections(const ELFT::Ehdr& header) {
    if (header.e_shentsize != sizeof(ELFT::Shdr) || header.e_shstrndx >= header.e_shnum)
      return unsound("its section headers are damaged");
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto offset = checked_add(header.e_shoff, i * sizeof(ELFT::Shdr));
      const auto* const section = offset ? elf::view_at<ELFT::Shdr>(file_, *offset) : nullptr;
      if (section == nullptr) return unsound("its section headers lie outside of the file");
      sections_.push_back({.header = *section, .name = {}, .bytes = {}});
      if (section->sh_type == raw::SHT_NOBITS || section->sh_type == raw::SHT_NULL) continue;
      const auto bytes = slice(file_, section->sh_offset, section->sh_size);
      if (!bytes) return unsound(fmt::format("its section {} lies outside of the file", i));
      sections_.back().bytes = *bytes;
    }
    const Bytes names = sections_[header.e_shstrndx].bytes;
    for (Section& section : sections_) {
      const auto name = section_name(names, section.header.sh_name);
      if (!name) return unsound("the names of its sections are damaged");
      section.name = *name;
      const bool is_first = by_name_.try_emplace(*name, &section).second;
      // libbpf reads the last one.
      if (!is_first && (*name == ".BTF" || *name == ".BTF.ext"))
        return unsound(fmt::format("it has several sections '{}'", *name));
    }
    return {};
  }

  static std::optional<std::string_view> section_name(Bytes strings, std::uint64_t offset) {
    if (offset >= strings.size()) return std::nullopt;
    // Sections may share a long name: without a bound the time is the product of both.
    const std::string_view text = as_text(strings).substr(offset, longest_section_name);
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
      return unsound("its symbol table is damaged");
    for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(ELFT::Sym)) {
      const auto* const symbol = elf::view_at<ELFT::Sym>(section.bytes, at);
      const std::uint64_t index = at / sizeof(ELFT::Sym);
      if (symbol->st_name >= strings->bytes.size())
        return unsound(fmt::format("the name of its symbol {} is damaged", index));
      const bool is_special =
          symbol->st_shndx >= raw::SHN_LORESERVE || symbol->st_shndx == raw::SHN_UNDEF;
      const Section* const home = section_at(symbol->st_shndx);
      if (is_special) continue;
      if (home == nullptr || symbol->st_value > home->header.sh_size ||
          symbol->st_size > home->header.sh_size - symbol->st_value)
        return unsound(fmt::format("its symbol {} lies outside of its section", index));
    }
    return {};
  }

  Result<void> check_relocations(const Section& section) const {
    const Section* const symbols = section_at(section.header.sh_link);
    const Section* const target = section_at(section.header.sh_info);
    if (section.header.sh_entsize != sizeof(ELFT::Rel) || symbols == nullptr || target == nullptr ||
        symbols->header.sh_type != raw::SHT_SYMTAB || section.bytes.size() % sizeof(ELFT::Rel) != 0)
      return unsound(fmt::format("its relocations '{}' are damaged", section.name));
    for (std::uint64_t at = 0; at < section.bytes.size(); at += sizeof(ELFT::Rel)) {
      const auto* const relocation = elf::view_at<ELFT::Rel>(section.bytes, at);
      if (relocation->r_offset >= target->header.sh_size ||
          relocation->getSymbol(false) >= symbols->bytes.size() / sizeof(ELFT::Sym))
        return unsound(
            fmt::format("relocation {} of '{}' names a place or a symbol that is not there",
                        at / sizeof(ELFT::Rel), section.name));
    }
    return {};
  }

  Result<void> check_types_of() const {
    const Section* const btf = named(".BTF");
    if (btf == nullptr) return {};
    const SectionSize size = [this](std::string_view name) -> std::optional<std::uint64_t> {
      const Section* const section = named(name);
      return section != nullptr ? std::optional(section->header.sh_size) : std::nullopt;
    };
    const auto types = check_types(btf->bytes, size);
    if (!types) return unsound("its types (.BTF): " + types.error().message);
    const Section* const extended = named(".BTF.ext");
    if (extended == nullptr) return {};
    if (const auto sound = check_extended_types(extended->bytes, *types, size); !sound)
      return unsound("its types (.BTF.ext): " + sound.error().message);
    return {};
  }

  Bytes file_;
  std::vector<Section> sections_;
  std::map<std::string_view, const Section*> by_name_; // the first of each name
};

} // namespace

Result<void> check_bpf_object(Bytes file) { return ObjectCheck(file).run(); }

} // namespace uprobectl
