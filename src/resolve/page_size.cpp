// SPDX-License-Identifier: Apache-2.0
#include "resolve/page_size.hpp"

#include "archive/nested.hpp"
#include "binary/binary.hpp"
#include "resolve/archive_listing.hpp"
#include "util/pages.hpp"
#include "util/protobuf_reader.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

constexpr std::uint64_t large_page = 16384;

std::uint64_t page_begin(std::uint64_t address) { return address - address % large_page; }

// UINT64_MAX if it is not an address.
std::uint64_t page_end(std::uint64_t address) {
  const auto end = checked_add(address, large_page - 1);
  return end ? page_begin(*end) : UINT64_MAX;
}

// Whether the writable segment with RELRO has bytes between the addresses. Other segments are in
// the same page only if they are not aligned, which has a rule of its own.
bool has_writable(const elf::Image& image, const elf::AddressRange& relro, std::uint64_t begin,
                  std::uint64_t end) {
  return std::ranges::any_of(image.segments(), [&](const elf::Segment& segment) {
    const std::uint64_t first = segment.address.value;
    const std::uint64_t last = checked_add(first, segment.memory_size).value_or(UINT64_MAX);
    return segment.writable && first <= relro.address.value && relro.address.value < last &&
           std::max(first, begin) < std::min(last, end);
  });
}

// The loader protects whole pages: from the begin of the first page of RELRO to the end of the last
// one (_phdr_table_set_gnu_relro_prot). Data that is written later must not be on them. Android's
// own check is stricter in words only: "RELRO is not a suffix and its end is not PAGE-aligned".
std::optional<PageProblem> relro_problem(const elf::Image& image, const elf::AddressRange& relro) {
  const std::uint64_t begin = relro.address.value;
  const auto end = checked_add(begin, relro.size);
  if (!end) return PageProblem{PageRule::relro, "its RELRO segment is not in memory", ""};
  constexpr std::string_view fix =
      "-Wl,-z,max-page-size=16384 -Wl,-z,common-page-size=16384, or ld.lld 18 and newer";
  if (has_writable(image, relro, *end, page_end(*end)))
    return PageProblem{PageRule::relro,
                       fmt::format("RELRO ends at {:#x}, and data that is written follows in its "
                                   "page of 16 KiB: the loader makes it read-only",
                                   *end),
                       std::string(fix)};
  if (has_writable(image, relro, page_begin(begin), begin))
    return PageProblem{
        PageRule::relro,
        fmt::format("RELRO begins at {:#x}, and data that is written is before it in "
                    "its page of 16 KiB: the loader makes it read-only",
                    begin),
        std::string(fix)};
  return std::nullopt;
}

// The alignment at which bundletool stores the libraries of an app bundle. bundletool
// src/main/proto/config.proto: BundleConfig.optimizations = 2,
// Optimizations.uncompress_native_libraries = 2, UncompressNativeLibraries.alignment = 2,
// PageAlignment.
std::optional<PageProblem> bundle_problem(const archive::Archive& archive) {
  constexpr std::uint64_t max_config = std::uint64_t{1} << 20; // bytes
  constexpr std::size_t max_fields = 10000;
  constexpr std::uint32_t step = 2;
  constexpr std::uint64_t alignment_4k = 1;
  const auto entry = archive.find("BundleConfig.pb");
  if (!entry) return std::nullopt;
  const auto config = archive.extract(*entry, max_config);
  if (!config) return std::nullopt; // its libraries can be checked nevertheless
  ProtobufReader fields(*config, max_fields);
  std::uint64_t begin = 0;
  std::uint64_t end = config->size();
  for (int level = 0; level < 3; ++level) {
    std::optional<ProtobufField> inner;
    for (std::uint64_t at = begin; at < end;) {
      const auto field = fields.take(at, end);
      if (!field) return std::nullopt;
      if (field->number == step) inner = *field;
    }
    const WireType wanted = level < 2 ? WireType::bytes : WireType::varint;
    if (!inner || inner->type != wanted) return std::nullopt;
    begin = inner->begin;
    end = inner->end;
    if (wanted == WireType::varint && fields.take_number(*inner, begin) != alignment_4k)
      return std::nullopt;
  }
  return PageProblem{PageRule::archive_alignment,
                     "bundletool aligns its libraries to 4 KiB in the APKs (PAGE_ALIGNMENT_4K in "
                     "BundleConfig.pb)",
                     "build it with Android Gradle plugin 8.5.1 or newer"};
}

class ArchiveCheck {
public:
  ArchiveCheck(const std::shared_ptr<const MappedFile>& file, bool is_installed)
      : file_(file), is_installed_(is_installed) {}

  void add(const ArchiveLibrary& library) {
    if (library.is_container) {
      if (library.is_unread) find(library.entry, unreadable(library.reason.value_or("")));
      return;
    }
    const bool is_stored = library.compression == archive::compression_name(0);
    if (!is_stored && library.size > budget_)
      return find(library.entry, unreadable("not inflated: the libraries are too large together"));
    if (!is_stored) budget_ -= library.size;
    auto opened =
        binary::Binary::open(file_, {file_->path(), library.entry}, {}, elf::Compressed::inflate);
    if (!opened && opened.error().kind == ErrorKind::not_elf) return;
    ++report_.checked;
    if (!opened) {
      // The path of the entry is the name of the finding.
      std::string reason = std::move(opened).error().message;
      const std::string path = to_string(BinaryPath{file_->path(), library.entry}) + ": ";
      if (reason.starts_with(path)) reason.erase(0, path.size());
      return find(library.entry, unreadable(std::move(reason)));
    }
    if (!is_stored && is_installed_) ++report_.compressed;
    const elf::Image& image = (*opened)->image();
    if (!image.machine().is_64bit) ++report_.narrow;
    if (is_stored && is_installed_ && library.offset)
      if (auto problem = storage_problem(image.machine(), *library.offset))
        find(library.entry, std::move(*problem));
    for (PageProblem& problem : segment_problems(image)) find(library.entry, std::move(problem));
  }

  void find(std::optional<std::string> entry, PageProblem problem) {
    report_.findings.push_back({std::move(entry), std::move(problem)});
  }

  PageReport report_;

private:
  static PageProblem unreadable(std::string reason) {
    return {PageRule::unreadable, std::move(reason), ""};
  }

  const std::shared_ptr<const MappedFile>& file_;
  bool is_installed_;
  std::uint64_t budget_ = max_listed_bytes;
};

} // namespace

std::string_view to_string(PageRule rule) {
  switch (rule) {
  case PageRule::archive_alignment:
    return "archive_alignment";
  case PageRule::segment_alignment:
    return "segment_alignment";
  case PageRule::relro:
    return "relro";
  case PageRule::unreadable:
    return "unreadable";
  }
  return "";
}

std::optional<PageProblem> storage_problem(const elf::Machine& machine, FileOffset data) {
  if (data.value % smallest_page != 0)
    return PageProblem{PageRule::archive_alignment,
                       "not on a page boundary, no loader maps it from the archive",
                       "zipalign -p 4"};
  if (machine.is_64bit && data.value % large_page != 0)
    return PageProblem{PageRule::archive_alignment, "aligned for 4 KiB pages, not for 16 KiB",
                       "zipalign -P 16"};
  return std::nullopt;
}

std::vector<PageProblem> segment_problems(const elf::Image& image) {
  std::vector<PageProblem> problems;
  if (!image.machine().is_64bit) return problems;
  std::uint64_t least = large_page;
  bool are_congruent = true;
  for (const elf::Segment& segment : image.segments()) {
    if (segment.memory_size == 0) continue;
    const std::uint64_t alignment = std::max<std::uint64_t>(segment.alignment, 1); // 0 means none
    if (alignment % large_page != 0) least = std::min(least, alignment);
    are_congruent =
        are_congruent && segment.address.value % large_page == segment.offset.value % large_page;
  }
  constexpr std::string_view fix = "-Wl,-z,max-page-size=16384";
  if (least != large_page)
    problems.push_back(
        {PageRule::segment_alignment,
         fmt::format("its segments are aligned for {} pages, not for 16 KiB",
                     least == smallest_page ? "4 KiB" : fmt::format("{:#x} byte", least)),
         std::string(fix)});
  else if (!are_congruent)
    problems.push_back({PageRule::segment_alignment,
                        "offset and address of a segment differ within a page of 16 KiB",
                        std::string(fix)});
  for (const elf::AddressRange& relro : image.relro())
    if (auto problem = relro_problem(image, relro)) problems.push_back(std::move(*problem));
  return problems;
}

PageReport check_pages(const elf::Image& image) {
  PageReport report{.checked = 1, .narrow = image.machine().is_64bit ? 0U : 1U};
  if (image.path().entry && !image.is_inflated())
    if (auto problem = storage_problem(image.machine(), image.entry_data()))
      report.findings.push_back({std::nullopt, std::move(*problem)});
  for (PageProblem& problem : segment_problems(image))
    report.findings.push_back({std::nullopt, std::move(problem)});
  return report;
}

Result<PageReport> check_pages(const std::shared_ptr<const MappedFile>& file) {
  const auto archive = archive::Archive::parse(file->bytes());
  if (!archive) return fail(archive.error());
  const auto libraries = list_libraries(file->bytes());
  if (!libraries) return fail(libraries.error());
  const archive::KeptInnerArchive kept;
  ArchiveCheck check(file, !not_installed(*archive));
  for (const ArchiveLibrary& library : *libraries) check.add(library);
  if (check.report_.checked > check.report_.narrow)
    if (auto problem = bundle_problem(*archive)) check.find("BundleConfig.pb", std::move(*problem));
  return std::move(check.report_);
}

} // namespace uprobectl::resolve
