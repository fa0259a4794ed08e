// Files of recorded matches, read and written whole. "-" is stdin.
#pragma once

#include "requests.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl::cli {

// The match records of a file of JSON Lines; records of other types are passed over.
Result<std::vector<RecordedMatch>> read_matches(const std::string& path);

// Puts the points in place of the file's content as match records, all or nothing.
Result<void> write_matches(const std::string& path, std::span<const ProbePoint> points);

} // namespace uprobectl::cli
