// Symbols by address.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// Those of one address stay in the order in which they are.
void sort_by_address(std::vector<SymbolList::Place>& places);

} // namespace uprobectl
