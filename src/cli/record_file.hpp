// Requests as they are typed, and files of requests and of recorded matches, read and written
// whole.
// "-" is stdin.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl::cli {

struct RequestLine {
  std::string target;
  std::vector<std::string> functions; // each has the form of a FUNCTION
};

// TARGET FUNCTION… of the command line; usage error where one is missing or malformed.
Result<RequestLine> request_of(const OptionParser& parser, std::vector<std::string> words);

// One request a line, those in a row that ask the same target as one; errors name the file and the
// line.
Result<std::vector<RequestLine>> read_requests(const std::string& path);

// The match records of a file of JSON Lines; records of other types are passed over.
Result<std::vector<RecordedMatch>> read_matches(const std::string& path);

// Puts the points in place of the file's content as match records, all or nothing.
Result<void> write_matches(const std::string& path, std::span<const ProbePoint> points);

} // namespace uprobectl::cli
