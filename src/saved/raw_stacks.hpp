// SPDX-License-Identifier: Apache-2.0
// Unwinds the stacks of a saved run that the run has only copied.
#pragma once

#include "output/records.hpp"
#include "output/run_header.hpp"
#include "unwind/raw_stack.hpp"

#include <vector>

namespace uprobectl::saved {

template <typename Record>
struct OfFile;

// The parts of mapped files that a saved run has. All other bytes read as zeros.
class PartialFiles final : public unwind::FileSource {
public:
  Result<unwind::MappedObject> open(const process::Mapping& mapping) override;

  // The functions return false if a chunk is invalid, or needs too much memory.
  bool add(process::Mapping file); // numbered from 0; the number replaces the device
  bool add_parts(OfFile<unwind::FileParts>& saved);
  const process::Mapping* file(std::uint32_t number) const {
    return number < files_.size() ? &files_[number].mapping : nullptr;
  }

private:
  struct File {
    process::Mapping mapping; // identity and path
    std::optional<Error> error;
    std::uint64_t size = 0;            // bytes
    std::shared_ptr<std::byte> memory; // null if no part is known
    std::vector<bool> pages;           // that have bytes
  };
  bool make_room(File& file, std::uint64_t size);
  bool write(File& file, std::uint64_t offset, Bytes bytes);

  std::vector<File> files_;
  std::uint64_t reserved_ = 0; // bytes of address space
  std::uint64_t used_ = 0;     // pages
};

// Not thread-safe. The stacks are valid during its lifetime.
class RawStacks {
public:
  // `arch`: of the run. Symbols of files that have none are searched in `where`.
  RawStacks(Arch arch, const output::RawStackHeader& header, elf::DebugSearch where);

  // Take chunks. They return false if one is invalid.
  bool add(process::Mapping& file);
  bool add(OfFile<unwind::FileParts>& parts) { return files_.add_parts(parts); }
  bool add(struct SavedMappings& saved);
  // Returns nullopt if the chunk is invalid. `stack` gets the frames.
  std::optional<output::StackSample> unwind(const struct SavedRawStack& saved,
                                            unwind::Stack& stack);

private:
  // The last stack of a thread.
  struct Memory {
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;
  };
  static bool update_memory(const struct SavedRawStack& saved, Memory& memory);

  Arch arch_;
  output::RawStackHeader header_;
  std::vector<Memory> memories_; // by RawStack::thread
  PartialFiles files_;
  unwind::ModuleCache cache_;
  std::vector<std::unique_ptr<unwind::AddressSpace>> spaces_; // by number
};

} // namespace uprobectl::saved
