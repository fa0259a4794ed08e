// SPDX-License-Identifier: Apache-2.0
#include "elf/debug_file.hpp"

#include "elf/elf_types.hpp"
#include "elf/folder_walk.hpp"
#include "elf/layout.hpp"
#include "elf/sections.hpp"
#include "uprobectl/archive.hpp"
#include "util/inflate.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>

namespace uprobectl::elf {

SymbolFile::SymbolFile(Layout layout)
    : layout_(std::move(layout)), build_id_(read_build_id(layout_)) {}

Result<SymbolFile> SymbolFile::read(Bytes bytes) {
  auto layout = read_sections_only(bytes);
  if (!layout) return fail(std::move(layout).error());
  layout->notes = note_sections(*layout);
  // Without section headers, the build id may still be found through program headers.
  if (layout->notes.empty())
    if (auto loaded = read_layout(bytes)) layout->notes = std::move(loaded->notes);
  return SymbolFile(std::move(*layout));
}

Result<SymbolTable> SymbolFile::symbols(Table table, KnownVersions versions) const {
  return section_symbols(layout_, raw::SHT_SYMTAB, table, std::move(versions));
}

BuildMatch match_build(const Machine& machine, const std::optional<std::string>& build_id,
                       const SymbolFile& file) {
  using enum BuildMatch::Answer;
  if (!(file.machine() == machine))
    return {different,
            "it is for " + to_string(file.machine()) + ", not for " + to_string(machine)};
  const auto& id = file.build_id();
  if (id && build_id) {
    if (*id == *build_id) return {same, {}};
    return {different, "its build id is " + *id + ", not " + *build_id};
  }
  if (build_id) return {different, "it has no build id, the binary has " + *build_id};
  if (id) return {different, "its build id is " + *id + ", the binary has none"};
  return {unknown, "neither it nor the binary has a build id to prove that they belong together"};
}

std::optional<DebugLink> read_debug_link(const Layout& layout) {
  const auto section = section_bytes(layout, ".gnu_debuglink");
  if (!section) return std::nullopt;
  const auto name = c_string_at(*section, 0);
  // A name with a slash would lead out of the searched folders.
  if (!name || name->empty() || name->find('/') != std::string_view::npos) return std::nullopt;
  const std::uint64_t crc_at = (name->size() + 1 + 3) / 4 * 4;
  const auto crc = read_at<std::uint32_t>(*section, crc_at, layout.machine.order);
  if (!crc) return std::nullopt;
  return DebugLink{std::string(*name), *crc};
}

namespace {

constexpr std::size_t max_warnings = 5;

// Returns the folder of the file, absolute and without symbolic links; below /proc/PID/root if the
// file was opened there. Empty if the path leads to another file: the kernel may show a path of
// another mount namespace.
std::string find_folder(const MappedFile& file) {
  std::string path;
  if (const auto rooted = split_process_root(file.path()))
    path = real_path_in_root(*rooted).value_or(std::string());
  else
    path = file.real_path().value_or(file.path());
  const auto there = stat_path(path);
  if (!there || FileIdentity{there->st_dev, there->st_ino} != file.identity()) return {};
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

DebugFetcher& debug_fetcher() {
  static DebugFetcher fetcher;
  return fetcher;
}

// Limits for archives of symbol files.
constexpr std::uint64_t head_size = 64 << 10;       // bytes, enough for a build id
constexpr std::uint64_t max_entry_size = 512 << 20; // bytes, inflated
constexpr std::size_t max_others = 1000;            // entries with other names to try

// Returns the code that the file has in its executable segments, without the file header, which
// strip(1) changes.
std::vector<std::pair<VirtualAddress, Bytes>> code_in(const Layout& layout) {
  std::vector<std::pair<VirtualAddress, Bytes>> code;
  for (const Segment& segment : layout.segments) {
    const std::uint64_t skipped = header_bytes(segment, layout.machine);
    if (!segment.executable || skipped >= segment.file_size) continue;
    if (const auto bytes =
            slice(layout.bytes, segment.offset.value + skipped, segment.file_size - skipped))
      code.emplace_back(VirtualAddress{segment.address.value + skipped}, *bytes);
  }
  return code;
}

// Whether the file has code, and it is that of the image.
bool has_same_code(const DebugFileCriteria& image, Bytes file) {
  const auto layout = read_layout(file);
  if (!layout || image.code.empty()) return false;
  return std::ranges::equal(code_in(*layout), image.code, [](const auto& a, const auto& b) {
    return a.first == b.first && std::ranges::equal(a.second, b.second);
  });
}

} // namespace

DebugFileCriteria debug_file_criteria(const Layout& layout, const BinaryPath& path,
                                      const MappedFile* file) {
  const std::string_view name = path.entry ? *path.entry : path.file;
  return {.machine = layout.machine,
          .build_id = read_build_id(layout),
          .link = read_debug_link(layout),
          .base_name = std::string(name.substr(name.rfind('/') + 1)),
          .folder = file != nullptr ? find_folder(*file) : std::string(),
          .code = code_in(layout)};
}

void set_debug_fetcher(DebugFetcher fetcher) { debug_fetcher() = std::move(fetcher); }

std::shared_ptr<const MappedFile> fetch_debug_file(const std::string& build_id) {
  return debug_fetcher() ? debug_fetcher()(build_id) : nullptr;
}

DebugFileSearch search_in(const DebugSearch& where, DebugFileCriteria criteria) {
  DebugFileSearch search(std::move(criteria));
  for (const std::string& path : where.paths)
    if (!search.done()) search.look_in(path);
  if (!search.done()) search.look_by_build_id(where.system_folder);
  if (!search.done()) search.look_by_link(where.system_folder);
  if (!search.done()) search.fetch();
  return search;
}

bool DebugFileCriteria::accepts_name(std::string_view name) const {
  if (link && name == link->name) return true;
  if (base_name.empty() || !name.starts_with(base_name)) return false;
  constexpr std::string_view endings[] = {"", ".debug", ".dbg", ".sym"};
  return std::ranges::find(endings, name.substr(base_name.size())) != std::end(endings);
}

void DebugFileSearch::warn_unused(const std::string& source, const std::string& reason) {
  if (warnings_.size() < max_warnings)
    warnings_.push_back(fmt::format("the symbol file {} is not used: {}", source, reason));
}

void DebugFileSearch::try_bytes(Bytes bytes, std::shared_ptr<const void> owner,
                                const std::string& source, Expected expected) {
  const auto file = SymbolFile::read(bytes);
  if (!file) {
    if (expected != Expected::maybe) warn_unused(source, file.error().message);
    return;
  }
  // A folder may have the same library for several ABIs.
  if (expected == Expected::by_name && file->machine() != criteria_.machine) return;
  BuildMatch match = match_build(criteria_.machine, criteria_.build_id, *file);
  // Without build ids, the CRC of .gnu_debuglink decides, unless the file is an unstripped copy.
  if (match.answer == BuildMatch::Answer::unknown && criteria_.link &&
      expected != Expected::maybe) {
    const std::uint32_t crc = crc32_of(bytes);
    if (crc == criteria_.link->crc32 || has_same_code(criteria_, bytes))
      match = {BuildMatch::Answer::same, {}};
    else
      match = {BuildMatch::Answer::different,
               fmt::format("its CRC is {:#010x}, .gnu_debuglink says {:#010x}", crc,
                           criteria_.link->crc32)};
  }
  if (match.answer == BuildMatch::Answer::different ||
      (match.answer == BuildMatch::Answer::unknown && expected == Expected::maybe)) {
    if (expected != Expected::maybe) warn_unused(source, match.reason);
    return;
  }
  auto table = file->symbols(Table::debug_file, criteria_.versions);
  if (!table) return warn_unused(source, table.error().message);
  if (table->size() == 0) { // often the stripped binary itself
    if (expected == Expected::named) warn_unused(source, "it has no .symtab");
    return;
  }
  if (match.answer == BuildMatch::Answer::unknown)
    warnings_.push_back(fmt::format("{} may be of another build: {}", source, match.reason));
  keep({std::move(*table), std::move(owner), source, bytes});
}

void DebugFileSearch::keep(FoundSymbols found) {
  const auto layout = read_sections_only(found.bytes);
  found.has_debug_info =
      layout && (find_section(*layout, ".debug_info") || find_section(*layout, ".zdebug_info"));
  if (!found_ || (found.has_debug_info && !found_->has_debug_info)) found_ = std::move(found);
}

void DebugFileSearch::try_file(const std::string& path, Expected expected) {
  auto opened = MappedFile::open(path);
  if (!opened) {
    if (expected != Expected::maybe) warn_unused(path, opened.error().message);
    return;
  }
  auto file = std::make_shared<const MappedFile>(std::move(*opened));
  const Bytes bytes = file->bytes();
  if (expected == Expected::named && archive::Archive::looks_like_archive(bytes))
    return look_in_archive(std::move(file), path);
  try_bytes(bytes, std::move(file), path, expected);
}

void DebugFileSearch::look_in(const std::string& path) {
  const std::size_t warning_count = warnings_.size();
  if (is_folder(path)) {
    look_by_build_id(path);
    if (!done()) look_in_folder(path);
  } else {
    try_file(path, Expected::named);
  }
  if (found_ || warnings_.size() != warning_count) return;
  warnings_.push_back(
      criteria_.build_id
          ? fmt::format("{} has no symbol file with build id {}", path, *criteria_.build_id)
          : fmt::format("{} has no symbol file named {}", path, criteria_.base_name));
}

void DebugFileSearch::look_by_build_id(const std::string& folder) {
  constexpr std::size_t first_part = 2; // one byte in hex
  if (!criteria_.build_id || criteria_.build_id->size() <= first_part) return;
  const std::string path =
      fmt::format("{}/.build-id/{}/{}.debug", folder, criteria_.build_id->substr(0, first_part),
                  criteria_.build_id->substr(first_part));
  if (is_regular_file(path)) try_file(path, Expected::by_name);
}

void DebugFileSearch::fetch() {
  if (!debug_fetcher()) return;
  if (!criteria_.build_id) {
    warnings_.push_back("it has no build id, so no debug file can be downloaded for it");
    return;
  }
  auto file = debug_fetcher()(*criteria_.build_id);
  if (file == nullptr) return;
  const Bytes bytes = file->bytes();
  const std::string path = file->path();
  try_bytes(bytes, std::move(file), path, Expected::named);
}

// Reads the whole file for the CRC: about 1 GB a second.
void DebugFileSearch::try_link(const std::string& path) {
  // Limits the time: 1 GiB for files of a container, which may be of any size, else 8 GiB.
  const std::uint64_t max_file_size = std::uint64_t{split_process_root(path) ? 1U : 8U}
                                      << 30; // bytes
  if (!is_regular_file(path)) return;
  auto opened = MappedFile::open(path);
  if (!opened) return warn_unused(path, opened.error().message);
  auto file = std::make_shared<const MappedFile>(std::move(*opened));
  const Bytes bytes = file->bytes();
  const auto symbols = SymbolFile::read(bytes);
  if (!symbols) return warn_unused(path, symbols.error().message);
  const BuildMatch match = match_build(criteria_.machine, criteria_.build_id, *symbols);
  // A build id that only one of them has does not matter: the CRC proves the match.
  if (match.answer == BuildMatch::Answer::different && (criteria_.build_id && symbols->build_id()))
    return warn_unused(path, match.reason);
  if (!(symbols->machine() == criteria_.machine)) return warn_unused(path, match.reason);
  if (bytes.size() > max_file_size)
    return warn_unused(path,
                       fmt::format("it has {} bytes, too many to check its CRC", bytes.size()));
  if (const std::uint32_t crc = crc32_of(bytes); crc != criteria_.link->crc32)
    return warn_unused(path, fmt::format("its CRC is {:#010x}, .gnu_debuglink says {:#010x}", crc,
                                         criteria_.link->crc32));
  auto table = symbols->symbols(Table::debug_file, criteria_.versions);
  if (!table) return warn_unused(path, table.error().message);
  if (table->size() == 0) return warn_unused(path, "it has no .symtab");
  keep({std::move(*table), std::move(file), path, bytes});
}

void DebugFileSearch::look_by_link(const std::string& system_folder) {
  if (!criteria_.link || criteria_.folder.empty()) return;
  const std::string& name = criteria_.link->name;
  const std::string& folder = criteria_.folder;
  const auto rooted = split_process_root(folder);
  const std::string in_system =
      rooted ? rooted->root + system_folder + rooted->path : system_folder + folder;
  for (const std::string& path :
       {folder + "/" + name, folder + "/.debug/" + name, in_system + "/" + name}) {
    const bool is_itself = path == folder + "/" + criteria_.base_name;
    if (!done() && !is_itself) try_link(path);
  }
}

// Examines all files below a folder, such as a build folder. Files with the right name come first.
void DebugFileSearch::look_in_folder(const std::string& folder) {
  const FolderWalk walk(folder);
  for (const bool same_name : {true, false}) {
    for (const std::string& path : walk.files()) {
      if (criteria_.accepts_name(file_name_of(path)) != same_name) continue;
      try_file(path, same_name ? Expected::by_name : Expected::maybe);
      if (done()) return;
    }
  }
  if (walk.truncated())
    warnings_.push_back(
        fmt::format("{} was not searched completely: it has more than {} files or {} levels; name "
                    "a folder in it or the symbol file",
                    folder, FolderWalk::max_walked, FolderWalk::max_levels));
}

// A ZIP archive of symbol files: native-debug-symbols.zip of the Android Gradle plugin contains
// ABI/libNAME.so, ABI/libNAME.so.dbg or ABI/libNAME.so.sym.
void DebugFileSearch::look_in_archive(const std::shared_ptr<const MappedFile>& file,
                                      const std::string& path) {
  const auto archive = archive::Archive::parse(file->bytes());
  if (!archive) return warn_unused(path, archive.error().message);

  std::vector<archive::ArchiveEntry> same_name;
  std::vector<archive::ArchiveEntry> others;
  const auto whole = archive->for_each([&](const archive::ArchiveEntry& entry) {
    if (criteria_.accepts_name(file_name_of(entry.name)))
      same_name.push_back(entry);
    else if (others.size() < max_others)
      others.push_back(entry);
    return true;
  });
  if (!whole) return warn_unused(path, whole.error().message);

  const auto try_entry = [&](const archive::ArchiveEntry& entry, Expected expected) {
    const std::string source = fmt::format("{}!/{}", path, entry.name);
    const auto warn = [&](const std::string& reason) {
      if (expected != Expected::maybe) warn_unused(source, reason);
    };
    // The first bytes suffice to skip entries of another build or architecture.
    const auto head = archive->extract(entry, head_size);
    if (!head) return warn(head.error().message);
    if (!looks_like_elf(*head)) return;
    if (const auto start = SymbolFile::read(*head); start && start->machine() != criteria_.machine)
      return; // the same library for another ABI
    else if (start && start->build_id() && criteria_.build_id &&
             *start->build_id() != *criteria_.build_id)
      return warn(match_build(criteria_.machine, criteria_.build_id, *start).reason);
    if (entry.size > max_entry_size)
      return warn_unused(source, fmt::format("it has {} bytes, at most {} are inflated: "
                                             "extract it and name the file",
                                             entry.size, max_entry_size));
    auto content = archive->extract(entry, max_entry_size);
    if (!content) return warn(content.error().message);
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
    try_bytes(*owner, owner, source, expected);
  };
  for (const archive::ArchiveEntry& entry : same_name) {
    try_entry(entry, Expected::by_name);
    if (done()) return;
  }
  for (const archive::ArchiveEntry& entry : others) {
    try_entry(entry, Expected::maybe);
    if (done()) return;
  }
}

} // namespace uprobectl::elf
