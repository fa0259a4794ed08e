// SPDX-License-Identifier: Apache-2.0
#include "resolve/methods.hpp"

#include "process/command.hpp"
#include "resolve/explain.hpp"
#include "resolve/names.hpp"
#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::vector<std::string_view> split_parameters(std::string_view text) {
  std::vector<std::string_view> parameters;
  if (trimmed(text, " ").empty()) return parameters;
  while (true) {
    const auto comma = std::min(text.find(','), text.size());
    parameters.push_back(trimmed(text.substr(0, comma), " "));
    if (comma == text.size()) return parameters;
    text.remove_prefix(comma + 1);
  }
}

bool is_type(std::string_view type, std::string_view typed) {
  return type == typed || is_same_class(type, typed);
}

// Escapes "[]", which stands for an array and not for a set of characters.
std::string escape_arrays(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "[]") text += '\\';
    text += pattern[i];
  }
  return text;
}

// Removes and returns the first code point of UTF-8 text, or one byte if it is not valid UTF-8.
std::uint32_t take_point(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  constexpr std::array<std::uint32_t, 5> first_bits = {0, 0x7f, 0x1f, 0xf, 0x7};
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc0 ? 2 : 1;
  const std::size_t there = std::min(size, text.size());
  const bool whole = there == size && std::ranges::all_of(text.substr(1, size - 1), [](char c) {
                       return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
                     });
  std::uint32_t point = byte(0);
  if (whole && size > 1) {
    point &= first_bits[size];
    for (std::size_t i = 1; i < size; ++i) point = point << 6U | (byte(i) & 0x3fU);
  }
  text.remove_prefix(whole ? size : 1);
  return point;
}

bool is_plain(std::uint32_t point) {
  return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') ||
         (point >= '0' && point <= '9');
}

} // namespace

std::optional<MethodName> parse_method_name(std::string_view text) {
  MethodName name;
  const auto open = text.find('(');
  if (open != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    name.parameters = split_parameters(text.substr(open + 1, text.size() - open - 2));
  }
  std::string_view qualified = trimmed(text.substr(0, open), " ");
  const auto space = qualified.rfind(' ');
  if (space != std::string_view::npos) {
    name.return_type = trimmed(qualified.substr(0, space), " ");
    qualified.remove_prefix(space + 1);
  }
  const auto dot = qualified.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == qualified.size()) return std::nullopt;
  name.class_name = qualified.substr(0, dot);
  name.name = qualified.substr(dot + 1);
  return name;
}

bool is_method_pattern(std::string_view text) { return is_pattern(escape_arrays(text)); }

bool is_same_class(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char one, char other) {
    return one == other || (one == '.' && other == '$') || (one == '$' && other == '.');
  });
}

bool has_signature(const art::Signature& signature, const MethodName& name) {
  if (!name.return_type.empty() && !is_type(signature.return_type, name.return_type)) return false;
  return !name.parameters || std::ranges::equal(signature.parameters, *name.parameters, is_type);
}

bool matches_method(std::string_view pattern, std::string_view signature) {
  const std::string escaped = escape_arrays(pattern);
  if (matches_pattern(escaped, signature)) return true;
  const auto space = signature.find(' ');
  const auto unreturned = signature.substr(space == std::string_view::npos ? 0 : space + 1);
  return matches_pattern(escaped, unreturned) ||
         matches_pattern(escaped, unreturned.substr(0, unreturned.find('(')));
}

std::vector<std::string> other_methods_at(const art::OatFile& oat, VirtualAddress address,
                                          std::string_view own) {
  std::vector<std::string> names;
  for (const art::Method& method : oat.methods_at(address))
    if (std::string text = to_string(oat.signature(method)); text != own)
      names.push_back(std::move(text));
  return names;
}

std::string native_name(const art::Signature& signature) {
  std::string text = "Java_";
  const std::string qualified = signature.class_name + '.' + signature.name;
  for (std::string_view rest = qualified; !rest.empty();) {
    const std::uint32_t point = take_point(rest);
    if (point == '.')
      text += '_';
    else if (point == '_')
      text += "_1";
    else if (is_plain(point))
      text += static_cast<char>(point);
    else if (point < 0x10000)
      text += fmt::format("_0{:04x}", point);
    else // a UTF-16 unit each
      text += fmt::format("_0{:04x}_0{:04x}", 0xd800 + (point - 0x10000) / 0x400,
                          0xdc00 + (point - 0x10000) % 0x400);
  }
  return text;
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
  const auto ended = stream_command(
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
  if (std::string warning = newer_version_warning(query.subject(), oat); !warning.empty())
    point.warnings.push_back(std::move(warning));
}

// Returns a warning that lists the other methods, up to a limit. It explains unexpected hits.
std::string shared_code_warning(const ProbePoint& point, const std::vector<std::string>& others) {
  constexpr std::size_t max_others = 200;
  std::string text = fmt::format("'{}' shares its code with {} other method{}, and a probe there "
                                 "fires for each of them: ",
                                 *point.symbol, others.size(), others.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < others.size() && i < max_others; ++i)
    text += (i == 0 ? "" : "; ") + others[i];
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
  auto point = make_point(query, symbol);
  if (!point) return point;
  if (point->size == 0U) point->size.reset();
  if (query.options.to_probe) point->java = java_method_at(oat, symbol.address);
  if (!warn && !query.options.aliases) return point;
  auto others = other_methods_at(oat, symbol.address, symbol.name);
  if (warn && !others.empty()) point->warnings.push_back(shared_code_warning(*point, others));
  if (query.options.aliases) point->aliases = std::move(others);
  return point;
}

Result<Points> points_of_methods(const Query& query, const art::OatFile& oat,
                                 std::span<const art::Method> methods) {
  MethodSymbols named(oat);
  for (const art::Method& method : methods) named.add(method, to_string(oat.signature(method)));
  const auto places = unique_places(named.symbols());
  if (places.size() > 1 && !query.options.all) return fail(ambiguous_name(query, places));
  Points points;
  for (const elf::Symbol& symbol : places) {
    auto point = point_of_method(query, oat, symbol, true);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  return points;
}

Result<Points> resolve_method_pattern(const Query& query, const art::OatFile& oat) {
  MethodSymbols matching(oat);
  for (const art::Method& method : oat.compiled()) {
    std::string text = to_string(oat.signature(method));
    if (matches_method(query.function.name, text)) matching.add(method, std::move(text));
  }
  if (matching.symbols().empty()) return fail(no_method_matches(query, oat));
  PatternPoints found(query);
  std::size_t shared = 0;
  for (const elf::Symbol& symbol : unique_places(matching.symbols())) {
    auto point = point_of_method(query, oat, symbol, false);
    if (point && oat.methods_at(symbol.address).size() > 1) ++shared;
    found.add(std::move(point));
  }
  auto points = found.take("methods");
  if (points && points->empty()) return fail(no_method_matches(query, oat));
  if (points && shared != 0)
    points->front().warnings.push_back(
        fmt::format("{}: {} of the places that match '{}' are code that several methods share, and "
                    "a probe there fires for each of them (--aliases names them)",
                    query.subject(), shared, query.function.name));
  return points;
}

std::vector<art::Class> find_classes(const art::OatFile& oat, std::string_view name) {
  if (const auto exact = oat.find_class(name)) return {*exact};
  std::vector<art::Class> classes;
  std::vector<std::string> names; // two DEX files can have the same class
  oat.for_each_class([&](art::Class defined, std::string_view other) {
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
    if (!method.compiled) text += (text.empty() ? "" : "; ") + to_string(oat.signature(method));
  return text;
}

Result<Points> resolve_in_class(const Query& query, const art::OatFile& oat, art::Class defined,
                                const MethodName& name) {
  Methods called = oat.class_methods(defined);
  std::erase_if(called,
                [&](const art::Method& method) { return oat.signature(method).name != name.name; });
  Methods fitting = called;
  std::erase_if(fitting, [&](const art::Method& method) {
    return !has_signature(oat.signature(method), name);
  });
  if (fitting.empty()) return fail(no_such_method(query, oat, defined, name, called));
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

Result<Points> resolve_in(const Query& query, const art::OatFile& oat) {
  const std::string_view text = query.function.name;
  const auto name = parse_method_name(text);
  const bool is_pattern_too = is_method_pattern(text);
  const auto classes = name ? find_classes(oat, name->class_name) : std::vector<art::Class>();
  if (classes.size() == 1) {
    auto points = resolve_in_class(query, oat, classes.front(), *name);
    if (points || points.error().kind != ErrorKind::not_found || !is_pattern_too) return points;
  }
  if (is_pattern_too) return resolve_method_pattern(query, oat);
  if (!name)
    return fail(
        Error{ErrorKind::not_found, fmt::format("{}: no function '{}'", query.subject(), text)}
            .hint(std::string(method_name_hint)));
  return fail(classes.empty() ? no_such_class(query, oat, *name)
                              : several_classes(query, oat, classes));
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
  if (function.form == Form::plt || function.form == Form::source_line ||
      function.form == Form::function_line)
    return false;
  return function.form != FunctionSpec::Form::name || function.name.contains('.') ||
         is_pattern(function.name);
}

bool may_have_symbol(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::unsupported ||
         error.kind == ErrorKind::corrupt;
}

std::string missing_methods_warning(const Query& query) {
  const Result<art::OatFile>& oat = *query.methods;
  if (oat && oat->has_all_dex_files()) return {};
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
  if (!others.empty()) point.warnings.push_back(shared_code_warning(point, others));
  add_file_warnings(query, oat, point);
  if (query.options.aliases) point.aliases = std::move(others);
}

} // namespace uprobectl
