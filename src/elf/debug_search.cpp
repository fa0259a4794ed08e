#include "elf/debug_search.hpp"

#include "base/rooted_path.hpp"
#include "uprobectl/archive.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>

namespace uprobectl::elf {

namespace {

constexpr std::size_t most_warnings = 5;

bool exists(const std::string& path) {
  const auto status = status_of(path);
  return status && S_ISREG(status->st_mode);
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

} // namespace

bool Wanted::is_name(std::string_view name) const {
  if (link && name == link->name) return true;
  if (base_name.empty() || !name.starts_with(base_name)) return false;
  constexpr std::string_view endings[] = {"", ".debug", ".dbg", ".sym"};
  return std::ranges::find(endings, name.substr(base_name.size())) != std::end(endings);
}

void DebugFileSearch::warn_unused(const std::string& source, const std::string& reason) {
  if (warnings_.size() < most_warnings)
    warnings_.push_back(fmt::format("the symbol file {} is not used: {}", source, reason));
}

void DebugFileSearch::try_bytes(Bytes bytes, std::shared_ptr<const void> owner,
                                const std::string& source, Expected expected) {
  const auto file = SymbolFile::read(bytes);
  if (!file) {
    if (expected != Expected::maybe) warn_unused(source, file.error().message);
    return;
  }
  const Kinship kinship = compare(wanted_.machine, wanted_.build_id, *file);
  if (kinship.answer == Kinship::Answer::different ||
      (kinship.answer == Kinship::Answer::unknown && expected == Expected::maybe)) {
    if (expected != Expected::maybe) warn_unused(source, kinship.reason);
    return;
  }
  auto table = file->symbols(Table::debug_file, wanted_.versions);
  if (!table) return warn_unused(source, table.error().message);
  if (table->size() == 0) { // the stripped binary itself often lies beside the other
    if (expected == Expected::named) warn_unused(source, "it has no .symtab");
    return;
  }
  if (kinship.answer == Kinship::Answer::unknown)
    warnings_.push_back(fmt::format("{} may be of another build: {}", source, kinship.reason));
  found_ = FoundSymbols{std::move(*table), std::move(owner), source, bytes};
}

void DebugFileSearch::try_file(const std::string& path, Expected expected) {
  auto opened = MappedFile::open(path);
  if (!opened) {
    if (expected != Expected::maybe) warn_unused(path, opened.error().message);
    return;
  }
  auto file = std::make_shared<const MappedFile>(std::move(*opened));
  const Bytes bytes = file->bytes();
  if (expected == Expected::named && Archive::looks_like_archive(bytes))
    return look_in_archive(std::move(file), path);
  try_bytes(bytes, std::move(file), path, expected);
}

void DebugFileSearch::look_in(const std::string& place) {
  const std::size_t said = warnings_.size();
  if (is_folder(place)) {
    look_by_build_id(place);
    if (!done()) look_in_folder(place);
  } else {
    try_file(place, Expected::named);
  }
  if (done() || warnings_.size() != said) return;
  warnings_.push_back(
      wanted_.build_id
          ? fmt::format("{} has no symbol file with build id {}", place, *wanted_.build_id)
          : fmt::format("{} has no symbol file named {}", place, wanted_.base_name));
}

void DebugFileSearch::look_by_build_id(const std::string& folder) {
  constexpr std::size_t first_part = 2; // one byte in hex
  if (!wanted_.build_id || wanted_.build_id->size() <= first_part) return;
  const std::string path =
      fmt::format("{}/.build-id/{}/{}.debug", folder, wanted_.build_id->substr(0, first_part),
                  wanted_.build_id->substr(first_part));
  if (exists(path)) try_file(path, Expected::by_name);
}

// The CRC is that of the whole debug file, so all of it is read: about 1 GB a second.
void DebugFileSearch::try_link(const std::string& path) {
  // A container may plant any file beside its library.
  const std::uint64_t largest_file = std::uint64_t{in_process_root(path) ? 1U : 8U} << 30; // bytes
  if (!exists(path)) return;
  auto opened = MappedFile::open(path);
  if (!opened) return warn_unused(path, opened.error().message);
  auto file = std::make_shared<const MappedFile>(std::move(*opened));
  const Bytes bytes = file->bytes();
  const auto symbols = SymbolFile::read(bytes);
  if (!symbols) return warn_unused(path, symbols.error().message);
  const Kinship kinship = compare(wanted_.machine, wanted_.build_id, *symbols);
  // Without two build ids the CRC is the proof, with them it comes on top.
  if (kinship.answer == Kinship::Answer::different && (wanted_.build_id && symbols->build_id()))
    return warn_unused(path, kinship.reason);
  if (!(symbols->machine() == wanted_.machine)) return warn_unused(path, kinship.reason);
  if (bytes.size() > largest_file)
    return warn_unused(path,
                       fmt::format("it has {} bytes, more than are read for a CRC", bytes.size()));
  if (const std::uint32_t crc = crc32_of(bytes); crc != wanted_.link->crc32)
    return warn_unused(path, fmt::format("its CRC is {:#010x}, .gnu_debuglink says {:#010x}", crc,
                                         wanted_.link->crc32));
  auto table = symbols->symbols(Table::debug_file, wanted_.versions);
  if (!table) return warn_unused(path, table.error().message);
  if (table->size() == 0) return warn_unused(path, "it has no .symtab");
  found_ = FoundSymbols{std::move(*table), std::move(file), path, bytes};
}

void DebugFileSearch::look_by_link(const std::string& system_folder) {
  if (!wanted_.link || wanted_.folder.empty()) return;
  const std::string& name = wanted_.link->name;
  const std::string& folder = wanted_.folder;
  const auto rooted = in_process_root(folder);
  const std::string in_system =
      rooted ? rooted->root + system_folder + rooted->path : system_folder + folder;
  for (const std::string& path :
       {folder + "/" + name, folder + "/.debug/" + name, in_system + "/" + name}) {
    const bool is_itself = path == folder + "/" + wanted_.base_name;
    if (!done() && !is_itself) try_link(path);
  }
}

} // namespace uprobectl::elf
