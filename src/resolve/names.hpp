// SPDX-License-Identifier: Apache-2.0
// Resolves names of functions, PLT entries and static probes.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl::resolve {

// Lists up to ten different names in order, and how many more there are.
std::string list_names(std::vector<std::string> names);

// Resolve Query::function, a name or a pattern of functions or of PLT entries. `clones_in_debug`:
// clones are searched in debug tables although the function was not found there. That an earlier
// query has read them must not change the answer.
Result<std::vector<ProbePoint>> resolve_name(const Query& query, bool clones_in_debug = false);
ResolvedFunction resolve_plt(const Query& query);

// Resolves Query::function by another spelling of its name. Returns no points if there is none, or
// if the options do not allow it. Fails if a function with exactly this
// name exists only inlined, and all spellings leave out parts of a name.
ResolvedFunction resolve_spelling(const Query& query);

// Returns the bodies of the candidates' function, or with --all of all of their functions.
Result<std::vector<ProbePoint>> resolve_symbols(const Query& query,
                                                std::vector<elf::Symbol> candidates);

// Returns the point at the symbol's address plus the query's "+N".
Result<ProbePoint> point_of(const Query& query, const elf::Symbol& symbol);

// Returns the preferred symbol of each address, sorted by address. Preference order: .dynsym, then
// .symtab; global, weak, local; default versions, then hidden ones.
std::vector<elf::Symbol> preferred_symbols(std::vector<elf::Symbol> symbols);

// Returns those of a pattern's symbols whose address one of `unique` has, by address and name, if
// ResolveOptions::every_name is set; otherwise `unique`.
std::vector<elf::Symbol> with_every_name(const Query& query, std::vector<elf::Symbol> unique,
                                         const std::vector<elf::Symbol>& all);

// Fills in ProbePoint::aliases.
void add_aliases(const elf::Image& image, std::span<ProbePoint> points);

// Collects the points of a pattern. Skips matches that cannot be probed, for example because "+N"
// is outside of them.
class PatternPoints {
public:
  explicit PatternPoints(const Query& query) : query_(query) {}

  void add(Result<ProbePoint> point);

  // Returns the points by offset. If matches were skipped because of "+N", adds a warning, or fails
  // if all were. kind: "functions" or "methods", for the warning.
  Result<std::vector<ProbePoint>> take(std::string_view kind);

private:
  const Query& query_;
  std::vector<ProbePoint> points_;
  std::optional<Error> first_error_; // of the first skipped match
  std::size_t skipped_ = 0;
};

// Returns the points of the static probes that the query's name means, in the order of the notes.
// The name is "PROVIDER:NAME", or a provider for all of its probes. The points share ownership of
// the notes. probe_error() refuses those inside an instruction or in data.
Result<std::vector<ProbePoint>>
resolve_static_probes(const Query& query, const std::shared_ptr<const usdt::StaticProbes>& notes);

// Returns the "PROVIDER:NAME" of the first static probe with this name, with or without provider;
// for hints.
std::optional<std::string> find_static_probe(const usdt::StaticProbes& notes,
                                             std::string_view text);

} // namespace uprobectl::resolve
