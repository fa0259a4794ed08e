// SPDX-License-Identifier: Apache-2.0
#include "binary/binary.hpp"

#include "symbols/classify.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace uprobectl::binary {

namespace {

Result<std::shared_ptr<Binary>> share(Result<elf::Image> image, elf::DebugSearch where) {
  if (!image) return fail(std::move(image).error());
  return std::make_shared<Binary>(std::move(*image), std::move(where));
}

} // namespace

Result<std::shared_ptr<Binary>> Binary::open(std::shared_ptr<const MappedFile> file,
                                             const BinaryPath& path, elf::DebugSearch where,
                                             elf::Compressed compressed) {
  return share(elf::Image::open(std::move(file), path, compressed), std::move(where));
}

Result<std::shared_ptr<Binary>> Binary::open(const std::string& file) {
  return share(elf::Image::open(BinaryPath{.file = file, .entry = std::nullopt}), {});
}

Result<std::shared_ptr<Binary>> Binary::parse(Bytes bytes, FileOffset entry_data,
                                              elf::DebugSearch where) {
  return share(elf::Image::parse(bytes, entry_data), std::move(where));
}

bool Binary::add_next_symbols() {
  while (next_source_ != Source::nothing) {
    const bool embedded = next_source_ == Source::embedded;
    elf::DebugReport report =
        embedded ? image_.add_embedded_symbols() : image_.add_debug_file(where_);
    next_source_ = embedded ? Source::file : Source::nothing;
    std::ranges::move(report.warnings, std::back_inserter(symbol_sources_.warnings));
    if (!report.used) continue;
    symbol_sources_.used.push_back(std::move(*report.used));
    return true;
  }
  return false;
}

void Binary::complete_symbols() {
  if (next_source_ == Source::nothing || symbols::has_whole_symtab(image_)) return;
  while (add_next_symbols()) {
  }
}

std::optional<symbols::SymbolAt> Binary::symbol_at(VirtualAddress address) {
  if (!index_ && !std::exchange(uses_index_, true)) return symbols::symbol_at(image_, address);
  return index().at(address);
}

std::optional<VirtualAddress> Binary::label_end(VirtualAddress label) {
  return index().label_end(label);
}

symbols::SymbolFinder& Binary::index() {
  if (!index_ || indexed_tables_ != image_.debug_symbols().size()) {
    index_.emplace(image_);
    indexed_tables_ = image_.debug_symbols().size();
  }
  return *index_;
}

const Result<dwarf::DebugInfo>& Binary::debug_info() {
  if (!debug_info_) debug_info_ = dwarf::DebugInfo::open(image_, where_);
  return *debug_info_;
}

bool has_symtab(const elf::Image& image) {
  const auto table = image.full_symbols();
  return table && table->size() > 0;
}

} // namespace uprobectl::binary
