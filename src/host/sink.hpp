// SPDX-License-Identifier: Apache-2.0
// Where the output of devices goes on the workstation.
#pragma once

#include "host/device_text.hpp"
#include "uprobectl/util.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace uprobectl::host {

// Writes to a descriptor without blocking the caller, because a device hears every second that
// the host is alive, however slow the reader of the output is. Thread-safe.
class Sink {
public:
  // Borrows the descriptor.
  explicit Sink(int fd);
  // Owns the file. `truncates`: empties it before the first write.
  Sink(UniqueFd file, bool truncates);
  // Keeps the output in memory, for content(). Does not keep what is longer than max_size: a device
  // may never stop.
  struct InMemory {
    std::size_t max_size;
  };
  explicit Sink(InMemory memory) : max_kept_(memory.max_size) {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  // Drops what finish() has not written.
  ~Sink();

  void write(std::string_view bytes);
  // Whether the caller should wait before it writes more.
  bool is_full();
  bool is_closed();  // the reader is gone
  bool has_output(); // whether anything was written to it
  // Whether more than max_size was written.
  bool has_overflowed();
  // Waits until everything is written, or until a signal asks to end. Returns the first error of a
  // write; a reader that is gone is none.
  std::optional<Error> finish();
  std::string content();

private:
  void keep(std::string_view bytes);
  void write_queue();
  bool write_some(std::string_view bytes, std::size_t& written);
  bool is_waiting() const { return !queue_.empty() && !stopped_ && !closed_ && errnum_ == 0; }

  UniqueFd file_;
  int fd_ = -1;
  std::optional<std::size_t> max_kept_;
  std::string kept_;
  bool overflowed_ = false;
  bool regular_ = false;
  bool truncates_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string queue_;
  bool has_output_ = false;
  bool closed_ = false;
  bool stopped_ = false;
  int errnum_ = 0;
  std::thread writer_;
};

// Says how the lines of several devices are distinguished.
enum class LineMark : std::uint8_t {
  none,   // bytes are passed on as they come
  device, // JSON Lines: each record gets the key `device`
  column, // text: a first column with the serial number
  prefix, // messages: "SERIAL: "
};

// Marks the lines of one stream of a device and writes them to a sink, whole lines at a time.
class MarkedLines {
public:
  // The sink must outlive this. `content`: what the device prints.
  MarkedLines(Sink& sink, LineMark mark, const std::string& serial, StreamContent content);

  // Fails with corrupt if a line is longer than 16 MiB, with io if the sink has overflowed.
  Result<void> add(std::string_view bytes);
  // Writes the last line if it has no newline.
  void finish();
  bool is_full() { return sink_->is_full(); }
  bool is_closed() { return sink_->is_closed(); }

  // The sums of the `summary` records that have passed (LineMark::device).
  struct Totals {
    std::uint64_t events = 0;
    std::uint64_t lost = 0;
    bool is_lost_known = true;
    bool any = false;
  };
  const Totals& totals() const { return totals_; }

private:
  void add_line(std::string& out, std::string_view line);
  void add_lines(std::string_view text, std::string& out);
  Result<void> check_size();

  Sink* sink_;
  LineMark mark_;
  DeviceText text_;
  std::string label_;
  std::string partial_;
  Totals totals_;
};

} // namespace uprobectl::host
