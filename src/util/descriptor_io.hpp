// SPDX-License-Identifier: Apache-2.0
// File descriptors: whole transfers, as read(2) and write(2) may move fewer bytes, what one refers
// to, and whether there are some left.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <expected>
#include <optional>
#include <string>

namespace uprobectl {

// Writes all bytes. Fails with the errno of write(2); with a timeout also with ETIMEDOUT, if
// nothing is taken for so long, as by a terminal that is stopped.
std::expected<void, int> write_all(int fd, Bytes bytes,
                                   std::optional<std::chrono::milliseconds> timeout = {});

// Reads to the end of the file, or max_size bytes. Fails with the errno of read(2).
std::expected<std::string, int> read_up_to(int fd, std::size_t max_size);

bool is_regular_file(int fd);

// Whether this many descriptors can be opened now. Fails with EMFILE (the limit of this process) or
// ENFILE (of the machine).
std::expected<void, int> check_free_descriptors(std::size_t count);

} // namespace uprobectl
