// ELF files that are read for their names alone: what .gnu_debugdata holds, what
// `objcopy --only-keep-debug` makes, an unstripped copy. They may have no program headers or stale
// ones, and their code may be NOBITS. Nothing here turns an address into an offset.
#pragma once

#include "elf/dynamic_table.hpp"

namespace uprobectl::elf {

// A view of the bytes, which must outlive it.
class SymbolFile {
public:
  static Result<SymbolFile> read(Bytes bytes);

  const Machine& machine() const { return layout_.machine; }
  const std::optional<std::string>& build_id() const { return build_id_; }
  // Its .symtab, empty where it has none, with the symbols labelled as coming from `table`.
  // `versions`: of the image that it belongs to.
  Result<SymbolTable> symbols(Table table, KnownVersions versions = nullptr) const;

private:
  explicit SymbolFile(Layout layout);

  Layout layout_;
  std::optional<std::string> build_id_;
};

// Whether a symbol file belongs to an image. A CRC or a place by build id can prove it too.
struct Kinship {
  enum class Answer { same, unknown, different };
  Answer answer = Answer::different;
  std::string reason; // of unknown and different, to stand behind the file's name
};
Kinship compare(const Machine& machine, const std::optional<std::string>& build_id,
                const SymbolFile& file);

// .gnu_debuglink: a file name, zeros up to a multiple of four, the CRC-32 of that file (GDB manual,
// "Separate Debug Files").
struct DebugLink {
  std::string name; // without folders
  std::uint32_t crc32 = 0;
};

// Nothing where the section is missing or malformed.
std::optional<DebugLink> read_debug_link(const Layout& layout);

std::uint32_t crc32_of(Bytes bytes);

} // namespace uprobectl::elf
