// The lines of list-symbols, in order.
#pragma once

#include "list_filter.hpp"

#include <functional>

namespace uprobectl::cli {

// Visits the records of the symbols, which come by address, in the order asked for and joined where
// asked for. Of what a line says only one at a time is held: all of 66,000 would take 60 MB.
// target: shown in each record where several files are listed, else empty.
void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const SymbolList& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit);

} // namespace uprobectl::cli
