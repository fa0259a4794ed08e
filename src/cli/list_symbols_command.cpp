// SPDX-License-Identifier: Apache-2.0
// The subcommand list-symbols: symbols of one or several files, or the libraries of an archive.
#include "console.hpp"
#include "debuginfod.hpp"
#include "page_check.hpp"
#include "requests.hpp"
#include "resolve/archive_listing.hpp"
#include "symbol_listing.hpp"
#include "target_options.hpp"
#include "util/mapped_file.hpp"
#include "util/spelling.hpp"

#include <algorithm>

namespace uprobectl::cli {

namespace {

struct ListRequest {
  ListRequest(const Requests::Line& words, const resolve::TargetOptions& where,
              const ListFilter& what)
      : line(words), target(words.target), patterns(words.functions.begin(), words.functions.end()),
        options(where), filter(what) {}

  const Requests::Line& line;
  const std::string& target;
  std::vector<std::string> patterns;
  const resolve::TargetOptions& options;
  const ListFilter& filter;
};

Error nothing_matches(const std::string& target, const std::string& pattern,
                      const std::vector<std::string>& near) {
  const std::string what =
      symbols::is_pattern(pattern) ? ": no function matches '" : ": no function '";
  Error error{ErrorKind::not_found, target + what + pattern + "'"};
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

bool is_default(const symbols::SymbolFilter& filter) {
  return !filter.imports && filter.kinds.empty() && filter.min_size == 0;
}

std::vector<std::string> symbol_names(const elf::Image& image, symbols::SymbolFilter filter) {
  filter.patterns.clear();
  std::vector<std::string> names;
  const auto symbols = list_symbols(image, filter);
  if (!symbols) return names;
  for (const elf::Symbol& symbol : *symbols) names.emplace_back(symbol.name);
  return names;
}

// Lists the symbols of the files of a TARGET, one file after the other.
class SymbolListing {
public:
  // names_files: each symbol has its file.
  SymbolListing(const ListRequest& request, const resolve::Targets& targets, bool names_files,
                output::Output& output)
      : request_(request), targets_(targets), names_files_(names_files), output_(output),
        unmatched_(request.patterns), filter_(request.filter) {
    filter_.symbols.patterns = request.patterns;
  }

  void add(const resolve::Target& target) {
    added_ = true;
    const elf::Image& image = *target.image();
    const std::string subject =
        targets_.several ? to_string(target.display_path()) : request_.target;
    if (add_methods(target, subject) && includes_only_methods(filter_.symbols)) return;
    const auto symbols = list_symbols(image, filter_.symbols);
    if (!symbols) {
      output_.fail(Error(symbols.error()).within(subject), request_.target);
      return;
    }
    const auto real_path = target.file()->real_path();
    if (!real_path) {
      output_.fail(real_path.error(), request_.target);
      return;
    }
    for_each_record(image, names_files_ ? std::string_view(subject) : std::string_view(),
                    *real_path, *symbols, filter_,
                    [&](const output::SymbolRecord& record) { output_.write(record); });
    std::erase_if(unmatched_, [&](const std::string& pattern) {
      return has_matches(pattern, image, *symbols);
    });
    const auto damage = image.symbol_damage();
    for (const std::string& each : damage) output_.warn_once(subject + ": " + each);
    if (!request_.patterns.empty() || !symbols->empty() || !damage.empty()) return;
    output_.warn_once(subject + (is_default(filter_.symbols)
                                     ? ": no function symbols: name functions by address: vaddr:0x…"
                                     : ": no symbols of this kind or size"));
  }

  // Reports each PATTERN that matched in none of the files once.
  void finish() {
    if (!added_) return;
    for (const std::string& pattern : unmatched_)
      output_.fail(explain_line(nothing_matches(request_.target, pattern, near(pattern)),
                                request_.line, pattern, WordKind::patterns),
                   request_.target, pattern);
  }

private:
  // Lists the methods of an OAT file. Returns false if there are none, with a warning if it is an
  // OAT file.
  bool add_methods(const resolve::Target& target, const std::string& subject) {
    const auto* const methods = target.java_methods();
    if (methods == nullptr || !includes_methods(filter_.symbols)) return false;
    if (!*methods) {
      output_.warn_once(Error(methods->error()).within(subject).message +
                        ": listing its symbols instead");
      return false;
    }
    const art::OatFile& oat = **methods;
    if (!oat.has_code()) {
      output_.warn_once(subject + ": no compiled methods in this file" +
                        resolve::compiler_filter_note(oat));
      return true;
    }
    if (const auto missing = target.missing_dex()) {
      output_.warn_once(missing->message);
      for (const std::string& hint : missing->hints) output_.detail(hint);
    }
    for (const std::string& warning :
         {resolve::newer_version_warning(subject, oat), resolve::r8_mapping_warning(subject, oat)})
      if (!warning.empty()) output_.warn_once(warning);
    if (!oat.dex_files().empty() && std::ranges::none_of(oat.dex_files(), [](const auto& dex) {
          return dex.source.has_value();
        }))
      return false;
    const auto real_path = target.file()->real_path();
    if (!real_path) return false; // reported when the symbols are listed
    const auto count = for_each_method(
        {*target.image(), oat, names_files_ ? std::string_view(subject) : std::string_view(),
         *real_path, filter_},
        unmatched_, [&](const output::SymbolRecord& record) { output_.write(record); });
    if (count == 0 && oat.has_all_dex_files() && oat.compiled().empty())
      output_.warn_once(subject + ": no compiled methods in this file" +
                        resolve::compiler_filter_note(oat));
    return true;
  }

  // Whether the pattern matches any symbol, without the other patterns.
  bool has_matches(const std::string& pattern, const elf::Image& image,
                   const symbols::SymbolList& listed) const {
    const auto names_it = [&](const elf::Symbol& symbol) {
      return symbols::matches_pattern(pattern, symbol.name);
    };
    if (std::ranges::any_of(listed, names_it)) return true;
    symbols::SymbolFilter alone = filter_.symbols;
    alone.patterns = {pattern};
    const auto matching = list_symbols(image, alone);
    return matching && !matching->empty();
  }

  // Returns similar names, from the first few files only.
  std::vector<std::string> near(const std::string& pattern) const {
    constexpr std::size_t few = 8;
    const std::string wanted = symbols::without_wildcards(pattern);
    NearestNames names;
    for (std::size_t i = 0; i < targets_.files.size() && i < few; ++i) {
      auto target = resolve::Target::open(targets_.files[i], targets_.text, request_.options);
      if (!target || target->image() == nullptr) continue;
      target->complete_symbols();
      const elf::Image& image = *target->image();
      for (const std::string& name : is_default(filter_.symbols)
                                         ? symbols::nearest_names(image, wanted)
                                         : nearest(wanted, symbol_names(image, filter_.symbols)))
        names.offer(0, name); // nearest first in each file
    }
    return std::move(names).take();
  }

  const ListRequest& request_;
  const resolve::Targets& targets_;
  bool names_files_;
  output::Output& output_;
  std::vector<std::string> unmatched_; // PATTERNs that no file so far has matched
  ListFilter filter_;                  // with the PATTERNs
  bool added_ = false;
};

void list_libraries(const ListRequest& request, const resolve::Target& target,
                    output::Output& output) {
  const auto libraries = target.libraries();
  const auto real_path = target.file()->real_path();
  if (!libraries || !real_path) {
    output.fail(libraries ? real_path.error() : libraries.error(), request.target);
    return;
  }
  std::vector<bool> matched(request.patterns.size(), false);
  for (const resolve::ArchiveLibrary& library : *libraries) {
    bool wanted = request.patterns.empty();
    for (std::size_t i = 0; i < request.patterns.size(); ++i) {
      if (!symbols::matches_pattern(request.patterns[i], library.entry)) continue;
      matched[i] = true;
      wanted = true;
    }
    if (!wanted) continue;
    output.write(output::LibraryRecord{
        *real_path, library,
        resolve::split_nested_entry(target.file().get(), library.entry).container});
  }
  std::vector<std::string> entries;
  for (const resolve::ArchiveLibrary& library : *libraries) entries.push_back(library.entry);
  for (std::size_t i = 0; i < matched.size(); ++i) {
    if (matched[i]) continue;
    const std::string& pattern = request.patterns[i];
    Error error{ErrorKind::not_found, request.target + ": no library matches '" + pattern + "'"};
    const auto near = nearest(symbols::without_wildcards(pattern), entries);
    if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
    error = std::move(error).hint("patterns match whole entry names; list the functions of a "
                                  "library with: ARCHIVE!/ENTRY");
    output.fail(error, request.target, pattern);
  }
  if (libraries->empty()) output.warn_once(request.target + ": the archive contains no libraries");
}

// `several`: the command has several requests.
void list(const ListRequest& request, bool several, output::Output& output) {
  const auto targets =
      find_files(request.line, request.patterns.empty() ? "" : request.patterns.front(),
                 WordKind::patterns, request.options, output);
  if (!targets) return;
  SymbolListing listing(request, *targets, several || targets->several, output);
  const bool visited = visit_files(*targets, request.options, output, [&](resolve::Target& target) {
    if (!includes_only_methods(request.filter.symbols) || target.java_methods() == nullptr ||
        !*target.java_methods() || target.missing_dex())
      target.complete_symbols();
    report_debug_files(target, output);
    if (target.image() != nullptr)
      listing.add(target);
    else
      list_libraries(request, target, output);
  });
  if (visited) listing.finish();
}

ExitCode check_targets(const OptionParser& parser, const CommonOptions& options,
                       std::span<const std::string> targets, TargetArguments&& where) {
  if (targets.empty()) return finish_with(parser.usage_error("a TARGET is missing"), options);
  const auto found_by = make_target_options(parser, std::move(where), *options.workstation);
  if (!found_by) return finish_with(found_by.error(), options);
  for (const std::string& target : targets)
    if (const auto checked = check_target(parser, target, *found_by); !checked)
      return finish_with(checked.error(), options);
  const auto output = open_output(options);
  if (!output) return finish_with(output.error(), options);
  const bool is_ready = check_page_sizes(targets, *found_by, **output);
  const ExitCode written = finish(**output);
  return is_ready ? written : ExitCode::failed;
}

} // namespace

ExitCode run_list_symbols(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("list-symbols");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  ListOptions listing;
  bind_list_options(parser, listing);
  TargetArguments where;
  bind_target_options(parser, where, options);
  parser.bind("--everywhere", where.everywhere);
  bind_dex_options(parser, where.dex);
  bind_oatdump_option(parser, where.oatdump);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (listing.check) return check_targets(parser, options, parsed->words(), std::move(where));
  const ListFilter filter = make_filter(listing);
  const bool compiles = where.dex.compile;
  return run_listing(
      parser, options, *parsed, WordKind::patterns, std::move(where),
      [&](std::span<const Requests::Line> lines, const resolve::TargetOptions& found_by,
          const DebugFetching& /*fetching*/, output::Output& output) {
        if (compiles)
          if (auto compiled = compile_methods(*found_by.app, found_by.dex, output); !compiled)
            return output.fail(compiled.error());
        for (const Requests::Line& line : lines)
          list({line, found_by, filter}, lines.size() > 1, output);
      });
}

} // namespace uprobectl::cli
