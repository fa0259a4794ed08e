// SPDX-License-Identifier: Apache-2.0
// What a person typed -> probe points, the numbers the kernel needs; and a number -> a name.
// FUNCTION forms are those of the command line contract (docs/names.md).
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/insn.hpp"
#include "uprobectl/symbols.hpp"
#include "uprobectl/usdt.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <sys/types.h>

namespace uprobectl {

// A FUNCTION as typed, taken apart without looking at any file: views of the text, which must
// outlive it. There may be thousands of them.
struct FunctionSpec {
  enum class Form { name, plt, virtual_address, image_offset, file_offset };

  Form form = Form::name;
  std::string_view request;          // as typed
  std::string_view name;             // name, plt: the whole name, version suffix included, "+N" not
  std::uint64_t number = 0;          // the other forms: the address or offset
  std::optional<std::uint64_t> plus; // "+N": bytes into the function
};

// How names are taken.
struct ResolveOptions {
  bool all = false;     // every place of an ambiguous name
  bool clones = false;  // what the compiler made of a function ("f.constprop.0"), too
  bool aliases = false; // fill in ProbePoint::aliases
  bool unsafe = false;  // "+N" beyond the symbol and places where no instruction begins: warned of
  // A probe is to be put there: a number inside an instruction, of which people who only want its
  // name are warned, is an error as "+N" is.
  bool to_probe = false;
  // Fill in ProbePoint::instruction; wanted: and say so where there is none to show.
  enum class Instructions { none, where_known, wanted };
  Instructions instructions = Instructions::none;
  // Look for clones and folded functions to warn of even where the name came through the hash
  // table, for which everything else would not be read. Names from other tables get this anyway.
  bool thorough = false;
  bool suggest = true; // look for names like one that is not there; slow over many files
};

// "name", "name+0x10", "name+16", "plt:name" (or "name@plt", as it is shown), "vaddr:0x…",
// "offset:0x…", "file-offset:0x…". A "+" that no number follows is part of the name (operator+).
Result<FunctionSpec> parse_function(std::string_view text);
template <std::same_as<std::string> Temporary>
Result<FunctionSpec> parse_function(Temporary&&) = delete; // nothing to view would be left

// What the probe points of one binary share. Holds the open file it was resolved in, so that what
// is attached is what was looked at.
struct ProbedBinary {
  std::string target; // TARGET as typed
  BinaryPath path;    // the binary as shown to people; the entry, where one was found
  std::shared_ptr<const MappedFile> file;
  std::string real_path; // absolute, symbolic links resolved: the file the kernel knows
  FileOffset entry_data; // where the image begins in the file
  elf::Machine machine;
  std::optional<std::string> build_id;
};

// What compiled code that begins at a place takes and returns; types as art::Signature has them.
struct JavaMethod {
  std::string return_type;
  std::vector<std::string> parameters;
  bool is_static = false;

  bool operator==(const JavaMethod&) const = default;
};

// A place in a file where a probe can be put.
struct ProbePoint {
  std::shared_ptr<const ProbedBinary> binary; // never null
  std::string request;                        // FUNCTION as typed

  // What the kernel takes. Nothing for a library that is compressed in its archive
  // (TargetOptions::extracted): it can be probed only where the device has installed it, there at
  // image_offset.
  std::optional<FileOffset> offset;
  ImageOffset image_offset;       // inside the ELF image
  VirtualAddress address;         // inside the ELF image's numbering
  VirtualAddress segment_address; // p_vaddr and p_offset of the PT_LOAD the sum was made with
  ImageOffset segment_offset;

  std::optional<std::string> symbol; // raw name; nothing where a number meets no symbol
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> demangled; // where it differs from symbol
  std::optional<std::string> version;
  std::optional<bool> default_version; // where version is known
  std::optional<std::uint64_t> size;   // st_size, where there is a symbol
  std::optional<SymbolKind> kind;
  std::optional<elf::Table> table; // nothing for numbers
  std::optional<std::vector<std::string>>
      aliases;                            // raw names of the symbol's address; if asked for
  std::optional<std::string> instruction; // as instruction_text() in insn.hpp; if asked for
  std::vector<std::string> warnings;      // what a person should know before probing here
  ProbeEffect effect;                     // of a probe there; who attaches one asks probe_error()

  // Of a method in an OAT file, also behind its start; nothing where methods with other parameters
  // share its code.
  std::shared_ptr<const JavaMethod> java;

  // Of a place of a static probe, whose symbol is then "PROVIDER:NAME", without kind and table.
  std::shared_ptr<const StaticProbe> static_probe;
  std::optional<FileOffset> semaphore; // in the file that is probed
};

// "ns::Foo::bar(int)+0x10", "memcpy@@GLIBC_2.14", or "vaddr:0x…" where there is no symbol.
std::string display_name(const ProbePoint& point);

// Why no probe may be put there, with the nearest instruction of the function behind it that can be
// probed as a hint: the kernel refuses it, or the program would go on with wrong values. Nothing
// where it leaves the program right.
std::optional<Error> probe_error(const ProbePoint& point);

// A library inside an archive, as `list-symbols ARCHIVE` shows it.
struct ArchiveLibrary {
  std::string entry;
  std::optional<FileOffset> offset;       // of its data; nothing where the local header is corrupt
  std::uint64_t size = 0;                 // uncompressed
  std::string compression;                // "stored", "deflated", ...
  std::optional<std::uint64_t> alignment; // largest power of two dividing offset
  std::optional<elf::Machine> machine;    // nothing where the bytes are no readable ELF image
  bool probeable = false;
  std::optional<std::string> reason; // why not, or what to know although it can be
};

// What a person said besides TARGET and FUNCTIONs.
struct TargetOptions {
  std::vector<pid_t> pids;        // -p: whose mappings and mount namespaces come first
  std::optional<std::string> app; // --app: an Android package, whose files come first; without pids
  // --debug-dir: folders, symbol files and ZIP archives that may have the symbols of a stripped
  // file.
  std::vector<std::string> debug_places;
  // --extracted: an entry that is compressed is inflated (elf::largest_inflated) and answered for
  // as the file that a device makes of it. Nothing here can be probed then.
  bool extracted = false;
  // --dex, --root: where the DEX files of OAT files may be, whose methods they name.
  art::DexSearch dex;
  std::optional<std::string> oatdump; // --oatdump: asked instead of reading OAT files
};

// What offset there is to show: that in the file, else that in the library as it is installed.
std::uint64_t shown_offset(const ProbePoint& point);

// Where symbols outside the file's own tables came from.
struct DebugNotes {
  std::vector<std::string> used;     // ".gnu_debugdata", files, "ARCHIVE!/ENTRY"
  std::vector<std::string> warnings; // symbol files that are there but could not be used
};

// A file that a TARGET means, found but not looked into.
struct TargetFile {
  BinaryPath path;                          // as it is to be opened from here
  BinaryPath shown;                         // as people know it: FILE of the output
  std::shared_ptr<const MappedFile> opened; // null: Target::open does it
  std::vector<std::string> warnings;        // what a person should know about the choice
};

// All files that a TARGET means: mostly one. An entry pattern (ARCHIVE!/lib/*/libfoo.so, where no
// entry has exactly that name) means every library entry it matches, in the order of the archive's
// directory; `*` every file that the processes map executable, in the order of their mappings, or
// every ELF file of the app for this device.
struct Targets {
  std::string text;                  // as typed
  bool several = false;              // the text can mean several, also where it is only one now
  std::vector<TargetFile> files;     // never empty
  std::vector<std::string> warnings; // about all of them
};

// usage for a `*` without processes or app, not_found (with the nearest names) where nothing is
// meant, ambiguous (with the candidates) where a name that means one file is that of several.
// With an app, Android's own commands pm and getprop are run.
Result<Targets> find_targets(std::string_view text, const TargetOptions& options = {});

// A TARGET that has been found and opened: a plain ELF file, an entry of an archive, or an archive
// as a whole. Owns the mapping; the unit of caching for many questions about one file.
class Target {
public:
  // Finds the reading of the text that exists (readings() in path.hpp) and opens it. A bare name
  // is looked up as a library or a program. With pids, what those processes map and their mount
  // namespaces come first: so a library inside an archive is found by its bare name.
  static Result<Target> open(std::string_view text, const TargetOptions& options = {});
  // One of the files that the text means. Errors name the file.
  static Result<Target> open(const TargetFile& file, std::string_view text,
                             const TargetOptions& options = {});

  Target(Target&&) noexcept;
  Target& operator=(Target&&) noexcept;
  ~Target();

  const std::string& text() const; // as typed
  const BinaryPath& path() const;  // as found
  const BinaryPath& shown() const; // as people know it: FILE of the output
  const elf::Image* image() const; // null for an archive as a whole
  const std::shared_ptr<const MappedFile>& file() const;
  const std::vector<std::string>& warnings() const; // what a person should know about the choice
  // wrong_machine where none of the processes of the options can ever run this file.
  const std::optional<Error>& foreign() const;

  // The places the FUNCTION denotes, by offset, an offset once. Several places for one exact name
  // are an error that lists them, unless all are asked for. In an archive as a whole only
  // file-offset: is answered. .gnu_debugdata and debug files are read only for names that the
  // file's own tables do not have, and for patterns, numbers, aliases and clones where it has no
  // .symtab.
  Result<std::vector<ProbePoint>> resolve(const FunctionSpec& function,
                                          const ResolveOptions& options = {}) const;
  // The same for each of many FUNCTIONs as typed, quicker; they are visited in order.
  using VisitPlaces =
      std::function<void(std::size_t index, Result<std::vector<ProbePoint>> points)>;
  void resolve_each(std::span<const std::string_view> functions, const ResolveOptions& options,
                    const VisitPlaces& visit) const;

  // The places of the static probes that "PROVIDER:NAME" stands for, in the order of the notes.
  // Both may be patterns, and NAME may have '-' for "__", as dtrace has it. A text without a colon
  // is an error that names what it may have meant: a probe of some provider, or a function.
  Result<std::vector<ProbePoint>> static_probes(std::string_view text) const;
  // All that the file's notes say, read once. no_code for an archive as a whole.
  Result<std::shared_ptr<const StaticProbes>> static_notes() const;

  // The Java methods of an OAT file, or why they cannot be read; null for every other file.
  const Result<art::OatFile>* java_methods() const;
  // Why methods of the OAT file have no names: a DEX file is not found. Nothing where all are.
  std::optional<Error> missing_dex() const;

  // Before a list of all symbols: brings the debug tables into image() where it has no .symtab.
  void complete_symbols();
  // What the questions so far have brought in.
  const DebugNotes& debug_notes() const;

  // The libraries (lib/… and every other ELF entry named *.so) of an archive as a whole.
  Result<std::vector<ArchiveLibrary>> libraries() const;

private:
  struct State;
  explicit Target(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A walk over the files of a TARGET.
struct Visited {
  std::size_t files = 0;             // that could be opened
  std::vector<std::string> warnings; // about all, and those left out (compressed ones are counted)
};

// Opens one file after the other; of several those that the processes cannot run are left out, too.
// None stays open longer than its visit, but for what the visitor keeps. An error where none can be
// opened: of a single file its own.
Result<Visited> visit_all(const Targets& targets, const TargetOptions& options,
                          const std::function<void(Target&)>& visit);

// Against a method's whole signature, without its return type, and without its parameters. "[]" is
// part of an array's type.
bool matches_method(std::string_view pattern, std::string_view signature);
// The signatures of those whose code covers the address, but for this one.
std::vector<std::string> other_methods_at(const art::OatFile& oat, VirtualAddress address,
                                          std::string_view own);
// " (compiler filter 'verify')": what decided which methods are compiled. Empty where the file does
// not say it.
std::string in_compiler_filter(const art::OatFile& oat);

// What several files have to say to one FUNCTION.
struct SharedAnswer {
  std::string request;            // FUNCTION as typed
  std::vector<ProbePoint> points; // in the order of the files, then by offset
  std::size_t files = 0;          // that have it
  std::vector<Error> errors;      // of single files (ambiguous there, ...), or that none has it
};
struct SharedAnswers {
  std::vector<SharedAnswer> functions;
  std::size_t asked = 0;             // files that could be asked
  std::vector<std::string> warnings; // files that could not, and about those that could
  std::vector<std::string> details;  // where symbols came from
};

// Asks every file for each FUNCTION; one that some file has is no failure of the others. Files that
// cannot be opened are left out as visit_all does. usage error where a FUNCTION is malformed.
Result<SharedAnswers> ask_all(const Targets& targets, std::span<const std::string_view> functions,
                              const TargetOptions& where, const ResolveOptions& how);
Result<SharedAnswers> ask_all(const Targets& targets, std::span<const std::string> functions,
                              const TargetOptions& where, const ResolveOptions& how);

} // namespace uprobectl
