// SPDX-License-Identifier: Apache-2.0
#include "events/point_values.hpp"

#include "events/built_in_variables.hpp"
#include "events/path_resolver.hpp"
#include "events/presentation.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

using Kind = ArgumentSource::Kind;
using Specs = std::span<const ArgumentSpec>;

// Bytes of strings and memory in the key of a group, beside the results of readings.
constexpr std::uint32_t max_group_value_bytes = 320;

// Returns arg0 to arg5, for code with another calling convention than the program assumes.
std::vector<ArgumentSpec> six_integer_arguments() {
  std::vector<ArgumentSpec> six;
  six.reserve(RECORD_VALUES);
  for (std::uint32_t i = 0; i < RECORD_VALUES; ++i)
    six.push_back({.name = "arg" + std::to_string(i), .source = {.number = i}});
  return six;
}

// Returns why an argument of a static probe cannot be read; empty if it can.
std::string argument_problem(const ArgumentSpec& spec, const usdt::StaticProbe* probe) {
  if (probe == nullptr || spec.source.kind != Kind::argument) return {};
  const usdt::StaticArgument& argument = probe->arguments[spec.source.number];
  const std::string problem = unreadable_reason(argument);
  return problem.empty() ? problem : argument.raw + ": " + problem;
}

// Returns why the argument with the length of a buffer cannot be read; empty if it can.
std::string length_problem(const ArgumentSpec& spec, Specs list) {
  if (!spec.length_from) return {};
  const ArgumentSpec* const length = find_argument(list, *spec.length_from);
  if (length == nullptr)
    return "its length " + *spec.length_from + " is not an argument of this probe";
  if (!length->problem.empty() || is_floating(length->type))
    return "its length " + *spec.length_from + " cannot be read";
  return {};
}

std::vector<ArgumentSpec> with_problems(std::vector<ArgumentSpec> specs,
                                        const usdt::StaticProbe* probe) {
  for (ArgumentSpec& each : specs) each.problem = argument_problem(each, probe);
  for (ArgumentSpec& each : specs)
    if (each.problem.empty()) each.problem = length_problem(each, specs);
  return specs;
}

// The arguments and the return value of a Java method, as many as a record can hold.
std::vector<ArgumentSpec> java_values(const resolve::JavaMethod& method, CodeKind kind,
                                      const CapturePhases& phases) {
  std::vector<JavaArgument> known;
  if (phases.entry) known = java_arguments(method, kind);
  const auto returned = phases.exit ? java_return(method, kind) : std::nullopt;
  const std::size_t room = MAX_READINGS - (returned && returned->spec.problem.empty() ? 1 : 0);
  if (returned) known.push_back(*returned);
  std::vector<ArgumentSpec> values;
  std::size_t read = 0;
  for (JavaArgument& each : known) {
    const bool is_return = each.spec.source.kind == Kind::returned;
    if (each.spec.problem.empty() && !is_return && ++read > room)
      each.spec.problem = "a record can hold " + std::to_string(MAX_READINGS) + " values";
    values.push_back(std::move(each.spec));
  }
  return values;
}

// In a list for a Java method `this` is not a parameter, so it does not count as a position.
std::vector<ArgumentSpec> with_this(std::vector<ArgumentSpec> specs) {
  std::uint32_t before = 0;
  for (ArgumentSpec& spec : specs) {
    if (!spec.by_position) continue;
    if (spec.name == "this") {
      spec.source.number = this_argument;
      ++before;
    } else {
      spec.source.number -= before;
    }
  }
  return specs;
}

// Adds the arguments that the selected ones need.
void add_needed(std::vector<ArgumentSpec>& selected, Specs all) {
  for (std::size_t i = 0; i < selected.size(); ++i)
    for (const auto& needed : {selected[i].length_from, selected[i].address_from})
      if (needed && find_argument(selected, *needed) == nullptr)
        if (const ArgumentSpec* const known = find_argument(all, *needed); known != nullptr)
          selected.push_back(*known);
}

// Adds what a prototype declares beside the user's list: a list selects what is shown, names mean
// the same with it. What needs a value that the list declares otherwise is left out.
void add_prototype(std::vector<ArgumentSpec>& named, std::vector<ArgumentSpec> prototype) {
  const std::size_t listed = named.size();
  const auto is_listed = [&](std::string_view name) {
    return find_argument(Specs(named).first(listed), name) != nullptr;
  };
  for (ArgumentSpec& each : prototype) {
    const bool depends = (each.length_from && is_listed(*each.length_from)) ||
                         (each.address_from && is_listed(*each.address_from));
    if (!depends && !is_listed(each.name)) named.push_back(std::move(each));
  }
}

Error is_built_in(filter_subject variable) {
  Error error{ErrorKind::usage, "a built-in variable is not a value of the function"};
  if (!call_time_of(variable)) return error;
  return std::move(error).hint("latencies are measured by --histogram without --measure");
}

} // namespace

void NameProblems::add(std::string_view option, std::string_view name, std::optional<Error> error) {
  const auto known = std::ranges::find_if(
      names_, [&](const Name& each) { return each.name == name && each.option == option; });
  if (known == names_.end())
    names_.push_back(
        {.option = std::string(option), .name = std::string(name), .error = std::move(error)});
  else if (!error)
    known->error.reset();
}

Result<void> NameProblems::check() const {
  for (const Name& each : names_)
    if (each.error) return fail(Error(*each.error).within(each.option));
  return {};
}

void ValueContext::warn(const CapturePoint& probed, std::string_view what) const {
  if (types != nullptr) types->warn(fmt::format("{}: {}", display_name(*probed.point), what));
}

TypedLimits ValueContext::limits() const {
  TypedLimits made{.depth = capture.typed_depth, .scalars_only = points > max_whole_functions};
  if (!capture.spans.empty()) made.max_readings -= MAX_SPAN_ROLES; // for their keys
  if (!capture.groups.by.empty() && capture.spans.empty()) {
    made.max_bytes = max_group_value_bytes;
    made.adds_result = false;
  }
  made.max_string = std::min(capture.max_string_bytes, made.max_bytes);
  return made;
}

// Arguments that the user wrote come first, then a prototype, the note or the signature, then
// registers. Debug information is read later: functions with a prototype do not need it, and static
// probes and Java methods have none.
Result<PointValues> PointValues::make(const ValueContext& context, const CapturePoint& probed,
                                      const ArgumentList* asked, const ReadingBuilder& builder) {
  PointValues made(context, probed, asked, builder);
  if (probed.values != nullptr) return made;
  const CaptureSpec& capture = context.capture;
  const resolve::ProbePoint& point = *probed.point;
  const CapturePhases phases = phases_of(capture, probed);
  DeclaredValues& declared = made.declared_;
  if (point.static_probe && (asked == nullptr || !asked->arguments.empty())) {
    auto specs = static_probe_arguments(*point.static_probe, asked);
    if (!specs) return fail(std::move(specs).error());
    declared.arguments = with_problems(std::move(*specs), point.static_probe.get());
  } else if (asked != nullptr) {
    declared.arguments =
        with_problems(point.java ? with_this(asked->arguments) : asked->arguments, nullptr);
  } else if (probed.known != nullptr) {
    declared.known = probed.known;
    declared.conditions = probed.known->conditions;
    declared.arguments = with_problems(probed.known->arguments, nullptr);
  } else if (point.java && point.symbol_offset == 0) {
    declared.arguments = java_values(*point.java, probed.code.kind, phases);
  } else { // the registers of an inlined call do not hold arguments
    declared.six_registers = !point.inlined_into;
  }
  made.named_ = declared.arguments;
  if (asked != nullptr && probed.known != nullptr)
    add_prototype(made.named_, with_problems(probed.known->arguments, nullptr));
  if (asked != nullptr)
    if (auto found = made.find_listed_names(); !found) return fail(std::move(found).error());
  return made;
}

// A name of the list needs no debug information if the prototype, or the signature of a Java
// method, declares it.
Result<void> PointValues::find_listed_names() {
  const resolve::ProbePoint& point = *probed_.point;
  std::vector<ArgumentSpec> offered = named_;
  if (point.java && point.symbol_offset == 0)
    add_prototype(
        offered, java_values(*point.java, probed_.code.kind, phases_of(context_.capture, probed_)));
  for (const ValuePath& path : asked_->paths) {
    const ArgumentSpec* const spec =
        path.steps.empty() ? find_argument(offered, path.variable) : nullptr;
    if (spec == nullptr) {
      paths_.push_back(path);
    } else if (context_.capture.captures_values()) {
      if (auto added = add_listed(*spec); !added) return added;
    }
  }
  declared_.shown = declared_.arguments.size();
  add_needed(declared_.arguments, offered);
  return {};
}

// A parameter that is passed, or has names, only with certain values of another one is shown after
// that one.
Result<void> PointValues::add_listed(const ArgumentSpec& spec) {
  std::string_view deciding;
  if (spec.shown_as != nullptr) deciding = spec.shown_as->selector;
  if (probed_.known != nullptr) {
    const auto& all = probed_.known->arguments;
    for (KnownCall::Condition condition : probed_.known->conditions) {
      if (condition.argument >= all.size() || all[condition.argument].name != spec.name) continue;
      deciding = find_argument(all, condition.name)->name;
      condition.argument = declared_.arguments.size();
      declared_.conditions.push_back(std::move(condition));
    }
  }
  if (!deciding.empty() && find_argument(declared_.arguments, deciding) == nullptr)
    return fail(Error{ErrorKind::usage,
                      fmt::format("--args: what '{}' means depends on '{}'", spec.name, deciding)}
                    .hint(fmt::format("list both: {},{}", deciding, spec.name)));
  declared_.arguments.push_back(spec);
  return {};
}

bool PointValues::is_declared(std::string_view name) const {
  return find_argument(named_, name) != nullptr;
}

bool PointValues::needs_types() const {
  const CaptureSpec& capture = context_.capture;
  const resolve::ProbePoint& point = *probed_.point;
  if (context_.types == nullptr || probed_.values != nullptr) return false;
  const auto is_open = [&](std::string_view name) { return !name.empty() && !is_declared(name); };
  for (const auto* const summed : {&capture.measured, &capture.weight})
    if (*summed && std::ranges::any_of((*summed)->operands, [&](const ValuePath& each) {
          return !is_declared(each.text);
        }))
      return true;
  if (std::ranges::any_of(probed_.roles, [&](const SpanRole& role) {
        return role.key && !is_declared(role.key->text);
      }))
    return true;
  if (std::ranges::any_of(capture.filter.terms, [&](const ConditionSpec& each) {
        if (!each.path || is_declared(each.name())) return false;
        return !each.type || !parse_source_name(each.name());
      }))
    return true;
  if (!capture.captures_values()) return false;
  if (capture.counts_span_values()) return true;
  if (!capture.groups.by.empty()) return std::ranges::any_of(capture.groups.names(), is_open);
  if (asked_ != nullptr) return !paths_.empty();
  return capture.typed && probed_.known == nullptr && !point.static_probe && point.java == nullptr;
}

void PointValues::set_types(Result<const TypedPoint*> types) {
  if (types)
    types_ = *types;
  else
    problem_ = std::move(types).error();
}

// Finds declared arguments first, then variables of debug information, built-in variables, members
// of the object, and registers. Globals are last: they have no names of built-in variables or
// registers.
PointValues::FoundName PointValues::find(const ValuePath& path, bool has_type,
                                         std::optional<filter_subject> built_in) const {
  FoundName found;
  if (path.steps.empty()) {
    found.declared = find_argument(named_, path.variable);
    found.source = parse_source_name(path.variable);
  }
  if (found.declared != nullptr) return found;
  const bool is_argument_or_result = found.source && found.source->kind != Kind::machine_register;
  const bool is_typed_register = has_type && found.source;
  const bool may_be_variable = types_ != nullptr && !is_argument_or_result && !is_typed_register;
  found.is_variable = may_be_variable && names_variable(*types_, path);
  if (!found.is_variable) found.built_in = built_in;
  if (!found.is_variable && !built_in)
    found.is_variable = may_be_variable && names_member(*types_, path);
  return found;
}

std::vector<std::string> PointValues::hidden_names() const {
  std::vector<std::string> hidden;
  for (std::string& name : condition_names()) {
    const auto path = parse_value_path(name);
    const auto built_in = path ? find_built_in(*path) : std::nullopt;
    if (built_in && !find(*path, false, built_in).built_in) hidden.push_back(std::move(name));
  }
  return hidden;
}

// Whether debug information says what the argument or the result is. Fails if it is not a number.
Result<bool> PointValues::knows_type(const ValuePath& path, const ArgumentSource& source) const {
  if (types_ == nullptr || !uses_debug_info(context_.capture) ||
      source.kind == Kind::machine_register)
    return false;
  const dwarf::FunctionInfo& function = *types_->function;
  const bool is_result = source.kind == Kind::returned;
  if (is_result ? !types_->phases.exit || function.has_unknown_result
                : !types_->at_entry && !types_->is_inlined_call)
    return false;
  const dwarf::TypeKind kind = function.result->kind();
  if (!is_result || (kind != dwarf::TypeKind::none && kind != dwarf::TypeKind::floating))
    return true;
  const std::string_view problem =
      kind == dwarf::TypeKind::none
          ? "the function returns nothing"
          : "it is a floating-point number in a vector register, which a probe cannot read";
  if (context_.points == 1) return fail(ErrorKind::usage, std::string(problem));
  // A function of many that has no such value is probed all the same.
  context_.warn(probed_, fmt::format("'{}' reads a register: {}", path.text, problem));
  return false;
}

ConditionResult<std::optional<ComparedValue>>
PointValues::compared_by_type(const ValuePath& path, const ArgumentSource& source,
                              values::ValueUse use, bool is_condition) const {
  const auto known = knows_type(path, source);
  if (!known) return fail(known.error());
  if (!*known) return std::nullopt;
  auto made = find_compared(builder_, *types_, path, use, is_condition);
  // A text or bytes may be what any pointer points to.
  const bool is_pointer = made && made->type.is_address && use != made->type.use;
  if (made && (!is_pointer || use == values::ValueUse::number)) return std::move(*made);
  if (!made && made.error().error.kind == ErrorKind::usage)
    return std::unexpected(std::move(made).error());
  return std::nullopt;
}

ConditionResult<ComparedValue> PointValues::compared(const ValuePath& path, const FoundName& found,
                                                     std::optional<ArgumentType> type,
                                                     values::ValueUse use,
                                                     bool is_condition) const {
  const Specs list = named_;
  const ArgumentSpec* declared = found.declared;
  const bool is_source = declared == nullptr && !found.is_variable && found.source;
  if (is_source && !type) {
    // The type of an argument with the same source applies.
    const auto same = std::ranges::find_if(list, [&](const ArgumentSpec& each) {
      return each.source == *found.source && !each.address_from && use != values::ValueUse::bytes &&
             (use == values::ValueUse::text) == is_memory(each.type) &&
             each.type != ArgumentType::bytes;
    });
    if (same != list.end()) declared = &*same;
    auto typed = declared == nullptr ? compared_by_type(path, *found.source, use, is_condition)
                                     : std::nullopt;
    if (!typed) return std::unexpected(std::move(typed).error());
    if (*typed) return std::move(**typed);
  }
  if (declared != nullptr && declared->address_from)
    return fail(ErrorKind::unsupported,
                in_single_quotes(declared->name) +
                    " is written by the function: it has no value at the entry");
  if (declared != nullptr || is_source) {
    const ArgumentSpec spec =
        declared != nullptr ? *declared : ArgumentSpec{.name = path.text, .source = *found.source};
    // A note or a signature declares only a part of the type, so its type does not replace the one
    // of the value.
    const bool is_noted =
        asked_ == nullptr && (probed_.point->static_probe || probed_.point->java != nullptr);
    if (!type && declared != nullptr && !is_noted) type = declared->type;
    auto made = builder_.compared(spec, type, use, list);
    if (!made) return fail(std::move(made).error());
    return std::move(*made);
  }
  if (types_ == nullptr)
    return fail(unknown_name(path, is_condition ? condition_names() : result_names()));
  auto made = find_compared(builder_, *types_, path, use, is_condition);
  const std::string known = probed_.known ? list_names(list, &ArgumentSpec::name) : "";
  if (!made && !known.empty())
    made.error().error = std::move(made.error().error).hint("its known arguments are: " + known);
  return made;
}

Error PointValues::needs_types_error(const ValuePath& path) const {
  Error error{ErrorKind::not_found, fmt::format("'{}' needs debug information{}", path.text,
                                                problem_ ? ": " + problem_->message : "")};
  if (problem_) error.hints = problem_->hints;
  if (const std::string known = list_names(named_, &ArgumentSpec::name); !known.empty())
    error = std::move(error).hint("its known arguments are: " + known);
  return error;
}

// Returns the error for a name that is neither an argument nor a built-in variable.
Error PointValues::unknown_name(const ValuePath& path, std::vector<std::string> others) const {
  const Specs list = named_;
  const std::string offered = list_names(list, &ArgumentSpec::name);
  const bool is_name = path.steps.empty() && is_identifier(path.variable);
  if (!is_name || (problem_ && offered.empty())) return needs_types_error(path);
  for (const ArgumentSpec& each : list) others.push_back(each.name);
  Error error{ErrorKind::usage, in_single_quotes(path.variable) + " is not an argument"};
  if (const auto near = nearest(path.variable, others); !near.empty())
    error = std::move(error).hint(did_you_mean(near));
  if (!offered.empty()) error = std::move(error).hint("its arguments are: " + offered);
  return std::move(error).hint("use arg0, arg1, …, ret, a register or a name declared by --args; "
                               "names of parameters need debug information");
}

Result<reading> PointValues::result_of_known_call() const {
  const KnownCall* const known = probed_.known.get();
  const auto refused = [](std::string_view why) {
    return fail(Error{ErrorKind::unsupported, std::string(why)}.hint(
        "compare the result itself, for example --if 'ret < 0' or 'ret == 0'"));
  };
  if (probed_.point->static_probe)
    return fail(ErrorKind::unsupported, "a static probe has no result");
  if (known == nullptr)
    return refused("no prototype says which results of it mean failure "
                   "(uprobectl help prototypes)");
  if (!known->result) return fail(ErrorKind::unsupported, "the function returns nothing");
  if (!known->failure) return refused("its prototype does not say which results mean failure");
  if (!phases_of(context_.capture).exit)
    return fail(Error{ErrorKind::usage, "the result is known only at the return"}.hint(
        "add --return or --latency"));
  ArgumentSpec result = *known->result;
  if (is_memory(result.type)) result.type = ArgumentType::ptr;
  auto made = builder_.compared(result, result.type, values::ValueUse::number, named_);
  if (!made) return fail(std::move(made).error());
  return made->value;
}

Error PointValues::unknown_errno() const {
  if (!probed_.known->sets_errno)
    return {ErrorKind::unsupported, "its prototype does not say that it sets errno"};
  if (!context_.capture.pair_calls)
    return Error{ErrorKind::usage, "errno is known only of calls"}.hint(
        "add --latency, which makes an entry and its return one event");
  if (context_.layouts.thread.address == 0)
    return Error{
        ErrorKind::unsupported,
        "this kernel does not tell where it keeps the thread pointer, which errno is found "
        "by"}
        .hint("it needs BTF (CONFIG_DEBUG_INFO_BTF); compare the result instead: --if failed");
  return Error{ErrorKind::unsupported, "where its library keeps errno is not known"}.hint(
      "it is known of glibc itself; compare the result instead: --if failed");
}

ConditionResult<PreparedTerm> PointValues::compare_outcome(const ConditionSpec& spec,
                                                           filter_subject subject,
                                                           const ValuePlan& values) const {
  const auto result = result_of_known_call();
  if (!result) return fail(result.error());
  const FailureRule& rule = *probed_.known->failure;
  if (subject == COMPARE_FAILED || spec.is_failure) return compile_failure(spec, rule, *result);
  const reading* const number = values.errno_reading();
  if (number == nullptr) return fail(unknown_errno());
  ComparedValue value{.type = built_in_type(subject), .value = *number};
  // base_from is used instead; the base says that it is not known after a tail call, as the result.
  value.value.base = result->base;
  return compile_condition(spec, std::move(value));
}

// Adds what conditions and groups need to know of the outcome of a call: whether it failed, and
// errno.
Result<void> PointValues::add_outcome(ValuePlan& plan, NameProblems& problems) const {
  const KnownCall* const known = probed_.known.get();
  const CaptureSpec& capture = context_.capture;
  const bool is_key = capture.groups.has(BY_FAILED) || capture.groups.has(BY_ERRNO);
  std::optional<Error> problem;
  if (known != nullptr && known->failure && phases_of(capture).exit) {
    const auto result = result_of_known_call();
    if (result) plan.set_failure(*known->failure, 8U * result->size);
    if (result && is_key) plan.add_failure(*result);
    if (capture.asks_for_errno()) {
      const auto added = plan.add_errno(*known, builder_);
      if (!added) return fail(added.error());
      if (!*added) problem = unknown_errno();
    }
  } else if (is_key) {
    problem = result_of_known_call().error();
  }
  if (problem) problem = std::move(*problem).within(display_name(*probed_.point));
  if (capture.groups.has(BY_FAILED))
    problems.add("--by", "failed", plan.knows_failure() ? std::nullopt : problem);
  if (capture.groups.has(BY_ERRNO)) problems.add("--by", "errno", std::move(problem));
  return {};
}

ConditionResult<PreparedTerm> PointValues::compare_built_in(const ConditionSpec& spec,
                                                            filter_subject subject,
                                                            const ValuePlan& values) const {
  if (is_outcome(subject)) return compare_outcome(spec, subject, values);
  const CaptureSpec& capture = context_.capture;
  const bool is_static = probed_.point->static_probe != nullptr;
  ComparedValue value{.type = built_in_type(subject)};
  if (subject == COMPARE_CALLER) {
    const auto address = builder_.caller();
    if (!address) return fail(address.error());
    value.value = *address;
  } else {
    value.value.size = 8;
    value.value.base = NO_REGISTER;
  }
  if (call_time_of(subject)) {
    value.value.phase = PHASE_RETURN;
    if (is_static) return fail(ErrorKind::usage, "a static probe has no latency");
    if (!capture.pair_calls)
      return fail(Error{ErrorKind::usage, "the latency is known only of calls"}.hint(
          "add --latency, which makes an entry and its return one event"));
  }
  if (subject == COMPARE_PROCESS_NAME && context_.layouts.process_name.group_leader == 0)
    return fail(Error{ErrorKind::unsupported, "this kernel does not tell where it keeps the names "
                                              "of processes"}
                    .hint("it needs BTF (CONFIG_DEBUG_INFO_BTF); use -p NAME instead"));
  auto made = compile_condition(spec, std::move(value));
  if (made) made->term.subject = static_cast<record_u8>(subject);
  return made;
}

ConditionResult<PreparedTerm> PointValues::compare(const ConditionSpec& spec,
                                                   const ValuePlan& values) const {
  if (!spec.path) return compare_built_in(spec, *spec.built_in, values);
  const FoundName found = find(*spec.path, spec.type.has_value(), spec.built_in);
  if (found.built_in) return compare_built_in(spec, *found.built_in, values);
  if (spec.is_failure) return always_true();
  if (spec.type && types_ != nullptr && found.declared == nullptr &&
      (found.is_variable || !found.source))
    return wrong_at(spec.type_at, "debug information gives its type, write none");
  auto value = compared(*spec.path, found, spec.type, use_of(spec), true);
  if (!value) {
    ConditionError error = std::move(value).error();
    if (error.at) *error.at += spec.value_at;
    return std::unexpected(std::move(error));
  }
  auto made = compile_condition(spec, std::move(*value));
  if (made && types_ != nullptr)
    if (auto checked = check_condition(*made, types_->phases); !checked)
      return fail(std::move(checked).error());
  return made;
}

Result<PreparedTerm> PointValues::condition(const ConditionSpec& spec,
                                            const ValuePlan& values) const {
  auto made = compare(spec, values);
  if (!made) return fail(describe_error(spec, std::move(made).error()));
  return std::move(*made);
}

Result<ComparedValue> PointValues::operand(const ValuePath& path) const {
  const FoundName found = find(path, false, find_built_in(path));
  if (found.built_in) return fail(is_built_in(*found.built_in).within(in_single_quotes(path.text)));
  auto value = compared(path, found, {}, values::ValueUse::number, false);
  if (!value) return fail(std::move(value).error().error);
  if (auto checked = check_summed(value->type, path.text); !checked)
    return fail(std::move(checked).error());
  if (types_ != nullptr)
    if (auto checked = check_measured(value->value, types_->phases); !checked)
      return fail(std::move(checked).error());
  return std::move(*value);
}

Error PointValues::two_events_error(const SummedValue& value) const {
  return Error{ErrorKind::usage, fmt::format("'{}' multiplies a value of the entry by one of "
                                             "the return, which are two events",
                                             value.text)}
      .hint(context_.capture.measured ? "count by values: --count --by NAME --measure VALUE*VALUE"
                                      : "add --latency, which makes both one event");
}

Result<SummedReading> PointValues::summed(const SummedValue& value) const {
  // A histogram needs both phases of the call, and --latency does not add the entry to it.
  const bool lacks_entry = context_.capture.measured && value.uses_result() &&
                           !phases_of(context_.capture, probed_).entry;
  if (lacks_entry && !std::ranges::all_of(value.operands, &ValuePath::is_of_result))
    return fail(two_events_error(value));
  SummedReading made;
  std::vector<reading> operands;
  for (const ValuePath& each : value.operands) {
    auto read = operand(each);
    if (!read) return fail(std::move(read).error());
    made.is_signed = made.is_signed || read->type.is_signed;
    operands.push_back(read->value);
  }
  made.value = operands.front();
  if (operands.size() == 1) {
    made.is_signed = made.value.is_signed != 0;
    return made;
  }
  made.factor = operands.back();
  // The later operand is the one that is multiplied by the earlier one. The result is the last of
  // all, because a tail call leaves it unknown.
  const bool is_later = made.factor->phase > made.value.phase;
  const bool ends_with_result = value.operands.back().is_of_result();
  if (is_later || (ends_with_result && made.factor->phase == made.value.phase))
    std::swap(made.value, *made.factor);
  if (made.value.phase != made.factor->phase &&
      (context_.capture.measured || !context_.capture.pair_calls))
    return fail(two_events_error(value));
  return made;
}

Result<ComparedValue> PointValues::key(const ValuePath& path) const {
  auto value = compared(path, find(path), {}, values::ValueUse::number, false);
  if (!value) return fail(std::move(value).error().error);
  if (value->type.is_floating || value->value.form != READ_INTEGER)
    return fail(ErrorKind::usage,
                in_single_quotes(path.text) + " is neither an integer nor an address");
  if (auto checked = check_measured(value->value, phases_of(context_.capture, probed_)); !checked)
    return fail(std::move(checked).error());
  return std::move(*value);
}

Result<ValuePlan> PointValues::named_values(std::span<const ValuePath> paths,
                                            const TypedLimits& limits,
                                            std::vector<std::optional<Error>>& errors) const {
  if (types_ == nullptr) {
    for (const ValuePath& path : paths) errors.emplace_back(needs_types_error(path));
    return ValuePlan::make_unreadable(paths, "no debug information");
  }
  ValuePlan made = ValuePlan::make(builder_, *types_, limits, paths, errors);
  made.set_function({}, types_->returns_nothing());
  if (auto checked = check_readings(made.readings(), types_->phases); !checked)
    return fail(std::move(checked).error());
  return made;
}

// A value of a list for one function must exist; one of the list for all must exist at some point.
Result<ValuePlan> PointValues::listed_values(NameProblems& problems) const {
  Result<ValuePlan> made;
  if (!paths_.empty() && context_.capture.captures_values()) {
    TypedLimits limits = context_.limits();
    limits.max_readings -= std::min(limits.max_readings, declared_.arguments.size());
    limits.adds_result = limits.adds_result && !is_declared(result_name);
    std::vector<std::optional<Error>> errors;
    made = named_values(paths_, limits, errors);
    if (!made) return made;
    NameProblems own;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (errors[i] && types_ == nullptr && !asked_->function)
        errors[i] = std::move(*errors[i]).within(display_name(*probed_.point));
      (asked_->function ? own : problems).add("--args", paths_[i].text, std::move(errors[i]));
    }
    if (auto checked = own.check(); !checked) return fail(std::move(checked).error());
  }
  for (const ValuePath& path : asked_->paths) // those that are declared
    if (std::ranges::find(paths_, path.text, &ValuePath::text) == paths_.end())
      problems.add("--args", path.text, std::nullopt);
  if (auto added = made->add(declared_, builder_); !added) return fail(std::move(added).error());
  if (!asked_->paths.empty()) made->set_order(asked_->order);
  return made;
}

PointValues::FoundValue PointValues::find_asked(const ValuePath& path) const {
  FoundValue value{.name = find(path, false, find_built_in(path))};
  const FoundName& found = value.name;
  value.is_typed = found.declared == nullptr && types_ != nullptr;
  if (found.built_in || !value.is_typed || found.is_variable || !found.source) return value;
  const auto known = knows_type(path, *found.source);
  if (!known) value.problem = known.error();
  value.is_typed = known.value_or(false) && resolve_path(builder_, *types_, path).has_value();
  return value;
}

void PointValues::select(const AskedValue& asked, FoundValue found, Selection& selection,
                         NameProblems& problems) const {
  std::optional<Error>& problem = found.problem;
  const FoundName& name = found.name;
  if (found.is_typed && !problem) {
    selection.typed.push_back(asked);
    return; // capture_selected() adds its problem
  }
  if (name.declared != nullptr)
    selection.declared.arguments.push_back(*name.declared);
  else if (name.source && !problem)
    selection.declared.arguments.push_back({.name = asked.path.text, .source = *name.source});
  else if (!problem)
    problem = unknown_name(asked.path, asked.option == "--by" ? group_names() : result_names())
                  .within(display_name(*probed_.point));
  problems.add(asked.option, asked.name, std::move(problem));
}

Result<ValuePlan> PointValues::capture_selected(Selection selection, NameProblems& problems) const {
  add_needed(selection.declared.arguments, named_);
  std::vector<ValuePath> paths;
  for (const AskedValue& each : selection.typed) paths.push_back(each.path);
  Result<ValuePlan> made;
  std::vector<std::optional<Error>> errors;
  if (!paths.empty()) made = named_values(paths, context_.limits(), errors);
  if (!made) return made;
  for (std::size_t i = 0; i < errors.size(); ++i)
    problems.add(selection.typed[i].option, selection.typed[i].name, std::move(errors[i]));
  if (auto added = made->add(selection.declared, builder_); !added)
    return fail(std::move(added).error());
  if (auto added = add_outcome(*made, problems); !added) return fail(std::move(added).error());
  return made;
}

Result<ValuePlan> PointValues::grouped_values(NameProblems& problems) const {
  const GroupSpec& groups = context_.capture.groups;
  Selection selection;
  std::optional<SummedReading> summed_value;
  const bool sums_product = groups.measured && groups.measured->is_product();
  for (const std::string& name : groups.names()) {
    const bool is_key = std::ranges::find(groups.by, name, &GroupValue::text) != groups.by.end();
    if (sums_product && !is_key) continue; // see below
    const std::string_view option = is_key ? "--by" : "--measure";
    const auto path = parse_value_path(name);
    if (!path) return fail(Error(path.error()).within(option));
    FoundValue found = find_asked(*path);
    if (found.name.built_in) {
      Error error = is_built_in(*found.name.built_in).within(in_single_quotes(name));
      if (is_key)
        error = std::move(error).hint("hits are counted by pid, tid, cpu, comm and stack");
      problems.add(option, name, std::move(error));
      continue;
    }
    if (groups.measured == name && found.is_read_at_entry() && !found.problem) {
      auto number = summed(*groups.measured);
      if (!number) found.problem = number.error();
      problems.add("--measure", name, found.problem);
      if (found.is_typed && number) summed_value = *number;
      if (found.problem || (found.is_typed && !is_key)) continue;
    }
    select({.option = option, .name = name, .path = *path}, std::move(found), selection, problems);
  }
  if (sums_product) {
    auto number = summed(*groups.measured);
    problems.add("--measure", groups.measured->text,
                 number ? std::nullopt : std::optional(number.error()));
    if (number) summed_value = *number;
  }
  auto made = capture_selected(std::move(selection), problems);
  if (!made) return made;
  made->set_group_parts(groups);
  if (summed_value && !made->add_summed(*summed_value))
    return fail(ErrorKind::usage, fmt::format("more than {} values", MAX_READINGS));
  return made;
}

// All parameters, or all variables; nullopt if they are not known or cannot be captured. Nobody has
// asked for these values: they must not keep the function from being probed.
std::optional<ValuePlan> PointValues::typed_values() const {
  if (types_ == nullptr || !context_.capture.typed || !context_.capture.captures_values())
    return std::nullopt;
  ValuePlan made = ValuePlan::make(builder_, *types_, context_.limits());
  const auto checked = check_readings(made.readings(), phases_of(context_.capture, probed_));
  if (checked) {
    made.set_function(types_->at_entry ? types_->shown_name : "", types_->returns_nothing());
    return made;
  }
  context_.warn(probed_, "its parameters cannot be captured: " + checked.error().message);
  return std::nullopt;
}

Result<ValuePlan> PointValues::values(NameProblems& problems) const {
  auto made = values_of_events(problems);
  const CaptureSpec& capture = context_.capture;
  if (!made || probed_.values != nullptr || !capture.groups.by.empty() ||
      capture.counts_span_values())
    return made;
  if (auto added = add_outcome(*made, problems); !added) return fail(std::move(added).error());
  return made;
}

Result<ValuePlan> PointValues::values_of_events(NameProblems& problems) const {
  if (probed_.values != nullptr) { // prepared by the caller
    if (auto checked =
            check_readings(probed_.values->readings(), phases_of(context_.capture, probed_));
        !checked)
      return fail(std::move(checked).error());
    return *probed_.values;
  }
  const CaptureSpec& capture = context_.capture;
  Result<ValuePlan> made;
  if (capture.counts_span_values()) {
    made = span_values(problems);
  } else if (!capture.groups.by.empty()) {
    made = grouped_values(problems);
  } else if (asked_ != nullptr) {
    made = listed_values(problems);
  } else if (auto typed = declared_.known == nullptr ? typed_values() : std::nullopt) {
    made = std::move(*typed);
  } else if (declared_.known == nullptr || capture.captures_values()) {
    // Conditions use the names and types of what a known function takes, and nothing else is read.
    DeclaredValues shown = declared_;
    // The keys of spans are readings, which would overwrite the registers.
    const bool needs_readings = probed_.code.kind != CodeKind::native || !probed_.roles.empty();
    if (shown.six_registers && needs_readings && phases_of(capture, probed_).entry)
      shown = {.arguments = six_integer_arguments()};
    if (auto added = made->add(shown, builder_); !added) return fail(std::move(added).error());
  }
  if (made && capture.weight)
    if (auto added = add_weight(*made, *capture.weight, problems); !added)
      return fail(std::move(added).error());
  return made;
}

} // namespace uprobectl::events
