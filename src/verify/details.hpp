// SPDX-License-Identifier: Apache-2.0
// Reads and compares what probes rely on besides their offsets: types of parameters, members of
// structures, exits, machine code and page sizes.
#pragma once

#include "dwarf/functions.hpp"
#include "output/verdict.hpp"
#include "resolve/point_details.hpp"
#include "uprobectl/resolve/function.hpp"

#include <map>

namespace uprobectl::verify {

// Describes the types of functions as details. Functions share the structures: many functions of a
// large library have the same ones, and each unit of debug information has its own types.
class TypeDetails {
public:
  // Sets the parameters, the result and the structures. The types must outlive this object.
  void describe(const dwarf::FunctionInfo& function, resolve::PointDetails& details);
  // Adds the structure of a value, and those that its members are or point to: `depth` times, and
  // at most max_structures in all. Those without known members are left out. Returns how often
  // members were followed.
  std::size_t add_reachable(const dwarf::Type& type, std::size_t depth,
                            resolve::PointDetails& details);
  static constexpr std::size_t max_structures = 1000; // of a point

private:
  using Structure = std::shared_ptr<const resolve::DetailStructure>;
  Structure find(const dwarf::Type& structure);
  // Returns whether it was not there.
  bool add(const dwarf::Type& structure, resolve::PointDetails& details);

  std::map<const dwarf::Type*, Structure> by_type_;
  std::map<std::string, std::vector<Structure>, std::less<>> by_name_;
};

// Sets ProbePoint::details. Reads each file once. Not thread-safe.
class DetailReader {
public:
  explicit DetailReader(std::vector<std::string> debug_paths)
      : debug_paths_(std::move(debug_paths)) {}

  void read(resolve::ProbePoint& point);

private:
  struct File {
    std::optional<resolve::FunctionReader> functions = {}; // nullopt: exits are not known
    TypeDetails types = {};
    std::vector<std::string> pages = {};
  };
  File& open(const std::shared_ptr<const resolve::ProbedBinary>& binary);

  std::vector<std::string> debug_paths_;
  std::map<std::shared_ptr<const resolve::ProbedBinary>, File> files_;
};

// A difference between recorded and current details.
struct DetailChange {
  output::Change change;
  std::string member = {}; // "shop::Item.size", a parameter, or "return"
  std::optional<std::string> recorded = {};
  std::optional<std::string> found = {};
  std::optional<std::string> reason = {};
};
// `has_moved`: the point has moved inside its library, where other code is expected.
std::vector<DetailChange> compare_details(const resolve::PointDetails& recorded,
                                          const resolve::PointDetails& current, Arch arch,
                                          bool has_moved);

} // namespace uprobectl::verify
