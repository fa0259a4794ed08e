// Text on its way to a descriptor, which may be slow or gone.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace uprobectl {

// A buffer before a descriptor. Writing to a pipe whose reader is gone is no error: closed() turns
// true and what follows is dropped.
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

} // namespace uprobectl
