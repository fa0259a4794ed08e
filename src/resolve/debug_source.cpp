// SPDX-License-Identifier: Apache-2.0
#include "resolve/debug_source.hpp"

#include <algorithm>
#include <iterator>

namespace uprobectl {

bool has_symtab(const elf::Image& image) {
  const auto table = image.full_symbols();
  return table && table->size() > 0;
}

bool DebugSource::add_next(elf::Image& image) {
  while (next_ != Next::nothing) {
    const bool embedded = next_ == Next::embedded;
    elf::DebugReport report =
        embedded ? image.add_embedded_symbols() : image.add_debug_file(where_);
    next_ = embedded ? Next::file : Next::nothing;
    std::ranges::move(report.warnings, std::back_inserter(notes_.warnings));
    if (!report.used) continue;
    notes_.used.push_back(std::move(*report.used));
    return true;
  }
  return false;
}

void DebugSource::complete(elf::Image& image) {
  if (has_symtab(image)) return;
  while (add_next(image)) {
  }
}

} // namespace uprobectl
