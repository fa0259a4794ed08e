// Paths of a system image that is unpacked in a folder.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

// Where what the image calls `path` (absolute; ARCHIVE!/ENTRY, too) lies below the folder `root`.
// Symbolic links lead where they would if the folder were "/" (openat2(2), RESOLVE_IN_ROOT): those
// of an image are absolute, "/system/product" is one to "/product". not_found where nothing
// is there. A kernel before 5.6 follows the links as they are.
Result<std::string> path_in_root(const std::string& root, const std::string& path);

} // namespace uprobectl
