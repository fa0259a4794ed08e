// SPDX-License-Identifier: Apache-2.0
// Resolves names of functions, PLT entries and static probes.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

Result<std::vector<ProbePoint>> resolve_name(const Query& query);
Result<std::vector<ProbePoint>> resolve_plt(const Query& query);

// The point of a symbol, "+N" added.
Result<ProbePoint> make_point(const Query& query, const elf::Symbol& symbol);

// One symbol for each address, sorted by address: .dynsym before .symtab, global before weak before
// local, the default version before hidden ones.
std::vector<elf::Symbol> unique_places(std::vector<elf::Symbol> symbols);

// Fills in ProbePoint::aliases.
void add_aliases(const elf::Image& image, std::span<ProbePoint> points);

// Collects the points of a pattern. A match that cannot be probed, or that has no "+N", does not
// discard the others.
class PatternPoints {
public:
  explicit PatternPoints(const Query& query) : query_(query) {}

  void add(Result<ProbePoint> point);

  // By offset. Warns of matches without "+N", and fails if all are. kind: "functions", for the
  // warning.
  Result<std::vector<ProbePoint>> take(std::string_view kind);

private:
  const Query& query_;
  std::vector<ProbePoint> points_;
  std::optional<Error> first_error_; // why the first of those was left out
  std::size_t skipped_ = 0;
};

// The places of the probes that the query's name means, "PROVIDER:NAME" or a provider alone, in
// the order of the notes. The points share ownership of the notes.
Result<std::vector<ProbePoint>>
resolve_static_probes(const Query& query, const std::shared_ptr<const StaticProbes>& notes);

// The "PROVIDER:NAME" of a probe that a user may mean by a text that is not a function's name.
std::optional<std::string> find_static_probe(const StaticProbes& notes, std::string_view text);

} // namespace uprobectl
