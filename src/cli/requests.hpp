// SPDX-License-Identifier: Apache-2.0
// Reads and replaces files named on the command line. Parses requests `TARGET FUNCTION…` from such
// a file or from the command line.
#pragma once

#include "option_parser.hpp"
#include "output/output.hpp"
#include "uprobectl/resolve.hpp"
#include "util/shell_words.hpp"

#include <functional>

namespace uprobectl::cli {

// The text of a file. A regular file is mapped, so thousands of lines are not copied.
class FileText {
public:
  FileText() = default;
  // Bytes: ten times the match records of all functions of a large library such as libLLVM.
  static constexpr std::size_t max_file_size = std::size_t{512} << 20U;

  // "-" is stdin. unsupported if the file is larger than max_size bytes, a multiple of 1 MiB.
  static Result<FileText> read(const std::string& path, Workstation& workstation,
                               std::size_t max_size = max_file_size);

  const std::string& name() const { return name_; } // for errors
  std::string_view text() const;                    // stays valid when this is moved

  // Calls visit for each line and stops at its first error, to which it adds the file and the
  // number of the line.
  using VisitLine = std::function<Result<void>(std::string_view)>;
  Result<void> for_each_line(const VisitLine& visit) const;

private:
  std::string name_;
  std::unique_ptr<const MappedFile> mapped_;
  std::string read_; // the text, if the file cannot be mapped
};

// The requests of `resolve`. They are views of the file or the command line, because there may be
// thousands.
class Requests {
public:
  struct Line {
    std::string target;
    std::vector<std::string_view> functions; // never empty; each is a valid FUNCTION
  };

  // Parses the command line, which must outlive this. usage if a word is missing or invalid.
  static Result<Requests> typed(const OptionParser& parser,
                                std::span<const std::string_view> words);
  // Reads a file ("-": stdin) with one request per line and joins adjacent requests of one target.
  // Errors name the file and the line.
  static Result<Requests> read(const std::string& path, Workstation& workstation);

  std::span<const Line> lines() const { return lines_; }

private:
  Result<void> add(std::span<const std::string_view> words);

  FileText file_;
  WordSplitter splitter_;
  std::vector<Line> lines_; // views of file_ and splitter_
};

// Parses a FUNCTION or PROVIDER:NAME that may have a TARGET before it; without one it is in
// `target`. usage if it is not valid.
Result<TargetedFunction> read_function(std::string_view word, std::string_view target,
                                       bool is_static_probe = false);

// The words of `attach`. Owns its strings.
struct RequestWords {
  std::string target;
  std::vector<TargetedFunction> functions; // each is valid
};
Result<RequestWords> parse_request(const OptionParser& parser,
                                   std::span<const std::string_view> words,
                                   bool are_static_probes = false);

} // namespace uprobectl::cli
