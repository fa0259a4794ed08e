// SPDX-License-Identifier: Apache-2.0
#include "symbols/bodies.hpp"

#include "symbols/demangle.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl::symbols {

namespace {

std::uint32_t name_hash(std::string_view name) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>()(name) >> 32U);
}

// Whether other units may call a function of this mangled name, so that its bodies in several of
// them are one function. Names of static ones have an 'L' before a length (Itanium ABI, 5.1.2).
bool is_shared_name(std::string_view raw) {
  if (!looks_mangled(raw) || raw.contains("_GLOBAL__N_")) return false;
  for (std::size_t at = raw.find('L'); at != std::string_view::npos; at = raw.find('L', at + 1))
    if (at + 1 < raw.size() && raw[at + 1] >= '1' && raw[at + 1] <= '9') return false;
  return true;
}

// Sorts by address and name, and removes repeats.
void sort_unique_symbols(std::vector<elf::Symbol>& symbols) {
  const auto key = [](const elf::Symbol& symbol) {
    return std::pair(symbol.address.value, symbol.name);
  };
  std::vector<std::size_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(key(symbols[i]), i); });
  std::vector<elf::Symbol> kept;
  for (const std::size_t i : order)
    if (kept.empty() || key(kept.back()) != key(symbols[i])) kept.push_back(symbols[i]);
  symbols = std::move(kept);
}

// The names of the functions at one address.
struct NamesAtAddress {
  std::string_view last;
  bool differ = false; // whether there are several
};

} // namespace

Bodies::Bodies(const elf::Image& image) : image_(image) {
  const auto add = [&](const elf::SymbolTable& table, bool is_debug) {
    Part& part = parts_.emplace_back();
    part.table = table;
    part.is_debug = is_debug;
  };
  if (const auto table = image.dynamic_symbols()) add(*table, false);
  if (const auto table = image.full_symbols()) add(*table, false);
  for (const elf::SymbolTable& table : image.debug_symbols()) add(table, true);
  debug_tables_ = image.debug_symbols().size();
}

void Bodies::make_index() {
  for (Part& part : parts_) {
    part.by_stem.reserve(part.table.size());
    for (std::uint32_t index = 1; index < part.table.size(); ++index)
      if (const auto name = part.table.name(index); name && !name->empty())
        part.by_stem.push_back({name_hash(stem_of(*name)), index});
    std::ranges::sort(part.by_stem, {},
                      [](const Part::Hashed& each) { return std::pair(each.hash, each.index); });
  }
  is_indexed_ = true;
}

// Returns the code whose name has the same stem, in the order of the tables.
const std::vector<Bodies::Owner>& Bodies::family(std::string_view name) {
  const std::string_view stem = stem_of(name);
  if (stem_ == stem) return family_;
  if (stem_ && !is_indexed_) make_index();
  stem_ = std::string(stem);
  family_.clear();
  namesakes_.clear();
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    const Part& part = parts_[number];
    const auto add = [&](std::uint32_t index) {
      if (!part.table.has_name_or_suffix(index, stem)) return;
      const auto symbol = part.table.at(index);
      if (symbol && is_code(*symbol, image_) && stem_of(symbol->name) == stem)
        family_.push_back({*symbol, number, index});
    };
    if (!is_indexed_) {
      for (std::uint32_t index = 1; index < part.table.size(); ++index) add(index);
      continue;
    }
    for (const auto [_, index] :
         std::ranges::equal_range(part.by_stem, name_hash(stem), {}, &Part::Hashed::hash))
      add(index);
  }
  return family_;
}

bool Bodies::Namesakes::have_inside(VirtualAddress address) const {
  const auto after = std::ranges::lower_bound(ends, address.value, {},
                                              &std::pair<std::uint64_t, std::uint64_t>::first);
  return after != ends.begin() && std::prev(after)->second > address.value;
}

std::uint64_t Bodies::Namesakes::unit(VirtualAddress address) const {
  const auto found = unit_at.find(address.value);
  return found == unit_at.end() ? 0 : found->second;
}

const Bodies::Namesakes& Bodies::namesakes(std::string_view name) {
  const std::vector<Owner>& all = family(name);
  const auto [known, is_new] = namesakes_.try_emplace(std::string(name));
  Namesakes& found = known->second;
  if (!is_new) return found;
  for (const Owner& owner : all) {
    if (owner.symbol.name != name) continue;
    found.owners.push_back(owner);
    const std::uint64_t begin = owner.symbol.address.value;
    found.ends.emplace_back(begin, begin + std::min(owner.symbol.size, UINT64_MAX - begin));
  }
  std::ranges::sort(found.ends);
  for (std::size_t i = 1; i < found.ends.size(); ++i)
    found.ends[i].second = std::max(found.ends[i].second, found.ends[i - 1].second);
  find_units(found);
  return found;
}

// Several symbols of a function may be at one address: tables have one each.
void Bodies::find_units(Namesakes& found) {
  std::unordered_set<std::uint64_t> visible;
  for (const Owner& owner : found.owners) {
    const std::uint64_t address = owner.symbol.address.value;
    if (owner.symbol.binding != elf::Binding::local) visible.insert(address);
    std::uint64_t& unit = found.unit_at[address];
    unit = std::max(unit, unit_of(owner));
  }
  for (const std::uint64_t address : visible) found.unit_at[address] = 0;
  for (const Owner& owner : found.owners) {
    const std::uint64_t unit = found.unit(owner.symbol.address);
    found.units.try_emplace(unit_of(owner), unit);
    found.is_visible = found.is_visible || unit == 0;
  }
}

// BFD puts local symbols that were global after a file without a name: it tells nothing. GCC's
// link-time optimization spreads the code of all files over several files of one name,
// "<artificial>".
std::vector<std::pair<std::uint32_t, std::uint64_t>>
Bodies::read_files(const elf::SymbolTable& table) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> files;
  std::unordered_map<std::string_view, std::uint32_t> made; // by the compiler
  for (std::uint32_t index = 1; index < table.size(); ++index) {
    if (!table.is_file(index)) continue;
    const std::string_view name = table.name(index).value_or("");
    const std::uint32_t number =
        name.starts_with('<') ? made.try_emplace(name, index).first->second : index;
    files.emplace_back(index, name.empty() ? 0 : number);
  }
  return files;
}

// Returns a number for the source file of a static function; 0 if it is unknown.
std::uint64_t Bodies::unit_of(const Owner& owner) {
  if (owner.symbol.binding != elf::Binding::local) return 0;
  Part& part = parts_[owner.part];
  if (!part.files) part.files = read_files(part.table);
  const auto after = std::ranges::upper_bound(*part.files, owner.index, {},
                                              &std::pair<std::uint32_t, std::uint64_t>::first);
  if (after == part.files->begin() || std::prev(after)->second == 0) return 0;
  return (std::uint64_t{owner.part} << 32U) + std::prev(after)->second;
}

bool Bodies::has_dotted_names(elf::Table table) {
  const auto part =
      std::ranges::find_if(parts_, [&](const Part& each) { return each.table.table() == table; });
  if (part == parts_.end()) return false;
  if (!part->has_dotted_names) part->has_dotted_names = has_dotted_names(*part);
  return *part->has_dotted_names;
}

// Decides by the names whose first part is not a symbol: "runtime.mallocgc", "std.debug.print".
bool Bodies::has_dotted_names(const Part& part) const {
  if (image_.section_address(".gopclntab") || image_.section_address(".data.rel.ro.gopclntab"))
    return true;
  std::unordered_set<std::string_view> firsts;
  for (std::uint32_t index = 1; index < part.table.size(); ++index) {
    const std::string_view name = part.table.name(index).value_or("");
    const std::size_t dot = name.find('.');
    if (dot == 0 || dot == std::string_view::npos || looks_mangled(name) ||
        name.starts_with("_GLOBAL__") || is_suffix(name.substr(dot + 1)))
      continue;
    if (const auto symbol = part.table.at(index);
        symbol && symbol->defined && is_typed_code(*symbol))
      firsts.insert(name.substr(0, dot));
  }
  for (const Part& each : parts_) {
    if (each.is_debug && &each != &part) continue;
    for (std::uint32_t index = 1; index < each.table.size() && !firsts.empty(); ++index)
      if (const auto name = each.table.name(index)) firsts.erase(*name);
  }
  return !firsts.empty();
}

std::optional<CloneName> Bodies::split(const elf::Symbol& symbol) {
  if (!symbol.name.contains('.') || !is_typed_code(symbol)) return std::nullopt;
  const bool is_mangled = looks_mangled(symbol.name);
  auto clone = parse_clone_name(symbol.name);
  const bool is_unknown = !clone || clone->is_unknown;
  if (is_unknown || (!is_mangled && !clone->is_numbered))
    if (has_dotted_names(symbol.table)) return std::nullopt;
  if (!clone) {
    const std::size_t dot = symbol.name.find('.');
    const std::string_view base = symbol.name.substr(0, dot);
    if (dot == 0 || is_suffix(symbol.name.substr(dot + 1)) || namesakes(base).owners.empty())
      return std::nullopt;
    clone = CloneName{.base = base, .function = base, .kind = SuffixKind::body};
  }
  const bool is_inside =
      clone->function != symbol.name && namesakes(clone->function).have_inside(symbol.address);
  return is_inside ? std::nullopt : clone;
}

Bodies::Function Bodies::function_of(const elf::Symbol& symbol) {
  const auto clone = split(symbol);
  const std::string_view name = clone ? clone->function : symbol.name;
  if (is_shared_name(name) || symbol.binding != elf::Binding::local) return {name, 0};
  const std::uint64_t own = namesakes(symbol.name).unit(symbol.address);
  if (name == symbol.name) return {name, own};
  const Namesakes& functions = namesakes(name);
  if (functions.owners.empty()) return {name, own};
  if (const auto same = functions.units.find(own); same != functions.units.end())
    return {name, same->second};
  if (own == 0 && functions.unit_at.size() == 1) return {name, functions.unit_at.begin()->second};
  return {name, functions.is_visible ? 0 : own};
}

bool Bodies::has_itself(const Function& function) {
  return namesakes(function.name).units.contains(function.unit);
}

template <typename Select>
std::vector<elf::Symbol> Bodies::select(std::string_view name, bool with_debug,
                                        Select is_selected) {
  std::vector<elf::Symbol> symbols;
  const std::vector<Owner> all = family(name); // a copy: split() may look for another family
  for (const Owner& owner : all) {
    if ((parts_[owner.part].is_debug && !with_debug) || owner.symbol.name.size() <= name.size())
      continue;
    const auto clone = split(owner.symbol);
    if (clone && is_selected(*clone)) symbols.push_back(owner.symbol);
  }
  sort_unique_symbols(symbols);
  return symbols;
}

std::vector<elf::Symbol> Bodies::clones_of(std::string_view function, bool with_debug) {
  return select(function, with_debug,
                [&](const CloneName& clone) { return clone.function == function; });
}

std::vector<elf::Symbol> Bodies::with_base(std::string_view base, bool with_debug) {
  return select(base, with_debug, [&](const CloneName& clone) { return clone.base == base; });
}

std::vector<elf::Symbol> Bodies::at(std::span<const std::uint64_t> addresses) const {
  std::vector<elf::Symbol> symbols;
  if (addresses.empty()) return symbols;
  const std::uint64_t first = addresses.front();
  const std::uint64_t range = addresses.back() - first;
  for (const Part& part : parts_)
    for (std::uint32_t index = 1; index < part.table.size(); ++index) {
      const std::uint64_t address = part.table.address(index).value;
      if (address - first > range || !std::ranges::binary_search(addresses, address)) continue;
      const auto symbol = part.table.at(index);
      if (symbol && is_code(*symbol, image_)) symbols.push_back(*symbol);
    }
  return symbols;
}

RelatedSymbols find_related(Bodies& bodies, std::span<const elf::Symbol> functions,
                            RelatedSearch search) {
  std::unordered_set<std::string_view> names;
  std::unordered_map<std::uint64_t, NamesAtAddress> by_address;
  std::vector<std::uint64_t> addresses;
  for (const elf::Symbol& function : functions) {
    names.insert(function.name);
    addresses.push_back(function.address.value);
    NamesAtAddress& there = by_address[function.address.value];
    there.differ = there.differ || (!there.last.empty() && there.last != function.name);
    there.last = function.name;
  }
  RelatedSymbols related;
  for (const std::string_view name : names) {
    std::ranges::move(bodies.clones_of(name, search.with_debug),
                      std::back_inserter(related.clones));
  }
  std::ranges::sort(addresses);
  if (search.with_aliases) related.aliases = bodies.at(addresses);
  std::erase_if(related.aliases, [&](const elf::Symbol& symbol) {
    const NamesAtAddress& there = by_address[symbol.address.value];
    return !there.differ && there.last == symbol.name;
  });
  sort_unique_symbols(related.aliases);
  sort_unique_symbols(related.clones);
  return related;
}

RelatedSymbols find_related(const elf::Image& image, std::span<const elf::Symbol> functions) {
  Bodies bodies(image);
  return find_related(bodies, functions, {});
}

} // namespace uprobectl::symbols
