// SPDX-License-Identifier: Apache-2.0
// Writes the folder that read_saved_stack() reads (uprobectl/unwind/saved.hpp).
#pragma once

#include "uprobectl/unwind.hpp"
#include "util/workstation.hpp"

namespace uprobectl::unwind {

// Writes a line "NAME: HEX" for each known register, and the line that was_at_function_entry()
// finds; other readers skip that line as an unknown register.
std::string format_registers(const Registers& registers, bool at_function_entry);
// Writes the mappings in the format of /proc/PID/maps. Read and write permissions are not known and
// are written as "r-".
std::string format_maps(std::span<const process::Mapping> mappings);

// A copy that a folder has of a mapped file.
struct FileCopy {
  std::weak_ptr<const MappedFile> file; // its inode number is used again after it is closed
  std::string path = {};
};

// A folder into which a stack is saved.
class SavedFolder {
public:
  // Creates the folder, which must not exist. Only its owner can read it, because it will contain
  // memory of a process.
  static Result<SavedFolder> create(const std::string& folder, Workstation& workstation);

  // Writes a file. `source`: path of the file that the content is mapped from, for the error if
  // that file has shrunk; may be empty.
  Result<void> write(std::string_view name, Bytes content, std::string_view source = {});
  // Writes a copy of a mapped file under its base name, prefixed by a number if the name is taken.
  // Returns its path for maps.txt, or nullopt if the file is too large. `copies`: earlier copies by
  // file identity, which are hard-linked; updated.
  Result<std::optional<std::string>> add_file(const MappedObject& object, std::string_view path,
                                              std::map<FileIdentity, FileCopy>& copies);

  void remove(); // removes its content too; does not follow links

private:
  SavedFolder(std::string folder, Workstation& workstation)
      : folder_(std::move(folder)), workstation_(&workstation) {}
  std::string free_name(std::string_view path) const;

  std::string folder_;
  Workstation* workstation_; // has the folder
  std::set<std::string, std::less<>> names_;
  std::uint64_t written_ = 0; // bytes of files
};

} // namespace uprobectl::unwind
