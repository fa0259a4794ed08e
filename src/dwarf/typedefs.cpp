// SPDX-License-Identifier: Apache-2.0
#include "dwarf/typedefs.hpp"

#include "dwarf/entry_walk.hpp"
#include "dwarf/name_index.hpp"
#include "dwarf/type_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// A type around a declarator: "void", "(*", ")(int)".
struct TypeText {
  std::string base = {};
  std::string before = {};
  std::string after = {};

  std::string whole() const { return base + before + after; }
};

// Writes types in the notation of C++, with typedefs replaced.
class TypeWriter {
public:
  explicit TypeWriter(Context& context) : context_(context) {}

  // Returns the type that DW_AT_type of the entry leads to; nullopt if it has no name that mangled
  // names have, too.
  std::optional<std::string> target_of(const Die& die) {
    const auto text = target(die, 0);
    return text ? std::optional(text->whole()) : std::nullopt;
  }

private:
  // Types in all; damaged debug information may have a function type of millions.
  static constexpr int max_entries = 1000;
  static constexpr std::size_t max_text = 16384; // bytes of names

  std::optional<TypeText> write(const Die& die, int depth) {
    if (!die) return std::nullopt; // a damaged reference
    if (depth >= max_type_depth || ++entries_ > max_entries) return std::nullopt;
    switch (tag_of(die)) {
    case DW_TAG_typedef:
    case DW_TAG_template_alias:
    case DW_TAG_restrict_type:
      return target(die, depth);
    case DW_TAG_const_type:
      return qualified(die, " const", depth);
    case DW_TAG_volatile_type:
      return qualified(die, " volatile", depth);
    case DW_TAG_pointer_type:
      return pointer(die, "*", depth);
    case DW_TAG_reference_type:
      return pointer(die, "&", depth);
    case DW_TAG_rvalue_reference_type:
      return pointer(die, "&&", depth);
    case DW_TAG_array_type:
      return array(die, depth);
    case DW_TAG_subroutine_type:
      return function(die, depth);
    case DW_TAG_base_type: {
      const auto name = context_.text(die, DW_AT_name);
      return name ? named(*name == "_Bool" ? "bool" : std::string(*name)) : std::nullopt;
    }
    case DW_TAG_unspecified_type:
      return TypeText{.base = "std::nullptr_t"};
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
      if (!context_.text(die, DW_AT_name)) return std::nullopt;
      return named(context_.types().qualified_name(die));
    default:
      return std::nullopt;
    }
  }

  std::optional<TypeText> named(std::string name) {
    text_ += name.size();
    if (text_ > max_text) return std::nullopt;
    return TypeText{.base = std::move(name)};
  }

  std::optional<TypeText> target(const Die& die, int depth) {
    if (!die.find(DW_AT_type)) return TypeText{.base = "void"};
    return write(context_.referenced(die, DW_AT_type), depth + 1);
  }

  std::optional<TypeText> qualified(const Die& die, std::string_view qualifier, int depth) {
    auto text = target(die, depth);
    if (!text) return text;
    std::string& part = text->before.empty() ? text->base : text->before;
    if (!part.ends_with(qualifier)) part += qualifier;
    return text;
  }

  std::optional<TypeText> pointer(const Die& die, std::string_view sign, int depth) {
    auto text = target(die, depth);
    if (!text) return text;
    if (text->after.empty()) {
      text->before += sign;
    } else {
      text->before += fmt::format("({}", sign);
      text->after.insert(0, 1, ')');
    }
    return text;
  }

  std::optional<TypeText> array(const Die& die, int depth) {
    auto text = target(die, depth);
    if (!text) return text;
    std::string bounds;
    for (const Die& range : die.children()) {
      if (range.getTag() != DW_TAG_subrange_type) continue;
      if (++entries_ > max_entries) return std::nullopt;
      const auto count = llvm::dwarf::toUnsigned(range.find(DW_AT_count));
      const auto last = llvm::dwarf::toUnsigned(range.find(DW_AT_upper_bound));
      bounds += count  ? fmt::format("[{}]", *count)
                : last ? fmt::format("[{}]", *last + 1)
                       : std::string("[]");
    }
    text->after.insert(0, bounds);
    return text;
  }

  std::optional<TypeText> function(const Die& die, int depth) {
    auto text = target(die, depth);
    if (!text) return text;
    std::string parameters;
    for (const Die& child : die.children()) {
      std::optional<TypeText> parameter;
      if (child.getTag() == DW_TAG_formal_parameter)
        parameter = target(child, depth);
      else if (child.getTag() == DW_TAG_unspecified_parameters)
        parameter = TypeText{.base = "..."};
      if (!parameter || ++entries_ > max_entries) return std::nullopt;
      if (!parameters.empty()) parameters += ", ";
      parameters += parameter->whole();
    }
    text->after.insert(0, fmt::format("({})", parameters));
    return text;
  }

  Context& context_;
  int entries_ = 0;
  std::size_t text_ = 0; // bytes of names
};

// A requested name and what was found for it.
struct Wanted {
  std::string_view name;
  bool is_exact = false; // a typedef has the name with all scopes
  std::set<std::string> types = {};
  int seen = 0;

  // A typedef of a header is in many units. Those with other scopes are rare.
  static constexpr int enough = 8;
  bool is_done() const { return is_exact || seen >= enough; }
};

class TypedefScan {
public:
  TypedefScan(Context& context, std::vector<Wanted>& wanted)
      : context_(context), walk_(context, "typedefs"), wanted_(wanted) {}

  void read_all() {
    constexpr std::uint16_t tags[] = {DW_TAG_typedef, DW_TAG_template_alias};
    const auto is_wanted = [&](std::string_view name) {
      return std::ranges::any_of(wanted_,
                                 [&](const Wanted& each) { return last_part(each.name) == name; });
    };
    walk_.keep_only(units_with_names(context_, is_wanted, tags));
    walk_.for_each_unit([&](llvm::DWARFUnit&, llvm::DWARFUnit& entries) {
      walk_.for_each_entry(entries, [&](const Die& die, std::uint16_t tag, std::size_t) {
        if (tag != DW_TAG_typedef && tag != DW_TAG_template_alias) return true;
        const auto name = context_.text(die, DW_AT_name);
        if (!name) return true;
        if (!walk_.take_name(*name)) return false;
        add(entries, die.getOffset(), *name);
        return true;
      });
      return !std::ranges::all_of(wanted_, &Wanted::is_done);
    });
  }

private:
  void add(llvm::DWARFUnit& entries, std::uint64_t offset, std::string_view name) {
    for (Wanted& each : wanted_) {
      if (each.is_done() || last_part(each.name) != name) continue;
      const Die die = entries.getDIEForOffset(offset);
      if (!die) return;
      const std::string whole = context_.types().qualified_name(die);
      const bool is_exact = whole == each.name;
      if (!is_exact && !whole.ends_with(fmt::format("::{}", each.name))) continue;
      ++each.seen;
      auto type = TypeWriter(context_).target_of(die);
      if (!type) continue;
      if (is_exact) each.types.clear();
      each.is_exact = is_exact;
      each.types.insert(std::move(*type));
    }
  }

  Context& context_;
  EntryWalk walk_;
  std::vector<Wanted>& wanted_;
};

} // namespace

std::map<std::string, std::string> find_typedefs(const DebugInfo& debug,
                                                 std::span<const std::string> names) {
  Context& context = debug.context();
  std::map<std::string, std::string> found;
  if (names.empty() || context.info_size() > max_debug_info) return found;
  std::vector<Wanted> wanted;
  for (const std::string& name : names) wanted.push_back({.name = name});
  TypedefScan(context, wanted).read_all();
  for (const Wanted& each : wanted)
    if (each.types.size() == 1) found.emplace(each.name, *each.types.begin());
  return found;
}

} // namespace uprobectl::dwarf
