// Files of lines that a person names: requests, recorded matches.
#pragma once

#include "uprobectl/base.hpp"

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

} // namespace uprobectl::cli
