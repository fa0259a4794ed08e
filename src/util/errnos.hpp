// SPDX-License-Identifier: Apache-2.0
// The names of errno numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// The greatest one: MAX_ERRNO of Linux, include/linux/err.h.
constexpr int max_errno = 4095;

// Returns "ENOENT" or, for the negative number, "-ENOENT"; nullopt if it has no name.
std::optional<std::string> errno_name(std::int64_t number);
// Returns its name, or its digits if it has none; empty for 0.
std::string errno_text(int number);
// Returns the number of such a text; nullopt if it is another one.
std::optional<int> errno_number(std::string_view text);

} // namespace uprobectl
