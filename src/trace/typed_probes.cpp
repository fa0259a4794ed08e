// SPDX-License-Identifier: Apache-2.0
#include "trace/typed_probes.hpp"

#include "dwarf/globals.hpp"
#include "symbols/classify.hpp"
#include "trace/prologues.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Bytes of strings and memory in the key of a group, beside the results of readings.
constexpr std::uint32_t max_group_value_bytes = 320;

// Whether the code at the point is native and of this machine. Java methods and static probes
// describe their arguments themselves.
bool can_have_types(const CapturePoint& probed) {
  const ProbePoint& point = *probed.point;
  const bool is_native = probed.code.kind == CodeKind::native || probed.code.kind == CodeKind::go;
  return is_native && !point.static_probe && point.java == nullptr &&
         point.kind != SymbolKind::plt && point.binary->machine.arch == host_arch;
}

// The canonical frame address at an instruction, from call frame information.
std::optional<dwarf::Formula> find_cfa(unwind::UnwindData& frames, VirtualAddress address) {
  const unwind::Step& step = frames.step(address, address);
  using Kind = unwind::CfaRule::Kind;
  if (step.kind != unwind::Step::Kind::row || step.cfa.kind != Kind::register_offset)
    return std::nullopt;
  return dwarf::Formula{.base = dwarf::Formula::Base::machine_register,
                        .machine_register = step.cfa.base_register,
                        .addend = step.cfa.value};
}

// The name of the function in the source. Lambdas have none: the demangled name says where one is,
// "main::'lambda'(int)::operator()". Clones have their suffix behind it.
std::string source_name(const ProbePoint& point, const dwarf::FunctionInfo& function) {
  const std::string suffix = point.clone_of && is_clone(*point.symbol)
                                 ? point.symbol->substr(point.clone_of->size())
                                 : std::string();
  if (!function.name.contains("(anonymous struct)") || !point.demangled)
    return function.name + suffix;
  std::string_view name = *point.demangled;
  if (!suffix.empty()) name = name.substr(0, name.rfind(" ("));
  for (const std::string_view result : {"auto ", "decltype(auto) "}) // of templates
    if (name.starts_with(result)) name.remove_prefix(result.size());
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) { // without the parameters
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return std::string(name.substr(0, i)) + suffix;
  }
  return function.name + suffix;
}

bool has_argument(const ArgumentList* list, const std::optional<std::string>& name) {
  return list != nullptr && name &&
         std::ranges::find(list->arguments, *name, &ArgumentSpec::name) != list->arguments.end();
}

// Whether this is the whole name of the variable.
bool is_named(const dwarf::Variable& variable, std::string_view name) {
  return variable.name == name || fmt::format("::{}", variable.name) == name;
}

// Whether the condition compares "arg1" or "ret", whose type is that of the parameter or result.
bool compares_place(const ConditionSpec& spec) {
  return !spec.name && !spec.fact && !spec.type && spec.path && spec.path->steps.empty() &&
         parse_source_name(spec.path->variable) && spec.comparison != Comparison::matches;
}

// Whether debug information may tell what the condition compares. A parameter may have the name of
// a register.
bool uses_types(const ConditionSpec& spec, const ArgumentList* list) {
  if (!spec.path || has_argument(list, spec.name)) return false;
  return spec.needs_types() || spec.name || compares_place(spec);
}

bool has_variable(const dwarf::FunctionInfo& function, const std::optional<std::string>& name) {
  return std::ranges::any_of(function.variables,
                             [&](const dwarf::Variable& each) { return each.name == name; });
}

// Whether the name is an argument of the known prototype.
bool names_known_argument(const CapturePoint& probed, const std::string& name) {
  return probed.known != nullptr &&
         std::ranges::find(probed.known->arguments, name, &ArgumentSpec::name) !=
             probed.known->arguments.end();
}

// Adds the names that the known prototype has. Those of debug information may be others.
Error offer_known_names(Error error, const CapturePoint& probed) {
  if (probed.known == nullptr) return error;
  const std::string names = list_names(probed.known->arguments, &ArgumentSpec::name);
  return names.empty() ? error : std::move(error).hint("its known arguments are: " + names);
}

// Whether the prototype has all values of --by. Debug information may have other names.
bool names_known_values(const ArgumentList& list, const CapturePoint& probed) {
  return probed.known != nullptr && std::ranges::all_of(list.paths, [&](const ValuePath& path) {
           return parse_source_name(path.text) || names_known_argument(probed, path.text);
         });
}

// Whether the name is that of a variable. If the function has none, a fact about the thread, a
// register or an argument of the known prototype has it. With a type it is a register.
bool names_variable(const ConditionSpec& spec, const CapturePoint& probed,
                    const dwarf::FunctionInfo& function) {
  const bool is_register = spec.name && parse_source_name(*spec.name);
  if (is_register && spec.type) return false;
  if (has_variable(function, spec.name)) return true;
  return !spec.fact && !is_register && !(spec.name && names_known_argument(probed, *spec.name));
}

// Whether the values of --by are registers: no variable has the name of one.
bool means_registers(const ArgumentList& list, const dwarf::FunctionInfo& function) {
  return list.is_implied && !list.arguments.empty() &&
         std::ranges::none_of(list.paths, [&](const ValuePath& path) {
           return path.variable == "ret" || has_variable(function, path.variable);
         });
}

// In a program the own storage is always the right one.
SharedVariables find_shared_variables(const elf::Image& image) {
  SharedVariables found;
  const auto symbols = image.dynamic_symbols();
  if (!symbols || image.section_address(".interp")) return found;
  for (std::uint32_t index = 1; index < symbols->size(); ++index)
    if (const auto symbol = symbols->at(index);
        symbol && symbol->defined && symbol->type == elf::SymbolType::object)
      found.try_emplace(symbol->address);
  if (const auto slots = image.variable_slots())
    for (const elf::ImportSlot& slot : *slots)
      if (const auto symbol = symbols->at(slot.symbol); symbol && symbol->defined)
        found[symbol->address] = slot.address;
  return found;
}

// A variable of another file: a program may have a copy of it (a copy relocation), other code finds
// it through the GOT.
std::optional<dwarf::Variable> find_imported(const elf::Image& image, const dwarf::DebugInfo& debug,
                                             const std::string& name, VirtualAddress code) {
  auto declared = dwarf::find_declared_variable(debug, name, code);
  if (!declared) return std::nullopt;
  dwarf::Variable& variable = declared->variable;
  variable.location =
      dwarf::unreadable("it is defined in another file, and this one does not tell where");
  dwarf::Formula place{.base = dwarf::Formula::Base::image};
  const auto symbols = image.dynamic_symbols();
  if (!symbols) return std::move(variable);
  for (const auto& slots :
       {image.import_slots(), image.variable_slots()}) // without and with a type
    for (const elf::ImportSlot& slot : slots.value_or(std::vector<elf::ImportSlot>()))
      if (const auto symbol = symbols->at(slot.symbol); symbol && symbol->name == declared->symbol)
        place.loads = {static_cast<std::int64_t>(slot.address.value)};
  if (const auto own = image.find_dynamic(declared->symbol))
    for (const elf::Symbol& each : *own)
      if (each.defined && each.type == elf::SymbolType::object) {
        place.loads.clear();
        place.addend = static_cast<std::int64_t>(each.address.value);
      }
  if (!place.loads.empty() || place.addend != 0) variable.location = in_memory(std::move(place));
  return std::move(variable);
}

} // namespace

dwarf::CodePoint make_code_point(const ProbePoint& point, unwind::UnwindData* frames,
                                 std::uint64_t prologue_size) {
  dwarf::CodePoint made{.address = {point.address.value + prologue_size}};
  made.is_clone = point.clone_of && has_other_arguments(*point.symbol);
  const bool is_inside =
      point.symbol_offset != 0 || point.inlined_into != nullptr || prologue_size != 0;
  if (!is_inside) made.symbol = point.function();
  if (frames != nullptr && is_inside) made.cfa = find_cfa(*frames, made.address);
  return made;
}

TypedProbes::TypedProbes(std::vector<std::string> debug_places, const CaptureSpec& capture,
                         std::size_t functions)
    : where_{.places = std::move(debug_places)}, capture_(capture), lists_(capture.arguments),
      phases_(phases_of(capture)), is_only_function_(functions == 1) {
  limits_.scalars_only = functions > max_whole_functions;
  limits_.depth = capture.typed_depth;
  if (!capture.groups.by.empty()) {
    limits_.max_bytes = max_group_value_bytes;
    limits_.adds_result = false;
  }
  limits_.max_string = std::min(capture.max_string_bytes, limits_.max_bytes);
}

TypedProbes::File& TypedProbes::open(const std::shared_ptr<const ProbedBinary>& binary) {
  const auto [found, is_new] = files_->try_emplace(binary);
  File& file = found->second;
  if (!is_new) return file;
  auto image = elf::Image::open(binary->file, binary->path);
  if (!image) {
    file.problem = std::move(image).error();
    return file;
  }
  file.image.emplace(std::move(*image));
  auto debug = dwarf::DebugInfo::open(*file.image, where_);
  if (!debug) {
    file.problem = std::move(debug).error();
    return file;
  }
  file.debug.emplace(std::move(*debug));
  if (file.image->machine().info().unwind != nullptr)
    file.frames.emplace(*file.image, file.image->machine().arch, where_);
  return file;
}

std::optional<dwarf::Variable> TypedProbes::find_global(File& file, const std::string& name,
                                                        VirtualAddress code) {
  auto found = dwarf::find_unit_variable(*file.debug, name, code);
  if (found && is_named(*found, name)) return found;
  const auto [known, is_new] = file.globals.try_emplace(name);
  if (is_new) known->second = dwarf::find_global(*file.debug, name);
  // The end of a name, if no variable has just this name.
  if (found && !(known->second && is_named(*known->second, name))) return found;
  return known->second;
}

// Debug information describes the storage in the file. A variable that others may define is
// elsewhere if the program has a copy of it (a copy relocation), or if another file comes first.
void TypedProbes::find_storage(File& file, dwarf::Variable& variable) {
  if (!file.shared_variables) file.shared_variables = find_shared_variables(*file.image);
  for (dwarf::Piece& piece : variable.location.pieces) {
    dwarf::Formula& formula = piece.formula;
    const bool is_storage = piece.kind == dwarf::Piece::Kind::memory && formula.loads.empty() &&
                            formula.base == dwarf::Formula::Base::image;
    if (!is_storage) continue;
    const auto shared = file.shared_variables->find({static_cast<std::uint64_t>(formula.addend)});
    if (shared == file.shared_variables->end()) continue;
    if (shared->second) {
      formula.loads.push_back(static_cast<std::int64_t>(shared->second->value));
      formula.addend = 0;
    } else if (file.warned_of.insert(variable.name).second) {
      warnings_.push_back(fmt::format(
          "{}: '{}' is read from the file's own storage, which no code of the file uses: a program "
          "or library that defines it too has other values",
          to_string(file.image->path()), variable.name));
    }
  }
}

const ArgumentList* TypedProbes::find_list(const ProbePoint& point) const {
  const std::size_t found = lists_.find(point);
  return found < capture_.arguments.size() ? &capture_.arguments[found] : nullptr;
}

std::optional<dwarf::FunctionInfo> TypedProbes::describe(File& file, const ProbePoint& point,
                                                         bool with_result) {
  const auto found = file.prologues.find(point.address);
  // Another name of the function may be probed at its entry.
  const bool is_moved = found != file.prologues.end() && found->second == point.uprobe_distance;
  const std::uint64_t prologue_size = is_moved ? found->second : 0;
  dwarf::CodePoint code =
      make_code_point(point, file.frames ? &*file.frames : nullptr, prologue_size);
  code.with_declaration = false;
  code.with_result = with_result;
  if (point.inlined_into != nullptr) code.inlined_call = point.inlined_into->debug_offset;
  auto function = dwarf::describe_function(*file.debug, code);
  if (function && prologue_size != 0) // what the entry has
    std::erase_if(function->variables, [](const dwarf::Variable& each) {
      return !each.is_parameter || !each.inlined_function.empty();
    });
  return function;
}

// Whether a parameter that is asked for by name cannot be read at the entry.
bool TypedProbes::lacks_named(const dwarf::FunctionInfo& function, const ArgumentList* list) const {
  const auto lacks = [&](std::string_view name) {
    return std::ranges::any_of(function.variables, [&](const dwarf::Variable& each) {
      return each.name == name && lacks_bytes(each);
    });
  };
  return (list != nullptr &&
          std::ranges::any_of(list->paths,
                              [&](const ValuePath& path) { return lacks(path.variable); })) ||
         std::ranges::any_of(
             capture_.filter.terms,
             [&](const ConditionSpec& each) { return each.path && lacks(each.path->variable); }) ||
         (capture_.measured && lacks(capture_.measured->path.variable));
}

// Whether the run reads nothing at an entry but its parameters, which are the same behind its
// prologue. Stacks and registers are not.
bool TypedProbes::needs_only_parameters(const dwarf::FunctionInfo& function,
                                        const ArgumentList* list) const {
  const bool reads_entry = capture_.caller || capture_.registers || capture_.count_stacks ||
                           capture_.nest_calls || capture_.groups.has(BY_STACK) ||
                           capture_.stack != StackWalk::none;
  if (!phases_.entry || phases_.exit || reads_entry) return false;
  const auto is_variable = [&](const ValuePath& path) {
    return has_variable(function, path.variable) || !parse_source_name(path.variable);
  };
  if (list != nullptr &&
      (!list->arguments.empty() || !std::ranges::all_of(list->paths, is_variable)))
    return false;
  if (capture_.measured && !has_variable(function, capture_.measured->path.variable)) return false;
  return std::ranges::all_of(capture_.filter.terms, [&](const ConditionSpec& each) {
    if (has_variable(function, each.name)) return uses_types(each, list);
    if (each.fact) return *each.fact != COMPARE_CALLER;
    return each.path && is_variable(*each.path) && uses_types(each, list);
  });
}

std::expected<std::optional<PrologueEnd>, std::string>
TypedProbes::choose_prologue(const CapturePoint& probed) {
  const ProbePoint& point = *probed.point;
  const bool is_function = probed.code.kind == CodeKind::native && point.symbol &&
                           point.symbol_offset == 0 && probed.known == nullptr;
  if (!probed.is_recorded || !is_function || !can_have_types(probed)) return std::nullopt;
  const ArgumentList* const list = find_list(point);
  const bool shows_all = capture_.captures_values() && capture_.typed && list == nullptr;
  if (!shows_all && (list == nullptr || list->paths.empty()) && capture_.filter.terms.empty() &&
      !capture_.measured)
    return std::nullopt;
  File& file = open(point.binary);
  if (!file.debug) return std::nullopt;
  const auto at_entry = describe(file, point, false);
  if (!at_entry || !needs_only_parameters(*at_entry, list)) return std::nullopt;
  if (!shows_all && !lacks_named(*at_entry, list)) return std::nullopt;
  auto found = find_prologue_end(*file.image, *file.debug, file.frames ? &*file.frames : nullptr,
                                 point, *at_entry);
  if (found && *found) file.prologues.emplace(point.address, (*found)->size);
  return found;
}

const std::string* TypedProbes::find_variable(const ProbePoint& point,
                                              std::span<const std::string> names) {
  if (names.empty() || !point.binary->machine.is_64bit || point.static_probe || point.java)
    return nullptr;
  File& file = open(point.binary);
  const auto function = file.debug ? describe(file, point, false) : std::nullopt;
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return function && has_variable(*function, name); });
  return found == names.end() ? nullptr : &*found;
}

Result<void> TypedProbes::add(CapturePoint& probed) {
  if (!probed.is_recorded) return {};
  const ProbePoint& point = *probed.point;
  const ArgumentList* list = find_list(point);
  const bool is_implied = list != nullptr && list->is_implied;
  if (is_implied && (names_known_values(*list, probed) || point.static_probe || point.java))
    list = nullptr;
  const bool wants_paths = list != nullptr && !list->paths.empty();
  const bool wants_values =
      capture_.captures_values() && (wants_paths || (list == nullptr && !is_implied &&
                                                     capture_.typed && probed.known == nullptr));
  const bool wants_conditions = std::ranges::any_of(
      capture_.filter.terms, [&](const ConditionSpec& each) { return uses_types(each, list); });
  if (!wants_values && !wants_conditions && !capture_.measured) return {};
  if (!can_have_types(probed))
    return add_untyped(
        probed, list,
        {ErrorKind::unsupported, "it is read for native functions of this architecture only"});
  File& file = open(point.binary);
  if (!file.debug) return add_untyped(probed, list, *file.problem);
  const auto described = describe(file, point, phases_.exit);
  if (!described)
    return add_untyped(probed, list,
                       {ErrorKind::not_found,
                        std::string(dwarf::why_not_described(*file.debug, uprobe_address(point)))});
  const dwarf::FunctionInfo& info = *described;
  TypedPlace place{.function = &info, .address = uprobe_address(point)};
  place.at_entry = point.inlined_into == nullptr && info.entry == point.address;
  place.is_inlined_call = point.inlined_into != nullptr;
  place.phases = phases_;
  place.find_global = [&](const std::string& name) {
    auto found = find_global(file, name, point.address);
    if (!found) return find_imported(*file.image, *file.debug, name, point.address);
    find_storage(file, *found);
    return found;
  };
  place.find_go_types = [this, &file] {
    if (!file.go_types) {
      const auto own = file.image->full_symbols();
      if (!own || own->size() == 0) file.image->add_debug_file(where_);
      file.go_types.emplace(*file.image, *file.debug);
    }
    return file.go_types->is_empty() ? nullptr : &*file.go_types;
  };
  if (auto added = add_conditions(probed, place, list); !added)
    return fail(std::move(added).error().within(display_name(point)));
  if (auto added = add_measured(probed, place); !added)
    return fail(std::move(added).error().within(display_name(point)));
  if (!wants_values || (list != nullptr && means_registers(*list, info))) return {};
  std::optional<reading> measured;
  auto values = make_values(place, wants_paths ? list : nullptr, measured);
  if (!values) return fail(std::move(values).error().within(display_name(point)));
  if (!capture_.groups.by.empty()) values->set_group_parts(capture_.groups);
  if (measured) values->add_summed(*measured);
  // Nobody has asked for these values: they must not keep the function from being probed.
  if (!wants_paths)
    if (const auto checked = check_readings(values->readings(), phases_); !checked) {
      warnings_.push_back(fmt::format("{}: its parameters cannot be captured: {}",
                                      display_name(point), checked.error().message));
      return {};
    }
  values->set_function(place.at_entry && !wants_paths ? source_name(point, info) : std::string(),
                       info.result->kind() == dwarf::TypeKind::none && !info.has_unknown_result);
  probed.values = std::make_shared<const ValuePlan>(std::move(*values));
  return {};
}

// Makes the reading of the value that is summed.
Result<reading> TypedProbes::make_summed(const TypedPlace& place) const {
  const auto path = parse_value_path(*capture_.groups.measured);
  if (!path) return fail(path.error());
  return make_typed_number(place, *path);
}

Result<ValuePlan> TypedProbes::make_values(const TypedPlace& place, const ArgumentList* list,
                                           std::optional<reading>& measured) {
  if (list == nullptr) return ValuePlan::make(place, limits_);
  std::vector<ValuePath> paths = list->paths;
  if (!capture_.groups.by.empty()) // what is only summed is not in the key
    std::erase_if(paths, [&](const ValuePath& path) {
      return std::ranges::find(capture_.groups.by, path.text, &GroupValue::text) ==
             capture_.groups.by.end();
    });
  TypedLimits limits = limits_;
  if (list->is_mixed()) { // declared values are added
    limits.max_readings -= std::min(limits.max_readings, list->arguments.size());
    limits.adds_result = limits.adds_result && !has_argument(list, "ret");
  }
  std::vector<std::optional<Error>> errors;
  ValuePlan values = ValuePlan::make(place, limits, paths, errors);
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < paths.size(); ++i)
    problems.push_back({.value = paths[i].text, .error = std::move(errors[i])});
  const bool sums_declared = list->is_mixed() && has_argument(list, capture_.groups.measured);
  if (capture_.groups.measured && !sums_declared) {
    auto made = make_summed(place);
    if (made) measured = *made;
    problems.push_back({.value = *capture_.groups.measured,
                        .is_summed = true,
                        .error = made ? std::nullopt : std::optional(std::move(made).error())});
  }
  if (auto merged = merge_problems(*list, std::move(problems)); !merged)
    return fail(std::move(merged).error());
  return values;
}

// A value of a list for one function must exist; one of the list for all must exist at some probe.
Result<void> TypedProbes::merge_problems(const ArgumentList& list, std::vector<Problem> problems) {
  if (list.function) return check(problems);
  for (Problem& each : problems) {
    const auto known = std::ranges::find_if(general_problems_, [&](const Problem& other) {
      return other.value == each.value && other.is_summed == each.is_summed;
    });
    if (known == general_problems_.end())
      general_problems_.push_back(std::move(each));
    else if (!each.error)
      known->error.reset();
  }
  return {};
}

Result<void> TypedProbes::check() const { return check(general_problems_); }

Result<void> TypedProbes::check(const std::vector<Problem>& problems) const {
  for (const Problem& each : problems) {
    if (!each.error) continue;
    const std::string_view option =
        each.is_summed ? "--measure" : (capture_.groups.by.empty() ? "--args" : "--by");
    return fail(Error(*each.error).within(option));
  }
  return {};
}

Result<void> TypedProbes::add_conditions(CapturePoint& probed, const TypedPlace& place,
                                         const ArgumentList* list) {
  std::vector<std::optional<PreparedTerm>> made(capture_.filter.terms.size());
  bool any = false;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const ConditionSpec& spec = capture_.filter.terms[i];
    if (!uses_types(spec, list)) continue;
    if (compares_place(spec)) {
      auto condition = compare_place(probed, place, spec);
      if (!condition) return fail(std::move(condition).error());
      made[i] = std::move(*condition);
    } else if (names_variable(spec, probed, *place.function)) {
      auto condition = make_typed_condition(place, spec);
      if (!condition) return fail(offer_known_names(std::move(condition).error(), probed));
      made[i] = std::move(*condition);
    }
    any |= made[i].has_value();
  }
  if (!any) return {};
  probed.conditions = std::move(made);
  return {};
}

// Whether debug information says what the argument, result or register is. Fails unless it is an
// integer.
Result<bool> TypedProbes::knows_type(const TypedPlace& place, const ArgumentSource& source) const {
  const dwarf::FunctionInfo& function = *place.function;
  const bool is_result = source.kind == ArgumentSource::Kind::returned;
  if (!capture_.typed || (is_result ? !phases_.exit || function.has_unknown_result
                                    : !place.at_entry && !place.is_inlined_call))
    return false;
  if (is_result && function.result->kind() == dwarf::TypeKind::none)
    return fail(ErrorKind::usage, "the function returns nothing");
  if (is_result && function.result->kind() == dwarf::TypeKind::floating)
    return fail(ErrorKind::usage, "it is a floating-point number: only integers can be compared or "
                                  "measured in the kernel");
  return true;
}

// A function of many that has no such value is probed all the same.
bool TypedProbes::takes_register(const CapturePoint& probed, const std::string& text,
                                 const Error& problem) {
  if (is_only_function_) return false;
  warnings_.push_back(fmt::format("{}: '{}' reads a register: {}", display_name(*probed.point),
                                  text, problem.message));
  return true;
}

// Returns nullopt if the value is compared as that of a register: its type is not known, or debug
// information does not place it.
Result<std::optional<PreparedTerm>> TypedProbes::compare_place(const CapturePoint& probed,
                                                               const TypedPlace& place,
                                                               const ConditionSpec& spec) {
  const auto known = knows_type(place, spec.source);
  if (!known && !takes_register(probed, spec.text, known.error()))
    return fail(describe_error(spec, known.error()));
  if (!known.value_or(false)) return std::nullopt;
  auto condition = make_typed_condition(place, spec);
  if (condition) return std::move(*condition);
  if (condition.error().kind == ErrorKind::usage) return fail(std::move(condition).error());
  return std::nullopt;
}

Result<void> TypedProbes::add_measured(CapturePoint& probed, const TypedPlace& place) {
  if (!capture_.measured) return {};
  const auto& [path, source] = *capture_.measured;
  const bool is_variable = has_variable(*place.function, path.variable);
  if (!is_variable && names_known_argument(probed, path.text)) return {};
  if (!is_variable && source) {
    const auto known = knows_type(place, *source);
    if (!known && !takes_register(probed, path.text, known.error()))
      return fail(Error(known.error()).within("--measure"));
    if (!known.value_or(false)) return {};
  }
  auto number = make_typed_number(place, path);
  if (!number && !is_variable && source && number.error().kind != ErrorKind::usage) return {};
  if (!number)
    return fail(offer_known_names(std::move(number).error().within("--measure"), probed));
  probed.measured = *number;
  return {};
}

// A probe whose function is not known: it keeps the arguments of its calling convention.
Result<void> TypedProbes::add_untyped(CapturePoint& probed, const ArgumentList* list,
                                      const Error& problem) {
  const auto needs = [&](std::string_view what) {
    Error error{ErrorKind::not_found,
                fmt::format("{} needs debug information: {}", what, problem.message)};
    error.hints = problem.hints;
    return error;
  };
  const std::string name = display_name(*probed.point);
  for (const ConditionSpec& each : capture_.filter.terms)
    if (each.needs_types() && uses_types(each, list))
      return fail(describe_error(each, needs("the value")).within(name));
  if (capture_.measured && !capture_.measured->source &&
      !names_known_argument(probed, capture_.measured->path.text))
    return fail(offer_known_names(
        needs(fmt::format("--measure {}", capture_.measured->path.text)).within(name), probed));
  if (list == nullptr || list->paths.empty() || !capture_.captures_values()) return {};
  // They need no types, or the prototype has other names, which the error will tell.
  if (list->is_implied && (!list->arguments.empty() || probed.known != nullptr)) return {};
  std::vector<Problem> problems;
  for (const ValuePath& path : list->paths) {
    Problem& made = problems.emplace_back(Problem{.value = path.text});
    if (!list->is_implied || !parse_source_name(path.text))
      made.error = needs(fmt::format("'{}'", path.text)).within(name);
    if (capture_.groups.measured == path.text &&
        std::ranges::find(capture_.groups.by, path.text, &GroupValue::text) ==
            capture_.groups.by.end())
      made.is_summed = true;
  }
  if (auto merged = merge_problems(*list, std::move(problems)); !merged) return merged;
  probed.values = std::make_shared<const ValuePlan>(
      ValuePlan::make_unreadable(list->paths, "no debug information"));
  return {};
}

std::vector<std::string> TypedProbes::warnings() const {
  std::vector<std::string> all = warnings_;
  for (const auto& [binary, file] : *files_)
    if (file.debug)
      for (const std::string& warning : file.debug->warnings())
        all.push_back(to_string(binary->path) + ": " + warning);
  return all;
}

} // namespace uprobectl
