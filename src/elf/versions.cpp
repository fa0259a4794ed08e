#include "elf/versions.hpp"

#include "elf/names.hpp"

namespace uprobectl::elf {

namespace {

// Collects names by index. An index has 15 bits, so no honest file has more entries than that;
// the bound also ends lists that a hostile file lets overlap.
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

// Field offsets, equal in both classes: Elf64_Verdef and Elf64_Verdaux.
void add_definitions(VersionNames& names, Bytes bytes, ByteOrder order) {
  for (std::uint64_t at = 0; !names.full();) {
    const auto index = read_at<std::uint16_t>(bytes, at + 4, order);
    const auto auxiliary = read_at<std::uint32_t>(bytes, at + 12, order);
    const auto next = read_at<std::uint32_t>(bytes, at + 16, order);
    if (!index || !auxiliary || !next) return;
    // The first auxiliary entry names the version, further ones its ancestors.
    const auto name = read_at<std::uint32_t>(bytes, at + *auxiliary, order);
    if (name)
      names.add(*index, *name, {});
    else
      return;
    if (*next == 0) return;
    at += *next;
  }
}

// Elf64_Verneed, one a library, each with a list of Elf64_Vernaux.
void add_needs(VersionNames& names, Bytes bytes, ByteOrder order) {
  for (std::uint64_t at = 0; !names.full();) {
    const auto file = read_at<std::uint32_t>(bytes, at + 4, order);
    const auto first = read_at<std::uint32_t>(bytes, at + 8, order);
    const auto next_library = read_at<std::uint32_t>(bytes, at + 12, order);
    if (!file || !first || !next_library) return;
    const std::string_view library = names.text(*file);
    for (std::uint64_t entry = at + *first; !names.full();) {
      const auto index = read_at<std::uint16_t>(bytes, entry + 6, order);
      const auto name = read_at<std::uint32_t>(bytes, entry + 8, order);
      const auto next = read_at<std::uint32_t>(bytes, entry + 12, order);
      if (!index || !name || !next) return;
      names.add(*index, *name, library);
      if (*next == 0) break;
      entry += *next;
    }
    if (*next_library == 0) return;
    at += *next_library;
  }
}

} // namespace

std::vector<VersionName> read_version_names(const Layout& layout, const DynamicTable& table,
                                            Bytes strings) {
  VersionNames names(strings);
  const ByteOrder order = layout.machine.order;
  if (table.defined_versions)
    if (const auto bytes = bytes_from(layout, *table.defined_versions))
      add_definitions(names, *bytes, order);
  if (table.needed_versions)
    if (const auto bytes = bytes_from(layout, *table.needed_versions))
      add_needs(names, *bytes, order);
  return names.take();
}

} // namespace uprobectl::elf
