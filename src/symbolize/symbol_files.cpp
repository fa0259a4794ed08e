// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbol_files.hpp"

#include "elf/debug_file.hpp"
#include "elf/folder_walk.hpp"
#include "elf/layout.hpp"
#include "elf/sections.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/path.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl::symbolize {

namespace {

// Appended to the name of a library, or to its build id.
constexpr std::string_view endings[] = {"", ".debug", ".dbg", ".sym"};
constexpr std::uint64_t head_size = 64 << 10; // bytes, enough for a build id

bool has_archive_name(std::string_view path) {
  for (const std::string_view ending : {".zip", ".apk", ".aar", ".aab", ".apks", ".xapk", ".jar"})
    if (path.ends_with(ending)) return true;
  return false;
}

// The number of folders, from the file upward, that two paths have in common.
std::size_t shared_end(std::string_view a, std::string_view b) {
  std::size_t shared = 0;
  while (!a.empty() && !b.empty() && file_name_of(a) == file_name_of(b)) {
    const std::size_t name = file_name_of(a).size();
    ++shared;
    a.remove_suffix(std::min(name + 1, a.size()));
    b.remove_suffix(std::min(name + 1, b.size()));
  }
  return shared;
}

std::string in_build_id_folder(std::string_view folder, std::string_view build_id) {
  constexpr std::size_t first_part = 2; // one byte in hex
  return build_id.size() <= first_part
             ? std::string()
             : fmt::format("{}/.build-id/{}/{}.debug", folder, build_id.substr(0, first_part),
                           build_id.substr(first_part));
}

std::string display(const std::string& path, const std::optional<std::string>& entry) {
  return to_string(BinaryPath{path, entry});
}

} // namespace

std::string WantedModule::name() const {
  return std::string(file_name_of(entry ? std::string_view(*entry) : std::string_view(path)));
}

void SymbolFiles::add(Candidate candidate) {
  const std::string_view path = candidate.entry ? *candidate.entry : candidate.path;
  by_name_.emplace(file_name_of(path), candidates_.size());
  candidates_.push_back(std::move(candidate));
}

void SymbolFiles::list_archive(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) return;
  const auto archive = archive::Archive::parse(file->bytes());
  if (!archive) return;
  (void)archive->for_each([&](const archive::ArchiveEntry& entry) {
    if (entry.encrypted || entry.size == 0 || entry.name.ends_with('/')) return true;
    if (++entries_ > max_entries) return false;
    add({.path = path, .entry = std::string(entry.name)});
    return true;
  });
  if (entries_ > max_entries)
    warnings_.push_back(fmt::format("{} was not searched completely: the archives have more than "
                                    "{} entries",
                                    path, max_entries));
}

void SymbolFiles::list_paths() {
  if (std::exchange(listed_, true)) return;
  for (const std::string& named : where_.paths) {
    if (is_folder(named)) {
      const elf::FolderWalk walk(named);
      for (const std::string& path : walk.files()) {
        if (has_archive_name(path)) archives_.push_back(path);
        add({.path = path});
      }
      if (walk.truncated())
        warnings_.push_back(fmt::format("{} was not searched completely: it has more than {} files "
                                        "or {} levels; name a folder in it",
                                        named, elf::FolderWalk::max_walked,
                                        elf::FolderWalk::max_levels));
    } else {
      add({.path = named});
      const auto file = MappedFile::open(named);
      if (file && !elf::looks_like_elf(file->bytes()) &&
          archive::Archive::looks_like_archive(file->bytes()))
        list_archive(named);
    }
  }
}

void SymbolFiles::list_archives() {
  if (std::exchange(listed_archives_, true)) return;
  for (const std::string& path : archives_) list_archive(path);
}

Result<std::shared_ptr<const MappedFile>> SymbolFiles::open(const Candidate& candidate) {
  if (candidate.fetched != nullptr) return candidate.fetched;
  auto file = MappedFile::open(candidate.path);
  if (!file) return fail(std::move(file).error());
  return std::make_shared<const MappedFile>(std::move(*file));
}

// Reads the head of a file. For an entry of an archive this leaves open whether it has sections,
// because these are at its end.
void SymbolFiles::read(Candidate& candidate) {
  if (std::exchange(candidate.is_read, true)) return;
  const auto file = open(candidate);
  if (!file) return;
  std::vector<std::byte> head;
  Bytes bytes = (*file)->bytes();
  if (candidate.entry) {
    const auto archive = archive::Archive::parse(bytes);
    if (!archive) return;
    const auto entry = archive->find(*candidate.entry);
    if (!entry) return;
    auto start = archive->extract(*entry, head_size);
    if (!start) return;
    head = std::move(*start);
    bytes = head;
  }
  if (!elf::looks_like_elf(bytes)) return;
  const auto symbols = elf::SymbolFile::read(bytes);
  if (!symbols) return;
  candidate.build_id = symbols->build_id();
  candidate.content = Content::code;
  const auto layout = elf::read_sections_only(bytes);
  if (candidate.entry || !layout) return;
  if (elf::find_section(*layout, ".debug_info"))
    candidate.content = Content::debug_info;
  else if (elf::find_section(*layout, ".symtab"))
    candidate.content = Content::symbols;
}

void SymbolFiles::read_build_ids() {
  if (std::exchange(read_all_, true)) return;
  list_archives();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    read(candidates_[i]);
    if (candidates_[i].build_id) by_build_id_.emplace(*candidates_[i].build_id, i);
  }
}

// The candidates whose name is that of the module, or consists of its build id as in a .build-id
// folder.
SymbolFiles::Indexes SymbolFiles::named(const WantedModule& wanted) {
  std::set<std::size_t> found;
  const auto look_up = [&](const std::string& base) {
    for (const std::string_view ending : endings) {
      const auto [first, last] = by_name_.equal_range(base + std::string(ending));
      for (auto at = first; at != last; ++at) found.insert(at->second);
    }
  };
  const std::string name = wanted.name();
  if (!name.empty()) look_up(name);
  if (wanted.build_id && wanted.build_id->size() > 2) {
    look_up(*wanted.build_id);
    look_up(wanted.build_id->substr(2));
  }
  return {found.begin(), found.end()};
}

// "base.apk (offset 0x28000)" names the library by its offset.
// `why_not` stays empty if no archive has the name.
std::optional<std::size_t> SymbolFiles::in_archive_at(const WantedModule& wanted,
                                                      std::string& why_not) {
  if (!wanted.image_begin) return std::nullopt;
  const auto [first, last] = by_name_.equal_range(file_name_of(wanted.path));
  for (auto at = first; at != last; ++at) {
    const std::string path = candidates_[at->second].path;
    if (candidates_[at->second].entry) continue;
    const auto file = MappedFile::open(path);
    if (!file) continue;
    const auto archive = archive::Archive::parse(file->bytes());
    if (!archive) continue;
    const auto entry = archive->entry_at(*wanted.image_begin);
    if (!entry || !*entry) {
      why_not = fmt::format("{} has no library at {:#x}, where the report has one: it is of "
                            "another build",
                            path, wanted.image_begin->value);
      continue;
    }
    Candidate candidate{.path = path, .entry = std::string((*entry)->name)};
    read(candidate);
    if (candidate.content == Content::nothing) continue;
    if (wanted.build_id && candidate.build_id != wanted.build_id) {
      why_not = other_build(candidate, *wanted.build_id);
      continue;
    }
    candidates_.push_back(std::move(candidate));
    return candidates_.size() - 1;
  }
  return std::nullopt;
}

std::string SymbolFiles::other_build(const Candidate& candidate, const std::string& build_id) {
  return fmt::format("{} is of another build: its build id is {}, that of the report is {}",
                     display(candidate.path, candidate.entry),
                     candidate.build_id.value_or("missing"), build_id);
}

std::optional<std::size_t> SymbolFiles::best_of(const Indexes& indexes,
                                                const std::string& build_id) {
  std::optional<std::size_t> best;
  for (const std::size_t index : indexes) {
    read(candidates_[index]);
    const Candidate& candidate = candidates_[index];
    if (candidate.content == Content::nothing || candidate.build_id != build_id) continue;
    if (!best || candidate.content > candidates_[*best].content) best = index;
  }
  return best;
}

Error SymbolFiles::not_found(const WantedModule& wanted, const Indexes& same_name) {
  const std::string name =
      wanted.entry ? display(std::string(file_name_of(wanted.path)), wanted.entry) : wanted.name();
  if (!wanted.build_id)
    return {ErrorKind::not_found, name + ": no file of this name: give it with --symbols"};
  for (const std::size_t index : same_name) {
    const Candidate& candidate = candidates_[index];
    if (candidate.content == Content::nothing) continue;
    return {ErrorKind::not_found,
            fmt::format("{}: {}", name, other_build(candidate, *wanted.build_id))};
  }
  return {ErrorKind::not_found,
          fmt::format("{}: no file with build id {}: give its unstripped copy with --symbols", name,
                      *wanted.build_id)};
}

// A name is ambiguous if files of several builds have it, and their folders do not tell which.
Result<std::size_t> SymbolFiles::choose_by_name(const WantedModule& wanted,
                                                const Indexes& indexes) {
  std::optional<std::size_t> best;
  std::size_t shared = 0;
  bool is_ambiguous = false;
  for (const std::size_t index : indexes) {
    read(candidates_[index]);
    const Candidate& candidate = candidates_[index];
    if (candidate.content == Content::nothing) continue;
    const std::size_t in_common =
        shared_end(wanted.entry.value_or(wanted.path), candidate.entry.value_or(candidate.path));
    const bool is_same_build =
        best && candidates_[*best].build_id == candidate.build_id && candidate.build_id.has_value();
    if (best && in_common == shared && !is_same_build) is_ambiguous = true;
    if (best && in_common < shared) continue;
    if (best && in_common == shared && candidate.content <= candidates_[*best].content) continue;
    if (in_common > shared) is_ambiguous = false;
    best = index;
    shared = in_common;
  }
  if (!best) return fail(not_found(wanted, {}));
  if (is_ambiguous)
    return fail(ErrorKind::ambiguous,
                fmt::format("{}: the report has no build id and several files have this name: name "
                            "one with --symbols",
                            wanted.name()));
  return *best;
}

// Files that the user has not named.
std::optional<std::size_t> SymbolFiles::choose_elsewhere(const WantedModule& wanted) {
  const auto use = [&](Candidate candidate) -> std::optional<std::size_t> {
    read(candidate);
    if (candidate.content == Content::nothing) return std::nullopt;
    if (wanted.build_id && candidate.build_id != wanted.build_id) return std::nullopt;
    candidates_.push_back(std::move(candidate));
    return candidates_.size() - 1;
  };
  if (wanted.is_local && !wanted.entry && wanted.path.starts_with('/'))
    if (const auto found = use({.path = wanted.path})) return found;
  if (!wanted.build_id) return std::nullopt;
  if (const std::string path = in_build_id_folder(where_.system_folder, *wanted.build_id);
      !path.empty())
    if (const auto found = use({.path = path})) return found;
  if (auto fetched = elf::fetch_debug_file(*wanted.build_id)) {
    std::string path = fetched->path();
    return use({.path = std::move(path), .fetched = std::move(fetched)});
  }
  return std::nullopt;
}

Result<std::size_t> SymbolFiles::choose(const WantedModule& wanted) {
  list_paths();
  std::string why_not;
  if (const auto found = in_archive_at(wanted, why_not)) return *found;
  auto found = choose_outside_archive(wanted);
  // An image without a name is known by its offset alone.
  if (!found && !wanted.entry && !why_not.empty())
    return fail(ErrorKind::not_found, fmt::format("{}: {}", wanted.name(), why_not));
  return found;
}

Result<std::size_t> SymbolFiles::choose_outside_archive(const WantedModule& wanted) {
  Indexes same_name = named(wanted);
  if (!wanted.build_id) {
    if (same_name.empty()) list_archives();
    if (same_name.empty()) same_name = named(wanted);
    if (same_name.empty())
      if (const auto found = choose_elsewhere(wanted)) return *found;
    return choose_by_name(wanted, same_name);
  }
  if (const auto found = best_of(same_name, *wanted.build_id)) return *found;
  read_build_ids();
  const auto [first, last] = by_build_id_.equal_range(*wanted.build_id);
  Indexes same_build;
  for (auto at = first; at != last; ++at) same_build.push_back(at->second);
  if (const auto found = best_of(same_build, *wanted.build_id)) return *found;
  if (const auto found = choose_elsewhere(wanted)) return *found;
  return fail(not_found(wanted, named(wanted)));
}

Result<SymbolImage> SymbolFiles::find(const WantedModule& wanted) {
  const auto chosen = choose(wanted);
  if (!chosen) return fail(chosen.error());
  const Candidate& candidate = candidates_[*chosen];
  const auto opened = open(candidate);
  if (!opened) return fail(opened.error());
  const std::shared_ptr<const MappedFile>& file = *opened;
  SymbolImage image{.object = {file->bytes(), file, file},
                    .path = candidate.path,
                    .entry = candidate.entry,
                    .begin = {},
                    .size = file->bytes().size(),
                    .is_unproved = !wanted.build_id};
  if (!candidate.entry) return image;
  const auto archive = archive::Archive::parse(file->bytes());
  if (!archive) return fail(archive.error());
  const auto entry = archive->find(*candidate.entry);
  if (!entry) return fail(entry.error());
  if (entry->probeable()) {
    const auto begin = archive->data_offset(*entry);
    if (!begin) return fail(begin.error());
    image.begin = *begin;
    image.size = entry->size;
    return image;
  }
  if (entry->size > max_inflated)
    return fail(ErrorKind::unsupported,
                fmt::format("{} has {} bytes, at most {} are inflated: extract it",
                            display(candidate.path, candidate.entry), entry->size, max_inflated));
  auto content = archive->extract(*entry, max_inflated);
  if (!content) return fail(std::move(content).error());
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  image.object = {*owner, owner, nullptr};
  image.size = owner->size();
  return image;
}

} // namespace uprobectl::symbolize
