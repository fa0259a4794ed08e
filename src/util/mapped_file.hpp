// SPDX-License-Identifier: Apache-2.0
// Handles files that shrink while they are mapped: an access beyond the new end raises SIGBUS
// (mmap(2)). Maps files of another machine, whose parts are read when they are first accessed.
// Tells mapped files apart. All functions are thread-safe.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Installs the handler of SIGBUS. Lost bytes of a tolerated file are read as zeros. For every other
// cause the program exits with a message and status 1.
void handle_shrinking_files();

// Tolerates that this file shrinks, until it is closed. For files that are only needed for a part
// of the result.
void tolerate_shrinking(const MappedFile& file);
// Tolerates it for every file from now on. Called as soon as a run has results to lose.
void tolerate_all_shrinking();
// Whether some bytes of the file have been replaced by zeros. Cheap as long as no file has shrunk.
bool has_shrunk(const MappedFile& file);
// Whether bytes of this part of a mapped file have been replaced. False for bytes that are not of a
// mapped file.
bool has_shrunk(Bytes part);
// Returns a number for the mapped file that the bytes are a part of. No other mapping gets it, also
// not a later one at the same address. Returns nullopt for all other bytes.
std::optional<std::uint64_t> mapping_number(Bytes part);
// Reads ranges of a file of another machine.
constexpr std::uint64_t max_range = 256U << 10; // bytes, a multiple of all page sizes
class RangeReader {
public:
  virtual ~RangeReader() = default;
  // Writes a range into `file`, at the same offset. Returns false if it cannot be read. Called in a
  // signal handler, in a thread that was reading the mapping and so holds no lock of an allocator.
  virtual bool read(std::uint64_t offset, std::uint64_t size, int file) = 0; // at most max_range
};
// Maps the file so that a range of it is read when it is first accessed, and is then kept in
// memory. A range that cannot be read has zeros, and the file has shrunk then. System calls fail
// with EFAULT for bytes that have not been read.
Result<MappedFile> map_on_demand(std::uint64_t size, const std::string& path,
                                 std::unique_ptr<RangeReader> reader);

// Fails with io if the file has shrunk.
Result<void> check_size(const MappedFile& file);

} // namespace uprobectl
