// SPDX-License-Identifier: Apache-2.0
#include "dwarf/debug_sections.hpp"

#include "dwarf/context.hpp"
#include "elf/elf_types.hpp"
#include "elf/object_relocations.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <thread>

namespace uprobectl::dwarf {

namespace {

// Inflating fewer bytes takes less time than a thread.
constexpr std::uint64_t min_threaded = 256U << 10;
// zlib reaches a ratio of 1032, debug information of about 3. Others are inflated at once, which
// reports damaged headers.
constexpr std::uint64_t max_deferred_ratio = 256;

Result<std::optional<elf::SectionContent>> read_content(const elf::Layout& layout,
                                                        std::string_view name) {
  auto content = elf::section_content(layout, name, max_section_size);
  if (!content || !*content) return content;
  return elf::relocate_section(layout, name, std::move(**content));
}

} // namespace

void DebugSections::prefetch(std::string_view name) {
  if (sections_.contains(name) || prefetched_.contains(name)) return;
  const auto size = elf::content_size(layout_, name);
  if (!size || !size->is_compressed || size->content < min_threaded) return;
  if (std::thread::hardware_concurrency() < 2) return;
  try {
    prefetched_.emplace(
        name, std::async(std::launch::async, [this, name] { return read_content(layout_, name); }));
  } catch (const std::system_error&) { // no more threads: section() inflates it
  }
}

const llvm::DWARFSection& DebugSections::section(std::string_view name) const {
  const auto [found, is_new] = sections_.try_emplace(name);
  if (!is_new) return found->second.section;
  const auto begun = prefetched_.find(name);
  Content content = begun != prefetched_.end() ? begun->second.get() : read_content(layout_, name);
  if (!content) {
    context_.warn(std::move(content).error().message);
  } else if (*content) {
    found->second.section.Data = elf::as_string_ref((*content)->bytes);
    found->second.owner = std::move((*content)->owner);
  }
  return found->second.section;
}

const llvm::DWARFSection& DebugSections::deferred(std::string_view name) const {
  if (const auto found = sections_.find(name); found != sections_.end())
    return found->second.section;
  const auto size = elf::content_size(layout_, name);
  if (!size || !size->is_compressed || size->content == 0 || size->content > max_section_size ||
      size->content / max_deferred_ratio > size->in_file)
    return section(name);
  // The kernel provides the zeros when they are read.
  auto* const bytes = static_cast<std::byte*>(std::calloc(size->content, 1));
  if (bytes == nullptr) return section(name);
  Section& made = sections_[name];
  made.owner = std::shared_ptr<const void>(bytes, std::free);
  made.deferred = bytes;
  has_deferred_ = true;
  made.section.Data = elf::as_string_ref({bytes, size->content});
  return made.section;
}

void DebugSections::read_deferred(std::string_view name, Section& section) const {
  std::byte* const bytes = std::exchange(section.deferred, nullptr);
  if (bytes == nullptr) return;
  auto content = read_content(layout_, name);
  // The size was read before; the file may have been written meanwhile.
  const bool fits = content && *content && (*content)->bytes.size() == section.section.Data.size();
  section.is_damaged = !fits;
  if (!content) return context_.warn(std::move(content).error().message);
  if (fits) std::ranges::copy((*content)->bytes, bytes);
}

bool DebugSections::read_location_lists() {
  if (!has_deferred_) return location_lists_are_sound_;
  has_deferred_ = false;
  for (const std::string_view name : {".debug_loc", ".debug_loclists"}) {
    const auto found = sections_.find(name);
    if (found == sections_.end()) continue;
    read_deferred(name, found->second);
    location_lists_are_sound_ = location_lists_are_sound_ && !found->second.is_damaged;
  }
  return location_lists_are_sound_;
}

} // namespace uprobectl::dwarf
