// What a person who misspelt an entry's name may have meant. Private to the room.
#pragma once

#include <optional>
#include <string_view>

namespace uprobectl::archive {

// How bad a guess an entry is for the wanted one, or nothing if it is not worth suggesting: first
// those with the same base name in another folder (another ABI, mostly), then those a few letters
// away in the whole or in the base name.
std::optional<unsigned> entry_rank(std::string_view wanted, std::string_view name);

} // namespace uprobectl::archive
