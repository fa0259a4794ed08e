// What processes map, as far as stacks ask for it: which ELF image a run-time address lies in, at
// which address of that, and what it is called. Images inside archives are found by where they are
// mapped from.
#pragma once

#include "uprobectl/process.hpp"
#include "uprobectl/stacks/registers.hpp"
#include "uprobectl/symbols.hpp"

#include <map>
#include <unordered_map>

namespace uprobectl::stacks {

class UnwindData;

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

// What an address is called. Without symbol where nothing covers it.
struct PlaceName {
  std::optional<std::string> symbol;    // raw
  std::uint64_t symbol_offset = 0;      // of the address in it
  std::optional<std::string> demangled; // nothing if that is the same
};

// An ELF image that processes map. Its unwind data and its symbols are read as far as stacks ask
// for them, and remembered; so it serves one thread at a time.
class Module {
public:
  // The image in the object's bytes from `begin` on, `size` of them; `entry`: its name in the
  // archive, where it has one; `path`: the object's name for people.
  static Result<std::unique_ptr<Module>> open(const MappedObject& object, std::string path,
                                              FileOffset begin, std::uint64_t size,
                                              std::optional<std::string> entry,
                                              const elf::DebugSearch& where);
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
  std::optional<Isa> isa() const { return isa_; } // nothing: its stacks are not unwound

  // Symbols are the image's own or, where it has no .symtab, also those of .gnu_debugdata and of a
  // debug file. The answer stays valid, however many others are asked for.
  std::shared_ptr<const PlaceName> name(VirtualAddress address);
  // Null where there is no image, or one of another machine.
  UnwindData* unwind_data(Isa isa);

private:
  Module(std::string path, std::optional<std::string> entry);

  std::string path_;
  std::optional<std::string> entry_;
  FileOffset begin_;
  std::shared_ptr<const void> owner_; // of the image's bytes
  elf::DebugSearch where_;
  std::optional<elf::Image> image_;
  std::optional<Error> error_;
  std::optional<Isa> isa_;
  std::optional<std::string> build_id_;
  std::unique_ptr<SymbolFinder> symbols_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const PlaceName>> names_; // by address
  std::unique_ptr<UnwindData> unwind_data_;
};

// Modules by file and place in it, shared by all processes that map them.
class ModuleCache {
public:
  explicit ModuleCache(elf::DebugSearch where = {}) : where_(std::move(where)) {}

  // The module that the byte of the mapped file belongs to. `earlier`: mappings of the process
  // before this one, which tell where an image begins in a file that is neither ELF nor a readable
  // archive. Valid as long as the cache.
  Module* module_at(const Mapping& mapping, FileOffset offset, std::span<const Mapping> earlier,
                    FileSource& files);

private:
  using FileKey = std::pair<FileIdentity, std::string>;
  struct Part { // of a file: an image
    FileOffset begin;
    std::uint64_t size = 0;
    std::optional<std::string> entry;
  };
  static Result<Part> part_at(const MappedObject& object, const Mapping& mapping, FileOffset offset,
                              std::span<const Mapping> earlier);

  elf::DebugSearch where_;
  std::map<FileKey, Result<MappedObject>> objects_;
  std::map<std::pair<FileKey, std::uint64_t>, std::unique_ptr<Module>> modules_; // and begin
};

// A run-time address in what a process maps. Valid as long as the address space and its cache.
struct Place {
  Module* module = nullptr; // null: the mapping is of no file
  VirtualAddress address;   // ELF, in the module
  ImageOffset offset;       // in its image
  std::string_view mapping; // as the process's maps name it: "[anon:dalvik-jit-code-cache]"
};

// What one process maps executable. Cache and files must outlive it.
class AddressSpace {
public:
  // `mappings`: all of them, as parse_all_maps() gives them.
  AddressSpace(std::vector<Mapping> mappings, ModuleCache& cache, FileSource& files);

  // Nothing where nothing executable is mapped.
  std::optional<Place> find(std::uint64_t pc);
  // The bits of a code address that say where it is: of arm64 those above may be a signature
  // (pointer authentication) or a tag. Derived from how high anything is mapped.
  std::uint64_t code_mask(Isa isa) const;

private:
  std::vector<Mapping> mappings_; // by start
  std::vector<Module*> modules_;  // of each, once it has been asked for
  std::size_t last_ = 0;          // the one that was found last: mostly it is the next, too
  ModuleCache& cache_;
  FileSource& files_;
};

} // namespace uprobectl::stacks
