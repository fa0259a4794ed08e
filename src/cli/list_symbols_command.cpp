#include "commands.hpp"
#include "listing.hpp"
#include "numbers.hpp"

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
  list(*request, **console);
  return (*console)->finish();
}

} // namespace uprobectl::cli
