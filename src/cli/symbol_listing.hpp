// SPDX-License-Identifier: Apache-2.0
// Creates the records of list-symbols for one file: symbols and Java methods, filtered, sorted and
// folded.
#pragma once

#include "option_parser.hpp"
#include "output/output.hpp"

#include <functional>

namespace uprobectl::cli {

struct ListOptions {
  bool imports = false;
  std::vector<std::string> kinds; // values of --kind: comma-separated lists
  std::optional<std::string> sort;
  std::optional<std::uint64_t> min_size;
  bool fold = false;
  bool aliases = false;
  bool check = false;
};
void bind_list_options(OptionParser& parser, ListOptions& options);

enum class ListOrder { offset, name, size };
struct ListFilter {
  symbols::SymbolFilter symbols;
  ListOrder order = ListOrder::offset;
  bool fold = false;
  bool aliases = false;
};
ListFilter make_filter(const ListOptions& options);

// Visits one record per line in the order of the filter. `symbols` are sorted by address. Only one
// record exists at a time: 66,000 records would take 60 MB. `target` is printed in each record if
// several files are listed, else it is empty.
void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const symbols::SymbolList& symbols, const ListFilter& filter,
                     const std::function<void(const output::SymbolRecord&)>& visit);

// Whether the filter selects methods of an OAT file.
bool includes_methods(const symbols::SymbolFilter& filter);
// Whether it selects only methods if the OAT file has any.
bool includes_only_methods(const symbols::SymbolFilter& filter);

// The compiled Java methods of an OAT file.
struct MethodListing {
  const elf::Image& image;
  const art::OatFile& oat;
  std::string_view target; // printed if several files are listed, else empty
  std::string_view real_path;
  const ListFilter& filter; // with the PATTERNs
};

// Visits the records in the order of the filter and removes the PATTERNs that match from
// `unmatched`. Returns the number of methods.
std::size_t for_each_method(const MethodListing& listing, std::vector<std::string>& unmatched,
                            const std::function<void(const output::SymbolRecord&)>& visit);

} // namespace uprobectl::cli
