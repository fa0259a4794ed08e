// SPDX-License-Identifier: Apache-2.0
#include "resolve/source_file.hpp"

#include "dwarf/functions.hpp"
#include "resolve/names.hpp"
#include "uprobectl/path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::resolve {

namespace {

using Symbols = std::vector<elf::Symbol>;

std::vector<elf::SymbolTable> tables_of(const elf::Image& image) {
  std::vector<elf::SymbolTable> tables;
  if (const auto table = image.dynamic_symbols()) tables.push_back(*table);
  if (const auto table = image.full_symbols()) tables.push_back(*table);
  const auto debug = image.debug_symbols();
  tables.insert(tables.end(), debug.begin(), debug.end());
  return tables;
}

// The source files of local symbols by their STT_FILE. A symbol has several if their functions were
// folded. The linker and GCC's link-time optimization use names in angle brackets for code without
// a file: "<artificial>".
class SymbolFiles {
public:
  SymbolFiles(const elf::Image& image, std::span<const elf::Symbol> symbols) {
    for (const elf::Symbol& symbol : symbols)
      if (symbol.binding == elf::Binding::local) files_.try_emplace(key_of(symbol));
    if (files_.empty()) return;
    for (const elf::SymbolTable& table : tables_of(image)) add(table);
  }

  std::span<const std::string_view> of(const elf::Symbol& symbol) const {
    const auto found = files_.find(key_of(symbol));
    return found == files_.end() ? std::span<const std::string_view>() : found->second;
  }
  // Whether one of the symbol's files has this end of a path.
  bool has(const elf::Symbol& symbol, std::string_view file) const {
    return std::ranges::any_of(of(symbol),
                               [&](std::string_view known) { return is_end_of_path(known, file); });
  }

private:
  using Key = std::pair<std::uint64_t, std::string_view>; // address, name

  static Key key_of(const elf::Symbol& symbol) { return {symbol.address.value, symbol.name}; }

  void add(const elf::SymbolTable& table) {
    std::string_view file;
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      if (table.is_file(index)) {
        file = table.name(index).value_or("");
        if (file.starts_with('<')) file = {};
        continue;
      }
      const std::uint64_t address = table.address(index).value;
      const auto first = files_.lower_bound({address, ""});
      if (file.empty() || first == files_.end() || first->first.first != address) continue;
      const auto symbol = table.at(index);
      if (!symbol || !symbol->defined || symbol->binding != elf::Binding::local) continue;
      if (const auto wanted = files_.find(key_of(*symbol)); wanted != files_.end())
        wanted->second.push_back(file);
    }
  }

  std::map<Key, std::vector<std::string_view>> files_;
};

// Returns the file of the declaration in the debug information; empty if it is unknown.
std::string declaring_file(const dwarf::DebugInfo& info, VirtualAddress address) {
  auto function = dwarf::describe_function(info, {.address = address, .with_result = false});
  return function ? std::move(function->file) : std::string();
}
std::string declaring_file(const Query& query, VirtualAddress address) {
  const Result<dwarf::DebugInfo>& info = query.debug_info();
  return info ? declaring_file(*info, address) : std::string();
}

// Returns the code of the name in all tables, with its clones.
Result<Symbols> find_named(const Query& query, std::string_view name) {
  Symbols found;
  for (const elf::SymbolTable& table : tables_of(query.image))
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      if (!table.has_name(index, name)) continue;
      const auto symbol = table.at(index);
      if (symbol && symbols::is_code(*symbol, query.image)) found.push_back(*symbol);
    }
  std::ranges::move(query.code.bodies().with_base(name, true), std::back_inserter(found));
  if (!found.empty()) return found;
  auto demangled = symbols::find_by_demangled_name(query.image, name);
  if (!demangled) return fail(std::move(demangled).error().within(query.subject()));
  if (demangled->empty() && query.options.other_spellings)
    *demangled = symbols::find_by_spelling(query.image, name).symbols;
  std::erase_if(*demangled,
                [&](const elf::Symbol& symbol) { return !symbols::is_code(symbol, query.image); });
  return demangled;
}

// Leaves the functions that a file with this end of a path has.
void keep_in_file(const Query& query, std::string_view file, Symbols& symbols) {
  const SymbolFiles files(query.image, symbols);
  std::erase_if(symbols, [&](const elf::Symbol& symbol) {
    return !files.has(symbol, file) && !is_end_of_path(declaring_file(query, symbol.address), file);
  });
}

} // namespace

bool is_end_of_path(std::string_view path, std::string_view end) {
  return path.ends_with(end) &&
         (path.size() == end.size() || path[path.size() - end.size() - 1] == '/');
}

std::optional<NameInFile> split_source_file(std::string_view name) {
  const auto at = name.rfind('@');
  if (at == std::string_view::npos || at == 0 || at + 1 == name.size() || name[at - 1] == '@')
    return std::nullopt;
  if (symbols::is_name_pattern(name)) return std::nullopt;
  return NameInFile{.name = name.substr(0, at), .file = name.substr(at + 1)};
}

Result<std::vector<ProbePoint>> resolve_in_source_file(const Query& query,
                                                       const NameInFile& named) {
  auto symbols = find_named(query, named.name);
  if (!symbols) return fail(std::move(symbols).error());
  keep_in_file(query, named.file, *symbols);
  if (symbols->empty()) return {};
  Query in_file = query;
  in_file.function.name = named.name;
  return resolve_symbols(in_file, std::move(*symbols));
}

bool is_declared_in(const ProbePoint& point, std::string_view file, binary::Binary& binary) {
  if (!point.symbol || point.inlined_into) return false; // its address is that of another function
  const elf::Symbol symbol{.name = *point.symbol,
                           .address = {point.address.value - point.symbol_offset},
                           .binding = elf::Binding::local};
  binary.complete_symbols();
  if (SymbolFiles(binary.image(), {&symbol, 1}).has(symbol, file)) return true;
  const auto& info = binary.debug_info();
  return info && is_end_of_path(declaring_file(*info, symbol.address), file);
}

void set_source_files(std::span<ProbePoint> points, const std::set<std::string>& names) {
  const auto start_of = [](const ProbePoint& point) {
    return point.address.value - point.symbol_offset;
  };
  struct Points {
    std::vector<ProbePoint*> all;
    bool are_several = false; // at other addresses
  };
  std::map<std::pair<const ProbedBinary*, std::string_view>, Points> by_name;
  for (ProbePoint& point : points) {
    const bool has_function = point.symbol && !point.inlined_into && !point.static_probe;
    if (!has_function || !point.binary->contents) continue;
    Points& same = by_name[{point.binary.get(), *point.symbol}];
    same.all.push_back(&point);
    same.are_several = same.are_several || start_of(*same.all.front()) != start_of(point);
  }
  std::map<const ProbedBinary*, std::vector<ProbePoint*>> by_file;
  for (const auto& [key, same] : by_name)
    if (same.are_several || names.contains(std::string(key.second))) {
      std::vector<ProbePoint*>& in_file = by_file[key.first];
      in_file.insert(in_file.end(), same.all.begin(), same.all.end());
    }
  for (const auto& [binary, in_file] : by_file) {
    Symbols symbols;
    for (const ProbePoint* const point : in_file)
      symbols.push_back(
          {.name = *point->symbol, .address = {start_of(*point)}, .binding = elf::Binding::local});
    const SymbolFiles files(binary->contents->image(), symbols);
    for (std::size_t i = 0; i < in_file.size(); ++i) {
      const auto found = files.of(symbols[i]);
      // Functions of several files may be folded into one, and a debug file repeats symbols.
      const bool is_one = !found.empty() && std::ranges::all_of(found, [&](std::string_view each) {
        return each == found.front();
      });
      if (is_one) in_file[i]->source_file = found.front();
    }
  }
}

std::vector<SymbolSource> find_sources(const Query& query, std::span<const elf::Symbol> symbols) {
  std::vector<std::string> files(symbols.size());
  const SymbolFiles known(query.image, symbols);
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (const auto found = known.of(symbols[i]); !found.empty()) files[i] = found.front();
  // Symbols have no folders. Reading the debug information of many functions takes long.
  constexpr std::size_t max_described = 64;
  std::vector<std::string> paths(symbols.size());
  // Whether only one of the symbols is in a file with this end of a path.
  const auto is_unique = [&](const std::string& file) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < symbols.size() && !file.empty(); ++i)
      if (is_end_of_path(paths[i], file) || known.has(symbols[i], file)) ++found;
    return found == 1;
  };
  for (std::size_t i = 0; i < symbols.size() && symbols.size() <= max_described; ++i)
    if (!is_unique(files[i])) paths[i] = declaring_file(query, symbols[i].address);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (paths[i].empty()) continue;
    // The shortest end of the path that no other has.
    const std::string_view path = paths[i];
    for (auto slash = path.rfind('/'); slash != std::string_view::npos && slash > 0;
         slash = path.rfind('/', slash - 1)) {
      files[i] = path.substr(slash + 1);
      if (is_unique(files[i])) break;
    }
    if (!is_unique(files[i])) files[i] = file_name_of(path);
  }
  std::vector<SymbolSource> sources;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    SymbolSource& source = sources.emplace_back(SymbolSource{.file = files[i], .name = {}});
    if (symbols[i].binding != elf::Binding::local || !is_unique(files[i])) continue;
    const std::string_view raw = query.code.bodies().function_of(symbols[i]).name;
    source.name = fmt::format("{}@{}", symbols::demangle(raw).value_or(std::string(raw)), files[i]);
  }
  return sources;
}

Error hint_at_source_files(const Query& query, const NameInFile& named, Error error) {
  const auto symbols = find_named(query, named.name);
  if (!symbols || symbols->empty()) return error;
  std::vector<std::string> names;
  for (SymbolSource& source : find_sources(query, preferred_symbols(*symbols)))
    if (!source.name.empty()) names.push_back(std::move(source.name));
  if (names.empty()) return error;
  constexpr std::size_t max_shown = 10;
  names.resize(std::min(names.size(), max_shown));
  return std::move(error).hint("it is there as: " + joined(names));
}

} // namespace uprobectl::resolve
