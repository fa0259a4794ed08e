// SPDX-License-Identifier: Apache-2.0
// A point of an earlier run, which is resolved again.
#pragma once

#include "output/format.hpp"
#include "resolve/point_details.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::verify {

// The part of a record's line (verify/record_file.hpp), or of a plan's point, that `verify`
// compares.
struct RecordedMatch {
  std::string target;
  std::string request;
  std::optional<std::string> entry;
  // Both are nullopt for a library that was recorded with --extracted.
  std::optional<std::string> file;
  std::optional<FileOffset> offset;
  ImageOffset image_offset = {};
  // The address of a point of a plan. Plans have no offsets, so their points are compared by
  // address.
  std::optional<VirtualAddress> address = {};
  std::optional<std::string> symbol; // "PROVIDER:NAME" of a static probe
  output::Hex symbol_offset = {};
  std::optional<std::string> version;
  std::optional<bool> default_version = {}; // if false, a bare name means another one
  std::optional<std::string> build_id;
  std::optional<std::string> table = {}; // of symbols, which has the name: "debug_file"
  // Of a local symbol whose name others have, too; nullopt in records of versions before 1.1.
  std::optional<std::string> source_file = {};
  bool is_inlined = false; // an inlined instance of the symbol
  // ResolveOptions::Clones as text; nullopt in records of versions before 1.1 and of numbers.
  std::optional<std::string> clones = {};
  std::optional<VirtualAddress> semaphore = {};
  std::optional<std::string> raw_arguments = {};             // of a static probe
  std::shared_ptr<const resolve::PointDetails> details = {}; // null: they were not recorded
  std::size_t line = 0;                                      // in the file of the record, from 1

  bool is_static_probe() const { return raw_arguments.has_value(); }
};

// Returns the record of a resolved point.
RecordedMatch record_of(const resolve::ProbePoint& point);

} // namespace uprobectl::verify
