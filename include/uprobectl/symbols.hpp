// SPDX-License-Identifier: Apache-2.0
// Names: which symbols an image has, which of them a person means by a name or a pattern, and which
// symbol an address belongs to. Only code counts: functions, IFUNCs and labels in executable
// segments; undefined symbols are reported as imports.
//
// Besides .dynsym and .symtab an image may have been given symbols from outside (its debug tables:
// Image::add_embedded_symbols, Image::add_debug_file). They are looked at last, and only where the
// image's own tables do not answer.
#pragma once

#include "uprobectl/elf.hpp"

#include <functional>
namespace uprobectl {

enum class SymbolKind { function, ifunc, label, object, import, plt, method };
std::string_view to_string(SymbolKind kind);
std::string_view to_string(elf::Binding binding);
std::string_view to_string(elf::Table table);

SymbolKind symbol_kind(const elf::Symbol& symbol);

// The name as people write it: C++ (Itanium) and Rust (v0, legacy) demangled; nothing if the raw
// name is not mangled.
std::optional<std::string> demangle(std::string_view raw);

// The demangled names of a long list, one after another. Demangling is most of what a listing
// costs, so threads, as many as processors, work some hundred names ahead of the reader. A list of
// less than 4096 names is demangled by the reader itself.
class DemangledNames {
public:
  // The raw name by its number; asked from several threads at once, and in no order.
  using RawName = std::function<std::string_view(std::size_t)>;
  DemangledNames(std::size_t count, RawName raw);
  ~DemangledNames();

  // What demangle() gives for the next name, of which there must be one. Valid until the next call.
  std::optional<std::string_view> next();

private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

// `*`, `?`, `[ab]`, `[!a-c]`, `\x`; the whole name must match. No exponential backtracking.
// is_pattern is true if an unescaped metacharacter is in it; C++ `operator*`, `operator[]` and `T*`
// parameters are names, see parse_function in resolve.
bool is_pattern(std::string_view text);
bool matches_pattern(std::string_view pattern, std::string_view name);
// The pattern without `*`, `?`, `[` and `]`: what a person who misspelt it may have had in mind.
std::string without_wildcards(std::string_view pattern);
// Against a symbol's raw name, its demangled name and that without parameters.
bool matches_name(const std::string& pattern, std::string_view raw);

// All symbols with exactly this raw name (and version, if `name@V` or `name@@V` was asked for),
// .dynsym first through the hash table; .symtab and then each debug table only if those before have
// no definition. Definitions first, imports after. Empty if there is none.
Result<std::vector<elf::Symbol>> find_by_name(const elf::Image& image, std::string_view name);

// All code symbols whose demangled name is this: `ns::Foo::bar` any overload, `ns::Foo::bar(int)`
// that one; a template's return type may be left out, spaces do not count. One pass over both
// tables, or over the debug tables if these have none; imports, if no code is called so. Only names
// that spell the last identifier are demangled.
Result<std::vector<elf::Symbol>> find_by_demangled_name(const elf::Image& image,
                                                        std::string_view name);

// The PLT entries: small pieces of code that jump to a function through a slot of the GOT, whose
// symbol's name and version they get (table plt). By address. They are found by following their
// jumps to the slots that the relocations name, so section headers are needed only for those of
// .plt.got. Empty for machines that can_find_plt_entries() denies.
std::vector<elf::Symbol> plt_entries(const elf::Image& image);
bool can_find_plt_entries(const elf::Machine& machine);

// Whether a person may write the name for this mangled one, by the same rules.
bool matches_demangled_name(std::string_view raw, std::string_view name);

// What else the image knows about the code of some functions, in one pass over both tables.
struct RelatedSymbols {
  std::vector<elf::Symbol> aliases; // other names of their addresses, by address and name
  std::vector<elf::Symbol> clones;  // what the compiler made of them: "f.constprop.0", "f.cold"
};
RelatedSymbols find_related(const elf::Image& image, std::span<const elf::Symbol> functions);

// The compiler's clones of a function that is called so, raw or demangled, whether or not it is
// there itself.
std::vector<elf::Symbol> find_clones_by_name(const elf::Image& image, std::string_view name);

// "f.constprop.0", "f.cold": named by a compiler after another function.
bool is_clone(std::string_view raw);

// "f.cold": a piece of a function that is jumped into, never called.
bool is_cold_part(std::string_view raw);

// For two names of one address: whether the linker must have folded two functions into one (ICF),
// rather than somebody having given one function two names. Nothing in the file tells these apart,
// but aliases are made by hand, with C names: so two sized C++ or Rust functions whose demangled
// names differ are different functions, and everything else is taken for aliases.
bool are_different_functions(const elf::Symbol& a, const elf::Symbol& b);

// Which symbols list_symbols gives.
struct SymbolFilter {
  // Matched against the raw name, the demangled name and that without its parameters; empty: all.
  std::vector<std::string> patterns;
  bool imports = false;          // undefined functions instead of definitions
  std::vector<SymbolKind> kinds; // empty: functions, IFUNCs and labels
  std::uint64_t min_size = 0;    // bytes
};

// Symbols sorted by address, name and version, each of these once with .dynsym preferred. 16 bytes
// are held of each: as elf::Symbol all of a large library would take ten megabytes, so one is read
// from its table again whenever it is asked for. A view, as the tables are.
class SymbolList {
public:
  // Where a symbol is to be found.
  struct Place {
    VirtualAddress address;
    std::uint32_t index = 0;     // in its table
    std::uint16_t table = 0;     // in the tables
    std::uint16_t stub_size = 0; // bytes of the PLT entry that has the symbol's name; 0: the symbol
  };

  SymbolList() = default; // empty
  // Of symbols that the tables have, in any order and with repeats.
  SymbolList(std::vector<elf::SymbolTable> tables, std::vector<Place> places);

  std::size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  elf::Symbol operator[](std::size_t index) const;
  std::string_view name(std::size_t index) const; // that of the symbol, at less cost
  VirtualAddress address(std::size_t index) const { return places_[index].address; }

  class Iterator {
  public:
    using value_type = elf::Symbol;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const SymbolList& list, std::size_t index) : list_(&list), index_(index) {}
    elf::Symbol operator*() const { return (*list_)[index_]; }
    Iterator& operator++();
    Iterator operator++(int);
    bool operator==(const Iterator&) const = default;

  private:
    const SymbolList* list_ = nullptr;
    std::size_t index_ = 0;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  // The raw names of the address but this one, each once.
  std::vector<std::string> aliases(VirtualAddress address, std::string_view own) const;

private:
  friend void prefetch(const SymbolList& symbols, std::size_t index);
  void sort_without_repeats();

  std::vector<elf::SymbolTable> tables_;
  std::vector<Place> places_;
};

// Symbols of both tables, and PLT entries if their kind is asked for. The debug tables count where
// the image has no .symtab, or where nothing else matches.
Result<SymbolList> list_symbols(const elf::Image& image, const SymbolFilter& filter);

// The symbol that covers the address, and how far into it the address lies. Sized symbols win over
// PLT entries, these over labels, which reach up to the next symbol; of those that begin closest
// below the address global over weak over local, .dynsym over .symtab, default versions over
// others, then the table's first, as unwinders have it. Symbols of debug files count if the image
// has no .symtab. Nullopt if none covers it.
struct SymbolAt {
  elf::Symbol symbol;
  std::uint64_t offset = 0;
};
std::optional<SymbolAt> symbol_at(const elf::Image& image, VirtualAddress address);

std::string display_name(const elf::Symbol& symbol);   // "free@plt" for a PLT entry
std::string display_suffix(const elf::Symbol& symbol); // of it: "@plt", "@@V", "@V" or nothing

// The same for many addresses of an image: one pass over its tables, 24 bytes of each symbol, then
// a search. The image must outlive it; debug symbols count that were added before. Looks at 256
// symbols at most, so that overlapping symbols of a hostile file do not make each search a pass.
class SymbolFinder {
public:
  explicit SymbolFinder(const elf::Image& image);

  std::optional<SymbolAt> at(VirtualAddress address);

private:
  elf::Symbol read(const SymbolList::Place& place) const;
  std::optional<elf::Symbol> stub_at(VirtualAddress address);

  const elf::Image& image_;
  std::vector<elf::SymbolTable> tables_;
  std::vector<SymbolList::Place> places_; // of code, by address
  std::vector<std::uint64_t> reach_;      // the highest end of each symbol and those before it
  std::optional<std::vector<elf::Symbol>> stubs_; // of the PLT, by address; found when asked for
};

// Up to three names worth suggesting for one that was not found: by edit distance (up to
// suggestion_limit), raw and demangled base names. Bounded: looks at no more than 200,000 names.
std::vector<std::string> nearest_names(const elf::Image& image, std::string_view name);

} // namespace uprobectl
