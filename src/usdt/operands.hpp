// SPDX-License-Identifier: Apache-2.0
// What the operand parsers of all architectures share: expressions of numbers and symbols, and the
// symbol addresses of the image.
#pragma once

#include "uprobectl/elf.hpp"
#include "uprobectl/usdt.hpp"
#include "util/text.hpp"

#include <array>
#include <unordered_map>

namespace uprobectl::usdt {

// Without '\r', which makes an operand unparsed.
constexpr std::string_view operand_blanks = " \t";

// Looks up the symbols that operands name. Most are variables, which the module symbols does not
// list. Reads the symbol tables at the first find(). Borrows the image.
class SymbolAddresses {
public:
  explicit SymbolAddresses(const elf::Image& image) : image_(image) {}

  struct Location {
    VirtualAddress address;
    bool absolute = false;      // SHN_ABS: not relocated when the file is loaded
    bool may_be_static = false; // StaticArgument::may_be_static
  };
  // The error is a text for StaticArgument::problem. A name that several symbols of the file have
  // at different addresses is an error as well: local variables of two source files, for example.
  // So is an exported variable of a stripped library: compilers take its address from the GOT, and
  // an operand that names a symbol mostly means a static variable.
  std::expected<Location, std::string> find(std::string_view name);

  const elf::Image& image() const { return image_; }
  // Whether find() was called with a name that the image does not define.
  bool has_missing() const { return missing_; }

private:
  struct NamedSymbol {
    Location location;
    bool imported = false; // undefined in this file
    bool function = false; // a variable of the same name has precedence
    bool local = false;
    bool ambiguous = false;       // several symbols at different addresses
    bool is_thread_local = false; // the address is an offset into the TLS block
  };
  void add(const elf::Symbol& symbol);
  void read_tables();

  const elf::Image& image_;
  bool read_ = false;
  bool has_local_symbols_ = false; // of a table that has variables, too
  bool is_library_ = false;        // not a program
  bool missing_ = false;
  std::unordered_map<std::string_view, NamedSymbol> by_name_;
};

// An expression of the assembler: "-8", "0x10", "counter+4", "-4+counter", "x@GOTOFF".
struct AsmExpression {
  std::uint64_t number = 0;    // the sum of all numbers, in two's complement
  std::string_view symbol;     // the only symbol, which is added; may be empty
  std::string_view relocation; // "GOTOFF" of "x@GOTOFF"; may be empty
};

// Removes an expression from the beginning of the text. Returns nullopt if there is none, if a
// number exceeds 64 bits, if a symbol is subtracted, or if there are several symbols.
std::optional<AsmExpression> take_expression(std::string_view& text);

// Parse the whole text; the first accepts numbers only.
std::optional<std::uint64_t> parse_constant_expression(std::string_view text);
std::optional<AsmExpression> parse_expression(std::string_view text);

// The parts between the brackets of an address, without blanks. Parts from `count` on are empty.
struct AddressParts {
  std::array<std::string_view, 3> parts;
  std::size_t count = 0;
};
// Returns nullopt if there are more than three parts.
std::optional<AddressParts> split_at_commas(std::string_view text);

// Sets the kind `unparsed`; the second for operands of unknown syntax.
void leave_unparsed(StaticArgument& argument, std::string problem);
void leave_unparsed(StaticArgument& argument);

// Returns the address of the expression's symbol plus its number. If the symbol cannot be resolved,
// leaves the argument unparsed and returns nullopt.
std::optional<SymbolAddresses::Location>
resolve_symbol(const AsmExpression& expression, SymbolAddresses& symbols, StaticArgument& argument);
// Set the argument to the expression's value, or to the memory at that address. Leave it unparsed
// if the expression's symbol cannot be resolved.
void set_constant(StaticArgument& argument, const AsmExpression& expression,
                  SymbolAddresses& symbols);
void set_memory_at(StaticArgument& argument, const AsmExpression& expression,
                   SymbolAddresses& symbols);

// Parse an operand of one architecture. `text` follows the '@'. An operand that is not supported
// becomes `unparsed` with its reason.
void parse_x86_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);
void parse_arm64_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);
void parse_arm_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);

// Parses as parse_static_arguments() of the public header does, for all notes of one image: its
// symbol tables are read once.
std::vector<StaticArgument> parse_static_arguments(std::string_view text, SymbolAddresses& symbols);

} // namespace uprobectl::usdt
