#include "symbols/base_name.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"
#include "symbols/list.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

std::string without_spaces(std::string_view text) {
  std::string result;
  std::ranges::copy_if(text, std::back_inserter(result), [](char c) { return c != ' '; });
  return result;
}

// Text that every mangled form of the name holds: identifiers are spelled out, except the few of
// the standard library that the Itanium ABI abbreviates (section 5.1.10). Empty where unsure.
std::string_view spelled_part(std::string_view name) {
  constexpr std::array<std::string_view, 9> abbreviated = {
      "allocator", "basic_string", "string",        "basic_istream", "istream",
      "ostream",   "iostream",     "basic_ostream", "basic_iostream"};
  std::string_view base = base_name(name);
  if (base.starts_with('~')) base.remove_prefix(1);
  const auto is_identifier = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (base.starts_with("operator") || !std::ranges::all_of(base, is_identifier)) return {};
  if (std::ranges::find(abbreviated, base) != abbreviated.end()) return {};
  return base;
}

// Whether the wanted text, spaces removed, is one of the ways to write the name.
bool is_written(const DemangledName& name, std::string_view wanted) {
  const std::string whole = without_spaces(name.whole);
  if (whole == wanted) return true;
  const std::string short_name = without_spaces(name.name);
  if (short_name.empty()) return false;
  if (short_name == wanted) return true;
  const std::size_t at = whole.find(short_name); // what stands before it is the return type
  return at != std::string::npos && std::string_view(whole).substr(at) == wanted;
}

std::vector<elf::Symbol> written_so(const SymbolList& list, std::string_view wanted,
                                    std::string_view part) {
  std::vector<elf::Symbol> symbols;
  for (const elf::Symbol& symbol : list) {
    if (!looks_mangled(symbol.name) || symbol.name.find(part) == std::string_view::npos) continue;
    const auto parts = demangle_parts(symbol.name);
    if (parts && is_written(*parts, wanted)) symbols.push_back(symbol);
  }
  return symbols;
}

} // namespace

bool is_written_name(std::string_view raw, std::string_view name) {
  if (!looks_mangled(raw) || raw.find(spelled_part(name)) == std::string_view::npos) return false;
  const auto parts = demangle_parts(raw);
  return parts && is_written(*parts, without_spaces(name));
}

Result<std::vector<elf::Symbol>> find_by_demangled_name(const elf::Image& image,
                                                        std::string_view name) {
  const std::string wanted = without_spaces(name);
  const std::string_view part = spelled_part(name);
  DemanglingBudget::of_this_thread().refill();
  const auto own = list_own_symbols(image, {});
  if (!own) return fail(own.error());
  auto symbols = written_so(*own, wanted, part);
  if (symbols.empty()) symbols = written_so(list_debug_symbols(image, {}), wanted, part);
  if (!symbols.empty()) return symbols;
  const auto imports = list_own_symbols(image, {.imports = true});
  if (!imports) return fail(imports.error());
  return written_so(*imports, wanted, part);
}

} // namespace uprobectl
