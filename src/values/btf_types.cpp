// SPDX-License-Identifier: Apache-2.0
#include "values/btf_types.hpp"

#include "bpf/btf_reading.hpp"
#include "bpf/load_error.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <utility>

namespace uprobectl::values {

namespace {

constexpr int max_type_depth = 32;            // levels of nested types; damaged BTF may have more
constexpr std::size_t max_decoded = 1U << 16; // values in one decoded value or variable
constexpr std::size_t max_in_section = 1U << 20; // values in all variables of a section

// Returns the offset of the flexible array with which a type ends, in bytes: 0 for that array, more
// for a structure that has it in its last member; nullopt for other types.
std::optional<std::size_t> find_flexible_array(const btf* types, std::uint32_t id, int depth = 0) {
  const btf_type* const type = bpf::resolved_type(types, id);
  if (type == nullptr || depth > max_type_depth) return std::nullopt;
  if (btf_is_array(type))
    return btf_array(type)->nelems == 0 ? std::optional<std::size_t>(0) : std::nullopt;
  if (!btf_is_struct(type) || btf_vlen(type) == 0) return std::nullopt;
  const int last = btf_vlen(type) - 1;
  const auto inner = find_flexible_array(types, btf_members(type)[last].type, depth + 1);
  if (!inner) return std::nullopt;
  return *inner + btf_member_bit_offset(type, static_cast<std::uint32_t>(last)) / 8;
}

class Decoder {
public:
  explicit Decoder(const btf* types) : types_(types) {}

  std::optional<Value> decode(std::uint32_t id, Bytes bytes) { return decode(id, bytes, 0, true); }

private:
  // `is_last`: bytes beyond the type's size belong to its flexible array.
  std::optional<Value> decode(std::uint32_t id, Bytes bytes, int depth, bool is_last = false) {
    if (depth > max_type_depth || ++values_ > max_decoded) return std::nullopt;
    const btf_type* const type = bpf::resolved_type(types_, id);
    const std::int64_t size = btf__resolve_size(types_, id);
    if (type == nullptr || size < 0) return std::nullopt;
    const bool is_truncated = static_cast<std::size_t>(size) > bytes.size();
    if (is_truncated && (!can_be_cut(type) || bytes.empty())) return std::nullopt;
    const Bytes all_bytes = bytes;
    if (!is_truncated) bytes = bytes.first(static_cast<std::size_t>(size));
    switch (btf_kind(type)) {
    case BTF_KIND_INT:
      return decode_integer(type, bytes);
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
      return decode_enum(type, bytes);
    case BTF_KIND_FLOAT:
      return decode_real(bytes);
    case BTF_KIND_PTR:
      return Value{Value::Pointer{load(bytes)}};
    case BTF_KIND_ARRAY:
      return decode_array(btf_array(type), bytes, depth);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return decode_members(type, is_last && !is_truncated ? all_bytes : bytes, bytes.size(), depth,
                            is_truncated);
    case BTF_KIND_DATASEC:
      return decode_variables(type, bytes, depth);
    default:
      return std::nullopt;
    }
  }

  static bool can_be_cut(const btf_type* type) {
    return btf_is_composite(type) || btf_is_array(type);
  }

  // Loads at most eight bytes in the machine's byte order, which is little-endian.
  static std::uint64_t load(Bytes bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return value;
  }

  static Value make_number(std::uint64_t value, std::size_t bits, bool is_signed) {
    if (!is_signed) return {value};
    const std::size_t unused = 64 - bits;
    return {static_cast<std::int64_t>(value << unused) >> unused};
  }

  static Value decode_integer(const btf_type* type, Bytes bytes) {
    if (bytes.size() > sizeof(std::uint64_t) || bytes.empty()) return raw_value(bytes);
    const std::uint8_t encoding = btf_int_encoding(type);
    if ((encoding & BTF_INT_BOOL) != 0) return boolean_value(load(bytes));
    return make_number(load(bytes), bytes.size() * 8, (encoding & BTF_INT_SIGNED) != 0);
  }

  static std::int64_t signed_number(const btf_type* type, std::uint64_t value, std::size_t bits) {
    return number_of(make_number(value, bits, btf_kflag(type))).value_or(0);
  }

  Value enum_value(const btf_type* type, std::uint64_t value, std::size_t bits) const {
    const std::uint64_t mask = bits < 64 ? (1ULL << bits) - 1 : ~0ULL;
    // The enumeration is a set of flags if each enumerator is one bit.
    bool is_flags = true;
    std::uint64_t rest = value;
    std::string flags;
    for (const auto& [name, known] : bpf::btf_enumerators(types_, type)) {
      if ((known & mask) == (value & mask))
        return {Value::Name{std::string(name), signed_number(type, value, bits)}};
      rest &= ~known;
      is_flags = is_flags && (std::has_single_bit(known) || known == 0);
      if (known == 0 || (value & known) == 0) continue;
      if (!flags.empty()) flags += '|';
      flags += name;
    }
    if (is_flags && rest == 0 && value != 0)
      return {Value::Name{std::move(flags), signed_number(type, value, bits)}};
    return make_number(value, bits, btf_kflag(type));
  }

  Value decode_enum(const btf_type* type, Bytes bytes) const {
    if (bytes.size() > sizeof(std::uint64_t) || bytes.empty()) return raw_value(bytes);
    return enum_value(type, load(bytes), bytes.size() * 8);
  }

  static Value decode_real(Bytes bytes) {
    if (bytes.size() == sizeof(float)) {
      float value = 0;
      std::memcpy(&value, bytes.data(), sizeof(value));
      return {static_cast<double>(value)};
    }
    if (bytes.size() != sizeof(double)) return raw_value(bytes);
    double value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return {value};
  }

  std::optional<Value> decode_array(const struct btf_array* shape, Bytes bytes, int depth) {
    const bpf::ByteArray kind = bpf::classify_elements(types_, shape->type);
    if (kind == bpf::ByteArray::text) {
      const auto* const text = reinterpret_cast<const char*>(bytes.data());
      return Value{std::string(text, ::strnlen(text, bytes.size()))};
    }
    if (kind == bpf::ByteArray::bytes) return raw_value(bytes);
    const std::int64_t known_size = btf__resolve_size(types_, shape->type);
    if (known_size < 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(known_size);
    Value::Array values;
    for (std::uint32_t i = 0; i < shape->nelems; ++i) {
      const Bytes rest = bytes.subspan(i * size);
      if (rest.empty() && size != 0) break; // truncated
      if (rest.size() < size) {
        values.push_back(raw_value(rest));
        break;
      }
      auto value = decode(shape->type, rest.first(size), depth + 1);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return Value{std::move(values)};
  }

  // `size`: bytes of the type, or fewer if truncated. `whole` may have more: the elements of a
  // flexible array member.
  std::optional<Value> decode_members(const btf_type* type, Bytes whole, std::size_t size,
                                      int depth, bool is_truncated) {
    Value::Struct values;
    for (int i = 0; i < btf_vlen(type); ++i) {
      const btf_member& member = btf_members(type)[i];
      const std::uint32_t bit = btf_member_bit_offset(type, static_cast<std::uint32_t>(i));
      const std::uint32_t width = btf_member_bitfield_size(type, static_cast<std::uint32_t>(i));
      const bool ends_in_flexible_array =
          i + 1 == btf_vlen(type) && find_flexible_array(types_, member.type, depth).has_value();
      const bool is_flexible_array =
          ends_in_flexible_array && flexible_array(member.type) != nullptr;
      const Bytes bytes = ends_in_flexible_array ? whole : whole.first(size);
      if (bit / 8 > bytes.size()) {
        if (is_truncated) break;
        return std::nullopt;
      }
      auto value = is_flexible_array && bit / 8 < bytes.size()
                       ? decode_flexible_array(member.type, bytes.subspan(bit / 8), depth)
                   : width != 0 ? decode_bit_field(member.type, bytes, bit, width)
                                : decode(member.type, bytes.subspan(bit / 8), depth + 1,
                                         ends_in_flexible_array);
      if (!value && is_truncated) {
        if (bit / 8 < bytes.size() && btf_is_struct(type))
          values.push_back({"<rest>", raw_value(bytes.subspan(bit / 8))});
        if (btf_is_struct(type)) break;
        continue;
      }
      if (!value) return std::nullopt;
      values.push_back({std::string(bpf::btf_name(types_, member.name_off)), std::move(*value)});
    }
    if (is_truncated && values.empty()) return std::nullopt;
    return Value{std::move(values)};
  }

  // Returns the array if the type is that of a flexible array member, else null.
  const struct btf_array* flexible_array(std::uint32_t id) const {
    const btf_type* const type = bpf::resolved_type(types_, id);
    return type != nullptr && btf_is_array(type) && btf_array(type)->nelems == 0 ? btf_array(type)
                                                                                 : nullptr;
  }

  std::optional<Value> decode_flexible_array(std::uint32_t id, Bytes bytes, int depth) {
    struct btf_array shape = *flexible_array(id);
    const std::int64_t size = btf__resolve_size(types_, shape.type);
    if (size <= 0) return std::nullopt;
    shape.nelems = static_cast<std::uint32_t>((bytes.size() + static_cast<std::size_t>(size) - 1) /
                                              static_cast<std::size_t>(size));
    return decode_array(&shape, bytes, depth);
  }

  std::optional<Value> decode_variables(const btf_type* type, Bytes bytes, int depth) {
    Value::Struct values;
    for (int i = 0; i < btf_vlen(type); ++i) {
      const btf_var_secinfo& entry = btf_var_secinfos(type)[i];
      const btf_type* const variable = btf__type_by_id(types_, entry.type);
      const auto part = slice(bytes, entry.offset, entry.size);
      if (variable == nullptr || !part) return std::nullopt;
      earlier_values_ += std::exchange(values_, 0); // each variable has the whole max_decoded
      std::optional<Value> value;                   // beyond max_in_section the rest is raw
      if (earlier_values_ <= max_in_section) value = decode(entry.type, *part, depth + 1);
      values.push_back({std::string(bpf::btf_name(types_, variable->name_off)),
                        value ? std::move(*value) : raw_value(*part)});
    }
    return Value{std::move(values)};
  }

  std::optional<Value> decode_bit_field(std::uint32_t id, Bytes bytes, std::uint32_t bit,
                                        std::uint32_t width) const {
    const std::size_t first = bit / 8;
    const std::size_t length = (bit % 8 + width + 7) / 8;
    if (width > 64 || length > bytes.size() - first) return std::nullopt;
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      const std::uint32_t at = bit + i;
      const auto byte = std::to_integer<unsigned>(bytes[at / 8]);
      value |= std::uint64_t{(byte >> (at % 8)) & 1U} << i;
    }
    const btf_type* const type = bpf::resolved_type(types_, id);
    if (type != nullptr && btf_is_any_enum(type)) return enum_value(type, value, width);
    if (type == nullptr || !btf_is_int(type)) return std::nullopt;
    if ((btf_int_encoding(type) & BTF_INT_BOOL) != 0) return boolean_value(value);
    return make_number(value, width, (btf_int_encoding(type) & BTF_INT_SIGNED) != 0);
  }

  const btf* types_;
  std::size_t values_ = 0;         // decoded of this value, or of this variable of a section
  std::size_t earlier_values_ = 0; // decoded of the variables before this one
};

// The declaration tags of members that say how they are shown.
class TagIndex {
public:
  explicit TagIndex(const btf* types) : types_(types) {
    for (std::uint32_t id = 1; id < btf__type_cnt(types); ++id) {
      const btf_type* const tag = btf__type_by_id(types, id);
      if (!btf_is_decl_tag(tag)) continue;
      if (const auto as = parse_shown_as(bpf::btf_name(types, tag->name_off)))
        tags_.try_emplace({tag->type, btf_decl_tag(tag)->component_idx}, *as);
    }
  }

  const std::map<std::pair<std::uint32_t, int>, ShownAs>& all() const { return tags_; }

  void list(std::uint32_t id, const std::string& path, std::vector<ShownAsRule>& found,
            int depth = 0) {
    if (tags_.empty() || depth > max_type_depth || found.size() >= max_tags) return;
    if (--visits_left_ < 0) return;
    // A typedef or variable may have a tag of its own.
    const auto own = tags_.find({id, -1});
    if (own != tags_.end()) return add(path, own->second, found);
    const btf_type* const type = btf__type_by_id(types_, id);
    if (type == nullptr) return;
    if (btf_is_mod(type) || btf_is_typedef(type) || btf_is_var(type))
      return list(type->type, path, found, depth + 1);
    if (btf_is_array(type)) return list(btf_array(type)->type, path, found, depth + 1);
    const auto inner = [&](std::uint32_t name) {
      const std::string_view member_name = bpf::btf_name(types_, name);
      if (member_name.empty() || path.empty()) return path + std::string(member_name);
      return path + "." + std::string(member_name);
    };
    for (int i = 0; btf_is_composite(type) && i < btf_vlen(type); ++i) {
      const btf_member& member = btf_members(type)[i];
      const auto tag = tags_.find({id, i});
      if (tag != tags_.end())
        add(inner(member.name_off), tag->second, found);
      else
        list(member.type, inner(member.name_off), found, depth + 1);
    }
    for (int i = 0; btf_is_datasec(type) && i < btf_vlen(type); ++i) {
      const std::uint32_t variable = btf_var_secinfos(type)[i].type;
      if (const btf_type* const known = btf__type_by_id(types_, variable))
        list(variable, inner(known->name_off), found, depth + 1);
    }
  }

private:
  static constexpr std::size_t max_tags = 1024;

  static void add(const std::string& path, ShownAs as, std::vector<ShownAsRule>& found) {
    found.push_back({.path = path, .as = as});
  }

  const btf* types_;
  std::map<std::pair<std::uint32_t, int>, ShownAs> tags_; // by type and member; -1: the type
  int visits_left_ = 1 << 16; // damaged types may contain each other many times
};

// Builds the ValueType of a BTF type. It must agree with the values that Decoder makes.
class ValueTypeBuilder {
public:
  explicit ValueTypeBuilder(const btf* types) : types_(types) {}

  ValueType make(std::uint32_t id, int depth = 0) {
    if (depth > max_type_depth || --visits_left_ < 0)
      return make_unreadable("its type is too large");
    std::string name;
    const btf_type* type = btf__type_by_id(types_, id);
    for (int i = 0; type != nullptr && is_wrapper(type); ++i) {
      if (i == max_type_depth) return make_unreadable("its type is damaged");
      if (name.empty() && btf_is_typedef(type)) name = bpf::btf_name(types_, type->name_off);
      id = type->type;
      type = btf__type_by_id(types_, id);
    }
    const std::int64_t size = type == nullptr ? -1 : btf__resolve_size(types_, id);
    if (size < 0) return make_unreadable("its type is not known");
    if (name.empty()) name = bpf::btf_name(types_, type->name_off);
    if (name.empty()) name = btf_is_any_enum(type) ? "the enumeration" : "a structure";
    ValueType made{.name = std::move(name),
                   .bits = static_cast<unsigned>(8 * std::min<std::int64_t>(size, 8))};
    switch (btf_kind(type)) {
    case BTF_KIND_INT:
      made.is_signed = (btf_int_encoding(type) & BTF_INT_SIGNED) != 0;
      return size >= 1 && size <= 8 ? made : make_bytes(std::move(made), size);
    case BTF_KIND_FLOAT:
      made.is_floating = true;
      return size == sizeof(float) || size == sizeof(double) ? made
                                                             : make_bytes(std::move(made), size);
    case BTF_KIND_PTR:
      made.name = "an address";
      made.is_address = true;
      return made;
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
      return make_enumeration(type, std::move(made));
    case BTF_KIND_ARRAY:
      return make_array(btf_array(type), size, depth);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return make_members(type, std::move(made), depth);
    case BTF_KIND_DATASEC:
      return make_variables(type, std::move(made), depth);
    default:
      return make_unreadable("its type has no value");
    }
  }

private:
  // Whether the type has the value of another: const, volatile, a typedef, a variable.
  static bool is_wrapper(const btf_type* type) {
    return btf_is_mod(type) || btf_is_typedef(type) || btf_is_var(type);
  }

  static ValueType make_unreadable(std::string problem) {
    return {.use = ValueUse::none, .name = "a value", .problem = std::move(problem)};
  }

  static ValueType make_bytes(ValueType type, std::int64_t size) {
    type.use = ValueUse::bytes;
    if (size > 0) type.size = static_cast<std::uint64_t>(size);
    return type;
  }

  ValueType make_enumeration(const btf_type* type, ValueType made) const {
    made.is_signed = btf_kflag(type);
    const std::uint64_t mask = made.bits < 64 ? (1ULL << made.bits) - 1 : ~0ULL;
    auto names = std::make_shared<Enumeration>(Enumeration{.name = made.name});
    for (const auto& [name, value] : bpf::btf_enumerators(types_, type))
      names->enumerators.push_back(
          {.name = std::string(name),
           .value = static_cast<std::int64_t>(made.is_signed ? value : value & mask)});
    made.enumeration = std::move(names);
    return made;
  }

  ValueType make_array(const struct btf_array* shape, std::int64_t size, int depth) {
    ValueType made{.use = ValueUse::none, .name = "an array"};
    const bpf::ByteArray kind = bpf::classify_elements(types_, shape->type);
    if (kind == bpf::ByteArray::bytes) return make_bytes(std::move(made), size);
    if (kind == bpf::ByteArray::text) {
      made.use = ValueUse::text;
      return made;
    }
    ValueType& element = made.element.emplace_back(make(shape->type, depth + 1));
    const std::int64_t element_size = btf__resolve_size(types_, shape->type);
    // The number of elements follows from both sizes. Text elements get none: a size would change
    // how they are compared.
    if (size > 0 && element_size > 0 && element.use != ValueUse::text) {
      made.size = static_cast<std::uint64_t>(size);
      element.size = static_cast<std::uint64_t>(element_size);
    }
    return made;
  }

  ValueType make_members(const btf_type* type, ValueType made, int depth) {
    made.use = ValueUse::none;
    for (int i = 0; i < btf_vlen(type); ++i) {
      const btf_member& member = btf_members(type)[i];
      ValueType each = make(member.type, depth + 1);
      each.member_name = bpf::btf_name(types_, member.name_off);
      const std::uint32_t width = btf_member_bitfield_size(type, static_cast<std::uint32_t>(i));
      if (width != 0 && width <= 64) each.bits = width;
      made.members.push_back(std::move(each));
    }
    return made;
  }

  ValueType make_variables(const btf_type* type, ValueType made, int depth) {
    made.use = ValueUse::none;
    for (int i = 0; i < btf_vlen(type); ++i) {
      const std::uint32_t id = btf_var_secinfos(type)[i].type;
      const btf_type* const variable = btf__type_by_id(types_, id);
      ValueType each = make(id, depth + 1);
      if (variable != nullptr) each.member_name = bpf::btf_name(types_, variable->name_off);
      made.members.push_back(std::move(each));
    }
    return made;
  }

  const btf* types_;
  int visits_left_ = 1 << 14; // damaged types may contain each other many times
};

bool can_be_named(const btf_type* type) {
  return btf_is_composite(type) || btf_is_typedef(type) || btf_is_any_enum(type) ||
         btf_is_int(type);
}

std::string_view without_keyword(std::string_view name) {
  for (const std::string_view keyword : {"struct ", "union ", "enum "})
    if (name.starts_with(keyword)) return name.substr(keyword.size());
  return name;
}

} // namespace

void BtfTypes::Free::operator()(btf* types) const { btf__free(types); }

BtfTypes::BtfTypes() : types_(btf__new_empty()) {}

Result<BtfTypes> BtfTypes::parse(Bytes blob) {
  btf* const types = btf__new(blob.data(), static_cast<std::uint32_t>(blob.size()));
  if (types == nullptr) return fail(ErrorKind::corrupt, "damaged BTF type information");
  return BtfTypes(types);
}

Result<BtfTypes> BtfTypes::load_from_kernel(std::uint32_t btf_id) {
  btf* const types = btf__load_from_kernel_by_id(btf_id);
  if (types == nullptr)
    return fail(bpf::bpf_load_error(errno, "cannot read BTF type information from the kernel"));
  return BtfTypes(types);
}

std::optional<std::uint32_t> BtfTypes::add(const BtfTypes& other) {
  const int first = btf__add_btf(types_.get(), other.types_.get());
  return first > 0 ? std::optional(static_cast<std::uint32_t>(first) - 1) : std::nullopt;
}

void BtfTypes::begin_object(std::size_t object, std::optional<std::uint32_t> first) {
  objects_.insert_or_assign(first.value_or(btf__type_cnt(types_.get())), object);
}

std::optional<BtfTypes::Type> BtfTypes::type(std::uint32_t id) const {
  const btf_type* const type = btf__type_by_id(types_.get(), id);
  const std::int64_t size = btf__resolve_size(types_.get(), id);
  if (type == nullptr || size < 0) return std::nullopt;
  Type found{.name = std::string(bpf::btf_name(types_.get(), type->name_off)),
             .id = id,
             .size = static_cast<std::size_t>(size)};
  if (const auto variable = variables_.find(id); variable != variables_.end()) {
    found.has_variable = true;
    found.is_map_value = variable->second;
  }
  if (const auto next = objects_.upper_bound(id); next != objects_.begin())
    found.object = std::prev(next)->second;
  const btf_type* const shape = bpf::resolved_type(types_.get(), id);
  if (shape == nullptr || !btf_is_struct(shape) || btf_vlen(shape) == 0) return found;
  if (const auto open = find_flexible_array(types_.get(), id)) {
    found.tail = *open;
    found.has_flexible_array = true;
    return found;
  }
  for (int i = 0; i < btf_vlen(shape); ++i) {
    const std::uint32_t id_of_member = btf_members(shape)[i].type;
    const btf_type* const array = bpf::resolved_type(types_.get(), id_of_member);
    if (array == nullptr || !btf_is_array(array)) continue;
    const std::int64_t array_size = btf__resolve_size(types_.get(), id_of_member);
    if (array_size < size / 2) continue;
    found.tail = btf_member_bit_offset(shape, static_cast<std::uint32_t>(i)) / 8;
    found.tail_size = static_cast<std::size_t>(std::max<std::int64_t>(array_size, 0));
  }
  return found;
}

Result<BtfTypes::Type> BtfTypes::find(std::string_view name,
                                      std::optional<std::size_t> object) const {
  const std::string_view plain_name = without_keyword(name);
  std::optional<Type> in_other_object;
  std::vector<std::string> known;
  for (std::uint32_t id = 1; id < btf__type_cnt(types_.get()); ++id) {
    const btf_type* const candidate = btf__type_by_id(types_.get(), id);
    if (!can_be_named(candidate)) continue;
    const std::string_view candidate_name = bpf::btf_name(types_.get(), candidate->name_off);
    if (candidate_name == plain_name)
      if (auto found = type(id)) {
        if (!object || found->object == object) return std::move(*found);
        if (!in_other_object) in_other_object = std::move(found);
      }
    if ((btf_is_composite(candidate) || btf_is_typedef(candidate)) && !candidate_name.empty())
      known.emplace_back(candidate_name);
  }
  if (in_other_object) return std::move(*in_other_object);
  Error error{ErrorKind::not_found,
              fmt::format("no type '{}' in its BTF and debug information", plain_name)};
  if (const auto near = nearest(plain_name, known); !near.empty())
    return fail(std::move(error).hint(did_you_mean(near)));
  return fail(std::move(error));
}

std::vector<BtfTypes::Type>
BtfTypes::find_structures(const std::function<bool(const Type&)>& is_wanted) const {
  std::vector<Type> found;
  for (std::uint32_t id = 1; id < btf__type_cnt(types_.get()); ++id) {
    const btf_type* const shape = bpf::resolved_type(types_.get(), id);
    if (shape == nullptr || !btf_is_composite(shape)) continue;
    auto candidate = type(id);
    if (candidate && !candidate->name.empty() && is_wanted(*candidate) &&
        std::ranges::find(found, candidate->name, &Type::name) == found.end())
      found.push_back(std::move(*candidate));
  }
  return found;
}

ValueType BtfTypes::value_type(std::uint32_t id) const {
  return ValueTypeBuilder(types_.get()).make(id);
}

std::vector<ShownAsRule> BtfTypes::list_tags(std::uint32_t id) const {
  std::vector<ShownAsRule> found;
  TagIndex(types_.get()).list(id, {}, found);
  return found;
}

bool BtfTypes::has_tag(std::initializer_list<ShownAs> wanted) const {
  const TagIndex index(types_.get());
  return std::ranges::any_of(index.all(), [&](const auto& tag) {
    return std::ranges::find(wanted, tag.second) != wanted.end();
  });
}

std::optional<Value> BtfTypes::decode(std::uint32_t id, Bytes bytes) const {
  return Decoder(types_.get()).decode(id, bytes);
}

} // namespace uprobectl::values
