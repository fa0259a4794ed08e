// SPDX-License-Identifier: Apache-2.0
// Symbol files (the content of .gnu_debugdata, the output of `objcopy --only-keep-debug`,
// unstripped copies) and the search for the symbol file of an image. Only symbols are read from
// them: program headers may be missing or stale, and code sections are NOBITS.
#pragma once

#include "elf/dynamic_table.hpp"

#include <functional>

namespace uprobectl::elf {

// A parsed symbol file. A view of the bytes, which must outlive it.
class SymbolFile {
public:
  static Result<SymbolFile> read(Bytes bytes);

  const Machine& machine() const { return layout_.machine; }
  const std::optional<std::string>& build_id() const { return build_id_; }
  // Returns its .symtab, which may be empty. `table` becomes the source of the symbols. `versions`
  // are those of the image that it belongs to.
  Result<SymbolTable> symbols(Table table, KnownVersions versions = nullptr) const;

private:
  explicit SymbolFile(Layout layout);

  Layout layout_;
  std::optional<std::string> build_id_;
};

// Whether a symbol file and an image are of the same build.
struct BuildMatch {
  enum class Answer { same, unknown, different };
  Answer answer = Answer::different;
  std::string reason; // unless same: a message to append to the file's name
};
BuildMatch match_build(const Machine& machine, const std::optional<std::string>& build_id,
                       const SymbolFile& file);

// .gnu_debuglink: a file name, zeros up to a multiple of four, the CRC-32 of the file (GDB manual,
// "Separate Debug Files").
struct DebugLink {
  std::string name; // without folders
  std::uint32_t crc32 = 0;
};

// Nullopt if the section is missing or malformed.
std::optional<DebugLink> read_debug_link(const Layout& layout);

// The properties of an image that its symbol file must match.
struct DebugFileCriteria {
  Machine machine;
  std::optional<std::string> build_id;
  std::optional<DebugLink> link;
  std::string base_name; // of the file or entry
  std::string folder;    // of the file, "" for bytes without a file
  KnownVersions versions = {};
  // The file bytes of the executable segments, by address; without the file header. Valid as long
  // as the image.
  std::vector<std::pair<VirtualAddress, Bytes>> code = {};

  // Whether a symbol file of the image may have this name: the image's name, also with ".debug",
  // ".dbg" or ".sym" appended, or the name in .gnu_debuglink.
  bool accepts_name(std::string_view name) const;
};

// The symbols of a symbol file, with the owner of the bytes.
struct FoundSymbols {
  SymbolTable table;
  std::shared_ptr<const void> owner;
  std::string source;          // the file, or "ARCHIVE!/ENTRY"
  Bytes bytes = {};            // of the whole symbol file, valid as long as the owner
  bool has_debug_info = false; // besides symbols
};

// Searches for the symbol file of one image. Uses the first candidate that belongs to the image and
// has a .symtab and debug information; without one the first that has a .symtab. Warns about
// candidates that should belong to the image but do not.
class DebugFileSearch {
public:
  explicit DebugFileSearch(DebugFileCriteria criteria) : criteria_(std::move(criteria)) {}

  // A path that the user named: a folder, a symbol file, or a ZIP archive of symbol files.
  void look_in(const std::string& path);
  // .build-id/xx/rest.debug in the folder.
  void look_by_build_id(const std::string& folder);
  // The file that the debug fetcher returns for the build id.
  void fetch();
  // The name in .gnu_debuglink: next to the image, in its .debug folder, in the system folder.
  void look_by_link(const std::string& system_folder);

  // Whether a file with debug information was found.
  bool done() const { return found_ && found_->has_debug_info; }
  std::optional<FoundSymbols>& found() { return found_; }
  std::vector<std::string>& warnings() { return warnings_; }

private:
  // Why a candidate is examined, which decides whether a mismatch is a warning: any file of a
  // folder, a file with the right name, or a file that the user named.
  enum class Expected { maybe, by_name, named };

  void try_file(const std::string& path, Expected expected);
  void try_link(const std::string& path);
  void try_bytes(Bytes bytes, std::shared_ptr<const void> owner, const std::string& source,
                 Expected expected);
  void look_in_folder(const std::string& folder);
  void look_in_archive(const std::shared_ptr<const MappedFile>& file, const std::string& path);
  // Uses the file, unless an earlier one has as much.
  void keep(FoundSymbols found);
  void warn_unused(const std::string& source, const std::string& reason);

  DebugFileCriteria criteria_;
  std::optional<FoundSymbols> found_;
  std::vector<std::string> warnings_;
};

// `file` is null if the image is not in a file.
DebugFileCriteria debug_file_criteria(const Layout& layout, const BinaryPath& path,
                                      const MappedFile* file);
// Fetches the debug file with a build id from outside of this machine. Returns null if there is
// none, which it has reported itself.
using DebugFetcher = std::function<std::shared_ptr<const MappedFile>(const std::string& build_id)>;
// Sets what all searches ask after the paths and folders of the search; empty, the default, asks
// nothing. Must not be called during a search.
void set_debug_fetcher(DebugFetcher fetcher);
// Asks the debug fetcher. Null if there is none, or if it has no file.
std::shared_ptr<const MappedFile> fetch_debug_file(const std::string& build_id);

// Searches all paths and folders in order of preference.
DebugFileSearch search_in(const DebugSearch& where, DebugFileCriteria criteria);

// The symbols that Image::add_debug_file would add or has added. A search is not repeated.
std::optional<FoundSymbols> find_debug_file(const Image& image, const DebugSearch& where);

} // namespace uprobectl::elf
