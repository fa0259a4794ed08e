// SPDX-License-Identifier: Apache-2.0
// The debug sections of an ELF file, each inflated when it is first needed. LLVM asks for them by
// functions. Only this module includes this header.
#pragma once

#include "elf/sections.hpp"

#include <future>
#include <llvm/DebugInfo/DWARF/DWARFObject.h>
#include <llvm/DebugInfo/DWARF/DWARFRelocMap.h>
#include <llvm/DebugInfo/DWARF/DWARFSection.h>
#include <map>

namespace uprobectl::dwarf {

class Context;

class DebugSections final : public llvm::DWARFObject {
public:
  DebugSections(const elf::Layout& layout, Context& context) : layout_(layout), context_(context) {}

  // Begins to inflate the section on another thread if it is compressed and large.
  void prefetch(std::string_view name);
  // See Context::read_location_lists().
  bool read_location_lists();

  llvm::StringRef getFileName() const override { return ""; }
  bool isLittleEndian() const override { return layout_.machine.order == ByteOrder::little; }
  std::uint8_t getAddressSize() const override { return layout_.machine.is_64bit ? 8 : 4; }

  void
  forEachInfoSections(llvm::function_ref<void(const llvm::DWARFSection&)> visit) const override {
    visit(section(".debug_info"));
  }
  void
  forEachTypesSections(llvm::function_ref<void(const llvm::DWARFSection&)> visit) const override {
    if (const auto& types = section(".debug_types"); !types.Data.empty()) visit(types);
  }
  llvm::StringRef getAbbrevSection() const override { return section(".debug_abbrev").Data; }
  const llvm::DWARFSection& getLocSection() const override { return deferred(".debug_loc"); }
  const llvm::DWARFSection& getLoclistsSection() const override {
    return deferred(".debug_loclists");
  }
  llvm::StringRef getArangesSection() const override { return section(".debug_aranges").Data; }
  const llvm::DWARFSection& getLineSection() const override { return section(".debug_line"); }
  llvm::StringRef getLineStrSection() const override { return section(".debug_line_str").Data; }
  llvm::StringRef getStrSection() const override { return section(".debug_str").Data; }
  const llvm::DWARFSection& getRangesSection() const override { return section(".debug_ranges"); }
  const llvm::DWARFSection& getRnglistsSection() const override {
    return section(".debug_rnglists");
  }
  const llvm::DWARFSection& getStrOffsetsSection() const override {
    return section(".debug_str_offsets");
  }
  const llvm::DWARFSection& getAddrSection() const override { return section(".debug_addr"); }
  const llvm::DWARFSection& getNamesSection() const override { return section(".debug_names"); }
  llvm::StringRef getGdbIndexSection() const override { return section(".gdb_index").Data; }

  // Relocations: section() applies those of object files, others have none in debug sections.
  std::optional<llvm::RelocAddrEntry> find(const llvm::DWARFSection&,
                                           std::uint64_t) const override {
    return std::nullopt;
  }

private:
  // LLVM reads the addresses of a split unit from our .debug_addr, and asks its own class for the
  // relocations of it. That class expects this object after every section (DWARFSectionMap in
  // LLVM's DWARFContext.cpp). It is always empty.
  struct RelocatedSection : llvm::DWARFSection {
    llvm::RelocAddrMap relocations;
  };
  using Content = Result<std::optional<elf::SectionContent>>;
  struct Section {
    RelocatedSection section;
    std::shared_ptr<const void> owner; // of inflated bytes
    std::byte* deferred = nullptr;     // where to inflate it
    bool is_damaged = false;
  };

  const llvm::DWARFSection& section(std::string_view name) const;
  // Returns a section of zeros, which read_location_lists() replaces.
  const llvm::DWARFSection& deferred(std::string_view name) const;
  void read_deferred(std::string_view name, Section& section) const;

  const elf::Layout& layout_;
  Context& context_;
  mutable std::map<std::string_view, Section> sections_; // references stay valid
  mutable std::map<std::string_view, std::future<Content>> prefetched_;
  mutable bool has_deferred_ = false; // some location lists are still zeros
  bool location_lists_are_sound_ = true;
};

} // namespace uprobectl::dwarf
