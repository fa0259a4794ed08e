// SPDX-License-Identifier: Apache-2.0
// Code that only leads to another body of its function: a call of it would be counted twice.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl::resolve {

// Removes what only leads to another of these bodies of one function. What leads to nothing that is
// kept, as two bodies that jump to each other, is kept.
void drop_thunks(const Query& query, std::vector<elf::Symbol>& bodies);

// Whether the code at the point does nothing but jump to a function: local symbols may have its
// name with the suffix ".cfi" (clang's -fsanitize=cfi).
bool is_jump_table_entry(const Query& query, const ProbePoint& point);

} // namespace uprobectl::resolve
