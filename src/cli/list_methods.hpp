// The compiled Java methods of an OAT file as lines of list-symbols.
#pragma once

#include "list_filter.hpp"

#include <functional>

namespace uprobectl::cli {

// What of an OAT file a filter asks for.
bool asks_for_methods(const SymbolFilter& filter);
bool asks_for_methods_alone(const SymbolFilter& filter); // once there are any

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
