// SPDX-License-Identifier: Apache-2.0
// The reports in a ZIP archive: a bug report of Android, or tombstones and traces that were packed.
// Names: AOSP frameworks/native, cmds/dumpstate/dumpstate.cpp and docs/bugreport-format.md.
#pragma once

#include "uprobectl/archive.hpp"

namespace uprobectl::symbolize {

struct ArchivedReport {
  archive::ArchiveEntry entry; // a view of the archive
  // Whether it is the text of dumpstate, where only some sections have stacks.
  bool has_sections = false;
};

constexpr std::size_t max_archived_reports = 10000;
constexpr std::uint64_t max_archived_report = std::uint64_t{256} << 20;     // bytes, of one
constexpr std::uint64_t max_archived_reports_size = std::uint64_t{2} << 30; // bytes, of all

// Whether the bytes at the begin of a file are those of an archive. Needs four of them.
bool starts_like_archive(Bytes file);

// Returns the tombstones, ANR traces and logs of the archive by their names, in its order, at most
// max_archived_reports. A tombstone that the archive has as text and in protobuf is the text.
// Archives in the archive are not searched.
Result<std::vector<ArchivedReport>> list_reports(const archive::Archive& archive);

// Selects the lines of the sections of dumpstate's text that have stacks and are not files of their
// own: logs, and the traces of the processes when the report was made.
class ReportSections {
public:
  bool selects(std::string_view line);

private:
  bool inside_ = false;
};

} // namespace uprobectl::symbolize
