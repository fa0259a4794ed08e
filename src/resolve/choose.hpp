// Which of several symbols with one name a person means: rules on symbols alone.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// The definitions of code among the symbols that a name denotes: the default version before hidden
// ones (where the name was bare), global before weak before local. Several are left where the
// rules do not decide.
std::vector<elf::Symbol> choose(std::vector<elf::Symbol> symbols, bool bare);

// One symbol an address, the preferred one of those that share it: .dynsym before .symtab, global
// before weak before local, default version before hidden. By address.
std::vector<elf::Symbol> places_of(std::vector<elf::Symbol> symbols);

} // namespace uprobectl
