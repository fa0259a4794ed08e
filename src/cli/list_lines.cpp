#include "list_lines.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl::cli {

namespace {

// The symbols of one line: the first is the line's own, the others are joined to it.
using ListedLine = std::span<const elf::Symbol>;
using LineVisitor = std::function<void(ListedLine, std::optional<std::string_view> demangled)>;

// Symbols without a place come one by one: imports all lie at 0.
std::vector<ListedLine> lines_of(ListedLine symbols, bool fold) {
  const auto are_joined = [fold](const elf::Symbol& a, const elf::Symbol& b) {
    return fold && a.defined && b.defined && a.address == b.address;
  };
  std::vector<ListedLine> lines;
  if (!fold) lines.reserve(symbols.size());
  while (!symbols.empty()) {
    std::size_t size = 1;
    while (size < symbols.size() && are_joined(symbols.front(), symbols[size])) ++size;
    lines.push_back(symbols.first(size));
    symbols = symbols.subspan(size);
  }
  return lines;
}

std::vector<std::string_view> raw_names(std::span<const ListedLine> lines) {
  std::vector<std::string_view> names;
  names.reserve(lines.size());
  for (const ListedLine line : lines) names.push_back(line.front().name);
  return names;
}

void visit_in_turn(std::span<const ListedLine> lines, const LineVisitor& visit) {
  const auto raw = raw_names(lines);
  DemangledNames demangled(raw);
  for (const ListedLine line : lines) visit(line, demangled.next());
}

// Largest first, equals as they come.
void sort_by_size(std::span<ListedLine> lines) {
  std::ranges::sort(lines, [](ListedLine left, ListedLine right) {
    const elf::Symbol& a = left.front();
    const elf::Symbol& b = right.front();
    return std::tie(b.size, a.address, a.name) < std::tie(a.size, b.address, b.name);
  });
}

// A line and what people look for it by: the name as shown, demangled. Equals as they come.
struct NamedLine {
  std::string name;
  ListedLine line;

  bool operator<(const NamedLine& other) const {
    const int order = name.compare(other.name);
    return order != 0 ? order < 0 : line.data() < other.line.data();
  }
};

using Run = std::span<const ListedLine>;

// Sorts by name within runs. The names of one run are held at a time.
std::vector<Run> sort_runs_by_name(std::span<ListedLine> lines) {
  constexpr std::size_t run_text = 512 << 10; // bytes
  const auto raw = raw_names(lines);
  DemangledNames demangled(raw);
  std::vector<Run> runs;
  std::vector<NamedLine> named;
  std::size_t text = 0;
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= lines.size(); ++end) {
    const elf::Symbol& symbol = lines[end - 1].front();
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
void visit_by_name(std::span<ListedLine> lines, const LineVisitor& visit) {
  std::vector<Run> rests = sort_runs_by_name(lines);
  struct Head {
    NamedLine next;
    Run* rest;
  };
  const auto head_of = [](Run& run) {
    const ListedLine line = run.front();
    run = run.subspan(1);
    return Head{{display_name(line.front()), line}, &run};
  };
  const auto comes_later = [](const Head& a, const Head& b) { return b.next < a.next; };
  std::vector<Head> heads; // a heap, the first name in front
  for (Run& run : rests) heads.push_back(head_of(run));
  std::make_heap(heads.begin(), heads.end(), comes_later);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), comes_later);
    const auto& [name, line] = heads.back().next;
    visit(line,
          std::string_view(name).substr(0, name.size() - display_suffix(line.front()).size()));
    Run& rest = *heads.back().rest;
    heads.pop_back();
    if (rest.empty()) continue;
    heads.push_back(head_of(rest));
    std::push_heap(heads.begin(), heads.end(), comes_later);
  }
}

} // namespace

void for_each_record(const elf::Image& image, std::string_view target, std::string_view real_path,
                     const std::vector<elf::Symbol>& symbols, const ListFilter& filter,
                     const std::function<void(const SymbolRecord&)>& visit) {
  // All names of a place are its aliases, also those that a PATTERN leaves out.
  const bool with_aliases = filter.fold || filter.aliases;
  const SymbolFilter& chosen = filter.symbols;
  const bool is_all = chosen.patterns.empty() && chosen.min_size == 0 && !chosen.imports;
  Result<std::vector<elf::Symbol>> others;
  if (with_aliases && !is_all) others = list_symbols(image, {.kinds = chosen.kinds});
  const ListedLine all = is_all ? ListedLine(symbols) : others ? ListedLine(*others) : ListedLine();

  const LineVisitor visit_line = [&](ListedLine line, std::optional<std::string_view> demangled) {
    SymbolRecord record{&image, target, real_path, line.front(), demangled};
    record.folded = line.subspan(1);
    if (with_aliases) record.aliases.emplace();
    if (with_aliases && record.symbol.defined)
      record.aliases = alias_names(all, record.symbol.address, record.symbol.name);
    visit(record);
  };
  auto lines = lines_of(symbols, filter.fold);
  if (filter.order == ListOrder::name) {
    visit_by_name(lines, visit_line);
    return;
  }
  if (filter.order == ListOrder::size) sort_by_size(lines);
  visit_in_turn(lines, visit_line);
}

} // namespace uprobectl::cli
