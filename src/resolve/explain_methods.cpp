// SPDX-License-Identifier: Apache-2.0
// Explains why a Java method could not be resolved.
#include "art/name_mapping.hpp"
#include "resolve/explain.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

constexpr std::size_t max_methods_listed = 10;

std::string_view simple_name(std::string_view qualified) {
  return qualified.substr(qualified.find_last_of(".$") + 1);
}

// The name of a class in the source, for one in the file, and back.
std::string_view source_class(const art::OatFile& oat, std::string_view in_file) {
  return oat.mapping() == nullptr ? in_file
                                  : oat.mapping()->class_in_source(in_file).value_or(in_file);
}
bool is_class(const art::OatFile& oat, std::string_view name) {
  return oat
      .find_class(oat.mapping() == nullptr ? name
                                           : oat.mapping()->class_in_file(name).value_or(name))
      .has_value();
}

// Classes with a similar name, or with the same name in another package.
std::vector<std::string> nearest_classes(const art::OatFile& oat, std::string_view class_name) {
  const unsigned limit = suggestion_limit(class_name);
  NearestNames near;
  oat.for_each_class([&](art::Class, std::string_view in_file) {
    const std::string_view name = source_class(oat, in_file);
    if (const auto rank = suggestion_rank(class_name, name, limit))
      near.offer(*rank, name);
    else if (simple_name(name) == simple_name(class_name))
      near.offer(static_cast<unsigned>(name.size()), name);
    return true;
  });
  return std::move(near).take();
}

Error list_signatures(Error error, const art::OatFile& oat, std::span<const art::Method> methods) {
  for (const art::Method& method : methods.first(std::min(max_methods_listed, methods.size())))
    error = std::move(error).hint("it is there as: " + art::shown_name(oat, method));
  if (methods.size() > max_methods_listed)
    error = std::move(error).hint(fmt::format("and {} more", methods.size() - max_methods_listed));
  return error;
}

} // namespace

std::string compiler_filter_note(const art::OatFile& oat) {
  const auto filter = oat.value("compiler-filter");
  return filter.empty() ? std::string() : fmt::format(" (compiler filter '{}')", filter);
}

Error no_dex_file(std::string_view subject, const art::OatFile& oat) {
  constexpr std::size_t most = 100;
  const art::OatDex* first = nullptr;
  std::vector<std::string_view> missing;
  for (const art::OatDex& dex : oat.dex_files()) {
    if (dex.source) continue;
    if (first == nullptr) first = &dex;
    missing.push_back(dex.location);
  }
  if (first == nullptr) return {ErrorKind::not_found, std::string(subject)};
  const bool several = missing.size() > 1;
  const std::size_t unlisted = missing.size() - std::min(missing.size(), most);
  missing.resize(missing.size() - unlisted);
  Error error{ErrorKind::not_found,
              fmt::format("{}: the DEX {} of {}{} {} not found, so {} methods have no names",
                          subject, several ? "files" : "file", joined(missing),
                          unlisted != 0 ? fmt::format(" and {} more", unlisted) : "",
                          several ? "are" : "is", several ? "their" : "its")};
  return art::add_missing_dex_hints(std::move(error), *first);
}

std::string nothing_compiled(std::string_view subject, const art::OatFile& oat) {
  return fmt::format("{}: nothing is compiled in this file{}", subject, compiler_filter_note(oat));
}

std::string newer_version_warning(std::string_view subject, const art::OatFile& oat) {
  if (!oat.is_newer_version()) return {};
  return fmt::format(
      "{}: OAT version {} is newer than the newest supported one ({}): read with the "
      "layout of that one, which nothing in the file contradicts",
      subject, oat.version(), art::newest_version);
}

std::string r8_mapping_warning(std::string_view subject, const art::OatFile& oat) {
  if (oat.mapping() == nullptr || oat.mapping()->id().empty()) return {};
  const auto ids = oat.map_ids();
  if (ids.empty() || std::ranges::find(ids, oat.mapping()->id()) != ids.end()) return {};
  return fmt::format("{}: the mapping is that of another build (pg_map_id {}, the DEX files have "
                     "{}): names may be wrong",
                     subject, oat.mapping()->id(), joined(ids));
}

Error no_such_class(const Query& query, const art::OatFile& oat, const MethodName& name) {
  if (!oat.has_all_dex_files())
    return oat.has_code() ? no_dex_file(query.subject(), oat)
                          : Error{ErrorKind::no_code, nothing_compiled(query.subject(), oat)};
  Error error{ErrorKind::not_found,
              fmt::format("{}: no class '{}'", query.subject(), name.class_name)};
  const std::string_view whole = query.function.name;
  if (is_class(oat, whole))
    return std::move(error).hint(
        fmt::format("'{}' is a class: use '{}.*' for all of its methods", whole, whole));
  if (!query.options.suggest) return error;
  const auto near = nearest_classes(oat, name.class_name);
  if (!near.empty()) return std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list compiled methods with: uprobectl list-symbols " +
                               shell_word(query.subject()));
}

Error no_class_given(const Query& query, const art::OatFile& oat) {
  const std::string_view name = query.function.name;
  Error error{ErrorKind::not_found, fmt::format("{}: no function '{}'", query.subject(), name)};
  std::vector<std::string> named;
  for (const art::Method& method : oat.compiled())
    for (const art::Signature& signature : source_signatures(oat, method))
      if (signature.name == name) named.push_back(to_string(signature));
  std::ranges::sort(named);
  if (named.empty()) return std::move(error).hint(std::string(method_name_hint));
  for (std::size_t i = 0; i < named.size() && i < max_methods_listed; ++i)
    error = std::move(error).hint("there is the method: " + named[i]);
  if (named.size() > max_methods_listed)
    error = std::move(error).hint(fmt::format("and {} more", named.size() - max_methods_listed));
  return std::move(error).hint(
      fmt::format("use {} for all of them", shell_word(fmt::format("*.{}", name))));
}

Error several_classes(const Query& query, const art::OatFile& oat,
                      std::span<const art::Class> classes) {
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it matches {} classes", query.subject(),
                          query.function.name, classes.size())};
  for (const art::Class found : classes.first(std::min(max_methods_listed, classes.size())))
    error =
        std::move(error).hint("there is: " + std::string(source_class(oat, oat.class_name(found))));
  return error;
}

Error no_such_method(const Query& query, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called) {
  const std::string class_name(source_class(oat, oat.class_name(defined)));
  if (!called.empty())
    return list_signatures(
        {ErrorKind::not_found, fmt::format("{}: no method '{}', but other signatures of '{}' exist",
                                           query.subject(), query.function.name, name.name)},
        oat, called);
  Error error{ErrorKind::not_found, fmt::format("{}: class {} has no method '{}'", query.subject(),
                                                class_name, name.name)};
  const unsigned limit = suggestion_limit(name.name);
  NearestNames near;
  std::vector<std::string> derived;
  for (const art::Method& method : oat.class_methods(defined))
    for (const art::Signature& signature : source_signatures(oat, method)) {
      if (const auto rank = suggestion_rank(name.name, signature.name, limit))
        near.offer(*rank, class_name + '.' + signature.name);
      if (derivation(name.name, signature.name) != Derivation::none &&
          derived.size() < max_methods_listed)
        derived.push_back(to_string(signature));
    }
  if (!derived.empty())
    error = std::move(error).hint("methods that are compiled from it: " + joined(derived, "; "));
  if (const auto names = std::move(near).take(); !names.empty())
    error = std::move(error).hint(did_you_mean(names));
  const std::string superclass(source_class(oat, oat.superclass(defined)));
  if (!superclass.empty())
    error = std::move(error).hint(
        fmt::format("if it is inherited, use the class that defines it: {} extends {}", class_name,
                    superclass));
  return error;
}

Error no_method_code(const Query& query, const art::OatFile& oat,
                     std::span<const art::Method> methods) {
  const art::Method& first = methods.front();
  const auto signature = oat.signature(first);
  const std::string subject = fmt::format("{}: '{}'", query.subject(), art::shown_name(oat, first));
  const auto all = [&](auto property) { return std::ranges::all_of(methods, property); };
  if (all(&art::Method::is_abstract))
    return Error{ErrorKind::no_code, subject + " is abstract: it has no code"}.hint(
        "use the classes that implement it");
  if (all(&art::Method::is_native))
    return Error{ErrorKind::no_code, subject + " is native: its code is in a library"}.hint(
        fmt::format("probe '{0}' in the library, or if it is overloaded '{0}__' followed by its "
                    "encoded parameters, unless the library registers another name",
                    native_name(signature)));
  const bool is_empty = !oat.has_code() || (oat.has_all_dex_files() && oat.compiled().empty());
  const std::string why = is_empty ? " is not compiled, and no other method in this file is"
                                   : " is not compiled in this file";
  return Error{ErrorKind::no_code, subject + why + compiler_filter_note(oat)}
      .hint("it runs in the interpreter, or as code that is compiled at run time and is in no file")
      .hint("let Android compile an app with: --app PACKAGE --compile");
}

Error no_method_matches(const Query& query, const art::OatFile& oat) {
  if (oat.has_code() && !oat.has_all_dex_files()) return no_dex_file(query.subject(), oat);
  if (oat.compiled().empty()) return {ErrorKind::not_found, nothing_compiled(query.subject(), oat)};
  return Error{ErrorKind::not_found, fmt::format("{}: no compiled method matches '{}'",
                                                 query.subject(), query.function.name)}
      .hint("patterns are matched with 'com.foo.Bar.baz', with and without '(int, long)' after it, "
            "and with the return type in front");
}

} // namespace uprobectl::resolve
