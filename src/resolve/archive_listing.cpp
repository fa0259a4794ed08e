// SPDX-License-Identifier: Apache-2.0
#include "resolve/archive_listing.hpp"

#include "archive/nested.hpp"
#include "binary/binary.hpp"
#include "resolve/locate.hpp"
#include "resolve/page_size.hpp"
#include "util/pages.hpp"
#include "util/shell_words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

// Sets ArchiveLibrary::probeable and reason, and the members that describe the entry's data.
void check_library(const archive::Archive& archive, const archive::ArchiveEntry& entry,
                   ArchiveLibrary& library) {
  const auto data = archive.data_offset(entry);
  if (!data) {
    library.reason = data.error().message;
    return;
  }
  library.offset = *data;
  if (data->value != 0) library.alignment = data->value & (~data->value + 1); // lowest set bit
  const auto bytes = archive.stored_bytes(entry);
  if (!entry.probeable()) {
    library.reason = entry.encrypted ? "encrypted" : "compressed, must be stored to be probed";
    return;
  }
  if (!bytes) {
    library.reason = bytes.error().message;
    return;
  }
  const auto parsed = binary::Binary::parse(*bytes, *data);
  if (!parsed) {
    library.reason = parsed.error().message;
    return;
  }
  const elf::Image& image = (*parsed)->image();
  library.machine = image.machine();
  const auto stored_at = storage_problem(image.machine(), *data);
  library.probeable = data->value % smallest_page == 0;
  std::string notes;
  const auto add = [&](const PageProblem& problem) {
    notes += fmt::format("{}{} ({})", notes.empty() ? "" : "; ", problem.reason, problem.fix);
  };
  if (stored_at) add(*stored_at);
  if (library.probeable) std::ranges::for_each(segment_problems(image), add);
  if (!notes.empty()) library.reason = std::move(notes);
}

ArchiveLibrary describe(const archive::Archive& archive, const archive::ArchiveEntry& entry) {
  ArchiveLibrary library;
  library.entry = entry.name;
  library.size = entry.size;
  library.compression = entry.encrypted ? archive::compression_name(entry.method) + ", encrypted"
                                        : archive::compression_name(entry.method);
  check_library(archive, entry, library);
  return library;
}

// Whether APKs inside the archive are those that a device installs, not the data of an app.
bool has_apks(const archive::Archive& archive) { return !archive.has("AndroidManifest.xml"); }

bool is_apk_name(std::string_view name) { return name.ends_with(".apk"); }

// Calls visit(name) for each library of an APK inside the archive, or returns why it cannot be
// read. Subtracts inflated bytes from `budget`.
Result<void> visit_inner(
    const archive::Archive& outer, const archive::ArchiveEntry& container, std::uint64_t& budget,
    const std::function<void(const archive::Archive&, const archive::ArchiveEntry&)>& visit) {
  if (!container.probeable()) {
    if (container.size > budget)
      return fail(ErrorKind::unsupported, "not inflated: the archive's APKs are too large");
    budget -= container.size;
  }
  const auto inner = open_inner(outer, container);
  if (!inner) return fail(inner.error());
  const auto archive = archive::Archive::parse(inner->bytes);
  if (!archive) return fail(archive.error());
  return archive->for_each([&](const archive::ArchiveEntry& entry) {
    if (is_library_name(entry.name)) visit(*archive, entry);
    return true;
  });
}

// The row of an APK, before those of its libraries.
ArchiveLibrary describe_container(const archive::ArchiveEntry& entry) {
  ArchiveLibrary row;
  row.entry = entry.name;
  row.size = entry.size;
  row.compression = archive::compression_name(entry.method);
  row.is_container = true;
  return row;
}

} // namespace

Result<std::vector<ArchiveLibrary>> list_libraries(Bytes file) {
  const auto archive = archive::Archive::parse(file);
  if (!archive) return fail(archive.error());
  const bool with_apks = has_apks(*archive);
  const auto package = not_installed(*archive);
  std::uint64_t budget = max_listed_bytes;
  std::vector<ArchiveLibrary> libraries;
  const auto read = archive->for_each([&](const archive::ArchiveEntry& entry) {
    if (is_library_name(entry.name)) {
      libraries.push_back(describe(*archive, entry));
      if (package) libraries.back().probeable = false;
      if (package) libraries.back().reason = package;
    }
    if (!with_apks || !is_apk_name(entry.name)) return true;
    libraries.push_back(describe_container(entry));
    const std::size_t row = libraries.size() - 1;
    const auto visited =
        visit_inner(*archive, entry, budget,
                    [&](const archive::Archive& inner, const archive::ArchiveEntry& library) {
                      libraries.push_back(describe(inner, library));
                      libraries.back().entry = fmt::format("{}!/{}", entry.name, library.name);
                    });
    const std::size_t count = libraries.size() - row - 1;
    libraries[row].is_unread = !visited;
    libraries[row].reason = !visited    ? visited.error().message
                            : count > 0 ? "an APK, its libraries follow"
                                        : "an APK without libraries";
    return true;
  });
  if (!read) return fail(read.error());
  return libraries;
}

Result<std::vector<std::string>> library_names(const archive::Archive& archive) {
  const bool with_apks = has_apks(archive);
  std::uint64_t budget = max_listed_bytes;
  std::vector<std::string> names;
  const auto read = archive.for_each([&](const archive::ArchiveEntry& entry) {
    if (is_library_name(entry.name)) names.emplace_back(entry.name);
    if (with_apks && is_apk_name(entry.name))
      (void)visit_inner(archive, entry, budget,
                        [&](const archive::Archive&, const archive::ArchiveEntry& library) {
                          names.push_back(fmt::format("{}!/{}", entry.name, library.name));
                        });
    return true;
  });
  if (!read) return fail(read.error());
  return names;
}

NestedEntry split_nested_entry(const MappedFile* file, const std::optional<std::string>& entry) {
  if (!entry) return {};
  if (file != nullptr)
    if (const auto nested = archive::split_nested(file->bytes(), *entry))
      return {nested->container, nested->entry};
  return {std::nullopt, *entry};
}

// https://source.android.com/docs/core/ota/apex: "APEX file format", "Compressed APEX files".
std::optional<Error> apex_error(const archive::Archive& archive, const std::string& subject) {
  if (archive.has("apex_payload.img"))
    return Error{ErrorKind::unsupported,
                 subject + ": an APEX: its files are in a file system image, apex_payload.img"}
        .hint("on a device its files are below /apex/NAME, probe them there")
        .hint("here: unzip " + shell_word(subject) +
              " apex_payload.img, then mount -o loop,ro apex_payload.img DIR, or for ext4 without "
              "root: debugfs -R 'rdump / DIR' apex_payload.img");
  if (archive.has("original_apex"))
    return Error{ErrorKind::unsupported, subject + ": a compressed APEX, with an APEX in it"}.hint(
        "extract it: unzip -p " + shell_word(subject) + " original_apex > original.apex");
  return std::nullopt;
}

std::optional<std::string> not_installed(const archive::Archive& archive) {
  if (archive.has("BundleConfig.pb"))
    return "in an app bundle (.aab): bundletool makes the APKs that a device installs";
  if (archive.has("classes.jar") && archive.has("AndroidManifest.xml"))
    return "in a library package (.aar), which no device installs";
  return std::nullopt;
}

} // namespace uprobectl::resolve
