// Which entries of an archive are libraries, by their names.
#pragma once

#include <string_view>

namespace uprobectl {

// "….so" and "….so.1".
bool is_library_name(std::string_view name);

} // namespace uprobectl
