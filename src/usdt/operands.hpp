// SPDX-License-Identifier: Apache-2.0
// What the operands of all architectures have in common: sums of numbers and symbols.
#pragma once

#include "uprobectl/elf.hpp"
#include "uprobectl/usdt.hpp"
#include "util/text.hpp"

#include <array>
#include <unordered_map>

namespace uprobectl {

// A carriage return is none: it is a part of what is not understood.
constexpr std::string_view operand_blanks = " \t";

// The addresses of symbols that operands name. These are mostly variables, which the module symbols
// does not list.
class SymbolAddresses {
public:
  explicit SymbolAddresses(const elf::Image& image) : image_(image) {}

  struct Place {
    VirtualAddress address;
    bool absolute = false; // a plain number, the same wherever the file is loaded
  };
  // The error says why there is none, in words for StaticArgument::problem. A name of a variable
  // that is local to one source file may be that of another one's: then there is none, too.
  std::expected<Place, std::string> find(std::string_view name);

  const elf::Image& image() const { return image_; }
  bool has_missed() const { return missed_; } // a name that no table has was asked for

private:
  struct Known {
    Place place;
    bool imported = false;       // it is only named here
    bool function = false;       // a variable of the same name goes before it
    bool several = false;        // at different addresses
    bool in_each_thread = false; // the address is an offset in each thread's block
  };
  void add(const elf::Symbol& symbol);
  void read_tables();

  const elf::Image& image_;
  bool read_ = false;
  bool missed_ = false;
  std::unordered_map<std::string_view, Known> known_;
};

// What an assembler's operand adds up: "-8", "0x10", "counter+4", "-4+counter", "x@GOTOFF".
struct Sum {
  std::uint64_t number = 0;    // of all terms that are numbers, two's complement
  std::string_view symbol;     // at most one, added; or empty
  std::string_view relocation; // "GOTOFF" of "x@GOTOFF", or empty
};

// Takes a sum from the beginning of the text, up to what cannot belong to one; nothing if there is
// none, a number has more than 64 bits, or a symbol is subtracted or not the only one.
std::optional<Sum> take_sum(std::string_view& text);

// All of the text as a number or a sum.
std::optional<std::uint64_t> whole_number(std::string_view text);
std::optional<Sum> whole_sum(std::string_view text);

// What stands between the brackets of an address, without blanks; empty where there are fewer.
struct AddressParts {
  std::array<std::string_view, 3> parts;
  std::size_t count = 0;
};
std::optional<AddressParts> split_at_commas(std::string_view text); // nothing where there are more

// `problem` says what cannot be told of the operand.
void leave_unparsed(StaticArgument& argument, std::string problem);
void leave_unparsed(StaticArgument& argument); // it is not understood at all

// Where the symbol of a sum lies, its number added. Leaves the argument unparsed if it is not
// known.
std::optional<SymbolAddresses::Place> place_of(const Sum& sum, SymbolAddresses& symbols,
                                               StaticArgument& argument);
void set_constant(StaticArgument& argument, const Sum& sum, SymbolAddresses& symbols);
// Memory where the sum says, without a base register.
void set_memory_at(StaticArgument& argument, const Sum& sum, SymbolAddresses& symbols);

// The operands of an architecture; `text` is what follows the '@'.
void parse_x86_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);
void parse_arm64_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);
void parse_arm_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument);

// The same as in the public header for many notes of one image, whose symbols are read once.

std::vector<StaticArgument> parse_static_arguments(std::string_view text, SymbolAddresses& symbols);

} // namespace uprobectl
