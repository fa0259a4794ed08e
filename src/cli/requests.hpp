// Requests as they are typed, or as a file has them.
#pragma once

#include "file_text.hpp"
#include "option_parser.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::cli {

// What `resolve` is asked, as views of where it was typed: there may be thousands.
class Requests {
public:
  struct Line {
    std::string target;
    std::vector<std::string_view> functions; // never empty; each has the form of a FUNCTION
  };

  // TARGET FUNCTION… of the command line, which outlives this; usage error where one is missing or
  // malformed.
  static Result<Requests> typed(const OptionParser& parser,
                                std::span<const std::string_view> words);
  // One request a line of the file ("-" is stdin), those in a row that ask the same target as one;
  // errors name the file and the line.
  static Result<Requests> read(const std::string& path);

  std::span<const Line> lines() const { return lines_; }

private:
  Result<void> add(std::span<const std::string_view> words);

  FileText file_;
  WordSplitter splitter_;
  std::vector<Line> lines_; // views of the two
};

// The same for `attach`, which keeps what it was asked.
struct RequestLine {
  std::string target;
  std::vector<std::string> functions; // each has the form of a FUNCTION
};
Result<RequestLine> request_of(const OptionParser& parser, std::span<const std::string_view> words);

} // namespace uprobectl::cli
