// SPDX-License-Identifier: Apache-2.0
// Which --args list applies to a probe.
#pragma once

#include "events/arguments.hpp"
#include "uprobectl/resolve.hpp"

#include <span>
#include <unordered_map>

namespace uprobectl::events {

// Finds the argument list of a point by its names, as there may be a list for each of many points.
class ArgumentListIndex {
public:
  // Borrows the lists.
  explicit ArgumentListIndex(std::span<const ArgumentList> lists);

  // Returns the index of the list for the point, the number of lists if there is none. A list for
  // the function has precedence over that for all; of several for the function, the last one.
  std::size_t find(const resolve::ProbePoint& point) const;

private:
  std::span<const ArgumentList> lists_;
  std::size_t none_;
  std::size_t general_;                  // the list for all functions
  std::vector<std::size_t> with_target_; // lists for functions of one file
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::string, std::size_t> by_static_name_;
};

bool applies_to(const ArgumentList& list, const resolve::ProbePoint& point);

} // namespace uprobectl::events
