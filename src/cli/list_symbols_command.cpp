#include "commands.hpp"
#include "console.hpp"
#include "list_filter.hpp"
#include "numbers.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/spelling.hpp"

#include <algorithm>

namespace uprobectl::cli {

namespace {

struct ListRequest {
  std::string target;
  std::vector<std::string> patterns;
  TargetOptions options;
  ListFilter filter = {};
};

Result<ListRequest> make_list_request(const OptionParser& parser, const Arguments& arguments) {
  auto words = arguments.words();
  if (words.empty()) return fail(parser.usage_error("a TARGET is missing"));
  ListRequest request{.target = std::move(words.front()), .patterns = {}, .options = {}};
  request.patterns.assign(std::make_move_iterator(words.begin() + 1),
                          std::make_move_iterator(words.end()));
  return request;
}

// Whether a pattern has a share in what all patterns together have listed.
bool has_matches(const std::string& pattern, const elf::Image& image, SymbolFilter filter,
                 const std::vector<elf::Symbol>& listed) {
  const auto names_it = [&](const elf::Symbol& symbol) {
    return matches_pattern(pattern, symbol.name);
  };
  if (std::ranges::any_of(listed, names_it)) return true;
  filter.patterns = {pattern};
  const auto alone = list_symbols(image, filter);
  return alone && !alone->empty();
}

Error nothing_matches(const std::string& target, const std::string& pattern,
                      std::vector<std::string> near) {
  const std::string what = is_pattern(pattern) ? ": no function matches '" : ": no function '";
  Error error{ErrorKind::not_found, target + what + pattern + "'"};
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

std::string without_wildcards(std::string pattern) {
  std::erase_if(pattern, [](char c) { return c == '*' || c == '?' || c == '[' || c == ']'; });
  return pattern;
}

bool is_default(const SymbolFilter& filter) {
  return !filter.imports && filter.kinds.empty() && filter.min_size == 0;
}

std::vector<std::string> names_of(const elf::Image& image, SymbolFilter filter) {
  filter.patterns.clear();
  std::vector<std::string> names;
  const auto symbols = list_symbols(image, filter);
  if (!symbols) return names;
  for (const elf::Symbol& symbol : *symbols) names.emplace_back(symbol.name);
  return names;
}

void list_image(const ListRequest& request, const Target& target, Console& console) {
  const elf::Image& image = *target.image();
  SymbolFilter filter = request.filter.symbols;
  filter.patterns = request.patterns;
  const auto symbols = list_symbols(image, filter);
  if (!symbols) {
    console.fail(Error(symbols.error()).within(request.target), request.target);
    return;
  }
  const auto real_path = target.file()->real_path();
  if (!real_path) {
    console.fail(real_path.error(), request.target);
    return;
  }
  for_each_record(image, *real_path, *symbols, request.filter,
                  [&](const SymbolRecord& record) { console.sink().symbol(record); });
  const bool code = is_default(filter);
  for (const std::string& pattern : request.patterns) {
    if (has_matches(pattern, image, filter, *symbols)) continue;
    const auto near = code ? nearest_names(image, without_wildcards(pattern))
                           : nearest(without_wildcards(pattern), names_of(image, filter));
    console.fail(nothing_matches(request.target, pattern, near), request.target, pattern);
  }
  if (!request.patterns.empty() || !symbols->empty()) return;
  console.warn({request.target + (code ? ": it has no function symbols; places can be given as "
                                         "vaddr:0x…"
                                       : ": it has no symbols of this kind or size")});
}

void list_archive(const ListRequest& request, const Target& target, Console& console) {
  const auto libraries = target.libraries();
  const auto real_path = target.file()->real_path();
  if (!libraries || !real_path) {
    console.fail(libraries ? real_path.error() : libraries.error(), request.target);
    return;
  }
  std::vector<bool> matched(request.patterns.size(), false);
  for (const ArchiveLibrary& library : *libraries) {
    bool wanted = request.patterns.empty();
    for (std::size_t i = 0; i < request.patterns.size(); ++i) {
      if (!matches_pattern(request.patterns[i], library.entry)) continue;
      matched[i] = true;
      wanted = true;
    }
    if (wanted) console.sink().library({*real_path, library});
  }
  std::vector<std::string> entries;
  for (const ArchiveLibrary& library : *libraries) entries.push_back(library.entry);
  for (std::size_t i = 0; i < matched.size(); ++i) {
    if (matched[i]) continue;
    const std::string& pattern = request.patterns[i];
    Error error{ErrorKind::not_found,
                request.target + ": no library in it matches '" + pattern + "'"};
    const auto near = nearest(without_wildcards(pattern), entries);
    if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
    error = std::move(error).hint("patterns match whole entry names here; for the functions of a "
                                  "library name it: ARCHIVE!/ENTRY");
    console.fail(error, request.target, pattern);
  }
  if (libraries->empty()) console.warn({request.target + ": the archive holds no libraries"});
}

} // namespace

ExitCode run_list_symbols(const std::vector<std::string>& arguments) {
  OptionParser parser(
      {.command = "list-symbols",
       .usage = "list-symbols [options] TARGET [PATTERN…]",
       .description = "Prints OFFSET ADDRESS SIZE BIND KIND NAME of every function, or OFFSET SIZE "
                      "COMPRESSION\nALIGNMENT MACHINE PROBEABLE ENTRY [REASON] of every library of "
                      "an archive.\n"
                      "PATTERN: *, ?, [ab] on raw and demangled names.",
       .examples = "  uprobectl list-symbols libc.so.6 '*alloc*'\n"
                   "  uprobectl list-symbols --json libc.so.6 'pthread_*' 'mem*'\n"});
  CommonOptions options;
  add_common_options(parser, options);
  ListOptions listing;
  add_list_options(parser, listing);
  TargetOptions target_options;
  add_debug_options(parser, target_options.debug_places);
  add_extracted_option(parser, target_options.extracted);
  std::vector<std::string> pid_lists;
  add_pid_option(parser, pid_lists);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  auto request = make_list_request(parser, *parsed);
  if (!request) return finish_with(request.error(), options);
  auto pids = parse_pids(pid_lists);
  if (!pids) return finish_with(parser.usage_error(pids.error().message), options);
  auto filter = make_filter(parser, listing);
  if (!filter) return finish_with(filter.error(), options);
  request->filter = std::move(*filter);
  const auto console = Console::open(options);
  if (!console) return finish_with(console.error(), options);

  target_options.pids = std::move(*pids);
  request->options = std::move(target_options);
  auto target = Target::open(request->target, request->options);
  if (!target) {
    (*console)->fail(target.error(), request->target);
    return (*console)->finish();
  }
  (*console)->warn(target->warnings());
  target->complete_symbols();
  (*console)->report(*target);
  if (target->image() != nullptr)
    list_image(*request, *target, **console);
  else
    list_archive(*request, *target, **console);
  return (*console)->finish();
}

} // namespace uprobectl::cli
