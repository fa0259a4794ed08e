// SPDX-License-Identifier: Apache-2.0
// Reads a saved run (saved/format.hpp) piece by piece: from a file, or while the run goes on.
#pragma once

#include "output/output.hpp"
#include "output/run_header.hpp"
#include "saved/fields.hpp"
#include "saved/format.hpp"
#include "saved/raw_stacks.hpp"
#include "symbolize/report_symbolizer.hpp"

#include <deque>
#include <map>
#include <set>

namespace uprobectl::saved {

// Receives the records of a saved run. Its flush() is not called.
class RunReplay : public output::Recorder {
public:
  // Called first. An error ends the reading.
  virtual Result<void> begin(const output::RunHeader& header) = 0;
  // Called after each record: an error ends the reading.
  virtual const Error* problem() const { return nullptr; }
};

// Not thread-safe.
class RunReader {
public:
  explicit RunReader(RunReplay& replay) : replay_(replay) {} // borrowed

  // Takes the next bytes of the file, in any pieces, and replays the records that are complete.
  // Fails with corrupt or unsupported, and with what RunReplay::begin() returns. After an error
  // nothing more can be added.
  Result<void> add(Bytes bytes);

  // Call it before add(): frames get the names of files that are found by the build id of their
  // module. Without such a file, and in frames with source positions, the names of the run stay.
  void find_names(elf::DebugSearch where) {
    where_ = where;
    symbols_.emplace(symbolize::NameSources{.debug = std::move(where), .dex = {}});
  }
  // Returns why frames have no name, and what was wrong with the files, since the last call.
  std::vector<std::string> take_warnings();

  // Returns how much of the run this version does not know, if anything: a later one has saved it.
  std::optional<std::string> explain_skipped() const;

  std::uint64_t whole_bytes() const { return whole_bytes_; } // up to the end of the last chunk
  bool is_in_chunk() const { return !pending_.empty(); }     // an incomplete chunk is left
  bool has_ended() const { return has_ended_; }              // the run ended normally

private:
  Result<void> take_head(Bytes bytes);
  Result<void> take_chunk(ChunkKind kind, Bytes content);
  bool replay(ChunkKind kind, Bytes content);
  template <typename Record>
  bool read(Bytes content, Record& record, KeptTexts* kept = nullptr);
  template <typename Record, typename Take>
  bool read(Bytes content, const Take& take);
  bool find_probe(std::uint32_t number, const resolve::ProbePoint*& point) const;
  bool make_frame(const struct SavedFrame& saved, unwind::Frame& frame) const;
  bool make_stack(struct SavedStack& saved, unwind::Stack& stack) const;
  template <typename Record>
  bool replay_record(Bytes content);
  bool replay_lost(Bytes content);
  bool replay_event(Bytes content);
  bool complete_span(std::uint32_t end_probe, events::Event& event);
  bool replay_count(Bytes content);
  bool replay_call(Bytes content);
  bool replay_histogram(Bytes content);
  bool replay_stack(Bytes content);
  bool replay_raw_stack(Bytes content);
  bool replay_trigger(Bytes content);
  bool replay_probe_end(Bytes content);
  bool replay_probed(Bytes content);
  bool replay_record_types(Bytes content);
  bool add_record_type(Bytes content);
  bool describe_parts(std::size_t count);
  bool find_enumerations(values::ValueType& type);
  bool add_file(Bytes content);
  bool add_probe(Bytes content);
  bool add_module(Bytes content);
  bool add_location(Bytes content);
  void find_name(symbolize::Frame& frame, const symbolize::Module& module);

  RunReplay& replay_;
  std::string pending_; // the beginning of a chunk
  std::uint64_t whole_bytes_ = 0;
  bool has_head_ = false;
  bool has_begun_ = false;
  bool has_ended_ = false;
  Arch arch_ = host_arch;
  std::string version_;                 // of the uprobectl that saved the run
  std::uint64_t skipped_records_ = 0;   // of a kind that this version does not know
  std::uint64_t shortened_records_ = 0; // with fields that it does not know
  elf::DebugSearch where_;
  std::optional<RawStacks> raw_stacks_; // if the run has such stacks
  std::optional<symbolize::ReportSymbolizer> symbols_;
  std::vector<std::string> warnings_;
  std::vector<std::shared_ptr<const resolve::ProbedBinary>> files_;
  std::deque<resolve::ProbePoint> probes_; // receivers keep their addresses
  std::vector<std::shared_ptr<const values::Enumeration>> enumerations_; // by number, from 1
  std::vector<std::shared_ptr<const values::ValueType>> record_types_;
  std::size_t described_parts_ = 0; // at most max_described_parts
  KeptTexts names_;                 // in events: of functions, arguments and types
  std::vector<std::unique_ptr<symbolize::Module>> modules_;
  std::deque<std::string> mappings_; // names of locations_
  std::vector<symbolize::ModuleAddress> locations_;
  std::vector<std::shared_ptr<const symbolize::Function>> compiled_; // at locations_; may be null
  unwind::Stack stack_;                                              // of the last stack chunk
  // The open calls by their ids, with the number of their probe and its point. The end of a call
  // must have the same.
  std::map<std::uint64_t, std::pair<std::uint32_t, const resolve::ProbePoint*>> open_calls_;
  bool has_gap_ = false;   // some calls began or ended where the run could not be saved
  bool needs_hit_ = false; // the next event must be a hit
};

} // namespace uprobectl::saved
