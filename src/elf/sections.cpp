// SPDX-License-Identifier: Apache-2.0
#include "elf/sections.hpp"

#include "elf/elf_types.hpp"
#include "util/inflate.hpp"

#include <fmt/format.h>
#include <llvm/Support/Compression.h>

namespace uprobectl::elf {

namespace {

// Empty if there are no section headers, or they are not completely in the file.
template <class ELFT>
class SectionHeaders {
public:
  using Header = typename ELFT::Shdr;

  explicit SectionHeaders(const Layout& layout) : bytes_(layout.bytes) {
    const auto file = accepted(llvm::object::ELFFile<ELFT>::create(as_string_ref(bytes_)));
    if (!file) return;
    if (const auto headers = accepted(file->sections())) headers_ = *headers;
    names_at_ = file->getHeader().e_shstrndx;
    // gABI chapter 4: the real index is section 0's sh_link.
    if (names_at_ == raw::SHN_XINDEX) names_at_ = headers_.empty() ? 0 : headers_[0].sh_link;
  }

  bool empty() const { return headers_.empty(); }
  const Header* begin() const { return headers_.begin(); }
  const Header* end() const { return headers_.end(); }
  // Without the first one, which is reserved.
  llvm::ArrayRef<Header> real() const { return headers_.drop_front(empty() ? 0 : 1); }
  Bytes bytes() const { return std::as_bytes(std::span(headers_.data(), headers_.size())); }

  const Header* at(std::uint64_t index) const {
    return index < headers_.size() ? &headers_[index] : nullptr;
  }
  const Header* find_first(std::uint32_t type) const {
    const auto* const found = std::ranges::find_if(
        headers_, [&](const Header& header) { return header.sh_type == type; });
    return found == end() ? nullptr : found;
  }

  std::optional<Bytes> content(const Header& header) const {
    return slice(bytes_, header.sh_offset, header.sh_size);
  }
  std::optional<Bytes> names() const {
    const Header* const header = at(names_at_);
    return header != nullptr ? content(*header) : std::nullopt;
  }

private:
  Bytes bytes_; // of the file
  llvm::ArrayRef<Header> headers_;
  std::uint64_t names_at_ = 0;
};

// Calls visit with the SectionHeaders of the file's ELFT.
template <typename Visit>
auto with_headers(const Layout& layout, Visit visit) {
  return with_elf_type(layout.machine,
                       [&]<class ELFT>() { return visit(SectionHeaders<ELFT>(layout)); });
}

// Debug information is compressed to about a third; zlib reaches a ratio of 1032. Limits what a
// malicious header can allocate: the ratio is checked above unchecked_size bytes.
constexpr std::uint64_t max_ratio = 256;
constexpr std::uint64_t unchecked_size = 1U << 20;

// Inflates sections with zlib, and with LLVM's zstd. llvm::object::Decompressor is not used: it
// accepts data that is shorter than the header says, and does not support the older form.
class SectionInflater {
public:
  SectionInflater(std::string_view name, std::uint64_t max_size)
      : name_(name), max_size_(max_size) {}

  // Header: Elf_Chdr (gABI chapter 4, "Section Compression").
  template <typename Header>
  Result<SectionContent> with_header(Bytes bytes) const {
    const auto* const header = view_at<Header>(bytes, 0);
    if (header == nullptr)
      return fail(ErrorKind::corrupt, fmt::format("{} ends within its header", name_));
    const Bytes data = bytes.subspan(sizeof(Header));
    const std::uint32_t type = header->ch_type;
    if (type == raw::ELFCOMPRESS_ZLIB) return inflate(Method::Zlib, data, header->ch_size);
    if (type == raw::ELFCOMPRESS_ZSTD && llvm::compression::zstd::isAvailable())
      return inflate(Method::Zstd, data, header->ch_size);
    return fail(ErrorKind::unsupported,
                fmt::format("{} is not compressed with zlib or zstd", name_));
  }

  // The older form: "ZLIB", and the size as a big-endian number of 8 bytes.
  Result<SectionContent> with_magic(Bytes bytes) const {
    const auto magic = slice(bytes, 0, 4);
    const auto size = read_at<std::uint64_t>(bytes, 4, ByteOrder::big);
    if (!magic || as_text(*magic) != "ZLIB" || !size)
      return fail(ErrorKind::corrupt, fmt::format("{} ends within its header", name_));
    return inflate(Method::Zlib, bytes.subspan(12), *size);
  }

  Result<void> check_size(std::uint64_t size) const {
    if (size <= max_size_) return {};
    return fail(ErrorKind::unsupported,
                fmt::format("{} has {} bytes, at most {} are read", name_, size, max_size_));
  }

private:
  using Method = llvm::compression::Format;

  Result<SectionContent> inflate(Method method, Bytes bytes, std::uint64_t size) const {
    if (auto checked = check_size(size); !checked) return fail(std::move(checked).error());
    const auto damaged = fail(ErrorKind::corrupt, fmt::format("{} cannot be inflated", name_));
    if (size > unchecked_size && size / max_ratio > bytes.size()) return damaged;
    const auto content = std::make_shared_for_overwrite<std::byte[]>(size);
    const std::span output(content.get(), size);
    if (!(method == Method::Zstd ? inflate_zstd(output, bytes) : inflate_zlib_into(output, bytes)))
      return damaged;
    return SectionContent{{content.get(), size}, content};
  }

  static bool inflate_zstd(std::span<std::byte> output, Bytes bytes) {
    std::size_t got = output.size();
    llvm::Error error = llvm::compression::zstd::decompress(
        views_in<std::uint8_t>(bytes), reinterpret_cast<std::uint8_t*>(output.data()), got);
    const bool failed = static_cast<bool>(error);
    llvm::consumeError(std::move(error));
    return !failed && got == output.size();
  }

  std::string_view name_;
  std::uint64_t max_size_;
};

} // namespace

Result<SymbolTable> section_symbols(const Layout& layout, std::uint32_t type, Table table,
                                    KnownVersions versions) {
  const std::string_view name = type == raw::SHT_SYMTAB ? ".symtab" : ".dynsym";
  return with_headers(layout, [&](const auto& headers) -> Result<SymbolTable> {
    const auto* const section = headers.find_first(type);
    if (section == nullptr) return SymbolTable();
    const std::uint64_t entry_size = section->sh_entsize;
    if (entry_size != symbol_size(layout.machine))
      return fail(ErrorKind::corrupt, fmt::format("{} has entries of {} bytes, expected {}", name,
                                                  entry_size, symbol_size(layout.machine)));
    const auto outside = [&](std::string_view what, const auto& header) {
      return fail(ErrorKind::corrupt,
                  fmt::format("{}{} at {}, {} bytes, lies outside the file of {} bytes", what, name,
                              hex(header.sh_offset), std::uint64_t{header.sh_size},
                              layout.bytes.size()));
    };
    const auto entries = headers.content(*section);
    if (!entries) return outside("", *section);
    const std::uint32_t link = section->sh_link;
    const auto* const string_section = headers.at(link);
    if (string_section == nullptr || string_section->sh_type != raw::SHT_STRTAB)
      return fail(
          ErrorKind::corrupt,
          fmt::format("{} has its names in section {}, which is not a string table", name, link));
    const auto strings = headers.content(*string_section);
    if (!strings) return outside("the string table of ", *string_section);
    return SymbolTable(
        {layout.machine, table, *entries, *strings, {}, std::move(versions), headers.bytes()});
  });
}

std::optional<FoundSection> find_section(const Layout& layout, std::string_view name) {
  return with_headers(layout, [&](const auto& headers) -> std::optional<FoundSection> {
    const auto strings = headers.names();
    if (!strings) return std::nullopt;
    for (const auto& section : headers.real()) {
      if (section.sh_type == raw::SHT_NOBITS) continue;
      const auto text = slice(*strings, section.sh_name, name.size() + 1);
      if (!text || as_text(*text).substr(0, name.size()) != name) continue;
      if (as_text(*text).back() != '\0') continue;
      const auto bytes = headers.content(section);
      if (!bytes) return std::nullopt;
      return FoundSection{{section.sh_addr}, *bytes, (section.sh_flags & raw::SHF_COMPRESSED) != 0};
    }
    return std::nullopt;
  });
}

std::optional<Bytes> section_bytes(const Layout& layout, std::string_view name) {
  const auto found = find_section(layout, name);
  if (!found) return std::nullopt;
  return found->bytes;
}

Result<std::optional<SectionContent>> section_content(const Layout& layout, std::string_view name,
                                                      std::uint64_t max_size) {
  const SectionInflater inflater(name, max_size);
  if (const auto found = find_section(layout, name)) {
    if (found->is_compressed)
      return with_elf_type(layout.machine, [&]<class ELFT>() {
        return inflater.with_header<typename ELFT::Chdr>(found->bytes);
      });
    if (auto checked = inflater.check_size(found->bytes.size()); !checked)
      return fail(std::move(checked).error());
    return SectionContent{found->bytes};
  }
  if (!name.starts_with(".debug_")) return std::nullopt;
  const auto old = find_section(layout, fmt::format(".z{}", name.substr(1)));
  if (!old) return std::nullopt;
  return inflater.with_magic(old->bytes);
}

std::optional<ContentSize> content_size(const Layout& layout, std::string_view name) {
  if (const auto found = find_section(layout, name)) {
    const std::uint64_t in_file = found->bytes.size();
    if (!found->is_compressed) return ContentSize{in_file, in_file, false};
    return with_elf_type(layout.machine, [&]<class ELFT>() -> std::optional<ContentSize> {
      const auto* const header = view_at<typename ELFT::Chdr>(found->bytes, 0);
      if (header == nullptr) return std::nullopt;
      return ContentSize{in_file, header->ch_size, true};
    });
  }
  if (!name.starts_with(".debug_")) return std::nullopt;
  const auto old = find_section(layout, fmt::format(".z{}", name.substr(1)));
  const auto size = old ? read_at<std::uint64_t>(old->bytes, 4, ByteOrder::big) : std::nullopt;
  if (!size) return std::nullopt;
  return ContentSize{old->bytes.size(), *size, true};
}

Result<void> check_section_headers(const Layout& layout) {
  if (!layout.has_section_headers) return {};
  return with_elf_type(layout.machine, [&]<class ELFT>() -> Result<void> {
    if (!SectionHeaders<ELFT>(layout).empty()) return {};
    const auto& file = *view_at<typename ELFT::Ehdr>(layout.bytes, 0);
    return fail(
        Error{ErrorKind::corrupt,
              fmt::format("section headers at {}, {} of {} bytes, lie outside the file of {} bytes",
                          hex(file.e_shoff), std::uint64_t{file.e_shnum},
                          std::uint64_t{file.e_shentsize}, layout.bytes.size())}
            .hint("copy the file again: it seems to be truncated"));
  });
}

std::vector<NoteTable> note_sections(const Layout& layout) {
  return with_headers(layout, [&](const auto& headers) {
    std::vector<NoteTable> notes;
    for (const auto& section : headers.real())
      if (section.sh_type == raw::SHT_NOTE)
        notes.push_back({section.sh_offset, section.sh_size,
                         section.sh_addralign == 8 ? std::uint64_t{8} : std::uint64_t{4}});
    return notes;
  });
}

std::optional<std::uint64_t> section_symbol_count(const Layout& layout, VirtualAddress address) {
  return with_headers(layout, [&](const auto& headers) -> std::optional<std::uint64_t> {
    const auto* const section = headers.find_first(raw::SHT_DYNSYM);
    if (section == nullptr || section->sh_addr != address.value) return std::nullopt;
    return section->sh_size / symbol_size(layout.machine);
  });
}

std::vector<AddressRange> code_sections_named(const Layout& layout,
                                              std::span<const std::string_view> names) {
  return with_headers(layout, [&](const auto& headers) {
    std::vector<AddressRange> ranges;
    const auto strings = headers.names();
    if (!strings) return ranges;
    for (const auto& section : headers.real()) {
      if ((section.sh_flags & raw::SHF_EXECINSTR) == 0) continue;
      const auto name = name_at(*strings, section.sh_name);
      if (name && std::ranges::find(names, *name) != names.end())
        ranges.push_back({{section.sh_addr}, section.sh_size});
    }
    return ranges;
  });
}

std::vector<SectionExtent> sections_of(const Layout& layout) {
  return with_headers(layout, [&](const auto& headers) {
    std::vector<SectionExtent> all;
    const auto strings = headers.names();
    for (const auto& section : headers.real()) {
      SectionExtent& extent = all.emplace_back();
      if (strings && section.sh_name < strings->size()) {
        const std::string_view name = as_text(*strings).substr(section.sh_name);
        extent.name = name.substr(0, name.find('\0'));
      }
      extent.offset = section.sh_offset;
      extent.size = section.sh_type == raw::SHT_NOBITS ? 0 : std::uint64_t{section.sh_size};
      extent.is_loaded = (section.sh_flags & raw::SHF_ALLOC) != 0;
      extent.is_code = (section.sh_flags & raw::SHF_EXECINSTR) != 0;
    }
    return all;
  });
}

bool has_code_without_bytes(const Layout& layout) {
  constexpr std::uint64_t loaded_code = raw::SHF_ALLOC | raw::SHF_EXECINSTR;
  return with_headers(layout, [&](const auto& headers) {
    return std::ranges::any_of(headers, [&](const auto& section) {
      return section.sh_type == raw::SHT_NOBITS && section.sh_size > 0 &&
             (section.sh_flags & loaded_code) == loaded_code;
    });
  });
}

} // namespace uprobectl::elf
