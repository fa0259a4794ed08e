// SPDX-License-Identifier: Apache-2.0
// Finds out what another machine needs to unwind the stacks of running processes, without unwinding
// them: each word of a stack that is an address of code may be a return address.
#pragma once

#include "unwind/live_process.hpp"
#include "unwind/raw_stack.hpp"
#include "util/file_version.hpp"

namespace uprobectl::unwind {

// Not thread-safe.
class StackParts {
public:
  explicit StackParts(ModuleCache& cache) : cache_(cache), known_(known_blocks) {}

  // Also gives the debug information that has source lines.
  void include_debug_info() { includes_debug_info_ = true; }

  // Gives to the sink what was not given before: the mappings of the process, and parts of the
  // files that the stack may pass. The result borrows from the sample and
  // from this.
  RawStack collect(LiveProcess& process, const Sample& sample, RawStackSink& sink);

  // A reader that keeps parts is not asked for images with fewer bytes.
  static constexpr std::uint64_t min_kept = std::uint64_t{64} << 10;
  // Bytes of an image without its code. A larger one loses first its symbols, then everything.
  static constexpr std::uint64_t max_image = std::uint64_t{128} << 20;
  static constexpr std::uint64_t max_total = std::uint64_t{1} << 30; // bytes of all files

private:
  // A block of run-time addresses that was handled with these mappings.
  struct KnownBlock {
    std::uint64_t revision = 0;
    std::uint64_t block = 0;
  };
  static constexpr std::size_t known_blocks = std::size_t{1} << 14;

  struct KnownFile {
    std::uint64_t size = 0; // as it was given
    bool is_readable = false;
    bool is_reported = false; // that it is not readable
    // The object, to notice that the file was opened again, and what it was then.
    std::weak_ptr<const void> opened;
    FileVersion version;
    // Build ids of the images that were given, by where they begin.
    std::map<std::uint64_t, std::optional<std::string>> images;
    std::set<std::uint64_t> blocks; // of code that were given
  };
  // The last stack of a thread.
  struct KnownStack {
    pid_t thread = 0;
    std::uint64_t revision = 0; // of its mappings
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;
  };
  using FileKey = std::pair<FileIdentity, std::string>;

  KnownStack& known_stack(const Sample& sample);
  void find_changes(const KnownStack& known, const Sample& sample);
  void add_words(LiveProcess& process, const Sample& sample, const Part& part, RawStackSink& sink);
  void use(LiveProcess& process, Arch arch, RawStackSink& sink);
  void give_mappings(LiveProcess& process, RawStackSink& sink);
  static bool is_other_file(KnownFile& file, const MappedObject& object, Module& module);
  void add_word(LiveProcess& process, std::uint64_t word, RawStackSink& sink);
  void add_code(LiveProcess& process, std::uint64_t address, RawStackSink& sink);
  void add_image(const MappedObject& object, const Module& module, const process::Mapping& mapping,
                 KnownFile& file, RawStackSink& sink);
  void add_part(const MappedObject& object, std::uint64_t begin, std::uint64_t end,
                const process::Mapping& mapping, const KnownFile& file, RawStackSink& sink);

  ModuleCache& cache_;
  bool includes_debug_info_ = false;
  std::vector<KnownBlock> known_; // by a hash
  std::map<FileKey, KnownFile> files_;
  std::vector<KnownStack> stacks_; // by RawStack::thread
  std::uint32_t next_stack_ = 0;
  std::vector<Part> changed_;            // of the present stack
  std::vector<std::uint64_t> revisions_; // of the mappings that were given, by number
  std::uint32_t next_number_ = 0;
  std::uint64_t total_ = 0; // bytes that were given
  // The members below are about the process of the present stack.
  std::uint64_t revision_ = 0;
  std::uint32_t number_ = 0;
  std::uint64_t code_mask_ = 0;
  std::uint64_t lowest_ = 0; // address of code
  std::uint64_t range_ = 0;  // bytes from there to the end of the highest code
};

} // namespace uprobectl::unwind
