// SPDX-License-Identifier: Apache-2.0
#include "symbol_listing.hpp"

#include "art/name_mapping.hpp"
#include "output/output.hpp"
#include "symbols/list.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <unordered_map>

namespace uprobectl::cli {

namespace {

constexpr std::array all_kinds = {symbols::SymbolKind::function, symbols::SymbolKind::ifunc,
                                  symbols::SymbolKind::label,    symbols::SymbolKind::method,
                                  symbols::SymbolKind::plt,      symbols::SymbolKind::import,
                                  symbols::SymbolKind::object};

std::vector<symbols::SymbolKind> parse_kinds(const std::vector<std::string>& lists) {
  std::vector<symbols::SymbolKind> kinds;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (!list.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      const auto name = rest.substr(0, comma);
      const auto kind =
          std::ranges::find(all_kinds, name, [](symbols::SymbolKind k) { return to_string(k); });
      if (kind != all_kinds.end()) kinds.push_back(*kind); // the parser has checked it
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
  const auto value = parse_number<std::uint64_t>(text, hexadecimal ? 16 : 10);
  if (!value)
    return fail(ErrorKind::usage,
                "invalid value '" + typed + "' for --min-size (expected a number of bytes)");
  return *value;
}

// Lists the other names at each address. Each of N names has N - 1 others, so a record lists at
// most 64 and counts the rest. The lists of addresses with more names are cached.
class AliasLists {
public:
  using AllNames = std::function<std::vector<std::string>(VirtualAddress address)>;
  explicit AliasLists(AllNames all_names) : all_names_(std::move(all_names)) {}

  // is_joined: the line shows all names of its address (--fold), so all aliases are listed.
  void fill(output::SymbolRecord& record, bool is_joined) {
    constexpr std::size_t max_listed = 64;
    record.aliases.emplace();
    if (!record.symbol.defined) return;
    std::vector<std::string> few;
    const std::vector<std::string>& names = names_at(record.symbol.address, max_listed, few);
    for (const std::string& name : names) {
      if (name == record.symbol.name) continue;
      if (!is_joined && record.aliases->size() == max_listed) break;
      record.aliases->push_back(name);
    }
    const std::size_t others = names.empty() ? 0 : names.size() - 1;
    record.aliases_left_out = others - std::min(others, record.aliases->size());
  }

private:
  const std::vector<std::string>& names_at(VirtualAddress address, std::size_t most,
                                           std::vector<std::string>& few) {
    const auto known = many_.find(address.value);
    if (known != many_.end()) return known->second;
    few = all_names_(address);
    if (few.size() <= most) return few;
    return many_[address.value] = std::move(few);
  }

  AllNames all_names_;
  std::unordered_map<std::uint64_t, std::vector<std::string>> many_;
};

// The symbols of one line, as indexes into the list: the first one names the line, the others are
// folded into it.
struct ListedLine {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};
// symbol: the first one of the line.
using LineVisitor = std::function<void(ListedLine, const elf::Symbol& symbol,
                                       std::optional<std::string_view> demangled)>;

// Reads the first symbol of each line in order and prefetches those of the next lines.
class LineReader {
public:
  LineReader(const symbols::SymbolList& symbols, std::span<const ListedLine> lines)
      : symbols_(symbols), lines_(lines) {}

  elf::Symbol next() {
    constexpr std::size_t ahead = 16;
    if (next_ + ahead < lines_.size()) prefetch(symbols_, lines_[next_ + ahead].first);
    return symbols_[lines_[next_++].first];
  }

private:
  const symbols::SymbolList& symbols_;
  std::span<const ListedLine> lines_;
  std::size_t next_ = 0;
};

// Splits the symbols into lines. Undefined symbols are never folded: all imports have address 0.
std::vector<ListedLine> lines_of(const symbols::SymbolList& symbols, bool fold) {
  std::vector<ListedLine> lines;
  if (!fold) lines.reserve(symbols.size());
  const auto are_joined = [&](std::size_t a, std::size_t b) {
    return fold && symbols.address(a) == symbols.address(b) && symbols[a].defined &&
           symbols[b].defined;
  };
  for (std::uint32_t index = 0; index < symbols.size(); ++index) {
    if (!lines.empty() && are_joined(lines.back().first, index))
      ++lines.back().count;
    else
      lines.push_back({index});
  }
  return lines;
}

// Returns the demangled names of the first symbols. `lines` and `symbols` must outlive it.
symbols::DemangledNames demangled_names(const symbols::SymbolList& symbols,
                                        std::span<const ListedLine> lines) {
  return {lines.size(), [&symbols, lines](std::size_t index) {
            constexpr std::size_t ahead = 8;
            if (index + ahead < lines.size()) prefetch(symbols, lines[index + ahead].first);
            return symbols.name(lines[index].first);
          }};
}

void visit_in_turn(const symbols::SymbolList& symbols, std::span<const ListedLine> lines,
                   const LineVisitor& visit) {
  symbols::DemangledNames demangled = demangled_names(symbols, lines);
  LineReader reader(symbols, lines);
  for (const ListedLine line : lines) visit(line, reader.next(), demangled.next());
}

// Sorts by size, largest first; stable.
void sort_by_size(const symbols::SymbolList& symbols, std::span<ListedLine> lines) {
  struct SizedLine {
    std::uint64_t size = 0; // bytes
    ListedLine line;
  };
  std::vector<SizedLine> sized;
  sized.reserve(lines.size());
  LineReader reader(symbols, lines);
  for (const ListedLine line : lines) sized.push_back({reader.next().size, line});
  std::ranges::sort(sized, [](const SizedLine& a, const SizedLine& b) {
    return std::tie(b.size, a.line.first) < std::tie(a.size, b.line.first);
  });
  std::ranges::transform(sized, lines.begin(), &SizedLine::line);
}

// A line and its sort key: the name as shown, demangled. The index keeps the order of equal names.
struct NamedLine {
  std::string name;
  ListedLine line;

  bool operator<(const NamedLine& other) const {
    const int order = name.compare(other.name);
    return order != 0 ? order < 0 : line.first < other.line.first;
  }
};

using Run = std::span<const ListedLine>;

// Sorts each run by name, holding the names of one run at a time.
std::vector<Run> sort_runs_by_name(const symbols::SymbolList& symbols,
                                   std::span<ListedLine> lines) {
  constexpr std::size_t run_text = 512 << 10; // bytes
  symbols::DemangledNames demangled = demangled_names(symbols, lines);
  LineReader reader(symbols, lines);
  std::vector<Run> runs;
  std::vector<NamedLine> named;
  std::size_t text = 0;
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= lines.size(); ++end) {
    const elf::Symbol symbol = reader.next();
    std::string name(demangled.next().value_or(symbol.name));
    name += symbols::display_suffix(symbol);
    text += name.size();
    named.push_back({std::move(name), lines[end - 1]});
    if (text < run_text && end < lines.size()) continue;
    std::sort(named.begin(), named.end());
    std::ranges::transform(named, lines.begin() + static_cast<std::ptrdiff_t>(begin),
                           &NamedLine::line);
    runs.emplace_back(lines.subspan(begin, end - begin));
    named.clear();
    text = 0;
    begin = end;
  }
  return runs;
}

// A merge sort by name. All demangled names of 66,000 functions would take 34 MB, so sorted runs
// are merged and each name is demangled twice.
void visit_by_name(const symbols::SymbolList& symbols, std::span<ListedLine> lines,
                   const LineVisitor& visit) {
  std::vector<Run> rests = sort_runs_by_name(symbols, lines);
  struct Head {
    NamedLine next;
    elf::Symbol symbol;
    Run* rest;
  };
  const auto head_of = [&](Run& run) {
    const ListedLine line = run.front();
    run = run.subspan(1);
    const elf::Symbol symbol = symbols[line.first];
    return Head{{symbols::display_name(symbol), line}, symbol, &run};
  };
  const auto comes_later = [](const Head& a, const Head& b) { return b.next < a.next; };
  std::vector<Head> heads; // a heap, the first name in front
  for (Run& run : rests) heads.push_back(head_of(run));
  std::make_heap(heads.begin(), heads.end(), comes_later);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), comes_later);
    const auto& [next, symbol, run] = heads.back();
    const std::size_t size = next.name.size() - symbols::display_suffix(symbol).size();
    visit(next.line, symbol, std::string_view(next.name).substr(0, size));
    Run& rest = *run;
    heads.pop_back();
    if (rest.empty()) continue;
    heads.push_back(head_of(rest));
    std::push_heap(heads.begin(), heads.end(), comes_later);
  }
}

struct ListedMethod {
  elf::Symbol symbol; // without a name
  std::string signature;
  std::optional<std::string> source; // its name in the source, if it was renamed

  const std::string& shown() const { return source ? *source : signature; }
  elf::Symbol named(std::string_view name) const {
    elf::Symbol own = symbol;
    own.name = name;
    return own;
  }
};

// Whether the method matches one of the patterns, or there are none. Removes patterns that match
// from `unmatched`.
bool passes_patterns(std::string_view signature, std::span<const std::string> patterns,
                     std::vector<std::string>& unmatched) {
  std::erase_if(unmatched, [&](const std::string& pattern) {
    return resolve::matches_method(pattern, signature);
  });
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return resolve::matches_method(pattern, signature);
         });
}

// Visits the methods that pass the filter in groups. If the order is by offset, a group has the
// methods of one address, so that few names are in memory; else one group has all methods.
void for_each_group(const MethodListing& listing, std::vector<std::string>& unmatched,
                    const std::function<void(std::vector<ListedMethod>&)>& visit) {
  const symbols::SymbolFilter& filter = listing.filter.symbols;
  std::vector<ListedMethod> group;
  for (const art::Method& method : listing.oat.compiled()) {
    const bool continues = group.empty() || listing.filter.order != ListOrder::offset ||
                           group.front().symbol.address == method.code;
    if (!continues) {
      visit(group);
      group.clear();
    }
    const elf::Symbol symbol = art::method_symbol(listing.oat, method, {});
    if (symbol.size < filter.min_size) continue;
    std::string text = to_string(listing.oat.signature(method));
    auto source = art::source_name(listing.oat, text);
    if (passes_patterns(source ? *source : text, filter.patterns, unmatched))
      group.push_back({symbol, std::move(text), std::move(source)});
  }
  visit(group);
}

// Sorts the methods. With --fold, methods of the same address become adjacent.
void sort(std::vector<ListedMethod>& methods, const ListFilter& filter) {
  const auto order = filter.fold ? ListOrder::offset : filter.order;
  std::ranges::sort(methods, [order](const ListedMethod& a, const ListedMethod& b) {
    if (order == ListOrder::size && a.symbol.size != b.symbol.size)
      return a.symbol.size > b.symbol.size;
    if (order == ListOrder::name && a.shown() != b.shown()) return a.shown() < b.shown();
    return std::tie(a.symbol.address, a.signature) < std::tie(b.symbol.address, b.signature);
  });
}

// The methods of one line: one method, or all of one address.
using Line = std::span<const ListedMethod>;

std::vector<Line> lines_of(std::span<const ListedMethod> methods, const ListFilter& filter) {
  std::vector<Line> lines;
  for (std::size_t begin = 0, end = 0; begin < methods.size(); begin = end) {
    end = begin + 1;
    while (filter.fold && end < methods.size() &&
           methods[end].symbol.address == methods[begin].symbol.address)
      ++end;
    lines.push_back(methods.subspan(begin, end - begin));
  }
  if (!filter.fold || filter.order == ListOrder::offset) return lines;
  std::ranges::sort(lines, [&](const Line& a, const Line& b) {
    if (filter.order == ListOrder::size && a.front().symbol.size != b.front().symbol.size)
      return a.front().symbol.size > b.front().symbol.size;
    return a.front().shown() < b.front().shown();
  });
  return lines;
}

} // namespace

void bind_list_options(OptionParser& parser, ListOptions& options) {
  parser.bind("--imports", options.imports);
  parser.bind("--kind", options.kinds);
  parser.bind("--sort", options.sort);
  parser.bind("--min-size", options.min_size, parse_size);
  parser.bind("--fold", options.fold);
  parser.bind("--aliases", options.aliases);
  parser.bind("--check", options.check);
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

void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const symbols::SymbolList& symbols, const ListFilter& filter,
                     const std::function<void(const output::SymbolRecord&)>& visit) {
  // Aliases include names that no PATTERN matches.
  const bool with_aliases = filter.fold || filter.aliases;
  const symbols::SymbolFilter& chosen = filter.symbols;
  const bool is_all = chosen.patterns.empty() && chosen.min_size == 0 && !chosen.imports;
  Result<symbols::SymbolList> others;
  if (with_aliases && !is_all) others = symbols::list_symbols(image, {.kinds = chosen.kinds});
  const symbols::SymbolList none;
  const symbols::SymbolList& all = is_all ? symbols : others ? *others : none;

  AliasLists aliases([&all](VirtualAddress address) { return all.aliases(address, {}); });
  std::vector<elf::Symbol> folded;
  const LineVisitor visit_line = [&](ListedLine line, const elf::Symbol& symbol,
                                     std::optional<std::string_view> demangled) {
    output::SymbolRecord record{&image, target, real_path, symbol, demangled};
    folded.clear();
    for (std::uint32_t i = 1; i < line.count; ++i) folded.push_back(symbols[line.first + i]);
    record.folded = folded;
    if (with_aliases) aliases.fill(record, filter.fold);
    visit(record);
  };
  auto lines = lines_of(symbols, filter.fold);
  if (filter.order == ListOrder::name) {
    visit_by_name(symbols, lines, visit_line);
    return;
  }
  if (filter.order == ListOrder::size) sort_by_size(symbols, lines);
  visit_in_turn(symbols, lines, visit_line);
}

bool includes_methods(const symbols::SymbolFilter& filter) {
  return !filter.imports &&
         (filter.kinds.empty() ||
          std::ranges::find(filter.kinds, symbols::SymbolKind::method) != filter.kinds.end());
}

bool includes_only_methods(const symbols::SymbolFilter& filter) {
  return includes_methods(filter) &&
         std::ranges::all_of(filter.kinds, [](symbols::SymbolKind kind) {
           return kind == symbols::SymbolKind::method;
         });
}

std::size_t for_each_method(const MethodListing& listing, std::vector<std::string>& unmatched,
                            const std::function<void(const output::SymbolRecord&)>& visit) {
  std::size_t count = 0;
  AliasLists aliases(
      [&](VirtualAddress address) { return resolve::other_methods_at(listing.oat, address, {}); });
  std::vector<elf::Symbol> folded;
  for_each_group(listing, unmatched, [&](std::vector<ListedMethod>& methods) {
    sort(methods, listing.filter);
    count += methods.size();
    for (const Line& line : lines_of(methods, listing.filter)) {
      const ListedMethod& own = line.front();
      output::SymbolRecord record{&listing.image, listing.target, listing.real_path,
                                  own.named(own.signature)};
      if (own.source) record.demangled = *own.source;
      folded.clear();
      for (const ListedMethod& other : line.subspan(1))
        folded.push_back(other.named(other.shown()));
      record.folded = folded;
      if (listing.filter.fold || listing.filter.aliases) aliases.fill(record, listing.filter.fold);
      visit(record);
    }
  });
  return count;
}

} // namespace uprobectl::cli
