// SPDX-License-Identifier: Apache-2.0
// Looks names up in ELF bytes; the first line of the input is the name or pattern.
#include "symbols/bodies.hpp"
#include "uprobectl/symbols.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_symbols(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto line = input.substr(0, input.find('\n'));
  if (line.size() == input.size()) return 0;
  const auto image = elf::Image::parse(as_bytes(input.substr(line.size() + 1)));
  if (!image) return 0;
  (void)symbols::find_by_name(*image, line);
  (void)symbols::nearest_names(*image, line);
  if (const auto named = symbols::find_by_demangled_name(*image, line))
    for (const elf::Symbol& symbol : *named)
      if (!symbols::demangle(symbol.name)) std::abort();
  const auto all = symbols::list_symbols(*image, {});
  (void)symbols::list_symbols(*image, {.patterns = {std::string(line)}});
  (void)symbols::list_symbols(*image, {.imports = true});
  (void)symbols::list_symbols(*image,
                              {.kinds = {symbols::SymbolKind::object, symbols::SymbolKind::plt}});
  for (const elf::Symbol& entry : symbols::plt_entries(*image)) {
    // What is an entry lies in code, and is found again from any of its bytes.
    const elf::Segment* segment = image->find_segment(entry.address);
    if (segment == nullptr || !segment->executable) std::abort();
    (void)symbols::symbol_at(*image, {entry.address.value + entry.size - 1});
  }
  if (!all) return 0;
  symbols::Bodies bodies(*image);
  (void)bodies.with_base(line, true);
  for (std::size_t i = 0; i < all->size() && i < 64; ++i) {
    const elf::Symbol symbol = (*all)[i];
    const auto clone = bodies.split(symbol);
    if (clone && !symbol.name.starts_with(clone->function)) std::abort();
    if (!symbols::stem_of(symbol.name).empty() &&
        !symbol.name.starts_with(symbols::stem_of(symbol.name)))
      std::abort();
    (void)bodies.has_itself(bodies.function_of(symbol));
  }
  std::vector<elf::Symbol> some;
  for (std::size_t i = 0; i < all->size() && i < 4; ++i) some.push_back((*all)[i]);
  (void)symbols::find_related(*image, some);
  for (std::size_t i = 0; i < all->size() && i < 16; ++i) {
    // What is listed is code, so some symbol covers its address.
    if (!symbols::symbol_at(*image, (*all)[i].address)) std::abort();
  }
  return 0;
}
