// SPDX-License-Identifier: Apache-2.0
// Mapped files that shrink while they are read (mmap(2), SIGBUS). All functions may be called in
// any thread.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Takes SIGBUS. What a file has lost is read as zeros if the file is tolerated; else the program
// ends with a message and status 1, as for every other cause of the signal.
void handle_shrinking_files();

// For files that another process may shrink: that costs what would be said of the file, not the
// run. Until the file is closed.
void tolerate_shrinking(const MappedFile& file);
// From now on every file: as soon as a run has results to lose.
void tolerate_all_shrinking();
// Whether zeros have been read in place of its bytes. Costs next to nothing as long as no file has.
bool has_shrunk(const MappedFile& file);
bool has_shrunk(Bytes part); // of a mapped file; false for all other bytes
// An error if they have been.
Result<void> check_size(const MappedFile& file);

// What MappedFile tells of its mappings; not empty.
void guard_mapping(Bytes bytes);
void release_mapping(Bytes bytes); // before it is unmapped

} // namespace uprobectl
