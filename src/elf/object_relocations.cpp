// SPDX-License-Identifier: Apache-2.0
#include "elf/object_relocations.hpp"

#include "elf/elf_types.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

// Relocations that write symbol + addend: the only ones in debug sections.
struct AbsoluteType {
  std::uint16_t machine;
  std::uint32_t type;
  std::size_t size; // bytes written
};
constexpr std::array absolute_types = {
    AbsoluteType{raw::EM_BPF, raw::R_BPF_64_ABS64, 8},
    AbsoluteType{raw::EM_BPF, raw::R_BPF_64_ABS32, 4},
    AbsoluteType{raw::EM_BPF, raw::R_BPF_64_NODYLD32, 4},
    AbsoluteType{raw::EM_X86_64, raw::R_X86_64_64, 8},
    AbsoluteType{raw::EM_X86_64, raw::R_X86_64_32, 4},
    AbsoluteType{raw::EM_AARCH64, raw::R_AARCH64_ABS64, 8},
    AbsoluteType{raw::EM_AARCH64, raw::R_AARCH64_ABS32, 4},
};

std::optional<std::size_t> written_size(const Machine& machine, std::uint32_t type) {
  for (const AbsoluteType& each : absolute_types)
    if (each.machine == machine.id && each.type == type) return each.size;
  return std::nullopt;
}

std::uint64_t load(Bytes bytes, ByteOrder order) {
  return bytes.size() == sizeof(std::uint64_t)
             ? read_at<std::uint64_t>(bytes, 0, order).value_or(0)
             : read_at<std::uint32_t>(bytes, 0, order).value_or(0);
}

void store(std::span<std::byte> bytes, std::uint64_t value, ByteOrder order) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t at = order == ByteOrder::little ? i : bytes.size() - 1 - i;
    bytes[at] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <class ELFT>
class Relocator {
public:
  using Header = typename ELFT::Shdr;
  using Symbol = typename ELFT::Sym;

  Relocator(const Layout& layout, llvm::ArrayRef<Header> headers, std::string_view name)
      : layout_(layout), headers_(headers), name_(name) {}

  // Applies one section of relocations.
  template <typename Entry>
  Result<void> apply(const Header& section, std::span<std::byte> content) const {
    const auto entries = slice(layout_.bytes, section.sh_offset, section.sh_size);
    if (!entries) return damaged("its relocations are outside of the file");
    const auto symbols = read_symbols(section);
    if (!symbols) return damaged("its relocations have no symbol table");
    for (const Entry& entry : views_in<Entry>(*entries))
      if (auto done = relocate(entry, *symbols, content); !done) return done;
    return {};
  }

private:
  std::unexpected<Error> damaged(std::string_view problem) const {
    return fail(ErrorKind::corrupt, fmt::format("{}: {}", name_, problem));
  }

  std::optional<llvm::ArrayRef<Symbol>> read_symbols(const Header& section) const {
    const std::uint32_t link = section.sh_link;
    if (link >= headers_.size()) return std::nullopt;
    const auto bytes = slice(layout_.bytes, headers_[link].sh_offset, headers_[link].sh_size);
    if (!bytes) return std::nullopt;
    return views_in<Symbol>(*bytes);
  }

  template <typename Entry>
  Result<void> relocate(const Entry& entry, llvm::ArrayRef<Symbol> symbols,
                        std::span<std::byte> content) const {
    const std::uint32_t type = entry.getType(false);
    if (type == 0) return {}; // R_*_NONE
    const auto size = written_size(layout_.machine, type);
    if (!size)
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: relocations of type {} are not supported", name_, type));
    const std::uint64_t offset = entry.r_offset;
    const std::uint32_t index = entry.getSymbol(false);
    if (index >= symbols.size()) return damaged("a relocation has no symbol");
    if (offset > content.size() || *size > content.size() - offset)
      return damaged("a relocation is outside of the section");
    const auto target = content.subspan(offset, *size);
    std::uint64_t addend = load(target, layout_.machine.order);
    if constexpr (requires { entry.r_addend; })
      addend = static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.r_addend));
    store(target, std::uint64_t{symbols[index].st_value} + addend, layout_.machine.order);
    return {};
  }

  const Layout& layout_;
  llvm::ArrayRef<Header> headers_;
  std::string_view name_;
};

} // namespace

Result<SectionContent> relocate_section(const Layout& layout, std::string_view name,
                                        SectionContent content) {
  return with_elf_type(layout.machine, [&]<class ELFT>() -> Result<SectionContent> {
    const auto file = accepted(llvm::object::ELFFile<ELFT>::create(as_string_ref(layout.bytes)));
    if (!file || file->getHeader().e_type != raw::ET_REL) return std::move(content);
    const auto headers = accepted(file->sections());
    const auto target = find_section(layout, name);
    if (!headers || !target) return std::move(content);
    const auto target_offset =
        static_cast<std::uint64_t>(target->bytes.data() - layout.bytes.data());
    const Relocator<ELFT> relocator(layout, *headers, name);
    const auto copy = std::make_shared_for_overwrite<std::byte[]>(content.bytes.size());
    const std::span bytes(copy.get(), content.bytes.size());
    std::ranges::copy(content.bytes, bytes.begin());
    for (const auto& section : *headers) {
      const bool has_addends = section.sh_type == raw::SHT_RELA;
      if (!has_addends && section.sh_type != raw::SHT_REL) continue;
      const std::uint32_t info = section.sh_info;
      if (info >= headers->size() || (*headers)[info].sh_offset != target_offset ||
          (*headers)[info].sh_size != target->bytes.size())
        continue;
      auto done = has_addends ? relocator.template apply<typename ELFT::Rela>(section, bytes)
                              : relocator.template apply<typename ELFT::Rel>(section, bytes);
      if (!done) return fail(std::move(done).error());
    }
    return SectionContent{bytes, copy};
  });
}

} // namespace uprobectl::elf
