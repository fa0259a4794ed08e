// SPDX-License-Identifier: Apache-2.0
// Symbols outside a file's own tables. They are read one source at a time and only when a query
// needs them, because reading them takes longer than all the rest.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Adds the symbols of .gnu_debugdata and debug files to an image on demand.
class DebugSource {
public:
  explicit DebugSource(elf::DebugSearch where = {}) : where_(std::move(where)) {}

  // Adds the next source that has symbols to the image: .gnu_debugdata, then the debug file.
  // Returns false if there is none left.
  bool add_next(elf::Image& image);
  // Adds all sources unless the image has a .symtab: for queries that need all symbols.
  void complete(elf::Image& image);

  const elf::DebugSearch& where() const { return where_; }
  const DebugNotes& notes() const { return notes_; }

private:
  enum class Next { embedded, file, nothing };

  elf::DebugSearch where_;
  Next next_ = Next::embedded;
  DebugNotes notes_;
};

// Whether the image has a .symtab with symbols.
bool has_symtab(const elf::Image& image);

} // namespace uprobectl
