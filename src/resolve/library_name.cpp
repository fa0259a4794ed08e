#include "resolve/library_name.hpp"

#include <string>

namespace uprobectl {

bool is_library_name(std::string_view name) {
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

bool is_called(std::string_view file, std::string_view name) {
  if (file == name) return true;
  const std::string stem = "lib" + std::string(name) + ".so";
  return file.starts_with(stem) && (file.size() == stem.size() || file[stem.size()] == '.');
}

} // namespace uprobectl
