// SPDX-License-Identifier: Apache-2.0
// ELF images, in a file of their own or stored inside an archive. An Image is opened and parsed
// once and is immutable, except that symbols of debug files can be added. It translates addresses
// to offsets. Formats: System V gABI chapters 4 and 5; for versions and DT_GNU_HASH the LSB core
// specification and binutils.
//
// Offsets are computed from PT_LOAD alone (p_vaddr, p_offset, p_filesz), never from section
// headers, which may be missing, stale or malicious. .dynsym is located by PT_DYNAMIC and counted
// by its hash table. Section headers are used for what program headers do not locate, such as
// .symtab, debug information and PLTs, for SHT_NOTE and, without PT_DYNAMIC, for .dynsym.
#pragma once

#include "uprobectl/arch.hpp"
#include "uprobectl/path.hpp"

#include <functional>

namespace uprobectl::elf {

// e_machine, word size and byte order.
struct Machine {
  Machine() = default;
  explicit Machine(std::uint16_t elf_machine, bool wide = true,
                   ByteOrder word_order = ByteOrder::little)
      : arch(arch_from_elf(elf_machine)), is_64bit(wide), order(word_order), id(elf_machine) {}

  Arch arch = Arch::unknown;
  bool is_64bit = true;
  ByteOrder order = ByteOrder::little;
  std::uint16_t id = 0; // e_machine (EM_*), also for machines without an ArchInfo

  const ArchInfo& info() const { return arch_info(arch); }
  bool operator==(const Machine&) const = default;
};

// Returns "x86-64", "arm64", "i386", "arm", the usual lower-case name of another machine
// ("riscv64", "s390x", "ppc64le", ...), or "machine N" for an unknown one.
std::string to_string(const Machine& machine);

// Returns the instruction set of the machine's code, for decoding; nullopt if there is no decoder.
// `thumb` selects Thumb instead of A32 for arm.
std::optional<Arch> code_arch(const Machine& machine, bool thumb = false);

// Whether the bytes begin with ELF's magic number.
bool looks_like_elf(Bytes bytes);
// Reads the header of any ELF file. Fails with not_elf, or with corrupt if the header is truncated
// or has an invalid class or byte order.
Result<Machine> read_machine(Bytes image);

// A PT_LOAD program header.
struct Segment {
  VirtualAddress address;        // p_vaddr
  std::uint64_t memory_size = 0; // p_memsz
  ImageOffset offset;            // p_offset
  std::uint64_t file_size = 0;   // p_filesz, limited to the bytes that the image has
  std::uint64_t alignment = 0;   // p_align
  bool readable = false;
  bool writable = false;
  bool executable = false;
};

enum class Binding : std::uint8_t { local, global, weak };
std::string_view to_string(Binding binding);
enum class SymbolType : std::uint8_t { none, object, function, ifunc, section, file, tls, other };
// Where a symbol comes from. plt: a PLT entry, found by its code. oat: a compiled Java method
// (art.hpp).
enum class Table : std::uint8_t { dynsym, symtab, gnu_debugdata, debug_file, oat, plt };
std::string_view to_string(Table table);

// A symbol's version: f@NAME (hidden) or f@@NAME (the default).
struct SymbolVersion {
  std::string_view name;
  bool is_default = false;
  std::string_view library = {}; // for an import: the file that has this version (verneed)
};

// The version that a version index refers to.
struct VersionName {
  std::string_view name;
  std::string_view library; // the file it is needed from; empty if it is defined here
};

// One entry of a symbol table. Names point into the image's bytes.
struct Symbol {
  std::string_view name;                // without version
  std::optional<SymbolVersion> version; // from verdef/verneed, or part of a .symtab name
  VirtualAddress address;               // bit 0 cleared for Thumb functions
  std::uint64_t size = 0;
  SymbolType type = SymbolType::none;
  Binding binding = Binding::local;
  Table table = Table::dynsym;
  bool defined = false;  // st_shndx is not SHN_UNDEF
  bool absolute = false; // SHN_ABS: address is a plain number
  bool thumb = false;    // ARM: st_value had bit 0 set
  bool in_data = false;  // untyped and in a section without code: a linker-defined symbol such as
                         // __ehdr_start, which may be in a segment with code
};

// A symbol table of any word size and byte order, which decodes entries on demand. A view: the
// bytes must outlive it and the names it returns.
class SymbolTable {
public:
  struct Parts {
    Machine machine;
    Table table = Table::dynsym;
    Bytes entries; // Elf32_Sym or Elf64_Sym
    Bytes strings;
    Bytes versions; // DT_VERSYM: a half word for each entry, or empty
    // For .dynsym: by version index. For other tables: sorted by name (KnownVersions). May be null.
    std::shared_ptr<const std::vector<VersionName>> version_names;
    Bytes sections = {}; // the section headers that st_shndx refers to, or empty
  };

  SymbolTable() = default; // empty
  explicit SymbolTable(Parts parts);

  std::uint32_t size() const { return count_; }
  Table table() const { return parts_.table; }
  // Returns nullopt if the index is out of range or the name is outside the string table. Cuts a
  // name at 64 KiB. Includes generated symbols: sections, files, mapping symbols.
  std::optional<Symbol> at(std::uint32_t index) const;
  // Returns the name without its version. Faster than at().
  std::optional<std::string_view> name(std::uint32_t index) const;

  // Whether the entry has this name, with any version. Faster than at().
  bool has_name(std::uint32_t index, std::string_view name) const;
  // Whether the entry has this name, or a name that continues it after a '.': "f", "f.cold".
  bool has_name_or_suffix(std::uint32_t index, std::string_view name) const;
  // Symbol::address, whatever the name is. Faster than at().
  VirtualAddress address(std::uint32_t index) const;
  // Whether it names a source file (STT_FILE). Faster than at().
  bool is_file(std::uint32_t index) const;
  // Whether a name may end in this text: false if the string table does not have it. Does not look
  // at the entries, so it is much faster than to compare the names.
  bool may_have_suffix(std::string_view text) const;

private:
  friend struct Prefetch;
  std::optional<char> character_after(std::uint32_t index, std::string_view name) const;

  Parts parts_;
  std::uint32_t count_ = 0;
};

// A GOT entry: a word that the loader fills with the address of a function or variable.
struct ImportSlot {
  VirtualAddress address;   // of the GOT entry
  std::uint32_t symbol = 0; // index in .dynsym of the relocation's symbol: usually an import, or
                            // what is defined here and other files may interpose
  bool for_plt = false;     // JUMP_SLOT, used by a PLT entry; else GLOB_DAT, used by any code
};

struct AddressRange {
  VirtualAddress address;
  std::uint64_t size = 0; // bytes
};

// A note (gABI chapter 5, "Note Section"). A view.
struct NoteRecord {
  std::string_view owner; // the name, without its NUL
  std::uint32_t type = 0;
  Bytes descriptor;
};
// The problems that Image::visit_notes() found.
struct NoteStatistics {
  std::size_t broken = 0;   // sections and segments with a truncated note, or outside the file
  std::uint64_t unread = 0; // bytes that were skipped because of Image::max_note_bytes
};

// Where to search for debug files, in addition to the directory of the image.
struct DebugSearch {
  // Named by the user (--debug-dir), searched first: directories, symbol files, ZIP archives of
  // symbol files.
  std::vector<std::string> paths;
  std::string system_folder = "/usr/lib/debug"; // where distributions install debug files
};

// The result of one search for symbols outside the image's own tables.
struct DebugReport {
  std::optional<std::string> used;   // ".gnu_debugdata", the file, or "ARCHIVE!/ENTRY"
  std::vector<std::string> warnings; // files that were found but not used, with the reason
};

// The sources of symbols outside an image's own tables: the results of all searches.
struct SymbolSources {
  std::vector<std::string> used;     // ".gnu_debugdata", files, "ARCHIVE!/ENTRY"
  std::vector<std::string> warnings; // about symbol files that exist but could not be used
};

// How to open a compressed entry of an archive.
enum class Compressed {
  reject,  // fail: it cannot be probed inside the archive
  inflate, // read it as the file that a device extracts when it installs the app
};
// Maximum size of an entry that is inflated, bytes: it is held in memory.
constexpr std::uint64_t max_inflated_size = std::uint64_t{512} << 20;

// The names and folders by which the dynamic loader finds the libraries of an image. Views of the
// image's bytes.
struct NeededLibraries {
  std::vector<std::string_view> names; // DT_NEEDED, in order
  std::string_view rpath;              // DT_RPATH: folders, separated by ':'
  std::string_view runpath;            // DT_RUNPATH
};

struct FoundSymbols;

// A parsed ELF image.
class Image {
public:
  // Opens and parses the file, or the stored bytes of an archive's entry. Errors include the path.
  // Fails with not_elf, and a hint to name an entry, if the file is an archive.
  static Result<Image> open(const BinaryPath& path);

  // Opens an image in a file that is open already, so that images of one archive share one mapping.
  static Result<Image> open(std::shared_ptr<const MappedFile> file, const BinaryPath& path,
                            Compressed compressed = Compressed::reject);

  // Parses bytes that outlive the image. entry_data is the offset of the image in its file.
  static Result<Image> parse(Bytes image, FileOffset entry_data = {});

  Image(Image&&) noexcept;
  Image& operator=(Image&&) noexcept;
  ~Image();

  const BinaryPath& path() const;                        // as opened; empty after parse()
  const std::shared_ptr<const MappedFile>& file() const; // null after parse()
  FileOffset entry_data() const; // offset of the image in its file; 0 unless it is an entry
  Bytes bytes() const;
  // Whether the bytes were inflated. Then they are not bytes of a file and cannot be probed.
  bool is_inflated() const;

  const Machine& machine() const;
  const std::vector<Segment>& segments() const;      // PT_LOADs, in table order
  std::vector<AddressRange> relro() const;           // PT_GNU_RELROs: read-only once relocated
  std::optional<std::string> build_id() const;       // NT_GNU_BUILD_ID, lower-case hex
  std::optional<VirtualAddress> entry_point() const; // e_entry; nullopt if it is 0

  // Whether this is a debug file without code: it has no dynamic symbols that can be read through
  // PT_DYNAMIC, and a code section is SHT_NOBITS. Program headers do not distinguish debug files:
  // `objcopy --only-keep-debug` empties the segments, `eu-strip -f` copies them unchanged. A
  // section header alone does not make a file a debug file, because loadable libraries may have
  // wrong ones.
  bool is_debug_file() const;

  // Returns the segment whose file bytes contain the address or offset; null in .bss and in gaps.
  const Segment* find_segment(VirtualAddress address) const;
  const Segment* find_segment(ImageOffset offset) const;
  // Translate between ELF virtual addresses, offsets in the image, and offsets in its file. nullopt
  // outside the file bytes of the segments.
  std::optional<ImageOffset> to_image(VirtualAddress address) const;
  std::optional<VirtualAddress> to_address(ImageOffset offset) const;
  std::optional<FileOffset> to_file(ImageOffset offset) const; // nullopt if is_inflated()

  // Returns .dynsym; empty if the image has none. Fails with corrupt if the table is unreadable.
  // Reads the whole hash table to count the symbols: use find_dynamic() to find a name.
  Result<SymbolTable> dynamic_symbols() const;
  // Returns .symtab; empty if the image has none. Fails with corrupt if the table is unreadable.
  Result<SymbolTable> full_symbols() const;

  // Finds the dynamic symbols with this name, in all versions, by DT_GNU_HASH, DT_HASH or a scan.
  // A hash table finds definitions with a few page accesses. Undefined symbols, which DT_GNU_HASH
  // does not contain, are searched only if there is no definition.
  Result<std::vector<Symbol>> find_dynamic(std::string_view name) const;

  // The following two functions search for symbols outside the image's own tables and add them to
  // debug_symbols(). Their addresses are translated by the PT_LOADs of this image.

  // Adds the symbols of .gnu_debugdata: the .symtab of an ELF file that is compressed with xz, at
  // most 128 MiB.
  DebugReport add_embedded_symbols();
  // Adds the symbols of the debug file. Searches DebugSearch::paths, then by build id, then by
  // .gnu_debuglink, whose CRC is checked. A file with a different build id is never used. Examines
  // at most 20,000 files in a directory, and 1000 entries with other names in an archive.
  DebugReport add_debug_file(const DebugSearch& where);
  std::span<const SymbolTable> debug_symbols() const;

  // Describes which symbols cannot be read although the image can, for warnings that begin with the
  // path. Reads the section headers.
  std::vector<std::string> symbol_damage() const;

  // Returns the libraries that may define an import.
  NeededLibraries needed_libraries() const;

  // Returns the GOT entries of functions, from the relocations of PT_DYNAMIC (DT_JMPREL, DT_RELA,
  // DT_REL), in their order. Each has a symbol with a name. Supports x86-64, i386, arm64 and arm;
  // empty for other machines. Reads the packed DT_ANDROID_REL and DT_ANDROID_RELA, too.
  Result<std::vector<ImportSlot>> import_slots() const;
  // Returns the GOT entries of variables, imported ones and own ones: code of this file uses the
  // storage that the loader has chosen, which may be in a program with a copy relocation, or in
  // another library.
  Result<std::vector<ImportSlot>> variable_slots() const;
  // Returns the GOT entry that the loader sets to the offset of the image's own thread-local
  // variable from the thread pointer. nullopt if there is none, and on other machines than x86-64
  // and arm64.
  std::optional<VirtualAddress> thread_offset_slot(std::string_view variable) const;
  // Returns the 32-bit numbers of an exported object of at most 64 bytes, as the file has them;
  // empty if there is none.
  std::vector<std::uint32_t> exported_words(std::string_view object) const;
  // Returns the sections of the PLT; empty without section headers.
  std::vector<AddressRange> plt_sections() const;
  bool has_section_headers() const;
  // Returns the address of the first section with this name that has bytes in the file.
  std::optional<VirtualAddress> section_address(std::string_view name) const;

  // Visits the notes of SHT_NOTE sections, then of PT_NOTEs. Skips a section or segment that
  // overlaps an earlier one (most PT_NOTEs do), so that no byte is read twice. Fails with corrupt
  // if the section headers are not completely in the file. Reads at most max_note_bytes.
  static constexpr std::uint64_t max_note_bytes = std::uint64_t{4} << 20;
  Result<NoteStatistics> visit_notes(const std::function<void(const NoteRecord&)>& visit) const;
  // Returns DT_PLTGOT: the address that i386 code uses as the base of the GOT.
  std::optional<VirtualAddress> got() const;

private:
  friend struct Prefetch;
  friend std::optional<FoundSymbols> find_debug_file(const Image& image, const DebugSearch& where);

  struct State;
  explicit Image(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::elf
