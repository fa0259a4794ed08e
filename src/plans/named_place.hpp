// SPDX-License-Identifier: Apache-2.0
// Places in another file of the same build, such as the unstripped one.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// A place and its names in that file. The members are as in ProbePoint.
struct NamedPlace {
  std::string request;
  VirtualAddress address;
  std::optional<std::string> symbol = {};
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> demangled = {};
  std::optional<std::string> version = {};
  std::optional<bool> default_version = {};
  std::optional<std::uint64_t> size = {};
  std::optional<SymbolKind> kind = {};
  std::optional<elf::Table> table = {};
  std::shared_ptr<const InlinedInto> inlined_into = {};
  std::shared_ptr<const SourceLine> source = {};
};
NamedPlace to_named_place(const ProbePoint& point);

// Returns the point at the address of the place in a binary, whose image this is. Checks the
// address and the instruction as Target::resolve() does. Fails with corrupt if the symbol does not
// contain the address.
Result<ProbePoint> find_point(const std::shared_ptr<const ProbedBinary>& binary,
                              const elf::Image& image, const NamedPlace& place,
                              const ResolveOptions& options);

} // namespace uprobectl
