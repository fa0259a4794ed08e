// SPDX-License-Identifier: Apache-2.0
#include "events/event_values.hpp"

#include "events/arguments.hpp"
#include "events/built_in_variables.hpp"
#include "events/conditions.hpp"
#include "events/span_conditions.hpp"
#include "util/arithmetic.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <ranges>

namespace uprobectl::events {

namespace {

using Step = ValuePath::Step;

ArgumentValue untyped_value(std::string_view name, std::uint64_t number) {
  return {.name = name,
          .type_name = to_string(ArgumentType::x64),
          .value = {values::Value::Hex{number}}};
}

bool is_same_step(const Step& left, const Step& right) {
  return left.kind == right.kind && left.name == right.name && left.index == right.index;
}

// The steps that lead from the value of one path to that of another; nullopt if they do not begin
// alike. "c->host" begins with "*c", as "." works for pointers.
std::optional<std::vector<Step>> steps_after(const ValuePath& begin, const ValuePath& path) {
  if (begin.variable != path.variable) return std::nullopt;
  auto next = path.steps.begin();
  for (const Step& step : begin.steps) {
    if (next == path.steps.end()) return std::nullopt;
    const bool is_implied =
        step.kind == Step::Kind::dereference && next->kind == Step::Kind::member;
    if (is_implied) continue;
    if (!is_same_step(step, *next)) return std::nullopt;
    ++next;
  }
  return std::vector<Step>(next, path.steps.end());
}

const values::ValueType* find_member_type(const values::ValueType& type, std::string_view name) {
  for (const values::ValueType& each : type.members) {
    if (each.member_name == name) return &each;
    if (!each.member_name.empty()) continue;
    if (const values::ValueType* const inner = find_member_type(each, name)) return inner;
  }
  return nullptr;
}

// The number of elements of an array; nullopt if it is not known.
std::optional<std::uint64_t> count_elements(const values::ValueType& type) {
  const std::uint64_t each = type.element.empty() ? 0 : type.element.front().size.value_or(0);
  if (!type.size || each == 0) return std::nullopt;
  return *type.size / each;
}

// Returns null if the type does not have the part. Sets `problem` if no value can have it.
const values::ValueType* follow_types(const values::ValueType& type, std::span<const Step> steps,
                                      std::string* problem = nullptr) {
  const values::ValueType* at = &type;
  for (const Step& step : steps) {
    if (at == nullptr) return nullptr;
    switch (step.kind) {
    case Step::Kind::member:
      at = find_member_type(*at, step.name);
      break;
    case Step::Kind::element:
      if (const auto count = count_elements(*at); count && step.index >= *count) {
        if (problem != nullptr) *problem = fmt::format("{} has {} elements", at->name, *count);
        return nullptr;
      }
      at = at->element.empty() ? nullptr : &at->element.front();
      break;
    case Step::Kind::dereference:
      return nullptr;
    }
  }
  return at;
}

const values::Value not_captured_part{values::Value::Omitted{}};

const values::Value* find_member_value(const values::Value::Struct& members,
                                       std::string_view name) {
  for (const values::ValueMember& each : members) {
    if (each.name == name) return &each.value;
    const auto* const inner = std::get_if<values::Value::Struct>(&each.value.value);
    if (!each.name.empty() || inner == nullptr) continue;
    if (const values::Value* const found = find_member_value(*inner, name)) return found;
  }
  return nullptr;
}

const values::Value* follow_values(const values::Value& value, std::span<const Step> steps) {
  const values::Value* at = &value;
  for (const Step& step : steps) {
    if (std::holds_alternative<values::Value::Unreadable>(at->value)) return at;
    const auto* const members = std::get_if<values::Value::Struct>(&at->value);
    const auto* const elements = std::get_if<values::Value::Array>(&at->value);
    const values::Value* next = nullptr;
    if (step.kind == Step::Kind::member && members != nullptr)
      next = find_member_value(*members, step.name);
    if (step.kind == Step::Kind::element && elements != nullptr && step.index < elements->size())
      next = &(*elements)[step.index];
    if (next == nullptr) return &not_captured_part;
    at = next;
  }
  return at;
}

// Returns the argument `count` of a known function such as calloc(), whose `size` is that of one
// element; 1 without one.
std::uint64_t counted_elements(const Event& event) {
  const auto count = event.is_known_call ? find_value("count", event) : std::nullopt;
  const auto* const number = count ? std::get_if<std::uint64_t>(&count->value.value) : nullptr;
  return number != nullptr ? *number : 1;
}

NamedValue named_part(const values::DescribedValue& value, std::vector<Step> steps,
                      const values::ValueType& type) {
  return {
      .name = value.name, .steps = std::move(steps), .type = type, .at_return = value.at_return};
}

// Returns the part of a value that a path names; nullopt if it names none. `problem`: as
// follow_types().
std::optional<NamedValue> find_part(const values::DescribedValue& value, const ValuePath& path,
                                    std::string* problem = nullptr) {
  const auto begin = parse_value_path(value.name);
  auto steps = begin ? steps_after(*begin, path) : std::nullopt;
  const values::ValueType* const type = steps ? follow_types(value.type, *steps, problem) : nullptr;
  if (type == nullptr) return std::nullopt;
  return named_part(value, std::move(*steps), *type);
}

std::optional<NamedValue> find_part(std::span<const values::DescribedValue> values,
                                    const ValuePath& path) {
  for (const values::DescribedValue& value : values | std::views::reverse) // innermost first
    if (auto found = find_part(value, path)) return found;
  return std::nullopt;
}

// Returns what the first name of a path means in a record; null if the record does not have it.
const values::ValueType* find_record_variable(const values::ValueType& record,
                                              const ValuePath& path) {
  const bool is_structure = record.use == values::ValueUse::none && record.element.empty();
  if (is_structure) return find_member_type(record, path.variable);
  return path.variable == "value" ? &record : nullptr;
}

void add_member_names(const values::ValueType& type, std::vector<std::string>& names) {
  for (const values::ValueType& each : type.members)
    if (each.member_name.empty())
      add_member_names(each, names);
    else if (std::ranges::find(names, each.member_name) == names.end())
      names.push_back(each.member_name);
}

// `types`: that do not have the member.
Error no_member(std::string message, std::string_view name,
                std::span<const values::ValueType> types) {
  std::vector<std::string> names;
  for (const values::ValueType& each : types) add_member_names(each, names);
  return hint_members({ErrorKind::not_found, std::move(message)}, name, std::move(names),
                      types.size() > 1 ? "their" : "its");
}

Error no_member_of(const values::ValueType& type, std::string_view name) {
  return no_member(fmt::format("{} has no member '{}'", type.name, name), name, {&type, 1});
}

// Says why the type of a record does not have the member. `followed`: raised for each step tried.
MissingMember explain_missing(const values::ValueType& record, const ValuePath& path,
                              std::size_t& followed) {
  const values::ValueType* at = find_record_variable(record, path);
  if (at == nullptr && record.members.empty())
    return {.error = {
                ErrorKind::not_found,
                fmt::format("a record is {}, without members: its name is 'value'", record.name)}};
  if (at == nullptr) return {.error = no_member_of(record, path.variable)};
  for (const Step& step : path.steps) {
    ++followed;
    std::string problem;
    const values::ValueType* const next = follow_types(*at, {&step, 1}, &problem);
    if (next != nullptr) {
      at = next;
      continue;
    }
    if (step.kind == Step::Kind::member)
      return {.error = no_member_of(*at, step.name), .at = step.at};
    if (step.kind == Step::Kind::dereference)
      problem = "a record does not have what an address points to";
    else if (problem.empty())
      problem = fmt::format("{} has no elements", at->name);
    return {.error = {ErrorKind::usage, std::move(problem)}, .at = step.at};
  }
  return {.error = {ErrorKind::not_found, fmt::format("no member '{}'", path.text)}};
}

std::optional<ArgumentValue> find_in_record(std::string_view name, const UserRecord& record) {
  const auto path = parse_value_path(name);
  const values::Value* const value =
      path && record.value ? find_record_member(*record.value, *path) : nullptr;
  if (value == nullptr) return std::nullopt;
  return ArgumentValue{.name = name, .value = *value, .is_from_source = true};
}

} // namespace

const values::Value* find_record_member(const values::Value& record, const ValuePath& path) {
  const auto* const members = std::get_if<values::Value::Struct>(&record.value);
  const values::Value* const value = members != nullptr ? find_member_value(*members, path.variable)
                                     : path.variable == "value" ? &record
                                                                : nullptr;
  const values::Value* const found = value != nullptr ? follow_values(*value, path.steps) : nullptr;
  return found != &not_captured_part ? found : nullptr;
}

const values::ValueType* find_record_member(const values::ValueType& record,
                                            const ValuePath& path) {
  const values::ValueType* const type = find_record_variable(record, path);
  return type != nullptr ? follow_types(*type, path.steps) : nullptr;
}

std::optional<MissingMember> find_missing_member(std::span<const values::ValueType> records,
                                                 const ValuePath& path) {
  if (records.empty()) return std::nullopt;
  std::optional<MissingMember> missing; // of the type that has most of the path
  std::size_t most = 0;
  for (const values::ValueType& record : records) {
    if (find_record_member(record, path) != nullptr) return std::nullopt;
    std::size_t steps = 0;
    MissingMember made = explain_missing(record, path, steps);
    if (!missing || steps > most) missing = std::move(made);
    most = std::max(most, steps);
  }
  if (most > 0 || records.size() == 1) return missing;
  return MissingMember{
      .error = no_member(fmt::format("none of the records has a member '{}'", path.variable),
                         path.variable, records)};
}

Error not_saved(const PointDescription& point, const ValuePath& path, bool is_live) {
  for (const values::DescribedValue& value : point.values) {
    std::string problem;
    find_part(value, path, &problem);
    if (!problem.empty())
      return Error{ErrorKind::usage, std::move(problem)}.within(fmt::format("'{}'", path.text));
  }
  const bool is_hidden = std::ranges::find(point.hidden, path.variable) != point.hidden.end();
  if (find_built_in(path) && !is_hidden)
    return Error{ErrorKind::usage, "a built-in variable is not a value of the function"}.within(
        fmt::format("'{}'", path.text));
  if (is_live) {
    Error error{ErrorKind::not_found, fmt::format("its events do not have '{}'", path.text)};
    if (const auto names = list_names(point.values, &values::DescribedValue::name); !names.empty())
      error = std::move(error).hint(fmt::format("they have: {}", names));
    return std::move(error).hint("--args, --regs, --return and --latency select what they have");
  }
  Error error{ErrorKind::not_found, fmt::format("'{}' was not saved", path.text)};
  if (const auto saved = list_names(point.values, &values::DescribedValue::name); !saved.empty())
    error = std::move(error).hint(fmt::format("the saved values are: {}", saved));
  const auto source = parse_source_name(path.variable);
  if (path.variable.starts_with('%') ||
      (source && source->kind == ArgumentSource::Kind::machine_register))
    return std::move(error).hint("save registers with: attach --regs --save FILE");
  if (source && source->kind == ArgumentSource::Kind::returned)
    return std::move(error).hint(
        "results of functions that have one are saved by: attach --return --save FILE");
  if (source)
    return std::move(error).hint(
        fmt::format("save it with: attach --args NAME:u64@{} --save FILE", path.variable));
  return std::move(error).hint(
      fmt::format("save it with: attach --args '{}' --save FILE", path.text));
}

Error outcome_not_saved(std::string_view name) {
  return Error{
      ErrorKind::not_found,
      fmt::format("'{}' was not saved, as no prototype tells it, or the run did not read it", name)}
      .hint("compare the result, for example --if 'ret < 0'");
}

std::optional<ArgumentValue> find_value(std::string_view name, const Event& event) {
  if (event.record != nullptr) return find_in_record(name, *event.record);
  const bool is_result = name == result_name;
  if (is_result && event.left_by == ExitKind::tail_call)
    return ArgumentValue{.name = name,
                         .type_name = to_string(ArgumentType::x64),
                         .value = {values::Value::Unreadable{"left by a tail call"}}};
  if (is_result && event.typed_return) return event.typed_return;
  if (event.typed_arguments) {
    // Of variables with the same name the last one is that of the innermost scope.
    const auto backwards = *event.typed_arguments | std::views::reverse;
    const auto found = std::ranges::find(backwards, name, &ArgumentValue::name);
    if (found != backwards.end()) return *found;
  }
  if (is_result && event.kind == EventKind::on_return && !event.returns_nothing)
    return untyped_value(name, event.return_value);
  const auto source = parse_source_name(name);
  if (!source || source->kind != ArgumentSource::Kind::argument || !event.has_arguments ||
      event.typed_arguments || source->number >= event.arguments.size())
    return std::nullopt;
  return untyped_value(name, event.arguments[source->number]);
}

std::optional<NamedValue> find_variable(std::span<const values::DescribedValue> values,
                                        const ValuePath& path) {
  if (path.is_of_result()) return std::nullopt;
  for (const values::DescribedValue& value : values | std::views::reverse) // innermost first
    if (value.name == path.text) return named_part(value, {}, value.type);
  return find_part(values, path);
}

std::optional<NamedValue> find_other(const PointDescription& point, const ValuePath& path,
                                     Arch arch) {
  const std::span<const values::DescribedValue> values = point.values;
  if (path.is_of_result()) return find_part(values, path);
  ValuePath member = path;
  member.text = "this->" + path.text;
  member.variable = "this";
  member.steps.insert(member.steps.begin(), {.kind = Step::Kind::member, .name = path.variable});
  if (auto found = find_variable(values, member)) return found;
  // "arg1.id" is a part of the second parameter.
  for (const values::DescribedValue& value : values) {
    if (value.source != path.variable) continue;
    if (const values::ValueType* const type = follow_types(value.type, path.steps))
      return named_part(value, path.steps, *type);
  }
  if (!point.has_registers || !path.steps.empty()) return std::nullopt;
  std::string_view name = path.variable;
  if (name.starts_with('%')) name.remove_prefix(1);
  const auto number = arch_info(arch).find_register(name);
  if (!number) return std::nullopt;
  return NamedValue{.name = path.text, .in_register = *number, .type = {}};
}

const values::Value* find_data(const NamedValue& named, const Event& event, values::Value& made) {
  if (named.in_register) {
    if (*named.in_register >= event.registers.size()) return nullptr;
    made = {values::Value::Hex{event.registers[*named.in_register]}};
    return &made;
  }
  if (named.name == result_name) {
    if (event.kind != EventKind::on_return || event.left_by == ExitKind::tail_call) return nullptr;
    if (event.typed_return) return follow_values(event.typed_return->value, named.steps);
    if (event.returns_nothing) { // the register all the same, see CapturePlan::describe()
      made = {values::Value::Hex{event.return_value}};
      return &made;
    }
  }
  if (event.typed_arguments) {
    const auto found = std::ranges::find(*event.typed_arguments, named.name, &ArgumentValue::name);
    if (found != event.typed_arguments->end()) return follow_values(found->value, named.steps);
  }
  auto raw = find_value(named.name, event);
  if (!raw) return nullptr;
  made = std::move(raw->value);
  return &made;
}

void EventValues::describe(std::uint32_t probe, PointDescription description,
                           std::string function) {
  functions_.insert_or_assign(probe, std::move(function));
  points_.insert_or_assign(probe, std::move(description));
}

const PointDescription* EventValues::find_point(std::uint32_t probe) const {
  const auto found = points_.find(probe);
  return found != points_.end() ? &found->second : nullptr;
}

const NamedValue* EventValues::find_named(const std::string& name, std::uint32_t probe) {
  const auto [known, is_new] = names_.try_emplace({probe, name});
  if (is_new) {
    const PointDescription* const point = find_point(probe);
    const auto path = parse_value_path(name);
    if (point != nullptr && path) {
      known->second = find_variable(point->values, *path);
      if (!known->second) known->second = find_other(*point, *path, arch_);
    }
  }
  return known->second ? &*known->second : nullptr;
}

EventValues::Bearer EventValues::bearer_of(const std::string& name, const Event& event) {
  if (event.span == nullptr) return {&event, &name};
  const auto [known, is_new] = end_names_.try_emplace(name);
  if (is_new) known->second = name_at_end(name);
  if (!known->second) return {&event, &name};
  return {event.span->end.get(), &*known->second};
}

std::optional<ArgumentValue> EventValues::find(const std::string& name, const Event& event) {
  if (const Bearer bearer = bearer_of(name, event); bearer.event != &event) {
    auto found = bearer.event != nullptr ? find(*bearer.name, *bearer.event) : std::nullopt;
    if (found) found->name = name;
    return found;
  }
  if (auto found = find_value(name, event)) return found;
  const NamedValue* const named = find_named(name, event.probe);
  values::Value made;
  const values::Value* const value = named != nullptr ? find_data(*named, event, made) : nullptr;
  if (value != nullptr)
    return ArgumentValue{.name = name, .type_name = named->type.name, .value = *value};
  if (event.span != nullptr && name == span_key_name)
    return ArgumentValue{.name = name, .value = event.span->key};
  return std::nullopt;
}

std::optional<std::int64_t> EventValues::find_number(const SummedValue& value, const Event& event) {
  std::uint64_t product = 1;
  for (const ValuePath& each : value.operands) {
    const auto found = find_summed(each.text, event);
    auto number = found ? number_of(found->value) : std::nullopt;
    if (found && !number && found->type_name == "char") number = code_point_of(found->value);
    if (!number) return std::nullopt;
    product *= static_cast<std::uint64_t>(*number); // modulo 2^64, as in the run
  }
  return static_cast<std::int64_t>(product);
}

std::optional<ArgumentValue> EventValues::find_summed(const std::string& name, const Event& event) {
  const auto [hit, own] = bearer_of(name, event);
  if (hit == nullptr) return std::nullopt;
  const NamedValue* const named = hit->record == nullptr ? find_named(*own, hit->probe) : nullptr;
  if (named != nullptr && !check_summed(named->type, name)) return std::nullopt;
  return find(name, event);
}

std::optional<std::uint64_t> EventValues::find_weight(const SummedValue& value,
                                                      const Event& event) {
  const auto time = find_time(value.text);
  if (time)
    if (const auto found = time_in(event, *time)) return found;
  const Event* const hit = bearer_of(value.operands.front().text, event).event;
  if (hit != nullptr && hit->weight && !time) return hit->weight;
  const auto weight = find_number(value, event);
  if (!weight) return std::nullopt;
  if (value != "size") return static_cast<std::uint64_t>(*weight);
  return checked_mul(static_cast<std::uint64_t>(*weight), counted_elements(event))
      .value_or(std::numeric_limits<std::uint64_t>::max());
}

Result<void> EventValues::check_sum(std::string_view option, const SummedValue& value) {
  for (const ValuePath& each : value.operands)
    if (auto checked = check(option, each.text, true); !checked) return checked;
  return {};
}

Result<void> EventValues::check(std::string_view option, const std::string& name, bool is_summed) {
  const auto path = parse_value_path(name);
  if (!path) return fail(Error(path.error()).within(option));
  const bool is_of_spans =
      std::ranges::any_of(points_, [](const auto& point) { return point.second.is_of_spans(); });
  if (is_of_spans && name == span_key_name) return {};
  const auto at_end = is_of_spans ? value_at_end(*path) : std::nullopt;
  if (at_end) return check(option, at_end->text, is_summed);
  std::optional<Error> missing;
  std::optional<Error> problem; // of the first point that has the value
  for (const auto& [probe, point] : points_) {
    const NamedValue* const named = find_named(name, probe);
    if (named == nullptr) {
      if (!missing) missing = not_saved(point, *path).within(option);
      continue;
    }
    auto checked = is_summed ? check_summed(named->type, name) : Result<void>();
    if (checked) return {};
    if (problem) continue;
    problem = std::move(checked).error().within(option);
    if (const std::string& function = functions_.at(probe); !function.empty())
      problem = std::move(*problem).within(function);
  }
  if (points_.empty()) return {};
  return fail(problem ? std::move(*problem) : std::move(*missing));
}

bool EventValues::are_of_two_events(std::span<const std::string> names) {
  return std::ranges::any_of(points_, [&](const auto& point) {
    const auto is_of = [&](bool at_return) {
      return std::ranges::any_of(names, [&](const std::string& name) {
        const NamedValue* const named = find_named(name, point.first);
        return named != nullptr && !named->in_register && named->at_return == at_return;
      });
    };
    return !point.second.pairs_calls && is_of(false) && is_of(true);
  });
}

bool EventValues::are_some_of_return(std::span<const std::string> names, std::uint32_t probe) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const auto path = parse_value_path(name);
    if (path && path->is_of_result()) return true;
    const NamedValue* const named = find_named(name, probe);
    return named != nullptr && !named->in_register && named->at_return;
  });
}

bool EventValues::has_other_event(std::span<const std::string> names, const Event& event) {
  const bool is_return = event.kind == EventKind::on_return;
  return std::ranges::any_of(names, [&](const std::string& name) {
    const NamedValue* const named = find_named(name, event.probe);
    return named != nullptr && !named->in_register && named->at_return != is_return;
  });
}

Result<void> EventValues::check_built_in(const std::string& name, group_feature variable) const {
  const auto is_missing = [&](const auto& point) {
    const PointDescription& described = point.second;
    if (std::ranges::find(described.values, name, &values::DescribedValue::name) !=
        described.values.end())
      return false;
    if (variable == BY_FAILED && !described.knows_failure) return true;
    if (variable == BY_ERRNO && !described.knows_errno) return true;
    return std::ranges::find(described.hidden, name) != described.hidden.end();
  };
  if (points_.empty() || !std::ranges::all_of(points_, is_missing)) return {};
  if (is_outcome(variable)) return fail(outcome_not_saved(name));
  return fail(Error{ErrorKind::not_found, fmt::format("'{}' was not saved", name)}.hint(
      fmt::format("save it with: attach --args '{}' --save FILE", name)));
}

} // namespace uprobectl::events
