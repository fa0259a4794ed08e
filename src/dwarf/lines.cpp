// SPDX-License-Identifier: Apache-2.0
#include "dwarf/lines.hpp"

#include "dwarf/scopes.hpp"
#include "dwarf/source_files.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace uprobectl::dwarf {

namespace {

// Units whose entries are searched for functions that are declared at a line without code of its
// own, and for inlined calls in it.
constexpr std::size_t max_searched_units = 64;

// How many entries around an inlined call are searched for its function.
constexpr int max_depth = 256;

// A row of a requested line.
struct LineCode {
  std::uint64_t address = 0;
  std::uint32_t line = 0;
  std::size_t path = 0; // in SourceFiles::paths
  unsigned run = 0;     // number of the uninterrupted run of rows of the line, in its table
};

struct TableCode {
  llvm::DWARFUnit* unit = nullptr;
  std::vector<LineCode> code;
};

// The lines around a requested one that have code.
struct Nearest {
  std::uint32_t before = 0;         // 0: none
  std::uint32_t after = UINT32_MAX; // UINT32_MAX: none
};

void note(Nearest& nearest, std::uint32_t line, std::uint32_t first, std::uint32_t last) {
  if (line < first) nearest.before = std::max(nearest.before, line);
  if (line > last) nearest.after = std::min(nearest.after, line);
}

// The requested lines.
struct LineFilter {
  std::vector<std::uint32_t> lines;
  std::optional<std::string> function; // raw name; only code of it and its inlined copies
  bool only_opening = false;           // of the function
  Statements statements = Statements::first_of_run;
};

bool is_inlined(const Die& scope) {
  return scope && scope.getTag() == llvm::dwarf::DW_TAG_inlined_subroutine;
}

bool is_usable(const LineRow& row) { return row.line > 0 && row.line <= UINT32_MAX; }

Error no_such_file(Context& context, std::string_view file) {
  Error error{ErrorKind::not_found,
              fmt::format("no source file '{}' in the debug information", file)};
  const auto names = source_file_names(context);
  const std::string_view last = file.substr(file.rfind('/') + 1);
  const auto near = nearest(last, std::vector<std::string>(names.begin(), names.end()));
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

Error several_files(std::string_view file, std::span<const std::string> paths) {
  constexpr std::size_t max_listed = 10;
  Error error{
      ErrorKind::ambiguous,
      fmt::format("'{}' is ambiguous, {} source files have such a path", file, paths.size())};
  for (const std::string& path : paths.first(std::min(max_listed, paths.size())))
    error = std::move(error).hint("there is: " + path);
  if (paths.size() > max_listed)
    error = std::move(error).hint(fmt::format("and {} more", paths.size() - max_listed));
  return error;
}

// `name`: how a line is written.
template <typename Name>
Error no_code(std::string message, const Nearest& nearest, Name name) {
  Error error{ErrorKind::no_code, std::move(message)};
  const bool has_before = nearest.before != 0;
  const bool has_after = nearest.after != UINT32_MAX;
  if (has_before && has_after)
    return std::move(error).hint(fmt::format("the nearest lines with code are {} and {}",
                                             name(nearest.before), name(nearest.after)));
  if (has_before || has_after)
    return std::move(error).hint(fmt::format("the nearest line with code is {}",
                                             name(has_before ? nearest.before : nearest.after)));
  return error;
}

// Returns the only file with code: the one that is named exactly, or the one whose path ends so.
Result<std::size_t> choose_file(const SourceFiles& files, std::string_view name,
                                const std::vector<bool>& has_code) {
  const std::string wanted = normal_path(name);
  std::vector<std::string> candidates;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < files.paths.size(); ++i) {
    if (!has_code[i]) continue;
    if (files.paths[i] == wanted) return i;
    candidates.push_back(files.paths[i]);
    chosen = i;
  }
  if (candidates.empty())
    return fail(ErrorKind::no_code, fmt::format("no code of the source file '{}'", name));
  std::ranges::sort(candidates);
  if (candidates.size() > 1) return fail(several_files(name, candidates));
  return chosen;
}

// The unit of a table, found when a row has code. Tables without a unit are not used.
class UnitOfTable {
public:
  UnitOfTable(Context& context, const MatchingTable& table) : context_(context), table_(table) {}

  llvm::DWARFUnit* get() {
    if (!unit_) unit_ = context_.unit_of_lines(table_.offset);
    return *unit_;
  }

private:
  Context& context_;
  const MatchingTable& table_;
  std::optional<llvm::DWARFUnit*> unit_;
};

// Visits the rows of the matching files that begin a statement in code.
template <typename Visit>
void visit_statements(Context& context, const SourceFiles& files, const IsCode& is_code,
                      Visit visit) {
  for (const MatchingTable& each : files.tables) {
    UnitOfTable unit(context, each);
    each.table.visit_rows([&](const LineRow& row) {
      if (!row.is_statement || !is_usable(row) || row.file >= each.paths.size()) return;
      const auto path = each.paths[row.file];
      if (path && is_code({row.address}) && unit.get() != nullptr) visit(row, *path);
    });
  }
}

std::uint32_t line_of(const Die& die, Attribute attribute) {
  const auto line = llvm::dwarf::toUnsigned(die.find(attribute));
  return static_cast<std::uint32_t>(line && *line <= UINT32_MAX ? *line : 0);
}

// Returns the line that declares the function of a function or inlined copy; 0 if it is unknown.
std::uint32_t declared_line(Context& context, const Die& die) {
  using llvm::dwarf::DW_AT_decl_line;
  const Die entry = context.with_attribute(die, DW_AT_decl_line);
  return entry ? line_of(entry, DW_AT_decl_line) : 0;
}

// Finds the addresses of lines of one file.
class LineSearch {
public:
  LineSearch(Context& context, const IsCode& is_code, LineFilter filter)
      : context_(context), is_code_(is_code), filter_(std::move(filter)) {}

  // Fails without code, or if several files with code have the name.
  Result<std::vector<LineAddress>> find(std::string_view name) {
    files_ = find_source_files(context_, name);
    if (files_.paths.empty()) return fail(no_such_file(context_, name));
    has_code_.assign(files_.paths.size(), false);
    nearest_.assign(files_.paths.size(), {});
    for (const MatchingTable& each : files_.tables) collect(each);
    const auto path = choose_file(files_, name, has_code_);
    if (!path) return fail(path.error());
    path_ = *path;
    for (TableCode& table : tables_) {
      std::erase_if(table.code, [&](const LineCode& code) { return code.path != path_; });
      if (!table.code.empty()) add_addresses(table);
    }
    add_entries();
    std::ranges::sort(addresses_, {}, &LineAddress::address);
    const auto repeated = std::ranges::unique(addresses_, {}, &LineAddress::address);
    addresses_.erase(repeated.begin(), repeated.end());
    return std::move(addresses_);
  }

  const Nearest& nearest() const { return nearest_[path_]; }

private:
  bool is_requested(std::uint64_t line) const {
    return std::ranges::find(filter_.lines, line) != filter_.lines.end();
  }

  // Collects the rows of the lines, and notes which lines have code.
  void collect(const MatchingTable& each) {
    TableCode found;
    UnitOfTable unit(context_, each);
    unsigned run = 0;
    std::uint64_t line = 0; // of the previous row, if it is in a run
    each.table.visit_rows([&](const LineRow& row) {
      if (row.begins_sequence) line = 0;
      const auto path = row.file < each.paths.size() ? each.paths[row.file] : std::nullopt;
      const bool is_run = path && is_usable(row) && is_requested(row.line);
      if (is_run && row.line != line) ++run;
      line = is_run ? row.line : 0;
      if (!path || !row.is_statement || !is_usable(row) || !is_code_({row.address})) return;
      if (unit.get() == nullptr) return;
      has_code_[*path] = true;
      note(nearest_[*path], static_cast<std::uint32_t>(row.line), filter_.lines.front(),
           filter_.lines.back());
      if (is_run)
        found.code.push_back({.address = row.address,
                              .line = static_cast<std::uint32_t>(row.line),
                              .path = *path,
                              .run = run});
    });
    if (found.code.empty()) return;
    found.unit = unit.get();
    tables_.push_back(std::move(found));
  }

  std::string path_of(const Die& die, Attribute attribute) {
    return normal_path(referenced_file(context_, die, attribute));
  }

  bool is_in_function(const Scopes& scopes) {
    if (!filter_.function) return true;
    const auto is_it = [&](const Die& die) {
      return context_.linkage_name(die) == *filter_.function;
    };
    if (filter_.only_opening) return !scopes.empty() && is_it(scopes.back());
    return std::ranges::any_of(scopes, is_it);
  }

  // Returns the scope that the row belongs to. The code of an inlined copy may have rows of the
  // call, and at its first instruction also other rows of its caller.
  Die scope_of(const LineCode& code, const Scopes& scopes) {
    for (std::size_t i = scopes.size(); i-- > 1;)
      if (!is_of_caller(code, scopes[i])) return scopes[i];
    return scopes.empty() ? Die() : scopes.front();
  }

  bool is_of_caller(const LineCode& code, const Die& scope) {
    using namespace llvm::dwarf;
    if (!is_inlined(scope)) return false;
    const std::string& file = files_.paths[path_];
    const std::uint32_t declared = declared_line(context_, scope);
    if (line_of(scope, DW_AT_call_line) == code.line && declared != code.line)
      return path_of(scope, DW_AT_call_file) == file;
    if (ranges_.entry_of(scope) != code.address) return false;
    return declared > code.line || path_of(scope, DW_AT_decl_file) != file;
  }

  // Adds the first row of each run in each scope, or only one if the line opens the scope.
  void add_addresses(TableCode& table) {
    std::ranges::sort(table.code, {},
                      [](const LineCode& code) { return std::pair(code.address, code.run); });
    std::vector<std::uint64_t> addresses;
    for (const LineCode& code : table.code) addresses.push_back(code.address);
    const auto scopes = scopes_at(context_, *table.unit, addresses);
    std::set<std::tuple<const llvm::DWARFUnit*, std::uint64_t, unsigned>> seen; // scope and run
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (!is_in_function(scopes[i])) continue;
      const LineCode& code = table.code[i];
      const Die scope = scope_of(code, scopes[i]);
      const bool opens = scope && is_requested(declared_line(context_, scope));
      const auto [unit, offset] = key_of(scope);
      if (filter_.statements == Statements::first_of_run || opens)
        if (!seen.emplace(unit, offset, opens ? 0 : code.run).second) continue;
      add(code.address, code.line, scope, opens);
    }
  }

  using ScopeKey = std::pair<const llvm::DWARFUnit*, std::uint64_t>;
  static ScopeKey key_of(const Die& scope) {
    return scope ? ScopeKey(scope.getDwarfUnit(), scope.getOffset()) : ScopeKey();
  }

  void add(std::uint64_t address, std::uint32_t line, const Die& scope, bool opens) {
    LineAddress made{
        .address = {address}, .file = files_.paths[path_], .line = line, .inlined = {}};
    if (is_inlined(scope)) made.inlined = context_.linkage_name(scope).value_or("");
    if (opens && !is_inlined(scope))
      if (const auto entry = ranges_.entry_of(scope); entry && is_code_({*entry}))
        made.address.value = *entry;
    addresses_.push_back(std::move(made));
    if (scope) with_address_.insert(key_of(scope));
  }

  // Adds functions and inlined copies that are declared at the line, and inlined calls in it. The
  // line need not have rows: Clang gives the first instruction the line of the opening brace.
  void add_entries() {
    // Without addresses, and for all statements, in the units with the file; else only in those
    // that have addresses: their entries are read already.
    std::vector<llvm::DWARFUnit*> units;
    if (addresses_.empty() || filter_.statements == Statements::all)
      for (const MatchingTable& each :
           std::span(files_.tables).first(std::min(files_.tables.size(), max_searched_units)))
        units.push_back(context_.unit_of_lines(each.offset));
    else
      for (const TableCode& table : tables_)
        if (!table.code.empty()) units.push_back(table.unit);
    units.resize(std::min(units.size(), max_searched_units));
    for (llvm::DWARFUnit* const unit : units) {
      llvm::DWARFUnit* const entries = context_.with_entries(unit);
      if (entries == nullptr) continue;
      const unsigned size = entries->getNumDIEs();
      for (unsigned i = 1; i < size; ++i) {
        const Die die = entries->getDIEAtIndex(i);
        if (die.getTag() == llvm::dwarf::DW_TAG_subprogram || is_inlined(die)) add_entry(die);
      }
    }
  }

  void add_entry(const Die& die) {
    using namespace llvm::dwarf;
    const bool is_call = is_inlined(die) && is_requested(line_of(die, DW_AT_call_line));
    const std::uint32_t line =
        is_call ? line_of(die, DW_AT_call_line) : declared_line(context_, die);
    if (!is_requested(line)) return;
    const auto address = ranges_.entry_of(die);
    if (!address || *address == 0 || !is_code_({*address})) return;
    if (path_of(die, is_call ? DW_AT_call_file : DW_AT_decl_file) != files_.paths[path_]) return;
    Scopes scopes;
    Die scope = is_call ? die.getParent() : die;
    for (int depth = 0; scope && depth < max_depth; ++depth, scope = scope.getParent())
      if (scope.getTag() == DW_TAG_subprogram || is_inlined(scope))
        scopes.insert(scopes.begin(), scope);
    if (scopes.empty() || !is_in_function(scopes)) return;
    // Rows of the scope itself have the better addresses.
    const bool has_address = with_address_.contains(key_of(scopes.back()));
    if (has_address && (filter_.statements == Statements::first_of_run || !is_call)) return;
    add(*address, line, scopes.back(), false);
  }

  Context& context_;
  const IsCode& is_code_;
  LineFilter filter_;
  SourceFiles files_;
  std::size_t path_ = 0; // the chosen file
  std::vector<bool> has_code_;
  std::vector<Nearest> nearest_;
  std::vector<TableCode> tables_;
  std::vector<LineAddress> addresses_;
  std::set<ScopeKey> with_address_;
  RangeReader ranges_{context_};
};

struct Declaration {
  Die die;
  std::string file;
  std::uint32_t line = 0;
};

// Returns the line of the function's first instruction, if it is in the file; else 0.
std::uint32_t entry_line(const Declaration& function, VirtualAddress address, Context& context) {
  llvm::DWARFUnit* const unit = context.unit_at(address);
  const LineTable* const table = unit != nullptr ? context.line_table(*unit) : nullptr;
  if (table == nullptr) return 0;
  LineRow first;
  table->visit_rows([&](const LineRow& row) {
    if (row.address == address.value && first.line == 0) first = row;
  });
  return is_usable(first) && table->path(first.file) == function.file
             ? static_cast<std::uint32_t>(first.line)
             : 0;
}

Result<Declaration> find_declaration(Context& context, VirtualAddress function) {
  llvm::DWARFUnit* const unit = context.unit_at(function);
  const std::uint64_t address = function.value;
  const auto scopes =
      unit != nullptr ? scopes_at(context, *unit, {&address, 1}) : std::vector<Scopes>(1);
  if (scopes.front().empty())
    return fail(ErrorKind::not_found, "the function is not in the debug information: it was "
                                      "compiled without -g, or it is written in assembler");
  Declaration found{.die = scopes.front().front()};
  found.file = normal_path(referenced_file(context, found.die, llvm::dwarf::DW_AT_decl_file));
  found.line = declared_line(context, found.die);
  if (found.line == 0) found.line = entry_line(found, function, context); // Go before 1.21
  if (found.file.empty() || found.line == 0)
    return fail(ErrorKind::not_found, "the debug information does not have the function's line");
  return found;
}

} // namespace

Result<std::vector<LineAddress>> line_addresses(const DebugInfo& debug, std::string_view file,
                                                std::uint32_t line, const IsCode& is_code,
                                                Statements statements) {
  LineSearch search(debug.context(), is_code,
                    {.lines = {line}, .function = {}, .statements = statements});
  auto found = search.find(file);
  if (found && found->empty())
    return fail(no_code(fmt::format("'{}:{}' has no code", file, line), search.nearest(),
                        [](std::uint32_t near) { return std::to_string(near); }));
  return found;
}

Result<std::vector<LineAddress>> function_line_addresses(const DebugInfo& debug,
                                                         VirtualAddress function,
                                                         std::uint32_t line, const IsCode& is_code,
                                                         Statements statements) {
  Context& context = debug.context();
  const auto declared = find_declaration(context, function);
  if (!declared) return fail(declared.error());
  const std::uint64_t wanted = std::uint64_t{declared->line} + line;
  if (wanted > UINT32_MAX) return fail(ErrorKind::out_of_range, "the line number is too large");
  LineFilter filter{.lines = {static_cast<std::uint32_t>(wanted)},
                    .function = std::string(context.linkage_name(declared->die).value_or("")),
                    .only_opening = line == 0,
                    .statements = statements};
  if (line == 0)
    if (const auto first = entry_line(*declared, function, context); first > declared->line)
      filter.lines.push_back(first);
  LineSearch search(context, is_code, filter);
  auto found = search.find(declared->file);
  if (found && found->empty() && line == 0)
    found->push_back(
        {.address = function, .file = declared->file, .line = declared->line, .inlined = {}});
  if (!found || !found->empty()) return found;

  const std::string& file = declared->file;
  Nearest nearest{.before = declared->line};
  if (auto lines = lines_of_function(debug, function, is_code))
    filter.lines = std::move(lines->with_code);
  std::erase(filter.lines, declared->line); // its rows would open the scope of all others
  if (!filter.lines.empty())
    if (const auto others = LineSearch(context, is_code, filter).find(file))
      for (const LineAddress& each : *others)
        note(nearest, each.line, static_cast<std::uint32_t>(wanted),
             static_cast<std::uint32_t>(wanted));
  return fail(
      no_code(fmt::format("line {} of the function ({}:{}) has no code", line, file, wanted),
              nearest, [&](std::uint32_t near) {
                return fmt::format("+{} ({}:{})", near - declared->line,
                                   file.substr(file.rfind('/') + 1), near);
              }));
}

Result<FileLines> lines_of_file(const DebugInfo& debug, std::string_view file,
                                const IsCode& is_code) {
  Context& context = debug.context();
  const SourceFiles files = find_source_files(context, file);
  if (files.paths.empty()) return fail(no_such_file(context, file));
  std::vector<std::set<std::uint32_t>> lines(files.paths.size());
  visit_statements(context, files, is_code, [&](const LineRow& row, std::size_t path) {
    lines[path].insert(static_cast<std::uint32_t>(row.line));
  });
  std::vector<bool> has_code;
  for (const auto& each : lines) has_code.push_back(!each.empty());
  const auto path = choose_file(files, file, has_code);
  if (!path) return fail(path.error());
  return FileLines{.file = files.paths[*path],
                   .with_code = {lines[*path].begin(), lines[*path].end()}};
}

Result<FileLines> lines_of_function(const DebugInfo& debug, VirtualAddress function,
                                    const IsCode& is_code) {
  Context& context = debug.context();
  const auto declared = find_declaration(context, function);
  if (!declared) return fail(declared.error());
  auto found = lines_of_file(debug, declared->file, is_code);
  if (!found) return found;

  // The last line is that of the function's own code, without inlined copies.
  llvm::DWARFUnit& unit = *context.unit_at(function);
  const LineTable* const table = context.line_table(unit);
  std::map<std::uint64_t, std::uint64_t> line_at;
  if (table != nullptr) {
    std::vector<bool> is_in_file;
    for (std::size_t i = 0; i < table->files().size(); ++i)
      is_in_file.push_back(table->path(i) == declared->file);
    table->visit_rows([&](const LineRow& row) {
      if (is_usable(row) && row.line >= declared->line && row.file < is_in_file.size() &&
          is_in_file[row.file])
        line_at.emplace(row.address, row.line);
    });
  }
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, line] : line_at) addresses.push_back(address);
  const auto scopes = scopes_at(context, unit, addresses);
  found->first = declared->line;
  found->last = declared->line;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (!scopes[i].empty() && scopes[i].back() == declared->die)
      found->last = std::max(found->last, static_cast<std::uint32_t>(line_at[addresses[i]]));
  std::erase_if(found->with_code,
                [&](std::uint32_t line) { return line < found->first || line > found->last; });
  return found;
}

} // namespace uprobectl::dwarf
