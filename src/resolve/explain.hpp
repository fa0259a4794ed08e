// Why a name could not be turned into a place, and what to type instead.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// what: "no function" or "no function matches".
Error no_function(const Question& question, std::string_view what);

// The name is there, but only as an import or as data.
Error no_code_behind(const Question& question, const elf::Symbol& symbol);

// The function itself was optimized away, these were made of it.
Error only_clones(const Question& question, const std::vector<elf::Symbol>& clones);

// Adds where an imported function may be probed: "uprobectl COMMAND LIBRARY FUNCTION".
Error hint_at_library(Error error, std::string_view command, const elf::Image& image,
                      const elf::Symbol& symbol);

// Why there is no PLT entry of this name.
Error no_plt_entry(const Question& question);

// Lists at most ten candidates, then a count.
Error ambiguous_name(const Question& question, const std::vector<elf::Symbol>& candidates);

} // namespace uprobectl
