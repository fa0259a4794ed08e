// SPDX-License-Identifier: Apache-2.0
// Turns types of debug information into BTF, as `pahole -J` does.
#include "bpf/btf_reading.hpp"
#include "dwarf/named_types.hpp"
#include "values/btf_types.hpp"

#include <bpf/btf.h>
#include <functional>
#include <limits>
#include <linux/bpf.h>
#include <map>
#include <set>
#include <string>

namespace uprobectl::values {

namespace {

using dwarf::TypeKind;

constexpr int max_debug_type_depth = 32; // levels of nested structures and arrays

class BtfWriter {
public:
  explicit BtfWriter(btf* types) : types_(types) {}

  // Adds the type without a name, and a typedef that names it. Returns the id of the typedef; 0 if
  // BTF cannot describe the type.
  int add(const dwarf::NamedType& named) {
    const int id = convert(*named.type, 0);
    return id > 0 ? std::max(btf__add_typedef(types_, named.name.c_str(), id), 0) : 0;
  }

private:
  // Adds the type, unless it was added before. Returns its id; 0 if BTF cannot describe it.
  int convert(const dwarf::Type& type, int depth) {
    if (depth > max_debug_type_depth) return 0;
    const auto [known, is_new] = ids_.try_emplace(&type, 0); // 0 while it is converted
    if (!is_new) return known->second;
    const int id = write(type, depth);
    return ids_[&type] = std::max(id, 0);
  }

  // Does what convert() does, but returns an array of bytes for a type of known size that BTF
  // cannot describe.
  int convert_member(const dwarf::Type& type, int depth) {
    const int id = convert(type, depth);
    return id > 0 || type.size() == 0 ? id : add_bytes(type.size());
  }

  int write(const dwarf::Type& type, int depth) {
    if (type.size() > std::numeric_limits<std::uint32_t>::max()) return 0;
    switch (type.kind()) {
    case TypeKind::integer:
    case TypeKind::boolean:
    case TypeKind::character:
      return add_integer(type);
    case TypeKind::floating:
      return btf__add_float(types_, type.plain_name().c_str(), type.size());
    case TypeKind::enumeration:
      return add_enumeration(type);
    case TypeKind::pointer:
    case TypeKind::reference:
      return type.size() == sizeof(std::uint64_t) ? btf__add_ptr(types_, 0) : 0;
    case TypeKind::array:
      return add_array(type, depth);
    case TypeKind::structure:
    case TypeKind::variants:
      return add_structure(type, depth);
    case TypeKind::unknown:
    case TypeKind::none:
    case TypeKind::function:
      break;
    }
    return 0;
  }

  int add_integer(const dwarf::Type& type) {
    if ((type.is_byte_swapped() && type.size() > 1) || type.bits() != 8 * type.size()) return 0;
    int encoding = type.is_signed() ? BTF_INT_SIGNED : 0;
    if (type.kind() == TypeKind::boolean) encoding = BTF_INT_BOOL;
    return btf__add_int(types_, type.plain_name().c_str(), type.size(), encoding);
  }

  int add_enumeration(const dwarf::Type& type) {
    const auto size = static_cast<std::uint32_t>(type.size());
    const int id = btf__add_enum64(types_, nullptr, size, type.is_signed());
    for (const dwarf::Enumerator& each : type.enumerators())
      if (id > 0 && !each.name.empty())
        btf__add_enum64_value(types_, each.name.c_str(), static_cast<std::uint64_t>(each.value));
    return id;
  }

  int add_array(const dwarf::Type& type, int depth) {
    // An array of unknown size, as the last member of a structure, has a row_count() of 0: in BTF
    // it is a flexible array member.
    const dwarf::Type* const element = type.dimensions() <= 1 ? type.target() : type.row();
    if (element == nullptr || type.descriptor() != nullptr ||
        type.row_count() > std::numeric_limits<std::uint32_t>::max())
      return 0;
    const int id = convert_member(*element, depth + 1);
    if (id <= 0) return 0;
    return btf__add_array(types_, id, id, static_cast<std::uint32_t>(type.row_count()));
  }

  int add_bytes(std::uint64_t size) {
    if (size > std::numeric_limits<std::uint32_t>::max()) return 0;
    const int byte = btf__add_int(types_, "unsigned char", 1, 0);
    return btf__add_array(types_, byte, byte, static_cast<std::uint32_t>(size));
  }

  int add_structure(const dwarf::Type& type, int depth) {
    if (type.discriminant() || !type.virtual_bases().empty()) return 0;
    std::vector<int> ids;
    for (const dwarf::Member& member : type.members()) {
      if (member.bits && member.type->is_byte_swapped()) return 0; // BTF has no byte-swapped bits
      ids.push_back(convert_member(*member.type, depth + 1));
      if (ids.back() <= 0) return 0;
    }
    const auto size = static_cast<std::uint32_t>(type.size());
    // TypeKind::variants is a union, unless it has a discriminant.
    const int id = type.kind() == TypeKind::structure ? btf__add_struct(types_, nullptr, size)
                                                      : btf__add_union(types_, nullptr, size);
    if (id <= 0) return 0;
    std::vector<std::pair<std::string, int>> tags; // tag and index of the member
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const dwarf::Member& member = type.members()[i];
      const std::uint64_t bit = 8 * member.offset + (member.bits ? member.bits->offset : 0);
      if (member.offset > size || bit > std::numeric_limits<int>::max()) return 0;
      if (btf__add_field(types_, member.name.c_str(), ids[i], static_cast<std::uint32_t>(bit),
                         member.bits ? member.bits->size : 0) != 0)
        return 0;
      for (const std::string& tag : member.tags) tags.emplace_back(tag, static_cast<int>(i));
    }
    for (const auto& [tag, member] : tags)
      if (!tag.empty()) btf__add_decl_tag(types_, tag.c_str(), id, member);
    return id;
  }

  btf* types_;
  std::map<const dwarf::Type*, int> ids_;
};

using TypeNames = std::set<std::string, std::less<>>;

// The names of the types of maps' keys and values.
struct MapTypes {
  TypeNames keys;
  TypeNames values; // of maps other than arrays
};

// A map is a variable of section .maps. Its structure has pointers: `type` to an array with as many
// elements as the number of the map's type, `key` and `value` to types.
MapTypes list_map_types(const btf* types) {
  MapTypes found;
  // Adds the names of a type's typedefs, and its own.
  const auto add_names = [&](TypeNames& names, const btf_type* type) {
    for (int depth = 0; type != nullptr && depth < max_debug_type_depth; ++depth) {
      names.emplace(bpf::btf_name(types, type->name_off));
      if (!btf_is_mod(type) && !btf_is_typedef(type)) break;
      type = btf__type_by_id(types, type->type);
    }
  };
  const auto add_map = [&](const btf_type* map) {
    const auto target_of = [&](std::string_view name) -> const btf_type* {
      for (int i = 0; i < btf_vlen(map); ++i) {
        if (bpf::btf_name(types, btf_members(map)[i].name_off) != name) continue;
        const btf_type* const pointer = bpf::resolved_type(types, btf_members(map)[i].type);
        if (pointer != nullptr && btf_is_ptr(pointer)) return btf__type_by_id(types, pointer->type);
      }
      return nullptr;
    };
    const btf_type* const kind = target_of("type");
    const std::uint32_t number = kind && btf_is_array(kind) ? btf_array(kind)->nelems : 0;
    const bool is_array = number == BPF_MAP_TYPE_ARRAY || number == BPF_MAP_TYPE_PERCPU_ARRAY;
    add_names(found.keys, target_of("key"));
    if (!is_array) add_names(found.values, target_of("value"));
  };
  for (std::uint32_t id = 1; id < btf__type_cnt(types); ++id) {
    const btf_type* const section = btf__type_by_id(types, id);
    if (!btf_is_datasec(section) || bpf::btf_name(types, section->name_off) != ".maps") continue;
    for (int i = 0; i < btf_vlen(section); ++i) {
      const btf_type* const map = bpf::resolved_type(types, btf_var_secinfos(section)[i].type);
      if (map != nullptr && btf_is_struct(map)) add_map(map);
    }
  }
  return found;
}

} // namespace

void BtfTypes::add(const dwarf::DebugInfo& debug) {
  if (!base_) {
    std::unique_ptr<btf, Free> more(btf__new_empty_split(types_.get()));
    if (!more) return;
    base_ = std::move(types_);
    types_ = std::move(more);
  }
  const auto of_maps = list_map_types(types_.get());
  BtfWriter writer(types_.get());
  for (const dwarf::NamedType& each : dwarf::list_named_types(debug)) {
    const int id = writer.add(each);
    if (id <= 0 || !each.has_variable || of_maps.keys.contains(each.name)) continue;
    variables_.insert_or_assign(static_cast<std::uint32_t>(id), of_maps.values.contains(each.name));
  }
}

} // namespace uprobectl::values
