// The kernel's verifier says at the end of its log what it refused.
#pragma once

#include <string>
#include <string_view>

namespace uprobectl {

// The last lines, without the line end.
std::string last_lines(std::string_view log, int count);

} // namespace uprobectl
