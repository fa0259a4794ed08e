// What the names of files say about libraries.
#pragma once

#include <string_view>

namespace uprobectl {

// "….so" and "….so.1": an entry of an archive that is a library.
bool is_library_name(std::string_view name);

// Whether a file, by its name without folders, is what a person calls so: exactly, or "foo" for
// libfoo.so and libfoo.so.1.
bool is_called(std::string_view file, std::string_view name);

} // namespace uprobectl
