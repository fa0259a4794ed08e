// The symbols and methods of one file as the records of list-symbols: which ones, in which order.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/output.hpp"

#include <functional>

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

// Visits the records of the symbols, which come by address, in the order asked for and joined where
// asked for. Of what a line says only one at a time is held: all of 66,000 would take 60 MB.
// target: shown in each record where several files are listed, else empty.
void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const SymbolList& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit);

// What of an OAT file a filter asks for.
bool asks_for_methods(const SymbolFilter& filter);
bool asks_for_methods_alone(const SymbolFilter& filter); // once there are any

// The compiled Java methods of an OAT file.
struct MethodListing {
  const elf::Image& image;
  const art::OatFile& oat;
  std::string_view target; // shown where several files are listed, else empty
  std::string_view real_path;
  const ListFilter& filter; // with the PATTERNs
};

// Visits the records in the order asked for, joined where asked for; takes the PATTERNs that match
// something out of the unmatched ones. How many methods there were.
std::size_t for_each_method(const MethodListing& listing, std::vector<std::string>& unmatched,
                            const std::function<void(const SymbolRecord&)>& visit);

} // namespace uprobectl::cli
