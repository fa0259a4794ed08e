// SPDX-License-Identifier: Apache-2.0
// Files that are named on the command line, read and replaced, and requests `TARGET FUNCTION…`,
// from such a file or the command line itself.
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
  // Ten times the size of the match records of all functions of the largest library.
  static constexpr std::size_t largest = std::size_t{512} << 20U;

  // "-" is stdin. unsupported if there are more than `most` bytes, which is a multiple of 1 MiB.
  static Result<FileText> read(const std::string& path, std::size_t most = largest);

  std::string_view text() const; // stays valid when this is moved

  // Calls visit for each line and stops at its first error, to which it adds the file and the
  // number of the line.
  using VisitLine = std::function<Result<void>(std::string_view)>;
  Result<void> for_each_line(const VisitLine& visit) const;

private:
  std::string name_;
  std::unique_ptr<const MappedFile> mapped_;
  std::vector<char> read_; // of what cannot be mapped
};

// Replaces the content of a regular file atomically by what `write` produces; symbolic links to the
// file and its mode stay. FIFOs and devices are written to.
Result<void> replace_file(const std::string& path, const std::function<void(OutputBuffer&)>& write);

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
