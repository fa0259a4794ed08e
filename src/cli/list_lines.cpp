#include "list_lines.hpp"

#include "alias_lists.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl::cli {

namespace {

// The symbols of one line, as indexes in the list: the first is the line's own, the others are
// joined to it.
struct ListedLine {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};
// symbol: the line's own.
using LineVisitor = std::function<void(ListedLine, const elf::Symbol& symbol,
                                       std::optional<std::string_view> demangled)>;

// Reads the own symbols of lines one after another, and says some lines ahead which will be next.
class LineReader {
public:
  LineReader(const SymbolList& symbols, std::span<const ListedLine> lines)
      : symbols_(symbols), lines_(lines) {}

  elf::Symbol next() {
    constexpr std::size_t ahead = 16;
    if (next_ + ahead < lines_.size()) symbols_.expect(lines_[next_ + ahead].first);
    return symbols_[lines_[next_++].first];
  }

private:
  const SymbolList& symbols_;
  std::span<const ListedLine> lines_;
  std::size_t next_ = 0;
};

// Symbols without a place come one by one: imports all lie at 0.
std::vector<ListedLine> lines_of(const SymbolList& symbols, bool fold) {
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

// The names of the lines' own symbols, demangled; lines and symbols outlive it.
DemangledNames demangled_names(const SymbolList& symbols, std::span<const ListedLine> lines) {
  return {lines.size(), [&symbols, lines](std::size_t index) {
            constexpr std::size_t ahead = 8;
            if (index + ahead < lines.size()) symbols.expect(lines[index + ahead].first);
            return symbols.name(lines[index].first);
          }};
}

void visit_in_turn(const SymbolList& symbols, std::span<const ListedLine> lines,
                   const LineVisitor& visit) {
  DemangledNames demangled = demangled_names(symbols, lines);
  LineReader reader(symbols, lines);
  for (const ListedLine line : lines) visit(line, reader.next(), demangled.next());
}

// Largest first, equals as they come.
void sort_by_size(const SymbolList& symbols, std::span<ListedLine> lines) {
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

// A line and what people look for it by: the name as shown, demangled. Equals as they come.
struct NamedLine {
  std::string name;
  ListedLine line;

  bool operator<(const NamedLine& other) const {
    const int order = name.compare(other.name);
    return order != 0 ? order < 0 : line.first < other.line.first;
  }
};

using Run = std::span<const ListedLine>;

// Sorts by name within runs. The names of one run are held at a time.
std::vector<Run> sort_runs_by_name(const SymbolList& symbols, std::span<ListedLine> lines) {
  constexpr std::size_t run_text = 512 << 10; // bytes
  DemangledNames demangled = demangled_names(symbols, lines);
  LineReader reader(symbols, lines);
  std::vector<Run> runs;
  std::vector<NamedLine> named;
  std::size_t text = 0;
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= lines.size(); ++end) {
    const elf::Symbol symbol = reader.next();
    std::string name(demangled.next().value_or(symbol.name));
    name += display_suffix(symbol);
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

// All names demangled at once would be 34 MB of text for 66,000 functions. So they are sorted in
// runs, which are then merged: each name is demangled twice and soon forgotten.
void visit_by_name(const SymbolList& symbols, std::span<ListedLine> lines,
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
    return Head{{display_name(symbol), line}, symbol, &run};
  };
  const auto comes_later = [](const Head& a, const Head& b) { return b.next < a.next; };
  std::vector<Head> heads; // a heap, the first name in front
  for (Run& run : rests) heads.push_back(head_of(run));
  std::make_heap(heads.begin(), heads.end(), comes_later);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), comes_later);
    const auto& [next, symbol, run] = heads.back();
    const std::size_t size = next.name.size() - display_suffix(symbol).size();
    visit(next.line, symbol, std::string_view(next.name).substr(0, size));
    Run& rest = *run;
    heads.pop_back();
    if (rest.empty()) continue;
    heads.push_back(head_of(rest));
    std::push_heap(heads.begin(), heads.end(), comes_later);
  }
}

} // namespace

void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const SymbolList& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit) {
  // All names of a place are its aliases, also those that a PATTERN leaves out.
  const bool with_aliases = filter.fold || filter.aliases;
  const SymbolFilter& chosen = filter.symbols;
  const bool is_all = chosen.patterns.empty() && chosen.min_size == 0 && !chosen.imports;
  Result<SymbolList> others;
  if (with_aliases && !is_all) others = list_symbols(image, {.kinds = chosen.kinds});
  const SymbolList none;
  const SymbolList& all = is_all ? symbols : others ? *others : none;

  AliasLists aliases([&all](VirtualAddress address) { return all.aliases(address, {}); });
  std::vector<elf::Symbol> folded;
  const LineVisitor visit_line = [&](ListedLine line, const elf::Symbol& symbol,
                                     std::optional<std::string_view> demangled) {
    SymbolRecord record{&image, target, real_path, symbol, demangled};
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

} // namespace uprobectl::cli
