// SPDX-License-Identifier: Apache-2.0
#include "symbolize/report_archive.hpp"

#include "uprobectl/path.hpp"

#include <algorithm>
#include <set>

namespace uprobectl::symbolize {

namespace {

constexpr std::string_view protobuf_suffix = ".pb";

bool is_tombstone(std::string_view name) { return file_name_of(name).starts_with("tombstone_"); }

// FS/data/anr/anr_2026-11-25-03-01-00-123, before Android 9 FS/data/anr/traces.txt
bool is_trace(std::string_view name) {
  return name.starts_with("anr/") || name.contains("/anr/") ||
         file_name_of(name).starts_with("anr_");
}

bool is_log(std::string_view name) { return file_name_of(name).contains("logcat"); }

// bugreport-DEVICE-BUILD-DATE.txt
bool is_dumpstate_text(std::string_view name) {
  return name.starts_with("bugreport") && name.ends_with(".txt") && !name.contains('/');
}

} // namespace

bool starts_like_archive(Bytes file) {
  const std::string_view text = as_text(file);
  return text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
}

Result<std::vector<ArchivedReport>> list_reports(const archive::Archive& archive) {
  std::vector<ArchivedReport> reports;
  std::set<std::string_view> texts; // names of tombstones
  const auto read = archive.for_each([&](const archive::ArchiveEntry& entry) {
    const std::string_view name = entry.name;
    if (name.ends_with('/')) return true;
    if (is_tombstone(name) && !name.ends_with(protobuf_suffix)) texts.insert(name);
    if (is_tombstone(name) || is_trace(name) || is_log(name) || is_dumpstate_text(name))
      reports.push_back({.entry = entry, .has_sections = is_dumpstate_text(name)});
    return reports.size() < 2 * max_archived_reports; // half of them may be there twice
  });
  if (!read) return fail(read.error());
  std::erase_if(reports, [&](const ArchivedReport& report) {
    std::string_view name = report.entry.name;
    if (!is_tombstone(name) || !name.ends_with(protobuf_suffix)) return false;
    name.remove_suffix(protobuf_suffix.size());
    return texts.contains(name);
  });
  if (reports.size() > max_archived_reports)
    reports.erase(reports.begin() + max_archived_reports, reports.end());
  return reports;
}

// "------ SYSTEM LOG (logcat -v threadtime -d) ------", then at its end
// "------ 0.321s was the duration of 'SYSTEM LOG' ------".
bool ReportSections::selects(std::string_view line) {
  constexpr std::string_view dashes = "------ ";
  if (!line.starts_with(dashes)) return inside_;
  const bool was_inside = inside_;
  inside_ = !line.contains(" was the duration of ") &&
            (line.contains(" (logcat ") || line.contains("VM TRACES JUST NOW"));
  return inside_ || was_inside;
}

} // namespace uprobectl::symbolize
