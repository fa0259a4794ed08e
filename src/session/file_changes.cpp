#include "session/file_changes.hpp"

#include <map>

namespace uprobectl {

namespace {

// Each file once.
std::vector<const MappedFile*> files_of(std::span<const ProbePoint> points) {
  std::map<FileIdentity, const MappedFile*> files;
  for (const ProbePoint& point : points)
    files.emplace(point.binary->file->identity(), point.binary->file.get());
  std::vector<const MappedFile*> result;
  result.reserve(files.size());
  for (const auto& [identity, file] : files) result.push_back(file);
  return result;
}

} // namespace

Result<void> check_unwritten(std::span<const ProbePoint> points) {
  for (const MappedFile* file : files_of(points))
    if (file->change() == FileChange::written)
      return fail(Error{ErrorKind::io, file->path() + ": written to while it was being read"}.hint(
          "run it again when what writes the file is done"));
  return {};
}

void warn_of_replaced(std::span<const ProbePoint> points, const Reporter& reporter) {
  for (const MappedFile* file : files_of(points))
    if (file->change() == FileChange::replaced)
      reporter.gathered_warning(
          "replaced", file->path() + ": replaced while it was being read; the probes are in the "
                                     "file it was, which only running processes still map");
}

} // namespace uprobectl
