// Archives in which a name occurs twice.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// What a person should know who probes an archive that Android will not open; nothing if the file
// is no archive or all is well.
std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject);

} // namespace uprobectl
