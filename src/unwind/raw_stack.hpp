// SPDX-License-Identifier: Apache-2.0
// What another machine needs to unwind a stack and to name its frames: registers, the copy of the
// stack, the mappings of the process, and of the mapped files the parts that are read for it.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// The mappings of a process, sorted by address, without overlaps.
struct ProcessMappings {
  // They replace those of the same number. Less than max_numbers.
  std::uint32_t number = 0;
  std::span<const process::Mapping> mappings;

  static constexpr std::uint32_t max_numbers = 256;
};

// Bytes of a mapped file or of a stack.
struct Part {
  std::uint64_t offset = 0;
  Bytes bytes;
};

// Parts of a mapped file; the rest reads as zeros. Without parts and error: it has been replaced.
struct FileParts {
  process::Mapping mapping;        // of the file: identity and path
  std::uint64_t size = 0;          // of the file in bytes, always the same
  std::optional<Error> error = {}; // why the file cannot be read
  std::vector<Part> parts = {};
};

struct RawStack {
  std::uint32_t mappings = 0; // ProcessMappings::number
  Registers registers;
  // The copy of the stack. What is not in `changed` has the bytes of the last stack with the same
  // `thread` at the same addresses.
  std::uint32_t thread = 0; // less than max_threads
  std::uint64_t address = 0;
  std::uint64_t size = 0;             // bytes, at most max_size
  std::span<const Part> changed = {}; // by offset from the address
  bool at_function_entry = false;
  std::span<const KnownReturn> known_returns = {};

  static constexpr std::uint32_t max_threads = 64;
  static constexpr std::uint64_t max_size = 65536;
};

// Parts of an ELF image that a workstation may have from an earlier run.
struct KeptParts {
  process::Mapping mapping; // of the file
  std::uint64_t size = 0;   // of the file in bytes, always the same
  std::uint64_t begin = 0;  // of the image in the file
  std::uint64_t length = 0; // bytes of all parts
  // The hash of all parts in their order: offset in the image and size, 8 bytes each,
  // little-endian, and the bytes. Lower-case hex.
  std::string sha256 = {};
  bool is_kept = false; // otherwise FileParts with the parts follow, and nothing in between
};

// Receives what precedes a RawStack.
class RawStackSink {
public:
  RawStackSink() = default;
  RawStackSink(const RawStackSink&) = delete;
  RawStackSink& operator=(const RawStackSink&) = delete;
  virtual ~RawStackSink() = default;

  virtual void write(const ProcessMappings& mappings) = 0;
  virtual void write(const FileParts& parts) = 0;
  // Whether the reader keeps parts between runs. If so, it gets KeptParts before the parts of an
  // image, and the result says whether it has them: then they are left out.
  virtual bool keeps_parts() const { return false; }
  virtual bool write(const KeptParts& /*parts*/) { return false; }
  virtual void warn(const std::string& text) = 0;
};

} // namespace uprobectl::unwind
