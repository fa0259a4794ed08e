// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace uprobectl {

// Bytes: the pages of x86-64, and the smallest that arm64 can have. What is mapped begins at one.
constexpr std::uint64_t smallest_page = 4096;

} // namespace uprobectl
