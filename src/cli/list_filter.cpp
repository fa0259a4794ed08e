#include "list_filter.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace uprobectl::cli {

namespace {

constexpr std::array all_kinds = {SymbolKind::function, SymbolKind::ifunc, SymbolKind::label,
                                  SymbolKind::method,   SymbolKind::plt,   SymbolKind::import,
                                  SymbolKind::object};

Result<std::vector<SymbolKind>> parse_kinds(const OptionParser& parser,
                                            const std::vector<std::string>& lists) {
  std::vector<SymbolKind> kinds;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (true) {
      const auto comma = std::min(rest.find(','), rest.size());
      const auto name = rest.substr(0, comma);
      const auto kind =
          std::ranges::find(all_kinds, name, [](SymbolKind k) { return to_string(k); });
      if (kind == all_kinds.end())
        return fail(parser.usage_error("'" + std::string(name) +
                                       "' is no --kind, it is function, ifunc, label, method, plt, "
                                       "import or object"));
      kinds.push_back(*kind);
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return kinds;
}

std::optional<ListOrder> parse_order(std::string_view name) {
  if (name == "offset") return ListOrder::offset;
  if (name == "name") return ListOrder::name;
  if (name == "size") return ListOrder::size;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

} // namespace

void add_list_options(OptionParser& parser, ListOptions& options) {
  parser.flag("--imports", options.imports, "functions of other files that this one uses");
  parser.texts("--kind", options.kinds, "KIND[,KIND]",
               "function, ifunc, label, method (the default are these), plt, import, object");
  parser.text("--sort", options.sort, "ORDER", "by offset (default), name, or size, largest first");
  parser.text("--min-size", options.min_size, "N", "only symbols of at least N bytes");
  parser.flag("--fold", options.fold, "one line per offset, its names joined by ' = '");
  parser.flag("--aliases", options.aliases, "fill in 'aliases' of JSON records");
}

Result<ListFilter> make_filter(const OptionParser& parser, const ListOptions& options) {
  ListFilter filter;
  auto kinds = parse_kinds(parser, options.kinds);
  if (!kinds) return fail(std::move(kinds).error());
  filter.symbols.kinds = std::move(*kinds);
  filter.symbols.imports = options.imports;
  const std::string order = options.sort.value_or("offset");
  const auto parsed_order = parse_order(order);
  if (!parsed_order)
    return fail(parser.usage_error("'" + order + "' is no --sort, it is name, offset or size"));
  filter.order = *parsed_order;
  if (options.min_size) {
    const auto size = parse_size(*options.min_size);
    if (!size) return fail(parser.usage_error("'" + *options.min_size + "' is no number of bytes"));
    filter.symbols.min_size = *size;
  }
  filter.fold = options.fold;
  filter.aliases = options.aliases;
  return filter;
}

} // namespace uprobectl::cli
