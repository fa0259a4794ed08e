// SPDX-License-Identifier: Apache-2.0
// Lists of tracefs: other programs choose the paths and names in them.
#include "inventory/inventory.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

int fuzz_uprobe_events(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const inventory::ListedEvents parsed = inventory::parse_uprobe_events(text);
  // No line is passed over without being counted.
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  if (parsed.events.size() + parsed.unknown_lines > lines) std::abort();
  return 0;
}
