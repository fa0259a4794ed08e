// SPDX-License-Identifier: Apache-2.0
#include "trace/typed_probes.hpp"

#include "events/point_values.hpp"
#include "events/span_conditions.hpp"
#include "symbols/classify.hpp"
#include "trace/prologues.hpp"
#include "uprobectl/insn.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Whether the code at the point is native and of this machine. Java methods and static probes
// describe their arguments themselves.
bool can_have_types(const events::CapturePoint& probed) {
  const resolve::ProbePoint& point = *probed.point;
  const bool is_native =
      probed.code.kind == events::CodeKind::native || probed.code.kind == events::CodeKind::go;
  return is_native && !point.static_probe && point.java == nullptr &&
         point.kind != symbols::SymbolKind::plt && point.binary->machine.arch == host_arch;
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
// "main::'lambda'(int)::operator()". Clones have their suffix after it.
std::string source_name(const resolve::ProbePoint& point, const dwarf::FunctionInfo& function) {
  const std::string suffix = point.clone_of && symbols::is_clone(*point.symbol)
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

Error not_planned_error(const Error& problem) {
  return Error{problem.kind, problem.message + ", and the plan does not have the values either"}
      .hint("write the plan with the options that name values: --args, --if, --by, --measure");
}

bool has_variable(const dwarf::FunctionInfo& function, std::string_view name) {
  return std::ranges::any_of(function.variables,
                             [&](const dwarf::Variable& each) { return each.name == name; });
}

// Returns no variables for a program: its own storage is always the right one.
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
dwarf::Variable find_imported(const elf::Image& image, const dwarf::DeclaredVariable& declared) {
  dwarf::Variable variable = declared.variable;
  variable.location =
      dwarf::unreadable("it is defined in another file, and this one does not tell where");
  dwarf::Formula formula{.base = dwarf::Formula::Base::image};
  const auto symbols = image.dynamic_symbols();
  if (!symbols) return variable;
  for (const auto& slots :
       {image.import_slots(), image.variable_slots()}) // without and with a type
    for (const elf::ImportSlot& slot : slots.value_or(std::vector<elf::ImportSlot>()))
      if (const auto symbol = symbols->at(slot.symbol); symbol && symbol->name == declared.symbol)
        formula.loads = {static_cast<std::int64_t>(slot.address.value)};
  if (const auto own = image.find_dynamic(declared.symbol))
    for (const elf::Symbol& each : *own)
      if (each.defined && each.type == elf::SymbolType::object) {
        formula.loads.clear();
        formula.addend = static_cast<std::int64_t>(each.address.value);
      }
  if (!formula.loads.empty() || formula.addend != 0)
    variable.location = in_memory(std::move(formula));
  return variable;
}

std::uint64_t padding_of(const resolve::ProbePoint& point) {
  constexpr std::size_t max_padding = 64; // bytes
  const auto arch = code_arch(point.binary->machine);
  const Bytes file = point.binary->file->bytes();
  if (!arch || !point.offset || point.offset->value >= file.size()) return 0;
  const Bytes code = file.subspan(point.offset->value);
  return insn::entry_padding(*arch, code.first(std::min(code.size(), max_padding)));
}

} // namespace

dwarf::CodePoint make_code_point(const resolve::ProbePoint& point, unwind::UnwindData* frames,
                                 std::uint64_t prologue_size) {
  dwarf::CodePoint made{.address = {point.address.value + prologue_size}};
  made.is_clone = point.clone_of && symbols::has_other_arguments(*point.symbol);
  // gcc removes results only in copies that have ".isra" in their names.
  made.keeps_result = made.is_clone && point.symbol->contains(".constprop.") &&
                      !point.symbol->contains(".isra") && !point.symbol->contains(".part");
  const bool is_inside =
      point.symbol_offset != 0 || point.inlined_into != nullptr || prologue_size != 0;
  if (!is_inside) {
    made.symbol = point.function();
    made.padding = padding_of(point);
  }
  if (frames != nullptr && is_inside) made.cfa = find_cfa(*frames, made.address);
  return made;
}

TypedProbes::File& TypedProbes::open(const std::shared_ptr<const resolve::ProbedBinary>& binary) {
  const auto [found, is_new] = files_->try_emplace(binary);
  File& file = found->second;
  if (!is_new) return file;
  file.binary = &binaries_.of(binary);
  const auto image = file.binary->image();
  const auto debug = file.binary->debug_info();
  if (image) {
    file.image = *image;
    file.code.emplace(**file.binary->file());
  }
  if (debug)
    file.debug = *debug;
  else
    file.problem = debug.error();
  return file;
}

std::optional<dwarf::Variable> TypedProbes::find_global(File& file, const std::string& name,
                                                        const dwarf::CodePoint& code) {
  dwarf::NameLookup lookup = dwarf::look_up(*file.debug, name, code);
  std::optional<dwarf::FoundVariable> found;
  if (lookup.declared && lookup.declared->variable.location.is_readable()) {
    found = {std::move(lookup.declared->variable), true};
  } else {
    found = dwarf::find_unit_variable(*file.debug, lookup, code.address);
    if (!found || !found->has_whole_name) {
      const auto [known, is_new] =
          file.globals.try_emplace(std::pair(lookup.names, lookup.may_be_end));
      if (is_new) known->second = dwarf::find_global(*file.debug, lookup);
      // The end of a name, if no variable has just this name.
      if (!found || (known->second && known->second->has_whole_name)) found = known->second;
    }
  }
  if (!found && !lookup.declared) return std::nullopt;
  if (!found) return find_imported(*file.image, *lookup.declared);
  find_storage(file, found->variable);
  return std::move(found->variable);
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

const events::ArgumentList* TypedProbes::find_list(const resolve::ProbePoint& point) const {
  const std::size_t found = lists_.find(point);
  return found < capture_.arguments.size() ? &capture_.arguments[found] : nullptr;
}

std::optional<dwarf::FunctionInfo>
TypedProbes::describe(File& file, const resolve::ProbePoint& point, bool with_result) {
  const auto found = file.prologues.find(point.address);
  // Another name of the function may be probed at its entry.
  const bool is_moved = found != file.prologues.end() && found->second == point.uprobe_distance;
  const std::uint64_t prologue_size = is_moved ? found->second : 0;
  if (const plans::PlannedValues* const planned = planned_values(file, point))
    return is_moved && planned->prologue ? after_prologue(planned->function, *planned->prologue)
                                         : planned->function;
  if (!file.debug) return std::nullopt;
  dwarf::CodePoint code = make_code_point(point, file.binary->frames(), prologue_size);
  code.with_declaration = false;
  code.with_result = with_result;
  if (point.inlined_into != nullptr) code.inlined_call = point.inlined_into->debug_offset;
  auto function = dwarf::describe_function(*file.debug, code);
  if (function && prologue_size != 0) // keep what the entry has
    std::erase_if(function->variables, [](const dwarf::Variable& each) {
      return !each.is_parameter || !each.inlined_function.empty();
    });
  return function;
}

// Returns the values of the plan. A file with debug information needs none.
const plans::PlannedValues* TypedProbes::planned_values(const File& file,
                                                        const resolve::ProbePoint& point) {
  return file.debug != nullptr ? nullptr : file.binary->values(point);
}

std::vector<events::ValuePath> TypedProbes::named_paths(const events::ArgumentList* list) const {
  std::vector<events::ValuePath> paths;
  if (list != nullptr) paths = list->paths;
  for (const std::string& name : capture_.groups.names())
    if (auto path = events::parse_value_path(name)) paths.push_back(std::move(*path));
  for (const auto* const each : {&capture_.measured, &capture_.weight})
    if (*each) std::ranges::copy((*each)->operands, std::back_inserter(paths));
  for (const events::ConditionSpec& each : capture_.filter.terms)
    if (each.path) paths.push_back(*each.path);
  if (capture_.spans.empty()) return paths;
  for (events::ValuePath& each : paths)
    if (auto value = value_at_end(each)) each = std::move(*value);
  return paths;
}

// Whether a parameter that is asked for by name cannot be read at the entry.
bool TypedProbes::lacks_named(const dwarf::FunctionInfo& function,
                              const events::ArgumentList* list) const {
  return std::ranges::any_of(named_paths(list), [&](const events::ValuePath& path) {
    return std::ranges::any_of(function.variables, [&](const dwarf::Variable& each) {
      return each.name == path.variable && lacks_bytes(each);
    });
  });
}

// Whether the run reads nothing at an entry but its parameters, which are the same after its
// prologue. Stacks and registers are not.
bool TypedProbes::needs_only_parameters(const dwarf::FunctionInfo& function,
                                        const events::ArgumentList* list) const {
  const bool reads_entry =
      capture_.caller || capture_.registers || capture_.nest_calls || capture_.asks_for_stacks();
  if (!phases_.entry || phases_.exit || reads_entry) return false;
  if (list != nullptr && !list->arguments.empty()) return false;
  const auto compares_caller = [&](const events::ConditionSpec& each) {
    return each.built_in == COMPARE_CALLER && !has_variable(function, each.name());
  };
  return std::ranges::none_of(capture_.filter.terms, compares_caller) &&
         std::ranges::all_of(named_paths(list), [&](const events::ValuePath& path) {
           return has_variable(function, path.variable) ||
                  !events::parse_source_name(path.variable);
         });
}

std::expected<std::optional<PrologueEnd>, std::string>
TypedProbes::choose_prologue(const events::CapturePoint& probed) {
  const resolve::ProbePoint& point = *probed.point;
  const bool is_function = probed.code.kind == events::CodeKind::native && point.symbol &&
                           point.symbol_offset == 0 && probed.known == nullptr;
  if (!probed.is_recorded || !is_function || !can_have_types(probed)) return std::nullopt;
  const events::ArgumentList* const list = find_list(point);
  const bool shows_all =
      capture_.captures_values() && capture_.typed && list == nullptr && capture_.groups.by.empty();
  if (!shows_all && named_paths(list).empty()) return std::nullopt;
  File& file = open(point.binary);
  const auto at_entry = describe(file, point, false);
  if (!at_entry || !needs_only_parameters(*at_entry, list)) return std::nullopt;
  if (!shows_all && !lacks_named(*at_entry, list)) return std::nullopt;
  const plans::PlannedValues* const planned = planned_values(file, point);
  if (planned != nullptr && (!planned->prologue || file.image == nullptr)) return std::nullopt;
  unwind::UnwindData* const frames = file.binary->frames();
  auto found = planned != nullptr
                   ? check_prologue(*file.code, frames, point, *at_entry, *planned->prologue)
                   : find_prologue_end(*file.code, *file.debug, frames, point, *at_entry);
  if (found && *found) file.prologues.emplace(point.address, (*found)->size);
  return found;
}

const std::string* TypedProbes::find_variable(const resolve::ProbePoint& point,
                                              std::span<const std::string> names) {
  if (names.empty() || !point.binary->machine.is_64bit || point.static_probe || point.java)
    return nullptr;
  File& file = open(point.binary);
  const auto function = describe(file, point, false);
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return function && has_variable(*function, name); });
  return found == names.end() ? nullptr : &*found;
}

void TypedProbes::prefer_variables(std::span<const events::CapturePoint> points,
                                   events::GroupSpec& groups) {
  if (!uses_debug_info(capture_) || !phases_.entry || points.size() > events::max_whole_functions)
    return;
  const auto has_argument = [](const events::CapturePoint& probed, std::string_view name) {
    return probed.known != nullptr && find_argument(probed.known->arguments, name) != nullptr;
  };
  for (events::GroupValue& each : groups.by)
    if (each.built_in && each.built_in != BY_STACK &&
        std::ranges::all_of(points, [&](const events::CapturePoint& probed) {
          return !probed.is_recorded || has_argument(probed, each.text) ||
                 find_variable(*probed.point, std::span(&each.text, 1)) != nullptr;
        }))
      each.built_in.reset();
}

Result<const events::TypedPoint*> TypedProbes::describe(const events::CapturePoint& probed) {
  const resolve::ProbePoint& point = *probed.point;
  if (!can_have_types(probed))
    return fail(ErrorKind::unsupported,
                "it is read for native functions of this architecture only");
  File& file = open(point.binary);
  const plans::PlannedValues* const planned = planned_values(file, point);
  if (!file.debug && planned == nullptr)
    return fail(file.binary->has_plan() ? not_planned_error(*file.problem) : *file.problem);
  const events::CapturePhases phases = phases_of(capture_, probed);
  function_ = describe(file, point, phases.exit);
  if (!function_)
    return fail(ErrorKind::not_found,
                std::string(dwarf::why_not_described(*file.debug, uprobe_address(point))));
  set_described(file, point, phases, planned);
  return &typed_point_;
}

void TypedProbes::set_described(File& file, const resolve::ProbePoint& point,
                                const events::CapturePhases& phases,
                                const plans::PlannedValues* planned) {
  typed_point_ = events::TypedPoint{.function = &*function_};
  typed_point_.at_entry = point.inlined_into == nullptr && function_->entry == point.address;
  typed_point_.is_inlined_call = point.inlined_into != nullptr;
  typed_point_.phases = phases;
  typed_point_.shown_name = source_name(point, *function_);
  typed_point_.is_planned = planned != nullptr;
  if (planned != nullptr) {
    typed_point_.find_global =
        [planned](const std::string& name) -> std::optional<dwarf::Variable> {
      const auto found = std::ranges::find(planned->globals, name, &plans::PlannedGlobal::name);
      return found == planned->globals.end() ? std::nullopt : std::optional(found->variable);
    };
    return;
  }
  dwarf::CodePoint code = make_code_point(point, nullptr, 0);
  if (point.inlined_into != nullptr) code.inlined_call = point.inlined_into->debug_offset;
  typed_point_.find_global = [this, &file, code = std::move(code)](const std::string& name) {
    return find_global(file, name, code);
  };
  typed_point_.find_go_types = [&file] {
    if (!file.go_types) {
      (*file.binary->file())->complete_symbols();
      file.go_types.emplace(*file.image, *file.debug);
    }
    return file.go_types->is_empty() ? nullptr : &*file.go_types;
  };
}

Result<const events::TypedPoint*> TypedProbes::describe_for_plan(const resolve::ProbePoint& point) {
  if (!point.binary->machine.is_64bit || point.static_probe || point.java ||
      point.kind == symbols::SymbolKind::plt)
    return fail(ErrorKind::unsupported, "it is read for native functions only");
  File& file = open(point.binary);
  if (!file.debug) return fail(*file.problem);
  function_ = describe(file, point, true);
  if (!function_)
    return fail(ErrorKind::not_found,
                std::string(dwarf::why_not_described(*file.debug, uprobe_address(point))));
  set_described(file, point, phases_, nullptr);
  return &typed_point_;
}

std::optional<plans::PlannedPrologue>
TypedProbes::prologue_for_plan(const resolve::ProbePoint& point) {
  File& file = open(point.binary);
  if (!file.debug || !function_ || !point.symbol || point.symbol_offset != 0) return std::nullopt;
  auto found = describe_prologue(*file.debug, file.binary->frames(), point, *function_);
  return found ? std::move(*found) : std::nullopt;
}

std::vector<std::string> TypedProbes::warnings() const {
  std::vector<std::string> all = warnings_;
  for (const auto& [binary, file] : *files_)
    if (file.debug)
      for (const std::string& warning : file.debug->warnings())
        all.push_back(to_string(binary->path) + ": " + warning);
  return all;
}

} // namespace uprobectl::trace
