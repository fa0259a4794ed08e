// SPDX-License-Identifier: Apache-2.0
#include "trace/user_map_choice.hpp"

#include "trace/user_maps.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <ranges>

namespace uprobectl::trace {

namespace {

// A map has these names: its whole name, the first 15 bytes that the kernel keeps, and for global
// variables ".bss", with or without the name of the object. libbpf keeps eight bytes of that.
bool has_name(std::string_view map, std::string_view name) {
  constexpr std::size_t kept = 15;
  if (map == name || (name.size() == kept && map.starts_with(name))) return true;
  const auto section = map.find('.');
  const auto dot = name.find('.');
  return section != std::string_view::npos && dot != std::string_view::npos &&
         map.substr(section) == name.substr(dot) &&
         (dot == 0 || name.starts_with(map.substr(0, section)));
}

} // namespace

Result<void> check_unusable_maps(const UserPrograms& programs, std::span<const std::string> named,
                                 output::Output& output) {
  const auto unusable = programs.unusable_maps();
  if (!unusable) return fail(unusable.error());
  for (const UserPrograms::UnusableMap& map : *unusable) {
    const bool is_named = std::ranges::any_of(
        named, [&](const std::string& name) { return has_name(map.name, name); });
    Error error = map.problem;
    error.message = fmt::format("map '{}' cannot be read: {}", map.name, error.message);
    if (is_named || (named.empty() && map.is_buffer && map.is_used)) {
      if (!is_named) error.hints.emplace_back("or name the maps that are wanted: --map NAME");
      return fail(std::move(error));
    }
    if (map.is_used)
      output.warn(error.hints.empty() ? error.message
                                      : fmt::format("{} ({})", error.message, joined(error.hints)));
  }
  return {};
}

Result<std::vector<bpf::UserMap>> select_maps(std::span<const std::string> named,
                                              std::vector<bpf::UserMap> known,
                                              const std::shared_ptr<const values::BtfTypes>& types,
                                              std::span<const std::string> objects) {
  if (named.empty()) return known;
  std::vector<bpf::UserMap> selected;
  // `variable`: the only one that is shown; empty: all of the map.
  const auto add = [&](bpf::UserMap map, std::string variable) {
    if (std::ranges::any_of(selected, [&](const bpf::UserMap& each) {
          return each.id == map.id && each.variable == variable;
        }))
      return; // it was named twice
    map.variable = std::move(variable);
    selected.push_back(std::move(map));
  };
  for (const std::string& name : named) {
    if (name.find('/') != std::string::npos) {
      auto map = bpf::open_pinned_map(name);
      if (!map) return fail(std::move(map).error());
      // The object file says more about the program's own maps than the kernel does.
      const auto own = std::ranges::find(known, map->id, &bpf::UserMap::id);
      add(own == known.end() ? std::move(*map) : *own, {});
      continue;
    }
    std::string variable;
    // Each object may have such a map.
    std::vector<const bpf::UserMap*> found;
    const auto find = [&](const auto& holds) {
      for (const bpf::UserMap& map : known)
        if (holds(map)) found.push_back(&map);
      return !found.empty();
    };
    if (!find([&](const bpf::UserMap& map) { return map.name == name; }) &&
        !find([&](const bpf::UserMap& map) { return has_name(map.name, name); })) {
      find([&](const bpf::UserMap& map) {
        const std::vector<std::string> globals = list_globals(map, types);
        return std::ranges::find(globals, name) != globals.end();
      });
      variable = name;
    }
    if (found.empty()) {
      const std::string names = joined(known | std::views::transform(&bpf::UserMap::name));
      return fail(Error{ErrorKind::not_found, "the program has no map '" + name + "'"}.hint(
          names.empty() ? "the program has no maps that can be shown" : "use one of: " + names));
    }
    for (const bpf::UserMap* const each : found) add(*each, variable);
  }
  const auto has_other = [&](const bpf::UserMap& map) {
    return std::ranges::any_of(selected, [&](const bpf::UserMap& each) {
      return each.name == map.name && each.id != map.id;
    });
  };
  for (bpf::UserMap& map : selected)
    if (map.object && *map.object < objects.size() && has_other(map))
      map.label = fmt::format("{}:{}", objects[*map.object], map.name);
  return selected;
}

std::vector<std::string> list_collecting(std::span<const bpf::UserMap> maps) {
  std::vector<std::string> names;
  for (const bpf::UserMap& map : maps) {
    if (is_buffer(map.use)) return {};
    const bool is_constant =
        map.name.ends_with(".kconfig") || map.name.find(".rodata") != std::string::npos;
    const bool is_internal = map.name.starts_with("__bpf_usdt_");
    const bool is_listed = map.use != bpf::MapUse::other && map.use != bpf::MapUse::bloom;
    if (is_listed && !is_constant && !is_internal) names.push_back(map.name);
  }
  return names;
}

} // namespace uprobectl::trace
