// Which files may be copies of one another, as far as their paths tell.
#pragma once

#include <compare>
#include <string_view>

namespace uprobectl {

// What the paths of copies have in common; views of the path.
struct CopyName {
  std::string_view name;    // the base name, of libraries without the version: "libssl.so"
  std::string_view package; // of an installed app's APKs, which all have the same names: "com.foo"
                            // of /data/app/~~x==/com.foo-abc==/base.apk
  auto operator<=>(const CopyName&) const = default;
};
CopyName copy_name(std::string_view path);

} // namespace uprobectl
