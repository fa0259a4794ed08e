// SPDX-License-Identifier: Apache-2.0
// The files that exports are written to. All are files of the workstation if it has their paths.
#pragma once

#include "util/workstation.hpp"

#include <functional>

namespace uprobectl::output {

class OutputBuffer;

// Replaces the content of a regular file atomically by the output of `write`. Keeps the file mode
// and symbolic links to the file. Other kinds of files (FIFO, device) are opened and written.
Result<void> replace_file(const std::string& path, const std::function<void(OutputBuffer&)>& write,
                          Workstation& workstation);

// A file that is replaced as a whole at the end. Until then it keeps its content.
class ReplacedFile {
public:
  // Opens a FIFO or device. Otherwise checks that a file can be created in its folder.
  static Result<ReplacedFile> open(const std::string& path, Workstation& workstation);
  Result<void> write(std::string_view content) const;

private:
  std::string path_;
  UniqueFd fd_; // of a FIFO or device
};

// A file that grows piece by piece, and has only whole pieces. A failed write is remembered for
// finish(); further pieces are then dropped.
class StreamedFile {
public:
  // Creates the file with mode 0600: arguments may contain memory of a process.
  static Result<StreamedFile> open(const std::string& path, Workstation& workstation);
  StreamedFile(StreamedFile&&) noexcept = default;
  StreamedFile& operator=(StreamedFile&&) = delete;
  // Removes the file if open() has created it and truncate() was not called.
  ~StreamedFile();

  // Deletes the content of a regular file. The destructor does not remove it any more.
  void truncate();
  // The caller appends a piece to draft(), then calls end_piece().
  std::string& draft() { return pending_; }
  void end_piece();
  // Writes what is waiting. A FIFO or device that accepts nothing fails when max_pending is
  // reached.
  void flush();
  // Writes what is waiting, and waits for the reader of a FIFO as long as it reads something every
  // 5 s.
  void drain();
  // Writes the rest, as drain() does.
  Result<void> finish();

private:
  static constexpr std::size_t flush_size = 64 << 10;
  static constexpr std::size_t max_pending = 4 << 20;

  StreamedFile() = default;
  void write_regular();
  bool write_ready(int timeout_ms); // returns false if nothing could be written
  void set_error(Error error);

  std::string path_;
  UniqueFd fd_;
  bool is_regular_ = false;
  bool is_new_and_unused_ = false; // see the destructor
  std::uint64_t size_ = 0;         // of the file, with whole pieces only
  std::string pending_;
  std::size_t written_ = 0; // of pending_, not to a regular file
  std::optional<Error> error_;
};

} // namespace uprobectl::output
