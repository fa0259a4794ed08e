// Files that a person names to be read, or to be written anew: requests, recorded matches, task
// files.
#pragma once

#include "uprobectl/base.hpp"
#include "uprobectl/output.hpp"

#include <functional>

namespace uprobectl::cli {

// The text of a file. A regular one is mapped: thousands of lines are read where they lie.
class FileText {
public:
  FileText() = default;
  // Ten times what a record of every function of the largest library takes.
  static constexpr std::size_t largest = std::size_t{512} << 20U;

  // "-" is stdin. unsupported where there is more than `most` bytes, whole MiB.
  static Result<FileText> read(const std::string& path, std::size_t most = largest);

  std::string_view text() const; // where it lies does not change when this is moved

  // Calls visit for each line. An error of it ends the walk, and is told with the file and the
  // number of the line.
  using VisitLine = std::function<Result<void>(std::string_view)>;
  Result<void> for_each_line(const VisitLine& visit) const;

private:
  std::string name_;
  std::unique_ptr<const MappedFile> mapped_;
  std::vector<char> read_; // of what cannot be mapped
};

// What `write` makes takes the place of a regular file all at once, or not at all; links to it and
// its mode stay. What is no regular file, a FIFO or a device, is written into.
Result<void> replace_file(const std::string& path, const std::function<void(OutputBuffer&)>& write);

} // namespace uprobectl::cli
