// SPDX-License-Identifier: Apache-2.0
// Arranges what a live view shows in the lines of a screen. Draws nothing itself.
#pragma once

#include "live/view_state.hpp"

#include <span>

namespace uprobectl::live {

struct Size {
  std::size_t rows = 24;
  std::size_t columns = 80;
  bool operator==(const Size&) const = default;
};

enum class Look : std::uint8_t { plain, title, selected, strong, dim, warning };

struct Piece {
  std::string text;
  Look look = Look::plain;
};
using Line = std::vector<Piece>;
// At most as many lines as the screen has rows, each at most as wide as it.
using Screen = std::vector<Line>;

// Describes the run as a whole, besides its functions.
struct RunStatus {
  std::string title = {};                          // the command line
  std::optional<std::uint64_t> duration_ns = {};   // how long the run takes; nullopt: no limit
  bool has_ended = false;                          // a saved run: nothing more comes
  bool has_stacks = false;                         // the run was asked for stacks
  std::string message = {};                        // the last one
  bool is_warning = false;                         // the message is
  const std::deque<std::string>* output = nullptr; // last lines of the command; null: without one
  bool uses_unicode = true;                        // the terminal shows more than ASCII
};

// Sets what scrolling changes of the state, and selects a row if none is.
Screen draw(const Model& model, ViewState& state, const RunStatus& status, const Size& size);

// Returns the table of all functions, whatever the filter, and the details of the selected one. As
// the result of a run: only the first functions, of those that were hit.
std::string text_of(const Model& model, const ViewState& state, const RunStatus& status,
                    bool has_all);

// Returns the character at the position, which is UTF-8, and moves the position past it.
wchar_t take_character(std::string_view text, std::size_t& at);
// Returns the columns of the screen that text takes. As the terminal, it uses the locale:
// characters that are wide, or have no width, count so if the locale is UTF-8, and others as one
// column.
std::size_t columns_of(std::string_view text);
// Returns as many characters as fit.
std::string clipped(std::string_view text, std::size_t columns);
// Returns as many characters as fit, with blanks up to this width.
std::string to_left(std::string_view text, std::size_t columns);
// Leaves as many characters as fit.
void cut(Line& line, std::size_t columns);

// Returns one character for each number: its height among them. nullopt is a blank.
std::string sparkline(std::span<const std::optional<std::uint64_t>> numbers, bool uses_unicode);

// Returns at most four characters: "953", "9999", "12k", "1.2M".
std::string short_count(std::uint64_t count);

} // namespace uprobectl::live
