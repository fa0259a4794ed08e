#include "uprobectl/archive.hpp"

#include "archive/directory.hpp"
#include "archive/entry_rank.hpp"
#include "uprobectl/spelling.hpp"

#include <fmt/format.h>

namespace uprobectl {

Result<ArchiveEntry> Archive::find(std::string_view name) const {
  std::optional<ArchiveEntry> found;
  archive::DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next()) {
    if (record->name != name) continue;
    const ArchiveEntry entry = archive::decode(*record, prefix_);
    if (found)
      return fail(ErrorKind::duplicated,
                  fmt::format("'{}' occurs more than once, with local headers at {:#x} and {:#x}",
                              name, found->local_header, entry.local_header));
    found = entry;
  }
  // A directory that breaks off may hide a second entry of that name.
  if (auto whole = walk.end(); !whole) return fail(std::move(whole).error());
  if (found) return *found;

  // Names are compared by letters only now: a look-up that succeeds does not pay for it.
  NearestNames near;
  archive::DirectoryWalk again(directory_, entry_count_);
  while (const auto record = again.next())
    if (const auto rank = archive::entry_rank(name, record->name)) near.offer(*rank, record->name);
  Error error{ErrorKind::not_found, fmt::format("no entry '{}'", name)};
  const auto names = std::move(near).take();
  return fail(names.empty() ? error : std::move(error).hint(did_you_mean(names)));
}

} // namespace uprobectl
