// SPDX-License-Identifier: Apache-2.0
// Bug reports of arbitrary bytes: each report is listed once, and inflated within its bound.
#include "require.hpp"
#include "symbolize/report_archive.hpp"
#include "util/text.hpp"

#include <set>

int fuzz_report_archive(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto archive = archive::Archive::parse(bytes);
  if (!archive) return 0;
  const auto reports = symbolize::list_reports(*archive);
  if (!reports) return 0;
  require(reports->size() <= symbolize::max_archived_reports);
  std::uint64_t left = std::uint64_t{1} << 20; // bytes
  for (const symbolize::ArchivedReport& report : *reports) {
    require(!report.entry.name.ends_with('/'));
    const auto content = archive->extract(report.entry, left);
    if (!content) continue;
    require(content->size() <= left && content->size() <= report.entry.size);
    left -= content->size();
    symbolize::ReportSections sections;
    std::string_view text = as_text(*content);
    while (!text.empty()) (void)sections.selects(take_line(text));
  }
  return 0;
}
