// SPDX-License-Identifier: Apache-2.0
// The libraries of an archive and of the APKs inside it.
#pragma once

#include "uprobectl/archive.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// Returns the entries named lib/… or *.so, and after each APK inside the archive (as in .apks and
// .xapk) those of the APK: "splits/base.apk!/lib/arm64-v8a/libfoo.so". Their offsets are those in
// the APK. APKs inside an APK are not searched. Inflates at most max_listed_bytes.
Result<std::vector<ArchiveLibrary>> list_libraries(Bytes file);
constexpr std::uint64_t max_listed_bytes = std::uint64_t{2} << 30;

// Returns the names of these libraries, without checking their content.
Result<std::vector<std::string>> library_names(const archive::Archive& archive);

// An entry and the archive inside the file that has it. Views of the entry's name.
struct NestedEntry {
  std::optional<std::string_view> container;
  std::optional<std::string_view> entry;
};
NestedEntry split_nested_entry(const MappedFile* file, const std::optional<std::string>& entry);

// Returns what the archive is and how to get at its files, if it is an APEX.
std::optional<Error> apex_error(const archive::Archive& archive, const std::string& subject);

// Returns where the libraries of the archive are, if no device installs it as it is: an .aab or
// .aar. The layout of installed APKs is another one.
std::optional<std::string> not_installed(const archive::Archive& archive);

} // namespace uprobectl::resolve
