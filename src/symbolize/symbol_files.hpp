// SPDX-License-Identifier: Apache-2.0
// Finds the file with the code or the symbols of a module that only a report describes: its build
// id, its name, and where it was on another machine.
#pragma once

#include "uprobectl/symbolize.hpp"

namespace uprobectl::symbolize {

// A module as a crash report describes it.
struct WantedModule {
  std::string path;                      // of the file or archive, as in the report
  std::optional<std::string> entry;      // in the archive: its name, or the end of it
  std::optional<FileOffset> image_begin; // where the ELF image begins in the archive
  std::optional<std::string> build_id;   // lower-case hex
  bool is_local = false;                 // the path may be one of this machine

  std::string name() const; // "libfoo.so"; of an image without a name that of the archive
};

// The image of a file that belongs to a wanted module.
struct SymbolImage {
  MappedObject object;
  std::string path;
  std::optional<std::string> entry; // in the archive at the path
  FileOffset begin;                 // of the image in the object
  std::uint64_t size = 0;           // bytes
  // Neither the report nor the image has a build id to prove that they belong together.
  bool is_unproved = false;
};

// The files and archives at the paths that the user named. Reads names when first needed, build
// ids when no name fits. Not thread-safe.
class SymbolFiles {
public:
  explicit SymbolFiles(elf::DebugSearch where) : where_(std::move(where)) {}

  // Returns the best file with the module's build id: one with debug information, else with
  // .symtab, else any. A module without build id is found by its name. Fails with not_found, with
  // what to provide, and with ambiguous if a name is not enough.
  Result<SymbolImage> find(const WantedModule& wanted);

  // Returns what the search has left out so far.
  const std::vector<std::string>& warnings() const { return warnings_; }

  static constexpr std::size_t max_entries = 100000;                      // of all archives
  static constexpr std::uint64_t max_inflated = std::uint64_t{512} << 20; // bytes, of an entry

private:
  enum class Content { nothing, code, symbols, debug_info };
  // A file, or an entry of an archive.
  struct Candidate {
    std::string path;
    std::optional<std::string> entry = {};
    std::shared_ptr<const MappedFile> fetched = {}; // a file that is not at the path
    bool is_read = false;                           // the members below are known
    Content content = Content::nothing;
    std::optional<std::string> build_id = {};
  };
  using Indexes = std::vector<std::size_t>; // of candidates_

  void list_paths();
  void list_archive(const std::string& path);
  void list_archives();
  void add(Candidate candidate);
  static Result<std::shared_ptr<const MappedFile>> open(const Candidate& candidate);
  void read(Candidate& candidate);
  void read_build_ids();
  Indexes named(const WantedModule& wanted);
  std::optional<std::size_t> in_archive_at(const WantedModule& wanted, std::string& why_not);
  std::optional<std::size_t> best_of(const Indexes& indexes, const std::string& build_id);
  Result<std::size_t> choose_by_name(const WantedModule& wanted, const Indexes& indexes);
  Result<std::size_t> choose(const WantedModule& wanted);
  Result<std::size_t> choose_outside_archive(const WantedModule& wanted);
  std::optional<std::size_t> choose_elsewhere(const WantedModule& wanted);
  static std::string other_build(const Candidate& candidate, const std::string& build_id);
  Error not_found(const WantedModule& wanted, const Indexes& same_name);

  elf::DebugSearch where_;
  std::vector<std::string> warnings_;
  bool listed_ = false;
  bool listed_archives_ = false;
  bool read_all_ = false;
  std::vector<Candidate> candidates_;
  std::vector<std::string> archives_; // below folders: listed only if no file has the name
  std::size_t entries_ = 0;
  std::multimap<std::string, std::size_t, std::less<>> by_name_;     // base names
  std::multimap<std::string, std::size_t, std::less<>> by_build_id_; // once read_all_
};

} // namespace uprobectl::symbolize
