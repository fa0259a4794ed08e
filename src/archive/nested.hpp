// SPDX-License-Identifier: Apache-2.0
// Archives inside an archive: the APKs in the output of bundletool (.apks) and in an .xapk. A
// device installs the inner archive, so that offsets count from its start.
#pragma once

#include "uprobectl/archive.hpp"

namespace uprobectl::archive {

// The name of an entry of an inner archive: "splits/base.apk!/lib/x.so" in two parts. Views of the
// name.
struct NestedName {
  std::string_view container; // an entry of the outer archive
  std::string_view entry;     // an entry of the container
};

// Splits the name at the first "!/" before which it is that of an entry. Returns nullopt if there
// is none, or if an entry has the whole name.
std::optional<NestedName> split_nested(const Archive& outer, std::string_view name);
// Splits the name of an entry in a file that may be an archive.
std::optional<NestedName> split_nested(Bytes file, std::string_view name);

// The bytes of an inner archive.
struct InnerArchive {
  Bytes bytes;
  std::shared_ptr<const void> owner; // of inflated bytes; null if the outer archive stores them
};
constexpr std::uint64_t max_inner_archive = std::uint64_t{512} << 20; // bytes, inflated

// Returns the content of the entry, inflated if it is deflated. Fails with not_archive if that is
// not an archive, and with unsupported if it is larger than max_inner_archive.
Result<InnerArchive> open_inner(const Archive& outer, const ArchiveEntry& container);

// While one exists, the inner archive that was inflated last stays in memory, so that the next of
// its entries does not inflate it again.
class KeptInnerArchive {
public:
  KeptInnerArchive();
  KeptInnerArchive(const KeptInnerArchive&) = delete;
  KeptInnerArchive& operator=(const KeptInnerArchive&) = delete;
  ~KeptInnerArchive();
};

} // namespace uprobectl::archive
