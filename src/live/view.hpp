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
  output::OutputOptions messages = {};
};

// Counts the records that it receives, and shows what it has counted. The terminal is taken over
// with the first flush() after the probes are attached, and restored by end(). Then the table of
// the functions is printed, and the messages.
class View final : public output::Recorder {
public:
  static Result<std::unique_ptr<View>> make(ViewRequest request);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() override;

  // Sets what is known of a saved run when its reading begins.
  void begin(std::string title, bool has_stacks) {
    request_.title = std::move(title);
    request_.has_stacks = has_stacks;
  }
  // Where a command writes to, stdout and stderr; nullopt without one.
  std::optional<int> command_fd() const {
    return command_ ? std::optional(command_->write_fd()) : std::nullopt;
  }

  void write(const output::Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }
  // Draws, and acts on keys and on ctrl-z.
  Result<void> flush() override;
  void end() override { close(); }
  void note_recording_end() override;
  bool wants_end() const override {
    return wants_end_ || (request_.ends_with_terminal && terminal_ && terminal_->is_gone());
  }
  bool show_progress(std::string_view text) override;
  void add_to(std::vector<pollfd>& polled) const override;

private:
  using Time = std::chrono::steady_clock::time_point;
  struct Message {
    std::optional<output::MessageRecord::Kind> kind = {}; // nullopt: an error
    std::string text = {};
    Error error = {ErrorKind::io, {}};
  };

  View(ViewRequest request, std::unique_ptr<CommandLines> command);
  void take(const auto& /*record*/) {}
  void take(const output::AttachedRecord& record);
  void take(const events::Event& event) { model_.add(event); }
  void take(const output::CountRecord& record) { model_.add(record); }
  void take(const output::HistogramRecord& record) { model_.add(record); }
  void take(const output::LostRecord& record) { model_.add(record); }
  void take(const output::ProbeDescription& record) { model_.add(record); }
  void take(const output::ClockRecord& record);
  void take(const output::SummaryRecord& record);
  void take(const output::ErrorRecord& record) {
    keep({.text = record.error.message, .error = record.error});
  }
  void take(const output::MessageRecord& message) {
    keep({.kind = message.kind, .text = std::string(message.text)});
  }
  void set_time(std::uint64_t time_ns);
  std::uint64_t now_ns() const;
  void keep(Message message);
  void print(const Message& message);
  bool press_keys();
  void act(Action action);
  void write_file();
  void show();
  void suspend();
  bool is_in_background() const;
  void print_command_lines();
  void print_kept();
  void close();
  const Model& shown() const { return frozen_ ? *frozen_ : model_; }
  RunStatus status() const;

  ViewRequest request_;
  std::unique_ptr<CommandLines> command_; // null without a command
  LastLines printed_;                     // by the command, as it is shown
  output::Output messages_;
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
  std::vector<Message> kept_; // until the view is over
  std::uint64_t omitted_messages_ = 0;
};

} // namespace uprobectl::live
