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

// Calls visit for each line table of a compile unit, once.
template <typename Visit>
void visit_tables(Context& context, Visit visit) {
  using namespace llvm::dwarf;
  std::set<std::uint64_t> visited;
  // Tables do not overlap. Damaged offsets could make the same bytes be read many times.
  std::uint64_t unread = 2 * context.dwarf().getDWARFObj().getLineSection().Data.size();
  for (const auto& unit : context.dwarf().compile_units()) {
    const Die root = unit->getUnitDIE();
    if (!root || (root.getTag() != DW_TAG_compile_unit && root.getTag() != DW_TAG_skeleton_unit))
      continue;
    const auto offset = LineTable::offset_of(*unit);
    if (!offset || !visited.insert(*offset).second) continue;
    auto table = LineTable::read(context, *unit);
    if (!table) continue;
    if (table->size() > unread) {
      context.warn("the line tables overlap");
      return;
    }
    unread -= table->size();
    visit(*unit, std::move(*table));
  }
}

} // namespace

SourceFiles find_source_files(Context& context, std::string_view name) {
  const std::string wanted = normal_path(name);
  const std::string_view last = last_component(wanted);
  SourceFiles found;
  visit_tables(context, [&](llvm::DWARFUnit& unit, LineTable table) {
    std::vector<std::optional<std::size_t>> paths;
    for (std::size_t i = 0; i < table.files().size(); ++i) {
      if (last_component(table.files()[i].name) != last) continue;
      std::string path = table.path(i);
      if (!ends_with_path(path, wanted)) continue;
      const auto known = std::ranges::find(found.paths, path);
      paths.resize(table.files().size());
      paths[i] = static_cast<std::size_t>(known - found.paths.begin());
      if (known == found.paths.end()) found.paths.push_back(std::move(path));
    }
    if (!paths.empty()) found.tables.push_back({&unit, std::move(table), std::move(paths)});
  });
  return found;
}

std::set<std::string, std::less<>> source_file_names(Context& context) {
  std::set<std::string, std::less<>> names;
  visit_tables(context, [&](llvm::DWARFUnit&, const LineTable& table) {
    for (const LineTable::File& file : table.files())
      if (!file.name.empty()) names.emplace(last_component(file.name));
  });
  return names;
}

} // namespace uprobectl::dwarf
