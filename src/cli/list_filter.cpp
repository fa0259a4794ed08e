#include "list_filter.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace uprobectl::cli {

namespace {

constexpr std::array all_kinds = {SymbolKind::function, SymbolKind::ifunc, SymbolKind::label,
                                  SymbolKind::method,   SymbolKind::plt,   SymbolKind::import,
                                  SymbolKind::object};

std::vector<SymbolKind> parse_kinds(const std::vector<std::string>& lists) {
  std::vector<SymbolKind> kinds;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (!list.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      const auto name = rest.substr(0, comma);
      const auto kind =
          std::ranges::find(all_kinds, name, [](SymbolKind k) { return to_string(k); });
      kinds.push_back(*kind); // one of the table of options
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return kinds;
}

ListOrder parse_order(std::string_view name) {
  if (name == "name") return ListOrder::name;
  return name == "size" ? ListOrder::size : ListOrder::offset;
}

Result<std::uint64_t> parse_size(const std::string& typed) {
  std::string_view text = typed;
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end)
    return fail(ErrorKind::usage, "'" + typed + "' is no number of bytes");
  return value;
}

} // namespace

void bind_list_options(OptionParser& parser, ListOptions& options) {
  parser.bind("--imports", options.imports);
  parser.bind("--kind", options.kinds);
  parser.bind("--sort", options.sort);
  parser.bind("--min-size", options.min_size, parse_size);
  parser.bind("--fold", options.fold);
  parser.bind("--aliases", options.aliases);
}

ListFilter make_filter(const ListOptions& options) {
  ListFilter filter;
  filter.symbols.kinds = parse_kinds(options.kinds);
  filter.symbols.imports = options.imports;
  filter.order = parse_order(options.sort.value_or("offset"));
  if (options.min_size) filter.symbols.min_size = *options.min_size;
  filter.fold = options.fold;
  filter.aliases = options.aliases;
  return filter;
}

} // namespace uprobectl::cli
