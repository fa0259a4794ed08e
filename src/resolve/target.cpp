// SPDX-License-Identifier: Apache-2.0
#include "binary/binary.hpp"
#include "dwarf/inlined.hpp"
#include "dwarf/lines.hpp"
#include "elf/layout.hpp"
#include "resolve/archive_listing.hpp"
#include "resolve/explain.hpp"
#include "resolve/find_file.hpp"
#include "resolve/in_process.hpp"
#include "resolve/inlined.hpp"
#include "resolve/instructions.hpp"
#include "resolve/locate.hpp"
#include "resolve/methods.hpp"
#include "resolve/names.hpp"
#include "resolve/point.hpp"
#include "resolve/source_file.hpp"
#include "resolve/source_lines.hpp"
#include "resolve/thunks.hpp"
#include "symbols/list.hpp"
#include "uprobectl/archive.hpp"
#include "util/shell_words.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>

namespace uprobectl::resolve {

namespace {

Error debug_file_error(const std::string& subject, const elf::Image& image) {
  const auto id = image.build_id();
  return Error{ErrorKind::no_code, subject + ": a debug file, its code is in another file"}.hint(
      "probe the program or library it belongs to" +
      (id ? ", the one with build id " + *id : std::string()));
}

// Returns the path of the archive entry that contains the file offset.
Result<BinaryPath> find_entry(const BinaryPath& archive_path, Bytes bytes,
                              const FunctionSpec& function) {
  const std::string subject = to_string(archive_path);
  const auto archive = archive::Archive::parse(bytes);
  if (!archive) return fail(Error(archive.error()).within(subject));
  if (function.number >= bytes.size())
    return fail(ErrorKind::out_of_range,
                fmt::format("{}: '{}' is past the end of the archive ({:#x} bytes)", subject,
                            function.request, bytes.size()));
  const auto entry = archive->entry_at({function.number});
  if (!entry) return fail(Error(entry.error()).within(subject));
  if (!*entry)
    return fail(ErrorKind::no_code,
                fmt::format("{}: '{}' is not in an entry but in a header, the directory or a gap",
                            subject, function.request));
  const auto stored = archive->stored_bytes(**entry);
  if (!stored) return fail(Error(stored.error()).within(subject));
  return BinaryPath{archive_path.file, std::string((*entry)->name)};
}

bool is_number(const FunctionSpec& function) {
  return function.form == FunctionSpec::Form::virtual_address ||
         function.form == FunctionSpec::Form::image_offset ||
         function.form == FunctionSpec::Form::file_offset;
}

bool is_line(const FunctionSpec& function) {
  return function.form == FunctionSpec::Form::source_line ||
         function.form == FunctionSpec::Form::function_line;
}

bool needs_all_symbols(const Query& query) {
  if (query.function.form == FunctionSpec::Form::plt) return false;
  return query.function.form != FunctionSpec::Form::name ||
         symbols::is_name_pattern(query.function.name) ||
         query.options.clones == ResolveOptions::Clones::all || query.options.aliases ||
         query.options.all;
}

ResolvedFunction resolve_form(const Query& query) {
  switch (query.function.form) {
  case FunctionSpec::Form::name:
    return {resolve_name(query)};
  case FunctionSpec::Form::plt:
    return resolve_plt(query);
  case FunctionSpec::Form::virtual_address:
  case FunctionSpec::Form::image_offset:
  case FunctionSpec::Form::file_offset:
  case FunctionSpec::Form::source_line: // has a query of its own
  case FunctionSpec::Form::function_line:
    break;
  }
  return {resolve_number(query)};
}

// Whether debug symbols can change the result. A debug file may have a static function of the same
// name as an import or data symbol.
bool may_be_in_debug_file(const Query& query, const Error& error) {
  if (query.function.form != FunctionSpec::Form::name) return false;
  return means_no_match(error);
}

// Whether the error is that of no_function() without hints.
bool is_unexplained(const Query& query, const Error& error) {
  return query.function.form == FunctionSpec::Form::name && query.methods == nullptr &&
         error.kind == ErrorKind::not_found && error.hints.empty();
}

// Adds hints to the error of an unknown name: what the name may mean, and where else it may be.
Error explain_missing(const Query& query, Error error) {
  if (!is_unexplained(query, error)) return error;
  if (query.options.suggest) error = add_suggestions(std::move(error), query);
  if (error.kind != ErrorKind::not_found) return error; // a variable has the name
  constexpr std::size_t max_hints = 2;
  if (error.hints.size() < max_hints && query.code.file().debug_search().paths.empty() &&
      query.image.debug_symbols().empty() && !binary::has_symtab(query.image) &&
      !art::OatFile::is_oat(query.image))
    error = std::move(error).hint(std::string(no_symtab_hint));
  if (!query.options.suggest) return error;
  const auto named = split_source_file(query.function.name);
  return named ? hint_at_source_files(query, *named, std::move(error)) : error;
}

ResolvedFunction explain_missing(const Query& query, ResolvedFunction found) {
  if (!found.points) found.points = fail(explain_missing(query, std::move(found.points).error()));
  return found;
}

// Resolves a name without an exact match: as a native method, then by another spelling. An exact
// name wins even if only a debug file has it, so this comes last. `missing`: the result if neither
// is found.
ResolvedFunction resolve_otherwise(const Query& query, ResolvedFunction missing) {
  auto points = resolve_native_method(query);
  if (!points || !points->empty()) return {std::move(points)};
  ResolvedFunction spelled = resolve_spelling(query);
  return !spelled.points || !spelled.points->empty() ? spelled : missing;
}

// Whether the name without parameters may also mean functions that only a debug file has: overloads
// that are not exported.
bool may_have_other_overloads(const Query& query, const ResolvedFunction& found) {
  const std::string_view name = query.function.name;
  if (query.function.form != FunctionSpec::Form::name || symbols::has_whole_symtab(query.image) ||
      symbols::looks_mangled(name) || symbols::is_name_pattern(name) || symbols::is_signature(name))
    return false;
  if (!found.points) return found.points.error().kind == ErrorKind::ambiguous;
  return std::ranges::any_of(*found.points, [](const ProbePoint& point) {
    return point.symbol && symbols::looks_mangled(point.function());
  });
}

ResolvedFunction resolve_by_symbols(const Query& query) {
  binary::Binary& file = query.code.file();
  if (needs_all_symbols(query)) file.complete_symbols();
  ResolvedFunction found = resolve_form(query);
  while (!found.points && may_be_in_debug_file(query, found.points.error()) &&
         file.add_next_symbols())
    found = resolve_form(query);
  if (may_have_other_overloads(query, found)) {
    file.complete_symbols();
    found = resolve_form(query);
  }
  if (found.points && query.function.form == FunctionSpec::Form::name &&
      query.options.clones != ResolveOptions::Clones::none && !binary::has_symtab(query.image) &&
      std::ranges::any_of(*found.points,
                          [&](const auto& point) { return is_jump_table_entry(query, point); })) {
    file.complete_symbols(); // the function that the entry jumps to has a local symbol
    found.points = resolve_name(query, true);
  }
  if (!found.points && is_unexplained(query, found.points.error()))
    found = resolve_otherwise(query, std::move(found));
  if (found.points && query.options.aliases) add_aliases(query.image, *found.points);
  if (found.points) finish_points(query, *found.points);
  return found;
}

// Resolves a name that may have its source file, NAME@FILE. NAME@VERSION is tried first.
ResolvedFunction resolve_name_in_file(const Query& query) {
  const bool is_name = query.function.form == FunctionSpec::Form::name;
  const auto named = is_name ? split_source_file(query.function.name) : std::nullopt;
  if (!named) return resolve_by_symbols(query);
  ResolvedFunction found = resolve_by_symbols(query);
  if (found.points || found.points.error().kind != ErrorKind::not_found) return found;
  query.code.file().complete_symbols();
  auto in_file = resolve_in_source_file(query, *named);
  if (in_file && in_file->empty()) return found;
  if (in_file && query.options.aliases) add_aliases(query.image, *in_file);
  if (in_file) finish_points(query, *in_file);
  return {std::move(in_file), found.distance};
}

// Resolves code that methods share. Older versions of dex2oat name its symbol after one of the
// methods, with "[DEDUPED]" added.
ResolvedFunction resolve_deduplicated(const Query& query, std::string_view method) {
  const std::string name = std::string(method) + " [DEDUPED]";
  Query shared = query;
  shared.function.name = name;
  ResolvedFunction found = resolve_by_symbols(shared);
  if (found.points)
    found.points->front().warnings.push_back(
        fmt::format("'{}' shares its code with other methods, and a probe there fires for each of "
                    "them",
                    query.function.name));
  return found;
}

// Resolves a method by the symbols of its OAT file, which have no types.
ResolvedFunction resolve_method_symbol(const Query& query) {
  const auto is_found = [](const ResolvedFunction& found) {
    return found.points || found.points.error().kind != ErrorKind::not_found;
  };
  ResolvedFunction by_symbol = resolve_by_symbols(query);
  if (is_found(by_symbol)) return by_symbol;
  const std::string name =
      untyped_method_name(query.function.name).value_or(std::string(query.function.name));
  if (name != query.function.name) {
    Query named = query;
    named.function.name = name;
    by_symbol = resolve_by_symbols(named);
    if (is_found(by_symbol)) return by_symbol;
  }
  return resolve_deduplicated(query, name);
}

// Resolves FILE:LINE or FUNCTION:+LINE. Symbols of debug files name the points.
ResolvedFunction resolve_line_query(const Query& query) {
  const bool is_relative = query.function.form == FunctionSpec::Form::function_line;
  Query named = query;
  named.function = {.form = FunctionSpec::Form::name,
                    .request = query.function.request,
                    .name = is_relative ? query.function.name : query.function.request,
                    .plus = std::nullopt};
  ResolvedFunction functions{std::vector<ProbePoint>()};
  if (is_relative) {
    named.options.thorough = false;
    functions = resolve_name_in_file(named);
    if (!functions.points && query.options.suggest &&
        functions.points.error().kind == ErrorKind::not_found)
      if (auto error = only_inlined_error(named)) {
        error->hints = {"probe the line as FILE:LINE, or all inlined copies of the function with: "
                        "--inlined " +
                        shell_word(query.function.name)};
        return {fail(std::move(*error)), functions.distance};
      }
    if (!functions.points) return explain_missing(named, std::move(functions));
  } else if (const auto exact = symbols::find_by_name(query.image, named.function.name);
             exact && !exact->empty()) {
    return resolve_by_symbols(named); // a symbol that looks like a line
  }
  query.code.file().complete_symbols();
  const auto& info = query.debug_info();
  if (!info) return {fail(Error(info.error()).within(query.subject())), functions.distance};
  auto points = resolve_lines(query, *info, *functions.points);
  if (points && query.options.aliases) add_aliases(query.image, *points);
  if (points) finish_points(query, *points);
  return {std::move(points), functions.distance};
}

// Resolves the query in its image. Adds debug symbols to the image if its own tables lack the name.
ResolvedFunction resolve_query(const Query& query) {
  if (query.methods == nullptr || query.function.form != FunctionSpec::Form::name)
    return resolve_name_in_file(query);
  auto methods = resolve_method(query);
  if (methods) finish_points(query, *methods);
  if (methods || !may_have_symbol(methods.error())) return {std::move(methods)};
  ResolvedFunction by_symbol = resolve_method_symbol(query);
  if (!by_symbol.points && by_symbol.points.error().kind == ErrorKind::ambiguous) {
    Error& error = by_symbol.points.error();
    error = std::move(error).hint("to tell them apart by their parameters, give the DEX files with "
                                  "--dex FILE or --root DIR");
    return by_symbol;
  }
  if (!by_symbol.points) return {std::move(methods)}; // the error of the method is more specific
  if (std::string why = missing_methods_warning(query); !why.empty())
    by_symbol.points->front().warnings.push_back(std::move(why));
  return by_symbol;
}

// Resolves anything but lines; with --inlined also inlined copies, whose debug information is
// prefetched during the symbol search.
ResolvedFunction resolve_with_inlined(const Query& query) {
  const FunctionSpec& function = query.function;
  if (query.options.inlined && function.form == FunctionSpec::Form::name && !function.plus)
    if (const auto& info = query.debug_info()) dwarf::prefetch_inlined(*info);
  return explain_missing(query, with_inlined(query, resolve_query(query)));
}

} // namespace

struct Target::State {
  std::string text; // as typed
  BinaryPath path;  // as found
  // For an archive as a whole, the members that describe an image are empty.
  std::shared_ptr<const ProbedBinary> binary;
  elf::DebugSearch debug_search;
  JavaMethods methods;
  std::optional<symbolize::Symbolizer> symbolizer; // made for the first number or line
  std::optional<CodeIndex> code;                   // see code_index()
  symbols::Demangler demangler;
  std::shared_ptr<const usdt::StaticProbes> static_notes; // null: not read yet
  std::vector<std::string> warnings;
  std::optional<Error> architecture_mismatch; // set if no process of the options can run the file

  // Null for an archive as a whole.
  elf::Image* image() const { return binary->contents ? &binary->contents->image() : nullptr; }
  // Requires an image.
  CodeIndex& code_index() {
    if (!code) code.emplace(*binary->contents);
    return *code;
  }

  // `read`: (const DebugInfo&, const IsCode&) -> Result<dwarf::FileLines>
  template <typename Read>
  Result<SourceLines> read_lines(Read read);
};

Target::Target(std::unique_ptr<State> state) : state_(std::move(state)) {}
Target::Target(Target&&) noexcept = default;
Target& Target::operator=(Target&&) noexcept = default;
Target::~Target() = default;

const std::string& Target::text() const { return state_->text; }
const BinaryPath& Target::path() const { return state_->path; }
const BinaryPath& Target::display_path() const { return state_->binary->path; }
const elf::Image* Target::image() const { return state_->image(); }
const ProbedBinary& Target::binary() const { return *state_->binary; }
const std::shared_ptr<const MappedFile>& Target::file() const { return state_->binary->file; }
const std::vector<std::string>& Target::warnings() const { return state_->warnings; }
const std::optional<Error>& Target::architecture_mismatch() const {
  return state_->architecture_mismatch;
}

Result<Target> Target::open(std::string_view text, const TargetOptions& options) {
  auto found = find_file(text, options);
  if (!found) return fail(std::move(found).error());
  return open(*found, text, options);
}

Result<Target> Target::open(const TargetFile& file, std::string_view text,
                            const TargetOptions& options) {
  auto state = std::make_unique<State>();
  state->debug_search.paths = options.debug_paths;
  state->methods = JavaMethods(options.dex, options.oatdump);
  state->text = text;
  state->path = file.path;
  state->warnings = file.warnings;
  ProbedBinary binary{.target = std::string(text), .path = file.display_path, .file = file.opened};
  if (!binary.file) {
    auto mapped = MappedFile::open(file.path.file);
    if (!mapped) return fail(std::move(mapped).error());
    binary.file = std::make_shared<const MappedFile>(std::move(*mapped));
    if (auto warning = duplicate_warning(*binary.file, binary.path.file))
      state->warnings.push_back(std::move(*warning));
  }
  auto real_path = binary.file->real_path();
  if (!real_path) return fail(std::move(real_path).error());
  binary.real_path = std::move(*real_path);

  const Bytes bytes = binary.file->bytes();
  const bool whole_archive = !state->path.entry && !elf::looks_like_elf(bytes) &&
                             archive::Archive::looks_like_archive(bytes);
  if (!whole_archive) {
    // A kind of archive from which devices do not load libraries; nullopt for others.
    std::optional<std::string> package;
    if (state->path.entry)
      if (const auto archive = archive::Archive::parse(bytes)) package = not_installed(*archive);
    const bool inflates = options.extracted || package;
    auto opened =
        binary::Binary::open(binary.file, state->path, state->debug_search,
                             inflates ? elf::Compressed::inflate : elf::Compressed::reject);
    if (!opened) {
      Error error = std::move(opened).error();
      if (error.kind == ErrorKind::not_found && state->path.entry) {
        if (const auto archive = archive::Archive::parse(bytes))
          if (auto apex = apex_error(*archive, state->path.file)) return fail(std::move(*apex));
        error = std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                                      shell_word(state->path.file));
      }
      return fail(std::move(error));
    }
    const elf::Image& image = (*opened)->image();
    if (image.is_debug_file()) return fail(debug_file_error(to_string(binary.path), image));
    if (image.is_inflated())
      state->warnings.push_back(
          fmt::format("{}: {}compressed in the archive, so offsets are those in the installed "
                      "library",
                      to_string(binary.path), package ? *package + ": " : ""));
    else if (package)
      state->warnings.push_back(
          fmt::format("{}: {}: offsets are those in this file", to_string(binary.path), *package));
    state->architecture_mismatch =
        find_architecture_mismatch(options.pids, image.machine(), to_string(binary.path));
    describe(std::move(*opened), binary);
  }
  state->binary = std::make_shared<const ProbedBinary>(std::move(binary));
  return Target(std::move(state));
}

Result<std::vector<ProbePoint>> Target::resolve(const FunctionSpec& function,
                                                const ResolveOptions& options) const {
  return resolve_spelled(function, options).points;
}

ResolvedFunction Target::resolve_spelled(const FunctionSpec& function,
                                         const ResolveOptions& options) const {
  // A query may add symbols to the state. They stay and do not change later results.
  State& state = *state_;
  if (elf::Image* const image = state.image()) {
    Query query{{state.binary, *image, state.code_index(), state.demangler}, function, options};
    query.mapping = state.methods.mapping();
    if (may_be_method(function)) query.methods = state.methods.in(*image);
    if (is_number(function) || is_line(function)) {
      const bool has_methods = query.methods != nullptr && *query.methods;
      if (!state.symbolizer)
        state.symbolizer.emplace(*state.binary->contents, has_methods ? &**query.methods : nullptr);
      query.symbolizer = &*state.symbolizer;
    }
    ResolvedFunction found =
        is_line(function) ? resolve_line_query(query) : resolve_with_inlined(query);
    if (found.points && !options.thunks &&
        (function.form == FunctionSpec::Form::name ||
         function.form == FunctionSpec::Form::function_line))
      for (ProbePoint& point : *found.points) point.clones = options.clones;
    return found;
  }
  return {resolve_in_archive(function, options)};
}

Result<std::vector<ProbePoint>> Target::resolve_in_archive(const FunctionSpec& function,
                                                           const ResolveOptions& options) const {
  State& state = *state_;
  const std::string subject = to_string(state.binary->path);
  if (function.form != FunctionSpec::Form::file_offset)
    return fail(Error{ErrorKind::not_elf, fmt::format("{}: an archive, '{}' needs one of its "
                                                      "entries",
                                                      subject, function.request)}
                    .hint(fmt::format("use '{}!/lib/…' or file-offset:0x…", subject))
                    .hint(fmt::format("list its libraries with: uprobectl list-symbols {}",
                                      shell_word(subject))));
  const auto path = find_entry(state.binary->path, state.binary->file->bytes(), function);
  if (!path) return fail(path.error());
  auto opened = binary::Binary::open(state.binary->file, *path, state.debug_search);
  if (!opened) return fail(std::move(opened).error());
  ProbedBinary entry = *state.binary;
  entry.path = *path;
  describe(std::move(*opened), entry);
  const auto binary = std::make_shared<const ProbedBinary>(std::move(entry));
  symbolize::Symbolizer symbolizer(*binary->contents);
  CodeIndex code(*binary->contents);
  Query query{{binary, code.image(), code, state.demangler}, function, options};
  query.symbolizer = &symbolizer;
  return resolve_query(query).points;
}

void Target::resolve_each(std::span<const std::string_view> functions,
                          const ResolveOptions& options, const VisitPoints& visit) const {
  constexpr std::size_t at_once = 64;
  std::vector<Result<FunctionSpec>> parsed;
  std::vector<std::string_view> names;
  for (std::size_t begin = 0; begin < functions.size(); begin += parsed.size()) {
    parsed.clear();
    names.clear();
    for (const std::string_view text :
         functions.subspan(begin, std::min(at_once, functions.size() - begin))) {
      parsed.push_back(parse_function(text));
      if (parsed.back() && parsed.back()->form == FunctionSpec::Form::name)
        names.push_back(parsed.back()->name);
    }
    if (image() != nullptr && names.size() > 1) symbols::prefetch_names(*image(), names);
    for (std::size_t i = 0; i < parsed.size(); ++i)
      visit(begin + i, parsed[i] ? resolve(*parsed[i], options) : fail(parsed[i].error()));
  }
}

Result<std::shared_ptr<const usdt::StaticProbes>> Target::static_notes() const {
  if (state_->static_notes) return state_->static_notes;
  const std::string subject = to_string(state_->binary->path);
  if (image() == nullptr)
    return fail(
        Error{ErrorKind::no_code, subject + ": an archive, static probes are in its libraries"}
            .hint("use ARCHIVE!/ENTRY, or ARCHIVE!/lib/* for all of them"));
  auto notes = usdt::read_static_probes(*image());
  // Operands in a stripped file may name variables that only its debug data have.
  if (notes && notes->symbols_missing) {
    const std::size_t known = image()->debug_symbols().size();
    state_->binary->contents->complete_symbols();
    if (image()->debug_symbols().size() > known) notes = usdt::read_static_probes(*image());
  }
  if (!notes) return fail(std::move(notes).error().within(subject));
  for (std::string& warning : notes->warnings) warning = subject + ": " + warning;
  state_->static_notes = std::make_shared<const usdt::StaticProbes>(std::move(*notes));
  return state_->static_notes;
}

Result<std::vector<ProbePoint>> Target::static_probes(std::string_view text,
                                                      const ResolveOptions& options) const {
  const auto notes = static_notes();
  if (!notes) return fail(notes.error());
  const FunctionSpec asked{
      .form = FunctionSpec::Form::name, .request = text, .name = text, .plus = std::nullopt};
  State& state = *state_;
  Query query{{state.binary, *image(), state.code_index(), state.demangler}, asked};
  query.options.to_probe = options.to_probe;
  query.options.replaced_nops = options.replaced_nops;
  return resolve_static_probes(query, *notes);
}

template <typename Read>
Result<SourceLines> Target::State::read_lines(Read read) {
  const std::string subject = to_string(binary->path);
  if (image() == nullptr)
    return fail(Error{ErrorKind::no_code, subject +
                                              ": an archive, source lines are those of one of "
                                              "its libraries"}
                    .hint("use ARCHIVE!/ENTRY"));
  const auto& info = binary->contents->debug_info();
  if (!info) return fail(Error(info.error()).within(subject));
  const auto is_code = [&](VirtualAddress address) { return is_in_code(*image(), address); };
  Result<dwarf::FileLines> lines = read(*info, is_code);
  if (!lines) return fail(std::move(lines).error().within(subject));
  SourceLines found{
      .file = std::move(lines->file), .last = {}, .with_code = std::move(lines->with_code)};
  if (lines->first != 0) {
    found.first = lines->first;
    found.last = lines->last;
  }
  return found;
}

Result<SourceLines> Target::lines_of_file(std::string_view file) const {
  return state_->read_lines([&](const dwarf::DebugInfo& info, const dwarf::IsCode& is_code) {
    return dwarf::lines_of_file(info, file, is_code);
  });
}

Result<SourceLines> Target::lines_of_function(VirtualAddress address) const {
  return state_->read_lines([&](const dwarf::DebugInfo& info, const dwarf::IsCode& is_code) {
    return dwarf::lines_of_function(info, address, is_code);
  });
}

const Result<art::OatFile>* Target::java_methods() const {
  return image() != nullptr ? state_->methods.in(*state_->image()) : nullptr;
}

std::optional<Error> Target::missing_dex() const {
  const auto* const methods = java_methods();
  if (methods == nullptr || !*methods || (*methods)->has_all_dex_files()) return std::nullopt;
  return no_dex_file(to_string(state_->binary->path), **methods);
}

void Target::complete_symbols() {
  if (state_->binary->contents) state_->binary->contents->complete_symbols();
}

const elf::SymbolSources& Target::symbol_sources() const {
  static const elf::SymbolSources none;
  return state_->binary->contents ? state_->binary->contents->symbol_sources() : none;
}

Result<std::vector<ArchiveLibrary>> Target::libraries() const {
  const std::string subject = to_string(state_->binary->path);
  auto libraries = list_libraries(state_->binary->file->bytes());
  if (!libraries) return fail(std::move(libraries).error().within(subject));
  if (const auto archive = archive::Archive::parse(state_->binary->file->bytes());
      archive && libraries->empty())
    if (auto apex = apex_error(*archive, subject)) return fail(std::move(*apex));
  return libraries;
}

} // namespace uprobectl::resolve
