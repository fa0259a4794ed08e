#include "symbols/demangle.hpp"

#include "symbols/rust.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl {

namespace {

std::optional<DemangledName> demangle_as(std::string_view raw, NameParts wanted) {
  if (raw.starts_with("_R")) {
    const auto text = demangle_rust_v0(raw);
    if (!text) return std::nullopt;
    return DemangledName{*text, *text};
  }
  auto parts = demangle_itanium(raw, wanted);
  if (parts && is_legacy_rust(raw)) {
    parts->whole = clean_legacy_rust(parts->whole);
    parts->name = parts->whole;
  }
  return parts;
}

} // namespace

std::optional<DemangledName> demangle_parts(std::string_view raw) {
  return demangle_as(raw, NameParts::both);
}

std::optional<std::string> demangle(std::string_view raw) {
  if (!looks_mangled(raw)) return std::nullopt;
  auto parts = demangle_as(raw, NameParts::whole);
  if (!parts) return std::nullopt;
  return std::move(parts->whole);
}

} // namespace uprobectl
