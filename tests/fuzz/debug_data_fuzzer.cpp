// SPDX-License-Identifier: Apache-2.0
// Symbols from outside a file, over bytes that claim to hold them. The first byte selects the kind
// of the rest: xz data is rarely whole after a change, so its content is also tried by itself.
#include "elf/debug_file.hpp"
#include "elf/xz.hpp"
#include "require.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/symbols.hpp"

using namespace uprobectl;

namespace {

constexpr elf::XzLimits small{.memory = 16 << 20, .output = 1 << 20, .ratio = 256};

void read_symbols(Bytes bytes) {
  const auto file = elf::SymbolFile::read(bytes);
  if (!file) return;
  (void)elf::match_build(elf::Machine(62), "0a1b2c3d4e", *file);
  const auto table = file->symbols(elf::Table::debug_file);
  if (!table) return;
  for (std::uint32_t index = 0; index < table->size(); ++index) {
    const auto symbol = table->at(index);
    if (!symbol) continue;
    require(symbol->table == elf::Table::debug_file);
    // The last byte of a name lies in the file.
    if (!symbol->name.empty()) {
      const auto* end =
          reinterpret_cast<const std::byte*>(symbol->name.data() + symbol->name.size());
      require(end > bytes.data() && end <= bytes.data() + bytes.size());
    }
  }
}

void read_image(Bytes bytes) {
  auto image = elf::Image::parse(bytes);
  if (!image) return;
  const auto report = image->add_embedded_symbols();
  require(report.used.has_value() == !image->debug_symbols().empty());
  (void)image->is_debug_file();
  (void)symbols::find_by_name(*image, "detail_local");
  (void)symbols::list_symbols(*image, {});
  if (!image->segments().empty())
    (void)symbols::symbol_at(*image, image->segments().back().address);
}

void read_archive(Bytes bytes) {
  const auto archive = archive::Archive::parse(bytes);
  if (!archive) return;
  int checked = 0;
  (void)archive->for_each([&](const archive::ArchiveEntry& entry) {
    constexpr std::uint64_t most = 1 << 20;
    const auto content = archive->extract(entry, most);
    if (content) {
      require(content->size() == std::min(entry.size, most));
      read_symbols(*content);
    }
    return ++checked < 8;
  });
}

} // namespace

int fuzz_debug_data(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
  switch (data[0] % 4) {
  case 0:
    if (const auto content = elf::decode_xz(bytes, small)) require(content->size() <= small.output);
    break;
  case 1:
    read_symbols(bytes);
    break;
  case 2:
    read_image(bytes);
    if (const auto layout = elf::read_sections_only(bytes)) (void)elf::read_debug_link(*layout);
    break;
  default:
    read_archive(bytes);
  }
  return 0;
}
