// SPDX-License-Identifier: Apache-2.0
// Symbol lookup: lists the symbols of an image, finds them by name or pattern, and finds the symbol
// that covers an address. Only code is considered: functions, IFUNCs and labels in executable
// segments. Undefined symbols are reported as imports.
//
// Besides .dynsym and .symtab, an image may have debug tables (Image::add_embedded_symbols,
// Image::add_debug_file). They are searched last, and only if the .symtab lacks functions (strip),
// or the image's own tables have no match.
#pragma once

#include "uprobectl/elf.hpp"

#include <functional>
#include <map>

namespace uprobectl::symbols {

// label: an untyped symbol in code. import: an undefined function. method: a compiled Java method.
enum class SymbolKind { function, ifunc, label, object, import, plt, method };
std::string_view to_string(SymbolKind kind);

SymbolKind symbol_kind(const elf::Symbol& symbol);

// Demangles C++ (Itanium) and Rust (v0, legacy) names. Returns nullopt if the name is not mangled.
std::optional<std::string> demangle(std::string_view raw);

// Demangles a long list of names one after another. Demangling takes most of the time of a listing,
// so up to three threads demangle some hundred names ahead of the reader. The reader itself
// demangles a list of fewer than 4096 names.
class DemangledNames {
public:
  // Returns a raw name by its index. Called from several threads at once and in any order.
  using RawName = std::function<std::string_view(std::size_t)>;
  DemangledNames(std::size_t count, RawName raw);
  ~DemangledNames();

  // Returns demangle() of the next name; must not be called after the last one. Valid until the
  // next call.
  std::optional<std::string_view> next();

private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

// Whether the text contains an unescaped metacharacter of a pattern. Does not recognize C++ names
// such as `operator*` and `f(T*)`; is_name_pattern() recognizes those with parameters.
bool is_pattern(std::string_view text);
// Whether the pattern matches the whole name. Supports `*`, `?`, `[ab]`, `[!a-c]` and `\x`. The
// time is at most proportional to the product of both lengths.
bool matches_pattern(std::string_view pattern, std::string_view name);
// Removes `*`, `?`, `[` and `]`, to find similar names if a pattern matches nothing.
std::string without_wildcards(std::string_view pattern);
// Whether the pattern matches the raw name, the demangled name without its return type, or that
// without its parameters. `function`: the raw name of the function that the symbol is a clone or
// part of, if it is one; then the suffix may be left out, except that of a cold part.
bool matches_name(const std::string& pattern, std::string_view raw,
                  std::optional<std::string_view> function);

// Finds the symbols with this raw name, and this version for `name@V` or `name@@V`. Searches
// .dynsym by its hash table; .symtab and each debug table only if the tables before have no
// definition. Returns definitions before imports; empty if there is none.
Result<std::vector<elf::Symbol>> find_by_name(const elf::Image& image, std::string_view name);

// Finds code symbols by demangled name: `ns::Foo::bar` means all overloads, `ns::Foo::bar(int)`
// one. Includes clones and parts, without cold parts unless the name has their suffix as it is
// printed: "ns::f() (.cold)". The return type of a template is optional, and spaces are ignored.
// Scans .dynsym and .symtab, then the debug tables unless a whole signature was found, then
// the imports. Demangles only names that contain the last identifier.
Result<std::vector<elf::Symbol>> find_by_demangled_name(const elf::Image& image,
                                                        std::string_view name);

// How a name differs from the name of the function that it means. Earlier enumerators are
// preferred.
enum class Spelling {
  // The names differ only in notation: "f(const char *)" for "f(char const*)", "std::string" for
  // libstdc++'s "std::__cxx11::basic_string<...>", "f(std::string)" for
  // "f[abi:cxx11](std::string)".
  equivalent,
  // Parts are left out: template arguments, a member function's "const", "&" and "&&", unnamed
  // namespaces, Rust's traits, Go's type arguments.
  shortened,
  // Enclosing scopes are left out: "Store::add" for "shop::Store::add".
  unqualified,
};
struct SpelledFunctions {
  std::vector<elf::Symbol> symbols; // all with the same spelling; empty if there are none
  Spelling spelling = Spelling::equivalent;
  // How far the spelling is from the name. If several files have the function, those with the
  // lowest distance count.
  unsigned distance = 0;
};
// Returns by name the types that typedefs with these names stand for, written as in demangled
// names. Omits names that it does not know.
using TypedefFinder = std::function<std::map<std::string, std::string, std::less<>>(
    std::span<const std::string> names)>;
// Finds functions by another spelling of their name in all tables, or imports if no function
// matches. Use it if neither find_by_name() nor find_by_demangled_name() finds the name. A name
// without scopes, parameters and template arguments may be a mistyped C name, so it does not match
// methods or functions of a namespace. If no function has the types as they are written, typedefs
// in them are replaced: first those of the C library, then those that `find_typedefs` returns.
SpelledFunctions find_by_spelling(const elf::Image& image, std::string_view name,
                                  const TypedefFinder& find_typedefs = {});
SpelledFunctions find_by_spelling(std::span<const elf::Symbol> symbols, std::string_view name,
                                  const elf::Machine& machine);
// Whether the text is a C++ name with parameters: '*' in it means a pointer.
bool is_signature(std::string_view text);
// Whether the text is a pattern of names: is_pattern(), and not a C++ name with parameters.
bool is_name_pattern(std::string_view text);

// Returns the PLT entries by address: stubs that jump to a function through a GOT entry. Each has
// the name and version of the GOT entry's symbol (table plt). They are found by decoding the jumps
// and comparing their targets with the relocations. Section headers are needed only for .plt.got.
// Empty unless can_find_plt_entries().
std::vector<elf::Symbol> plt_entries(const elf::Image& image);
bool can_find_plt_entries(const elf::Machine& machine);

// Whether find_by_demangled_name() of the name would match this mangled name.
bool matches_demangled_name(std::string_view raw, std::string_view name);

// Other symbols for the code of some functions.
struct RelatedSymbols {
  std::vector<elf::Symbol> aliases; // other names of their addresses, by address and name
  std::vector<elf::Symbol> clones;  // clones and parts of them: "f.constprop.0", "f.cold"; also
                                    // with suffixes that are not known
};
// Finds them in one pass over all tables.
RelatedSymbols find_related(const elf::Image& image, std::span<const elf::Symbol> functions);

// Whether the name is that of a clone or part of a function: "f.constprop.0", "f.cold". False for
// renamed functions ("f.llvm.5").
bool is_clone(std::string_view raw);

// Whether the name is that of a cold part ("f.cold"): it is reached by a jump, not called.
bool is_cold_part(std::string_view raw);

// Whether two symbols of one address are different functions that the linker folded (ICF), not
// aliases of one function. The file does not distinguish them. Aliases are written by hand and have
// C names, so this returns true for two sized C++ or Rust functions with different demangled names.
bool are_different_functions(const elf::Symbol& a, const elf::Symbol& b);

// Selects symbols for list_symbols().
struct SymbolFilter {
  // Matched as by matches_name(). Empty: all names.
  std::vector<std::string> patterns;
  bool imports = false;          // undefined functions instead of definitions
  std::vector<SymbolKind> kinds; // empty: functions, IFUNCs and labels
  std::uint64_t min_size = 0;    // bytes
};

// Symbols sorted by address, name and version, without repeats; .dynsym is preferred. Stores 16
// bytes for each and decodes a symbol from its table on each access: as elf::Symbol, the symbols of
// a large library would take ten megabytes. A view, like the tables.
class SymbolList {
public:
  // The location of a symbol.
  struct Entry {
    VirtualAddress address;
    std::uint32_t index = 0;     // in its table
    std::uint16_t table = 0;     // index of the table
    std::uint16_t stub_size = 0; // bytes, if it is the PLT entry of the symbol; else 0
  };

  SymbolList() = default; // empty
  // `entries` may be in any order and contain repeats.
  SymbolList(std::vector<elf::SymbolTable> tables, std::vector<Entry> entries);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  elf::Symbol operator[](std::size_t index) const;
  std::string_view name(std::size_t index) const; // faster than operator[]
  VirtualAddress address(std::size_t index) const { return entries_[index].address; }

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

  // Returns the raw names at the address except `own`, without repeats.
  std::vector<std::string> aliases(VirtualAddress address, std::string_view own) const;

private:
  friend void prefetch(const SymbolList& symbols, std::size_t index);
  void sort_without_repeats();

  std::vector<elf::SymbolTable> tables_;
  std::vector<Entry> entries_;
};

// Lists the symbols of .dynsym and .symtab that the filter selects, and PLT entries if it has their
// kind. Includes the debug tables if the .symtab lacks functions or nothing else matches.
Result<SymbolList> list_symbols(const elf::Image& image, const SymbolFilter& filter);

// A symbol that covers an address.
struct SymbolAt {
  elf::Symbol symbol;
  std::uint64_t offset = 0; // of the address from the start of the symbol
};
// Finds the symbol that covers the address; nullopt if there is none. Preference order: sized
// symbols, PLT entries, labels (up to the next symbol in their section). Among symbols that begin
// closest below the address: global, weak, local; then .dynsym, .symtab; then default versions,
// others; then the order of the table, as in unwinders. Includes debug tables if .symtab lacks
// functions. In a debug file without code (objcopy --only-keep-debug, eu-strip -f), whose segments
// have no bytes, all functions count.
std::optional<SymbolAt> symbol_at(const elf::Image& image, VirtualAddress address);

std::string display_name(const elf::Symbol& symbol);   // demangled, with its suffix: "free@plt"
std::string display_suffix(const elf::Symbol& symbol); // "@plt", "@@V", "@V" or ""

// symbol_at() for many addresses: builds a sorted index of 24 bytes per symbol, then uses binary
// search. Borrows the image; includes debug symbols that were added before. Examines at most 256
// symbols for an address, so that overlapping symbols of a malicious file do not make it slow.
class SymbolFinder {
public:
  explicit SymbolFinder(const elf::Image& image);

  std::optional<SymbolAt> at(VirtualAddress address);
  // Returns the end of the code for which at() returns the symbol that begins at this address, also
  // if the symbol has no size. nullopt if no symbol begins there.
  std::optional<VirtualAddress> label_end(VirtualAddress label);

private:
  elf::Symbol read(const SymbolList::Entry& entry) const;
  std::optional<elf::Symbol> stub_at(VirtualAddress address);

  const elf::Image& image_;
  bool is_debug_file_;
  std::vector<elf::SymbolTable> tables_;
  std::vector<SymbolList::Entry> entries_;        // of code, sorted by address
  std::vector<std::uint64_t> max_ends_;           // highest end of each symbol and those before it
  std::optional<std::vector<elf::Symbol>> stubs_; // PLT entries by address; read on demand
};

// Returns up to three similar names to suggest for a name that was not found: raw and demangled
// base names with an edit distance of at most suggestion_limit(). Examines at most 200,000 names.
std::vector<std::string> nearest_names(const elf::Image& image, std::string_view name);

} // namespace uprobectl::symbols
