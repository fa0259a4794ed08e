// SPDX-License-Identifier: Apache-2.0
// The names of a run's probe points in text. Points with the same name are distinguished.
#pragma once

#include "uprobectl/resolve.hpp"

#include <memory>
#include <string>
#include <unordered_map>

namespace uprobectl::output {

class PointNames {
public:
  // Returns the path of the point's file, with the archive entry if there is one.
  const std::string& file(const resolve::ProbePoint& point);
  // Returns the name, with the source line if one was requested, and the distinction.
  const std::string& name(const resolve::ProbePoint& point) { return find(point).name; }
  // Returns the address, or the file, of a point that has the name of another one before it: static
  // functions of two source files, a function in two libraries. Empty for other points.
  const std::string& distinction(const resolve::ProbePoint& point) {
    return find(point).distinction;
  }

private:
  struct Names {
    std::string name;
    std::string distinction;
  };
  struct FirstPoint {
    std::string file;
    std::uint64_t address = 0;
  };
  const Names& find(const resolve::ProbePoint& point);
  std::string find_distinction(const resolve::ProbePoint& point);

  std::unordered_map<const resolve::ProbePoint*, Names> known_;
  std::unordered_map<std::string, FirstPoint> first_points_; // by name
  // The file of the previous point and its text: consecutive points are mostly in the same file.
  std::shared_ptr<const resolve::ProbedBinary> binary_;
  std::string file_;
};

} // namespace uprobectl::output
