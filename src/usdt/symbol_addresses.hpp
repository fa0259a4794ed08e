// Where the symbols lie that operands name: variables, mostly, so it is not the room symbols that
// is asked, which knows code.
#pragma once

#include "uprobectl/elf.hpp"

#include <unordered_map>

namespace uprobectl {

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

} // namespace uprobectl
