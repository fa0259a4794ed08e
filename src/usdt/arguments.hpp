// The same as in the public header for many notes of one image, whose symbols are read once.
#pragma once

#include "uprobectl/usdt.hpp"
#include "usdt/sum.hpp"

namespace uprobectl {

std::vector<StaticArgument> parse_static_arguments(std::string_view text, SymbolAddresses& symbols);

} // namespace uprobectl
