// SPDX-License-Identifier: Apache-2.0
#include "events/path_resolver.hpp"

#include "events/conditions.hpp"
#include "events/library_types.hpp"
#include "util/habits.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

using dwarf::Location;
using dwarf::Type;
using dwarf::TypeKind;

bool is_character_type(const Type& type) {
  return (type.plain_name() == "char" || type.plain_name() == "char8_t") && type.size() == 1;
}

bool is_text_pointer(const Type& type) {
  return type.kind() == TypeKind::pointer && type.target() != nullptr &&
         is_character_type(*type.target());
}

bool is_wide_integer(const Type& type) {
  return type.kind() == TypeKind::integer && type.size() == 2 * word_size;
}

bool is_number(const Type& type) {
  return type.is_scalar() && type.size() > 0 && type.size() <= word_size;
}

Error path_error(const ValuePath& path, ErrorKind kind, std::string_view what) {
  return {kind, fmt::format("'{}': {}", path.text, what)};
}

std::string problem_of(const Location& location) {
  return location.problem.empty() ? dwarf::optimized_out : location.problem;
}

namespace {

// Whether the type has floating-point numbers only, which calling conventions pass apart.
bool is_floating_point(const Type& type, int depth) {
  if (type.kind() == TypeKind::floating) return true;
  if (depth == max_typed_depth) return false;
  if (type.kind() == TypeKind::array) return is_floating_point(*type.target(), depth + 1);
  return type.kind() == TypeKind::structure && !type.members().empty() &&
         std::ranges::all_of(type.members(), [&](const dwarf::Member& each) {
           return is_floating_point(*each.type, depth + 1);
         });
}

// Finds the variables that names stand for.
class VariableFinder {
public:
  explicit VariableFinder(const TypedPoint& where) : where_(where) {}

  // Whether the path begins at a variable of the function.
  bool names_variable(const ValuePath& path) const {
    return !path.is_of_result() && find_variable(path.variable) != nullptr;
  }
  // Whether it begins at a member of the function's object.
  bool names_member(const ValuePath& path) const {
    const dwarf::Variable* const self = find_variable("this");
    if (path.is_of_result() || self == nullptr || self->type->target() == nullptr ||
        !self->location.is_readable())
      return false;
    return find_member(*self->type->target(), path.variable) ||
           !bases_with_member(*self->type->target(), path.variable).empty();
  }
  // "arg1" is the second parameter, as in declarations: "this" counts, floating-point ones do not.
  std::optional<std::uint32_t> parameter_number(const dwarf::Variable& wanted) const {
    std::uint32_t number = 0;
    for (const dwarf::Variable& each : where_.function->variables) {
      if (!each.is_parameter || !is_of_call(each) || is_floating_point(*each.type, 0)) continue;
      if (&each == &wanted) return number;
      ++number;
    }
    return std::nullopt;
  }
  // The variable at which a path begins; null if it begins at anything else.
  const dwarf::Variable* find_start_variable(const ValuePath& path) const {
    if (path.is_of_result()) return nullptr;
    const dwarf::Variable* const found = find_variable(path.variable);
    return found != nullptr ? found : find_parameter(path.variable);
  }

protected:
  const dwarf::Variable* find_variable(std::string_view name) const {
    // The innermost scope is the last. At an entry those of the function come before those of calls
    // that are inlined there, and those of the inlined call that is probed before all others. At a
    // line inside of an inlined call a name means what it means in its source.
    const bool prefers_innermost = !where_.at_entry && !where_.is_inlined_call;
    const dwarf::Variable* found = nullptr;
    for (const dwarf::Variable& each : where_.function->variables)
      if (each.name == name &&
          (found == nullptr || prefers_innermost || is_of_call(each) || !is_of_call(*found)))
        found = &each;
    return found;
  }

  const dwarf::Variable* find_parameter(std::string_view name) const {
    const auto source = parse_source_name(name);
    if (!source || source->kind != ArgumentSource::Kind::argument) return nullptr;
    const auto& variables = where_.function->variables;
    const auto found = std::ranges::find_if(variables, [&](const dwarf::Variable& each) {
      return parameter_number(each) == source->number;
    });
    return found != variables.end() ? &*found : nullptr;
  }

  // Whether the variable belongs to the inlined call that is probed, or to the function itself.
  bool is_of_call(const dwarf::Variable& variable) const {
    return where_.is_inlined_call ? variable.of_probed_call : variable.inlined_function.empty();
  }

  const TypedPoint& where_;
};

// Finds what paths name, step by step.
class PathResolver : private VariableFinder {
public:
  PathResolver(const ReadingBuilder& readings, const TypedPoint& where,
               const std::optional<reading>& result_address, std::vector<std::string> others,
               KeepReading keep)
      : VariableFinder(where), readings_(readings), result_address_(result_address),
        others_(std::move(others)), keep_(std::move(keep)) {}

  // See resolve_path().
  Result<ResolvedPath> resolve(const ValuePath& path, std::size_t* wrong_step) {
    ResolvedPath made;
    if (!path.is_of_result() && !where_.phases.entry)
      return fail(path_error(path, ErrorKind::usage, "the entry is not probed")
                      .hint("add --entry or --latency, which show the value at the entry"));
    auto start = find_start(path);
    if (!start) return fail(std::move(start).error());
    made.value = *start;
    for (const ValuePath::Step& step : path.steps)
      if (auto moved = take(path, made.value, step); !moved) {
        if (wrong_step != nullptr)
          *wrong_step = static_cast<std::size_t>(&step - path.steps.data());
        return fail(std::move(moved).error());
      }
    made.global = std::move(global_);
    return made;
  }

private:
  Result<LocatedValue> find_start(const ValuePath& path) {
    if (path.is_of_result()) return find_result(path);
    if (const dwarf::Variable* const found = find_start_variable(path))
      return start_at(path, *found->type, found->location);
    if (const dwarf::Variable* const self = find_variable("this")) {
      auto member = find_own_member(path, *self);
      if (!member) return fail(std::move(member).error());
      if (*member) return **member;
    }
    // The names of registers are not looked up in all units.
    if (where_.find_global && !parse_source_name(path.variable))
      if (auto global = where_.find_global(path.variable)) {
        global_ = std::make_unique<dwarf::Variable>(std::move(*global));
        return start_at(path, *global_->type, global_->location);
      }
    return fail(unknown_name(path));
  }

  static Result<LocatedValue> start_at(const ValuePath& path, const Type& type,
                                       const Location& location) {
    if (!location.is_readable())
      return fail(path_error(path, ErrorKind::unsupported, problem_of(location)));
    const auto phase = static_cast<record_u8>(path.is_of_result() ? PHASE_RETURN : PHASE_ENTRY);
    return LocatedValue{.type = &type, .phase = phase, .location = &location};
  }

  // A member of the class that a function of it names without "this->".
  Result<std::optional<LocatedValue>> find_own_member(const ValuePath& path,
                                                      const dwarf::Variable& self) const {
    const Type* const target = self.type->target();
    if (target == nullptr || !self.location.is_readable()) return std::nullopt;
    auto at = readings_.dereference({.type = self.type, .location = &self.location}, *target);
    if (!at) return std::nullopt;
    const auto found = move_to_member(path, *at, path.variable);
    if (!found) return fail(found.error());
    return *found ? at : std::nullopt;
  }

  // Goes to a member of the object, or of its base classes. Returns whether it has one.
  Result<bool> move_to_member(const ValuePath& path, LocatedValue& at,
                              std::string_view name) const {
    auto member = find_member(*at.type, name);
    if (!member) {
      const std::vector<BasePath> bases = bases_with_member(*at.type, name);
      if (bases.empty()) return false;
      if (bases.size() > 1)
        return fail(path_error(path, ErrorKind::usage,
                               fmt::format("'{}' is in the base classes {} and {}", name,
                                           bases[0].type->name(), bases[1].type->name())));
      for (const BasePath::Hop& hop : bases.front().hops) {
        const auto object = readings_.address(part_of(at, *at.type, hop.offset));
        const auto address = object ? base_address(*object, *hop.base, keep_) : std::nullopt;
        if (!address)
          return fail(
              path_error(path, ErrorKind::unsupported,
                         "it is in a virtual base class, which is reached by more steps than "
                         "can be read here"));
        at = {.type = hop.base->type, .phase = at.phase, .address = address};
      }
      member = find_member(*at.type, name);
    }
    at = part_of(at, *member->type, member->offset);
    at.bits = member->bits;
    return true;
  }

  Result<LocatedValue> find_result(const ValuePath& path) const {
    const dwarf::FunctionInfo& function = *where_.function;
    if (!where_.phases.exit)
      return fail(path_error(path, ErrorKind::usage, "the return is not probed")
                      .hint("add --latency, or --entry --return"));
    if (function.result->kind() == TypeKind::none)
      return fail(path_error(path, ErrorKind::not_found,
                             function.has_unknown_result ? "the location of the result is not known"
                                                         : "the function returns nothing"));
    if (result_address_)
      return LocatedValue{
          .type = function.result, .phase = PHASE_RETURN, .address = result_address_};
    return start_at(path, *function.result, function.result_location);
  }

  Error unknown_name(const ValuePath& path) const {
    if (const auto source = parse_source_name(path.variable);
        source && source->kind == ArgumentSource::Kind::machine_register)
      return path_error(path, ErrorKind::usage, "a register needs a type")
          .hint(fmt::format("write it as {}:x64", path.variable));
    std::vector<std::string> names = others_;
    for (const dwarf::Variable& each : where_.function->variables)
      if (!each.name.empty()) names.push_back(each.name);
    Error error = path_error(
        path, ErrorKind::not_found,
        fmt::format("{} has no parameter or variable '{}'", where_.function->name, path.variable));
    if (const auto near = nearest(path.variable, names); !near.empty())
      return std::move(error).hint(did_you_mean(near));
    if (auto hint = value_habit(path.variable)) return std::move(error).hint(std::move(*hint));
    if (where_.is_planned)
      return std::move(error).hint(
          "a plan has the global variables that its options name: write it "
          "with this option");
    return std::move(error).hint("list them with: uprobectl list-args TARGET FUNCTION");
  }

  Result<void> take(const ValuePath& path, LocatedValue& value, const ValuePath::Step& step) const {
    if (value.bits) return fail(path_error(path, ErrorKind::usage, "a bit-field has no members"));
    const bool is_rust_reference =
        value.type->kind() == TypeKind::reference && value.type->name().starts_with('&');
    if (auto object = skip_reference(path, value); !object) return object;
    switch (step.kind) {
    case ValuePath::Step::Kind::member:
      return take_member(path, value, step.name);
    case ValuePath::Step::Kind::element:
      return take_element(path, value, step.index);
    case ValuePath::Step::Kind::dereference:
      if (is_rust_reference) return {};
      break;
    }
    return follow_pointer(path, value);
  }

  static Result<void> move_to(const ValuePath& path, LocatedValue& value,
                              const std::optional<LocatedValue>& next) {
    if (!next) return fail(path_error(path, ErrorKind::unsupported, location_too_complex));
    value = *next;
    return {};
  }

  // Makes the value readable only if a number in it is `number`, or with NOT_ZERO only if it is
  // another one.
  Result<void> add_guard(const ValuePath& path, LocatedValue& value, const Type& type,
                         std::uint64_t offset, reading_guard kind, std::int64_t number = 0) const {
    if (!keep_)
      return fail(path_error(path, ErrorKind::unsupported,
                             "it may have no value, which cannot be asked here")
                      .hint("name it in --args, --if or --by"));
    if (!value.address && is_in_memory(value)) {
      value.address = readings_.address(value);
      if (value.address) value.offset = 0;
    }
    const auto guard = readings_.guard(part_of(value, type, offset), kind, number);
    auto made = guard ? guarded_by(value, *guard, keep_) : std::nullopt;
    if (!made)
      return fail(path_error(path, ErrorKind::unsupported,
                             "whether it has this value takes more readings than are left"));
    value = std::move(*made);
    return {};
  }

  // Goes to a part of a value with a guard.
  static Result<void> move_to_part(const ValuePath& path, LocatedValue& value, const Type& type,
                                   std::uint64_t offset) {
    if (!has_content(type))
      return fail(path_error(path, ErrorKind::usage, "it has no members, so nothing is read")
                      .hint("show what may have it, as a whole"));
    value = part_of(value, type, offset);
    return {};
  }

  // Goes to a variant of a Rust enum. Returns false if it has none of the name.
  Result<bool> move_to_variant(const ValuePath& path, LocatedValue& value,
                               std::string_view name) const {
    const auto& variants = value.type->members();
    const auto variant = std::ranges::find(variants, name, &dwarf::Member::name);
    if (variant == variants.end()) return false;
    const dwarf::Member& discriminant = *value.type->discriminant();
    // The variant without numbers has all those that the others do not have.
    std::vector<std::int64_t> numbers = variant->selected_by;
    const bool has_others = numbers.empty();
    if (has_others)
      for (const dwarf::Member& each : variants)
        numbers.insert(numbers.end(), each.selected_by.begin(), each.selected_by.end());
    constexpr std::size_t max_guards = 8;
    if (numbers.size() > (has_others ? max_guards : 1))
      return fail(path_error(
          path, ErrorKind::unsupported,
          fmt::format("whether it is '{}' takes more comparisons than can be made here", name)));
    for (const std::int64_t number : numbers)
      if (auto added = add_guard(path, value, *discriminant.type, discriminant.offset,
                                 has_others ? NOT_ZERO : IS_ZERO, number);
          !added)
        return fail(std::move(added).error());
    if (auto moved = move_to_part(path, value, *variant->type, variant->offset); !moved)
      return fail(std::move(moved).error());
    return true;
  }

  Result<void> skip_reference(const ValuePath& path, LocatedValue& value) const {
    if (value.type->kind() != TypeKind::reference || value.type->target() == nullptr) return {};
    return move_to(path, value, readings_.dereference(value, *value.type->target()));
  }

  Result<void> follow_pointer(const ValuePath& path, LocatedValue& value) const {
    if (const auto library = find_library_type(*value.type)) {
      if (library->kind == LibraryType::Kind::optional) {
        if (auto added = add_guard(path, value, *library->flag, library->length_offset, NOT_ZERO);
            !added)
          return added;
        return move_to_part(path, value, *library->type, library->offset);
      }
      if (library->kind == LibraryType::Kind::pointer)
        value = part_of(value, *library->type, library->offset);
    }
    if (auto left_out = left_out_error(path, *value.type)) return fail(std::move(*left_out));
    if (value.type->kind() != TypeKind::pointer)
      return fail(path_error(path, ErrorKind::usage,
                             fmt::format("{} is not a pointer", value.type->name())));
    if (value.type->target() == nullptr || value.type->target()->kind() == TypeKind::none)
      return fail(path_error(path, ErrorKind::usage,
                             fmt::format("what {} points to has no type", value.type->name())));
    return move_to(path, value, readings_.dereference(value, *value.type->target()));
  }

  // Returns an error if the plan has only the name and the size of the type.
  std::optional<Error> left_out_error(const ValuePath& path, const Type& type) const {
    if (!where_.is_planned || type.problem().empty()) return std::nullopt;
    return path_error(path, ErrorKind::not_found,
                      fmt::format("{}: {}", type.name(), type.problem()))
        .hint("write the plan with this option");
  }

  Result<void> take_member(const ValuePath& path, LocatedValue& at, const std::string& name) const {
    // "." also follows a pointer, as in debuggers.
    if (at.type->kind() == TypeKind::pointer)
      if (auto object = follow_pointer(path, at); !object) return object;
    const auto found =
        at.type->discriminant() ? move_to_variant(path, at, name) : move_to_member(path, at, name);
    if (!found) return fail(found.error());
    if (*found) return {};
    if (auto left_out = left_out_error(path, *at.type)) return fail(std::move(*left_out));
    Error error = path_error(path, ErrorKind::not_found,
                             fmt::format("{} has no member '{}'", at.type->name(), name));
    std::vector<std::string> names;
    for (const dwarf::Member& each : at.type->members())
      if (!each.name.empty() && !each.is_base) names.push_back(each.name);
    return fail(hint_members(std::move(error), name, std::move(names)));
  }

  Result<void> take_element(const ValuePath& path, LocatedValue& value, std::uint64_t index) const {
    const Type* element = nullptr;
    if (const auto library = find_library_type(*value.type);
        library && library->kind == LibraryType::Kind::sequence) {
      element = library->type;
      const LocatedValue pointer = part_of(value, *library->type, library->offset);
      if (auto moved = move_to(path, value, readings_.dereference(pointer, *element)); !moved)
        return moved;
    } else if (const dwarf::ArrayDescriptor* const descriptor = value.type->descriptor()) {
      element = value.type->target();
      if (index != 0 || descriptor->dimensions.size() > 1)
        return fail(path_error(path, ErrorKind::unsupported,
                               "where its elements are is known at run time only")
                        .hint("name the array, or of one dimension the first element: [0]"));
      auto first = readings_.address(value);
      if (!first || !add_load(*first, static_cast<std::int64_t>(descriptor->data), word_size))
        return fail(path_error(path, ErrorKind::unsupported, location_too_complex));
      value = {.type = value.type, .phase = value.phase, .address = first};
    } else if (value.type->kind() == TypeKind::array) {
      element = value.type->row();
      if (const auto count = value.type->row_count(); count > 0 && index >= count)
        return fail(path_error(path, ErrorKind::usage,
                               fmt::format("{} has {} elements", value.type->name(), count)));
    } else if (value.type->kind() == TypeKind::pointer) {
      element = value.type->target();
      if (auto moved = follow_pointer(path, value); !moved) return moved;
    }
    if (element == nullptr || element->size() == 0) {
      if (auto left_out = left_out_error(path, *value.type)) return fail(std::move(*left_out));
      return fail(path_error(path, ErrorKind::usage,
                             fmt::format("{} has no elements", value.type->name())));
    }
    value = part_of(value, *element, index * element->size());
    return {};
  }

  const ReadingBuilder& readings_;
  std::optional<reading> result_address_;
  std::vector<std::string> others_;
  KeepReading keep_;
  std::unique_ptr<dwarf::Variable> global_;
};

} // namespace

Result<ResolvedPath> resolve_path(const ReadingBuilder& readings, const TypedPoint& where,
                                  const ValuePath& path,
                                  const std::optional<reading>& result_address,
                                  std::vector<std::string> others, std::size_t* wrong_step,
                                  KeepReading keep) {
  return PathResolver(readings, where, result_address, std::move(others), std::move(keep))
      .resolve(path, wrong_step);
}

namespace {

// Returns the reading that finds the characters of a text; nullopt if the type is not a text.
std::optional<ComparedValue> find_text(const ReadingBuilder& readings, const LocatedValue& value,
                                       std::string_view& problem) {
  const Type& type = *value.type;
  ComparedValue made{.type = {.use = values::ValueUse::text, .name = type.name()}};
  const auto take = [&](const std::optional<reading>& address, reading_form form,
                        std::string_view otherwise, std::uint32_t most = 0) {
    if (!address) problem = otherwise;
    if (address) made.value = *address;
    read_text(made.value, form, most);
    return made;
  };
  if (const auto form = find_string_form(type))
    return take(readings.address(value), *form, "the string is not in memory");
  if (type.kind() == TypeKind::array && type.target() != nullptr &&
      is_character_type(*type.target()) && type.dimensions() <= 1 && type.descriptor() == nullptr) {
    const bool has_length = !value.address && value.location->length;
    if (has_length) made.length = readings.length(value);
    if (has_length && !made.length) problem = location_too_complex;
    const auto most =
        static_cast<record_u32>(std::min<std::uint64_t>(type.element_count(), UINT32_MAX));
    return take(readings.address(value), has_length || most > 0 ? READ_BYTES : READ_STRING,
                "the characters are not in memory", most);
  }
  const auto library = find_library_type(type);
  if (library && library->kind == LibraryType::Kind::text && !library->length_is_end) {
    made.length =
        readings.number(part_of(value, *library->type, library->length_offset), word_size);
    if (!made.length) problem = location_too_complex;
    return take(readings.number(part_of(value, *library->type, library->offset), word_size),
                READ_BYTES, location_too_complex);
  }
  const bool is_c_string = library && library->kind == LibraryType::Kind::c_string;
  if (!is_c_string && !is_text_pointer(type)) return std::nullopt;
  return take(readings.number(is_c_string ? part_of(value, *library->type, library->offset) : value,
                              word_size),
              READ_STRING, location_too_complex);
}

Error unsupported(std::string_view what) { return {ErrorKind::unsupported, std::string(what)}; }

// The first bytes of a value, or of what a pointer points to.
Result<ComparedValue> find_bytes(const ReadingBuilder& readings, const LocatedValue& value) {
  ComparedValue made{.type = {.use = values::ValueUse::bytes, .name = value.type->name()}};
  const bool is_pointer = value.type->kind() == TypeKind::pointer;
  const auto address = is_pointer ? readings.number(value, word_size) : readings.address(value);
  if (!address)
    return fail(unsupported(is_pointer ? location_too_complex : "the bytes are not in memory"));
  if (!is_pointer) made.type.size = value.type->size();
  made.value = *address;
  read_bytes(made.value);
  return made;
}

// The type of a value that is not a number.
values::ValueType without_number(const Type& type) {
  values::ValueType made{.use = values::ValueUse::none, .name = type.name()};
  for (const dwarf::Member& each : type.members())
    if (!each.name.empty() && !each.is_base) made.members.push_back({.member_name = each.name});
  return made;
}

Result<ComparedValue> find_number(const ReadingBuilder& readings, LocatedValue value) {
  const Type& type = *value.type;
  if (type.is_byte_swapped() && (type.size() > 1 || value.bits))
    return fail(ErrorKind::usage, "a number whose bytes are in the other order cannot be used in "
                                  "the kernel");
  const bool is_floating = type.kind() == TypeKind::floating;
  if (is_floating && type.size() != sizeof(float) && type.size() != sizeof(double))
    return fail(ErrorKind::unsupported,
                fmt::format("{} has {} bytes: only floating-point numbers of 4 and 8 are compared",
                            type.name(), type.size()));
  if (!value.bits && type.bits() < 8 * type.size())
    value.bits = dwarf::BitRange{0, static_cast<std::uint32_t>(type.bits())};
  const std::uint64_t size =
      value.bits ? (value.bits->offset + value.bits->size + 7) / 8 : type.size();
  auto number = size <= word_size ? readings.number(value, size) : std::nullopt;
  if (!number) return fail(unsupported(location_too_complex));
  if (value.bits) {
    number->bit_offset = static_cast<record_u8>(number->bit_offset + value.bits->offset);
    number->bit_count = static_cast<record_u8>(value.bits->size);
  }
  // The location may have extended a shorter number with zeros.
  const bool is_extended =
      !value.bits && number->bit_count != 0 && number->bit_count < 8 * type.size();
  number->is_signed = (type.is_signed() || is_floating) && !is_extended ? 1 : 0;
  return ComparedValue{.type = number_type(type, value.bits), .value = *number};
}

} // namespace

values::ValueType number_type(const dwarf::Type& type, const std::optional<dwarf::BitRange>& bits) {
  values::ValueType made{.name = type.name(),
                         .bits = static_cast<unsigned>(bits ? bits->size : type.bits()),
                         .is_signed = type.is_signed(),
                         .is_floating = type.kind() == TypeKind::floating,
                         .is_address = type.kind() == TypeKind::pointer};
  if (type.kind() != TypeKind::enumeration) return made;
  auto enumeration = std::make_shared<values::Enumeration>(
      values::Enumeration{.name = type.plain_name(), .is_scoped = type.is_scoped_enumeration()});
  for (const dwarf::Enumerator& each : type.enumerators())
    enumeration->enumerators.push_back({.name = each.name, .value = each.value});
  made.enumeration = std::move(enumeration);
  return made;
}

std::string parameter_source(const TypedPoint& where, const dwarf::Variable& variable) {
  const auto number = VariableFinder(where).parameter_number(variable);
  return number ? fmt::format("arg{}", *number) : std::string();
}
std::string parameter_source(const TypedPoint& where, const ValuePath& path) {
  const dwarf::Variable* const variable =
      path.steps.empty() ? VariableFinder(where).find_start_variable(path) : nullptr;
  return variable != nullptr ? parameter_source(where, *variable) : std::string();
}

bool names_variable(const TypedPoint& where, const ValuePath& path) {
  return VariableFinder(where).names_variable(path);
}
bool names_member(const TypedPoint& where, const ValuePath& path) {
  return VariableFinder(where).names_member(path);
}

ConditionResult<ComparedValue> find_compared(const ReadingBuilder& readings,
                                             const TypedPoint& where, const ValuePath& path,
                                             values::ValueUse use, bool is_condition) {
  std::size_t wrong_step = path.steps.size();
  // A condition has one reading besides the value. FilterCompiler numbers it.
  std::optional<reading> offset;
  const auto keep = [&](const reading& made) -> std::optional<std::size_t> {
    if (offset) return std::nullopt;
    offset = made;
    return 0;
  };
  auto named =
      resolve_path(readings, where, path, {}, is_condition ? condition_names() : result_names(),
                   &wrong_step, is_condition ? KeepReading(keep) : KeepReading());
  if (!named)
    return wrong_at(wrong_step < path.steps.size() ? path.steps[wrong_step].at : 0,
                    std::move(named).error());
  LocatedValue value = named->value;
  while (value.type->kind() == TypeKind::reference && value.type->target() != nullptr) {
    auto referred = readings.dereference(value, *value.type->target());
    if (!referred) return fail(path_error(path, ErrorKind::unsupported, location_too_complex));
    value = *referred;
  }
  const auto library = find_library_type(*value.type);
  if (library &&
      (library->kind == LibraryType::Kind::pointer || library->kind == LibraryType::Kind::duration))
    value = part_of(value, *library->type, library->offset);
  std::string_view problem;
  auto text = find_text(readings, value, problem);
  const TypeKind kind = value.type->kind();
  const bool has_other_use =
      (use == values::ValueUse::number && kind == TypeKind::pointer) ||
      (use == values::ValueUse::bytes && (kind == TypeKind::pointer || kind == TypeKind::array));
  Result<ComparedValue> made = fail(unsupported(problem));
  if (text && !has_other_use) {
    if (problem.empty()) made = std::move(*text);
  } else if (use == values::ValueUse::bytes) {
    made = find_bytes(readings, value);
  } else if (!is_number(*value.type) && value.type->kind() != TypeKind::floating) {
    made = fail(cannot_compare(use, without_number(*value.type)));
  } else {
    made = find_number(readings, value);
    if (made && library) made->type.tick = library->tick;
  }
  if (!made) return fail(std::move(made).error().within(in_single_quotes(path.text)));
  made->offset = offset;
  return std::move(*made);
}

} // namespace uprobectl::events
