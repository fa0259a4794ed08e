// SPDX-License-Identifier: Apache-2.0
#include "archive/nested.hpp"
#include "binary/binary.hpp"
#include "resolve/explain.hpp"
#include "uprobectl/resolve.hpp"
#include "util/mapped_file.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::resolve {

namespace {

// Lists the first few names, then the number of the others.
std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t max_shown = 10;
  std::string text = joined(std::span(names).first(std::min(max_shown, names.size())));
  if (names.size() > max_shown) text += fmt::format(" and {} more", names.size() - max_shown);
  return text;
}

Error no_usable_file(const Targets& targets, Error first) {
  if (targets.files.size() > 1)
    first.message = fmt::format("{}: none of its {} files can be probed; first error: {}",
                                targets.text, targets.files.size(), first.message);
  return first;
}

// Whether the error means that the file does not have the FUNCTION. Other errors are reported.
bool is_not_found(std::string_view text, const Error& error) {
  if (means_no_match(error)) return true;
  const auto function = parse_function(text);
  using Form = FunctionSpec::Form;
  const bool is_number =
      function && (function->form == Form::virtual_address ||
                   function->form == Form::image_offset || function->form == Form::file_offset);
  return is_number && error.kind == ErrorKind::out_of_range;
}

// Whether a name of the FUNCTION may be spelled in another way. A name without scopes can be that
// of a function template or in an unnamed namespace, which is not worth opening many files again.
bool may_have_other_spelling(const FunctionSpec& function, std::size_t files) {
  using Form = FunctionSpec::Form;
  const bool has_name = function.form == Form::name || function.form == Form::plt ||
                        function.form == Form::function_line;
  if (!has_name || symbols::is_name_pattern(function.name)) return false;
  return files <= 1 || function.name.find_first_of(":.(<~ ") != std::string_view::npos;
}

// Whether the kernel rejects every offset in the entry because of the alignment of its data.
bool is_misplaced(const Target& target, const Error& error) {
  constexpr std::uint64_t largest_alignment = 4; // arm64's
  return error.kind == ErrorKind::misaligned && target.image() != nullptr &&
         target.image()->entry_data().value % largest_alignment != 0;
}

void add_symbol_sources(const Target& target, ResolveResults& results) {
  const std::string subject = to_string(target.display_path());
  for (const std::string& source : target.symbol_sources().used)
    results.details.push_back(subject + ": symbols from " + source);
  for (const std::string& warning : target.symbol_sources().warnings)
    results.warnings.push_back(subject + ": " + warning);
}

// Implements resolve_all().
class MultiFileResolver {
public:
  MultiFileResolver(const Targets& targets, std::span<const std::string_view> functions,
                    const TargetOptions& where, const ResolveOptions& how)
      : targets_(targets), functions_(functions), where_(where), how_(how), quick_(how),
        importing_files_(functions.size()), stripped_files_(functions.size()) {
    quick_.suggest = false;
    quick_.other_spellings = false;
    for (const std::string_view function : functions)
      results_.functions.push_back(
          {.request = std::string(function), .points = {}, .files = 0, .errors = {}});
  }

  Result<ResolveResults> run() {
    auto visited = visit_targets(targets_, where_, [this](Target& target) { resolve_in(target); });
    if (!visited) return fail(std::move(visited).error());
    results_.searched_files = visited->files;
    std::ranges::move(visited->warnings, std::back_inserter(results_.warnings));
    if (how_.other_spellings) resolve_otherwise();
    for (std::size_t i = 0; i < results_.functions.size(); ++i) {
      FunctionResult& result = results_.functions[i];
      if (result.files == 0 && result.errors.empty()) result.errors.push_back(not_found_error(i));
    }
    return std::move(results_);
  }

private:
  struct Missing {
    std::size_t index = 0; // of the FUNCTION
    FunctionSpec function;
    std::optional<unsigned> closest = {}; // distance of the points and errors so far
  };

  // Resolves the FUNCTIONs that no file has exactly by other spellings of their names.
  void resolve_otherwise() {
    ResolveOptions how = quick_;
    how.other_spellings = true;
    std::vector<Missing> missing;
    for (std::size_t i = 0; i < results_.functions.size(); ++i) {
      const FunctionResult& result = results_.functions[i];
      const auto function = parse_function(functions_[i]);
      // An import means a function with exactly the name, in a file that is not searched.
      const bool is_known = result.files != 0 || !result.errors.empty() || importing_files_[i] != 0;
      if (!is_known && function && may_have_other_spelling(*function, results_.searched_files))
        missing.push_back({.index = i, .function = *function});
    }
    if (missing.empty()) return;
    (void)visit_targets(targets_, where_, [&](Target& target) {
      for (Missing& each : missing)
        add_spelled(target, each, target.resolve_spelled(each.function, how));
    });
  }

  // Keeps what has the lowest distance of all files, as if they were one. Imports, whose code is in
  // another file, do not count, and neither do files that cannot be probed.
  void add_spelled(const Target& target, Missing& missing, ResolvedFunction resolved) {
    const Error* const error = resolved.points ? nullptr : &resolved.points.error();
    const bool is_elsewhere =
        error != nullptr && (error->kind == ErrorKind::imported || is_misplaced(target, *error));
    if (!resolved.distance || is_elsewhere)
      return add_points(target, missing.index, std::move(resolved.points));
    FunctionResult& result = results_.functions[missing.index];
    if (missing.closest && *resolved.distance > *missing.closest) return;
    if (missing.closest && *resolved.distance < *missing.closest) {
      result.points.clear();
      result.errors.clear();
      result.files = 0;
    }
    missing.closest = resolved.distance;
    // A function that exists only inlined is there, but not found.
    if (error != nullptr && error->kind == ErrorKind::not_found &&
        missing.function.form == FunctionSpec::Form::name)
      result.errors.push_back(std::move(resolved.points).error());
    else
      add_points(target, missing.index, std::move(resolved.points));
  }

  void resolve_in(const Target& target) {
    warned_misplaced_ = false;
    for (const std::string& warning : target.warnings()) results_.warnings.push_back(warning);
    target.resolve_each(functions_, quick_,
                        [&](std::size_t index, Result<std::vector<ProbePoint>> points) {
                          if (auto whole = check_size(*target.file()); !whole)
                            points = fail(std::move(whole).error());
                          add_points(target, index, std::move(points));
                        });
    add_symbol_sources(target, results_);
  }

  void add_points(const Target& target, std::size_t index, Result<std::vector<ProbePoint>> points) {
    FunctionResult& result = results_.functions[index];
    if (points) {
      ++result.files;
      std::ranges::move(*points, std::back_inserter(result.points));
    } else if (is_misplaced(target, points.error())) {
      // Applies to the whole entry, so report it once.
      if (!std::exchange(warned_misplaced_, true))
        results_.warnings.push_back("skipped: " + points.error().message);
    } else if (!is_not_found(functions_[index], points.error())) {
      result.errors.push_back(std::move(points).error());
    } else if (points.error().kind == ErrorKind::imported) {
      ++importing_files_[index];
    } else if (std::ranges::find(points.error().hints, no_symtab_hint) !=
               points.error().hints.end()) {
      ++stripped_files_[index];
    }
  }

  // Returns the error for a FUNCTION that no file has.
  Error not_found_error(std::size_t index) const {
    if (results_.searched_files == 1)
      if (auto own = own_error(functions_[index])) return std::move(*own);
    const std::string& request = results_.functions[index].request;
    const std::size_t importing = importing_files_[index];
    Error error{importing == 0 ? ErrorKind::not_found : ErrorKind::imported,
                fmt::format("{}: '{}' is not in any of its {} files", targets_.text, request,
                            results_.searched_files)};
    if (importing != 0) error.message += fmt::format(", {} import it", importing);
    const auto near = similar_names(request);
    if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
    if (stripped_files_[index] < results_.searched_files) return error;
    return std::move(error).hint("none of them has a .symtab: to resolve functions that are not "
                                 "exported, give their symbol files or folder with --debug-dir");
  }

  // Returns the error of the only file that could be opened, with its suggestions.
  std::optional<Error> own_error(std::string_view function) const {
    std::optional<Error> own;
    (void)visit_targets(targets_, where_, [&](const Target& target) {
      ResolveOptions how = how_;
      how.other_spellings = false; // resolve_otherwise() has tried
      target.resolve_each({&function, 1}, how, [&](std::size_t, const auto& points) {
        if (!points) own = points.error();
      });
    });
    return own;
  }

  // Returns similar names from the first few files; none if there are many FUNCTIONs.
  std::vector<std::string> similar_names(const std::string& request) const {
    constexpr std::size_t few = 8;
    if (!how_.suggest || results_.functions.size() > few) return {};
    const std::string plain_name = symbols::without_wildcards(request);
    NearestNames names;
    for (std::size_t i = 0; i < targets_.files.size() && i < few; ++i) {
      const auto target = Target::open(targets_.files[i], targets_.text, where_);
      if (!target || target->image() == nullptr) continue;
      for (const std::string& name : symbols::nearest_names(*target->image(), plain_name))
        names.offer(0, name); // nearest first in each file
    }
    return std::move(names).take();
  }

  const Targets& targets_;
  std::span<const std::string_view> functions_;
  const TargetOptions& where_;
  ResolveOptions how_;
  ResolveOptions quick_; // exact names, without suggestions
  ResolveResults results_;
  bool warned_misplaced_ = false;            // for the current file
  std::vector<std::size_t> importing_files_; // files, for each FUNCTION
  std::vector<std::size_t> stripped_files_;  // files without .symtab, for each FUNCTION
};

} // namespace

Result<VisitSummary> visit_targets(const Targets& targets, const TargetOptions& options,
                                   const std::function<void(Target&)>& visit) {
  const archive::KeptInnerArchive kept; // several files may be entries of one
  VisitSummary visited{.files = 0, .warnings = targets.warnings};
  std::optional<Error> first_error;
  std::vector<std::string> compressed;
  for (const TargetFile& file : targets.files) {
    auto target = Target::open(file, targets.text, options);
    if (target && targets.several && target->architecture_mismatch())
      target = fail(*target->architecture_mismatch());
    if (target) {
      ++visited.files;
      visit(*target);
      // The points keep the file open, but the debug information of many would not fit into memory.
      if (const auto& opened = target->binary().contents; opened && targets.files.size() > 1)
        opened->close_debug_info();
      continue;
    }
    if (!first_error) first_error = target.error();
    if (target.error().kind == ErrorKind::compressed)
      compressed.push_back(file.display_path.entry.value_or(file.display_path.file));
    else
      visited.warnings.push_back("skipped: " + target.error().message);
  }
  if (visited.files == 0) return fail(no_usable_file(targets, std::move(*first_error)));
  if (!compressed.empty())
    visited.warnings.push_back(
        fmt::format("{}: {} of {} files {} compressed and cannot be probed: {}", targets.text,
                    compressed.size(), targets.files.size(), compressed.size() == 1 ? "is" : "are",
                    first_few(compressed)));
  return visited;
}

Result<ResolveResults> resolve_all(const Targets& targets,
                                   std::span<const std::string_view> functions,
                                   const TargetOptions& target_options,
                                   const ResolveOptions& options) {
  for (const std::string_view function : functions)
    if (auto parsed = parse_function(function); !parsed) return fail(std::move(parsed).error());
  return MultiFileResolver(targets, functions, target_options, options).run();
}

Result<ResolveResults> resolve_all(const Targets& targets, std::span<const std::string> functions,
                                   const TargetOptions& target_options,
                                   const ResolveOptions& options) {
  const std::vector<std::string_view> views(functions.begin(), functions.end());
  return resolve_all(targets, views, target_options, options);
}

Result<ResolveResults> RequestResolver::resolve(const std::string& target,
                                                std::span<const std::string_view> functions) {
  ResolveResults results;
  if (!target_ || target_->text() != target) {
    target_.reset();
    auto targets = find_targets(target, target_options_);
    if (!targets) return fail(std::move(targets).error());
    if (targets->several) return resolve_all(*targets, functions, target_options_, options_);
    auto opened = Target::open(targets->files.front(), target, target_options_);
    if (!opened) return fail(std::move(opened).error());
    target_.emplace(std::move(*opened));
    results.warnings = std::move(targets->warnings);
    std::ranges::copy(target_->warnings(), std::back_inserter(results.warnings));
    if (const auto& mismatch = target_->architecture_mismatch())
      results.warnings.push_back(mismatch->message);
    if (const elf::Image* image = target_->image())
      results.details.push_back(
          fmt::format("{}: {}, {}, build id {}", target, to_string(target_->path()),
                      elf::to_string(image->machine()), image->build_id().value_or("none")));
  }
  results.searched_files = 1;
  target_->resolve_each(functions, options_,
                        [&](std::size_t index, Result<std::vector<ProbePoint>> points) {
                          FunctionResult& result = results.functions.emplace_back(
                              FunctionResult{.request = std::string(functions[index])});
                          if (points)
                            result.points = std::move(*points);
                          else
                            result.errors.push_back(std::move(points).error());
                          result.files = result.errors.empty() ? 1 : 0;
                        });
  if (auto whole = check_size(*target_->file()); !whole) return fail(std::move(whole).error());
  add_symbol_sources(*target_, results);
  return results;
}

} // namespace uprobectl::resolve
