#include "elf/notes.hpp"
#include "elf/sections.hpp"
#include "resolve/function_state.hpp"
#include "symbols/clones.hpp"
#include "symbols/demangle.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

// Sections of Go's linker (cmd/link/internal/ld/data.go, elf.go); the third in position-independent
// programs.
constexpr std::array<std::string_view, 4> go_sections = {
    ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid"};
// What every program has that C was linked to (Go's runtime/cgo). `_cgo_init` and its like are
// variables of the runtime that all programs have.
constexpr std::array<std::string_view, 2> cgo_names = {"crosscall2", "x_cgo_init"};
// What frames name as responsible when something is thrown through them.
constexpr std::array<std::string_view, 2> personalities = {"__gxx_personality_v0",
                                                           "rust_eh_personality"};
constexpr std::array<std::string_view, 3> cxx_libraries = {"libstdc++.so", "libc++.so",
                                                           "libc++_shared.so"};

// Whether any name of either table passes.
template <typename Passes>
bool any_name(const elf::Image& image, Passes passes) {
  const auto any_in = [&](const Result<elf::SymbolTable>& table) {
    if (!table) return false;
    for (std::uint32_t index = 1; index < table->size(); ++index)
      if (const auto name = table->name(index); name && passes(*name)) return true;
    return false;
  };
  return any_in(image.dynamic_symbols()) || any_in(image.full_symbols());
}

bool has_any_of(const elf::Image& image, std::span<const std::string_view> names) {
  return any_name(
      image, [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); });
}

bool has_go_tables(const elf::Image& image) {
  const auto layout = elf::read_layout(image.bytes());
  if (!layout) return false;
  // cmd/link/internal/ld/elf.go; there without section headers, too.
  constexpr std::uint32_t elf_note_gobuildid_tag = 4;
  return elf::has_note(*layout, "Go", elf_note_gobuildid_tag) ||
         std::ranges::any_of(go_sections, [&](std::string_view name) {
           return elf::section_named(*layout, name).has_value();
         });
}

bool needs(const elf::Image& image, std::string_view library) {
  return std::ranges::any_of(image.needed_libraries(),
                             [&](std::string_view name) { return name.starts_with(library); });
}

bool may_unwind(const elf::Image& image) {
  return std::ranges::any_of(cxx_libraries,
                             [&](std::string_view library) { return needs(image, library); }) ||
         has_any_of(image, personalities);
}

struct StringNames {
  bool libstdcxx = false;
  bool libcxx = false;

  bool any() const { return libstdcxx || libcxx; }
  bool both() const { return libstdcxx && libcxx; }
  StringLayout layout() const {
    if (libstdcxx == libcxx) return StringLayout::unknown;
    return libcxx ? StringLayout::libcxx : StringLayout::libstdcxx;
  }
};

// By the inline namespaces around std::basic_string: libc++'s, of the platform's ABI or the NDK's,
// and libstdc++'s.
StringNames string_names(const Result<elf::SymbolTable>& table) {
  StringNames found;
  if (!table) return found;
  for (std::uint32_t index = 1; index < table->size() && !found.both(); ++index) {
    const auto name = table->name(index);
    if (!name || !looks_mangled(*name)) continue;
    found.libcxx = found.libcxx || name->contains("St3__1") || name->contains("St6__ndk1");
    found.libstdcxx = found.libstdcxx || name->contains("St7__cxx11");
  }
  return found;
}

StringLayout layout_of(const elf::Image& image) {
  const StringNames needed{.libstdcxx = needs(image, "libstdc++.so"),
                           .libcxx = needs(image, "libc++.so") || needs(image, "libc++_shared.so")};
  if (needed.any()) return needed.layout();
  const StringNames dynamic = string_names(image.dynamic_symbols());
  if (dynamic.any()) return dynamic.layout();
  return string_names(image.full_symbols()).layout();
}

} // namespace

CodeLanguage FunctionReader::language_of(const ProbePoint& point) const {
  State& state = *state_;
  if (!state.is_oat) state.is_oat = art::OatFile::is_oat(state.image);
  if (*state.is_oat) return CodeLanguage::java;
  const std::string_view symbol = point.symbol ? std::string_view(*point.symbol) : "";
  const bool mangled = looks_mangled(symbol) && demangle(symbol).has_value();
  if (!state.has_go) state.has_go = has_go_tables(state.image);
  if (*state.has_go && !mangled) {
    const auto clone = clone_name(symbol);
    // Go's names have a package and a dot, but for some of its assembly code.
    if (symbol.empty() || (clone ? clone->base : symbol).contains('.')) return CodeLanguage::go;
    if (!state.has_cgo) state.has_cgo = has_any_of(state.image, cgo_names);
    if (!*state.has_cgo) return CodeLanguage::go;
  }
  if (mangled) return CodeLanguage::cxx;
  if (!state.may_throw) state.may_throw = may_unwind(state.image);
  return *state.may_throw ? CodeLanguage::cxx : CodeLanguage::other;
}

StringLayout FunctionReader::string_layout() const {
  State& state = *state_;
  if (!state.strings) state.strings = layout_of(state.image);
  return *state.strings;
}

} // namespace uprobectl
