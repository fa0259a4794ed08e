// SPDX-License-Identifier: Apache-2.0
#include "dwarf/globals.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/entry_walk.hpp"
#include "dwarf/name_index.hpp"
#include "dwarf/type_table.hpp"

#include <fmt/format.h>
#include <set>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// Resolves the indexes of addresses (DW_OP_addrx) in the location of a global variable.
class UnitAddresses final : public ExpressionData {
public:
  explicit UnitAddresses(llvm::DWARFUnit& unit) : unit_(unit) {}

  std::optional<std::uint64_t> read_address(std::uint64_t index) const override {
    if (index > UINT32_MAX) return std::nullopt;
    const auto address = unit_.getAddrOffsetSectionItem(static_cast<std::uint32_t>(index));
    return address ? std::optional(address->Address) : std::nullopt;
  }
  std::optional<NumberType> read_type(std::uint64_t) const override { return std::nullopt; }

private:
  llvm::DWARFUnit& unit_;
};

Variable describe(Context& context, const Die& die, std::string qualified) {
  Variable made;
  made.name = std::move(qualified);
  made.type = context.types().type_of(context.with_attribute(die, DW_AT_type));
  made.location = unreadable(optimized_out);
  const elf::Machine& machine = context.layout().machine;
  const LocationContext where{.arch = &machine.info(),
                              .address_size = static_cast<std::uint8_t>(machine.is_64bit ? 8 : 4)};
  if (const auto value = die.find(DW_AT_location)) {
    if (const auto block = value->getAsBlock())
      made.location = evaluate(std::as_bytes(std::span(block->data(), block->size())),
                               machine.order, where, UnitAddresses(*die.getDwarfUnit()));
  } else if (const auto number = constant(die, DW_AT_const_value)) {
    made.location = {.pieces = {{.kind = Piece::Kind::value, .formula = {.addend = *number}}}};
  }
  return made;
}

DeclaredVariable describe_declared(Context& context, const Die& die) {
  const auto symbol = context.text(die, DW_AT_linkage_name);
  return {.variable = describe(context, die, context.types().qualified_name(die)),
          .symbol = std::string(symbol.value_or(context.name(die).value_or("")))};
}

// The name without the namespaces whose contents the outer one has, too: inline and anonymous ones.
std::string visible_name(Context& context, const Die& named) {
  std::string full;
  for (Die scope = named; scope && (scope == named || is_scope(tag_of(scope)));
       scope = scope.getParent()) {
    const auto own = context.text(scope, DW_AT_name);
    const bool is_left_out = scope != named && is_set(scope, DW_AT_export_symbols);
    if (own && !is_left_out)
      full = full.empty() ? std::string(*own) : fmt::format("{}::{}", *own, full);
  }
  return full;
}

// Goes through the scopes around code.
class ScopeWalk {
public:
  ScopeWalk(Context& context, std::string_view name) : context_(context), name_(name) {}

  NameLookup read(Die scope) {
    for (int left = max_scopes; scope && left > 0; --left) {
      // An instance, what it is one of, and the declaration inside of a class or namespace.
      for (int i = 0; i <= max_origins; ++i) {
        if (!seen_.insert(scope.getOffset()).second) break;
        if (look_into(scope)) return std::move(lookup_);
        const Die origin = context_.referenced(scope, DW_AT_abstract_origin);
        const Die before = origin ? origin : context_.referenced(scope, DW_AT_specification);
        if (!before) break;
        scope = before;
      }
      scope = scope.getParent();
    }
    lookup_.names.push_back(name_);
    return std::move(lookup_);
  }

private:
  static constexpr int max_scopes = 256;
  static constexpr std::size_t max_classes = 64; // a class and its bases: they are searched nested

  // Returns true if this scope declares the variable.
  bool look_into(const Die& scope) {
    switch (tag_of(scope)) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
      return find_static(scope);
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
      add(context_.types().qualified_name(scope));
      return find_member(scope);
    case DW_TAG_namespace:
    case DW_TAG_module:
      add(visible_name(context_, scope));
      return false;
    default:
      return false;
    }
  }

  void add(const std::string& scope) {
    if (!scope.empty()) lookup_.names.push_back(fmt::format("{}::{}", scope, name_));
  }

  // A static variable of a function is not in a scope that has a name.
  bool find_static(const Die& scope) {
    std::vector<Die> blocks;
    for (const Die& child : scope.children()) {
      if (child.getTag() == DW_TAG_lexical_block) blocks.push_back(child);
      if (child.getTag() != DW_TAG_variable || context_.name(child) != name_) continue;
      Variable found = describe(context_, child, name_);
      const auto& pieces = found.location.pieces;
      const bool is_static = found.location.is_readable() && !pieces.empty() &&
                             pieces.front().kind == Piece::Kind::memory &&
                             pieces.front().formula.base == Formula::Base::image;
      if (is_static) return set({.variable = std::move(found), .symbol = {}});
    }
    // The whole body of gcc's constructors and lambdas is one block.
    return blocks.size() == 1 && scope.getTag() == DW_TAG_subprogram && find_static(blocks.front());
  }

  bool find_member(const Die& declared) {
    Die scope = declared;
    if (is_set(scope, DW_AT_declaration)) {
      const Die unit = context_.referenced(scope, DW_AT_signature);
      const Die found = unit ? unit : context_.definition_of(scope);
      if (found) scope = found;
    }
    if (classes_.size() == max_classes || !classes_.insert(scope.getOffset()).second) return false;
    for (const Die& child : scope.children()) {
      const bool is_static =
          (child.getTag() == DW_TAG_variable || child.getTag() == DW_TAG_member) &&
          is_set(child, DW_AT_declaration);
      if (is_static && context_.name(child) == name_)
        return set(describe_declared(context_, child));
    }
    for (const Die& child : scope.children()) {
      if (child.getTag() != DW_TAG_inheritance) continue;
      const Die base = context_.referenced(child, DW_AT_type);
      if (base && find_member(base)) return true;
    }
    return false;
  }

  bool set(DeclaredVariable declared) {
    lookup_ = {
        .names = {declared.variable.name}, .may_be_end = false, .declared = std::move(declared)};
    return true;
  }

  Context& context_;
  std::string name_;
  NameLookup lookup_;
  // Those that were looked into, by offset: each once.
  std::set<std::uint64_t> seen_;
  std::set<std::uint64_t> classes_;
};

// Searches units for the definition of a variable.
class GlobalSearch {
public:
  // `all_units`: a static variable of another unit matches only if it is unambiguous.
  GlobalSearch(Context& context, EntryWalk& walk, const NameLookup& lookup, bool all_units)
      : context_(context), walk_(walk), lookup_(lookup), all_units_(all_units),
        last_(last_part(lookup.names.back())) {}

  // Returns true if no other variable can fit better.
  bool read(llvm::DWARFUnit& entries) {
    // Says for each open scope whether its variables are global; the first is the unit.
    std::vector<bool> scopes;
    bool is_done = false;
    walk_.for_each_entry(entries, [&](const Die& die, std::uint16_t tag, std::size_t depth) {
      scopes.resize(depth);
      const bool is_global = scopes.empty() || scopes.back();
      is_done = tag == DW_TAG_variable && is_global && check(die);
      scopes.push_back(is_global && (tag == DW_TAG_namespace || tag == DW_TAG_compile_unit ||
                                     tag == DW_TAG_partial_unit || tag == DW_TAG_module));
      return !is_done;
    });
    return is_done;
  }

  // A declaration of an inner scope than that of the definition that take() returns.
  std::optional<DeclaredVariable> take_declared() { return std::move(declared_); }

  // The variable with the name, or the only one whose name ends with it.
  std::optional<FoundVariable> take() {
    if (is_ambiguous_ || !found_ || declared_) return std::nullopt;
    return FoundVariable{std::move(*found_), fit_ >= whole};
  }

private:
  // The number of the scope whose variable this is, the innermost is the last; nullopt: of none.
  std::optional<unsigned> scope_of(const std::string& qualified, const std::string& visible) const {
    const auto& names = lookup_.names;
    const auto found = std::ranges::find_if(
        names, [&](const std::string& each) { return each == qualified || each == visible; });
    if (found == names.end()) return std::nullopt;
    return static_cast<unsigned>(names.end() - found) - 1;
  }

  // Keeps the variable if its name fits better. Returns true if no other can fit better.
  bool check(const Die& die) {
    const bool is_declaration = die.find(DW_AT_declaration).has_value();
    const bool has_name = die.find(DW_AT_name).has_value();
    if (!has_name && !die.find({DW_AT_specification, DW_AT_abstract_origin})) return false;
    if (context_.name(die) != last_) return false;
    // qualified_name() needs an entry with parents, which this one is.
    const Die whole_entry = die.getDwarfUnit()->getDIEForOffset(die.getOffset());
    const Die named = whole_entry ? context_.with_attribute(whole_entry, DW_AT_name) : Die();
    if (!named) return false;
    const std::string qualified = context_.types().qualified_name(named);
    const std::string visible = visible_name(context_, named);
    const auto scope = scope_of(qualified, visible);
    if (is_declaration) {
      if (scope) check_declaration(whole_entry, whole + *scope * fits_of_scope);
      return false;
    }
    const std::string end = fmt::format("::{}", lookup_.names.back());
    if (!scope && !(lookup_.may_be_end && (qualified.ends_with(end) || visible.ends_with(end))))
      return false;
    // Each unit may have a static variable of this name.
    const Die declared = context_.with_attribute(whole_entry, DW_AT_external);
    const bool is_visible = !all_units_ || (declared && is_set(declared, DW_AT_external));
    // Compilers leave variables that they have removed without a location.
    const bool is_removed = !die.find({DW_AT_location, DW_AT_const_value});
    const unsigned fit = !scope ? (is_removed ? 0 : 1)
                                : whole + *scope * fits_of_scope +
                                      (is_removed   ? 0
                                       : is_visible ? 2
                                                    : 1);
    const bool is_best_of_scope = scope && is_visible && !is_removed;
    if (found_ && fit <= fit_) {
      if (fit == fit_ && !is_best_of_scope && (scope || !is_visible || found_->name != qualified))
        is_ambiguous_ = true;
      return false;
    }
    found_ = describe(context_, whole_entry, qualified);
    fit_ = fit;
    is_ambiguous_ = false;
    if (fit_ >= declared_fit_) declared_.reset();
    return is_best_of_scope && *scope + 1 == lookup_.names.size();
  }

  void check_declaration(const Die& die, unsigned fit) {
    if (all_units_ || !is_set(die, DW_AT_external) || fit <= declared_fit_ ||
        (found_ && fit <= fit_))
      return;
    declared_ = describe_declared(context_, die);
    declared_fit_ = fit;
  }

  Context& context_;
  EntryWalk& walk_;
  const NameLookup& lookup_;
  bool all_units_;
  std::string_view last_; // without its scopes
  std::optional<Variable> found_;
  std::optional<DeclaredVariable> declared_;
  // How well a variable fits: the end of a name, or the whole name in a scope. In each scope the
  // removed ones come first, then those of other units.
  static constexpr unsigned whole = 2;
  static constexpr unsigned fits_of_scope = 3;
  unsigned fit_ = 0;
  unsigned declared_fit_ = 0;
  bool is_ambiguous_ = false;
};

} // namespace

NameLookup look_up(const DebugInfo& info, std::string_view name, const CodePoint& point) {
  if (name.starts_with("::")) return {.names = {std::string(name.substr(2))}, .may_be_end = false};
  Context& context = info.context();
  const Die own = context.function_without_code(point.address, point.symbol);
  Die scope = own ? own : context.function_at(point.address);
  if (scope && point.inlined_call)
    scope = scope.getDwarfUnit()->getDIEForOffset(*point.inlined_call);
  else if (scope && point.symbol.empty())
    scope = context.innermost_function_at(*context.unit_at(point.address), point.address);
  return ScopeWalk(context, name).read(scope);
}

std::optional<FoundVariable> find_unit_variable(const DebugInfo& info, NameLookup& lookup,
                                                VirtualAddress address) {
  Context& context = info.context();
  llvm::DWARFUnit* const unit = context.unit_at(address);
  if (unit == nullptr) return std::nullopt;
  EntryWalk walk(context, "variables");
  llvm::DWARFUnit* const entries = walk.open(*unit);
  if (entries == nullptr) return std::nullopt;
  GlobalSearch search(context, walk, lookup, false);
  search.read(*entries);
  auto found = search.take();
  if (auto declared = search.take_declared())
    lookup = {
        .names = {declared->variable.name}, .may_be_end = false, .declared = std::move(declared)};
  return found;
}

std::optional<FoundVariable> find_global(const DebugInfo& info, const NameLookup& lookup) {
  Context& context = info.context();
  if (context.info_size() > max_debug_info) {
    context.warn("variables of other units are not searched: the debug information is too large");
    return std::nullopt;
  }
  EntryWalk walk(context, "variables");
  constexpr std::uint16_t tags[] = {DW_TAG_variable};
  const std::string_view last = last_part(lookup.names.back());
  walk.keep_only(
      units_with_names(context, [&](std::string_view each) { return each == last; }, tags));
  GlobalSearch search(context, walk, lookup, true);
  walk.for_each_unit(
      [&](llvm::DWARFUnit&, llvm::DWARFUnit& entries) { return !search.read(entries); });
  return search.take();
}

} // namespace uprobectl::dwarf
