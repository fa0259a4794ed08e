// SPDX-License-Identifier: Apache-2.0
// Descriptions of terminals, for machines that have no terminfo folder, such as phones.
#pragma once

#include <span>
#include <string_view>

namespace uprobectl::live {

// A compiled description as ncurses reads it from $TERMINFO, "b64:…" (terminfo(5)).
struct TerminalDescription {
  std::string_view name; // "xterm-256color"
  std::string_view text;
};
std::span<const TerminalDescription> terminal_descriptions();

} // namespace uprobectl::live
