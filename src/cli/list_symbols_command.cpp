#include "commands.hpp"
#include "listing.hpp"
#include "target_options.hpp"

namespace uprobectl::cli {

namespace {

Result<ListRequest> make_list_request(const OptionParser& parser, const Arguments& arguments) {
  auto words = arguments.words();
  if (words.empty()) return fail(parser.usage_error("a TARGET is missing"));
  ListRequest request{.target = std::move(words.front()), .patterns = {}, .options = {}};
  request.patterns.assign(std::make_move_iterator(words.begin() + 1),
                          std::make_move_iterator(words.end()));
  return request;
}

} // namespace

ExitCode run_list_symbols(std::span<const std::string_view> arguments) {
  OptionParser parser(
      {.command = "list-symbols",
       .usage = "list-symbols [options] TARGET [PATTERN…]",
       .description = "Prints OFFSET ADDRESS SIZE BIND KIND NAME of every function, or OFFSET SIZE "
                      "COMPRESSION\nALIGNMENT MACHINE PROBEABLE ENTRY [REASON] of every library of "
                      "an archive.\n"
                      "TARGET: FILE, ARCHIVE, ARCHIVE!/ENTRY (the entry may be a pattern), or the "
                      "name of a library\nor program.\n"
                      "PATTERN: *, ?, [ab] on raw and demangled names.",
       .examples = "  uprobectl list-symbols libc.so.6 '*alloc*'\n"
                   "  uprobectl list-symbols --json libc.so.6 'pthread_*' 'mem*'\n"});
  CommonOptions options;
  add_common_options(parser, options);
  ListOptions listing;
  add_list_options(parser, listing);
  TargetWords where;
  add_target_options(parser, where);
  add_dex_options(parser, where.dex);
  add_oatdump_option(parser, where.oatdump);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  auto request = make_list_request(parser, *parsed);
  if (!request) return finish_with(request.error(), options);
  auto target_options = make_target_options(parser, std::move(where));
  if (!target_options) return finish_with(target_options.error(), options);
  if (const auto checked = check_target(parser, request->target, *target_options); !checked)
    return finish_with(checked.error(), options);
  request->options = std::move(*target_options);
  auto filter = make_filter(parser, listing);
  if (!filter) return finish_with(filter.error(), options);
  request->filter = std::move(*filter);
  const auto console = Console::open(options);
  if (!console) return finish_with(console.error(), options);
  list(*request, **console);
  return (*console)->finish();
}

} // namespace uprobectl::cli
