#include "process/copies.hpp"

namespace uprobectl {

namespace {

// "libssl.so" of "libssl.so.1.1".
std::string_view without_version(std::string_view name) {
  constexpr std::string_view ending = ".so";
  const auto at = name.find(".so.");
  return at == std::string_view::npos ? name : name.substr(0, at + ending.size());
}

// What the package manager calls the APKs it installs (Android: base.apk,
// split_config.arm64_v8a.apk).
bool is_installed_apk(std::string_view name) {
  return name == "base.apk" || (name.starts_with("split") && name.ends_with(".apk"));
}

} // namespace

CopyName copy_name(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return {without_version(path), {}};
  const std::string_view name = path.substr(slash + 1);
  if (!is_installed_apk(name)) return {without_version(name), {}};
  std::string_view folder = path.substr(0, slash);
  folder.remove_prefix(folder.rfind('/') + 1); // npos + 1 is 0
  // The name of a package has no '-', what makes its folder unique begins with one.
  return {name, folder.substr(0, folder.find('-'))};
}

} // namespace uprobectl
