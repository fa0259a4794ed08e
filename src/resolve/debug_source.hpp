// The symbols outside a file's own tables, brought in one source at a time and only when a question
// needs them: reading them costs more than everything else.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

class DebugSource {
public:
  explicit DebugSource(elf::DebugSearch where = {}) : where_(std::move(where)) {}

  // Adds the next source that has symbols: .gnu_debugdata, then the debug file. False when there is
  // no more.
  bool add_next(elf::Image& image);
  // Everything, for questions about all symbols, where the image has no .symtab.
  void complete(elf::Image& image);

  const elf::DebugSearch& where() const { return where_; }
  const DebugNotes& notes() const { return notes_; }

private:
  enum class Next { embedded, file, nothing };

  elf::DebugSearch where_;
  Next next_ = Next::embedded;
  DebugNotes notes_;
};

// Answers the question with the image's own tables and, if these do not know the name, with what
// the source brings in. The image is that of the question.
Result<std::vector<ProbePoint>> answer(const Question& question, elf::Image& image,
                                       DebugSource& source);

} // namespace uprobectl
