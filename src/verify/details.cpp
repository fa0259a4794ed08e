// SPDX-License-Identifier: Apache-2.0
#include "verify/details.hpp"

#include "binary/binary.hpp"
#include "dwarf/functions.hpp"
#include "insn/same_code.hpp"
#include "resolve/page_size.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl::verify {

namespace {

constexpr std::size_t code_size = 16; // bytes that are recorded

// Returns the structure that a value of the type is, or that it points to; null if there is none.
const dwarf::Type* structure_of(const dwarf::Type& type) {
  using enum dwarf::TypeKind;
  const bool is_pointer = type.kind() == pointer || type.kind() == reference;
  const dwarf::Type* const seen = is_pointer ? type.target() : &type;
  if (seen == nullptr || (seen->kind() != structure && seen->kind() != variants)) return nullptr;
  return seen;
}

// Returns the name that members are listed under: that of the typedef if the structure has none.
std::string name_of_structure(const dwarf::Type& structure) {
  if (!structure.plain_name().starts_with('(')) return structure.plain_name();
  std::string_view name = structure.name();
  for (const std::string_view qualifier : {"const ", "volatile "})
    if (name.starts_with(qualifier)) name.remove_prefix(qualifier.size());
  return std::string(name);
}

// Members of anonymous structures are those of the whole one.
void add_members(const dwarf::Type& structure, std::uint64_t offset, unsigned depth,
                 std::vector<resolve::DetailMember>& members) {
  constexpr unsigned max_depth = 8;
  for (const dwarf::Member& member : structure.members()) {
    if (member.name.empty() && !member.is_base) {
      if (depth < max_depth) add_members(*member.type, offset + member.offset, depth + 1, members);
      continue;
    }
    resolve::DetailMember added{.name = member.is_base ? member.type->name() : member.name,
                                .type = member.type->name(),
                                .offset = offset + member.offset,
                                .size = member.type->size()};
    if (member.bits) {
      added.bit_offset = member.bits->offset;
      added.bit_size = member.bits->size;
    }
    members.push_back(std::move(added));
  }
}

std::optional<dwarf::FunctionInfo> find_function(const resolve::ProbePoint& point) {
  binary::Binary* const file = point.binary->contents.get();
  if (file == nullptr) return std::nullopt;
  const auto& info = file->debug_info();
  if (!info) return std::nullopt;
  dwarf::CodePoint code{
      .address = point.address, .is_clone = point.clone_of.has_value(), .with_declaration = false};
  if (point.symbol_offset == 0 && point.inlined_into == nullptr) code.symbol = point.function();
  return dwarf::describe_function(*info, code);
}

std::string code_at(const resolve::ProbePoint& point) {
  binary::Binary* const file = point.binary->contents.get();
  if (file == nullptr) return {};
  const Bytes bytes = file->image().bytes();
  if (point.image_offset.value >= bytes.size()) return {};
  std::uint64_t size = std::min<std::uint64_t>(code_size, bytes.size() - point.image_offset.value);
  // The bytes after a short function are not its code. Without a size it ends at the next symbol.
  std::uint64_t end = point.size.value_or(0);
  const std::uint64_t begin = point.address.value - point.symbol_offset;
  if (end == 0)
    if (const auto next = file->label_end(VirtualAddress{begin})) end = next->value - begin;
  if (end > point.symbol_offset) size = std::min(size, end - point.symbol_offset);
  std::string text;
  for (const std::byte byte : bytes.subspan(point.image_offset.value, size))
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// Returns the bytes that code_at() has written; nullopt for another text.
std::optional<std::vector<std::byte>> parse_code(std::string_view text) {
  std::vector<std::byte> bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    const auto byte = parse_number<std::uint8_t>(text.substr(0, 2), 16);
    if (!byte) return std::nullopt;
    bytes.push_back(std::byte{*byte});
  }
  return text.empty() ? std::optional(std::move(bytes)) : std::nullopt;
}

bool has_same_code(const std::string& recorded, const std::string& current, Arch arch) {
  if (recorded == current) return true;
  const auto one = parse_code(recorded);
  const auto other = parse_code(current);
  return one && other && insn::is_same_code(arch, *one, *other);
}

bool breaks(const resolve::PointDetails& details, resolve::PageRule rule) {
  return std::ranges::find(details.pages, to_string(rule)) != details.pages.end();
}

std::string location_of(const resolve::DetailMember& member) {
  std::string text =
      fmt::format("{} ({} {})", member.offset, member.size, member.size == 1 ? "byte" : "bytes");
  if (member.bit_size)
    text += fmt::format(", bits {}+{}", member.bit_offset.value_or(0), *member.bit_size);
  return text;
}

std::string exits_text(const std::vector<std::int64_t>& exits) {
  std::string text;
  for (const std::int64_t exit : exits)
    text += fmt::format("{}{:+#x}", text.empty() ? "" : ", ", exit);
  return text.empty() ? "none" : text;
}

void compare_members(const resolve::DetailStructure& recorded,
                     const resolve::DetailStructure& current, std::vector<DetailChange>& changes) {
  std::map<std::string_view, const resolve::DetailMember*> now;
  for (const resolve::DetailMember& member : current.members) now.emplace(member.name, &member);
  for (const resolve::DetailMember& member : recorded.members) {
    const auto found = now.find(member.name);
    const resolve::DetailMember* const other = found != now.end() ? found->second : nullptr;
    const std::string name = recorded.name + "." + member.name;
    if (other == nullptr || location_of(*other) != location_of(member))
      changes.push_back(
          {.change = output::Change::member_moved,
           .member = name,
           .recorded = location_of(member),
           .found = other != nullptr ? std::optional(location_of(*other)) : std::nullopt});
    if (other != nullptr && other->type != member.type)
      changes.push_back({.change = output::Change::type_changed,
                         .member = name,
                         .recorded = member.type,
                         .found = other->type});
  }
}

// Returns the structure of this name; null if there is none, or only its declaration.
const resolve::DetailStructure* find_structure(const resolve::PointDetails& details,
                                               std::string_view name) {
  const auto found = std::ranges::find_if(details.structures,
                                          [&](const auto& each) { return each->name == name; });
  return found != details.structures.end() && !(*found)->members.empty() ? found->get() : nullptr;
}

void compare_structures(const resolve::PointDetails& recorded, const resolve::PointDetails& current,
                        std::vector<DetailChange>& changes) {
  const bool types_changed = std::ranges::any_of(changes, [](const DetailChange& each) {
    return each.change == output::Change::type_changed;
  });
  for (const auto& structure : recorded.structures) {
    const resolve::DetailStructure* const other = find_structure(current, structure->name);
    if (other != nullptr && !(*other == *structure)) compare_members(*structure, *other, changes);
    // Another type leads to other structures.
    if (other == nullptr && !types_changed && !structure->members.empty())
      changes.push_back({.change = output::Change::not_checked,
                         .reason = "the members of '" + structure->name + "' are not known"});
  }
}

// Compares where a parameter or variable is, if both are known.
void compare_location(const resolve::DetailParameter& recorded,
                      const resolve::DetailParameter& current, std::vector<DetailChange>& changes) {
  if (recorded.location && current.location && recorded.location != current.location)
    changes.push_back({.change = output::Change::arguments,
                       .member = recorded.name,
                       .recorded = recorded.location,
                       .found = current.location});
}

void compare_variables(const resolve::PointDetails& recorded, const resolve::PointDetails& current,
                       std::vector<DetailChange>& changes) {
  for (const resolve::DetailParameter& variable : recorded.variables) {
    const auto found =
        std::ranges::find(current.variables, variable.name, &resolve::DetailParameter::name);
    const bool is_there = found != current.variables.end();
    if (!is_there || found->type != variable.type)
      changes.push_back({.change = output::Change::type_changed,
                         .member = variable.name,
                         .recorded = variable.type,
                         .found = is_there ? std::optional(found->type) : std::nullopt});
    else
      compare_location(variable, *found, changes);
  }
}

void compare_types(const resolve::PointDetails& recorded, const resolve::PointDetails& current,
                   std::vector<DetailChange>& changes) {
  const auto add = [&](std::string member, std::optional<std::string> before,
                       std::optional<std::string> after) {
    if (before != after)
      changes.push_back({.change = output::Change::type_changed,
                         .member = std::move(member),
                         .recorded = std::move(before),
                         .found = std::move(after)});
  };
  const auto& before = *recorded.parameters;
  const auto& after = *current.parameters;
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const resolve::DetailParameter* const one = i < before.size() ? &before[i] : nullptr;
    const resolve::DetailParameter* const other = i < after.size() ? &after[i] : nullptr;
    std::string name = i < before.size() ? before[i].name : after[i].name;
    if (name.empty()) name = fmt::format("arg{}", i);
    if (one != nullptr && other != nullptr && one->name != other->name)
      add(std::move(name), one->type + " " + one->name, other->type + " " + other->name);
    else
      add(std::move(name), one != nullptr ? std::optional(one->type) : std::nullopt,
          other != nullptr ? std::optional(other->type) : std::nullopt);
    if (one != nullptr && other != nullptr) compare_location(*one, *other, changes);
  }
  add("return", recorded.result, current.result);
}

} // namespace

void TypeDetails::describe(const dwarf::FunctionInfo& function, resolve::PointDetails& details) {
  const auto add_type = [&](const dwarf::Type* type) {
    const dwarf::Type* const structure = type != nullptr ? structure_of(*type) : nullptr;
    if (structure != nullptr) add(*structure, details);
  };
  details.parameters.emplace();
  for (const dwarf::Variable& variable : function.variables) {
    if (!variable.is_parameter || !variable.inlined_function.empty()) continue;
    details.parameters->push_back({.name = variable.name, .type = variable.type->name()});
    add_type(variable.type);
  }
  if (function.has_unknown_result) return;
  details.result =
      function.result->kind() == dwarf::TypeKind::none ? "void" : function.result->name();
  add_type(function.result);
}

bool TypeDetails::add(const dwarf::Type& structure, resolve::PointDetails& details) {
  const std::string name = name_of_structure(structure);
  if (std::ranges::any_of(details.structures,
                          [&](const Structure& each) { return each->name == name; }))
    return false;
  details.structures.push_back(find(structure));
  return true;
}

std::size_t TypeDetails::add_reachable(const dwarf::Type& type, std::size_t depth,
                                       resolve::PointDetails& details) {
  std::vector<const dwarf::Type*> types = {&type};
  std::set<const dwarf::Type*> seen;
  for (std::size_t followed = 0;; ++followed) {
    std::vector<const dwarf::Type*> next;
    for (const dwarf::Type* each : types) {
      while (each->kind() == dwarf::TypeKind::array && each->target() != nullptr)
        each = each->target();
      const dwarf::Type* const structure = structure_of(*each);
      if (structure == nullptr || structure->members().empty() || !seen.insert(structure).second)
        continue;
      if (details.structures.size() >= max_structures) return followed;
      add(*structure, details);
      for (const dwarf::Member& member : structure->members()) next.push_back(member.type);
    }
    if (next.empty() || followed == depth) return followed;
    types = std::move(next);
  }
}

TypeDetails::Structure TypeDetails::find(const dwarf::Type& structure) {
  Structure& known = by_type_[&structure];
  if (known) return known;
  auto made = std::make_shared<resolve::DetailStructure>(
      resolve::DetailStructure{.name = name_of_structure(structure)});
  add_members(structure, 0, 0, made->members);
  std::vector<Structure>& same_name = by_name_[made->name];
  const auto same =
      std::ranges::find_if(same_name, [&](const Structure& each) { return *each == *made; });
  known = same != same_name.end() ? *same : same_name.emplace_back(std::move(made));
  return known;
}

DetailReader::File& DetailReader::open(const std::shared_ptr<const resolve::ProbedBinary>& binary) {
  const auto [known, is_new] = files_.try_emplace(binary);
  File& file = known->second;
  if (!is_new) return file;
  if (auto reader = resolve::FunctionReader::open(binary, debug_paths_))
    file.functions.emplace(std::move(*reader));
  if (binary->contents == nullptr) return file;
  std::set<std::string> rules; // several segments may break one
  for (const resolve::PageFinding& finding :
       resolve::check_pages(binary->contents->image()).findings)
    rules.emplace(to_string(finding.problem.rule));
  file.pages.assign(rules.begin(), rules.end());
  return file;
}

void DetailReader::read(resolve::ProbePoint& point) {
  auto details = std::make_shared<resolve::PointDetails>();
  File& file = open(point.binary);
  details->pages = file.pages;
  details->code = code_at(point);
  if (!point.static_probe)
    if (const auto function = find_function(point)) file.types.describe(*function, *details);
  if (!point.static_probe && file.functions && point.offset && point.symbol_offset == 0 &&
      point.inlined_into == nullptr) {
    if (const auto returns = file.functions->returns(point)) {
      details->exits.emplace();
      const auto add = [&](FileOffset exit) {
        details->exits->push_back(static_cast<std::int64_t>(exit.value - point.offset->value));
      };
      std::ranges::for_each(returns->returns, add);
      for (const auto& call : returns->tail_calls) add(call.offset);
      std::ranges::sort(*details->exits);
    }
  }
  point.details = std::move(details);
}

std::vector<DetailChange> compare_details(const resolve::PointDetails& recorded,
                                          const resolve::PointDetails& current, Arch arch,
                                          bool has_moved) {
  std::vector<DetailChange> changes;
  if (recorded.parameters && current.parameters) {
    compare_types(recorded, current, changes);
    compare_variables(recorded, current, changes);
    compare_structures(recorded, current, changes);
  } else if (recorded.parameters) {
    changes.push_back({.change = output::Change::not_checked,
                       .reason = "no debug information: types and members are not checked"});
  }
  if (recorded.exits && !current.exits)
    changes.push_back({.change = output::Change::not_checked, .reason = "its exits are not known"});
  else if (recorded.exits && recorded.exits != current.exits)
    changes.push_back({.change = output::Change::exits_changed,
                       .recorded = exits_text(*recorded.exits),
                       .found = exits_text(*current.exits)});
  if (!has_moved && !recorded.code.empty() && !has_same_code(recorded.code, current.code, arch))
    changes.push_back(
        {.change = output::Change::code_changed, .recorded = recorded.code, .found = current.code});
  const auto broke_before = [&](resolve::PageRule rule) { return breaks(recorded, rule); };
  for (const resolve::PageRule rule : resolve::all_page_rules)
    if (breaks(current, rule) && is_new_problem(rule, broke_before))
      changes.push_back({.change = output::Change::page_size,
                         .reason = fmt::format("it breaks the rule {}", to_string(rule))});
  return changes;
}

} // namespace uprobectl::verify
