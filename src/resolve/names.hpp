// SPDX-License-Identifier: Apache-2.0
// Resolves names of functions, PLT entries and static probes.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

Result<std::vector<ProbePoint>> resolve_name(const Question& question);
Result<std::vector<ProbePoint>> resolve_plt(const Question& question);

// The point of a symbol, "+N" added.
Result<ProbePoint> point_of(const Question& question, const elf::Symbol& symbol);

// One symbol for each address, sorted by address: .dynsym before .symtab, global before weak before
// local, the default version before hidden ones.
std::vector<elf::Symbol> places_of(std::vector<elf::Symbol> symbols);

// Fills in ProbePoint::aliases.
void add_aliases(const elf::Image& image, std::span<ProbePoint> points);

// Collects the points of a pattern. A match that cannot be probed, or that has no "+N", does not
// discard the others.
class PatternPoints {
public:
  explicit PatternPoints(const Question& question) : question_(question) {}

  void add(Result<ProbePoint> point);

  // By offset. Warns of matches without "+N", and fails if all are. kind: "functions", for the
  // warning.
  Result<std::vector<ProbePoint>> take(std::string_view kind);

private:
  const Question& question_;
  std::vector<ProbePoint> points_;
  std::optional<Error> why_; // why the first of those was left out
  std::size_t left_out_ = 0;
};

// The places of the probes that the question's name means, "PROVIDER:NAME" or a provider alone, in
// the order of the notes. The points share ownership of the notes.
Result<std::vector<ProbePoint>>
resolve_static_probes(const Question& question, const std::shared_ptr<const StaticProbes>& notes);

// The "PROVIDER:NAME" of a probe that a user may mean by a text that is not a function's name.
std::optional<std::string> static_probe_called(const StaticProbes& notes, std::string_view text);

} // namespace uprobectl
