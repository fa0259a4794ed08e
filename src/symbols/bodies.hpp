// SPDX-License-Identifier: Apache-2.0
// Finds the symbols of an image that are bodies of a function: the function itself, clones, parts.
#pragma once

#include "symbols/classify.hpp"

#include <compare>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace uprobectl::symbols {

// Finds the bodies of functions by raw name. The first name is searched in the tables; the second
// one makes an index of 8 bytes for each symbol. Borrows the image.
class Bodies {
public:
  explicit Bodies(const elf::Image& image);

  // The number of debug tables that are searched. Later ones need another object.
  std::size_t debug_tables() const { return debug_tables_; }

  // Splits the suffixes off the name of a clone or part. nullopt for other names with dots: labels,
  // code inside the function itself, names of languages with dots.
  std::optional<CloneName> split(const elf::Symbol& symbol);

  // Symbols of equal functions are bodies of one function. `unit` tells static functions of one
  // name apart by their source file (STT_FILE); 0: visible to other files, or the file is unknown.
  struct Function {
    std::string_view name;
    std::uint64_t unit = 0;
    auto operator<=>(const Function&) const = default;
  };
  Function function_of(const elf::Symbol& symbol);
  // Whether the function exists itself, not only as clones.
  bool has_itself(const Function& function);

  // Returns the clones and parts whose CloneName::function is this raw name. with_debug: also those
  // in debug tables.
  std::vector<elf::Symbol> clones_of(std::string_view function, bool with_debug);
  // Returns the clones, parts and renamed functions with this CloneName::base.
  std::vector<elf::Symbol> with_base(std::string_view base, bool with_debug);
  // Returns the code symbols at the addresses, which are sorted.
  std::vector<elf::Symbol> at(std::span<const std::uint64_t> addresses) const;

private:
  struct Part {
    elf::SymbolTable table;
    bool is_debug = false;
    struct Hashed {
      std::uint32_t hash = 0; // of stem_of() the name
      std::uint32_t index = 0;
    };
    std::vector<Hashed> by_stem; // sorted; empty before the second name
    // Indices of STT_FILE symbols, each with the number of its unit, see unit_of().
    std::optional<std::vector<std::pair<std::uint32_t, std::uint64_t>>> files;
    std::optional<bool> has_dotted_names;
  };
  // Code whose name has the stem.
  struct Owner {
    elf::Symbol symbol;
    std::size_t part = 0; // index in parts_
    std::uint32_t index = 0;
  };
  // The functions of one name. Files may have thousands of them, and as many clones.
  struct Namesakes {
    std::vector<Owner> owners; // in the order of the tables
    // The begins of their code, sorted, each with the furthest end of the code up to it.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ends;
    std::unordered_map<std::uint64_t, std::uint64_t> unit_at; // by address: the function's unit
    std::unordered_map<std::uint64_t, std::uint64_t> units;   // by unit_of(): the function's unit
    bool is_visible = false;                                  // any of them to other files

    bool have_inside(VirtualAddress address) const; // after the first byte of one
    std::uint64_t unit(VirtualAddress address) const;
  };
  const std::vector<Owner>& family(std::string_view name);
  void make_index();
  // Valid until family() is called for another stem.
  const Namesakes& namesakes(std::string_view name);
  void find_units(Namesakes& found);
  std::uint64_t unit_of(const Owner& owner);
  static std::vector<std::pair<std::uint32_t, std::uint64_t>>
  read_files(const elf::SymbolTable& table);
  bool has_dotted_names(elf::Table table);
  bool has_dotted_names(const Part& part) const;
  template <typename Select>
  std::vector<elf::Symbol> select(std::string_view name, bool with_debug, Select is_selected);

  const elf::Image& image_;
  std::vector<Part> parts_;
  std::size_t debug_tables_ = 0;
  bool is_indexed_ = false;
  std::optional<std::string> stem_; // of family_
  std::vector<Owner> family_;
  std::unordered_map<std::string, Namesakes> namesakes_; // of family_, those asked for
};

// Says what find_related() searches. Only C++ functions are said to be folded, so that others need
// no aliases.
struct RelatedSearch {
  bool with_debug = true; // clones also in debug tables
  bool with_aliases = true;
};
RelatedSymbols find_related(Bodies& bodies, std::span<const elf::Symbol> functions,
                            RelatedSearch search);

} // namespace uprobectl::symbols
