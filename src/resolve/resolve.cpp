#include "resolve/debug_source.hpp"
#include "resolve/explain_method.hpp"
#include "resolve/point.hpp"
#include "resolve/state.hpp"
#include "uprobectl/archive.hpp"
#include "util/shell_words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// The entry whose bytes the offset of a whole archive lies in.
Result<BinaryPath> entry_of(const BinaryPath& archive_path, Bytes bytes,
                            const FunctionSpec& function) {
  const std::string subject = to_string(archive_path);
  const auto archive = Archive::parse(bytes);
  if (!archive) return fail(Error(archive.error()).within(subject));
  if (function.number >= bytes.size())
    return fail(ErrorKind::out_of_range,
                fmt::format("{}: '{}' is beyond the end, the archive has {:#x} bytes", subject,
                            function.request, bytes.size()));
  const auto entry = archive->entry_at({function.number});
  if (!entry) return fail(Error(entry.error()).within(subject));
  if (!*entry)
    return fail(ErrorKind::no_code,
                fmt::format("{}: '{}' lies in no entry: a header, the directory or a gap", subject,
                            function.request));
  const auto stored = archive->stored_bytes(**entry);
  if (!stored) return fail(Error(stored.error()).within(subject));
  return BinaryPath{archive_path.file, std::string((*entry)->name)};
}

bool is_number(const FunctionSpec& function) {
  return function.form != FunctionSpec::Form::name && function.form != FunctionSpec::Form::plt;
}

} // namespace

Result<std::vector<ProbePoint>> Target::resolve(const FunctionSpec& function,
                                                const ResolveOptions& options) const {
  // What a question brings in stays for the next: a cache, which changes no answer.
  State& state = *state_;
  if (state.image) {
    Question question{state.binary, function, *state.image, state.demangler, options};
    if (may_be_method(function)) question.methods = state.methods.in(*state.image);
    if (is_number(function)) {
      const bool has_methods = question.methods != nullptr && *question.methods;
      if (!state.symbolizer)
        state.symbolizer.emplace(*state.image, has_methods ? &**question.methods : nullptr);
      question.symbolizer = &*state.symbolizer;
    }
    return answer(question, *state.image, state.debug);
  }

  const std::string subject = to_string(state.binary->path);
  if (function.form != FunctionSpec::Form::file_offset)
    return fail(Error{ErrorKind::not_elf, fmt::format("{}: an archive, '{}' needs an entry of it",
                                                      subject, function.request)}
                    .hint(fmt::format("name one: '{}!/lib/…', or ask for file-offset:0x…", subject))
                    .hint(fmt::format("list its libraries with: uprobectl list-symbols {}",
                                      shell_word(subject))));
  const auto path = entry_of(state.binary->path, state.binary->file->bytes(), function);
  if (!path) return fail(path.error());
  auto image = elf::Image::open(state.binary->file, *path);
  if (!image) return fail(image.error());
  DebugSource debug(state.debug.where());
  ProbedBinary entry = *state.binary;
  entry.path = *path;
  describe(*image, entry);
  const auto binary = std::make_shared<const ProbedBinary>(std::move(entry));
  symbolize::Symbolizer symbolizer(*image);
  Question question{binary, function, *image, state.demangler, options};
  question.symbolizer = &symbolizer;
  return answer(question, *image, debug);
}

void Target::resolve_each(std::span<const std::string_view> functions,
                          const ResolveOptions& options, const VisitPlaces& visit) const {
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
    if (state_->image && names.size() > 1) expect_names(*state_->image, names);
    for (std::size_t i = 0; i < parsed.size(); ++i)
      visit(begin + i, parsed[i] ? resolve(*parsed[i], options) : fail(parsed[i].error()));
  }
}

const Result<art::OatFile>* Target::java_methods() const {
  return state_->image ? state_->methods.in(*state_->image) : nullptr;
}

std::optional<Error> Target::missing_dex() const {
  const auto* const methods = java_methods();
  if (methods == nullptr || !*methods || (*methods)->has_all_dex_files()) return std::nullopt;
  return no_dex_file(to_string(state_->binary->path), **methods);
}

void Target::complete_symbols() {
  if (state_->image) state_->debug.complete(*state_->image);
}

const DebugNotes& Target::debug_notes() const { return state_->debug.notes(); }

} // namespace uprobectl
