// SPDX-License-Identifier: Apache-2.0
// The files that a run writes for other programs besides its records: timelines (Perfetto, Chrome
// JSON), which are written while it goes on, and profiles (pprof, folded lines, flame graph), which
// are written at its end.
#pragma once

#include "events/call_tree.hpp"
#include "output/records.hpp"
#include "output/run_header.hpp"
#include "util/workstation.hpp"

#include <functional>
#include <memory>

namespace uprobectl::output {

class Output;

enum class ExportFormat { perfetto, chrome, pprof, folded, flame_graph, page };
// Returns the format of a file by the end of its name: ".pftrace", ".trace.json", ".pb.gz",
// ".folded", ".svg", ".html". nullopt for all other names.
std::optional<ExportFormat> export_format_of(std::string_view path);
// Returns the format by its name: "perfetto", "chrome", "pprof", "folded", "flamegraph",
// "html".
std::optional<ExportFormat> parse_export_format(std::string_view name);
// Whether the file has only stacks: it is empty without them.
constexpr bool has_only_stacks(ExportFormat format) {
  return format == ExportFormat::folded || format == ExportFormat::flame_graph;
}

// Returns kernel and machine: "Linux 6.18.5 x86_64".
std::string describe_system();

struct ExportRequest {
  std::string path;
  ExportFormat format = ExportFormat::perfetto;
  std::string option = {}; // for messages: "--folded", "-o out.pftrace"
};

// Fails with usage if two of the requests name the same file.
Result<void> check_different_files(std::span<const ExportRequest> requests);

// The run that is exported. A profile is made of what the run sends: calls, otherwise stacks,
// otherwise events, otherwise histograms of latencies, otherwise counts.
struct ExportedRun {
  RunHeader header;
  ClockReading start;
  // Returns the name of a process, also after it has ended; nullopt if unknown.
  std::function<std::optional<std::string>(std::uint32_t)> find_process_name = [](std::uint32_t) {
    return std::nullopt;
  };
};

// The end of the run.
struct ExportedEnd {
  std::string summary; // "10s, 4711 stacks, 2 of them truncated"
  ClockReading time;
};

// One exported file.
class Export : public Recorder, public events::CallVisitor {
public:
  // Called first. `run` is valid as long as the export.
  virtual void begin(const ExportedRun& run) = 0;
  // A packet of another Perfetto trace, with its tag and length. Valid until the call returns.
  virtual void add_packet(std::string_view /*packet*/) {}
  // Writes the rest. Returns the first error, with the path.
  virtual Result<void> finish(const ExportedEnd& end) = 0;
};

// All exports of a run: a recorder of its output, unless there are none.
class Exports final : public Recorder, public events::CallVisitor {
public:
  // Opens the files, or checks that they can be written, so that a bad path fails before anything
  // is attached. Borrows the output.
  static Result<std::unique_ptr<Exports>> open(std::span<const ExportRequest> requests,
                                               Output& output);
  explicit Exports(Output& output) : output_(output) {}
  ~Exports() override;

  bool empty() const { return exports_.empty(); }

  // Call it before all of the following. Records before it are ignored.
  void begin(ExportedRun run);
  // A count or histogram is the increase since the previous record of its kind.
  void write(const Record& record) override;
  void opened(const events::OpenCall& call, const events::Event& entry) override;
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override;
  // Adds the packets of a Perfetto trace, until one is not complete, to the files in this format.
  // Returns their size.
  std::uint64_t add_trace(Bytes trace);
  // Writes what is ready without waiting for a reader. finish() returns the errors.
  Result<void> flush() override;
  // Writes the rest. Returns the errors of all files, and not_found if no hit had the value of
  // --weight.
  std::vector<Error> finish(ExportedEnd end);

private:
  Output& output_;
  std::vector<std::unique_ptr<Export>> exports_;
  ExportedRun run_;
  bool is_running_ = false;     // from begin() to finish()
  std::uint64_t hits_ = 0;      // with stacks
  std::uint64_t unweighed_ = 0; // of them, without a weight
  std::uint64_t negative_ = 0;  // of these, because it was negative or from 2^63 on
};

// --- Internal, for the sources of this module.

// Returns the base name of the probed file.
std::string_view module_name(const resolve::ProbePoint& point);

// Returns the text with U+FFFD for each byte that is not part of a UTF-8 sequence. A text of more
// than `max_bytes` is cut at a character, and ends with "…".
std::string valid_utf8(std::string_view text, std::size_t max_bytes);

Result<std::unique_ptr<Export>> open_perfetto_trace(const std::string& path,
                                                    Workstation& workstation);
Result<std::unique_ptr<Export>> open_chrome_trace(const std::string& path,
                                                  Workstation& workstation);
Result<std::unique_ptr<Export>> open_page(const std::string& path, Workstation& workstation);
Result<std::unique_ptr<Export>> open_pprof_profile(const std::string& path,
                                                   Workstation& workstation);
Result<std::unique_ptr<Export>> open_folded_stacks(const std::string& path,
                                                   Workstation& workstation);
Result<std::unique_ptr<Export>> open_flame_graph(const std::string& path, Workstation& workstation);

} // namespace uprobectl::output
