// SPDX-License-Identifier: Apache-2.0
// Whole transfers through file descriptors: read(2) and write(2) may move fewer bytes.
#pragma once

#include "uprobectl/util.hpp"

#include <expected>
#include <string>

namespace uprobectl {

// Writes all bytes. Fails with the errno of write(2).
std::expected<void, int> write_all(int fd, Bytes bytes);

// Reads to the end of the file, or max_size bytes. Fails with the errno of read(2).
std::expected<std::string, int> read_up_to(int fd, std::size_t max_size);

} // namespace uprobectl
