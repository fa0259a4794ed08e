// SPDX-License-Identifier: Apache-2.0
// The output of a command: records and text go to stdout or a file, messages to stderr.
#pragma once

#include "output/progress.hpp"
#include "output/records.hpp"
#include "util/workstation.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace uprobectl::output {

// A pipe that is writable for poll() accepts this much without blocking (PIPE_BUF, pipe(7)).
constexpr std::size_t safe_write_size = 4096;

// Buffers output to a descriptor, which it borrows. A pipe whose reader is gone is not an error:
// closed() becomes true, and further text is dropped. Not thread-safe.
class OutputBuffer {
public:
  explicit OutputBuffer(int fd) : fd_(fd) {}
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  ~OutputBuffer() { flush(); }

  void append(std::string_view text);
  void flush(); // blocks until all is written

  // Text may also be appended to draft() piece by piece. commit() completes it and must precede any
  // other call.
  std::string& draft() { return pending_; }
  void commit();

  // For a run that must not block on its reader: append() no longer writes. flush_some() writes
  // what the descriptor accepts without blocking. flush_within() blocks until all is written; it
  // returns false if nothing could be written for `stall_timeout`, or if `is_cancelled`, called
  // about every 50 ms, returns true. In a full file system flush_some() keeps the text for a
  // later call, and flush_within() waits for space; only flush() gives up.
  void disable_auto_flush();
  void flush_some();
  bool flush_within(std::chrono::milliseconds stall_timeout,
                    const std::function<bool()>& is_cancelled = {});

  // Marks the end of an event's text. unwritten_events() counts the events that were not written
  // completely: they are pending, or were dropped because the reader is gone or a write failed.
  void end_event();
  std::uint64_t unwritten_events() const { return dropped_events_ + event_ends_.size(); }

  // Returns why the last write found no space: a full file system, a quota, or a limit of the
  // file's size. Returns null if there was space.
  const Error* shortage() const { return shortage_ ? &*shortage_ : nullptr; }
  // Stops waiting for space: the shortage becomes the error of a write.
  void give_up_waiting();
  // Continues in another file, beginning with a whole record. Duplicates the descriptor.
  void continue_in(int fd);

  // Sets a function that is called before each write.
  void set_before_write(std::function<void()> callback) { before_write_ = std::move(callback); }

  std::size_t pending() const { return pending_.size() - written_; } // bytes
  // No more is written: the reader is gone, or abandon() was called.
  bool closed() const { return closed_; }
  void abandon();                                              // drops pending and all further text
  const std::optional<Error>& error() const { return error_; } // of a write, such as a full disk
  int fd() const { return fd_; }

private:
  void write_once(std::size_t max_bytes);
  void reset_pending();
  bool is_waiting_for_space() const;
  bool take_back_part();

  int fd_;
  std::function<void()> before_write_; // may be empty
  std::string pending_;
  std::size_t written_ = 0; // of pending_
  // These are byte offsets in the whole output. The first two are only set after
  // disable_auto_flush().
  std::uint64_t whole_end_ = 0;           // of the last record that was written whole
  std::deque<std::uint64_t> record_ends_; // of the records after it
  std::uint64_t pending_begin_ = 0;       // of pending_
  std::deque<std::uint64_t> event_ends_;  // of unwritten events
  std::uint64_t dropped_events_ = 0;
  bool auto_flush_ = true;
  std::size_t max_write_size_ = safe_write_size; // bytes; a larger write may block
  bool closed_ = false;
  std::optional<Error> error_;
  std::optional<Error> shortage_;
  std::chrono::steady_clock::time_point next_try_; // while there is no space
};

struct OutputOptions {
  enum class Level { quiet, normal, verbose };

  bool json = false;
  bool only_recorded = false;           // records go only to recorders, which make the output
  bool hides_recorded_messages = false; // if there are recorders, only they show messages
  TextStyle style = {};                 // of records as text
  int messages_fd = STDERR_FILENO;
  bool colour = false; // of messages
  Level level = Level::normal;
  Workstation* workstation = &this_machine();
};

// Writes the records, text and messages of a command. Not thread-safe.
class Output {
public:
  using Level = OutputOptions::Level;

  // Writes records to a descriptor that it borrows, or to a file that it owns.
  Output(int records_fd, const OutputOptions& options);
  Output(UniqueFd file, const OutputOptions& options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { report_repeated(); }

  void write(const Record& record) {
    if (formatter_) formatter_->write(record);
    this->record(record);
  }
  // Gives a record to the added recorders, but not to the formatter.
  void record(const Record& record) {
    for (Recorder* const each : recorders_) each->write(record);
  }
  bool has_recorders() const { return !recorders_.empty(); }
  // Gives everything that the run writes to the recorder, too. Borrows the recorder.
  void add_recorder(Recorder& recorder) { recorders_.push_back(&recorder); }
  void remove_recorder(const Recorder& recorder) { std::erase(recorders_, &recorder); }
  // Flushes the recorders and shows their warnings. Reports and removes a recorder that fails.
  void flush_recorders();
  void note_recording_end() {
    for (Recorder* const each : recorders_) each->note_recording_end();
  }
  // Whether the user has asked a recorder to end the run.
  bool wants_end() const { return std::ranges::any_of(recorders_, &Recorder::wants_end); }
  // Adds descriptors that become readable when flush_recorders() should be called.
  void add_recorders_to(std::vector<pollfd>& polled) const {
    for (const Recorder* const each : recorders_) each->add_to(polled);
  }
  void write_text(std::string_view text) { buffer_.append(text); }
  // Ends a table: writes rows that were held back for alignment, and below a table of counts what
  // was lost meanwhile.
  void flush_rows();
  void flush(); // blocks until all is written
  OutputBuffer& buffer() { return buffer_; }
  // The user's machine. It has the files that options name.
  Workstation& workstation() const { return workstation_; }
  // Sets how the file of the records is opened again by its name.
  void set_reopening(std::function<UniqueFd()> open) { open_again_ = std::move(open); }
  // Opens the file of the records again by its name, because it may have been renamed, and
  // continues there. A failure is only reported as a warning.
  void reopen();
  // Reports once when there is no space for the records, and once when there is space again.
  void report_shortage();

  // Reports a failure: "uprobectl: error: …" with its hints below, and an `error` record.
  void fail(const Error& error, std::optional<std::string> target = std::nullopt,
            std::optional<std::string> request = std::nullopt);
  // Reports a failure, but not to recorders: `report` finds it again when it reads a saved run.
  void fail_unrecorded(const Error& error);
  bool has_failed() const { return failed_; } // after finish(), failed writes count as well

  void warn(std::string_view text);   // not when quiet
  void notice(std::string_view text); // a warning that is shown even when quiet
  void status(std::string_view text); // such as the summary; not when quiet
  // Writes a status that matters only while the run goes on. It is not recorded.
  void announce(std::string_view text) { write_status(text); }
  void status_even_quiet(std::string_view text);      // as status(), also when quiet
  void detail(std::string_view text);                 // only when verbose
  ProgressLine& progress_line() { return progress_; } // see Progress
  // Shows the progress in the first recorder that can, if recorders show the messages; empty: none.
  // Returns whether one did.
  bool show_in_recorder(std::string_view progress) {
    return hides_recorded_messages_ && std::ranges::any_of(recorders_, [&](Recorder* recorder) {
             return recorder->show_progress(progress);
           });
  }
  bool is_verbose() const { return level_ == Level::verbose; }
  bool is_json() const { return json_; }

  // Show each text only once.
  void warn_once(std::string_view text);
  void warn_once(const std::vector<std::string>& texts);
  void detail_once(std::string_view text);
  // Warns of what may occur for each event, stack, process or probe. The first warning of a kind is
  // shown at once; further ones are counted for report_repeated(). Verbose shows each.
  void repeated_warning(std::string_view kind, std::string_view text);
  // Keeps the warning for report_repeated(), which writes up to three of a kind on a line each, and
  // more as one line.
  void gathered_warning(std::string_view kind, std::string_view text);
  // Calls gathered_warning() for the warnings of points, each text once. Warnings that only differ
  // in the symbol's name at their beginning are of one kind.
  void gather_warnings(std::span<const resolve::ProbePoint> points);
  // Reports what repeated_warning() has counted and gathered_warning() has kept.
  void report_repeated();

  // Writes everything and reports a failed write. Must be called last.
  void finish();

private:
  struct Repeated {
    std::vector<std::string> texts; // the first ones
    std::uint64_t count = 0;
    bool is_reported = false; // the first was shown at once
  };
  // Returns what is known of the kind. Adds it, with `is_reported`, if it is new.
  Repeated& repeated_of(std::string_view kind, bool is_reported);
  void write_error(const Error& error);
  void write_notice(std::string_view text);
  void write_status(std::string_view text, bool even_quiet = false);
  void warn_of(const Recorder& recorder, std::string_view text);
  // Whether recorders show the messages, so that they are not written.
  bool are_messages_hidden() const { return hides_recorded_messages_ && has_recorders(); }
  // Gives the message to the recorders. Returns whether only they show it.
  bool record_message(MessageRecord::Kind kind, std::string_view text);

  UniqueFd file_;
  std::function<UniqueFd()> open_again_; // may be empty
  bool has_reported_shortage_ = false;
  ProgressLine progress_; // on the descriptor of messages
  OutputBuffer buffer_;
  std::unique_ptr<Recorder> formatter_; // null if records are only recorded
  std::vector<Recorder*> recorders_;    // flushed and ended in this order
  bool hides_recorded_messages_ = false;
  bool failed_ = false;

  bool colour_;
  Level level_;
  Workstation& workstation_;
  std::set<std::string, std::less<>> once_;
  std::map<std::string, std::size_t, std::less<>> repeated_by_kind_; // indexes of repeated_
  std::vector<Repeated> repeated_;
  bool json_ = false;
};

} // namespace uprobectl::output
