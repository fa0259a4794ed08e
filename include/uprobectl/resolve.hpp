// SPDX-License-Identifier: Apache-2.0
// Resolves a TARGET and a FUNCTION, as a user types them, to probe points: the file offsets that
// the kernel needs. Resolves addresses and offsets to names as well. docs/names.md describes the
// forms of FUNCTION.
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/insn.hpp"
#include "uprobectl/symbols.hpp"
#include "uprobectl/usdt.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace uprobectl::binary {
class Binary;
} // namespace uprobectl::binary

namespace uprobectl::resolve {

struct PointDetails;

// A parsed FUNCTION. Parsing reads no file. The members are views of the text, which must outlive
// them: a request can have thousands of FUNCTIONs.
struct FunctionSpec {
  enum class Form {
    name,
    plt,
    virtual_address,
    image_offset,
    file_offset,
    source_line,   // FILE:LINE
    function_line, // FUNCTION:+LINE
  };

  Form form = Form::name;
  std::string_view request; // as typed
  // The function with its version suffix, without "plt:" and "+N". FILE or FUNCTION of a line.
  // Empty for numbers.
  std::string_view name;
  std::uint64_t number = 0;          // the address or offset, or the LINE
  std::optional<std::uint64_t> plus; // "+N": bytes into the function
};

// Options for resolving a FUNCTION.
struct ResolveOptions {
  // Return every address of an ambiguous name, instead of an error; every statement of a source
  // line, instead of the first of each piece of its code.
  bool all = false;
  // Which code a name means besides the function itself. bodies: also its clones ("f.constprop.0",
  // "f.avx2"), which are called instead of it; all: also parts that are called ("f.part.0").
  enum class Clones : std::uint8_t { bodies, all, none };
  Clones clones = Clones::bodies;
  bool thunks = false;  // keep bodies that only jump to another body: a call through one hits twice
  bool inlined = false; // include the addresses where the function is inlined, by debug information
  bool aliases = false; // fill in ProbePoint::aliases
  // A pattern without "+N" finds each name and version of an address, not only the preferred one.
  bool every_name = false;
  // Accept "+N" outside the symbol and addresses inside an instruction, with a warning.
  bool unsafe = false;
  // The caller attaches a probe. Then a number that points inside an instruction is an error, as
  // "+N" there always is; otherwise it causes a warning. With `unsafe` both cause a warning.
  bool to_probe = false;
  // Nops that this kernel replaces while they are probed. Set by callers that attach.
  insn::OptimizedNops replaced_nops = {};
  // Whether to fill in ProbePoint::instruction. required: also warn if it cannot be shown.
  enum class Instructions { none, if_known, required };
  Instructions instructions = Instructions::none;
  // Warn of clones and folded functions even if the name is found in the ELF hash table. The
  // warning needs a pass over all symbols, which the lookup itself avoids. Other lookups always
  // warn.
  bool thorough = false;
  bool suggest = true; // suggest similar names for an unknown one; slow for many files
  // Accept another spelling of a name if no function has exactly this one (find_by_spelling()).
  bool other_spellings = true;
};
// "bodies", "all" or "none".
std::string_view to_string(ResolveOptions::Clones clones);
// Returns nullopt for another text.
std::optional<ResolveOptions::Clones> parse_clones(std::string_view text);

// Parses "name", "name+0x10", "name+16", "plt:name" (or "name@plt", as it is printed), "vaddr:0x…",
// "offset:0x…", "file-offset:0x…", "file.c:20", "name:+2". A "+" without a number after it is part
// of the name (operator+).
Result<FunctionSpec> parse_function(std::string_view text);
template <std::same_as<std::string> Temporary>
Result<FunctionSpec> parse_function(Temporary&&) = delete; // the views would dangle

// A FUNCTION or a static probe, as typed, with the TARGET that is written before it.
struct FunctionWord {
  std::string_view target; // empty: the TARGET of the command
  std::string_view function;
};
// Splits "TARGET:FUNCTION" or "TARGET:PROVIDER:NAME" by the text alone, without looking for files:
// at the first ':' that is neither part of "::" nor in parentheses or brackets. These colons belong
// to the FUNCTION:
// - after "plt", "vaddr", "offset", "file-offset", "go" and "type" (symbols of Go), "kfun"
//   (Kotlin/Native) and a drive letter;
// - before a line number or a range of lines that ends the word;
// - that of PROVIDER:NAME, for static probes: their TARGET contains '/' or ".so", or a second colon
//   follows.
// Fails with usage if nothing follows the TARGET.
Result<FunctionWord> split_target(std::string_view word, bool is_static_probe = false);

// A FUNCTION or static probe and the TARGET that has it.
struct TargetedFunction {
  std::string target;
  std::string function;

  bool operator==(const TargetedFunction&) const = default;
};
// A FUNCTION of --span, and the KEY by which begins and ends are paired: "f:req->id",
// "libfoo.so:f:arg0".
struct KeyedWord {
  std::string_view word;               // for split_target()
  std::optional<std::string_view> key; // may be empty
};
// Finds the KEY by the text alone: what follows the last single colon. Not counted are the colons
// of "file.c:20", "plt:f" and "PROVIDER:NAME", which belong to FUNCTION. If one colon remains, the
// text before it is a TARGET if it has a slash or ".so", and there is no KEY. If two remain, they
// follow TARGET and FUNCTION. Fails with usage if there are more.
Result<KeyedWord> split_key(std::string_view word, bool is_static_probe);
// Reverses split_target(): returns the word that means the function in a command with this TARGET.
std::string word_of(const TargetedFunction& named, std::string_view command_target,
                    bool is_static_probe = false);
// Adds to the error not_found how "TARGET:FUNCTION" was read, if it may have been meant as the name
// of a function in the TARGET of the command.
Error explain_target(Error error, const TargetedFunction& named, std::string_view command_target,
                     bool is_static_probe = false);

// The binary that probe points belong to. Keeps the resolved file open, so that a probe is attached
// to the same file even if the path is replaced.
struct ProbedBinary {
  std::string target; // TARGET as typed
  BinaryPath path;    // the path to print, with the archive entry if there is one
  std::shared_ptr<const MappedFile> file;
  std::string real_path; // absolute, without symbolic links: the file that the kernel probes
  FileOffset entry_data; // offset of the ELF image in the file; 0 unless it is an entry
  elf::Machine machine;
  std::optional<std::string> build_id;
  // The parsed file; null until Target::open().
  std::shared_ptr<binary::Binary> contents = {};
};

// The types of a compiled Java method, written as in art::Signature.
struct JavaMethod {
  std::string return_type;
  std::vector<std::string> parameters;
  bool is_static = false;

  bool operator==(const JavaMethod&) const = default;
};

// Where a function was inlined: the function around it, and the call that was replaced.
struct InlinedInto {
  std::string function;                 // raw name of the function that has the code; may be empty
  std::optional<std::string> demangled; // only if it differs
  std::string source;                   // path of the file with the call; may be empty
  std::uint32_t line = 0;               // 0: unknown
  // Whether hits may differ from calls: a jump reaches the address, or its entry is unknown.
  bool is_approximate = false;
  std::optional<std::uint64_t> debug_offset = {}; // of the call in the debug information
};

// The source line of a FILE:LINE or FUNCTION:+LINE.
struct SourceLine {
  std::string file; // path in the debug information, absolute if that has the compiler's folder
  std::uint32_t line = 0;
  std::optional<std::string> inlined; // the inlined function whose copy has the address, demangled
};

// An address and its names, which are the same in each file of one build.
struct NamedAddress {
  std::string request;    // FUNCTION as typed
  VirtualAddress address; // as symbol tables have it

  std::optional<std::string> symbol = {}; // raw name; nullopt if no symbol covers a number
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> demangled = {}; // only if it differs from symbol
  std::optional<std::string> version = {};
  std::optional<bool> default_version = {}; // only if version is known
  std::optional<std::uint64_t> size = {};   // st_size, if there is a symbol
  std::optional<symbols::SymbolKind> kind = {};
  std::optional<elf::Table> table = {}; // nullopt for numbers

  // Set for an inlined instance of the function `symbol`; otherwise null.
  std::shared_ptr<const InlinedInto> inlined_into = {};
  std::shared_ptr<const SourceLine> source = {}; // null unless a source line was requested
};

// An instruction of an open file that a FUNCTION or a static probe means. Its uprobe is at
// uprobe_offset(); probe_error() says whether it may be attached.
struct ProbePoint : NamedAddress {
  std::shared_ptr<const ProbedBinary> binary; // never null

  // The offset to pass to the kernel. nullopt for a library that is compressed in its archive
  // (TargetOptions::extracted): it can be probed only in the installed file, at image_offset.
  std::optional<FileOffset> offset;
  ImageOffset image_offset;       // inside the ELF image
  VirtualAddress segment_address; // p_vaddr of the PT_LOAD that contains address
  ImageOffset segment_offset;     // its p_offset

  // The raw name of the function that the symbol is a clone or part of.
  std::optional<std::string> clone_of;
  // Returns the raw name of the function itself: clone_of, or else the symbol; empty without a
  // symbol.
  std::string_view function() const {
    return clone_of ? *clone_of : symbol ? std::string_view(*symbol) : std::string_view();
  }
  // ResolveOptions::clones of the request, for messages; nullopt for a request by number, and with
  // ResolveOptions::thunks.
  std::optional<ResolveOptions::Clones> clones;
  // Raw names of the other symbols at the symbol's address, if ResolveOptions::aliases.
  std::optional<std::vector<std::string>> aliases;
  // The text of instruction_text() in insn.hpp, if ResolveOptions::instructions.
  std::optional<std::string> instruction;
  std::vector<std::string> warnings; // what a user should know before probing here
  // What a uprobe at uprobe_offset() does to the program. probe_error() says whether that is
  // allowed.
  insn::ProbeEffect effect;
  // Bytes from the point to its uprobe: nops that the kernel would replace, if
  // ResolveOptions::to_probe, or a function's prologue, if `attach` chooses. See uprobe_offset().
  std::uint64_t uprobe_distance = 0;

  // The OAT method that contains the point, if ResolveOptions::to_probe. Null if methods with
  // different parameters share the code.
  std::shared_ptr<const JavaMethod> java;

  // Whether display_name() begins with the file: the run has functions of several TARGETs.
  bool shows_file = false;

  // Set for a point of a static probe. Its symbol is "PROVIDER:NAME", without kind and table.
  std::shared_ptr<const usdt::StaticProbe> static_probe;
  std::optional<FileOffset> semaphore; // in the probed file

  // Details that records have in addition; null unless they were requested.
  std::shared_ptr<const PointDetails> details = {};
  // The source file of a local symbol whose name others have, too: set by set_source_files().
  std::optional<std::string> source_file = {};
};

// Whether the point is in a body of a function that has this name, or that the pattern matches.
// Selecting and excluding functions both use it.
bool is_body_of(const ProbePoint& point, const std::string& name);

// Whether TARGET means the file of the point: as it was typed, by the end of its path, or as the
// name of a library.
bool is_in_target(const ProbePoint& point, std::string_view target);

// Whether the word, "NAME" or "TARGET:NAME", selects the point. `has_name` compares the whole word,
// because names may have colons, and then the NAME if the TARGET means the point's file.
bool selects(std::string_view word, const ProbePoint& point,
             const std::function<bool(const std::string&)>& has_name);

// Returns the name to print: "ns::Foo::bar(int)+0x10", "memcpy@@GLIBC_2.14", or "vaddr:0x…" if
// there is no symbol. With ProbePoint::shows_file "libfoo.so:work".
std::string display_name(const ProbePoint& point);
// Return the two parts of display_name(): "libfoo.so:" or an empty text, and the name.
std::string display_file_prefix(const ProbePoint& point);
std::string name_in_file(const ProbePoint& point);
// Returns the source line to print, "FILE:20" or "FILE:20 (inlined ns::f(int))"; empty unless a
// line was requested. `folders`: whether FILE has them.
std::string display_source(const ProbePoint& point, bool folders);

// Returns the offset to print: the file offset, or the image offset if the library is compressed.
std::uint64_t display_offset(const ProbePoint& point);

// Return where the uprobe of the point is: at the point, or uprobe_distance bytes after it. At a
// hit the instruction pointer has this address. nullopt if the point has no file offset.
std::optional<FileOffset> uprobe_offset(const ProbePoint& point);
VirtualAddress uprobe_address(const ProbePoint& point);

// Returns an error if a probe must not be attached to the point: the kernel refuses it, or the
// program would continue with wrong values. A hint names the next instruction of the function that
// can be probed.
std::optional<Error> probe_error(const ProbePoint& point);

// A library inside an archive, as `list-symbols ARCHIVE` prints it.
struct ArchiveLibrary {
  std::string entry;
  std::optional<FileOffset> offset;       // of its data; nullopt if the local header is corrupt
  std::uint64_t size = 0;                 // uncompressed
  std::string compression;                // "stored", "deflated", ...
  std::optional<std::uint64_t> alignment; // largest power of two that divides offset
  std::optional<elf::Machine> machine;    // nullopt if the ELF image cannot be read
  bool probeable = false;
  std::optional<std::string> reason; // why it cannot be probed; else a note
  bool is_container = false;         // it is an APK in the archive, not a library
  bool is_unread = false;            // it is an APK that cannot be read, because of `reason`
};

// Options for finding and opening a TARGET.
struct TargetOptions {
  std::vector<pid_t> pids; // -p: search their mappings and mount namespaces first
  // The first word of a command that will be started: search the libraries that it needs, too.
  std::optional<std::string> command;
  // --everywhere: a name means every copy of the library: those that processes map, and those in
  // library folders and apps. pids, app and app_dir do not matter then.
  bool everywhere = false;
  // --app: search the files of this Android package first. Excludes pids.
  std::optional<std::string> app;
  // --app-dir: search the files of the Android package in this folder, and nothing else. Excludes
  // pids and app.
  std::optional<std::string> app_dir;
  // --abi: the ABI of app_dir or of libraries in archives, one of known_abis(); nullopt: all.
  std::optional<std::string> abi;
  // --debug-dir: directories, symbol files and ZIP archives to search for the symbols of a stripped
  // file.
  std::vector<std::string> debug_paths;
  // --extracted: inflate a compressed entry (at most elf::max_inflated_size bytes) and resolve in
  // it as in the installed file. Its points have no file offset.
  bool extracted = false;
  // --dex, --root: where to search for the DEX files that name the methods of OAT files.
  art::DexSearch dex;
  std::optional<std::string> oatdump; // --oatdump: program to run instead of parsing OAT files
};

// Lines of a source file.
struct SourceLines {
  std::string file;                     // its path in the debug information
  std::uint32_t first = 1;              // of a function: its declaration
  std::optional<std::uint32_t> last;    // of a function
  std::vector<std::uint32_t> with_code; // lines that can be probed, in order
};

// A file that a TARGET means. It is not parsed yet.
struct TargetFile {
  BinaryPath path;                          // the path to open
  BinaryPath display_path;                  // the path to print: FILE of the output
  std::shared_ptr<const MappedFile> opened; // null if Target::open() has to open it
  std::vector<std::string> warnings;        // about the choice of this file
};

// The names of the ABIs of Android: "arm64-v8a", ...
std::vector<std::string> known_abis();

// The result of Target::resolve_spelled().
struct ResolvedFunction {
  Result<std::vector<ProbePoint>> points;
  // How far the found spelling is from the name as typed (symbols::SpelledFunctions); nullopt if
  // the name is exact. Exact names are preferred to others, and lower distances to higher ones.
  std::optional<unsigned> distance = {};
};

// All files that a TARGET means, usually one. An entry pattern (ARCHIVE!/lib/*/libfoo.so) means all
// matching library entries, in the order of the archive's directory, unless an entry has exactly
// that name. `*` means every file that the processes map executable, in the order of their
// mappings, or every ELF file of the app for this device or for the ABI.
struct Targets {
  std::string text;                  // as typed
  bool several = false;              // the text is a pattern or `*`, even if it means one file now
  std::vector<TargetFile> files;     // never empty
  std::vector<std::string> warnings; // about the whole search
};

// Finds the files that the text means. Errors: usage for `*` without processes or an app; not_found
// with the most similar names; ambiguous with the candidates if several files have the name. With
// an app, runs Android's commands pm and getprop.
Result<Targets> find_targets(std::string_view text, const TargetOptions& options = {});

// An opened TARGET: an ELF file, an entry of an archive, or an archive as a whole. Owns the mapping
// and caches what it reads, so use one Target for many queries about a file.
class Target {
public:
  // Opens the first of parse_candidates() (path.hpp) that exists. A name without a slash is looked
  // up as a library or a program. With pids, searches the mappings and mount namespaces of those
  // processes first, which finds a library inside an archive by its name.
  static Result<Target> open(std::string_view text, const TargetOptions& options = {});
  // Opens a file that find_targets() returned for the text. Errors name the file.
  static Result<Target> open(const TargetFile& file, std::string_view text,
                             const TargetOptions& options = {});

  Target(Target&&) noexcept;
  Target& operator=(Target&&) noexcept;
  ~Target();

  const std::string& text() const;        // as typed
  const BinaryPath& path() const;         // as found
  const BinaryPath& display_path() const; // the path to print: FILE of the output
  const elf::Image* image() const;        // null for an archive as a whole
  const ProbedBinary& binary() const;     // an archive as a whole has no machine and no build id
  const std::shared_ptr<const MappedFile>& file() const;
  const std::vector<std::string>& warnings() const; // about the choice of this file
  // The error wrong_machine if none of the processes in the options can run this file.
  const std::optional<Error>& architecture_mismatch() const;

  // Returns the points that the FUNCTION means, sorted by offset, each offset once. Several points
  // for one exact name are an error that lists them, unless ResolveOptions::all is set. An archive
  // as a whole supports only file-offset:. Reads .gnu_debugdata and debug files for names that the
  // file's own tables lack. If the .symtab lacks functions, also reads them for patterns, numbers,
  // aliases, clones and overloads.
  Result<std::vector<ProbePoint>> resolve(const FunctionSpec& function,
                                          const ResolveOptions& options = {}) const;
  // Resolves the FUNCTION as resolve() does, and returns also the distance of the spelling that was
  // found.
  ResolvedFunction resolve_spelled(const FunctionSpec& function,
                                   const ResolveOptions& options = {}) const;
  using VisitPoints =
      std::function<void(std::size_t index, Result<std::vector<ProbePoint>> points)>;
  // Resolves many FUNCTIONs, as typed, faster than one by one. Calls visit for each in order.
  void resolve_each(std::span<const std::string_view> functions, const ResolveOptions& options,
                    const VisitPoints& visit) const;

  // Returns the points of the static probes that "PROVIDER:NAME" means, in the order of the notes.
  // Both parts may be patterns, and NAME may have '-' for "__", as in dtrace. "PROVIDER" alone
  // means all of its probes. If no provider has the name, the error suggests static probes or a
  // function. Uses only the options to_probe and replaced_nops.
  Result<std::vector<ProbePoint>> static_probes(std::string_view text,
                                                const ResolveOptions& options = {}) const;
  // Returns all static probes of the file; reads the notes once. Error no_code for an archive as a
  // whole.
  Result<std::shared_ptr<const usdt::StaticProbes>> static_notes() const;

  // Return which lines of a source file have code, from the debug information. FILE is the end of
  // its path, as in FILE:LINE. Fails with no_code for an archive as a whole.
  Result<SourceLines> lines_of_file(std::string_view file) const;
  // Returns which lines of the function at the address have code.
  Result<SourceLines> lines_of_function(VirtualAddress address) const;

  // Returns the Java methods of an OAT file, or why they cannot be read; null for other files.
  const Result<art::OatFile>* java_methods() const;
  // Returns an error if methods of the OAT file have no names because a DEX file was not found.
  std::optional<Error> missing_dex() const;

  // Reads the debug symbols into image() unless it has a .symtab. Call it before listing all
  // symbols.
  void complete_symbols();
  // Returns the sources of the symbols that were read so far.
  const elf::SymbolSources& symbol_sources() const;

  // Returns the libraries of an archive as a whole: every ELF entry named lib/… or *.so.
  Result<std::vector<ArchiveLibrary>> libraries() const;

private:
  struct State;
  explicit Target(std::unique_ptr<State> state);
  Result<std::vector<ProbePoint>> resolve_in_archive(const FunctionSpec& function,
                                                     const ResolveOptions& options) const;
  std::unique_ptr<State> state_;
};

// The result of visit_targets().
struct VisitSummary {
  std::size_t files = 0;             // that were opened and visited
  std::vector<std::string> warnings; // about all files, and about skipped ones (see visit_targets)
};

// Opens the files one by one and calls visit for each. A file that cannot be opened is skipped and
// causes a warning; compressed files share one. If the TARGET means several files, also skips those
// that the processes cannot run. A file is closed after its visit unless the visitor keeps a
// reference. If no file can be opened, returns the error of the first.
Result<VisitSummary> visit_targets(const Targets& targets, const TargetOptions& options,
                                   const std::function<void(Target&)>& visit);

// Returns whether a pattern matches a method's whole signature, the signature without the return
// type, or the name alone. "[]" is part of an array's type, not a set of characters.
bool matches_method(std::string_view pattern, std::string_view signature);
// Returns the signatures of the methods whose code covers the address, except `own`.
std::vector<std::string> other_methods_at(const art::OatFile& oat, VirtualAddress address,
                                          std::string_view own);
// Returns " (compiler filter 'verify')", for messages: the filter decides which methods dex2oat
// compiles. Empty if the file does not have it.
std::string compiler_filter_note(const art::OatFile& oat);
// Returns the warning for a file of an unknown OAT version, newer than the supported ones; empty
// for others.
std::string newer_version_warning(std::string_view subject, const art::OatFile& oat);

// Returns the warning for a mapping file that R8 has written for another build of the DEX files;
// empty for others.
std::string r8_mapping_warning(std::string_view subject, const art::OatFile& oat);

// The points of one FUNCTION in several files.
struct FunctionResult {
  std::string request;            // FUNCTION as typed
  std::vector<ProbePoint> points; // in the order of the files, then by offset
  std::size_t files = 0;          // files that have the FUNCTION
  std::vector<Error> errors;      // of single files (such as ambiguous), or one if no file has it
};
// The result of resolve_all().
struct ResolveResults {
  std::vector<FunctionResult> functions;
  std::size_t searched_files = 0;    // files that could be opened
  std::vector<std::string> warnings; // about the files, including those that could not be opened
  std::vector<std::string> details;  // where symbols came from
};

// Resolves each FUNCTION in every file. A FUNCTION that at least one file has is not an error in
// the others. If no file has exactly the name, another spelling of it is searched in all of them,
// and the files with the closest one count. Skips files as visit_targets() does. Error usage if a
// FUNCTION is malformed.
Result<ResolveResults> resolve_all(const Targets& targets,
                                   std::span<const std::string_view> functions,
                                   const TargetOptions& target_options,
                                   const ResolveOptions& options);
Result<ResolveResults> resolve_all(const Targets& targets, std::span<const std::string> functions,
                                   const TargetOptions& target_options,
                                   const ResolveOptions& options);

// Resolves requests one after the other: in the file that TARGET means, or as resolve_all() does if
// it means several. Keeps the only file open for the next request.
class RequestResolver {
public:
  // The options must outlive the resolver.
  RequestResolver(const TargetOptions& target_options, const ResolveOptions& options)
      : target_options_(target_options), options_(options) {}

  // Fails if the TARGET does not exist or cannot be opened, and if its only file is cut meanwhile.
  // Errors of single FUNCTIONs are in the results. What they say of debug files is repeated for
  // each request of an open file, what they say of the file itself is not.
  Result<ResolveResults> resolve(const std::string& target,
                                 std::span<const std::string_view> functions);

private:
  const TargetOptions& target_options_;
  const ResolveOptions& options_;
  std::optional<Target> target_;
};

} // namespace uprobectl::resolve
