// SPDX-License-Identifier: Apache-2.0
#include "dwarf/source_files.hpp"

#include <algorithm>

namespace uprobectl::dwarf {

namespace {

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool ends_with_path(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return false;
  return path.size() == end.size() || end.starts_with('/') ||
         path[path.size() - end.size() - 1] == '/';
}

// Calls visit for each line table in the order of the section, without reading units. Returns false
// if something else is between them, or one is damaged.
template <typename Visit>
bool visit_in_order(Context& context, Visit visit) {
  const std::uint64_t size = context.dwarf().getDWARFObj().getLineSection().Data.size();
  for (std::uint64_t at = 0; at < size;) {
    auto table = LineTable::read_at(context, at);
    if (!table) return false;
    const std::uint64_t offset = at;
    at += table->size();
    visit(offset, std::move(*table));
  }
  return true;
}

// Calls visit for each line table of a compile unit, once.
template <typename Visit>
void visit_by_units(Context& context, Visit visit) {
  // Tables do not overlap. Damaged offsets could make the same bytes be read many times.
  std::uint64_t unread = 2 * context.dwarf().getDWARFObj().getLineSection().Data.size();
  for (const auto& [offset, unit] : context.units_by_lines()) {
    auto table = LineTable::read(context, *unit);
    if (!table) continue;
    if (table->size() > unread) {
      context.warn("the line tables overlap");
      return;
    }
    unread -= table->size();
    visit(offset, std::move(*table));
  }
}

// Adds the table if it has files of the name. `last`: the last component of the name.
void add_if_matching(Context& context, SourceFiles& found, std::uint64_t offset, LineTable table,
                     std::string_view wanted, std::string_view last) {
  std::vector<std::optional<std::size_t>> paths;
  for (std::size_t i = 0; i < table.files().size(); ++i) {
    const std::string_view name = table.files()[i].name;
    if (!name.ends_with(last) || last_component(name) != last) continue;
    if (table.needs_unit()) {
      llvm::DWARFUnit* const unit = context.unit_of_lines(offset);
      if (unit == nullptr) return;
      table.set_unit(context, *unit);
    }
    std::string path = table.path(i);
    if (!ends_with_path(path, wanted)) continue;
    const auto known = std::ranges::find(found.paths, path);
    paths.resize(table.files().size());
    paths[i] = static_cast<std::size_t>(known - found.paths.begin());
    if (known == found.paths.end()) found.paths.push_back(std::move(path));
  }
  if (!paths.empty()) found.tables.push_back({offset, std::move(table), std::move(paths)});
}

} // namespace

SourceFiles find_source_files(Context& context, std::string_view name) {
  // A path as compilers get it, "../src/job.c", is relative to a folder that is not known here.
  std::string wanted = normal_path(name);
  while (wanted.starts_with("../")) wanted.erase(0, 3);
  const std::string_view last = last_component(wanted);
  SourceFiles found;
  const auto visit = [&](std::uint64_t offset, LineTable table) {
    add_if_matching(context, found, offset, std::move(table), wanted, last);
  };
  context.prefetch({".debug_info"}); // for the units of the found tables
  if (visit_in_order(context, visit)) return found;
  found = {};
  visit_by_units(context, visit);
  return found;
}

std::set<std::string, std::less<>> source_file_names(Context& context) {
  std::set<std::string, std::less<>> names;
  const auto visit = [&](std::uint64_t, const LineTable& table) {
    for (const LineTable::File& file : table.files())
      if (!file.name.empty()) names.emplace(last_component(file.name));
  };
  if (!visit_in_order(context, visit)) visit_by_units(context, visit);
  return names;
}

} // namespace uprobectl::dwarf
