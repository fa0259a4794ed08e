// SPDX-License-Identifier: Apache-2.0
// The format of saved runs (docs/saved-runs.md): a head, then chunks. Everything is little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uprobectl::saved {

// The head is `magic` and the version, 4 bytes. Later programs read the files of all versions from
// 7 on: new chunks and new fields of them do not change the version, since earlier programs skip
// them. The version rises with a change that they would misunderstand, such as a new enumerator:
// they reject the file.
constexpr std::string_view magic = "uprobrun";
constexpr std::uint32_t format_version = 7;
constexpr std::size_t head_bytes = magic.size() + 4;

// A chunk is its kind and the length of its content, 4 bytes each, and the content.
constexpr std::size_t chunk_head_bytes = 8;
constexpr std::uint32_t max_chunk_bytes = 16U << 20;

// A `lost` chunk with this reason replaces the records that were left out while the file system was
// full. Later chunks do not have the calls that began or ended meanwhile as the tree of calls did.
constexpr std::string_view gap_reason = "there was no space to save the run";

// Chunks that others refer to by number have their own numbering from 0, in their order.
enum class ChunkKind : std::uint32_t {
  header = 1,     // output::RunHeader: always the first
  file = 2,       // ProbedBinary
  probe = 3,      // ProbePoint
  module = 4,     // symbolize::Module
  location = 5,   // ModuleAddress with its symbolize::Frame
  forget = 6,     // the locations so far are not used any more: the next one has the number 0
  attached = 7,   // AttachedRecord
  stack = 8,      // StackSample
  event = 9,      // Event
  count = 10,     // CountRecord
  histogram = 11, // HistogramRecord
  map_entry = 12, // MapEntryRecord
  probe_end = 13, // ProbeRecord
  lost = 14,      // LostRecord
  summary = 15,   // SummaryRecord
  error = 16,     // ErrorRecord
  message = 17,   // MessageRecord
  flush_rows = 18,
  end = 19,          // the run ended normally: always the last
  call = 20,         // CallChange
  process_name = 21, // ProcessNameRecord
  clocks = 22,       // ClockRecord
  mapped_file = 23,  // a file of mappings
  file_parts = 24,   // unwind::FileParts
  mappings = 25,     // unwind::ProcessMappings
  raw_stack = 26,    // RawStackSample
  probed = 27,       // ProbeDescription
  record_types = 28, // RecordTypesRecord
  record_type = 29,  // ValueType: of records of a user's program
  trigger = 30,      // TriggerRecord
  wait = 31,         // Event of EventKind::wait
  span_summary = 32, // SpanSummaryRecord
  // unwind::KeptParts. Only between a run on a device and its workstation, which replaces it by
  // chunks of file_parts: not part of the format.
  kept_parts = 0x10000,
};

} // namespace uprobectl::saved
