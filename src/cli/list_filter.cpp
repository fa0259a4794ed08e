#include "list_filter.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

namespace uprobectl::cli {

namespace {

constexpr std::array all_kinds = {SymbolKind::function, SymbolKind::ifunc,  SymbolKind::label,
                                  SymbolKind::plt,      SymbolKind::import, SymbolKind::object};

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
                                       "' is no --kind, it is function, ifunc, label, plt, import "
                                       "or object"));
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

// Symbols without a place come one by one: imports all lie at 0.
std::vector<SymbolRecord> one_a_place(std::vector<SymbolRecord> records) {
  std::vector<SymbolRecord> folded;
  for (SymbolRecord& record : records) {
    const bool joins = !folded.empty() && record.symbol.defined && folded.back().symbol.defined &&
                       folded.back().symbol.address == record.symbol.address;
    if (joins)
      folded.back().folded.push_back(record.symbol);
    else
      folded.push_back(std::move(record));
  }
  return folded;
}

// All names of a place are its aliases, also those that a PATTERN leaves out.
void add_aliases(std::vector<SymbolRecord>& records, const elf::Image& image,
                 const SymbolFilter& filter) {
  const auto all = list_symbols(image, {.kinds = filter.kinds});
  for (SymbolRecord& record : records) {
    record.aliases.emplace();
    if (all && record.symbol.defined)
      record.aliases = alias_names(*all, record.symbol.address, record.symbol.name);
  }
}

template <typename T, typename SymbolOf>
std::vector<std::string_view> raw_names(const std::vector<T>& items, SymbolOf symbol_of) {
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const T& item : items) names.push_back(std::invoke(symbol_of, item).name);
  return names;
}

void sort(std::vector<SymbolRecord>& records, ListOrder order) {
  if (order == ListOrder::offset) return; // they come by address
  if (order == ListOrder::size) {
    // Largest first, equals as they come.
    std::ranges::sort(records, [](const SymbolRecord& left, const SymbolRecord& right) {
      const elf::Symbol& a = left.symbol;
      const elf::Symbol& b = right.symbol;
      return std::tie(b.size, a.address, a.name) < std::tie(a.size, b.address, b.name);
    });
    return;
  }
  // What is shown is what people look for: demangled.
  const auto raw = raw_names(records, &SymbolRecord::symbol);
  DemangledNames demangled(raw);
  std::vector<std::pair<std::string, std::size_t>> names;
  names.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    names.emplace_back(
        std::string(demangled.next().value_or(raw[i])) + display_suffix(records[i].symbol), i);
  std::ranges::sort(names);
  std::vector<SymbolRecord> sorted;
  sorted.reserve(records.size());
  for (const auto& [name, index] : names) sorted.push_back(std::move(records[index]));
  records = std::move(sorted);
}

} // namespace

void add_list_options(OptionParser& parser, ListOptions& options) {
  parser.flag("--imports", options.imports, "functions of other files that this one uses");
  parser.texts("--kind", options.kinds, "KIND[,KIND]",
               "function, ifunc, label (the default are these), plt, import, object");
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

void for_each_record(const elf::Image& image, std::string_view real_path,
                     const std::vector<elf::Symbol>& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit) {
  const bool as_they_come = !filter.fold && !filter.aliases && filter.order == ListOrder::offset;
  std::vector<SymbolRecord> records;
  if (!as_they_come) {
    for (const elf::Symbol& symbol : symbols) records.push_back({&image, {}, real_path, symbol});
    if (filter.fold) records = one_a_place(std::move(records));
    if (filter.fold || filter.aliases) add_aliases(records, image, filter.symbols);
    sort(records, filter.order);
  }
  const auto raw = as_they_come ? raw_names(symbols, std::identity())
                                : raw_names(records, &SymbolRecord::symbol);
  DemangledNames demangled(raw);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    SymbolRecord record =
        as_they_come ? SymbolRecord{&image, {}, real_path, symbols[i]} : std::move(records[i]);
    record.demangled = demangled.next();
    visit(record);
  }
}

} // namespace uprobectl::cli
