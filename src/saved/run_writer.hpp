// SPDX-License-Identifier: Apache-2.0
// Saves a run while it goes on: writes its records as chunks (saved/format.hpp).
#pragma once

#include "output/output.hpp"
#include "saved/descriptions.hpp"

#include <map>
#include <set>
#include <unordered_map>

namespace uprobectl::saved {

// Writes the records of a run to a file. The file is valid up to its last whole chunk, even if the
// program crashes. Not thread-safe.
class RunWriter final : public output::Recorder {
public:
  // Writes the head and the header. Borrows the buffer. `flushes_buffer`: flush() writes the
  // buffer; otherwise its owner does. While the file system of a regular file is full, events wait,
  // and are left out beyond a limit (gap_reason). Other files that accept no data block flush().
  RunWriter(output::OutputBuffer& out, bool flushes_buffer, const output::RunHeader& header);

  void write(const output::Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }
  void flush_rows() override;
  Result<void> flush() override;
  std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
  void end() override;

private:
  void take(const auto& /*record*/) {} // not saved
  void take(const output::AttachedRecord& record);
  void take(const events::Event& event);
  void take(const output::CountRecord& record);
  void take(const output::HistogramRecord& record);
  void take(const output::MapEntryRecord& record);
  void take(const output::ProbeRecord& record);
  void take(const output::LostRecord& record);
  void take(const output::TriggerRecord& record);
  void take(const output::SpanSummaryRecord& record);
  void take(const output::SummaryRecord& record);
  void take(const output::ErrorRecord& record);
  void take(const output::StackSample& sample);
  void take(const output::RawStackSample& sample);
  void take(const unwind::ProcessMappings& mappings);
  void take(const unwind::FileParts& parts);
  void take(const unwind::KeptParts& parts);
  void take(const output::MessageRecord& message);
  void take(const output::CallChange& change);
  void take(const output::ProcessNameRecord& record);
  void take(const output::ProbeDescription& record);
  void take(const output::RecordTypesRecord& record);
  void take(const output::ClockRecord& record);

  // A location in code, as it is numbered in the file.
  struct LocationKey {
    std::uint64_t module = 0; // its serial number; 0: none
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::string mapping;
    // The function of code that was compiled at run time, and the offset in it.
    std::string compiled;
    std::uint64_t compiled_offset = 0;
    bool operator==(const LocationKey&) const = default;
  };
  struct LocationHash {
    std::size_t operator()(const LocationKey& key) const;
  };
  template <typename Record>
  void write_chunk(ChunkKind kind, const Record& record);
  std::uint32_t number_file(const resolve::ProbedBinary& binary);
  std::uint32_t number_probe(const resolve::ProbePoint* point); // 1 more than in the file; 0: null
  void number_enumerations(values::ValueType& type);
  std::uint32_t number_record_type(const events::UserRecord& record); // the same; 0: not known
  // Return the number of the module and of the location of a frame in the same way.
  std::uint32_t number_module(const symbolize::Module& module);
  std::uint32_t number_location(const unwind::Frame& frame);
  std::uint32_t number_mapped_file(const process::Mapping& mapping); // as in the file
  SavedFrame number(const unwind::Frame& frame);
  void number(const unwind::Stack& stack, SavedStack& saved);

  // Counts what is left out while the file system is full.
  struct Gap {
    output::LostRecord events;
    std::uint64_t counts = 0;                    // and histograms, of intervals
    std::vector<output::LostRecord> losses = {}; // one for each reason, written at the end
    // Ends of calls that began before, in their order, written at the end. No more than the calls
    // that were open when it began.
    std::vector<output::CallChange> ends = {};
  };
  bool omits(bool is_interval);
  void follow_room();
  void end_gap();

  output::OutputBuffer& out_;
  bool flushes_buffer_;
  bool may_leave_out_ = false;
  std::optional<Gap> gap_;
  std::set<std::uint64_t> unsaved_calls_; // ids of open calls that began in a gap
  bool has_reported_shortage_ = false;
  bool has_ended_ = false;
  std::vector<std::string> warnings_;
  std::unordered_map<const resolve::ProbedBinary*, std::uint32_t> files_;
  std::unordered_map<const resolve::ProbePoint*, std::uint32_t> probes_;
  std::map<std::string, std::uint32_t> enumerations_; // numbers from 1, by their fields
  std::map<std::shared_ptr<const values::ValueType>, std::uint32_t> record_types_; // numbers from 1
  std::unordered_map<std::uint64_t, std::uint32_t> modules_; // by serial number
  std::unordered_map<LocationKey, std::uint32_t, LocationHash> locations_;
  // The numbers of mapped files by identity and path, without those of replaced files.
  std::map<std::pair<FileIdentity, std::string>, std::uint32_t> mapped_files_;
  std::uint32_t next_mapped_file_ = 0;
  SavedSample sample_;          // the last; keeps its memory
  std::uint64_t too_large_ = 0; // chunks that were left out
};

} // namespace uprobectl::saved
