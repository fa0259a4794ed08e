// Writes the folder that read_saved_stack() reads.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::stacks {

// "NAME: HEX" lines of those that are known, and the mark that was_at_function_entry() asks for,
// which readers that do not know it take for a register that they do not need.
std::string registers_text(const Registers& registers, bool at_function_entry);
// As /proc/PID/maps has it; whether a mapping can be read or written is not known.
std::string maps_text(std::span<const Mapping> mappings);

class SavedFolder {
public:
  // Makes the folder, which must not be there yet. Memory of a process lies in it, so it is its
  // owner's alone.
  static Result<SavedFolder> create(const std::string& folder);

  // `source`: the file that the content is mapped from, whose shrinking is told; empty if none.
  Result<void> write(std::string_view name, Bytes content, std::string_view source = {});
  // The file under its base name or, if that is taken, another one that begins with a number: the
  // path that maps.txt is to have for it. Nothing if it is too large. copies: where files were
  // written before, by identity; the new one is added.
  Result<std::optional<std::string>> add_file(const MappedObject& object, std::string_view path,
                                              std::map<FileIdentity, std::string>& copies);

  void remove(); // with what has been written; no link in it is followed

private:
  explicit SavedFolder(std::string folder) : folder_(std::move(folder)) {}
  std::string free_name(std::string_view path) const;

  std::string folder_;
  std::set<std::string, std::less<>> names_;
  std::uint64_t written_ = 0; // bytes of files
};

} // namespace uprobectl::stacks
