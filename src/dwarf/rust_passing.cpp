// SPDX-License-Identifier: Apache-2.0
#include "dwarf/rust_passing.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::dwarf {

namespace {

constexpr std::uint64_t rust_word = 8; // bytes
constexpr int max_rust_nesting = 16;   // of types
constexpr std::size_t max_rust_visits = 4096;
constexpr std::size_t max_variants = 256; // of an enum that may be passed in registers

// A type that is looked into. Bounds the work for types that contain each other many times.
class Visit {
public:
  explicit Visit(std::size_t& left) : left_(left) {}
  Visit deeper() const {
    Visit next = *this;
    ++next.depth_;
    return next;
  }
  bool ends() const {
    if (left_ > 0) --left_;
    return left_ == 0 || depth_ > max_rust_nesting;
  }

private:
  std::size_t& left_;
  int depth_ = 0;
};

// How rustc keeps values of a type (BackendRepr): a pair is of two scalars.
enum class Form : std::uint8_t { nothing, scalar, pair, memory, unknown };

struct Kept {
  Form form = Form::unknown;
  std::vector<RustScalar> scalars = {};
  // repr(C) would keep it in memory: one number of its size instead of its scalars.
  bool unless_repr_c = false;
};

struct Field {
  const Member* member = nullptr;
  Kept kept;
};

// Types without repr(C): those of the language and of its standard library.
bool is_surely_rusts(const Type& type) {
  const std::string& name = type.plain_name();
  return std::ranges::any_of(std::array{"(", "&", "*", "core::", "alloc::", "std::"},
                             [&](const char* prefix) { return name.starts_with(prefix); });
}

// Types with repr(simd), whose one field is an array: `Simd<f32, 4>`, `__m128i`. The structures
// around them, such as `Mask`, are looked into.
bool is_rust_vector(const Type& type) {
  const std::string& name = type.plain_name();
  return std::ranges::any_of(std::array{"core::core_simd::", "core::core_arch::", "core::simd::"},
                             [&](const char* prefix) { return name.starts_with(prefix); }) &&
         type.members().size() == 1 && type.members()[0].type->kind() == TypeKind::array;
}

std::uint64_t next_multiple(std::uint64_t number, std::uint64_t of) {
  return of == 0 ? number : (number + of - 1) / of * of;
}

bool has_floats(const Type& type, Visit visit) {
  if (type.kind() == TypeKind::floating || visit.ends()) return true;
  if (type.kind() == TypeKind::array)
    return type.target() == nullptr || has_floats(*type.target(), visit.deeper());
  return type.is_aggregate() && std::ranges::any_of(type.members(), [&](const Member& member) {
           return has_floats(*member.type, visit.deeper());
         });
}

Kept keep(const Type& type, Visit visit);

Kept keep_scalar(const Type& type) {
  // The type of a function has no size, unlike a pointer to it, which is described in the same way.
  if (type.kind() == TypeKind::pointer && type.target() != nullptr &&
      type.target()->kind() == TypeKind::function)
    return {};
  const bool is_floating = type.kind() == TypeKind::floating;
  const std::uint64_t size = type.size();
  if (is_floating ? size != 4 && size != 8 : size > 2 * rust_word) return {};
  return {.form = Form::scalar, .scalars = {{.size = size, .is_floating = is_floating}}};
}

// Two scalars that fill a type as they would alone.
bool is_pair(const RustScalar& first, const RustScalar& second, std::uint64_t size) {
  return first.offset == 0 && second.offset == next_multiple(first.size, second.size) &&
         size == next_multiple(second.offset + second.size, std::max(first.size, second.size));
}

// The fields that have a size; nullopt if one is not known.
std::optional<std::vector<Field>> fields_of(const Type& type, Visit visit) {
  std::vector<Field> fields;
  for (const Member& member : type.members()) {
    if (fields.size() > max_variants || member.bits) return std::nullopt;
    Field field{&member, keep(*member.type, visit.deeper())};
    if (field.kept.form == Form::unknown) return std::nullopt;
    if (field.kept.form != Form::nothing) fields.push_back(std::move(field));
  }
  return fields;
}

// A structure, or a variant of an enum, of these fields in `size` bytes.
Kept keep_fields(std::vector<Field> fields, std::uint64_t size, bool is_surely) {
  if (fields.empty()) return {};
  if (fields.size() == 1) {
    Field& only = fields.front();
    if (only.member->offset != 0 || only.member->type->size() != size)
      return {.form = Form::memory};
    only.kept.unless_repr_c = only.kept.unless_repr_c || !is_surely;
    return std::move(only.kept);
  }
  if (fields.size() > 2 || fields[0].kept.form != Form::scalar ||
      fields[1].kept.form != Form::scalar)
    return {.form = Form::memory};
  std::ranges::sort(fields, {}, [](const Field& each) { return each.member->offset; });
  Kept kept{.form = Form::pair, .unless_repr_c = !is_surely};
  for (const Field& each : fields) {
    kept.scalars.push_back(each.kept.scalars.front());
    kept.scalars.back().offset += each.member->offset;
    kept.unless_repr_c = kept.unless_repr_c || each.kept.unless_repr_c;
  }
  return is_pair(kept.scalars[0], kept.scalars[1], size) ? kept : Kept{.form = Form::memory};
}

Kept keep_structure(const Type& type, Visit visit) {
  auto fields = fields_of(type, visit);
  if (!fields) return {};
  if (is_rust_vector(type)) return {};
  return keep_fields(std::move(*fields), type.size(), is_surely_rusts(type));
}

// The fields of a variant, with offsets from the start of the enum.
std::optional<std::vector<Field>> fields_of_variant(const Member& variant, Visit visit) {
  if (variant.offset != 0 || variant.type->kind() != TypeKind::structure) return std::nullopt;
  return fields_of(*variant.type, visit.deeper());
}

bool overlap(const Member& a, const Member& b) {
  return a.offset < b.offset + b.type->size() && b.offset < a.offset + a.type->size();
}

// One scalar for all variants after the discriminant.
Kept keep_tagged(const Type& type, const Member& tag,
                 const std::vector<std::vector<Field>>& variants) {
  std::optional<RustScalar> common;
  const Type* common_type = nullptr;
  bool is_unsure = !is_surely_rusts(type);
  for (const std::vector<Field>& fields : variants) {
    if (fields.empty()) continue;
    if (fields.size() > 1 || fields.front().kept.form != Form::scalar)
      return {.form = Form::memory};
    const Field& field = fields.front();
    RustScalar scalar = field.kept.scalars.front();
    scalar.offset += field.member->offset;
    if (common && (common->offset != scalar.offset || common->size != scalar.size ||
                   common->is_floating != scalar.is_floating))
      return {.form = Form::memory};
    // Older versions keep numbers with and without a sign, or a pointer, apart.
    is_unsure =
        is_unsure || field.kept.unless_repr_c ||
        (common_type != nullptr && common_type->plain_name() != field.member->type->plain_name());
    common = scalar;
    common_type = field.member->type;
  }
  const RustScalar first{.size = tag.type->size()};
  if (tag.offset != 0) return {};
  if (!common)
    return first.size == type.size() ? Kept{.form = Form::scalar, .scalars = {first}} : Kept{};
  if (!is_pair(first, *common, type.size())) return {.form = Form::memory};
  return {.form = Form::pair, .scalars = {first, *common}, .unless_repr_c = is_unsure};
}

Kept keep_enum(const Type& type, const Member& tag, Visit visit) {
  if (type.members().size() > max_variants || !tag.type->is_scalar()) return {};
  std::vector<std::vector<Field>> variants;
  std::size_t with_fields = 0;
  bool is_niche = false;
  for (const Member& variant : type.members()) {
    auto fields = fields_of_variant(variant, visit);
    if (!fields) return {};
    with_fields += fields->empty() ? 0 : 1;
    for (const Field& each : *fields) is_niche = is_niche || overlap(*each.member, tag);
    variants.push_back(std::move(*fields));
  }
  if (!is_niche) return keep_tagged(type, tag, variants);
  // The discriminant is a value that one of the fields cannot have.
  if (with_fields > 1) return {.form = Form::memory};
  const auto filled =
      std::ranges::find_if(variants, [](const auto& fields) { return !fields.empty(); });
  return keep_fields(std::move(*filled), type.size(), true);
}

Kept keep(const Type& type, Visit visit) {
  if (visit.ends()) return {};
  if (type.is_scalar()) return type.size() == 0 ? Kept{.form = Form::nothing} : keep_scalar(type);
  if (type.kind() == TypeKind::array) {
    if (type.target() == nullptr || keep(*type.target(), visit.deeper()).form == Form::unknown)
      return {};
    return {.form = type.size() == 0 ? Form::nothing : Form::memory};
  }
  if (type.kind() != TypeKind::structure) return {}; // a union, or not known
  if (type.discriminant()) return keep_enum(type, *type.discriminant(), visit);
  if (type.size() == 0) return fields_of(type, visit) ? Kept{.form = Form::nothing} : Kept{};
  return keep_structure(type, visit);
}

} // namespace

std::optional<RustScalars> scalars_in_rust(const Type& type) {
  std::size_t left = max_rust_visits;
  Kept kept = keep(type, Visit(left));
  const bool has_wide = std::ranges::any_of(
      kept.scalars, [](const RustScalar& scalar) { return scalar.size > rust_word; });
  const bool has_floating = std::ranges::any_of(kept.scalars, &RustScalar::is_floating);
  switch (kept.form) {
  case Form::unknown:
    return std::nullopt;
  case Form::nothing:
    return RustScalars{};
  case Form::scalar:
    if (kept.unless_repr_c && (has_floating || has_wide)) return std::nullopt;
    return RustScalars{std::move(kept.scalars)};
  case Form::pair:
    if (has_wide || (kept.unless_repr_c && (has_floating || type.size() <= rust_word)))
      return std::nullopt;
    return RustScalars{std::move(kept.scalars), kept.unless_repr_c};
  case Form::memory: // small ones as one number; C looks at what is in them
    if (type.size() > rust_word ||
        (has_floats(type, Visit(left)) && !is_surely_rusts(type) && type.kind() != TypeKind::array))
      return std::nullopt;
    return RustScalars{{{.size = type.size()}}};
  }
  return std::nullopt;
}

} // namespace uprobectl::dwarf
