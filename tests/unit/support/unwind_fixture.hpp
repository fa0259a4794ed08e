// SPDX-License-Identifier: Apache-2.0
// A process of arm64 or x86-64 made of bytes: a library with call frame information, its mapping, a
// stack.
#pragma once

#include "elf_fixture.hpp"
#include "frame_data.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl::test {

// Files by path, from memory.
class FilesInMemory final : public unwind::FileSource {
public:
  void add(std::string path, std::string bytes) {
    files_[std::move(path)] = std::make_shared<const std::string>(std::move(bytes));
  }
  Result<unwind::MappedObject> open(const process::Mapping& mapping) override {
    ++opened;
    const auto file = files_.find(mapping.path);
    if (file == files_.end()) return fail(ErrorKind::not_found, "no such file");
    return unwind::MappedObject{as_bytes(*file->second), file->second};
  }
  int opened = 0;

private:
  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

// PT_LOAD r-x: address 0x11000, offset 0x1000, 0x1000 bytes. Functions of 0x40 bytes each:
//   work    0x11000  arm64: CFA sp, from 0x11004 on sp + 32 with x29 and x30 at its begin
//   bare    0x11040  nothing is known of it
//   start   0x11080  has no caller
//   broken  0x110c0  an entry that cannot be followed
//   signal  0x11100  the code that handlers of signals return to, and nothing else known
std::string arm64_library();

// The same segment without symbols, with these call frame information (hex; none where empty) and
// .eh_frame_hdr at 0x11700 (hex), and this code at 0x11000 (hex). machine: EM_*.
constexpr std::uint64_t frames_at = 0x11800;
std::string library_with(std::string_view machine, const std::string& frames,
                         const std::string& header = {}, const std::string& code = {});

// r-xp at 0x5500001000, offset 0x1000: ELF addresses + 0x54ffff0000.
constexpr std::uint64_t load_bias = 0x54ffff0000;
// In work, start and signal of arm64_library().
constexpr std::uint64_t working = load_bias + 0x11000;
constexpr std::uint64_t outermost = load_bias + 0x11080;
constexpr std::uint64_t handlers_return = load_bias + 0x11100;
constexpr std::uint64_t stack_top = 0x7ffff00100; // a stack pointer

struct Process {
  explicit Process(std::string_view more_maps = {});

  // Words that begin at the address.
  void stack(std::uint64_t address, std::vector<std::uint64_t> words);
  unwind::Stack unwind(std::initializer_list<std::pair<std::string_view, std::uint64_t>> registers,
                       const unwind::UnwindLimits& limits = {});

  FilesInMemory files;
  unwind::ModuleCache cache;
  std::optional<unwind::AddressSpace> space;
  std::vector<std::vector<std::uint64_t>> words;
  std::vector<unwind::MemoryPiece> memory;
};

// "work+0x4 start+0x7", where the frames are.
std::string names_of(const unwind::Stack& stack);

} // namespace uprobectl::test
