// SPDX-License-Identifier: Apache-2.0
// Notes (gABI chapter 5, "Note Section").
#pragma once

#include "elf/layout.hpp"

namespace uprobectl::elf {

// NT_GNU_BUILD_ID of a PT_NOTE, in lower-case hex.
std::optional<std::string> read_build_id(const Layout& layout);

// Whether a PT_NOTE has a note of this owner, up to its first NUL, and type.
bool has_note(const Layout& layout, std::string_view owner, std::uint32_t type);

// See Image::visit_notes.
Result<NotesRead> visit_notes(const Layout& layout,
                              const std::function<void(const NoteRecord&)>& visit);

} // namespace uprobectl::elf
