// The options of list-symbols that choose, order and join symbols.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl::cli {

struct ListOptions {
  bool imports = false;
  std::vector<std::string> kinds; // as typed: lists
  std::optional<std::string> sort;
  std::optional<std::uint64_t> min_size;
  bool fold = false;
  bool aliases = false;
};
void bind_list_options(OptionParser& parser, ListOptions& options);

enum class ListOrder { offset, name, size };
struct ListFilter {
  SymbolFilter symbols;
  ListOrder order = ListOrder::offset;
  bool fold = false;
  bool aliases = false;
};
ListFilter make_filter(const ListOptions& options);

} // namespace uprobectl::cli
