// SPDX-License-Identifier: Apache-2.0
#include "dwarf/globals.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/entry_walk.hpp"
#include "dwarf/name_index.hpp"
#include "dwarf/type_table.hpp"

#include <fmt/format.h>

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

// Searches units for the definition of a variable.
class GlobalSearch {
public:
  // `all_units`: a static variable of another unit matches only if it is unambiguous.
  GlobalSearch(Context& context, EntryWalk& walk, std::string_view name, bool all_units)
      : context_(context), walk_(walk), name_(name), all_units_(all_units) {
    last_ = last_part(name);
  }

  // Returns true if a variable with exactly this name was found.
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

  // A declaration with just this name. The definition of the unit, if it has one, counts instead.
  std::optional<DeclaredVariable> take_declared() {
    return found_ ? std::nullopt : std::move(declared_);
  }

  // The variable with the name, or the only one whose name ends with it.
  std::optional<Variable> take() {
    if (is_ambiguous_) return std::nullopt;
    return std::move(found_);
  }

private:
  // Keeps the variable if its name fits better. Returns true if no other can fit better.
  bool check(const Die& die) {
    if (die.find(DW_AT_declaration)) return check_declaration(die);
    const bool has_name = die.find(DW_AT_name).has_value();
    if (!has_name && !die.find({DW_AT_specification, DW_AT_abstract_origin})) return false;
    if (context_.name(die) != last_) return false;
    // qualified_name() needs an entry with parents, which this one is.
    const Die whole = die.getDwarfUnit()->getDIEForOffset(die.getOffset());
    const Die named = whole ? context_.with_attribute(whole, DW_AT_name) : Die();
    if (!named) return false;
    const std::string qualified = context_.types().qualified_name(named);
    const bool is_exact = qualified == name_ || fmt::format("::{}", qualified) == name_;
    if (!is_exact && !qualified.ends_with(fmt::format("::{}", name_)) && !is_visible_as(named))
      return false;
    // Each unit may have a static variable of this name.
    const Die declared = context_.with_attribute(whole, DW_AT_external);
    const bool is_visible = !all_units_ || (declared && is_set(declared, DW_AT_external));
    // Compilers leave variables that they have removed without a location.
    const bool is_removed = !die.find({DW_AT_location, DW_AT_const_value});
    const Closeness closeness = is_removed    ? Closeness::removed
                                : !is_exact   ? Closeness::end
                                : !is_visible ? Closeness::other_unit
                                              : Closeness::exact;
    if (found_ && closeness <= closeness_) {
      if (closeness == closeness_ && (is_exact || !is_visible || found_->name != qualified))
        is_ambiguous_ = true;
      return false;
    }
    found_ = describe(whole, qualified);
    closeness_ = closeness;
    is_ambiguous_ = false;
    return closeness == Closeness::exact;
  }

  bool check_declaration(const Die& die) {
    if (declared_ || context_.name(die) != last_) return false;
    const Die whole = die.getDwarfUnit()->getDIEForOffset(die.getOffset());
    if (!whole || !is_set(whole, DW_AT_external)) return false;
    std::string qualified = context_.types().qualified_name(whole);
    if (qualified != name_ && fmt::format("::{}", qualified) != name_) return false;
    const auto symbol = context_.text(whole, DW_AT_linkage_name);
    declared_ = {.variable = describe(whole, std::move(qualified)),
                 .symbol = std::string(symbol.value_or(context_.name(die).value_or("")))};
    return false;
  }

  // Whether the name, or its end, is that of the variable without the namespaces whose contents the
  // outer one has, too: inline and anonymous ones.
  bool is_visible_as(const Die& named) const {
    std::string full = "::";
    for (Die scope = named; scope && is_scope(tag_of(scope)) != (scope == named);
         scope = scope.getParent()) {
      const auto own = context_.text(scope, DW_AT_name);
      const bool is_left_out = scope != named && (!own || is_set(scope, DW_AT_export_symbols));
      if (!is_left_out && own) full.insert(0, fmt::format("::{}", *own));
    }
    return full.ends_with(fmt::format("::{}::", name_));
  }

  Variable describe(const Die& die, std::string qualified) {
    Variable made;
    made.name = std::move(qualified);
    made.type = context_.types().type_of(context_.with_attribute(die, DW_AT_type));
    made.location = unreadable(optimized_out);
    const elf::Machine& machine = context_.layout().machine;
    const LocationContext where{.arch = &machine.info(),
                                .address_size =
                                    static_cast<std::uint8_t>(machine.is_64bit ? 8 : 4)};
    if (const auto value = die.find(DW_AT_location)) {
      if (const auto block = value->getAsBlock())
        made.location = evaluate(std::as_bytes(std::span(block->data(), block->size())),
                                 machine.order, where, UnitAddresses(*die.getDwarfUnit()));
    } else if (const auto number = constant(die, DW_AT_const_value)) {
      made.location = {.pieces = {{.kind = Piece::Kind::value, .formula = {.addend = *number}}}};
    }
    return made;
  }

  Context& context_;
  EntryWalk& walk_;
  std::string_view name_;
  bool all_units_;
  std::string_view last_; // without its scopes
  std::optional<Variable> found_;
  std::optional<DeclaredVariable> declared_;
  // How well a variable fits, the best last.
  enum class Closeness : std::uint8_t { removed, end, other_unit, exact };
  Closeness closeness_ = Closeness::removed;
  bool is_ambiguous_ = false;
};

} // namespace

namespace {

// Calls use(search) with the search of the unit whose code covers the address.
auto search_unit(const DebugInfo& info, std::string_view name, VirtualAddress address,
                 const auto& use) -> decltype(use(std::declval<GlobalSearch&>())) {
  Context& context = info.context();
  llvm::DWARFUnit* const unit = context.unit_at(address);
  if (unit == nullptr) return std::nullopt;
  EntryWalk walk(context, "variables");
  llvm::DWARFUnit* const entries = walk.open(*unit);
  if (entries == nullptr) return std::nullopt;
  GlobalSearch search(context, walk, name, false);
  search.read(*entries);
  return use(search);
}

} // namespace

std::optional<Variable> find_unit_variable(const DebugInfo& info, std::string_view name,
                                           VirtualAddress address) {
  return search_unit(info, name, address, [](GlobalSearch& search) { return search.take(); });
}

std::optional<DeclaredVariable> find_declared_variable(const DebugInfo& info, std::string_view name,
                                                       VirtualAddress address) {
  return search_unit(info, name, address,
                     [](GlobalSearch& search) { return search.take_declared(); });
}

std::optional<Variable> find_global(const DebugInfo& info, std::string_view name) {
  Context& context = info.context();
  if (context.info_size() > max_debug_info) {
    context.warn("variables of other units are not searched: the debug information is too large");
    return std::nullopt;
  }
  EntryWalk walk(context, "variables");
  constexpr std::uint16_t tags[] = {DW_TAG_variable};
  const std::string_view last = last_part(name);
  walk.keep_only(
      units_with_names(context, [&](std::string_view each) { return each == last; }, tags));
  GlobalSearch search(context, walk, name, true);
  walk.for_each_unit(
      [&](llvm::DWARFUnit&, llvm::DWARFUnit& entries) { return !search.read(entries); });
  return search.take();
}

} // namespace uprobectl::dwarf
