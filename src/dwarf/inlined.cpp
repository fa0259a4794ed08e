// SPDX-License-Identifier: Apache-2.0
#include "dwarf/inlined.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/entry_walk.hpp"
#include "dwarf/inlined_entries.hpp"
#include "dwarf/line_table.hpp"
#include "dwarf/name_index.hpp"
#include "dwarf/positions.hpp"
#include "dwarf/type_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl::dwarf {

namespace {

// An entry of a file. Split units and the alternate file have offsets of their own.
struct EntryId {
  const llvm::DWARFContext* file = nullptr;
  std::uint64_t offset = 0;

  bool operator==(const EntryId&) const = default;
};

struct EntryIdHash {
  std::size_t operator()(const EntryId& id) const {
    return std::hash<const void*>()(id.file) ^ std::hash<std::uint64_t>()(id.offset);
  }
};

// An inlined copy that has code.
struct InlinedCopy {
  EntryId origin; // the function that is inlined
  llvm::DWARFUnit* unit = nullptr;
  std::uint64_t offset = 0; // of its entry, in the unit with the entries of `unit`
};

bool has_code(const Die& die) {
  using namespace llvm::dwarf;
  return die.find({DW_AT_low_pc, DW_AT_ranges, DW_AT_entry_pc}).has_value();
}

// The linkage name; without one, the name with its scopes, or that of an extern "C" function.
std::string full_name(Context& context, const Die& function) {
  using namespace llvm::dwarf;
  for (const Attribute attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (const Die named = context.with_attribute(function, attribute))
      return std::string(context.text(named, attribute).value_or(""));
  const Die named = context.with_attribute(function, DW_AT_name);
  if (!named) return {};
  return is_set(named, DW_AT_external) ? std::string(context.text(named, DW_AT_name).value_or(""))
                                       : context.types().qualified_name(named);
}

FunctionSource source_of_entry(Context& context, const Die& function) {
  using namespace llvm::dwarf;
  const auto number = [&](Attribute attribute) {
    const Die with_number = context.with_attribute(function, attribute);
    return with_number ? unsigned_constant(with_number, attribute).value_or(0) : 0;
  };
  FunctionSource source;
  const Die external = context.with_attribute(function, DW_AT_external);
  source.is_external = external && is_set(external, DW_AT_external);
  source.file = normal_path(referenced_file(context, function, DW_AT_decl_file));
  source.line = number(DW_AT_decl_line);
  source.column = number(DW_AT_decl_column);
  if (const Die named = context.with_attribute(function, DW_AT_name))
    source.unit =
        std::string(context.text(named.getDwarfUnit()->getUnitDIE(), DW_AT_name).value_or(""));
  return source;
}

// A requested function: nullopt for others.
using Number = std::optional<std::size_t>;

// Remembers which names in .debug_str are not requested, by offset: functions of many units have
// the same name, and its bytes and a table of names would not stay in the processor's caches.
class OtherNames {
public:
  explicit OtherNames(std::uint64_t section_size)
      : bits_(std::min(section_size, max_size) / word_bits + 1) {}

  bool contains(std::uint64_t offset) const {
    return offset / word_bits < bits_.size() && (bits_[offset / word_bits] & bit(offset)) != 0;
  }
  void add(std::uint64_t offset) {
    if (offset / word_bits < bits_.size()) bits_[offset / word_bits] |= bit(offset);
  }

private:
  static constexpr std::uint64_t max_size = std::uint64_t{1} << 30;
  static constexpr std::uint64_t word_bits = 64;
  static std::uint64_t bit(std::uint64_t offset) { return std::uint64_t{1} << offset % word_bits; }

  std::vector<std::uint64_t> bits_;
};

// Finds DW_TAG_inlined_subroutine entries (DWARF 5, 3.3.8.2) by the name of the inlined function:
//   inlined copy -> (abstract_origin) function -> (specification) declaration, which has the name.
// gcc gives no linkage names to functions of one unit: these have their name with its scopes.
// References may lead forwards, so they are followed at the end of the unit, and those into other
// units when all are read.
class InlinedScan {
public:
  // Returns the number of a requested function, by its raw name; nullopt for others.
  using FindName = std::function<Number(std::string_view)>;

  InlinedScan(Context& context, FindName find_name)
      : context_(context), walk_(context, "inlined functions"), find_name_(std::move(find_name)),
        others_(context.dwarf().getDWARFObj().getStrSection().size()) {}

  void read_all() {
    walk_.for_each_unit([&](llvm::DWARFUnit& unit, llvm::DWARFUnit& entries) {
      begin_unit(entries);
      walk_.for_each_entry(entries, [&](const Die& die, std::uint16_t tag, std::size_t depth) {
        while (!scopes_.empty() && scopes_.back().depth >= depth) scopes_.pop_back();
        if (is_scope(tag)) scopes_.push_back({depth, *die.getDebugInfoEntry()});
        while (!callers_.empty() && callers_.back().depth >= depth) callers_.pop_back();
        if (tag == llvm::dwarf::DW_TAG_subprogram) {
          callers_.push_back({.depth = depth, .entry = *die.getDebugInfoEntry()});
          return add_function(die, depth);
        }
        if (tag == llvm::dwarf::DW_TAG_inlined_subroutine && has_code(die) && is_in_live(entries))
          add_copy(die, unit);
        return true;
      });
      end_unit();
      return true;
    });
  }

  // Calls `visit(number, copy)` for each copy of a requested function.
  template <typename Visit>
  void for_each_copy(Visit visit) const {
    for (const InlinedCopy& copy : copies_)
      if (const auto number = number_of(copy.origin)) visit(*number, copy);
  }

  // Calls `visit(number)` for each requested function that has an entry.
  template <typename Visit>
  void for_each_described(Visit visit) const {
    for (const auto& [id, number] : functions_) visit(number);
  }

private:
  void begin_unit(const llvm::DWARFUnit& entries) {
    unit_begin_ = entries.getOffset();
    unit_end_ = entries.getNextUnitOffset();
    file_ = &entries.getContext();
    known_functions_ = functions_.size();
    leads_outside_ = false;
    callers_.clear();
    unit_references_.clear();
    unit_copies_.clear();
  }

  // Keeps what may lead to a requested function. Most units have none.
  void end_unit() {
    if (functions_.size() == known_functions_ && !leads_outside_) return;
    for (const auto& [from, to] : unit_references_) named_by_.emplace(EntryId{file_, from}, to);
    std::ranges::copy(unit_copies_, std::back_inserter(copies_));
  }

  // Returns false if the work is used up.
  bool add_function(const Die& die, std::size_t depth) {
    using namespace llvm::dwarf;
    for (const Attribute attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
      const auto value = die.find(attribute);
      if (!value) continue;
      // External functions without a linkage name are extern "C".
      const bool is_in_scope = attribute == DW_AT_name && !scopes_.empty() &&
                               scopes_.back().depth + 1 == depth && !is_set(die, DW_AT_external);
      const auto number =
          is_in_scope ? number_qualified(die, depth) : number_named(die, attribute, *value);
      if (!number) continue; // unreadable
      if (*number) functions_.emplace(EntryId{file_, die.getOffset()}, **number);
      return !is_used_up_;
    }
    auto other = reference(die, DW_AT_specification);
    if (!other) other = reference(die, DW_AT_abstract_origin);
    if (other) unit_references_.emplace_back(die.getOffset(), *other);
    return true;
  }

  // Returns the number of the function with this name; nullopt if the name cannot be read.
  std::optional<Number> number_named(const Die& die, Attribute attribute,
                                     const llvm::DWARFFormValue& value) {
    const bool is_shared =
        value.getForm() == llvm::dwarf::DW_FORM_strp && !die.getDwarfUnit()->isDWOUnit();
    if (is_shared && others_.contains(value.getRawUValue())) return Number();
    const auto name = context_.text(die, attribute);
    if (!name) return std::nullopt;
    is_used_up_ = !walk_.take_name(*name);
    if (is_used_up_) return Number();
    const Number number = find_name_(*name);
    if (is_shared && !number) others_.add(value.getRawUValue());
    return number;
  }

  std::optional<Number> number_qualified(const Die& die, std::size_t depth) {
    const auto own = context_.text(die, llvm::dwarf::DW_AT_name);
    if (!own) return std::nullopt;
    std::string name(*own);
    int scopes = 0;
    for (const Scope& scope : scopes_ | std::views::reverse) {
      // The innermost ones, up to the function that a local class is in.
      if (scope.depth != --depth || ++scopes > max_type_depth) break;
      context_.types().add_scope(Die(die.getDwarfUnit(), &scope.entry), name);
      is_used_up_ = !walk_.take_name(name);
      if (is_used_up_) return Number();
    }
    return number_kept(std::move(name));
  }

  // Returns the number of a name that is in no section of the file.
  Number number_kept(std::string name) {
    constexpr std::size_t max_kept = std::size_t{64} << 20; // bytes
    const auto [kept, is_new] = names_.insert(std::move(name));
    if (is_new) kept_size_ += kept->size();
    if (kept_size_ > max_kept) {
      is_used_up_ = true;
      context_.warn("not all inlined functions were searched: their names are too long");
      return std::nullopt;
    }
    return find_name_(*kept);
  }

  // Whether the function around the entry has code in the image.
  bool is_in_live(llvm::DWARFUnit& entries) {
    if (callers_.empty()) return true;
    Caller& caller = callers_.back();
    if (!caller.is_live) caller.is_live = is_live_function(context_, Die(&entries, &caller.entry));
    return *caller.is_live;
  }

  // A copy without code belongs to the abstract instance of another function.
  void add_copy(const Die& die, llvm::DWARFUnit& unit) {
    if (const auto origin = reference(die, llvm::dwarf::DW_AT_abstract_origin))
      unit_copies_.push_back({*origin, &unit, die.getOffset()});
  }

  std::optional<EntryId> reference(const Die& die, Attribute attribute) {
    const auto value = die.find(attribute);
    if (!value) return std::nullopt;
    if (const auto relative = value->getAsRelativeReference())
      return in_file(unit_begin_ + *relative);
    if (const auto offset = value->getAsDebugInfoReference()) return in_file(*offset);
    if (value->getAsSupplementaryReference()) return function_of_alternate(die, attribute);
    return std::nullopt;
  }

  EntryId in_file(std::uint64_t offset) {
    if (offset < unit_begin_ || offset >= unit_end_) leads_outside_ = true;
    return {file_, offset};
  }

  // The units of the alternate file are not scanned.
  std::optional<EntryId> function_of_alternate(const Die& die, Attribute attribute) {
    const Die other = context_.referenced(die, attribute);
    if (!other) return std::nullopt;
    leads_outside_ = true;
    const EntryId id{&other.getDwarfUnit()->getContext(), other.getOffset()};
    if (!alternates_.insert(id).second) return id;
    if (const auto number = number_kept(full_name(context_, other)))
      functions_.emplace(id, *number);
    return id;
  }

  Number number_of(EntryId id) const {
    for (int i = 0; i <= max_origins; ++i) {
      if (const auto found = functions_.find(id); found != functions_.end()) return found->second;
      const auto next = named_by_.find(id);
      if (next == named_by_.end()) return std::nullopt;
      id = next->second;
    }
    return std::nullopt;
  }

  Context& context_;
  EntryWalk walk_;
  FindName find_name_;
  OtherNames others_;
  bool is_used_up_ = false;
  std::unordered_map<EntryId, std::size_t, EntryIdHash> functions_; // requested ones
  std::unordered_map<EntryId, EntryId, EntryIdHash> named_by_;      // functions without a name
  std::unordered_set<EntryId, EntryIdHash> alternates_; // known entries of the alternate file
  std::vector<InlinedCopy> copies_;
  std::unordered_set<std::string> names_; // with scopes
  std::size_t kept_size_ = 0;             // bytes of them

  // The members below are about the unit that is being read.
  struct Scope {
    std::size_t depth = 0;
    llvm::DWARFDebugInfoEntry entry;
  };
  std::vector<Scope> scopes_; // that the entry is in, the innermost last
  struct Caller {
    std::size_t depth = 0;
    llvm::DWARFDebugInfoEntry entry;
    std::optional<bool> is_live = {}; // nullopt: not known yet
  };
  std::vector<Caller> callers_; // functions that the entry is in, the innermost last
  const llvm::DWARFContext* file_ = nullptr;
  std::uint64_t unit_begin_ = 0;
  std::uint64_t unit_end_ = 0;
  std::size_t known_functions_ = 0;                                // before it
  bool leads_outside_ = false;                                     // a reference does
  std::vector<std::pair<std::uint64_t, EntryId>> unit_references_; // as named_by_, by offset
  std::vector<InlinedCopy> unit_copies_;
};

// The sources of inlined functions.
class CopySources {
public:
  explicit CopySources(Context& context) : context_(context) {}

  const std::shared_ptr<const FunctionSource>& of(const Die& copy) {
    const Die origin = context_.referenced(copy, llvm::dwarf::DW_AT_abstract_origin);
    auto& source = sources_[{origin.getDwarfUnit(), origin ? origin.getOffset() : 0}];
    if (!source)
      source = std::make_shared<const FunctionSource>(origin ? source_of_entry(context_, origin)
                                                             : FunctionSource());
    return source;
  }

private:
  Context& context_;
  std::map<std::pair<const llvm::DWARFUnit*, std::uint64_t>, std::shared_ptr<const FunctionSource>>
      sources_; // by the entries of the functions
};

// Describes copies, unit by unit.
class CopyDescriber {
public:
  explicit CopyDescriber(Context& context)
      : context_(context), reader_(context), sources_(context) {}

  // Calls `add(number, instance)` for each instance. `copies`: those of a unit are next to each
  // other.
  template <typename Add>
  void describe(std::span<const std::pair<std::size_t, InlinedCopy>> copies, Add add) {
    while (!copies.empty()) {
      llvm::DWARFUnit* const unit = copies.front().second.unit;
      const auto other =
          std::ranges::find_if(copies, [&](const auto& copy) { return copy.second.unit != unit; });
      const auto count = static_cast<std::size_t>(other - copies.begin());
      describe_unit(*unit, copies.first(count), add);
      copies = copies.subspan(count);
    }
  }

private:
  template <typename Add>
  void describe_unit(llvm::DWARFUnit& unit,
                     std::span<const std::pair<std::size_t, InlinedCopy>> copies, Add add) {
    llvm::DWARFUnit* const entries = context_.with_entries(&unit);
    if (entries == nullptr) return;
    std::vector<std::uint64_t> offsets;
    for (const auto& [number, copy] : copies) offsets.push_back(copy.offset);
    reader_.begin(unit, *entries, offsets);
    callers_.clear();
    const Positions positions(context_, unit);
    for (const auto& [number, copy] : copies) {
      const Die die = entries->getDIEForOffset(copy.offset);
      const std::vector<Die> chain = inline_chain(die);
      if (chain.empty() || !chain.back().isSubprogramDIE()) continue;
      const Caller& caller = caller_of(chain.back());
      if (!caller.is_live || reader_.is_part(die)) continue;
      const llvm::DWARFAddressRangesVector ranges = reader_.ranges_of(die);
      const CopyEntries found = reader_.entries_of(die, ranges);
      if (found.addresses.empty()) continue;
      SourceFrame call;
      positions.set_from_call(call, die);
      InlinedInstance instance{.is_entry_known = found.is_known,
                               .is_marked = found.are_marked,
                               .offset = copy.offset,
                               .code = to_code(ranges),
                               .caller = caller.name,
                               .caller_code = caller.code,
                               .source = sources_.of(die),
                               .call_file = std::move(call.file),
                               .call_line = call.line};
      for (std::size_t i = 0; i < found.addresses.size(); ++i) {
        instance.entry.value = found.addresses[i];
        if (i + 1 < found.addresses.size())
          add(number, InlinedInstance(instance));
        else
          add(number, std::move(instance));
      }
    }
  }

  struct Caller {
    bool is_live = false;
    std::string name;
    std::shared_ptr<const FunctionCode> code;
  };

  static std::vector<elf::AddressRange> to_code(const llvm::DWARFAddressRangesVector& ranges) {
    std::vector<elf::AddressRange> code;
    for (const llvm::DWARFAddressRange& range : ranges)
      if (range.HighPC > range.LowPC) code.push_back({{range.LowPC}, range.HighPC - range.LowPC});
    return code;
  }

  const Caller& caller_of(const Die& function) {
    const auto [known, is_new] = callers_.try_emplace(function.getOffset());
    Caller& caller = known->second;
    if (!is_new) return caller;
    caller.is_live = context_.is_live(function);
    if (!caller.is_live) return caller;
    caller.name = full_name(context_, function);
    const llvm::DWARFAddressRangesVector ranges = reader_.ranges_of(function);
    if (const auto entry = entry_address(context_, function, ranges))
      caller.code = std::make_shared<const FunctionCode>(FunctionCode{{*entry}, to_code(ranges)});
    return caller;
  }

  Context& context_;
  EntryReader reader_;
  CopySources sources_;
  std::unordered_map<std::uint64_t, Caller> callers_; // of the unit, by their offsets
};

// Finds inlined copies by the index of names, and checks them at their entries. Returns each with
// the raw name of its function; nullopt if there is no index, or, with a warning, if it is wrong.
std::optional<std::vector<std::pair<std::string, InlinedCopy>>>
find_by_index(Context& context, const std::function<bool(std::string_view)>& matches) {
  const auto index = NameIndex::read(context);
  if (!index) return std::nullopt;
  std::vector<std::pair<std::string_view, NameIndex::Entry>> listed;
  const bool is_sound =
      index->visit(matches, [&](std::string_view name, const NameIndex::Entry& entry) {
        if (entry.tag == llvm::dwarf::DW_TAG_inlined_subroutine) listed.emplace_back(name, entry);
      });
  if (!is_sound || listed.empty()) return std::nullopt; // it may leave copies out
  std::vector<std::pair<std::string, InlinedCopy>> copies;
  std::set<std::pair<const llvm::DWARFUnit*, std::uint64_t>> seen;
  for (const auto& [name, entry] : listed) {
    llvm::DWARFUnit* const entries = context.with_entries(entry.unit);
    const auto offset =
        entries != nullptr ? checked_add(entries->getOffset(), entry.offset) : std::nullopt;
    const Die die = offset ? entries->getDIEForOffset(*offset) : Die();
    const bool is_copy = die && die.getTag() == llvm::dwarf::DW_TAG_inlined_subroutine;
    const auto raw = is_copy ? context.linkage_name(die) : std::nullopt;
    if (!raw || (*raw != name && context.name(die) != name)) {
      context.warn("the index in .debug_names is wrong and not used");
      return std::nullopt;
    }
    if (*raw == name && has_code(die) && seen.emplace(entries, *offset).second)
      copies.emplace_back(name, InlinedCopy{.origin = {}, .unit = entry.unit, .offset = *offset});
  }
  return copies;
}

Result<void> check_size(const Context& context) {
  const std::uint64_t size = context.info_size();
  if (size <= max_debug_info) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("the debug information is too large to be searched for inlined "
                          "functions: {} MiB (expected at most {})",
                          size >> 20U, max_debug_info >> 20U));
}

Result<InlinedScan> scan(const DebugInfo& debug, InlinedScan::FindName find_name) {
  Context& context = debug.context();
  if (auto checked = check_size(context); !checked) return fail(std::move(checked).error());
  InlinedScan all(context, std::move(find_name));
  all.read_all();
  return all;
}

} // namespace

bool is_same_source(const std::optional<FunctionSource>& with_code, const FunctionSource& inlined) {
  if (!with_code) return inlined.is_external;
  if (with_code->line == 0 || inlined.line == 0) return true; // there is only the name to compare
  if (with_code->is_external && inlined.is_external) return true;
  const bool has_columns = with_code->column != 0 && inlined.column != 0;
  return with_code->line == inlined.line && with_code->file == inlined.file &&
         (!has_columns || with_code->column == inlined.column);
}

Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const DebugInfo& debug, std::span<const CountedFunction> functions) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> by_number; // indexes of functions
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const auto [known, is_new] = numbers.emplace(functions[i].name, numbers.size());
    if (is_new) by_number.emplace_back();
    by_number[known->second].push_back(i);
  }
  const auto found = scan(debug, [&](std::string_view raw) -> std::optional<std::size_t> {
    const auto number = numbers.find(raw);
    return number == numbers.end() ? std::nullopt : std::optional(number->second);
  });
  if (!found) return fail(found.error());
  std::vector<std::optional<std::uint64_t>> counts(functions.size());
  found->for_each_described([&](std::size_t number) {
    for (const std::size_t i : by_number[number]) counts[i] = 0;
  });
  EntryReader reader(debug.context());
  CopySources sources(debug.context());
  std::unordered_map<std::size_t, std::optional<FunctionSource>> own; // of functions with copies
  const auto is_of = [&](std::size_t i, const Die& copy) {
    const CountedFunction& function = functions[i];
    if (!function.address || !copy) return true;
    const auto [known, is_new] = own.try_emplace(i);
    if (is_new) known->second = source_of(debug, *function.address, function.name);
    return is_same_source(known->second, *sources.of(copy));
  };
  found->for_each_copy([&](std::size_t number, const InlinedCopy& copy) {
    llvm::DWARFUnit* const entries = debug.context().with_entries(copy.unit);
    const Die die = entries != nullptr ? entries->getDIEForOffset(copy.offset) : Die();
    if (die && reader.is_part(die)) return;
    for (const std::size_t i : by_number[number])
      if (is_of(i, die)) ++*counts[i];
  });
  return counts;
}

std::optional<FunctionSource> source_of(const DebugInfo& debug, VirtualAddress address,
                                        std::string_view name) {
  Context& context = debug.context();
  const Die there = context.function_at(address);
  const bool is_own = there && context.linkage_name(there) == name;
  const Die without_code = is_own ? Die() : context.function_without_code(address, name);
  if (there) return source_of_entry(context, without_code ? without_code : there);
  llvm::DWARFUnit* const unit = context.unit_at(address);
  return unit == nullptr ? std::nullopt : std::optional(FunctionSource());
}

void prefetch_inlined(const DebugInfo& debug) {
  if (Context& context = debug.context(); context.info_size() <= max_debug_info)
    context.prefetch({".debug_info", ".debug_str", ".debug_line"});
}

Result<std::vector<InlinedFunction>>
find_inlined(const DebugInfo& debug, const std::function<bool(std::string_view)>& matches) {
  std::vector<InlinedFunction> functions;
  std::unordered_map<std::string_view, std::optional<std::size_t>> numbers; // of all names
  const auto find_number = [&](std::string_view raw) {
    const auto [number, is_new] = numbers.try_emplace(raw);
    if (is_new && matches(raw)) {
      number->second = functions.size();
      functions.push_back({.name = std::string(raw), .instances = {}});
    }
    return number->second;
  };
  Context& context = debug.context();
  if (auto checked = check_size(context); !checked) return fail(std::move(checked).error());
  std::vector<std::pair<std::size_t, InlinedCopy>> copies;
  const auto indexed = find_by_index(context, matches);
  if (indexed) {
    for (const auto& [name, copy] : *indexed)
      if (const auto number = find_number(name)) copies.emplace_back(*number, copy);
    std::ranges::sort(copies, {}, [](const auto& copy) {
      return std::pair(copy.second.unit->getOffset(), copy.second.offset);
    });
  } else {
    const auto found = scan(debug, find_number);
    if (!found) return fail(found.error());
    found->for_each_copy(
        [&](std::size_t number, const InlinedCopy& copy) { copies.emplace_back(number, copy); });
  }
  CopyDescriber(context).describe(copies, [&](std::size_t number, InlinedInstance instance) {
    functions[number].instances.push_back(std::move(instance));
  });
  std::erase_if(functions, [](const InlinedFunction& one) { return one.instances.empty(); });
  for (InlinedFunction& one : functions)
    std::ranges::sort(one.instances, {}, [](const InlinedInstance& each) {
      return std::tie(each.entry, each.call_file, each.call_line);
    });
  std::ranges::sort(functions, {}, &InlinedFunction::name);
  return functions;
}

} // namespace uprobectl::dwarf
