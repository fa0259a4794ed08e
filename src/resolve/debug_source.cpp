#include "resolve/debug_source.hpp"

#include "resolve/aliases.hpp"
#include "resolve/methods.hpp"
#include "resolve/probeable.hpp"

#include <algorithm>
#include <iterator>

namespace uprobectl {

namespace {

bool has_symtab(const elf::Image& image) {
  const auto table = image.full_symbols();
  return table && table->size() > 0;
}

bool is_about_all_symbols(const Question& question) {
  if (question.function.form == FunctionSpec::Form::plt) return false;
  return question.function.form != FunctionSpec::Form::name || is_pattern(question.function.name) ||
         question.options.clones || question.options.aliases;
}

Result<std::vector<ProbePoint>> ask(const Question& question) {
  switch (question.function.form) {
  case FunctionSpec::Form::name:
    return resolve_name(question);
  case FunctionSpec::Form::plt:
    return resolve_plt(question);
  case FunctionSpec::Form::virtual_address:
  case FunctionSpec::Form::image_offset:
  case FunctionSpec::Form::file_offset:
    break;
  }
  return resolve_number(question);
}

// Whether other symbols could change the answer. An import or data of that name can hide a static
// function of a debug file.
bool may_be_elsewhere(const Question& question, const Error& error) {
  if (question.function.form != FunctionSpec::Form::name) return false;
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported ||
         error.kind == ErrorKind::no_code;
}

} // namespace

bool DebugSource::add_next(elf::Image& image) {
  while (next_ != Next::nothing) {
    const bool embedded = next_ == Next::embedded;
    elf::DebugReport report =
        embedded ? image.add_embedded_symbols() : image.add_debug_file(where_);
    next_ = embedded ? Next::file : Next::nothing;
    std::ranges::move(report.warnings, std::back_inserter(notes_.warnings));
    if (!report.used) continue;
    notes_.used.push_back(std::move(*report.used));
    return true;
  }
  return false;
}

void DebugSource::complete(elf::Image& image) {
  if (has_symtab(image)) return;
  while (add_next(image)) {
  }
}

namespace {

Result<std::vector<ProbePoint>> answer_by_symbols(const Question& question, elf::Image& image,
                                                  DebugSource& source) {
  if (is_about_all_symbols(question)) source.complete(image);
  auto points = ask(question);
  while (!points && may_be_elsewhere(question, points.error()) && source.add_next(image))
    points = ask(question);
  if (points && question.options.aliases) add_aliases(image, *points);
  if (points) finish_points(question, *points);
  if (points || points.error().kind != ErrorKind::not_found ||
      question.function.form == FunctionSpec::Form::plt)
    return points;

  constexpr std::size_t most_hints = 2;
  Error error = std::move(points).error();
  if (error.hints.size() < most_hints && source.where().places.empty() &&
      image.debug_symbols().empty() && !has_symtab(image) && !art::OatFile::is_oat(image))
    error = std::move(error).hint("it has no .symtab: for functions that are not exported name its "
                                  "symbol file, or the folder of it, with --debug-dir");
  return fail(std::move(error));
}

// Older dex2oat names code that several methods share after one of them, with a mark.
Result<std::vector<ProbePoint>> answer_as_shared(const Question& question, elf::Image& image,
                                                 DebugSource& source) {
  const std::string name = std::string(question.function.name) + " [DEDUPED]";
  FunctionSpec function = question.function;
  function.name = name;
  Question shared{question.binary,    function,         question.image,
                  question.demangler, question.options, question.methods};
  shared.options.suggest = false;
  auto points = answer_by_symbols(shared, image, source);
  if (points)
    points->front().warnings.push_back("'" + std::string(question.function.name) +
                                       "' shares its code with other methods, and a probe there "
                                       "fires for each of them");
  return points;
}

} // namespace

Result<std::vector<ProbePoint>> answer(const Question& question, elf::Image& image,
                                       DebugSource& source) {
  if (question.methods == nullptr || question.function.form != FunctionSpec::Form::name)
    return answer_by_symbols(question, image, source);
  auto methods = resolve_method(question);
  if (methods) finish_points(question, *methods);
  if (methods || !may_have_symbol(methods.error())) return methods;
  auto symbols = answer_by_symbols(question, image, source);
  if (!symbols && symbols.error().kind == ErrorKind::not_found)
    symbols = answer_as_shared(question, image, source);
  if (!symbols) return methods; // which knows better why
  if (std::string why = why_no_methods(question); !why.empty())
    symbols->front().warnings.push_back(std::move(why));
  return symbols;
}

} // namespace uprobectl
