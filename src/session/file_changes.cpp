#include "session/file_changes.hpp"

#include <set>

namespace uprobectl {

Result<void> check_files(std::span<const ProbePoint> points, const Reporter& reporter) {
  std::set<FileIdentity> seen;
  for (const ProbePoint& point : points) {
    const MappedFile& file = *point.binary->file;
    if (!seen.insert(file.identity()).second) continue;
    switch (file.change()) {
    case FileChange::none:
      break;
    case FileChange::written:
      return fail(Error{ErrorKind::io, file.path() + ": written to while it was being read"}.hint(
          "run it again when what writes the file is done"));
    case FileChange::replaced:
      reporter.warning(file.path() + ": replaced while it was being read; the probes are in the "
                                     "file it was, which only running processes still map");
      break;
    }
  }
  return {};
}

} // namespace uprobectl
