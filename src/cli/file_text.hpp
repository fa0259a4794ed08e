// Reads and replaces files that are named on the command line: requests, recorded matches, task
// files.
#pragma once

#include "output/output.hpp"
#include "uprobectl/util.hpp"

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

} // namespace uprobectl::cli
