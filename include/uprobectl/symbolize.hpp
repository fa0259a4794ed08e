// SPDX-License-Identifier: Apache-2.0
// Symbolizes addresses: finds the module (an ELF image, in a file or inside an archive) and the
// function at a run-time address of a process or at an offset in a file. Used for stacks, counts by
// stack, the inventory of probes and numeric FUNCTIONs of `resolve`.
//
// clang-format off
//   ModuleCache cache(debug_search);
//   AddressSpace space(mappings, cache, files);
//   if (const auto where = space.find(pc); where && where->module != nullptr)
//     puts(where->module->frame(where->address)->text.c_str());
// clang-format on
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/symbolize/address_table.hpp"

#include <functional>
#include <map>
#include <set>
#include <unordered_map>

namespace uprobectl::binary {
class Binary;
} // namespace uprobectl::binary

namespace uprobectl::unwind {
class UnwindData;
}

namespace uprobectl::symbolize {

class Module;
class Symbolizer;

// The opened file of a mapping.
struct MappedObject {
  Bytes bytes;
  std::shared_ptr<const void> owner = {};      // keeps the bytes valid
  std::shared_ptr<const MappedFile> file = {}; // null if the bytes are not those of a file on disk
};

// Opens the files of mappings, for example those of a live process or of a saved stack.
class FileSource {
public:
  virtual ~FileSource() = default;
  virtual Result<MappedObject> open(const process::Mapping& mapping) = 0;
};

// Where to search for names, in addition to the mapped files.
struct NameSources {
  elf::DebugSearch debug;
  art::DexSearch dex;
  bool source_lines = false; // read debug information for Frame::positions
};

// The function that covers an address, as in frames and in `resolve`.
struct Function {
  std::string symbol;                   // raw name without version; the signature of a Java method
  std::optional<std::string> demangled; // nullopt if it equals symbol
  std::string version;                  // "@@V", "@V", or empty
  bool is_plt_entry = false;
  std::size_t shared_with = 0; // number of other Java methods with the same code
  std::uint64_t offset = 0;    // of the address from the start of the function

  std::string name() const; // "ns::Foo::bar(int)", "free@plt"
  // Returns name(), followed by " (or 2 others)" if Java methods share the code.
  std::string name_with_others() const;
};

// A position in source code.
struct SourcePosition {
  // The function that was inlined at the address, nullopt in the position of the Frame's function.
  // Its offset is 0.
  std::optional<Function> inlined;
  std::string file;         // absolute if known; may be empty
  std::uint32_t line = 0;   // 0: the code belongs to no line, or the line is unknown
  std::uint32_t column = 0; // 0: unknown
  // "outer+0x1c (libfoo.so+0x5a1c) at foo.cpp:33", "inner [inlined] (libfoo.so+0x5a1c) at …"
  std::string text;
};

// A symbolized address. The frame of a stack is an unwind::Frame, which may have one of these.
struct Frame {
  const Module* module = nullptr;   // never null
  VirtualAddress address;           // in the module
  std::optional<Function> function; // nullopt if no symbol covers the address
  std::string text;                 // "function+0x1c (base.apk!/lib/libfoo.so+0x5a1c)"
  // See ModuleCache::use_source_lines(). The position in the function that has the code, then those
  // in the functions that were inlined there, the innermost last.
  std::vector<SourcePosition> positions = {};
};

// Appends "(base.apk!/lib/libfoo.so+0x5a1c)". An image that begins at offset 0x4000 of a file that
// is not an archive is written as "(FILE@0x4000+0x66c)".
void append_module_offset(std::string& text, std::string_view path,
                          std::optional<std::string_view> entry, FileOffset begin,
                          VirtualAddress address);

// A file that processes map, with its ELF image, if it can be read, and its symbols. Reads symbols
// on demand and caches frames. Not thread-safe.
class Module {
public:
  // Opens the image at offset `begin` of the object, `size` bytes long. `path` is the name of the
  // object to print. `entry` is the name of the image in the archive, if the object is one.
  static Result<std::unique_ptr<Module>> open(const MappedObject& object, std::string path,
                                              FileOffset begin, std::uint64_t size,
                                              std::optional<std::string> entry,
                                              const NameSources& names);
  // A module without an image, for a file that cannot be read.
  static std::unique_ptr<Module> unreadable(std::string path, Error reason);
  // A module of a saved run. It is not opened: its frames are those of add_frame().
  struct Saved {
    std::string path;
    std::optional<std::string> entry;
    FileOffset begin;
    std::optional<std::string> build_id;
    bool has_image = false; // it could be read when the run was saved
  };
  static std::unique_ptr<Module> from_saved_run(Saved known);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  const std::string& path() const { return path_; } // as in /proc/PID/maps
  const std::optional<std::string>& entry() const { return entry_; }
  FileOffset image_begin() const { return begin_; } // offset of the image in its file
  const elf::Image* image() const { return image_; }
  // Whether addresses in the module are known: there is an image, or there was one when the run was
  // saved.
  bool has_addresses() const { return image_ != nullptr || saved_image_; }
  const std::optional<Error>& error() const { return error_; } // why there is no image
  const std::optional<std::string>& build_id() const { return build_id_; }
  // Null if there is no image, or if its file has been truncated since; error() has the reason.
  const elf::Image* intact_image();
  // Where the debug file of the image is searched for.
  const elf::DebugSearch& debug_search() const { return sources_.debug; }
  // Whether the address is in the startup code at the entry point of a program or loader. It has no
  // caller, and glibc's loader has no unwind information for it.
  bool is_program_start(VirtualAddress address) const;

  // Symbolizes an address. Uses the symbols of the image and, if .symtab lacks some, also those of
  // .gnu_debugdata and of a debug file. Names Java methods by the DEX files of an OAT file. Never
  // null. Frames stay valid after further calls.
  std::shared_ptr<const Frame> frame(VirtualAddress address);
  // Adds or replaces what frame() returns for an address of a from_saved_run() module.
  void add_frame(Frame frame);
  void forget_frames() { saved_frames_.clear(); } // all that were added and are not kept

  // Returns a number that no other module of this process has or had.
  std::uint64_t serial() const { return serial_; }
  // Keeps the module, and its frame at this address, as long as the ModuleCache.
  void keep_frame(VirtualAddress address);
  bool has_kept_frames() const { return !kept_frames_.empty(); }
  // Frees all but the frames that are kept: the image, its symbols, debug info and unwind tables.
  void close();

  // The unwind tables of the image. unwind/unwind_data.hpp makes and uses them; close() frees them.
  std::shared_ptr<unwind::UnwindData> unwind_data;

private:
  Module(std::string path, std::optional<std::string> entry);
  void find_symbols();
  void name_frame(Frame& frame) const; // sets its text
  void add_positions(Frame& frame);
  std::optional<std::string_view> entry_name() const {
    return entry_ ? std::optional<std::string_view>(*entry_) : std::nullopt;
  }

  std::string path_;
  std::optional<std::string> entry_;
  FileOffset begin_;
  std::shared_ptr<const void> owner_; // keeps the bytes of the image valid
  NameSources sources_;
  std::shared_ptr<binary::Binary> file_;
  const elf::Image* image_ = nullptr; // of the file
  std::optional<Error> error_;
  std::optional<std::string> build_id_;
  std::optional<art::OatFile> methods_;
  std::unique_ptr<Symbolizer> symbolizer_;
  AddressTable<std::shared_ptr<const Frame>> frames_;
  const std::uint64_t serial_ = next_serial();
  static std::uint64_t next_serial();
  bool saved_image_ = false;
  using Frames = std::unordered_map<std::uint64_t, std::shared_ptr<const Frame>>; // by address
  Frames saved_frames_;
  Frames kept_frames_;
};

struct ModuleAddress;
struct OpenFileLimits;

// Caches modules by file and offset. All processes that map a file share its modules.
class ModuleCache {
public:
  explicit ModuleCache(elf::DebugSearch where = {}, art::DexSearch dex = {})
      : names_{std::move(where), std::move(dex)} {}

  // Frames of modules that are opened from now on have source positions, if there is debug
  // information.
  void use_source_lines() { names_.source_lines = true; }

  // Opens the file now if it may be unreachable after the process has ended.
  void preopen(const process::Mapping& mapping, FileSource& files);
  // Returns the file of the mapping; null if it has not been opened.
  const MappedObject* opened(const process::Mapping& mapping) const;

  // Returns the module that contains this byte of the mapped file. `earlier` are the process's
  // mappings before this one. They locate the start of the image if the file is neither an ELF file
  // nor a readable archive. Opens the file again if it was written to. Never null; owned by the
  // cache.
  Module* module_at(const process::Mapping& mapping, FileOffset offset,
                    std::span<const process::Mapping> earlier, FileSource& files);

  // Finds the module and address of a byte of a file, without a process that maps it. Returns
  // nullopt if the byte is not executable. `path` is the name to print.
  std::optional<ModuleAddress> find(const std::shared_ptr<const MappedFile>& file,
                                    const std::string& path, FileOffset offset);

  // Returns a copy of a mapping's name that is valid until make_room(). A ModuleAddress may outlive
  // its AddressSpace.
  std::string_view intern(std::string_view name) { return *mapping_names_.emplace(name).first; }

  using FileKey = std::pair<FileIdentity, std::string>;
  // Counts the files that are open, or could not be opened.
  std::size_t known_files() const { return objects_.size(); }
  // Whether a file was not opened because no descriptor was left, since the last make_room().
  bool lacks_descriptors() const { return lacks_descriptors_; }
  // Keeps files that no process maps: the stacks of a run are named at its end.
  void keep_unmapped() { keeps_unmapped_ = true; }
  // Whether make_room() would close files if no process mapped them.
  bool is_crowded() const;
  // Closes files beyond the limits of symbolize/open_files.hpp; at most a quarter of the permitted
  // descriptors stay in use. Returns false if there was nothing to do. Otherwise all
  // AddressSpaces become invalid, and all ModuleAddresses but those of kept frames, which only lose
  // the name of their mapping.
  bool make_room(const std::function<bool(const FileKey&)>& is_mapped);
  // Counts the files that no process maps, that were closed and cannot be opened again, for example
  // deleted ones.
  std::uint64_t forgotten_files() const { return forgotten_files_; }

private:
  struct CachedObject {
    Result<MappedObject> object;
    std::uint64_t last_use = 0;
  };
  struct ImageRange { // in a file
    FileOffset begin;
    std::uint64_t size = 0; // bytes
    std::optional<std::string> entry;
  };
  static Result<ImageRange> find_image(const MappedObject& object, const process::Mapping& mapping,
                                       FileOffset offset,
                                       std::span<const process::Mapping> earlier);

  Result<MappedObject>& object_at(const FileKey& key, const process::Mapping& mapping,
                                  FileSource& files);
  Result<MappedObject> open(const process::Mapping& mapping, FileSource& files);
  OpenFileLimits limits() const;
  void retire(const FileKey& key);

  NameSources names_;
  std::map<FileKey, CachedObject> objects_;
  std::uint64_t uses_ = 0;
  bool lacks_descriptors_ = false;
  bool keeps_unmapped_ = false;
  std::uint64_t forgotten_files_ = 0;
  std::size_t max_files_ = ~std::size_t{0}; // fewer after descriptors were used up
  std::set<FileKey> reachable_;             // files that can be opened after the process has ended
  std::map<std::pair<FileKey, std::uint64_t>, std::unique_ptr<Module>>
      modules_; // by file and begin
  // Modules of files that were written to later or are closed, until make_room(). A ModuleAddress
  // may still refer to them.
  std::vector<std::unique_ptr<Module>> retired_;
  std::vector<std::unique_ptr<Module>> kept_;        // retired ones with kept frames; closed
  std::set<std::string, std::less<>> mapping_names_; // see intern()
};

// A run-time address, translated to an address in a module. Valid until ModuleCache::make_room().
// Module::frame() symbolizes it.
struct ModuleAddress {
  Module* module = nullptr; // null for memory without a file
  VirtualAddress address;   // ELF virtual address in the module
  ImageOffset offset;       // in the ELF image
  // The name in /proc/PID/maps: a path, "[anon:dalvik-jit-code-cache]". Memory without a name is
  // called by its start address: "[anon 0x7f0000]".
  std::string_view mapping;

  ModuleAddress() = default;
  ModuleAddress(Module* where, VirtualAddress at, ImageOffset in_image, std::string_view name)
      : module(where), address(at), offset(in_image), mapping(name) {}

  // Returns the address moved by the distance (modulo 2^64); nullopt if that is not executable in
  // this module.
  std::optional<ModuleAddress> offset_by(std::uint64_t distance) const;
};

// The executable mappings of one process. Borrows the cache and the files.
class AddressSpace {
public:
  // `mappings`: all mappings of the process, from parse_all_maps().
  AddressSpace(std::vector<process::Mapping> mappings, ModuleCache& cache, FileSource& files);

  // Translates a run-time address. Returns nullopt if it is not in an executable mapping.
  std::optional<ModuleAddress> find(std::uint64_t pc) {
    std::optional<ModuleAddress> found;
    find(pc, found);
    return found;
  }
  // Translates an address in the same way, but constructs the result in `found`, because each frame
  // of each stack needs one. Returns false instead of nullopt.
  bool find(std::uint64_t pc, std::optional<ModuleAddress>& found) {
    const TranslatedRange* known = last_ < translated_.size() ? &translated_[last_] : nullptr;
    if (known == nullptr || pc < known->begin || pc >= known->end) known = search(pc);
    if (known == nullptr) {
      found.reset();
      return false;
    }
    found.emplace(known->module, VirtualAddress{pc + known->address_delta},
                  ImageOffset{pc + known->offset_delta}, known->mapping);
    return true;
  }
  // Whether the address is in the "[uprobes]" mapping. A uretprobe sets the return address to
  // its start (Linux kernel/events/uprobes.c, uprobe_get_trampoline_vaddr).
  bool is_return_trampoline(std::uint64_t pc) const {
    return pc >= trampolines_begin_ && pc < trampolines_end_;
  }
  // The highest mapped user-space address.
  std::uint64_t highest_address() const { return highest_; }

private:
  // A range of run-time addresses with the differences that translate them.
  struct TranslatedRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Module* module = nullptr;
    std::uint64_t address_delta = 0; // added to the run-time address, modulo 2^64
    std::uint64_t offset_delta = 0;
    std::string_view mapping;
  };
  const TranslatedRange* search(std::uint64_t pc);
  TranslatedRange translate_around(std::size_t number, std::uint64_t pc);

  std::vector<process::Mapping> mappings_;  // by start
  std::vector<Module*> modules_;            // by mapping; null until needed
  std::vector<TranslatedRange> translated_; // by mapping; the range that was used last
  std::uint64_t highest_ = 0;
  std::uint64_t trampolines_begin_ = 0;
  std::uint64_t trampolines_end_ = 0;
  std::size_t last_ = 0; // index of the mapping that was found last; often the next one
  ModuleCache& cache_;
  FileSource& files_;
};

} // namespace uprobectl::symbolize
