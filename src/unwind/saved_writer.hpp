// SPDX-License-Identifier: Apache-2.0
// Writes a folder that read_saved_stack() can read.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// A "NAME: HEX" line for each known register, and the mark of was_at_function_entry(), which other
// readers take for an unknown register.
std::string registers_text(const Registers& registers, bool at_function_entry);
// The format of /proc/PID/maps; read and write permissions are not known.
std::string maps_text(std::span<const Mapping> mappings);

class SavedFolder {
public:
  // Creates the folder, which must not exist, for its owner only: it will contain memory of a
  // process.
  static Result<SavedFolder> create(const std::string& folder);

  // `source`: the file that the content is mapped from, for the error if it has shrunk; may be
  // empty.
  Result<void> write(std::string_view name, Bytes content, std::string_view source = {});
  // Writes the file under its base name, or with a number before it if that is taken. Returns its
  // path for maps.txt, or nullopt if it is too large. copies: earlier copies by identity; updated.
  Result<std::optional<std::string>> add_file(const MappedObject& object, std::string_view path,
                                              std::map<FileIdentity, std::string>& copies);

  void remove(); // with its content; does not follow links

private:
  explicit SavedFolder(std::string folder) : folder_(std::move(folder)) {}
  std::string free_name(std::string_view path) const;

  std::string folder_;
  std::set<std::string, std::less<>> names_;
  std::uint64_t written_ = 0; // bytes of files
};

} // namespace uprobectl::unwind
