// SPDX-License-Identifier: Apache-2.0
// Java methods that were compiled ahead of time: which methods an OAT file (.odex, .oat) has code
// of, and where. Format: AOSP art/runtime/oat/oat.h and oat_file.cc, art/runtime/vdex_file.h, and
// the "Dalvik executable format" of source.android.com.
//
// An OAT file is an ELF image with the code, in the order of the classes and methods of DEX files
// that lie elsewhere: in the VDEX file beside it, or in the jar or APK that it was made from. ART
// changes the layout often, and version numbers have been used twice: so a layout is taken only
// where everything it says about the file holds, and a DEX file only where its checksum is the one
// that the OAT file knows.
//
// Not supported, and said so: DEX containers (version 041), code that was compiled at run time.
#pragma once

#include "uprobectl/elf.hpp"

#include <functional>
#include <memory>
#include <span>

namespace uprobectl::art {

// The versions whose layouts are known; others need the file's own .gnu_debugdata to agree.
constexpr std::uint32_t oldest_version = 131; // Android 8.1
constexpr std::uint32_t newest_version = 244; // Android 15

// Where DEX files may be, besides the VDEX file and the places that the OAT file itself names.
struct DexSearch {
  std::vector<std::string> files;  // named by a person: .dex, .vdex, jar, APK
  std::optional<std::string> root; // the folder that a system image was unpacked into
};

// access_flags of the DEX format.
constexpr std::uint32_t access_static = 0x8;
constexpr std::uint32_t access_native = 0x100;
constexpr std::uint32_t access_abstract = 0x400;

// A method of a class that is defined in one of the DEX files.
struct Method {
  VirtualAddress code;      // of the first instruction, without the Thumb bit; where compiled
  std::uint32_t index = 0;  // in the method_ids of its DEX file
  std::uint32_t access = 0; // access_flags
  std::uint16_t dex = 0;    // the number of the DEX file
  bool compiled = false;
  bool thumb = false;

  bool is_static() const { return (access & access_static) != 0; }
  bool is_native() const { return (access & access_native) != 0; }
  bool is_abstract() const { return (access & access_abstract) != 0; }
};

// Types as Java has them: "int", "java.lang.String", "byte[][]", "com.foo.Outer$Inner".
struct Signature {
  std::string return_type;
  std::string class_name;
  std::string name; // "<init>" for a constructor
  std::vector<std::string> parameters;
};
std::string to_string(const Signature& signature); // "void com.foo.Bar.baz(int, long)"

// A class_def.
struct Class {
  std::uint16_t dex = 0;
  std::uint32_t index = 0;
};

// A DEX file that the OAT file was compiled from.
struct OatDex {
  std::string location;              // as the OAT file has it: "/system/framework/services.jar"
  std::optional<std::string> source; // where it was found; nothing: it was not
  std::vector<std::string> tried;    // where it was looked for, and what was wrong with that
};
// Hints where one that is missing was looked for, and how it can be named.
Error with_dex_places(Error error, const OatDex& missing);

// What oatdump says of a method (--dump-method-and-offset-as-json).
struct DumpedMethod {
  std::string signature;
  std::uint64_t offset = 0; // with the Thumb bit; 0: not compiled
};
// One line of it. corrupt.
Result<DumpedMethod> parse_dumped_method(std::string_view line);

class OatFile {
public:
  // Whether the image is an OAT file of whatever version.
  static bool is_oat(const elf::Image& image);

  // Finds the DEX files and reads where the code of every method is. The image must outlive it. One
  // without a path has no files beside it. corrupt where no known layout fits; unsupported, with
  // the version named, for versions outside the known ones that the symbols of the image
  // (.gnu_debugdata is read for it) do not confirm.
  static Result<OatFile> read(elf::Image& image, const DexSearch& where);

  // The same from what oatdump says, which has the methods and no DEX files. Older versions count
  // from oatdata, newer ones from the file: taken is that which puts every method where a function
  // begins in the executable bytes, by the image's symbols (.gnu_debugdata is read for it), by our
  // own reading of the file, which must have the same methods there (those of DEX files that are
  // not found only oatdump has), or else by the headers of at least eight functions. corrupt where
  // neither does, ambiguous where both do or the headers do not tell.
  static Result<OatFile> from_oatdump(elf::Image& image, std::vector<DumpedMethod> methods,
                                      const DexSearch& where);

  OatFile(OatFile&&) noexcept;
  OatFile& operator=(OatFile&&) noexcept;
  ~OatFile();

  std::uint32_t version() const;
  // Of the key-value store ("compiler-filter", ...); empty where it is not in it.
  std::string_view value(std::string_view key) const;

  std::span<const OatDex> dex_files() const;
  bool has_all_dex_files() const; // or needs none
  bool knows_access() const;      // Method::access; oatdump does not tell it

  // Every compiled method of the DEX files that were found, by address; several may share one.
  std::span<const Method> compiled() const;
  // Those whose code covers the address: all have the same code. Empty between functions, and
  // behind the first byte of code whose size is not known.
  std::span<const Method> methods_at(VirtualAddress address) const;
  // Of a compiled method, bytes; 0: not known.
  std::uint64_t code_size(const Method& method) const;

  // The class as Java names it ("com.foo.Outer$Inner"); the first DEX file that has it wins, as at
  // run time.
  std::optional<Class> find_class(std::string_view name) const;
  // Every class with its name as Java has it, until the visitor returns false.
  void for_each_class(const std::function<bool(Class, std::string_view name)>& visit) const;
  std::string class_name(Class defined) const;
  std::string superclass(Class defined) const;         // empty: none
  std::vector<Method> methods_of(Class defined) const; // compiled or not, in the order of the DEX

  Signature signature(const Method& method) const;
  // "com.foo.Bar.baz" is put at the end of the text; quicker than the signature.
  void append_qualified_name(const Method& method, std::string& text) const;

  struct State; // private

private:
  explicit OatFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A compiled method as a symbol of the table oat, called by its signature, which must outlive it.
elf::Symbol method_symbol(const OatFile& oat, const Method& method, std::string_view signature);

// Whether symbols that were made with the file (.gnu_debugdata) say the same: a function at every
// compiled method's address, called as one of the methods there wherever it has a method's name,
// which at least one has.
bool names_agree(const OatFile& oat, std::span<const elf::SymbolTable> symbols);

} // namespace uprobectl::art
