// SPDX-License-Identifier: Apache-2.0
// Reads ahead-of-time compiled Java methods from OAT files (.odex, .oat). Formats: AOSP
// art/runtime/oat/oat.h and oat_file.cc, art/runtime/vdex_file.h, and the "Dalvik executable
// format" of source.android.com.
//
// An OAT file is an ELF image. It lists code by class and method number; the names are in DEX
// files, which are in the VDEX file beside it or in the jar or APK that it was compiled from. ART
// changes the layout often and has used version numbers twice. A layout is therefore accepted only
// if the whole file is consistent with it, and a DEX file only if its checksum matches the OAT
// file.
//
// Unsupported: code that was compiled at run time.
#pragma once

#include "uprobectl/elf.hpp"

#include <functional>
#include <memory>
#include <span>

namespace uprobectl::art {

// The OAT versions with known layouts. Older versions are accepted only if the symbols in the
// file's .gnu_debugdata confirm the result, newer ones if nothing in the file contradicts the
// newest layout.
constexpr std::uint32_t oldest_version = 131; // Android 8.1
constexpr std::uint32_t newest_version = 275; // Android 17

class NameMapping; // the mapping file of R8 or ProGuard (art/name_mapping.hpp)

// Where the names of methods come from: paths to search for DEX files, besides the VDEX file and
// the locations in the OAT file.
struct DexSearch {
  std::vector<std::string> files;  // given by the user: .dex, .vdex, jar or APK
  std::optional<std::string> root; // the sysroot: a directory with the files of a device
  std::shared_ptr<const NameMapping> mapping = {}; // the names of the source, if they were changed
  // Opens one of `files`, if they are not all on this machine.
  std::function<Result<MappedFile>(const std::string& path)> open_file = {};
};

// access_flags of the DEX format.
constexpr std::uint32_t access_static = 0x8;
constexpr std::uint32_t access_native = 0x100;
constexpr std::uint32_t access_abstract = 0x400;

// A method of a class that is defined in one of the DEX files.
struct Method {
  VirtualAddress code;      // of the first instruction, without the Thumb bit, if compiled
  std::uint32_t index = 0;  // into the method_ids of its DEX file
  std::uint32_t access = 0; // access_flags
  std::uint16_t dex = 0;    // index of the DEX file
  bool compiled = false;
  bool thumb = false;

  bool is_static() const { return (access & access_static) != 0; }
  bool is_native() const { return (access & access_native) != 0; }
  bool is_abstract() const { return (access & access_abstract) != 0; }
};

// The signature of a method. Types are Java names: "int", "java.lang.String", "byte[][]",
// "com.foo.Outer$Inner".
struct Signature {
  std::string return_type;
  std::string class_name;
  std::string name; // "<init>" for a constructor
  std::vector<std::string> parameters;
};
std::string to_string(const Signature& signature); // "void com.foo.Bar.baz(int, long)"

// A class that a DEX file defines.
struct Class {
  std::uint16_t dex = 0;   // index of the DEX file
  std::uint32_t index = 0; // into its class_defs
};

// A DEX file that the OAT file was compiled from.
struct OatDex {
  std::string location;              // in the OAT file: "/system/framework/services.jar"
  std::optional<std::string> source; // where it was found; nullopt if it was not
  std::vector<std::string> tried;    // paths that were tried, with the reason for each failure
};
// Adds hints: the paths that were tried for a missing DEX file, and how to specify its path.
Error add_missing_dex_hints(Error error, const OatDex& missing);

// A method in the output of oatdump --dump-method-and-offset-as-json.
struct DumpedMethod {
  std::string signature;
  std::uint64_t offset = 0; // with the Thumb bit; 0: not compiled
};
// Parses a line of that output. Errors: corrupt.
Result<DumpedMethod> parse_dumped_method(std::string_view line);

// An OAT file with its DEX files, or with the output of oatdump instead of them.
class OatFile {
public:
  // Whether the image is an OAT file, of any version.
  static bool is_oat(const elf::Image& image);

  // Finds the DEX files and reads the code address of every method. The image must outlive the
  // result. Files beside the OAT file are found only if the image has a path.
  // For a version outside the known range, loads .gnu_debugdata if needed.
  // Errors: corrupt if no known layout fits; unsupported for a version outside the known range that
  // does not fit, or is older and not confirmed.
  static Result<OatFile> read(elf::Image& image, const DexSearch& search);

  // Takes the methods from oatdump's output instead of DEX files. Its offsets count from oatdata
  // (older versions of oatdump) or from the start of the file (newer ones). The base is the one for
  // which every method begins at a function, checked against the first of these that exists:
  // - the image's symbols (.gnu_debugdata, loaded if needed);
  // - the result of read(), which must have the same methods at the same addresses, except for
  //   methods of DEX files that were not found;
  // - the method headers before the code, of at least eight functions.
  // Errors: corrupt if neither base fits; ambiguous if both fit or the headers are inconclusive.
  static Result<OatFile> from_oatdump(elf::Image& image, std::vector<DumpedMethod> methods,
                                      const DexSearch& search);

  OatFile(OatFile&&) noexcept;
  OatFile& operator=(OatFile&&) noexcept;
  ~OatFile();

  std::uint32_t version() const;
  // Whether the version is newer than the newest known one, so that the layout is an assumption.
  bool is_newer_version() const { return version() > newest_version; }
  // Whether the file has any code. Known also if DEX files are missing.
  bool has_code() const;
  // Returns a value of the key-value store ("compiler-filter", ...); empty if the key is missing.
  std::string_view value(std::string_view key) const;

  std::span<const OatDex> dex_files() const;
  bool has_all_dex_files() const; // true also if there are none
  bool has_access_flags() const;  // Method::access is valid; oatdump's output has no access_flags

  // The compiled methods of the DEX files that were found, by address. Methods can share code.
  std::span<const Method> compiled() const;
  // Returns the methods whose code contains the address; they share that code. Returns none between
  // functions. Code of unknown size counts as its first byte only.
  std::span<const Method> methods_at(VirtualAddress address) const;
  // Returns the code size of a compiled method in bytes; 0 if it is unknown.
  std::uint64_t code_size(const Method& method) const;

  // Finds a class by its Java name ("com.foo.Outer$Inner"). If several DEX files define it, the
  // first is returned, as at run time.
  std::optional<Class> find_class(std::string_view name) const;
  // Visits every class with its Java name, until the visitor returns false.
  void for_each_class(const std::function<bool(Class, std::string_view name)>& visit) const;
  std::string class_name(Class defined) const;
  std::string superclass(Class defined) const; // empty if none
  // The methods of a class, compiled or not, in the order of the DEX file.
  std::vector<Method> class_methods(Class defined) const;

  Signature signature(const Method& method) const; // with the names in the DEX file
  const NameMapping* mapping() const;              // DexSearch::mapping; null if there is none
  // The ids of the mapping files that R8 wrote for the DEX files; empty if they have none.
  std::vector<std::string_view> map_ids() const;
  // Appends "com.foo.Bar.baz" to the text; faster than signature().
  void append_qualified_name(const Method& method, std::string& text) const;

  struct State; // private

private:
  explicit OatFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns a compiled method as a symbol of elf::Table::oat. The signature is the symbol's name and
// must outlive it.
elf::Symbol method_symbol(const OatFile& oat, const Method& method, std::string_view signature);

// The result of comparing the methods with the symbols of .gnu_debugdata. It is a contradiction if
// a compiled method has no function symbol at its address, or if a symbol with a method's name is
// at an address without such a method, unless DEX files are missing. It is inconclusive if there is
// no symbol with a method's name; code that several methods share has none.
enum class SymbolCheck { contradiction, inconclusive, match };
SymbolCheck check_symbols(const OatFile& oat, std::span<const elf::SymbolTable> symbols);

} // namespace uprobectl::art
