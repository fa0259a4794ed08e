// The colours of a flame graph: one for each module, the same in every picture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

// "#rrggbb", light enough for black letters.
struct ModuleColour {
  std::string fill;
  std::string edge; // the same, darker
};

// By the module's name alone; grey for none.
ModuleColour colour_of(std::string_view module);

} // namespace uprobectl
