#include "symbols/demangle.hpp"

#include "symbols/rust.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl {

std::optional<std::string_view> Demangler::whole(std::string_view raw) {
  if (!looks_mangled(raw)) return std::nullopt;
  if (raw.starts_with("_R")) {
    auto text = demangle_rust_v0(raw);
    if (!text) return std::nullopt;
    rust_ = std::move(*text);
    return rust_;
  }
  const auto text = itanium_.whole(raw);
  if (!text || !is_legacy_rust(raw)) return text;
  rust_ = clean_legacy_rust(*text);
  return rust_;
}

std::optional<DemangledName> demangle_parts(std::string_view raw) {
  const bool is_rust = raw.starts_with("_R") || is_legacy_rust(raw);
  if (!is_rust) return ItaniumDemangler().parts(raw);
  const auto whole = demangle(raw);
  if (!whole) return std::nullopt;
  return DemangledName{*whole, *whole};
}

std::optional<std::string> demangle(std::string_view raw) {
  if (!looks_mangled(raw)) return std::nullopt; // cheaper than to set up
  Demangler demangler;
  const auto text = demangler.whole(raw);
  if (!text) return std::nullopt;
  return std::string(*text);
}

std::string display_name(const elf::Symbol& symbol) {
  return demangle(symbol.name).value_or(std::string(symbol.name)) + display_suffix(symbol);
}

std::string display_suffix(const elf::Symbol& symbol) {
  if (symbol.table == elf::Table::plt) return "@plt";
  if (!symbol.version) return {};
  return (symbol.version->is_default ? "@@" : "@") + std::string(symbol.version->name);
}

} // namespace uprobectl
