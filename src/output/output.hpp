// SPDX-License-Identifier: Apache-2.0
// The output of one run: records and text to stdout or a file, messages for people to stderr.
#pragma once

#include "output/records.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace uprobectl {

// A buffer before a descriptor. Writing to a pipe whose reader is gone is not an error: closed()
// becomes true and what follows is dropped.
class OutputBuffer {
public:
  explicit OutputBuffer(int fd) : fd_(fd) {}
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  ~OutputBuffer() { flush(); }

  void append(std::string_view text);
  void flush(); // waits until all is written

  // For text that is made piece by piece: what has been added at the end of the draft is appended
  // by commit(), which must come before any other call.
  std::string& draft() { return pending_; }
  void commit();

  // For a run that must not stall with its reader: append() no longer writes by itself, and these
  // two do. flush_some() writes what is taken without waiting; flush_within() waits for a slow
  // reader, but no longer than this without any progress, and is false if it gave up;
  // `is_cancelled` is asked every few tens of milliseconds and makes it give up at once.
  void write_only_when_asked() { writes_itself_ = false; }
  void flush_some();
  bool flush_within(std::chrono::milliseconds patience,
                    const std::function<bool()>& is_cancelled = {});

  // The text of an event ends here. unwritten_events() counts those that were not written whole:
  // they wait, or were dropped with the text when the reader had gone, was given up, or writing
  // failed.
  void end_event();
  std::uint64_t unwritten_events() const { return dropped_events_ + event_ends_.size(); }

  std::size_t pending() const { return pending_.size(); } // bytes not written yet
  bool closed() const { return closed_; }                 // the reader is gone
  void abandon(); // the reader is gone or does not read: what is pending and what comes is dropped
  const std::optional<Error>& error() const { return error_; } // a full disk, for example
  int fd() const { return fd_; }

private:
  void write_once(std::size_t most);
  void drop_pending();

  int fd_;
  std::string pending_;
  std::size_t written_ = 0;              // of pending_
  std::uint64_t before_pending_ = 0;     // bytes of the output that were in front of pending_
  std::deque<std::uint64_t> event_ends_; // positions in the output, of events yet to be written
  std::uint64_t dropped_events_ = 0;
  bool writes_itself_ = true;
  bool closed_ = false;
  std::optional<Error> error_;
};

struct OutputOptions {
  enum class Level { quiet, normal, verbose };

  bool json = false;
  TextStyle style = {}; // of records as text
  int messages = STDERR_FILENO;
  bool colour = false; // of messages
  Level level = Level::normal;
};

// All that a run says goes through it. Not thread-safe.
class Output {
public:
  using Level = OutputOptions::Level;

  // Records go to a descriptor that stays the caller's, or to a file that is closed at the end.
  Output(int records, const OutputOptions& options);
  Output(UniqueFd file, const OutputOptions& options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { report_repeated(); }

  void write(const auto& record) { formatter_->write(record); }
  void write_text(std::string_view text) { buffer_.append(text); }
  // Writes rows that are held back to be aligned with later ones.
  void settle() { formatter_->settle(); }
  void flush(); // waits until all is written
  OutputBuffer& buffer() { return buffer_; }

  // Reports a failure: "uprobectl: error: …" with its hints below, and an `error` record.
  void fail(const Error& error, std::optional<std::string> target = std::nullopt,
            std::optional<std::string> request = std::nullopt);
  bool has_failed() const { return failed_; } // writing included, after finish()

  void warn(std::string_view text);   // not when quiet
  void notice(std::string_view text); // a warning that quiet does not hide
  void status(std::string_view text); // start line, summary; not when quiet
  void detail(std::string_view text); // only when verbose
  // On a terminal only: a line that the next message replaces; empty at the end.
  void progress(std::string_view text);
  bool is_verbose() const { return level_ == Level::verbose; }

  // Warns once, however often the text comes.
  void warn_once(std::string_view text);
  void warn_once(const std::vector<std::string>& texts);
  void detail_once(std::string_view text);
  // A warning that may come for each event, stack, process or probe. The first of a kind is told,
  // further ones are counted until report_repeated(). Verbose tells each.
  void repeated_warning(std::string_view kind, std::string_view text);
  // Likewise, but nothing is told before report_repeated(), as all of a kind come together: up to
  // three have a line each, more share that of the first.
  void gathered_warning(std::string_view kind, std::string_view text);
  // Gathers the warnings of places, each text once: those of one pattern differ in the name that
  // they begin with.
  void gather_warnings(std::span<const ProbePoint> points);
  void report_repeated();

  // Writes all that is held back and reports a failure to write. To be called last.
  void finish();

private:
  struct Repeated {
    std::vector<std::string> texts; // the first ones: told already, or to be told
    std::uint64_t count = 0;
    bool is_told = false;
  };
  Repeated& kind_of(std::string_view kind, bool is_told);
  void message(const Error& error);
  std::string begin_line();

  UniqueFd file_;
  OutputBuffer buffer_;
  std::unique_ptr<RecordFormatter> formatter_;
  bool failed_ = false;

  int messages_;
  bool colour_;
  Level level_;
  std::set<std::string, std::less<>> once_;
  std::map<std::string, std::size_t, std::less<>> kinds_; // to their place in repeated_
  std::vector<Repeated> repeated_;
  bool shows_progress_ = false;
};

} // namespace uprobectl
