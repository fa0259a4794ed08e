// SPDX-License-Identifier: Apache-2.0
// The lines of a mapping file of R8 or ProGuard. name_mapping.hpp describes the format.
#pragma once

#include "art/name_mapping.hpp"

namespace uprobectl::art {

constexpr std::string_view mapping_arrow = " -> ";

struct LineRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool operator==(const LineRange&) const = default;
  bool contains(std::uint32_t line) const { return line >= first && line <= last; }
};

// A line of a member. Views of the line.
struct MappedMember {
  bool is_method = false;
  std::optional<LineRange> range;  // of lines in the file
  std::optional<LineRange> source; // of lines in the source
  MappedMethod method;             // class_name is empty if it is that of the member's class
};

// Parses "1:3:void baz(int):10:12 -> a", or the line of a field.
std::optional<MappedMember> parse_mapped_member(std::string_view line);

inline bool is_mapping_comment(std::string_view line) { return line.starts_with('#'); }

// Comments have a JSON object: `# {"id":"sourceFile","fileName":"Bar.java"}`. R8 also accepts
// single quotes, and keys without quotes.

// Returns the text of a value, nullopt if the object does not have the key or its value is of
// another type. Escapes are not replaced: names have none.
std::optional<std::string_view> comment_text(std::string_view comment, std::string_view key);
// Returns what stands between the brackets of an array or the braces of an object.
std::optional<std::string_view> comment_items(std::string_view comment, std::string_view key);
// Removes the next text in quotes and returns it, nullopt if there is none.
std::optional<std::string_view> take_quoted(std::string_view& items);

// The descriptor in a comment with the residual signature of a method: "(I)V".
std::optional<std::string_view> residual_signature(std::string_view comment);

} // namespace uprobectl::art
