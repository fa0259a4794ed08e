// SPDX-License-Identifier: Apache-2.0
// The live view of a run: receives its records, and shows them in a terminal while it goes on
// (attach --live).
#pragma once

#include "live/command_output.hpp"
#include "live/stop_signals.hpp"
#include "live/terminal.hpp"
#include "output/output.hpp"

#include <chrono>

namespace uprobectl::live {

struct ViewRequest {
  std::string title = {}; // the command line
  std::optional<std::chrono::nanoseconds> duration = {};
  bool hits_are_counted = false;   // --count: histograms do not have the hits
  bool has_stacks = false;         // the run was asked for stacks
  bool has_command = false;        // the run starts one, whose output the view keeps
  bool stops_group = false;        // ctrl-z also stops what writes the run to a pipe
  bool ends_with_terminal = false; // a saved run is shown; otherwise a run goes on without a view
  // How messages are written before and after the view. The view keeps those that come meanwhile.
  OutputOptions messages = {};
};

// The records also go to another recorder. The terminal is taken over with the first flush() after
// the probes are attached, and restored by end(). Then the table of the functions is printed, and
// the messages.
class View final : public RunRecorder {
public:
  using RunRecorder::write;

  static Result<std::unique_ptr<View>> make(ViewRequest request);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() override;

  // What is known of a saved run when its reading begins.
  void begin(std::string title, bool has_stacks) {
    request_.title = std::move(title);
    request_.has_stacks = has_stacks;
  }
  // Borrows it.
  void pass_on(RunRecorder& next) { next_ = &next; }
  // Where a command writes to, stdout and stderr; nullopt without one.
  std::optional<int> command_fd() const {
    return command_ ? std::optional(command_->write_fd()) : std::nullopt;
  }

  void write(const AttachedRecord& record) override;
  void write(const Event& event) override;
  void write(const CountRecord& record) override;
  void write(const HistogramRecord& record) override;
  void write(const MapEntryRecord& record) override { pass(record); }
  void write(const ProbeRecord& record) override { pass(record); }
  void write(const LostRecord& record) override;
  void write(const TriggerRecord& record) override { pass(record); }
  void write(const SpanSummaryRecord& record) override { pass(record); }
  void write(const ClockRecord& record) override;
  void write(const SummaryRecord& record) override;
  void write(const ErrorRecord& record) override;
  void write(const StackSample& sample) override { pass(sample); }
  void write(const RawStackSample& sample) override { pass(sample); }
  void write(const unwind::ProcessMappings& mappings) override { pass(mappings); }
  void write(const unwind::FileParts& parts) override { pass(parts); }
  void write(const unwind::KeptParts& parts) override { pass(parts); }
  void write(const MessageRecord& message) override;
  void write(const CallChange& change) override { pass(change); }
  void write(const ProcessNameRecord& record) override { pass(record); }
  void write(const ProbedRecord& record) override;
  void write(const RecordTypesRecord& record) override { pass(record); }
  void flush_rows() override;
  // Draws, and acts on keys and on ctrl-z.
  Result<void> flush() override;
  std::vector<std::string> take_warnings() override;
  void end() override;
  void note_recording_end() override;
  bool wants_end() const override {
    return wants_end_ || (request_.ends_with_terminal && terminal_ && terminal_->is_gone());
  }
  bool show_progress(std::string_view text) override;
  void add_to(std::vector<pollfd>& polled) const override;

private:
  using Time = std::chrono::steady_clock::time_point;
  struct Message {
    std::optional<MessageRecord::Kind> kind = {}; // nullopt: an error
    std::string text = {};
    Error error = {ErrorKind::io, {}};
  };

  View(ViewRequest request, std::unique_ptr<CommandLines> command);
  void pass(const auto& record) {
    if (next_ != nullptr) next_->write(record);
  }
  void set_time(std::uint64_t time_ns);
  std::uint64_t now_ns() const;
  void take(Message message);
  void take_warnings_of_next();
  void print(const Message& message);
  bool press_keys();
  void act(Action action);
  void write_file();
  void show();
  void suspend();
  bool is_in_background() const;
  void print_command_lines();
  void close();
  const Model& shown() const { return frozen_ ? *frozen_ : model_; }
  RunStatus status() const;

  ViewRequest request_;
  RunRecorder* next_ = nullptr;
  std::unique_ptr<CommandLines> command_; // null without a command
  LastLines printed_;                     // by the command, as it is shown
  Output messages_;
  Model model_;
  std::optional<Model> frozen_; // while it is paused
  ViewState state_;
  std::unique_ptr<Terminal> terminal_;
  std::optional<StopSignals> stop_signals_; // while there is a terminal
  bool is_suspended_ = false;               // the terminal is that of others
  bool is_attached_ = false;
  bool is_closed_ = false;   // for good
  bool is_over_ = false;     // close() has been called
  bool has_stopped_ = false; // nothing more is recorded
  bool has_ended_ = false;   // the run has
  bool wants_end_ = false;
  bool redraws_ = false;
  std::int64_t clock_difference_ns_ = 0; // of the traced machine's clock to ours
  Time next_draw_;
  Time last_draw_;
  Size size_;
  std::string last_message_;
  bool is_warning_ = false;
  std::vector<Message> kept_; // while there is a terminal
  std::uint64_t omitted_messages_ = 0;
  std::optional<Error> passing_error_;
};

} // namespace uprobectl::live
