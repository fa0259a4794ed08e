// SPDX-License-Identifier: Apache-2.0
// Records that are kept in a repository: one short line for each point, sorted, with paths relative
// to the record. Such a file has three types of lines:
//
//   {"type":"record","version":1}
//   {"type":"build","target":"./app.so","build_id":"1f0c…"}
//   {"type":"point","target":"./app.so","request":"work","symbol":"work","offset":"0x1200",…}
//
// Keys that do not apply are missing.
#pragma once

#include "uprobectl/resolve.hpp"
#include "verify/recorded_match.hpp"

#include <map>

namespace uprobectl::verify {

constexpr std::uint64_t record_version = 1;

// Reads a record line by line, in this form or as `match` and `usdt` records.
class RecordFileReader {
public:
  // `folder`: of the record; nullopt if its paths are those of another machine.
  explicit RecordFileReader(std::optional<std::string> folder) : folder_(std::move(folder)) {}

  // Skips records of other types. Fails with corrupt, or with unsupported for a later version.
  Result<void> read_line(std::string_view line);
  bool is_short() const { return is_short_; } // it is in the form of this file
  std::vector<RecordedMatch> take();

private:
  void add_short(RecordedMatch& point);

  std::optional<std::string> folder_;
  std::size_t lines_ = 0;
  bool is_short_ = false;
  std::vector<RecordedMatch> matches_;
  std::vector<std::pair<std::size_t, std::string>>
      libraries_of_points_;                   // index of matches_, its library
  std::map<std::string, std::string> builds_; // build ids, by library
};

// Returns the text of a record of the points, with ProbePoint::source_file.
std::string write_record(std::span<const resolve::ProbePoint> recorded,
                         const std::optional<std::string>& folder);

// --- Internal, for tests.

// Returns TARGET with the path of its file relative to the folder, if the file exists: "./app.so".
// A name that is searched stays as it is.
std::string relative_target(const std::string& target, const std::optional<std::string>& folder);
// Reverses relative_target().
std::string target_in_folder(const std::string& target, const std::optional<std::string>& folder);

} // namespace uprobectl::verify
