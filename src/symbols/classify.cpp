// SPDX-License-Identifier: Apache-2.0
#include "symbols/classify.hpp"

#include "symbols/demangle.hpp"
#include "uprobectl/symbols.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::symbols {

bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine) {
  const MappingSymbols form = machine.info().mapping_symbols;
  if (form == MappingSymbols::none) return false;
  const auto name = symbol.name;
  if (symbol.type != elf::SymbolType::none || name.size() < 2 || name[0] != '$') return false;
  if (std::string_view("adtx").find(name[1]) == std::string_view::npos) return false;
  return name.size() == 2 || name[2] == '.' || form == MappingSymbols::with_isa;
}

bool is_named(const elf::Symbol& symbol, const elf::Machine& machine) {
  if (symbol.name.empty()) return false;
  if (symbol.type == elf::SymbolType::section || symbol.type == elf::SymbolType::file) return false;
  return !is_mapping_symbol(symbol, machine);
}

bool has_whole_symtab(const elf::Image& image) {
  const auto table = image.full_symbols();
  // Local symbols come first (gABI chapter 4, "Symbol Table").
  for (std::uint32_t index = 1; table && index < table->size(); ++index) {
    const auto symbol = table->at(index);
    if (!symbol) continue;
    if (symbol->binding != elf::Binding::local) return false;
    if (symbol->defined && is_typed_code(*symbol)) return true;
  }
  return false;
}

bool is_typed_code(const elf::Symbol& symbol) {
  return symbol.type == elf::SymbolType::function || symbol.type == elf::SymbolType::ifunc;
}

bool is_code(const elf::Symbol& symbol, const elf::Image& image) {
  if (!symbol.defined || symbol.absolute) return false;
  switch (symbol.type) {
  case elf::SymbolType::function:
  case elf::SymbolType::ifunc:
    break;
  case elf::SymbolType::none:
    // ".L" names are local labels of the compiler; assemblers normally drop them.
    if (symbol.name.starts_with(".L") || symbol.in_data) return false;
    break;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return false;
  }
  if (!is_named(symbol, image.machine())) return false;
  const elf::Segment* segment = image.find_segment(symbol.address);
  return segment != nullptr && segment->executable;
}

std::string_view to_string(SymbolKind kind) {
  switch (kind) {
  case SymbolKind::function:
    return "function";
  case SymbolKind::ifunc:
    return "ifunc";
  case SymbolKind::label:
    return "label";
  case SymbolKind::object:
    return "object";
  case SymbolKind::import:
    return "import";
  case SymbolKind::plt:
    return "plt";
  case SymbolKind::method:
    return "method";
  }
  return "object";
}

SymbolKind symbol_kind(const elf::Symbol& symbol) {
  if (symbol.table == elf::Table::plt) return SymbolKind::plt;
  if (symbol.table == elf::Table::oat) return SymbolKind::method;
  if (!symbol.defined) return SymbolKind::import;
  switch (symbol.type) {
  case elf::SymbolType::function:
    return SymbolKind::function;
  case elf::SymbolType::ifunc:
    return SymbolKind::ifunc;
  case elf::SymbolType::none:
    return symbol.in_data ? SymbolKind::object : SymbolKind::label;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return SymbolKind::object;
  }
  return SymbolKind::object;
}

namespace {

struct Suffix {
  std::string_view word;
  SuffixKind kind = SuffixKind::body;
  bool changes_arguments = false; // it may omit or add some, or get them in another form
};

// The file in parentheses is the source of the compiler that makes the name.
constexpr std::array suffixes = {
    // GCC
    Suffix{"constprop", SuffixKind::body, true}, // copy for constant arguments (ipa-cp.cc)
    Suffix{"isra", SuffixKind::body, true},      // members passed instead of structs (ipa-sra.cc)
    Suffix{"part", SuffixKind::piece, true},     // the rest after a first test (ipa-split.cc)
    Suffix{"cold", SuffixKind::cold},            // also LLVM's (HotColdSplitting.cpp)
    Suffix{"lto_priv", SuffixKind::rename},      // of another unit (lto-partition.cc)
    Suffix{"localalias", SuffixKind::rename},    // not interposable (symtab.cc)
    Suffix{"_omp_fn", SuffixKind::piece, true},  // run by each thread (omp-low.cc)
    Suffix{"actor", SuffixKind::piece, true},    // of coroutines, as the next two (coroutines.cc)
    Suffix{"destroy", SuffixKind::piece, true},  // also LLVM's (CoroSplit.cpp)
    Suffix{"resume", SuffixKind::piece, true},   // LLVM (CoroSplit.cpp)
    Suffix{"cleanup", SuffixKind::piece, true},  // same
    Suffix{"resolver", SuffixKind::piece, true}, // of an IFUNC (multiple_target.cc, clang)
    Suffix{"default", SuffixKind::body},         // of target_clones, as those of is_target()
    // LLVM
    Suffix{"llvm", SuffixKind::rename},            // ThinLTO (FunctionImportUtils.cpp)
    Suffix{"__uniq", SuffixKind::rename},          // (UniqueInternalLinkageNames.cpp)
    Suffix{"specialized", SuffixKind::body, true}, // (FunctionSpecialization.cpp)
    Suffix{"argelim", SuffixKind::body, true},     // (DeadArgumentElimination.cpp)
    Suffix{"retelim", SuffixKind::body},           // same
    Suffix{"argprom", SuffixKind::body, true},     // (ArgumentPromotion.cpp)
    Suffix{"memprof", SuffixKind::body},           // (MemProfContextDisambiguation.cpp)
    Suffix{"cfi", SuffixKind::body},     // called through a jump table (LowerTypeTests.cpp)
    Suffix{"cfi_jt", SuffixKind::piece}, // an entry of the jump table
    Suffix{"omp_outlined", SuffixKind::piece, true}, // run by each thread (OMPIRBuilder.cpp)
    Suffix{"extracted", SuffixKind::piece, true},    // (CodeExtractor.cpp)
    Suffix{"__part", SuffixKind::cold}, // basic block sections (TargetLoweringObjectFile)
    Suffix{"eh", SuffixKind::cold},     // same, landing pads
    Suffix{"warm", SuffixKind::cold},   // BOLT (SplitFunctions.cpp)
};

// Whether the word is an instruction set of target_clones: "avx2", "arch_x86_64_v3", "_Msve2".
bool is_target(std::string_view word) {
  return word.starts_with("arch_") || word.starts_with("avx") || word.starts_with("sse") ||
         word.starts_with("ssse") || word.starts_with("_M") || word == "popcnt";
}

// Returns nullptr for words that are not in the table.
const Suffix* find_suffix(std::string_view word) {
  const auto* const found = std::ranges::find(suffixes, word, &Suffix::word);
  return found != suffixes.end() ? found : nullptr;
}

// Returns where the suffixes begin if the name may have dots itself, as that of GCC for the frame
// of a coroutine has: "_Z1fPZ1fvE11_Z1fv.Frame.actor".
std::size_t unknown_suffixes_of_mangled(std::string_view raw, std::size_t first) {
  constexpr int max_dots = 4;
  std::size_t dot = first;
  for (int i = 0; i < max_dots && dot != std::string_view::npos; ++i, dot = raw.find('.', dot + 1))
    if (demangle(raw.substr(0, dot))) return dot;
  return demangle(raw) ? std::string_view::npos : first;
}

// Returns where the suffixes of a mangled name begin; npos without any.
std::size_t suffixes_of_mangled(std::string_view raw) {
  if (!is_legacy_rust(raw)) {
    const std::size_t dot = raw.find('.');
    if (dot == std::string_view::npos || is_suffix(raw.substr(dot + 1))) return dot;
    return unknown_suffixes_of_mangled(raw, dot);
  }
  const std::size_t end = raw.rfind('E') + 1; // paths in the name have dots themselves
  return end < raw.size() && raw[end] == '.' ? end : std::string_view::npos;
}

// Returns where the known suffixes of another name begin.
std::size_t known_suffixes(std::string_view raw) {
  std::size_t begin = raw.size();
  while (true) {
    std::string_view rest = raw.substr(0, begin);
    std::size_t dot = rest.rfind('.');
    while (dot != std::string_view::npos && has_only_digits(rest.substr(dot + 1))) {
      rest = rest.substr(0, dot);
      dot = rest.rfind('.');
    }
    // Numbers alone are suffixes, unless the name has other dots, as that of Go for "main.init.0".
    if (dot == std::string_view::npos) return rest.empty() ? begin : rest.size();
    const std::string_view word = rest.substr(dot + 1);
    if (dot == 0 || (find_suffix(word) == nullptr && !is_target(word))) return begin;
    begin = dot;
  }
}

// Calls `visit(word, known, end)` for each suffix of a name from `begin` on. `known` is null for
// others; `end`: after its number.
template <typename Visit>
void for_each_suffix(std::string_view raw, std::size_t begin, Visit visit) {
  while (begin < raw.size()) {
    const auto word_end = [&](std::size_t dot) {
      return std::min(raw.find('.', dot + 1), raw.size());
    };
    const std::size_t end = word_end(begin);
    const std::string_view word = raw.substr(begin + 1, end - begin - 1);
    std::size_t next = end;
    while (next < raw.size() && has_only_digits(raw.substr(next + 1, word_end(next) - next - 1)))
      next = word_end(next);
    visit(word, find_suffix(word), next);
    begin = next;
  }
}

} // namespace

std::optional<CloneName> parse_clone_name(std::string_view raw) {
  if (!raw.contains('.')) return std::nullopt; // most names: much quicker than rfind
  const std::size_t at = looks_mangled(raw) ? suffixes_of_mangled(raw) : known_suffixes(raw);
  if (at >= raw.size()) return std::nullopt;
  CloneName result{.base = raw.substr(0, at), .function = raw.substr(0, at)};
  std::size_t begin = result.base.size();
  for_each_suffix(raw, begin, [&](std::string_view word, const Suffix* known, std::size_t end) {
    // A number alone is that of a static function of another unit (LLVM's LTO).
    const SuffixKind kind = known != nullptr        ? known->kind
                            : has_only_digits(word) ? SuffixKind::rename
                                                    : SuffixKind::body;
    if (kind == SuffixKind::rename && result.kind == SuffixKind::rename && word != "localalias")
      result.function = raw.substr(0, end);
    result.kind = std::max(result.kind, kind);
    const bool is_known = known != nullptr || has_only_digits(word) || is_target(word);
    result.is_unknown = result.is_unknown || !is_known;
    result.is_numbered = result.is_numbered || end - begin > word.size() + 1;
    begin = end;
  });
  return result;
}

std::string_view stem_of(std::string_view raw) {
  const std::size_t dot = raw.find('.', 1);
  if (dot == std::string_view::npos || !is_legacy_rust(raw)) return raw.substr(0, dot);
  return raw.substr(0, suffixes_of_mangled(raw));
}

bool is_suffix(std::string_view text) {
  const std::string_view word = text.substr(0, text.find('.'));
  return find_suffix(word) != nullptr || is_target(word) || has_only_digits(word);
}

bool is_part_word(std::string_view word) {
  const Suffix* const known = find_suffix(word);
  return known != nullptr && (known->kind == SuffixKind::cold || word == "part");
}

bool has_other_arguments(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  if (!clone) return false;
  bool changes = false;
  for_each_suffix(
      raw, clone->base.size(), [&](std::string_view word, const Suffix* known, std::size_t) {
        changes = changes || (known != nullptr ? known->changes_arguments
                                               : !is_target(word) && !has_only_digits(word));
      });
  return changes;
}

bool is_clone(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone && clone->kind != SuffixKind::rename;
}

bool is_cold_part(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone && clone->kind == SuffixKind::cold;
}

bool are_different_functions(const elf::Symbol& a, const elf::Symbol& b) {
  if (a.size == 0 || b.size == 0 || !looks_mangled(a.name) || !looks_mangled(b.name)) return false;
  const auto without_clone = [](std::string_view raw) {
    const auto clone = parse_clone_name(raw);
    return demangle(clone ? clone->base : raw);
  };
  const auto first = without_clone(a.name);
  const auto second = without_clone(b.name);
  return first && second && *first != *second;
}

} // namespace uprobectl::symbols
