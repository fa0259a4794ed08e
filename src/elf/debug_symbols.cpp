// Symbols of an image that are not in its own tables.
#include "base/rooted_path.hpp"
#include "elf/debug_search.hpp"
#include "elf/image_state.hpp"
#include "elf/notes.hpp"
#include "elf/sections.hpp"
#include "elf/symbol_file.hpp"
#include "elf/xz.hpp"

namespace uprobectl::elf {

namespace {

Result<std::optional<FoundSymbols>> embedded_symbols(const Layout& layout, KnownVersions versions) {
  const auto section = section_named(layout, ".gnu_debugdata");
  if (!section) return std::nullopt;
  auto content = decode_xz(*section);
  if (!content) return fail(std::move(content).error());
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  const auto file = SymbolFile::read(*owner);
  if (!file) return fail(file.error());
  if (!(file->machine() == layout.machine))
    return fail(ErrorKind::corrupt, "its content is for " + to_string(file->machine()));
  auto table = file->symbols(Table::gnu_debugdata, std::move(versions));
  if (!table) return fail(std::move(table).error());
  if (table->size() == 0) return std::nullopt;
  return FoundSymbols{std::move(*table), owner, ".gnu_debugdata"};
}

KnownVersions known_versions(const Result<DynamicSymbols>& dynamic) {
  return dynamic ? dynamic->versions() : nullptr;
}

// Absolute and free of symbolic links, below the root folder of the process if the file was opened
// there. Empty if no path leads to the file: the one that the kernel shows may be of another mount
// namespace, and mean another file here.
std::string folder_of(const MappedFile& file) {
  std::string path;
  if (const auto rooted = in_process_root(file.path()))
    path = real_path_in(*rooted).value_or(std::string());
  else
    path = file.real_path().value_or(file.path());
  const auto there = status_of(path);
  if (!there || FileIdentity{there->st_dev, there->st_ino} != file.identity()) return {};
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Wanted wanted_for(const Layout& layout, const BinaryPath& path, const MappedFile* file) {
  const std::string_view name = path.entry ? *path.entry : path.file;
  return {.machine = layout.machine,
          .build_id = read_build_id(layout),
          .link = read_debug_link(layout),
          .base_name = std::string(name.substr(name.rfind('/') + 1)),
          .folder = file != nullptr ? folder_of(*file) : std::string()};
}

DebugFileSearch search_in(const DebugSearch& where, Wanted wanted) {
  DebugFileSearch search(std::move(wanted));
  for (const std::string& place : where.places)
    if (!search.done()) search.look_in(place);
  if (!search.done()) search.look_by_build_id(where.system_folder);
  if (!search.done()) search.look_by_link(where.system_folder);
  return search;
}

} // namespace

std::optional<FoundSymbols> find_debug_file(const Image& image, const DebugSearch& where) {
  const auto layout = read_layout(image.bytes());
  if (!layout) return std::nullopt;
  return std::move(search_in(where, wanted_for(*layout, image.path(), image.file().get())).found());
}

std::span<const SymbolTable> Image::debug_symbols() const { return state_->debug_tables; }

DebugReport Image::add_embedded_symbols() {
  auto found = embedded_symbols(state_->layout, known_versions(state_->dynamic));
  if (!found) return {{}, {".gnu_debugdata is not used: " + found.error().message}};
  if (!*found) return {};
  state_->debug_tables.push_back(std::move((*found)->table));
  state_->debug_owners.push_back(std::move((*found)->owner));
  return {(*found)->source, {}};
}

DebugReport Image::add_debug_file(const DebugSearch& where) {
  Wanted wanted = wanted_for(state_->layout, state_->path, state_->file.get());
  wanted.versions = known_versions(state_->dynamic);
  DebugFileSearch search = search_in(where, std::move(wanted));
  DebugReport report{{}, std::move(search.warnings())};
  if (auto& found = search.found()) {
    report.used = std::move(found->source);
    state_->debug_tables.push_back(std::move(found->table));
    state_->debug_owners.push_back(std::move(found->owner));
  }
  return report;
}

} // namespace uprobectl::elf
