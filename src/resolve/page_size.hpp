// SPDX-License-Identifier: Apache-2.0
// What Android's loader needs of a library on devices with pages of 16 KiB: Android 15 and newer on
// arm64 and x86-64 (developer.android.com/guide/practices/page-sizes). The rules are those of
// AOSP's bionic/linker/linker_phdr.cpp.
#pragma once

#include "uprobectl/elf.hpp"

#include <array>

namespace uprobectl::resolve {

enum class PageRule : std::uint8_t {
  archive_alignment, // where the archive stores the library
  segment_alignment, // p_align of PT_LOAD
  relro,             // PT_GNU_RELRO
  unreadable,        // nothing else could be checked
};
std::string_view to_string(PageRule rule);
inline constexpr std::array all_page_rules = {PageRule::archive_alignment,
                                              PageRule::segment_alignment, PageRule::relro,
                                              PageRule::unreadable};
// Whether a build that breaks the rule can no longer be mapped, in contrast to the one before. One
// whose segments did not fit pages of 16 KiB loses nothing if they break another rule: where RELRO
// ends in its page is chance then.
template <typename BrokeBefore>
bool is_new_problem(PageRule rule, const BrokeBefore& broke_before) {
  const bool is_of_segments = rule == PageRule::segment_alignment || rule == PageRule::relro;
  return !broke_before(rule) && !(is_of_segments && (broke_before(PageRule::segment_alignment) ||
                                                     broke_before(PageRule::relro)));
}

struct PageProblem {
  PageRule rule = PageRule::unreadable;
  std::string reason;
  std::string fix; // how to build it; empty if that is not known
};

// Returns why a loader cannot map the library from this offset of its archive. With pages of 4 KiB
// that is so for all machines, with 16 KiB for 64-bit ones.
std::optional<PageProblem> storage_problem(const elf::Machine& machine, FileOffset data);

// Returns what is wrong with the segments of a program or library. Empty for 32-bit machines: no
// device with 16 KiB pages runs them.
std::vector<PageProblem> segment_problems(const elf::Image& image);

// A problem of a file, or of a library in an archive.
struct PageFinding {
  std::optional<std::string> entry; // "lib/arm64-v8a/libfoo.so", "splits/base.apk!/lib/…"
  PageProblem problem;
};
struct PageReport {
  std::vector<PageFinding> findings;
  std::size_t checked = 0;    // programs and libraries
  std::size_t compressed = 0; // of them: the device extracts these, so that only segments matter
  std::size_t narrow = 0;     // of them: of 32-bit machines
};

// Checks a program or library.
PageReport check_pages(const elf::Image& image);
// Checks the libraries of an archive, and of the APKs inside it. Inflates at most max_listed_bytes
// (archive_listing.hpp): what is not inflated is a finding.
Result<PageReport> check_pages(const std::shared_ptr<const MappedFile>& file);

} // namespace uprobectl::resolve
