#pragma once

#include "elf/layout.hpp"

namespace uprobectl::elf {

// NT_GNU_BUILD_ID of a PT_NOTE, lower-case hex; nothing if there is none.
std::optional<std::string> read_build_id(const Layout& layout);

// As Image::visit_notes.
Result<NotesRead> visit_notes(const Layout& layout,
                              const std::function<void(const NoteRecord&)>& visit);

} // namespace uprobectl::elf
