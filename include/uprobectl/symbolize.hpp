// SPDX-License-Identifier: Apache-2.0
// From an address to a frame: the module (an ELF image, plain or inside an archive) that a run-time
// address of a process or an offset of a file lies in, and the function there. Stacks, counts by
// stack, the inventory of probes and the numbers of `resolve` are all named here.
//
//   ModuleCache cache(where);
//   AddressSpace space(mappings, cache, files);
//   if (const auto place = space.find(pc); place && place->module != nullptr)
//     puts(place->module->frame(place->address)->text.c_str());
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/symbolize/address_table.hpp"

#include <map>
#include <set>

namespace uprobectl::unwind {
class UnwindData;
}

namespace uprobectl::symbolize {

class Module;
class Symbolizer;

// A file that processes map, opened.
struct MappedObject {
  Bytes bytes;
  std::shared_ptr<const void> owner = {};      // of the bytes
  std::shared_ptr<const MappedFile> file = {}; // where they are those of a file on disk
};

// The one door to the files behind mappings.
class FileSource {
public:
  virtual ~FileSource() = default;
  virtual Result<MappedObject> open(const Mapping& mapping) = 0;
};

// Where names are looked for besides the files that are mapped.
struct NameSources {
  elf::DebugSearch debug;
  art::DexSearch dex;
};

// What covers an address. `resolve` and frames give the same function for an address.
struct Function {
  std::string symbol;                   // raw, without version; of a Java method its signature
  std::optional<std::string> demangled; // nullopt if it is the same
  std::string version;                  // "@@V", "@V", or empty
  bool is_plt_entry = false;
  std::size_t shared_with = 0; // other Java methods that have the same code
  std::uint64_t offset = 0;    // of the address in it

  std::string name() const; // "ns::Foo::bar(int)", "free@plt"
  // The same, and " (or 2 others)" for code that Java methods share.
  std::string name_with_others() const;
};

// A symbolized address. The source line and the callers that are inlined there belong here, too,
// once debug information is read for stacks.
struct Frame {
  const Module* module = nullptr;   // never null
  VirtualAddress address;           // in the module
  std::optional<Function> function; // nullopt if nothing covers the address
  std::string text;                 // "function+0x1c (base.apk!/lib/libfoo.so+0x5a1c)"
};
// Appends "(base.apk!/lib/libfoo.so+0x5a1c)"; "(FILE@0x4000+0x66c)" for an image that begins in the
// middle of a file that is no archive.
void append_module_offset(std::string& text, std::string_view path,
                          std::optional<std::string_view> entry, FileOffset begin,
                          VirtualAddress address);

// An ELF image that processes map. Its symbols are read when they are first asked for, and
// remembered; so it serves one thread at a time.
class Module {
public:
  // The image in the object's bytes from `begin` on, `size` of them; `entry`: its name in the
  // archive, where it has one; `path`: the object's name for people.
  static Result<std::unique_ptr<Module>> open(const MappedObject& object, std::string path,
                                              FileOffset begin, std::uint64_t size,
                                              std::optional<std::string> entry,
                                              const NameSources& names);
  // A file that cannot be read: only its name is known.
  static std::unique_ptr<Module> unreadable(std::string path, Error why);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  const std::string& path() const { return path_; } // as the process's maps have it
  const std::optional<std::string>& entry() const { return entry_; }
  FileOffset begin() const { return begin_; } // of the image in its file
  const elf::Image* image() const { return image_ ? &*image_ : nullptr; }
  const std::optional<Error>& error() const { return error_; } // why there is no image
  const std::optional<std::string>& build_id() const { return build_id_; }
  // Null if there is no image, or its file has become smaller since, which error() then tells.
  const elf::Image* intact_image();
  // Whether this is where a program or its loader begins, which nobody calls: glibc's loader has no
  // unwind information there.
  bool is_program_start(VirtualAddress address) const;

  // Symbols are the image's own or, if it has no .symtab, also those of .gnu_debugdata and of a
  // debug file. Java methods are named from the DEX files that an OAT file was made of. Never null;
  // the answer stays valid, however many others are asked for.
  std::shared_ptr<const Frame> frame(VirtualAddress address);

  // What the unwinder has read of the image, kept with it (stacks/unwind_data.hpp).
  std::shared_ptr<unwind::UnwindData> unwind_data;

private:
  Module(std::string path, std::optional<std::string> entry);
  void find_symbols();

  std::string path_;
  std::optional<std::string> entry_;
  FileOffset begin_;
  std::shared_ptr<const void> owner_; // of the image's bytes
  NameSources sources_;
  std::optional<elf::Image> image_;
  std::optional<Error> error_;
  std::optional<std::string> build_id_;
  std::optional<art::OatFile> methods_;
  std::unique_ptr<Symbolizer> symbolizer_;
  AddressTable<std::shared_ptr<const Frame>> frames_;
};

struct ModuleAddress;

// Modules by file and place in it, shared by all processes that map them.
class ModuleCache {
public:
  explicit ModuleCache(elf::DebugSearch where = {}, art::DexSearch dex = {})
      : names_{std::move(where), std::move(dex)} {}

  // Opens the file now if it will not be there any more when the process has ended.
  void preopen(const Mapping& mapping, FileSource& files);
  // The file behind the mapping, if it has been opened.
  const MappedObject* opened(const Mapping& mapping) const;

  // The module that the byte of the mapped file belongs to. `earlier`: mappings of the process
  // before this one, which tell where an image begins in a file that is neither ELF nor a readable
  // archive. Where the file has been written to since, it is opened anew. Valid as long as the
  // cache.
  Module* module_at(const Mapping& mapping, FileOffset offset, std::span<const Mapping> earlier,
                    FileSource& files);

  // Where the byte of a file lies, without any process that maps it: nullopt if that is not
  // executable. `path`: its name for people.
  std::optional<ModuleAddress> find(const std::shared_ptr<const MappedFile>& file,
                                    const std::string& path, FileOffset offset);

  // The same text, valid as long as the cache: what is known of an address space may be read anew
  // while places in it are shown.
  std::string_view intern(std::string_view mapping) { return *mappings_.emplace(mapping).first; }

private:
  using FileKey = std::pair<FileIdentity, std::string>;
  struct Part { // of a file: an image
    FileOffset begin;
    std::uint64_t size = 0;
    std::optional<std::string> entry;
  };
  static Result<Part> part_at(const MappedObject& object, const Mapping& mapping, FileOffset offset,
                              std::span<const Mapping> earlier);

  Result<MappedObject>& object_at(const FileKey& key, const Mapping& mapping, FileSource& files);
  void retire(const FileKey& key);

  NameSources names_;
  std::map<FileKey, Result<MappedObject>> objects_;
  std::set<FileKey> reachable_; // that can be opened later, too
  std::map<std::pair<FileKey, std::uint64_t>, std::unique_ptr<Module>> modules_; // and begin
  // Of what their files were before: places in them may be in use.
  std::vector<std::unique_ptr<Module>> retired_;
  std::set<std::string, std::less<>> mappings_; // names of memory that places have
};

// A run-time address in what a process maps. Valid as long as the cache of the address space.
// Module::frame() gives its name.
struct ModuleAddress {
  Module* module = nullptr; // null: the mapping is of no file
  VirtualAddress address;   // ELF, in the module
  ImageOffset offset;       // in its image
  // As the process's maps name it: "[anon:dalvik-jit-code-cache]"; "[anon 0x7f0000]" for memory
  // without a name, by where it begins.
  std::string_view mapping;

  ModuleAddress() = default;
  ModuleAddress(Module* where, VirtualAddress at, ImageOffset in_image, std::string_view name)
      : module(where), address(at), offset(in_image), mapping(name) {}

  // The place so far from this one, modulo 2^64, in the same module; nullopt if it is not in
  // executable bytes of it.
  std::optional<ModuleAddress> offset_by(std::uint64_t distance) const;
};

// What one process maps executable. Cache and files must outlive it.
class AddressSpace {
public:
  // `mappings`: all of them, as parse_all_maps() gives them.
  AddressSpace(std::vector<Mapping> mappings, ModuleCache& cache, FileSource& files);

  // Nothing where nothing executable is mapped.
  std::optional<ModuleAddress> find(std::uint64_t pc) {
    std::optional<ModuleAddress> place;
    find(pc, place);
    return place;
  }
  // The same, written to where it is to stay; false where nothing is.
  bool find(std::uint64_t pc, std::optional<ModuleAddress>& place) {
    const TranslatedRange* known = last_ < translated_.size() ? &translated_[last_] : nullptr;
    if (known == nullptr || pc < known->begin || pc >= known->end) known = search(pc);
    if (known == nullptr) {
      place.reset();
      return false;
    }
    place.emplace(known->module, VirtualAddress{pc + known->to_address},
                  ImageOffset{pc + known->to_offset}, known->mapping);
    return true;
  }
  // What uretprobes put in place of a return address is the first byte of a mapping of the
  // kernel's (Linux kernel/events/uprobes.c, uprobe_get_trampoline_vaddr).
  bool is_return_trampoline(std::uint64_t pc) const {
    return pc >= trampolines_begin_ && pc < trampolines_end_;
  }
  // Of anything that is mapped.
  std::uint64_t highest_address() const { return highest_; }

private:
  // Run-time addresses of a mapping whose places are a constant distance away.
  struct TranslatedRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Module* module = nullptr;
    std::uint64_t to_address = 0; // to be added, modulo 2^64
    std::uint64_t to_offset = 0;
    std::string_view mapping;
  };
  const TranslatedRange* search(std::uint64_t pc);
  TranslatedRange translate_around(std::size_t number, std::uint64_t pc);

  std::vector<Mapping> mappings_;           // by start
  std::vector<Module*> modules_;            // of each, once it has been asked for
  std::vector<TranslatedRange> translated_; // of each the one that was asked for last
  std::uint64_t highest_ = 0;
  std::uint64_t trampolines_begin_ = 0;
  std::uint64_t trampolines_end_ = 0;
  std::size_t last_ = 0; // the one that was found last: mostly it is the next, too
  ModuleCache& cache_;
  FileSource& files_;
};

} // namespace uprobectl::symbolize
