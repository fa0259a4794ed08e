// The options of list-symbols that choose, order and join symbols.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/output.hpp"

#include <functional>

namespace uprobectl::cli {

struct ListOptions {
  bool imports = false;
  std::vector<std::string> kinds; // as typed: lists
  std::optional<std::string> sort;
  std::optional<std::string> min_size;
  bool fold = false;
  bool aliases = false;
};
void add_list_options(OptionParser& parser, ListOptions& options);

enum class ListOrder { offset, name, size };
struct ListFilter {
  SymbolFilter symbols;
  ListOrder order = ListOrder::offset;
  bool fold = false;
  bool aliases = false;
};
Result<ListFilter> make_filter(const OptionParser& parser, const ListOptions& options);

// Visits the records of the symbols, which come by address, in the order asked for and joined where
// asked for. Without such wishes nothing is held: 66,000 records would take 20 MB.
// target: shown in each record where several files are listed, else empty.
void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const std::vector<elf::Symbol>& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit);

} // namespace uprobectl::cli
