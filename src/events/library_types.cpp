// SPDX-License-Identifier: Apache-2.0
#include "events/library_types.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace uprobectl::events {

namespace {

using dwarf::Member;
using dwarf::Type;
using dwarf::TypeKind;

constexpr int max_visits = 1000; // of structures in one search
constexpr int max_nesting = 12;  // of members and base classes; std::tuple has one base an element
constexpr std::uint64_t word_bytes = 8;

bool is_structure(const Type& type) {
  return type.kind() == dwarf::TypeKind::structure || type.kind() == dwarf::TypeKind::variants;
}

// Finds a member anywhere inside the type, the outer ones first.
template <typename Test>
std::optional<FoundMember> find_inside(const Type& type, const Test& test, int& visits,
                                       int depth = 0) {
  if (!is_structure(type) || depth > max_nesting || ++visits > max_visits) return std::nullopt;
  for (const Member& member : type.members())
    if (test(member)) return FoundMember{member.type, member.offset, member.bits};
  for (const Member& member : type.members()) {
    auto found = find_inside(*member.type, test, visits, depth + 1);
    if (!found) continue;
    found->offset += member.offset;
    return found;
  }
  return std::nullopt;
}

template <typename Test>
std::optional<FoundMember> find_inside(const Type& type, const Test& test) {
  int visits = 0;
  return find_inside(type, test, visits);
}

std::optional<FoundMember> find_named(const Type& type, std::string_view name) {
  return find_inside(type, [&](const Member& member) { return member.name == name; });
}

bool is_pointer(const Type& type) {
  return type.kind() == dwarf::TypeKind::pointer && type.target() != nullptr;
}

std::optional<FoundMember> find_pointer(const Type& type, std::string_view name) {
  return find_inside(
      type, [&](const Member& member) { return member.name == name && is_pointer(*member.type); });
}

// Whether the text is that of template arguments and nothing after them: "<char>", not
// "<char>::(anonymous union)".
bool ends_with_arguments(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && --depth == 0) return i + 1 == text.size();
  }
  return false;
}

// Returns the name of a class template or class of namespace std, without the inline namespaces of
// libraries and their versions, whose names are reserved for them: "chrono::duration" for
// "std::__1::chrono::duration<…>". Empty for other types.
std::string standard_name(const Type& type) {
  std::string_view rest = type.plain_name();
  if (!rest.starts_with("std::")) return {};
  rest.remove_prefix(5);
  std::string name;
  for (;;) {
    const auto end = rest.find_first_of("<:");
    const std::string_view part = rest.substr(0, end);
    const bool is_scope = end != std::string_view::npos && rest.substr(end).starts_with("::");
    if (!is_scope && end != std::string_view::npos && !ends_with_arguments(rest.substr(end)))
      return {};
    if (!is_scope) return name += part;
    if (!part.starts_with('_')) name += fmt::format("{}::", part);
    rest.remove_prefix(end + 2);
  }
}

const Type* first_type_argument(const Type& type) {
  const auto& arguments = type.template_arguments();
  return arguments.empty() ? nullptr : arguments.front().type;
}

bool is_character(const Type* type) {
  return type != nullptr && type->kind() == dwarf::TypeKind::character && type->size() == 1;
}

// The names that the members of a type have in one library.
struct MemberNames {
  std::string_view pointer;
  std::string_view length;
};

std::optional<LibraryType> find_sequence(const Type& type, LibraryType::Kind kind,
                                         std::span<const MemberNames> names) {
  for (const MemberNames& each : names) {
    const auto pointer = find_pointer(type, each.pointer);
    const auto length = find_named(type, each.length);
    if (!pointer || !length || length->type->size() != word_bytes) continue;
    const std::uint64_t element = pointer->type->target()->size();
    if (kind == LibraryType::Kind::text && element != 1) continue;
    return LibraryType{.kind = kind,
                       .type = pointer->type->target(),
                       .offset = pointer->offset,
                       .length_offset = length->offset,
                       .length_is_end = is_pointer(*length->type)};
  }
  return std::nullopt;
}

std::optional<LibraryType> find_span(const Type& type) {
  constexpr std::array<MemberNames, 3> names = {{{.pointer = "_M_ptr", .length = "_M_extent_value"},
                                                 {.pointer = "__data_", .length = "__size_"},
                                                 {.pointer = "__data", .length = "__size"}}};
  if (auto found = find_sequence(type, LibraryType::Kind::sequence, names)) return found;
  // One with a static extent has only the pointer.
  const auto& arguments = type.template_arguments();
  if (arguments.empty() || !arguments.back().value || type.size() != word_bytes)
    return std::nullopt;
  const auto length = static_cast<std::uint64_t>(*arguments.back().value);
  for (const MemberNames& each : names)
    if (const auto pointer = find_pointer(type, each.pointer))
      return LibraryType{.kind = LibraryType::Kind::sequence,
                         .type = pointer->type->target(),
                         .offset = pointer->offset,
                         .fixed_length = length};
  return std::nullopt;
}

std::optional<LibraryType> find_pointer_class(const Type& type,
                                              std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto pointer = find_pointer(type, name))
      return LibraryType{
          .kind = LibraryType::Kind::pointer, .type = pointer->type, .offset = pointer->offset};
  // libc++ before LLVM 20 keeps the pointer in a pair that has no storage for an empty deleter.
  if (const auto pair = find_named(type, "__ptr_"))
    if (const auto value = find_pointer(*pair->type, "__value_"))
      return LibraryType{.kind = LibraryType::Kind::pointer,
                         .type = value->type,
                         .offset = pair->offset + value->offset};
  return std::nullopt;
}

// In libstdc++ the pointer is the first element of a tuple, whose bases are in reverse order.
std::optional<LibraryType> find_unique_pointer(const Type& type) {
  constexpr std::array<std::string_view, 1> names = {"__ptr_"};
  const auto first = find_inside(type, [](const Member& member) {
    return member.is_base && standard_name(*member.type) == "_Head_base" &&
           !member.type->template_arguments().empty() &&
           member.type->template_arguments().front().value == 0;
  });
  if (!first) return find_pointer_class(type, names);
  const auto pointer = find_pointer(*first->type, "_M_head_impl");
  if (!pointer) return std::nullopt;
  return LibraryType{.kind = LibraryType::Kind::pointer,
                     .type = pointer->type,
                     .offset = first->offset + pointer->offset};
}

std::optional<LibraryType> find_optional(const Type& type) {
  constexpr std::array<MemberNames, 2> names = {{{.pointer = "_M_value", .length = "_M_engaged"},
                                                 {.pointer = "__val_", .length = "__engaged_"}}};
  for (const MemberNames& each : names) {
    const auto value = find_named(type, each.pointer);
    const auto flag = find_named(type, each.length);
    if (value && flag)
      return LibraryType{.kind = LibraryType::Kind::optional,
                         .type = value->type,
                         .offset = value->offset,
                         .length_offset = flag->offset,
                         .flag = flag->type};
  }
  return std::nullopt;
}

// Returns the tick of std::chrono::duration<long, std::ratio<1, 1000>>: 1/1000 of a second.
std::optional<values::TickPeriod> tick_of_duration(const Type& type) {
  const auto& arguments = type.template_arguments();
  if (arguments.size() < 2 || arguments[1].type == nullptr) return std::nullopt;
  const auto& ratio = arguments[1].type->template_arguments();
  if (ratio.size() != 2 || !ratio[0].value || !ratio[1].value) return std::nullopt;
  if (*ratio[0].value <= 0 || *ratio[1].value <= 0) return std::nullopt;
  const std::int64_t divisor = std::gcd(*ratio[0].value, *ratio[1].value);
  return values::TickPeriod{.numerator = static_cast<std::uint64_t>(*ratio[0].value / divisor),
                            .denominator = static_cast<std::uint64_t>(*ratio[1].value / divisor)};
}

std::optional<LibraryType> find_duration(const Type& type) {
  const auto tick = tick_of_duration(type);
  if (!tick) return std::nullopt;
  for (const std::string_view name : {"__r", "__rep_"})
    if (const auto number = find_member(type, name))
      return LibraryType{.kind = LibraryType::Kind::duration,
                         .type = number->type,
                         .offset = number->offset,
                         .tick = tick};
  return std::nullopt;
}

// A Vec has its pointer inside of RawVec, as the only raw pointer. Since Rust 1.83 that is one to
// bytes, whatever the elements are (RawVecInner).
std::optional<LibraryType> find_rust_vector(const Type& type) {
  const auto buffer = find_member(type, "buf");
  const auto length = find_member(type, "len");
  if (!buffer || !length || length->type->size() != word_bytes) return std::nullopt;
  const auto pointer =
      find_inside(*buffer->type, [](const Member& member) { return is_pointer(*member.type); });
  if (!pointer) return std::nullopt;
  const Type* const element = first_type_argument(type);
  if (element == nullptr) return std::nullopt;
  return LibraryType{.kind = LibraryType::Kind::sequence,
                     .type = element,
                     .offset = buffer->offset + pointer->offset,
                     .length_offset = length->offset};
}

std::optional<LibraryType> find_rust_type(const Type& type) {
  const std::string_view name = type.plain_name();
  constexpr std::array<MemberNames, 1> slice = {{{.pointer = "data_ptr", .length = "length"}}};
  if (name == "&str" || name == "&mut str" || name == "alloc::boxed::Box<str>")
    return find_sequence(type, LibraryType::Kind::text, slice);
  if (name.starts_with("&[") || name.starts_with("&mut ["))
    return find_sequence(type, LibraryType::Kind::sequence, slice);
  if (name == "alloc::string::String") {
    const auto vector = find_member(type, "vec");
    auto bytes = vector ? find_rust_vector(*vector->type) : std::nullopt;
    if (!bytes) return std::nullopt;
    bytes->kind = LibraryType::Kind::text;
    bytes->offset += vector->offset;
    bytes->length_offset += vector->offset;
    return bytes;
  }
  if (name.starts_with("alloc::vec::Vec<")) return find_rust_vector(type);
  return std::nullopt;
}

std::optional<LibraryType> find_go_type(const Type& type) {
  const std::string_view name = type.plain_name();
  constexpr std::array<MemberNames, 1> text = {{{.pointer = "str", .length = "len"}}};
  constexpr std::array<MemberNames, 1> slice = {{{.pointer = "array", .length = "len"}}};
  if (name == "string") return find_sequence(type, LibraryType::Kind::text, text);
  if (name.starts_with("[]")) return find_sequence(type, LibraryType::Kind::sequence, slice);
  // runtime.iface and runtime.eface, whatever the interface is called.
  const auto& members = type.members();
  if (members.size() == 2 && members[1].name == "data" &&
      members[1].type->name() == "unsafe.Pointer" && is_pointer(*members[0].type)) {
    LibraryType made{.kind = LibraryType::Kind::interface, .type = members[0].type};
    if (members[0].name == "_type") return made;
    if (members[0].name != "tab") return std::nullopt;
    // runtime.itab, since Go 1.22 abi.ITab.
    const Type& table = *members[0].type->target();
    for (const std::string_view each : {"_type", "Type"})
      if (const auto member = find_member(table, each)) made.description_offset = member->offset;
    if (made.description_offset) return made;
  }
  return std::nullopt;
}

} // namespace

std::optional<FoundMember> find_member(const Type& type, std::string_view name) {
  // Searches only base classes and anonymous members, whose names belong to the type itself.
  int visits = 0;
  const auto search = [&](const auto& self, const Type& inside,
                          int depth) -> std::optional<FoundMember> {
    if (!is_structure(inside) || depth > max_nesting || ++visits > max_visits) return std::nullopt;
    for (const Member& member : inside.members())
      if (member.name == name && !member.is_base)
        return FoundMember{member.type, member.offset, member.bits};
    for (const Member& member : inside.members()) {
      if (!member.is_base && !member.name.empty()) continue;
      auto found = self(self, *member.type, depth + 1);
      if (!found) continue;
      found->offset += member.offset;
      return found;
    }
    return std::nullopt;
  };
  return search(search, type, 0);
}

namespace {

// Returns the virtual base classes of a type, those of its base classes as well, each once.
std::vector<BasePath> virtual_bases_of(const Type& type) {
  constexpr std::size_t max_bases = 64;
  std::vector<BasePath> found = {{.type = &type, .hops = {}}};
  int visits_left = max_visits;
  const auto add_bases = [&](const auto& self, const Type& inside, std::size_t from,
                             std::uint64_t offset, int depth) -> void {
    if (depth > max_nesting || --visits_left < 0) return;
    for (const dwarf::VirtualBase& base : inside.virtual_bases()) {
      const bool is_known = std::ranges::any_of(found, [&](const BasePath& each) {
        return each.type->plain_name() == base.type->plain_name();
      });
      if (is_known || found.size() > max_bases) continue;
      BasePath made{.type = base.type, .hops = found[from].hops};
      made.hops.push_back({.offset = offset, .base = &base});
      found.push_back(std::move(made));
    }
    for (const dwarf::Member& member : inside.members())
      if (member.is_base) self(self, *member.type, from, offset + member.offset, depth + 1);
  };
  for (std::size_t i = 0; i < found.size(); ++i) add_bases(add_bases, *found[i].type, i, 0, 0);
  found.erase(found.begin());
  return found;
}

} // namespace

std::vector<BasePath> bases_with_member(const Type& type, std::string_view name) {
  std::vector<BasePath> found = virtual_bases_of(type);
  std::erase_if(found, [&](const BasePath& each) { return !find_member(*each.type, name); });
  std::set<std::string> hidden;
  for (const BasePath& each : found)
    for (const BasePath& below : virtual_bases_of(*each.type))
      hidden.insert(below.type->plain_name());
  std::erase_if(found,
                [&](const BasePath& each) { return hidden.contains(each.type->plain_name()); });
  return found;
}

namespace {

// Returns the form of a complete std::string by its members. libc++ has the length, the capacity
// and the pointer of a long string in one order or, with _LIBCPP_ABI_ALTERNATE_STRING_LAYOUT, in
// the other. Its namespace does not tell which: those who build it choose one.
std::optional<reading_form> string_form_by_members(const Type& type) {
  const auto is_at = [](const Type& inside, std::string_view name, std::uint64_t offset) {
    const auto member = find_named(inside, name);
    return member && member->offset == offset && member->type->size() == word_bytes;
  };
  if (is_at(type, "_M_p", 0) && is_at(type, "_M_string_length", word_bytes))
    return READ_LIBSTDCXX_STRING;
  const auto outside = find_named(type, "__l");
  if (!outside || outside->offset != 0 || !is_at(*outside->type, "__size_", word_bytes))
    return std::nullopt;
  if (is_at(*outside->type, "__data_", 2 * word_bytes)) return READ_LIBCXX_STRING;
  if (is_at(*outside->type, "__data_", 0)) return READ_LIBCXX_ALTERNATE_STRING;
  return std::nullopt;
}

// Returns the form of a std::string that is only declared: clang leaves out definitions that a
// library instantiates. The namespace of libstdc++ has one layout. That of libc++ names the version
// of the binary interface, which has the alternate layout since the second one.
std::optional<reading_form> string_form_by_namespace(std::string_view name) {
  if (name.starts_with("std::__cxx11::basic_string<char,")) return READ_LIBSTDCXX_STRING;
  if (name.starts_with("std::__1::basic_string<char,") ||
      name.starts_with("std::__ndk1::basic_string<char,"))
    return READ_LIBCXX_STRING;
  if (name.starts_with("std::__2::basic_string<char,")) return READ_LIBCXX_ALTERNATE_STRING;
  return std::nullopt;
}

} // namespace

std::optional<reading_form> find_string_form(const Type& type) {
  if (standard_name(type) != "basic_string") return std::nullopt;
  // The type has one layout, whose definition need not be searched.
  const auto by_namespace = string_form_by_namespace(type.plain_name());
  if (type.is_declared() && by_namespace == READ_LIBSTDCXX_STRING) return by_namespace;
  if (type.kind() != dwarf::TypeKind::structure)
    return type.is_declared() ? by_namespace : std::nullopt;
  if (!is_character(first_type_argument(type))) return std::nullopt;
  if (const auto by_members = string_form_by_members(type)) return by_members;
  // clang leaves the class of this member declared, too.
  const auto hidden = find_named(type, "_M_dataplus");
  return hidden && hidden->type->kind() == dwarf::TypeKind::unknown ? by_namespace : std::nullopt;
}

std::string name_unit(const values::TickPeriod& tick) {
  struct Unit {
    values::TickPeriod tick;
    std::string_view name;
  };
  constexpr std::array<Unit, 7> units = {{{{1, 1000000000}, "ns"},
                                          {{1, 1000000}, "us"},
                                          {{1, 1000}, "ms"},
                                          {{1, 1}, "s"},
                                          {{60, 1}, "min"},
                                          {{3600, 1}, "h"},
                                          {{86400, 1}, "d"}}};
  for (const Unit& unit : units)
    if (unit.tick == tick) return std::string(unit.name);
  return fmt::format("*{}/{}s", tick.numerator, tick.denominator);
}

std::optional<LibraryType> find_library_type(const Type& type) {
  if (type.kind() != dwarf::TypeKind::structure) return std::nullopt;
  const std::string name = standard_name(type);
  constexpr std::array<MemberNames, 3> vector = {{{.pointer = "_M_start", .length = "_M_finish"},
                                                  {.pointer = "__begin_", .length = "__end_"},
                                                  {.pointer = "__begin_", .length = "__size_"}}};
  constexpr std::array<MemberNames, 3> view = {{{.pointer = "_M_str", .length = "_M_len"},
                                                {.pointer = "__data_", .length = "__size_"},
                                                {.pointer = "__data", .length = "__size"}}};
  constexpr std::array<std::string_view, 2> shared = {"_M_ptr", "__ptr_"};
  if (name.empty()) {
    if (auto rust = find_rust_type(type)) return rust;
    return find_go_type(type);
  }
  if (name == "vector") {
    auto found = find_sequence(type, LibraryType::Kind::sequence, vector);
    // std::vector<bool> points to words of bits.
    const Type* const element = first_type_argument(type);
    const bool has_elements =
        found && element != nullptr && found->type->plain_name() == element->plain_name();
    return has_elements ? found : std::nullopt;
  }
  if (name == "span") return find_span(type);
  if (name == "basic_string_view" && is_character(first_type_argument(type)))
    return find_sequence(type, LibraryType::Kind::text, view);
  if (name == "unique_ptr") return find_unique_pointer(type);
  if (name == "shared_ptr") return find_pointer_class(type, shared);
  if (name == "optional") return find_optional(type);
  if (name == "chrono::duration") return find_duration(type);
  // The reference-counted string of GCC before 5, still used with _GLIBCXX_USE_CXX11_ABI=0.
  if (name == "basic_string" && is_character(first_type_argument(type)) &&
      type.size() == word_bytes)
    if (const auto text = find_pointer(type, "_M_p"))
      return LibraryType{.kind = LibraryType::Kind::c_string,
                         .type = text->type->target(),
                         .offset = text->offset};
  return std::nullopt;
}

} // namespace uprobectl::events
