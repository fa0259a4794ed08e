#include "resolve/explain_method.hpp"

#include "resolve/native_name.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr std::size_t most_listed = 10;

std::string_view simple_name(std::string_view qualified) {
  return qualified.substr(qualified.find_last_of(".$") + 1);
}

bool is_class(const art::OatFile& oat, std::string_view name) {
  return oat.find_class(name).has_value();
}

// By spelling, or of the same name in another package.
std::vector<std::string> nearest_classes(const art::OatFile& oat, std::string_view wanted) {
  const unsigned limit = suggestion_limit(wanted);
  NearestNames near;
  oat.for_each_class([&](art::Class, std::string_view name) {
    if (const auto rank = guess_rank(wanted, name, limit))
      near.offer(*rank, name);
    else if (simple_name(name) == simple_name(wanted))
      near.offer(static_cast<unsigned>(name.size()), name);
    return true;
  });
  return std::move(near).take();
}

Error list_signatures(Error error, const art::OatFile& oat, std::span<const art::Method> methods) {
  for (const art::Method& method : methods.first(std::min(most_listed, methods.size())))
    error = std::move(error).hint("it is there as: " + to_string(oat.signature(method)));
  if (methods.size() > most_listed)
    error = std::move(error).hint(fmt::format("and {} more", methods.size() - most_listed));
  return error;
}

} // namespace

std::string in_compiler_filter(const art::OatFile& oat) {
  const auto filter = oat.value("compiler-filter");
  return filter.empty() ? std::string() : fmt::format(" (compiler filter '{}')", filter);
}

Error no_dex_file(std::string_view subject, const art::OatFile& oat) {
  const auto files = oat.dex_files();
  const auto first =
      std::ranges::find_if(files, [](const art::OatDex& dex) { return !dex.source; });
  if (first == files.end()) return {ErrorKind::not_found, std::string(subject)};
  const auto missing =
      std::ranges::count_if(files, [](const art::OatDex& dex) { return !dex.source; });
  Error error{ErrorKind::not_found,
              fmt::format("{}: the DEX file of {} {} not found, so the methods have no names",
                          subject, first->location,
                          missing > 1 ? fmt::format("and {} more are", missing - 1) : "is")};
  return art::with_dex_places(std::move(error), *first);
}

Error no_such_class(const Question& question, const art::OatFile& oat, const MethodName& name) {
  if (!oat.has_all_dex_files()) return no_dex_file(question.subject(), oat);
  Error error{ErrorKind::not_found,
              fmt::format("{}: no class '{}'", question.subject(), name.class_name)};
  const std::string_view whole = question.function.name;
  if (is_class(oat, whole))
    return std::move(error).hint(
        fmt::format("'{}' is a class: for all of its methods ask for '{}.*'", whole, whole));
  if (!question.options.suggest) return error;
  const auto near = nearest_classes(oat, name.class_name);
  if (!near.empty()) return std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list what is compiled with: uprobectl list-symbols " +
                               shell_word(question.subject()));
}

Error several_classes(const Question& question, const art::OatFile& oat,
                      std::span<const art::Class> classes) {
  Error error{ErrorKind::ambiguous, fmt::format("{}: '{}' may be in {} classes", question.subject(),
                                                question.function.name, classes.size())};
  for (const art::Class found : classes.first(std::min(most_listed, classes.size())))
    error = std::move(error).hint("there is: " + oat.class_name(found));
  return error;
}

Error no_such_method(const Question& question, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called) {
  const std::string class_name = oat.class_name(defined);
  if (!called.empty())
    return list_signatures(
        {ErrorKind::not_found, fmt::format("{}: no method '{}', but others called '{}'",
                                           question.subject(), question.function.name, name.name)},
        oat, called);
  Error error{ErrorKind::not_found, fmt::format("{}: class {} has no method '{}'",
                                                question.subject(), class_name, name.name)};
  const unsigned limit = suggestion_limit(name.name);
  NearestNames near;
  for (const art::Method& method : oat.methods_of(defined)) {
    const auto signature = oat.signature(method);
    if (const auto rank = guess_rank(name.name, signature.name, limit))
      near.offer(*rank, class_name + '.' + signature.name);
  }
  if (const auto names = std::move(near).take(); !names.empty())
    error = std::move(error).hint(did_you_mean(names));
  const std::string superclass = oat.superclass(defined);
  if (!superclass.empty())
    error = std::move(error).hint(
        fmt::format("if it is inherited, ask for it in the class that has its code: {} extends {}",
                    class_name, superclass));
  return error;
}

Error no_code_of(const Question& question, const art::OatFile& oat,
                 std::span<const art::Method> methods) {
  const art::Method& first = methods.front();
  const auto signature = oat.signature(first);
  const std::string subject = fmt::format("{}: '{}'", question.subject(), to_string(signature));
  const auto all = [&](auto property) { return std::ranges::all_of(methods, property); };
  if (all(&art::Method::is_abstract))
    return Error{ErrorKind::no_code, subject + " is abstract: it has no code"}.hint(
        "ask for it in the classes that implement it");
  if (all(&art::Method::is_native))
    return Error{ErrorKind::no_code, subject + " is native: its code is in a library"}.hint(
        fmt::format("there it is called '{0}', or where it is overloaded '{0}__' and what stands "
                    "for its parameters, unless the library registers it under another name",
                    native_name(signature)));
  const std::string why = oat.has_all_dex_files() && oat.compiled().empty()
                              ? " is not compiled, and nothing else in this file is"
                              : " is not compiled in this file";
  return Error{ErrorKind::no_code, subject + why + in_compiler_filter(oat)}
      .hint("the interpreter runs it, or code that is compiled at run time: no file has that")
      .hint("to have an app compiled: adb shell cmd package compile -m speed -f PACKAGE");
}

Error no_method_matches(const Question& question, const art::OatFile& oat) {
  if (!oat.has_all_dex_files()) return no_dex_file(question.subject(), oat);
  if (oat.compiled().empty())
    return {ErrorKind::not_found,
            question.subject() + ": nothing is compiled in this file" + in_compiler_filter(oat)};
  return Error{ErrorKind::not_found, fmt::format("{}: no compiled method matches '{}'",
                                                 question.subject(), question.function.name)}
      .hint(
          "patterns are matched with 'com.foo.Bar.baz', with and without '(int, long)' behind it, "
          "and with the return type in front");
}

} // namespace uprobectl
