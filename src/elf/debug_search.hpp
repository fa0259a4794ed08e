// The search for the debug file of an image: which files may be it, and which one is.
#pragma once

#include "elf/symbol_file.hpp"

namespace uprobectl::elf {

// What is known of the image that symbols are wanted for.
struct Wanted {
  Machine machine;
  std::optional<std::string> build_id;
  std::optional<DebugLink> link;
  std::string base_name; // of the file or entry
  std::string folder;    // where it lies, "" for bytes without a file
  KnownVersions versions = {};

  // Whether a file of this name may be meant to be its symbol file: the same name, with ".debug",
  // ".dbg" or ".sym" behind it, or the name in .gnu_debuglink.
  bool is_name(std::string_view name) const;
};

// A symbol table with what owns its bytes.
struct FoundSymbols {
  SymbolTable table;
  std::shared_ptr<const void> owner;
  std::string source; // the file, or "ARCHIVE!/ENTRY"
  Bytes bytes = {};   // of the whole symbol file, which the owner keeps
};

// One search: takes the first candidate that belongs to the image and has a .symtab. What was
// expected to belong but does not becomes a warning.
class DebugFileSearch {
public:
  explicit DebugFileSearch(Wanted wanted) : wanted_(std::move(wanted)) {}

  // A place a person named: a folder, a symbol file, or a ZIP archive of symbol files.
  void look_in(const std::string& place);
  // .build-id/xx/rest.debug in the folder.
  void look_by_build_id(const std::string& folder);
  // What .gnu_debuglink names: beside the image, in .debug there, in the system folder.
  void look_by_link(const std::string& system_folder);

  bool done() const { return found_.has_value(); }
  std::optional<FoundSymbols>& found() { return found_; }
  std::vector<std::string>& warnings() { return warnings_; }

private:
  // How far a candidate is expected to be the one; the more, the more is said when it is not.
  enum class Expected { maybe, by_name, named };

  void try_file(const std::string& path, Expected expected);
  void try_link(const std::string& path);
  void try_bytes(Bytes bytes, std::shared_ptr<const void> owner, const std::string& source,
                 Expected expected);
  void look_in_folder(const std::string& folder);
  void look_in_archive(const std::shared_ptr<const MappedFile>& file, const std::string& path);
  void warn_unused(const std::string& source, const std::string& reason);

  Wanted wanted_;
  std::optional<FoundSymbols> found_;
  std::vector<std::string> warnings_;
};

// file: null for bytes without one.
Wanted wanted_for(const Layout& layout, const BinaryPath& path, const MappedFile* file);
// Looks in all places, best first.
DebugFileSearch search_in(const DebugSearch& where, Wanted wanted);

// What Image::add_debug_file would add.
std::optional<FoundSymbols> find_debug_file(const Image& image, const DebugSearch& where);

} // namespace uprobectl::elf
