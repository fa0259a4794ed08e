// SPDX-License-Identifier: Apache-2.0
// Archives of arbitrary bytes: nothing crashes, hangs or reads outside, and the results are
// consistent.
#include "archive/nested.hpp"
#include "require.hpp"

using namespace uprobectl;

namespace {

bool is_inside(Bytes outer, Bytes inner) {
  return inner.data() >= outer.data() && inner.data() + inner.size() <= outer.data() + outer.size();
}

void check_entry(const archive::Archive& archive, Bytes bytes, const archive::ArchiveEntry& entry) {
  const auto found = archive.find(entry.name);
  require(found || found.error().kind == ErrorKind::duplicated ||
          found.error().kind == ErrorKind::corrupt);
  const auto start = archive.data_offset(entry);
  const auto stored = archive.stored_bytes(entry);
  if (stored) {
    require(start && entry.probeable() && stored->size() == entry.size);
    require(is_inside(bytes, *stored));
    require(bytes.data() + start->value == stored->data());
  }
  if (start && entry.compressed_size > 0) {
    const auto at = archive.entry_at({start->value + entry.compressed_size - 1});
    // Another entry may lie inside this one, but there is one.
    require(!at || at->has_value());
  }
  const std::string nested = std::string(entry.name) + "!/lib/libfoo.so";
  if (const auto split = split_nested(archive, nested))
    require(std::string(split->container) + "!/" + std::string(split->entry) == nested);
  if (entry.size <= std::uint64_t{1} << 20)
    if (const auto inner = open_inner(archive, entry))
      require(inner->owner != nullptr || is_inside(bytes, inner->bytes));
}

} // namespace

int fuzz_archive(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  (void)archive::Archive::looks_like_archive(bytes);
  const auto archive = archive::Archive::parse(bytes);
  if (!archive) return 0;

  int checked = 0; // each entry costs a walk: enough for coverage, not for hours
  (void)archive->for_each([&](const archive::ArchiveEntry& entry) {
    check_entry(*archive, bytes, entry);
    return ++checked < 16;
  });
  (void)archive->find("lib/arm64-v8a/libfoo.so");
  // Asking for the name that occurs twice says so, too.
  if (const auto twice = archive->duplicate(); twice && *twice)
    require(!archive->find((*twice)->name));
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{size / 2}, std::uint64_t{size - 1}, UINT64_MAX})
    (void)archive->entry_at({offset});
  return 0;
}
