// One mangled name taken apart, whatever language it comes from.
#pragma once

#include "symbols/itanium.hpp"

namespace uprobectl {

// Demangles name after name in memory that it keeps.
class Demangler {
public:
  // As demangle() does; valid until the next name.
  std::optional<std::string_view> whole(std::string_view raw);

private:
  ItaniumDemangler itanium_;
  std::string rust_;
};

// Whole and short name; they are equal for Rust, whose names carry no parameters.
std::optional<DemangledName> demangle_parts(std::string_view raw);

// Cheap: whether demangle_parts could give anything.
inline bool looks_mangled(std::string_view raw) {
  return raw.starts_with("_Z") || raw.starts_with("_R");
}

} // namespace uprobectl
