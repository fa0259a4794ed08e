// SPDX-License-Identifier: Apache-2.0
// What a probe at a point relies on besides its offset, for records (resolve --with args).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace uprobectl::resolve {

struct DetailParameter {
  std::string name;
  std::string type;
  // "rdi", "[rsp+8]"; nullopt: not recorded. Plans have it, records do not.
  std::optional<std::string> location = {};
};
struct DetailMember {
  std::string name;
  std::string type;
  std::uint64_t offset = 0;                     // bytes from the start of the structure
  std::uint64_t size = 0;                       // bytes
  std::optional<std::uint64_t> bit_offset = {}; // of a bit-field, from `offset`
  std::optional<std::uint64_t> bit_size = {};

  bool operator==(const DetailMember&) const = default;
};
// A structure that a parameter or the result is, or points to.
struct DetailStructure {
  std::string name; // "shop::Item"
  std::vector<DetailMember> members = {};

  bool operator==(const DetailStructure&) const = default;
};
struct PointDetails {
  // nullopt: the function has no debug information.
  std::optional<std::vector<DetailParameter>> parameters = {};
  // Variables besides parameters that the values of a plan are read from.
  std::vector<DetailParameter> variables = {};
  std::optional<std::string> result = {}; // its type
  // Never null. Many functions share a structure.
  std::vector<std::shared_ptr<const DetailStructure>> structures = {};
  // Distances of the exits from the function's first instruction, bytes; nullopt: not known. Those
  // of a cold part are negative if it stands before the function.
  std::optional<std::vector<std::int64_t>> exits = {};
  std::string code = {};               // the first bytes at the point, lower-case hex
  std::vector<std::string> pages = {}; // rules of list-symbols --check that the library breaks
};

} // namespace uprobectl::resolve
