// SPDX-License-Identifier: Apache-2.0
#include "resolve/methods.hpp"

#include "art/name_mapping.hpp"
#include "process/command.hpp"
#include "resolve/explain.hpp"
#include "resolve/names.hpp"
#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace uprobectl::resolve {

std::vector<std::string> other_methods_at(const art::OatFile& oat, VirtualAddress address,
                                          std::string_view own) {
  std::vector<std::string> names;
  for (const art::Method& method : oat.methods_at(address))
    if (std::string text = to_string(oat.signature(method)); text != own)
      names.push_back(std::move(text));
  return names;
}

namespace {

// A phone needs seconds to list a large file (20 MB of output).
constexpr std::chrono::minutes oatdump_timeout{5};
constexpr std::size_t max_output = std::size_t{512} << 20U; // bytes
constexpr std::size_t max_methods = 1U << 22U;

// Parses the output of oatdump line by line, as it arrives.
class OatdumpOutput {
public:
  bool take(std::string_view chunk) {
    while (!chunk.empty()) {
      const auto end = chunk.find('\n');
      line_ += chunk.substr(0, end);
      if (end == std::string_view::npos) return line_.size() <= longest_line;
      chunk.remove_prefix(end + 1);
      if (!finish_line()) return false;
    }
    return true;
  }
  Result<std::vector<art::DumpedMethod>> finish() && {
    if (!error_ && !line_.empty()) finish_line();
    if (error_) return fail(std::move(*error_));
    return std::move(methods_);
  }
  bool is_wrong() const { return error_ || line_.size() > longest_line; }

private:
  static constexpr std::size_t longest_line = 1U << 17U; // twice that of a signature

  bool finish_line() {
    const std::string line = std::exchange(line_, {});
    if (!line.starts_with('{')) return true; // other output
    auto method = art::parse_dumped_method(line);
    if (!method) error_ = std::move(method).error();
    if (method) methods_.push_back(std::move(*method));
    return !error_ && methods_.size() <= max_methods;
  }

  std::string line_;
  std::vector<art::DumpedMethod> methods_;
  std::optional<Error> error_;
};

// Runs `PROGRAM --oat-file=FILE --dump-method-and-offset-as-json` without a shell. Keeps the
// methods that agree with the file (art::OatFile::from_oatdump).
Result<art::OatFile> ask_oatdump(const std::string& program, elf::Image& image,
                                 const art::DexSearch& where) {
  if (image.path().entry)
    return fail(ErrorKind::unsupported, "oatdump reads files, not entries of archives");
  OatdumpOutput listing;
  const auto ended = process::stream_command(
      {program, "--oat-file=" + image.path().file, "--dump-method-and-offset-as-json"},
      oatdump_timeout, max_output, [&](std::string_view chunk) { return listing.take(chunk); });
  if (!ended && !listing.is_wrong()) return fail(Error(ended.error()).within("--oatdump"));
  auto methods = std::move(listing).finish();
  if (!methods) return fail(Error(std::move(methods).error()).within("--oatdump"));
  if (!ended) return fail(Error(ended.error()).within("--oatdump"));
  if (ended->exit_code != 0)
    return fail(
        ErrorKind::io,
        fmt::format("--oatdump: {} ends with status {}{}", program, ended->exit_code,
                    ended->errors.empty() ? "" : fmt::format(": {}", first_line(ended->errors))));
  auto oat = art::OatFile::from_oatdump(image, std::move(*methods), where);
  if (!oat) return fail(Error(std::move(oat).error()).within("--oatdump"));
  return oat;
}

using Methods = std::vector<art::Method>;
using Points = std::vector<ProbePoint>;

// Converts methods to symbols and owns the symbols' names.
class MethodSymbols {
public:
  explicit MethodSymbols(const art::OatFile& oat) : oat_(oat) {}

  void add(const art::Method& method, std::string text) {
    names_.push_back(std::move(text));
    symbols_.push_back(art::method_symbol(oat_, method, names_.back()));
  }
  const std::vector<elf::Symbol>& symbols() const { return symbols_; }

private:
  const art::OatFile& oat_;
  std::deque<std::string> names_;
  std::vector<elf::Symbol> symbols_;
};

// Warns if a DEX file is missing, because methods without names may also match, and if the OAT
// version is unknown.
void add_file_warnings(const Query& query, const art::OatFile& oat, ProbePoint& point) {
  if (!oat.has_all_dex_files())
    point.warnings.push_back(no_dex_file(query.subject(), oat).message +
                             ": other methods may match, and share this code");
  for (std::string warning :
       {newer_version_warning(query.subject(), oat), r8_mapping_warning(query.subject(), oat)})
    if (!warning.empty()) point.warnings.push_back(std::move(warning));
}

// Returns a warning that lists the other methods, up to a limit. It explains unexpected hits.
std::string shared_code_warning(const art::OatFile& oat, const ProbePoint& point,
                                const std::vector<std::string>& others) {
  constexpr std::size_t max_others = 200;
  std::string text = fmt::format("'{}' shares its code with {} other method{}, and a probe there "
                                 "fires for each of them: ",
                                 point.demangled.value_or(*point.symbol), others.size(),
                                 others.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < others.size() && i < max_others; ++i)
    text += (i == 0 ? "" : "; ") + art::source_name(oat, others[i]).value_or(others[i]);
  if (others.size() > max_others) text += fmt::format("; and {} more", others.size() - max_others);
  return text;
}

// Returns null if methods with different signatures share the address, because a probe does not
// know which was called.
std::shared_ptr<const JavaMethod> java_method_at(const art::OatFile& oat, VirtualAddress address) {
  std::shared_ptr<JavaMethod> known;
  if (!oat.has_all_dex_files() || !oat.has_access_flags()) return known;
  for (const art::Method& method : oat.methods_at(address)) {
    art::Signature signature = oat.signature(method);
    JavaMethod found{.return_type = std::move(signature.return_type),
                     .parameters = std::move(signature.parameters),
                     .is_static = method.is_static()};
    if (known && *known != found) return nullptr;
    if (!known) known = std::make_shared<JavaMethod>(std::move(found));
  }
  return known;
}

Result<ProbePoint> point_of_method(const Query& query, const art::OatFile& oat,
                                   const elf::Symbol& symbol, bool warn) {
  auto point = point_of(query, symbol);
  if (!point) return point;
  if (point->size == 0U) point->size.reset();
  if (query.options.to_probe) point->java = java_method_at(oat, symbol.address);
  if (!warn && !query.options.aliases) return point;
  auto others = other_methods_at(oat, symbol.address, symbol.name);
  if (warn && !others.empty()) point->warnings.push_back(shared_code_warning(oat, *point, others));
  if (query.options.aliases) point->aliases = std::move(others);
  return point;
}

Result<Points> points_of_methods(const Query& query, const art::OatFile& oat,
                                 std::span<const art::Method> methods) {
  MethodSymbols named(oat);
  for (const art::Method& method : methods) named.add(method, to_string(oat.signature(method)));
  const auto symbols = preferred_symbols(named.symbols());
  if (symbols.size() > 1 && !query.options.all) return fail(ambiguous_spelling(query, symbols));
  Points points;
  for (const elf::Symbol& symbol : symbols) {
    auto point = point_of_method(query, oat, symbol, true);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  return points;
}

Result<Points> resolve_method_pattern(const Query& query, const art::OatFile& oat,
                                      std::string_view pattern) {
  MethodSymbols matching(oat);
  for (const art::Method& method : oat.compiled())
    if (std::ranges::any_of(source_signatures(oat, method), [&](const art::Signature& signature) {
          return matches_method(pattern, to_string(signature));
        }))
      matching.add(method, to_string(oat.signature(method)));
  if (matching.symbols().empty()) return fail(no_method_matches(query, oat));
  PatternPoints found(query);
  std::size_t shared = 0;
  for (const elf::Symbol& symbol :
       with_every_name(query, preferred_symbols(matching.symbols()), matching.symbols())) {
    auto point = point_of_method(query, oat, symbol, false);
    if (point && oat.methods_at(symbol.address).size() > 1) ++shared;
    found.add(std::move(point));
  }
  auto points = found.take("methods");
  if (points && points->empty()) return fail(no_method_matches(query, oat));
  if (points && shared != 0)
    points->front().warnings.push_back(fmt::format(
        "{}: {} of the addresses that match '{}' are code that several methods share, and "
        "a probe there fires for each of them (--aliases names them)",
        query.subject(), shared, query.function.name));
  return points;
}

// Finds a class by its name in the source or, if the source has no such class, in the file.
std::vector<art::Class> find_classes(const art::OatFile& oat, std::string_view name) {
  const art::NameMapping* const mapping = oat.mapping();
  const auto renamed = mapping == nullptr ? std::nullopt : mapping->class_in_file(name);
  if (const auto exact = oat.find_class(renamed.value_or(name))) return {*exact};
  std::vector<art::Class> classes;
  std::vector<std::string> names; // two DEX files can have the same class
  oat.for_each_class([&](art::Class defined, std::string_view in_file) {
    const std::string_view other =
        mapping == nullptr ? in_file : mapping->class_in_source(in_file).value_or(in_file);
    if (is_same_class(name, other) && std::ranges::find(names, other) == names.end()) {
      classes.push_back(defined);
      names.emplace_back(other);
    }
    return true;
  });
  return classes;
}

// Returns the overloads among them that are not compiled in this file.
std::string uncompiled(const art::OatFile& oat, const Methods& fitting) {
  std::string text;
  for (const art::Method& method : fitting)
    if (!method.compiled) text += (text.empty() ? "" : "; ") + shown_name(oat, method);
  return text;
}

// Selects the methods by the name in the source, or by the name in the file.
template <typename Matches>
Methods select_methods(const art::OatFile& oat, const Methods& methods, bool in_source,
                       const Matches& matches) {
  Methods selected;
  for (const art::Method& method : methods)
    if (in_source ? std::ranges::any_of(source_signatures(oat, method), matches)
                  : matches(oat.signature(method)))
      selected.push_back(method);
  return selected;
}

// The methods of a class with the name, and those of them with the signature.
struct NamedMethods {
  Methods called;
  Methods fitting;
};
NamedMethods find_named(const art::OatFile& oat, const Methods& methods, const MethodName& name) {
  const auto is_called = [&](const art::Signature& signature) {
    return signature.name == name.name && is_same_class(signature.class_name, name.class_name);
  };
  NamedMethods found;
  for (const bool in_source : {true, false}) {
    found.called = select_methods(oat, methods, in_source, is_called);
    found.fitting =
        select_methods(oat, found.called, in_source, [&](const art::Signature& signature) {
          return is_called(signature) && has_signature(signature, name);
        });
    if (!found.called.empty() || oat.mapping() == nullptr) break;
  }
  return found;
}

// Returns the only name that Kotlin has made of the method's name, or an empty text.
std::string renamed_by_kotlin(const art::OatFile& oat, const Methods& methods,
                              const MethodName& name) {
  std::string renamed;
  for (const art::Method& method : methods)
    for (const art::Signature& signature : source_signatures(oat, method)) {
      if (derivation(name.name, signature.name) != Derivation::renamed) continue;
      if (!renamed.empty() && renamed != signature.name) return {};
      renamed = signature.name;
    }
  return renamed;
}

Result<Points> points_of_fitting(const Query& query, const art::OatFile& oat,
                                 const Methods& fitting) {
  Methods compiled = fitting;
  std::erase_if(compiled, [](const art::Method& method) { return !method.compiled; });
  if (compiled.empty()) return fail(no_method_code(query, oat, fitting));
  auto points = points_of_methods(query, oat, compiled);
  if (points && compiled.size() != fitting.size())
    points->front().warnings.push_back(fmt::format("{}: overloads of '{}' not compiled in this "
                                                   "file: {}",
                                                   query.subject(), query.function.name,
                                                   uncompiled(oat, fitting)));
  return points;
}

Result<Points> resolve_in_class(const Query& query, const art::OatFile& oat, art::Class defined,
                                const MethodName& name) {
  const Methods methods = oat.class_methods(defined);
  NamedMethods found = find_named(oat, methods, name);
  std::string renamed;
  if (found.called.empty() && !is_method_pattern(name.name)) {
    renamed = renamed_by_kotlin(oat, methods, name);
    MethodName other = name;
    other.name = renamed;
    if (!renamed.empty()) found = find_named(oat, methods, other);
  }
  if (found.fitting.empty()) return fail(no_such_method(query, oat, defined, name, found.called));
  auto points = points_of_fitting(query, oat, found.fitting);
  if (points && !renamed.empty())
    points->front().warnings.push_back(
        fmt::format("'{}' is taken for '{}', as Kotlin names it", query.function.name, renamed));
  return points;
}

// Names the methods that R8 has inlined the method into.
std::string inlining_methods(const std::vector<art::NameMapping::MovedMethod>& moved) {
  constexpr std::size_t max_names = 10;
  std::vector<std::string> names;
  for (const auto& method : moved)
    if (method.inlined && std::ranges::find(names, method.source) == names.end())
      names.push_back(method.source);
  std::string text = joined(std::span(names).first(std::min(max_names, names.size())));
  if (names.size() > max_names) text += fmt::format(" and {} more", names.size() - max_names);
  return text;
}

// `oat` has a mapping.
std::vector<art::NameMapping::MovedMethod> moved_methods(const art::OatFile& oat,
                                                         const MethodName& name) {
  return oat.mapping()->moved_to(name.class_name, name.name, [&](const art::Signature& method) {
    return has_signature(method, name);
  });
}

// Resolves a method whose code R8 has moved to another class. Returns nullopt if there is none.
std::optional<Result<Points>> resolve_moved(const Query& query, const art::OatFile& oat,
                                            const MethodName& name) {
  if (oat.mapping() == nullptr) return std::nullopt;
  const auto moved = moved_methods(oat, name);
  Methods fitting;
  for (const auto& method : moved) {
    const auto holder = method.inlined ? std::nullopt : oat.find_class(method.class_name);
    if (holder)
      std::ranges::copy(find_named(oat, oat.class_methods(*holder), name).fitting,
                        std::back_inserter(fitting));
  }
  if (!fitting.empty()) return points_of_fitting(query, oat, fitting);
  const std::string inlined = inlining_methods(moved);
  if (inlined.empty()) return std::nullopt;
  return fail(Error{ErrorKind::not_found,
                    fmt::format("{}: '{}' exists only inlined: R8 has put its code into the "
                                "methods that call it",
                                query.subject(), query.function.name)}
                  .hint("probe them: " + inlined));
}

// Warns of calls that R8 has inlined, which are not seen.
void warn_about_inlined(const art::OatFile& oat, const MethodName& name, ProbePoint& point) {
  if (oat.mapping() == nullptr) return;
  const std::string inlined = inlining_methods(moved_methods(oat, name));
  if (!inlined.empty())
    point.warnings.push_back(fmt::format("'{}.{}' is also inlined by R8, and those calls are not "
                                         "seen here: into {}",
                                         name.class_name, name.name, inlined));
}

Result<Points> resolve_named(const Query& query, const art::OatFile& oat, const MethodName& name,
                             const std::vector<art::Class>& classes) {
  if (classes.size() > 1) return fail(several_classes(query, oat, classes));
  auto points = classes.empty() ? Result<Points>(fail(no_such_class(query, oat, name)))
                                : resolve_in_class(query, oat, classes.front(), name);
  if (!points && points.error().kind == ErrorKind::not_found)
    if (auto moved = resolve_moved(query, oat, name)) return std::move(*moved);
  if (points) warn_about_inlined(oat, name, points->front());
  return points;
}

Result<Points> resolve_in(const Query& query, const art::OatFile& oat) {
  const std::string text = usual_method_name(query.function.name);
  const auto name = parse_method_name(text);
  const bool is_pattern_too = is_method_pattern(text);
  const auto classes = name ? find_classes(oat, name->class_name) : std::vector<art::Class>();
  if (name && (!is_pattern_too || classes.size() == 1)) {
    auto points = resolve_named(query, oat, *name, classes);
    if (points || points.error().kind != ErrorKind::not_found || !is_pattern_too) return points;
  }
  if (is_pattern_too) return resolve_method_pattern(query, oat, text);
  return fail(no_class_given(query, oat));
}

} // namespace

const Result<art::OatFile>* JavaMethods::in(elf::Image& image) {
  if (!std::exchange(searched_, true) && art::OatFile::is_oat(image))
    oat_.emplace(oatdump_ ? ask_oatdump(*oatdump_, image, where_)
                          : art::OatFile::read(image, where_));
  return oat_ ? &*oat_ : nullptr;
}

bool may_be_method(const FunctionSpec& function) {
  using Form = FunctionSpec::Form;
  return function.form != Form::plt && function.form != Form::source_line &&
         function.form != Form::function_line;
}

bool may_have_symbol(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::unsupported ||
         error.kind == ErrorKind::corrupt;
}

std::string missing_methods_warning(const Query& query) {
  const Result<art::OatFile>& oat = *query.methods;
  if (oat && oat->has_all_dex_files()) return {};
  // Other symbols, like "oatexec".
  if (!parse_method_name(usual_method_name(query.function.name))) return {};
  const Error why =
      oat ? no_dex_file(query.subject(), *oat) : Error(oat.error()).within(query.subject());
  return why.message + ": using the file's symbols, which have no parameters";
}

Result<std::vector<ProbePoint>> resolve_method(const Query& query) {
  if (!*query.methods) return fail(Error(query.methods->error()).within(query.subject()));
  auto points = resolve_in(query, **query.methods);
  if (!points) return points;
  add_file_warnings(query, **query.methods, points->front());
  return points;
}

void describe_method(const Query& query, ProbePoint& point, const elf::Symbol& symbol) {
  const art::OatFile& oat = **query.methods;
  if (point.size == 0U) point.size.reset();
  if (query.options.to_probe) point.java = java_method_at(oat, symbol.address);
  auto others = other_methods_at(oat, symbol.address, symbol.name);
  if (!others.empty()) point.warnings.push_back(shared_code_warning(oat, point, others));
  add_file_warnings(query, oat, point);
  if (query.options.aliases) point.aliases = std::move(others);
}

} // namespace uprobectl::resolve
