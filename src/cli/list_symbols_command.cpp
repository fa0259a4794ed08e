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
  OptionParser parser("list-symbols");
  CommonOptions options;
  bind_common_options(parser, options);
  ListOptions listing;
  bind_list_options(parser, listing);
  TargetWords where;
  bind_target_options(parser, where);
  bind_dex_options(parser, where.dex);
  bind_oatdump_option(parser, where.oatdump);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  auto request = make_list_request(parser, *parsed);
  if (!request) return finish_with(request.error(), options);
  auto target_options = make_target_options(parser, std::move(where));
  if (!target_options) return finish_with(target_options.error(), options);
  if (const auto checked = check_target(parser, request->target, *target_options); !checked)
    return finish_with(checked.error(), options);
  request->options = std::move(*target_options);
  request->filter = make_filter(listing);
  const auto console = Console::open(options);
  if (!console) return finish_with(console.error(), options);
  list(*request, **console);
  return (*console)->finish();
}

} // namespace uprobectl::cli
