// SPDX-License-Identifier: Apache-2.0
// ELF images, in a file of their own or stored inside an archive: opened once, parsed to an
// immutable Image (symbols from debug files can be added), addresses turned into offsets. Format:
// System V gABI chapters 4 and 5, and for versions and DT_GNU_HASH the LSB core specification and
// binutils.
//
// Offsets come from PT_LOAD alone (p_vaddr, p_offset, p_filesz), never from section headers, which
// may be stripped, stale or hostile. .dynsym is found through PT_DYNAMIC and counted by its hash
// table; section headers serve only .symtab and, where there is no PT_DYNAMIC, .dynsym.
#pragma once

#include "uprobectl/arch.hpp"
#include "uprobectl/path.hpp"

#include <functional>

namespace uprobectl::elf {

// e_machine with what else decides how code and words are read.
struct Machine {
  Machine() = default;
  explicit Machine(std::uint16_t elf_machine, bool wide = true,
                   ByteOrder word_order = ByteOrder::little)
      : arch(arch_from_elf(elf_machine)), is_64bit(wide), order(word_order), id(elf_machine) {}

  Arch arch = Arch::unknown;
  bool is_64bit = true;
  ByteOrder order = ByteOrder::little;
  std::uint16_t id = 0; // EM_*, for machines that no ArchInfo describes

  const ArchInfo& info() const { return arch_info(arch); }
  bool operator==(const Machine&) const = default;
};

// "x86-64", "arm64", "i386", "arm", or the usual lower-case name of others ("riscv64", "s390x",
// "ppc64le", ...), "machine N" where none is known.
std::string to_string(const Machine& machine);

// Which instructions the machine's code has; nullopt if they cannot be decoded. thumb: of the two
// instruction sets of arm that one.
std::optional<Arch> code_arch(const Machine& machine, bool thumb = false);

// Whether the bytes begin with ELF's magic number.
bool looks_like_elf(Bytes bytes);
// Of any ELF file, its header alone: not_elf, or corrupt where the header is truncated or names no
// class or byte order.
Result<Machine> read_machine(Bytes image);

// A PT_LOAD.
struct Segment {
  VirtualAddress address;        // p_vaddr
  std::uint64_t memory_size = 0; // p_memsz
  ImageOffset offset;            // p_offset
  std::uint64_t file_size = 0;   // p_filesz, cut to what the image really has
  std::uint64_t alignment = 0;   // p_align
  bool readable = false;
  bool writable = false;
  bool executable = false;
};

enum class Binding : std::uint8_t { local, global, weak };
enum class SymbolType : std::uint8_t { none, object, function, ifunc, section, file, tls, other };
// plt: found by following PLT entries, not read from a table. oat: a compiled Java method
// (art.hpp).
enum class Table : std::uint8_t { dynsym, symtab, gnu_debugdata, debug_file, oat, plt };

// A symbol's version: f@NAME (hidden) or f@@NAME (the default).
struct SymbolVersion {
  std::string_view name;
  bool is_default = false;
  std::string_view library = {}; // of an import: the file that verneed says has this version
};

// The name of a version index.
struct VersionName {
  std::string_view name;
  std::string_view library; // where it is needed from; empty where it is defined here
};

// One entry of a symbol table. Names point into the image's bytes.
struct Symbol {
  std::string_view name;                // without version
  std::optional<SymbolVersion> version; // from verdef/verneed, or written into a .symtab name
  VirtualAddress address;               // bit 0 cleared for Thumb functions
  std::uint64_t size = 0;
  SymbolType type = SymbolType::none;
  Binding binding = Binding::local;
  Table table = Table::dynsym;
  bool defined = false;  // st_shndx is not SHN_UNDEF
  bool absolute = false; // SHN_ABS: address is a plain number
  bool thumb = false;    // ARM: st_value had bit 0 set
  bool in_data = false;  // no type, and its section's header says that no code is there: a
                         // linker's mark such as __ehdr_start, which may share a segment with code
};

// A symbol table read entry by entry, whatever the word size and byte order. A view: the bytes must
// outlive it and every name it hands out.
class SymbolTable {
public:
  struct Parts {
    Machine machine;
    Table table = Table::dynsym;
    Bytes entries; // Elf32_Sym or Elf64_Sym, whole ones
    Bytes strings;
    Bytes versions; // DT_VERSYM: a half word for each entry, or empty
    // Of .dynsym by version index; of other tables sorted by name (KnownVersions), or null.
    std::shared_ptr<const std::vector<VersionName>> version_names;
    Bytes sections = {}; // section headers that the entries' st_shndx refers to, or empty
  };

  SymbolTable() = default; // empty
  explicit SymbolTable(Parts parts);

  std::uint32_t size() const { return count_; }
  Table table() const { return parts_.table; }
  // Nothing for an index out of range or an entry whose name lies outside the string table (or is
  // longer than 64 KiB). Compiler-made entries are given too: sections, files, mapping symbols.
  std::optional<Symbol> at(std::uint32_t index) const;
  // Its name alone, without the version, at less cost.
  std::optional<std::string_view> name(std::uint32_t index) const;

  // Whether the entry has this name, its version aside: cheaper than at().
  bool has_name(std::uint32_t index, std::string_view name) const;

private:
  friend struct Prefetch;

  Parts parts_;
  std::uint32_t count_ = 0;
};

// A word that the loader fills with the address of a function: an entry of the GOT.
struct ImportSlot {
  VirtualAddress address;   // of the word
  std::uint32_t symbol = 0; // index in .dynsym of what the relocation names; mostly undefined, but
                            // code is also called this way that is defined here and may be replaced
  bool for_plt = false;     // JUMP_SLOT: made for a PLT entry; else GLOB_DAT: read by any code
};

struct AddressRange {
  VirtualAddress address;
  std::uint64_t size = 0; // bytes
};

// A note (gABI chapter 5, "Note Section"): who wrote it, what it is to them, what it says. A view.
struct NoteRecord {
  std::string_view owner; // without its NUL
  std::uint32_t type = 0;
  Bytes descriptor;
};
// What became of reading them all.
struct NoteStatistics {
  std::size_t broken = 0; // sections and segments that do not end with a whole note, or lie outside
                          // the file
  std::uint64_t unread = 0; // bytes beyond the bound
};

// Where the debug file of an image may be, besides its own folder.
struct DebugSearch {
  // Named by a person (--debug-dir), searched first: folders, symbol files, ZIPs of symbol files.
  std::vector<std::string> places;
  std::string system_folder = "/usr/lib/debug"; // where distributions install debug files
};

// What came of looking for symbols outside an image's own tables.
struct DebugReport {
  std::optional<std::string> used;   // ".gnu_debugdata", the file, or "ARCHIVE!/ENTRY"
  std::vector<std::string> warnings; // what was there but not used, and why
};

// What becomes of an archive's entry that is compressed.
enum class Compressed {
  reject,  // it cannot be probed where it is
  inflate, // read as the file that a device makes of it when it installs the app
};
// The largest entry that is inflated, bytes: 512 MiB, all in memory.
constexpr std::uint64_t max_inflated_size = std::uint64_t{512} << 20;

class Image {
public:
  // Opens the file, for an entry finds its stored bytes in the archive, parses. Errors carry the
  // path. A plain archive path without entry is not_elf with a hint that an entry is needed.
  static Result<Image> open(const BinaryPath& path);

  // The same over a file that is open already: images from one archive share one mapping.
  static Result<Image> open(std::shared_ptr<const MappedFile> file, const BinaryPath& path,
                            Compressed compressed = Compressed::reject);

  // Over bytes that outlive the image. entry_data is where the image lies in its file.
  static Result<Image> parse(Bytes image, FileOffset entry_data = {});

  Image(Image&&) noexcept;
  Image& operator=(Image&&) noexcept;
  ~Image();

  const BinaryPath& path() const;                        // as opened; empty after parse()
  const std::shared_ptr<const MappedFile>& file() const; // null after parse()
  FileOffset entry_data() const;                         // 0 for a plain file
  Bytes bytes() const;
  // Whether the bytes were inflated: they lie in no file here, and nothing can be probed.
  bool is_inflated() const;

  const Machine& machine() const;
  const std::vector<Segment>& segments() const;      // PT_LOADs, in table order
  std::optional<std::string> build_id() const;       // NT_GNU_BUILD_ID, lower-case hex
  std::optional<VirtualAddress> entry_point() const; // e_entry, where it is not 0

  // Whether this is the debug data of another file, which has the code. Program headers do not
  // tell: `objcopy --only-keep-debug` empties the segments, `eu-strip -f` leaves them as they were
  // in the other file, where they describe bytes that are not here. So: no dynamic symbols to be
  // read through PT_DYNAMIC, and a code section that says its bytes are elsewhere (SHT_NOBITS).
  // Wrong section headers alone make no library of a loader a debug file.
  bool is_debug_file() const;

  // The segment whose file bytes hold the address; nothing for .bss and gaps.
  const Segment* find_segment(VirtualAddress address) const;
  const Segment* find_segment(ImageOffset offset) const;
  std::optional<ImageOffset> to_image(VirtualAddress address) const;
  std::optional<VirtualAddress> to_address(ImageOffset offset) const;
  std::optional<FileOffset> to_file(ImageOffset offset) const; // nothing where is_inflated()

  // Empty tables where the image has none; corrupt only where a table is there but unreadable.
  // To count .dynsym the whole hash table is read: to find one name, use find_dynamic.
  Result<SymbolTable> dynamic_symbols() const;
  Result<SymbolTable> full_symbols() const; // .symtab

  // The dynamic symbols with this name (several versions share one), through DT_GNU_HASH, else
  // DT_HASH, else a scan. Definitions come through the hash table in a few page accesses; only if
  // there are none are undefined symbols looked for, which DT_GNU_HASH does not have.
  Result<std::vector<Symbol>> find_dynamic(std::string_view name) const;

  // Symbols that are not in the image's own tables. Nothing is looked for until one of the two is
  // called; what they find is in debug_symbols() from then on. Addresses are those of the image,
  // whose own PT_LOADs turn them into offsets.
  //
  // .gnu_debugdata: the .symtab of an ELF file compressed with xz, at most 128 MiB of it.
  DebugReport add_embedded_symbols();
  // The debug file: in the places, by build id, by .gnu_debuglink with the CRC checked. A file with
  // another build id is never used. In a folder at most 20,000 files are looked at, in an archive
  // 1000 entries besides those of the right name.
  DebugReport add_debug_file(const DebugSearch& where);
  std::span<const SymbolTable> debug_symbols() const;

  // What cannot be read of the symbols though the image itself can, each a sentence without its
  // subject. Reads the section headers.
  std::vector<std::string> symbol_damage() const;

  // DT_NEEDED, in order: the libraries an import may come from.
  std::vector<std::string_view> needed_libraries() const;

  // The functions' slots that the relocations of PT_DYNAMIC (DT_JMPREL, DT_RELA, DT_REL) name, in
  // their order; each has a symbol with a name. Empty for machines whose relocations are not known
  // here: all but x86-64, i386, arm64 and arm. DT_ANDROID_REL(A), which hold no JUMP_SLOT, are not
  // unpacked.
  Result<std::vector<ImportSlot>> import_slots() const;
  // Where the section headers say that the PLT's parts are; empty without section headers.
  std::vector<AddressRange> plt_sections() const;
  bool has_section_headers() const;
  // The first section of this name that has bytes in the file.
  std::optional<VirtualAddress> section_address(std::string_view name) const;

  // The notes of the SHT_NOTE sections, then of the PT_NOTEs. What shares a byte with one before is
  // left out, as PT_NOTEs mostly are: no byte is read twice, however many headers name it. corrupt
  // where section headers are named that are not all in the file. At most this many bytes are read.
  static constexpr std::uint64_t max_note_bytes = std::uint64_t{4} << 20;
  Result<NoteStatistics> visit_notes(const std::function<void(const NoteRecord&)>& visit) const;
  // DT_PLTGOT: what i386 code addresses the GOT from.
  std::optional<VirtualAddress> got() const;

private:
  friend struct Prefetch;

  struct State;
  explicit Image(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::elf
