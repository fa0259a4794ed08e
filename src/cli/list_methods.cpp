#include "list_methods.hpp"

#include "alias_lists.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl::cli {

namespace {

struct ListedMethod {
  const art::Method* method = nullptr;
  std::uint64_t size = 0; // bytes
  std::string signature;
};

// Any of the patterns; those that match are no longer unmatched. No patterns: all.
bool is_wanted(std::string_view signature, std::span<const std::string> patterns,
               std::vector<std::string>& unmatched) {
  std::erase_if(unmatched,
                [&](const std::string& pattern) { return matches_method(pattern, signature); });
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return matches_method(pattern, signature);
         });
}

// Visits those that the filter lets through in groups: of one address where the order is that of
// offsets, so that the names of a few are held at a time, else all at once.
void for_each_group(const MethodListing& listing, std::vector<std::string>& unmatched,
                    const std::function<void(std::vector<ListedMethod>&)>& visit) {
  const SymbolFilter& filter = listing.filter.symbols;
  std::vector<ListedMethod> group;
  for (const art::Method& method : listing.oat.compiled()) {
    const bool continues = group.empty() || listing.filter.order != ListOrder::offset ||
                           group.front().method->code == method.code;
    if (!continues) {
      visit(group);
      group.clear();
    }
    const std::uint64_t size = listing.oat.code_size(method);
    if (size < filter.min_size) continue;
    std::string text = to_string(listing.oat.signature(method));
    if (is_wanted(text, filter.patterns, unmatched))
      group.push_back({&method, size, std::move(text)});
  }
  visit(group);
}

// Folded lines keep together what lies at one address.
void sort(std::vector<ListedMethod>& methods, const ListFilter& filter) {
  const auto order = filter.fold ? ListOrder::offset : filter.order;
  std::ranges::sort(methods, [order](const ListedMethod& a, const ListedMethod& b) {
    if (order == ListOrder::size && a.size != b.size) return a.size > b.size;
    if (order == ListOrder::name && a.signature != b.signature) return a.signature < b.signature;
    return std::tie(a.method->code, a.signature) < std::tie(b.method->code, b.signature);
  });
}

// A line: one method, or all of one address.
using Line = std::span<const ListedMethod>;

std::vector<Line> lines_of(std::span<const ListedMethod> methods, const ListFilter& filter) {
  std::vector<Line> lines;
  for (std::size_t begin = 0, end = 0; begin < methods.size(); begin = end) {
    end = begin + 1;
    while (filter.fold && end < methods.size() &&
           methods[end].method->code == methods[begin].method->code)
      ++end;
    lines.push_back(methods.subspan(begin, end - begin));
  }
  if (!filter.fold || filter.order == ListOrder::offset) return lines;
  std::ranges::sort(lines, [&](const Line& a, const Line& b) {
    if (filter.order == ListOrder::size && a.front().size != b.front().size)
      return a.front().size > b.front().size;
    return a.front().signature < b.front().signature;
  });
  return lines;
}

} // namespace

bool asks_for_methods(const SymbolFilter& filter) {
  return !filter.imports &&
         (filter.kinds.empty() ||
          std::ranges::find(filter.kinds, SymbolKind::method) != filter.kinds.end());
}

bool asks_for_methods_alone(const SymbolFilter& filter) {
  return asks_for_methods(filter) && std::ranges::all_of(filter.kinds, [](SymbolKind kind) {
           return kind == SymbolKind::method;
         });
}

std::size_t for_each_method(const MethodListing& listing, std::vector<std::string>& unmatched,
                            const std::function<void(const SymbolRecord&)>& visit) {
  std::size_t count = 0;
  AliasLists aliases(
      [&](VirtualAddress address) { return other_methods_at(listing.oat, address, {}); });
  std::vector<elf::Symbol> folded;
  for_each_group(listing, unmatched, [&](std::vector<ListedMethod>& methods) {
    sort(methods, listing.filter);
    count += methods.size();
    for (const Line& line : lines_of(methods, listing.filter)) {
      const ListedMethod& own = line.front();
      SymbolRecord record{&listing.image, listing.target, listing.real_path,
                          method_symbol(listing.oat, *own.method, own.signature)};
      folded.clear();
      for (const ListedMethod& other : line.subspan(1))
        folded.push_back(method_symbol(listing.oat, *other.method, other.signature));
      record.folded = folded;
      if (listing.filter.fold || listing.filter.aliases) aliases.fill(record, listing.filter.fold);
      visit(record);
    }
  });
  return count;
}

} // namespace uprobectl::cli
