// Requests `TARGET FUNCTION…`, from the command line or from a file.
#pragma once

#include "file_text.hpp"
#include "option_parser.hpp"
#include "uprobectl/resolve.hpp"
#include "util/shell_words.hpp"

namespace uprobectl::cli {

// The requests of `resolve`, as views of their source, as there may be thousands.
class Requests {
public:
  struct Line {
    std::string target;
    std::vector<std::string_view> functions; // never empty; each has the form of a FUNCTION
  };

  // From the command line, which must outlive this; usage error if a word is missing or malformed.
  static Result<Requests> typed(const OptionParser& parser,
                                std::span<const std::string_view> words);
  // From a file ("-": stdin) with one request a line. Adjacent requests of one target are joined.
  // Errors name the file and the line.
  static Result<Requests> read(const std::string& path);

  std::span<const Line> lines() const { return lines_; }

private:
  Result<void> add(std::span<const std::string_view> words);

  FileText file_;
  WordSplitter splitter_;
  std::vector<Line> lines_; // views of the two
};

// The request of `attach`, which keeps its words.
struct RequestLine {
  std::string target;
  std::vector<std::string> functions; // each has the form of a FUNCTION
};
Result<RequestLine> request_of(const OptionParser& parser, std::span<const std::string_view> words);

} // namespace uprobectl::cli
