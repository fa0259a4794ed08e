// SPDX-License-Identifier: Apache-2.0
#include "events/readings.hpp"

#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl {

bool add_step(reading& made, std::int64_t offset) {
  if (made.steps >= MAX_STEPS) return false;
  if (std::in_range<std::int32_t>(offset)) {
    made.offsets[made.steps++] = static_cast<std::int32_t>(offset);
    return true;
  }
  if (made.steps > 0) return false;
  ++made.steps;
  made.base_offset += offset;
  return true;
}

namespace {

// Whether a register has a name without digits that parameters have, too: "dx", "ip", not "r8".
bool is_two_letters(std::string_view name) {
  return name.size() == 2 && (name[1] < '0' || name[1] > '9');
}

std::optional<std::uint32_t> argument_index(const ArchInfo& arch, std::uint32_t number) {
  const auto registers = arch.native->argument_registers;
  const auto found = std::ranges::find(registers, number);
  if (found == registers.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - registers.begin());
}

std::string name_of(std::size_t number) { return "arg" + std::to_string(number); }

Error has_fewer(const StaticProbe& probe, std::size_t number) {
  const std::size_t count = probe.arguments.size();
  return {ErrorKind::usage, fmt::format("the probe has {} here, not {}",
                                        count == 0   ? "no arguments"
                                        : count == 1 ? "one argument"
                                                     : fmt::format("{} arguments", count),
                                        name_of(number))};
}

Result<std::uint32_t> register_index(const std::string& name) {
  if (name.empty()) return std::uint32_t{NO_REGISTER};
  const auto number = register_number(name);
  if (!number) return fail(ErrorKind::unsupported, "uprobes cannot read register " + name);
  return *number;
}

using Kind = ArgumentSource::Kind;

using Specs = std::span<const ArgumentSpec>;

Specs::iterator find_named(Specs list, std::string_view name) {
  return std::ranges::find(list, name, &ArgumentSpec::name);
}

// Finds an integer argument with the same source, whose type then applies.
Specs::iterator find_integer(Specs list, const ArgumentSource& source) {
  return std::ranges::find_if(list, [&](const ArgumentSpec& each) {
    return each.source == source && !is_memory(each.type);
  });
}

// The same for a string.
Specs::iterator find_text(Specs list, const ArgumentSource& source) {
  return std::ranges::find_if(list, [&](const ArgumentSpec& each) {
    return each.source == source && is_memory(each.type) && each.type != ArgumentType::bytes;
  });
}

// What the comparison names is neither an argument nor a fact.
Error unknown_name(const std::string& name, Specs list) {
  std::vector<std::string> names = condition_names();
  for (const ArgumentSpec& each : list) names.push_back(each.name);
  Error error{ErrorKind::usage, in_single_quotes(name) + " is not an argument"};
  if (const auto near = nearest(name, names); !near.empty())
    error = std::move(error).hint(did_you_mean(near));
  const std::string offered = list_names(list, &ArgumentSpec::name);
  if (!offered.empty()) error = std::move(error).hint("its arguments are: " + offered);
  return std::move(error).hint("use arg0, arg1, …, ret, a register or a name declared by --args; "
                               "names of parameters need debug information");
}

std::size_t count_java_parameters(std::span<const JavaArgument> arguments) {
  return static_cast<std::size_t>(std::ranges::count_if(arguments, [](const JavaArgument& each) {
    return each.spec.source.number != this_argument;
  }));
}

} // namespace

std::span<const std::string_view> register_names(Arch arch) {
  return arch_info(arch).register_names;
}

std::optional<std::uint32_t> register_number(std::string_view name) {
  return host_arch_info().find_register(name);
}

std::uint32_t instruction_pointer() { return host_arch_info().pc; }

std::optional<std::uint32_t> find_register_by_argument_name(std::string_view name) {
  if (name == "flags") return std::nullopt;
  return register_number(name);
}

bool is_ambiguous_register(std::string_view name) {
  return is_two_letters(name) && find_register_by_argument_name(name).has_value();
}

std::optional<std::uint32_t> argument_in_register(std::string_view name) {
  const auto number = find_register_by_argument_name(name);
  return number ? argument_index(host_arch_info(), *number) : std::nullopt;
}

std::optional<OtherArchRegister> find_other_arch_register(std::string_view name) {
  if (is_two_letters(name)) return std::nullopt; // more likely a parameter
  for (const ArchInfo* const arch : all_archs()) {
    if (arch->arch == host_arch) continue;
    const auto number = arch->find_register(name);
    if (!number || arch->registers[*number].dwarf == no_register) continue;
    return OtherArchRegister{.machine = arch->names.little64,
                             .argument = argument_index(*arch, *number)};
  }
  return std::nullopt;
}

std::optional<CallingConvention> calling_convention(CodeKind kind) {
  const ArchInfo& arch = host_arch_info();
  const CallingConvention* const convention = kind == CodeKind::go          ? arch.go
                                              : kind == CodeKind::native_32 ? arch.compat
                                                                            : arch.native;
  return convention != nullptr ? std::optional(*convention) : std::nullopt;
}

Result<std::vector<ArgumentSpec>> static_probe_arguments(const StaticProbe& probe,
                                                         const ArgumentList* list) {
  const bool retypes =
      list != nullptr &&
      std::ranges::any_of(list->arguments, [](const auto& spec) { return spec.by_number; });
  std::vector<ArgumentSpec> specs;
  if (list == nullptr || retypes)
    for (std::uint32_t i = 0; i < probe.arguments.size(); ++i) {
      ArgumentSpec spec;
      spec.name = name_of(i);
      spec.type = static_argument_type(probe.arguments[i]).value_or(ArgumentType::x64);
      if (is_block(probe.arguments[i])) {
        spec.type = ArgumentType::bytes;
        spec.length = probe.arguments[i].size;
      }
      spec.source.number = i;
      specs.push_back(std::move(spec));
    }
  if (list == nullptr) return specs;
  for (const ArgumentSpec& spec : list->arguments) {
    if (spec.source.kind == ArgumentSource::Kind::argument &&
        spec.source.number >= probe.arguments.size()) {
      if (spec.by_number && !list->function) continue; // others may have it
      return fail(has_fewer(probe, spec.source.number));
    }
    if (spec.by_number && probe.arguments[spec.source.number].is_float) continue; // it has a type
    if (spec.by_number)
      specs[spec.source.number] = spec;
    else
      specs.push_back(spec);
  }
  if (specs.size() > max_arguments)
    return fail(ErrorKind::usage, fmt::format("more than {} arguments", max_arguments));
  return specs;
}

Result<reading> make_static_reading(const StaticProbeLocation& location,
                                    const StaticArgument& argument, std::uint32_t size,
                                    bool is_signed) {
  reading made{};
  made.phase = PHASE_ENTRY;
  // The bytes behind the argument belong to something else.
  made.size = std::min(size, argument.size.value_or(argument.width));
  made.is_signed = made.size < size ? argument.is_signed : is_signed;
  const auto base = register_index(argument.base);
  const auto index = register_index(argument.index);
  if (!base) return fail(base.error());
  if (!index) return fail(index.error());
  made.base = *base;
  made.shift = argument.shift;
  const bool in_memory = argument.kind == StaticArgument::Kind::in_memory;
  std::int64_t distance = in_memory ? argument.displacement : 0;
  if (argument.kind == StaticArgument::Kind::constant)
    distance = static_cast<std::int64_t>(argument.constant);
  if (argument.address) { // relative to the probe, because the file is loaded anywhere
    made.base = instruction_pointer();
    distance = static_cast<std::int64_t>(argument.address->value - location.address.value);
  }
  if (!in_memory) {
    made.addend = distance;
    return made;
  }
  if (!argument.index.empty()) {
    using Part = StaticArgument::IndexPart;
    made.index = *index;
    made.scale = argument.scale;
    made.index_size = argument.index_part == Part::whole ? 8 : 4;
    made.index_is_signed = argument.index_part == Part::signed_low_word ? 1 : 0;
  }
  add_step(made, distance);
  return made;
}

std::vector<std::optional<reading>> make_static_readings(const StaticProbeLocation& location) {
  std::vector<std::optional<reading>> readings;
  for (const StaticArgument& argument : location.probe->arguments) {
    std::optional<reading>& made = readings.emplace_back();
    if (!unreadable_reason(argument).empty() || is_block(argument)) continue;
    if (auto read = make_static_reading(location, argument, argument.size.value_or(argument.width),
                                        argument.is_signed))
      made = *read;
  }
  return readings;
}

std::string reading_key(const StaticProbeLocation& location) {
  if (location.probe == nullptr) return {};
  std::string key = "usdt " + location.probe->raw_arguments;
  // The same text may refer to other symbols in another file.
  for (const StaticArgument& argument : location.probe->arguments) {
    key += fmt::format(" {}:{}:{}", static_cast<int>(argument.kind), argument.constant,
                       argument.displacement);
    if (argument.address)
      key += fmt::format("@{}", argument.address->value - location.address.value);
  }
  return key;
}

std::string source_text(const ArgumentSource& source) {
  switch (source.kind) {
  case Kind::argument:
    return source.number == this_argument ? "this" : "arg" + std::to_string(source.number);
  case Kind::returned:
    return "ret";
  case Kind::machine_register:
    break;
  }
  return source.register_name;
}

Result<std::uint32_t> ReadingBuilder::read_phase(const ArgumentSource& source) const {
  switch (source.kind) {
  case Kind::returned:
    if (capture_.on_return || capture_.pair_calls) return PHASE_RETURN;
    if (location_.probe != nullptr)
      return fail(ErrorKind::usage, "a static probe has no return value");
    return fail(
        Error{ErrorKind::usage, "ret is only known at the return, which is not probed"}.hint(
            "add --return or --latency"));
  case Kind::argument:
    if (is_inlined_)
      return fail(Error{ErrorKind::usage,
                        source_text(source) + " is in no fixed register at an inlined call"}
                      .hint("read registers by name, as in --args x:u64@rax, or leave out "
                            "--inlined"));
    if (capture_.on_entry || capture_.pair_calls) return PHASE_ENTRY;
    return fail(Error{ErrorKind::usage,
                      source_text(source) + " is only known at the entry, which is not probed"}
                    .hint("add --entry, or --latency for both in one event"));
  case Kind::machine_register:
    break;
  }
  return capture_.on_entry || capture_.pair_calls ? PHASE_ENTRY : PHASE_RETURN;
}

Result<std::optional<ArgumentType>>
ReadingBuilder::noted_integer_type(const ArgumentSource& source) const {
  if (is_java_ && source.offsets.empty() && source.addend == 0) {
    const JavaArgument* const argument = source.kind == Kind::returned
                                             ? (java_return_ ? &*java_return_ : nullptr)
                                             : find_java_argument(java_, source);
    if (argument == nullptr) return std::nullopt;
    if (is_floating(argument->spec.type))
      return fail(ErrorKind::usage,
                  source_text(source) +
                      " is a floating-point number: only integers can be compared or measured");
    return is_memory(argument->spec.type) ? ArgumentType::x32 : argument->spec.type;
  }
  const bool noted = location_.probe != nullptr && source.kind == Kind::argument &&
                     source.offsets.empty() && source.number < location_.probe->arguments.size();
  if (!noted) return std::nullopt;
  const StaticArgument& argument = location_.probe->arguments[source.number];
  if (argument.is_float)
    return fail(ErrorKind::usage,
                source_text(source) +
                    " is a floating-point number: only integers can be compared or measured");
  if (is_block(argument))
    return fail(ErrorKind::usage,
                fmt::format("{} has {} bytes: only integers can be compared or measured",
                            source_text(source), *argument.size));
  return static_argument_type(argument);
}

Result<reading> ReadingBuilder::stack_value(const ArgumentSource& source,
                                            std::int64_t above) const {
  if (!at_start_)
    return fail(Error{ErrorKind::unsupported,
                      source_text(source) +
                          " is on the stack, and the stack pointer has changed inside the function"}
                    .hint("probe the beginning of the function"));
  reading made{};
  made.base = convention_.stack_pointer;
  add_step(made, above);
  return made;
}

Result<reading> ReadingBuilder::java_value(const ArgumentSource& source, std::uint32_t size,
                                           bool is_signed) const {
  const JavaArgument* const argument = find_java_argument(java_, source);
  if (argument == nullptr)
    return fail(ErrorKind::usage,
                source_text(source) + ": the method has " +
                    std::to_string(count_java_parameters(java_)) +
                    (count_java_parameters(java_) == 1 ? " parameter" : " parameters"));
  if (!argument->spec.problem.empty())
    return fail(ErrorKind::unsupported, source_text(source) + ": " + argument->spec.problem);
  reading made{};
  if (argument->machine_register) {
    made.base = *argument->machine_register;
  } else {
    if (!source.offsets.empty())
      return fail(ErrorKind::unsupported,
                  source_text(source) + ": memory behind a reference on the stack cannot be read");
    auto read = stack_value(source, argument->stack_offset);
    if (!read) return read;
    made = *read;
  }
  // The bytes behind the argument belong to something else.
  made.size = std::min(size, argument->size);
  made.is_signed = (made.size < size ? argument->is_signed : is_signed) ? 1 : 0;
  return made;
}

Result<reading> ReadingBuilder::argument_value(const ArgumentSource& source, std::uint32_t size,
                                               bool is_signed) const {
  if (location_.probe != nullptr) {
    const auto& arguments = location_.probe->arguments;
    if (source.number >= arguments.size())
      return fail(ErrorKind::usage, source_text(source) + ": the probe has " +
                                        std::to_string(arguments.size()) + " arguments here");
    const StaticArgument& argument = arguments[source.number];
    if (const std::string problem = unreadable_reason(argument); !problem.empty())
      return fail(ErrorKind::unsupported,
                  source_text(source) + " (" + argument.raw + "): " + problem);
    return make_static_reading(location_, argument, size, is_signed);
  }
  if (is_java_) return java_value(source, size, is_signed);
  const auto registers = convention_.argument_registers;
  reading made{};
  if (source.number < registers.size()) {
    made.base = registers[source.number];
    made.size = size;
    made.is_signed = is_signed ? 1 : 0;
    return made;
  }
  if (!convention_.has_stack_arguments)
    return fail(ErrorKind::unsupported,
                source_text(source) + ": Go passes it on the stack at no fixed offset");
  auto read =
      stack_value(source, convention_.stack_arguments_offset +
                              static_cast<std::int64_t>(convention_.slot) *
                                  (source.number - static_cast<std::int64_t>(registers.size())));
  if (!read) return read;
  read->size = size;
  read->is_signed = is_signed ? 1 : 0;
  return read;
}

Result<reading> ReadingBuilder::value(const ArgumentSource& source, ArgumentType type) const {
  const auto phase = read_phase(source);
  if (!phase) return fail(phase.error());
  const std::uint32_t size = size_of(type, convention_.pointer_size);
  reading made{};
  made.size = size;
  made.is_signed = is_signed(type) ? 1 : 0;
  switch (source.kind) {
  case Kind::returned:
    made.base = convention_.return_register;
    if (is_java_ && java_return_ && source.offsets.empty())
      made.size = std::min(size, java_return_->size);
    break;
  case Kind::machine_register:
    made.base = *register_number(source.register_name); // checked by the parser
    break;
  case Kind::argument:
    // With `memory` the argument is a pointer, and the type is that of the memory.
    auto read = argument_value(source, source.offsets.empty() ? size : convention_.pointer_size,
                               source.offsets.empty() && is_signed(type));
    if (!read) return read;
    made = *read;
    const bool is_noted = location_.probe != nullptr && source.offsets.empty();
    if (is_noted && type == ArgumentType::bytes &&
        is_block(location_.probe->arguments[source.number])) {
      // The bytes are those of the argument, not what it points to.
      made.addend = made.offsets[0];
      made.steps = 0;
      made.size = convention_.pointer_size;
    }
    if (!source.offsets.empty()) {
      made.size = size;
      made.is_signed = is_signed(type) ? 1 : 0;
    }
  }
  made.phase = *phase;
  if (made.steps + source.offsets.size() > MAX_STEPS)
    return fail(ErrorKind::usage,
                source_text(source) + fmt::format(": more than {} pointers to follow", MAX_STEPS));
  for (const std::int64_t offset : source.offsets)
    if (!add_step(made, offset + std::exchange(made.addend, 0)))
      return fail(ErrorKind::unsupported,
                  source_text(source) + ": the offset does not fit in 32 bits");
  made.addend += source.addend;
  return made;
}

Result<reading> ReadingBuilder::value_at_return(const ArgumentSpec& spec,
                                                std::span<const ArgumentSpec> list,
                                                std::span<const std::size_t> numbers) const {
  const auto address = find_named(list, *spec.address_from);
  if (address == list.end() || !capture_.pair_calls)
    return fail(ErrorKind::usage, spec.name + ": its address is not known at the return");
  reading made{};
  made.phase = PHASE_RETURN;
  made.base = NO_REGISTER;
  made.base_from = static_cast<record_u8>(numbers[address - list.begin()] + 1);
  made.adds_thread_pointer = spec.adds_thread_pointer ? 1 : 0;
  made.size = static_cast<record_u8>(size_of(spec.type, convention_.pointer_size));
  made.is_signed = is_signed(spec.type) ? 1 : 0;
  if (!is_memory(spec.type)) add_step(made, 0);
  return made;
}

Result<reading> ReadingBuilder::build_argument(const ArgumentSpec& spec,
                                               std::span<const ArgumentSpec> list,
                                               std::span<const std::size_t> numbers) const {
  auto made =
      spec.address_from ? value_at_return(spec, list, numbers) : value(spec.source, spec.type);
  if (!made || !is_memory(spec.type)) return made;
  const std::uint32_t most = spec.max_bytes > 0 ? spec.max_bytes : capture_.max_string_bytes;
  if (spec.type != ArgumentType::bytes) {
    const auto form = string_form(spec.name, spec.type);
    if (!form) return fail(form.error());
    made->form = static_cast<record_u8>(*form);
    made->capacity = most;
    // Includes the NUL, and one more byte that tells whether the string is truncated.
    if (spec.type == ArgumentType::string) made->capacity += 2;
  } else {
    made->form = READ_BYTES;
    made->capacity = spec.length.value_or(most);
    made->element_size = spec.element_size;
  }
  if (!spec.length_from) return made;
  const auto length = find_named(list, *spec.length_from); // checked by the parser
  made->length_from = static_cast<record_u8>(numbers[length - list.begin()] + 1);
  const auto known = read_phase(length->source);
  if (!known) return fail(known.error());
  const bool comes_later = *known > made->phase;
  if (comes_later || (*known != made->phase && !capture_.pair_calls))
    return fail(
        Error{ErrorKind::usage,
              fmt::format("{}: its length {} is known only {}", spec.name, *spec.length_from,
                          comes_later ? "when the function has returned"
                                      : "at the entry, which is another event")}
            .hint(comes_later
                      ? "use a fixed length, as in buf[64]; a file of --prototypes reads what a "
                        "function writes when it returns"
                      : "add --latency, which makes both one event"));
  return made;
}

record_u32 number_of(Comparison comparison) {
  switch (comparison) {
  case Comparison::equal:
    return IS_EQUAL;
  case Comparison::not_equal:
    return IS_NOT_EQUAL;
  case Comparison::less:
    return IS_LESS;
  case Comparison::more:
    return IS_GREATER;
  case Comparison::at_most:
    return IS_AT_MOST;
  case Comparison::at_least:
    return IS_AT_LEAST;
  case Comparison::in_set:
    return IS_IN_SET;
  case Comparison::matches:
    return MATCHES;
  case Comparison::has_bits:
    break;
  }
  return HAS_BITS;
}

namespace {

// The constants of a comparison, and whether the value has a sign if its type is not known.
void set_constants(PreparedTerm& made, const ConditionSpec& spec) {
  for (const FilterConstant& each : spec.members) made.members.push_back(number_of(each));
  made.term.comparison = static_cast<record_u8>(number_of(spec.comparison));
  made.term.constant = number_of(spec.constant);
}

// As C converts them: -1 is the largest number of an unsigned type. `size`: bytes, of the type.
void cut_negative_constants(PreparedTerm& made, const ConditionSpec& spec, std::uint32_t size) {
  if (size >= sizeof(std::uint64_t)) return;
  const std::uint64_t mask = (std::uint64_t{1} << (8 * size)) - 1;
  if (spec.constant.negative) made.term.constant &= mask;
  for (std::size_t i = 0; i < made.members.size(); ++i)
    if (spec.members[i].negative) made.members[i] &= mask;
}

bool has_negative(const ConditionSpec& spec) {
  return spec.constant.negative || std::ranges::any_of(spec.members, &FilterConstant::negative);
}

const FilterConstant* find_too_large(const ConditionSpec& spec, ArgumentType type,
                                     std::uint32_t pointer_size) {
  const auto is_too_large = [&](const FilterConstant& each) {
    return !can_hold(8 * size_of(type, pointer_size), is_signed(type), spec.comparison, each);
  };
  const auto found = std::ranges::find_if(spec.members, is_too_large);
  if (found != spec.members.end()) return &*found;
  return is_too_large(spec.constant) ? &spec.constant : nullptr;
}

// The first enumerator that the comparison names.
const FilterConstant* find_enumerator(const ConditionSpec& spec) {
  if (!spec.constant.name.empty()) return &spec.constant;
  const auto found = std::ranges::find_if(
      spec.members, [](const FilterConstant& each) { return !each.name.empty(); });
  return found == spec.members.end() ? nullptr : &*found;
}

} // namespace

record_u64 number_of(const FilterConstant& constant) {
  return constant.negative ? ~constant.magnitude + 1 : constant.magnitude;
}

Result<reading_form> ReadingBuilder::string_form(std::string_view name, ArgumentType type) const {
  if (type == ArgumentType::java_string) return READ_JAVA_STRING;
  if (type == ArgumentType::string) return READ_STRING;
  if (!abi_.strings)
    return fail(
        Error{ErrorKind::unsupported, std::string(name) + ": unknown layout of std::string"}.hint(
            "the file must use either libstdc++ or libc++"));
  return *abi_.strings;
}

// The return address: where a call has left it, or, after a return that the kernel probes, where
// the thread is.
Result<PreparedTerm> ReadingBuilder::build_caller() const {
  const bool only_returns = capture_.on_return && !capture_.on_entry && !capture_.pair_calls;
  if (location_.probe != nullptr || is_inlined_ || (!at_start_ && !only_returns))
    return fail(ErrorKind::unsupported,
                "the return address is known only at the first instruction of a function and "
                "where it returns");
  if (capture_.by_uretprobe && capture_.on_entry && capture_.on_return && !capture_.pair_calls)
    return fail(Error{ErrorKind::unsupported, "with --return-at trampoline, entries and returns "
                                              "have the return address in different places"}
                    .hint("add --latency, or probe with --return-at ret"));
  PreparedTerm made;
  reading& address = made.term.value;
  address.size = static_cast<record_u8>(convention_.pointer_size);
  const std::uint8_t link = host_arch_info().unwind->link_register;
  if (capture_.by_uretprobe && only_returns) {
    address.base = static_cast<record_u8>(instruction_pointer());
  } else if (link != no_register) {
    address.base = static_cast<record_u8>(host_arch_info().find_dwarf_register(link).value());
  } else {
    address.base = static_cast<record_u8>(convention_.stack_pointer);
    address.steps = 1;
  }
  made.term.subject = COMPARE_CALLER;
  made.term.comparison = MATCHES;
  return made;
}

ConditionResult<PreparedTerm> ReadingBuilder::build_fact(const ConditionSpec& spec) const {
  if (spec.fact == COMPARE_CALLER) return build_caller();
  const bool is_name = spec.fact == COMPARE_THREAD_NAME || spec.fact == COMPARE_PROCESS_NAME;
  if (is_name != (spec.comparison == Comparison::matches))
    return wrong_at(spec.constant_at, is_name ? "it is a string: compare it with a string"
                                              : "it is a number: compare it with numbers");
  if (spec.fact == COMPARE_LATENCY && location_.probe != nullptr)
    return fail(ErrorKind::usage, "a static probe has no latency");
  if (spec.fact == COMPARE_LATENCY && !capture_.pair_calls)
    return fail(Error{ErrorKind::usage, "the latency is known only of calls"}.hint(
        "add --latency, which makes an entry and its return one event"));
  if (spec.fact == COMPARE_PROCESS_NAME && capture_.process_name.group_leader == 0)
    return fail(Error{ErrorKind::unsupported, "this kernel does not tell where it keeps the names "
                                              "of processes"}
                    .hint("it needs BTF (CONFIG_DEBUG_INFO_BTF); use -p NAME instead"));
  if (const auto* const constant = find_enumerator(spec))
    return wrong_at(spec.place_of(*constant),
                    in_single_quotes(constant->name) + " is not a number");
  PreparedTerm made;
  made.term.value.size = 8;
  made.term.value.base = NO_REGISTER;
  made.term.value.phase = spec.fact == COMPARE_LATENCY ? PHASE_RETURN : PHASE_ENTRY;
  made.term.subject = static_cast<record_u8>(*spec.fact);
  made.term.is_signed = spec.comparison == Comparison::has_bits ? 0 : 1;
  set_constants(made, spec);
  return made;
}

// The first bytes of a buffer. Without --args the value is an address.
ConditionResult<PreparedTerm>
ReadingBuilder::build_bytes(const ConditionSpec& spec, const ArgumentSource& source,
                            const ArgumentSpec* declared,
                            std::span<const ArgumentSpec> list) const {
  const TextPattern& pattern = spec.patterns.front();
  const auto size = static_cast<std::uint32_t>(pattern.text.size());
  const ArgumentType type = spec.type  ? *spec.type
                            : declared ? declared->type
                                       : ArgumentType::bytes;
  if (type != ArgumentType::bytes && type != ArgumentType::string)
    return wrong_at(spec.constant_at, "only buffers can be compared with bytes");
  const bool is_buffer = declared != nullptr && type == ArgumentType::bytes;
  const auto length = is_buffer ? declared->length : std::nullopt;
  if (pattern.kind == TextPattern::Kind::exact && length != size) {
    const bool has_name = is_buffer && declared->length_from;
    return wrong_at(spec.constant_at,
                    Error{ErrorKind::usage,
                          length     ? fmt::format("the buffer has {} bytes, not {}", *length, size)
                          : has_name ? "the buffer has a length that varies"
                                     : "the length of the buffer is not known"}
                        .hint("compare its first bytes with ^=" +
                              (has_name ? fmt::format(", and its length: '{} == {}'",
                                                      *declared->length_from, size)
                                        : std::string())));
  }
  if (length && *length < size)
    return wrong_at(spec.constant_at, fmt::format("the buffer has only {} bytes", *length));
  auto compared = value(source, ArgumentType::bytes);
  if (!compared) return fail(std::move(compared).error());
  compared->form = READ_BYTES;
  compared->capacity = size;
  PreparedTerm made;
  made.term.value = *compared;
  if (is_buffer && declared->length_from) {
    const auto units = find_named(list, *declared->length_from);
    if (units == list.end() || declared->element_size != 1)
      return fail(ErrorKind::unsupported, "the length of the buffer cannot be compared");
    auto read = value(units->source, units->type);
    if (!read) return fail(std::move(read).error());
    made.length = *read;
  }
  set_constants(made, spec);
  return made;
}

ConditionResult<PreparedTerm> ReadingBuilder::build_text(const ConditionSpec& spec,
                                                         const ArgumentSource& source,
                                                         std::optional<ArgumentType> type) const {
  if (!type) {
    const JavaArgument* const argument = source.kind == Kind::returned
                                             ? (java_return_ ? &*java_return_ : nullptr)
                                             : find_java_argument(java_, source);
    if (is_java_ && (argument == nullptr || argument->spec.type != ArgumentType::java_string))
      return fail(ErrorKind::usage, "it is not a java.lang.String");
    type = is_java_ ? ArgumentType::java_string : ArgumentType::string;
  }
  if (!is_memory(*type))
    return wrong_at(spec.constant_at, (spec.first_text.empty() ? "" : spec.first_text + ": ") +
                                          "a number cannot be compared with a string");
  if (*type == ArgumentType::bytes) return fail(ErrorKind::usage, "a buffer cannot be compared");
  auto compared = value(source, *type);
  if (!compared) return fail(std::move(compared).error());
  const auto form = string_form(spec.text, *type);
  if (!form) return fail(form.error());
  compared->form = static_cast<record_u8>(*form);
  PreparedTerm made;
  made.term.value = *compared;
  set_constants(made, spec);
  return made;
}

Result<PreparedTerm> ReadingBuilder::build_condition(const ConditionSpec& spec,
                                                     std::span<const ArgumentSpec> list) const {
  auto made = build_term(spec, list);
  if (!made) return fail(describe_error(spec, std::move(made).error()));
  return std::move(*made);
}

ConditionResult<PreparedTerm> ReadingBuilder::build_term(const ConditionSpec& spec,
                                                         std::span<const ArgumentSpec> list) const {
  const bool is_text = spec.comparison == Comparison::matches;
  ArgumentSource source = spec.source;
  std::optional<ArgumentType> type = spec.type;
  const auto declared = spec.name ? find_named(list, *spec.name)
                        : is_text ? find_text(list, source)
                                  : find_integer(list, source);
  if (spec.fact && (!spec.name || declared == list.end())) return build_fact(spec);
  if (declared != list.end()) {
    if (declared->address_from)
      return fail(ErrorKind::unsupported, in_single_quotes(declared->name) +
                                              " is written by the function: it has no "
                                              "value at the entry");
    if (is_memory(declared->type) && !is_text)
      return wrong_at(spec.constant_at, "it is not an integer: compare it with a string in quotes");
    source = declared->source;
    if (!type) type = declared->type;
  } else if (spec.name) {
    auto named = parse_source_name(*spec.name);
    if (!named) return fail(unknown_name(*spec.name, list));
    source = std::move(*named);
  }
  if (spec.compares_bytes())
    return build_bytes(spec, source, declared == list.end() ? nullptr : &*declared, list);
  if (is_text) return build_text(spec, source, type);
  if (type && is_memory(*type))
    return wrong_at(spec.constant_at, "it is a string: compare it with one in quotes");
  if (const auto* const constant = find_enumerator(spec))
    return wrong_at(spec.place_of(*constant),
                    in_single_quotes(constant->name) + " is not a number");
  if (type)
    if (const auto* const constant = find_too_large(spec, *type, convention_.pointer_size))
      return wrong_at(spec.place_of(*constant),
                      fmt::format("{} cannot have this value", to_string(*type)));
  const auto noted = noted_integer_type(source);
  if (!noted) return fail(noted.error());
  if (!type) type = *noted;
  auto compared = value(source, type.value_or(ArgumentType::s64));
  if (!compared) return fail(std::move(compared).error());
  PreparedTerm made;
  made.term.value = *compared;
  set_constants(made, spec);
  if (type && compared->is_signed == 0) cut_negative_constants(made, spec, compared->size);
  // A number that no signed value exceeds makes the comparison unsigned.
  constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
  const bool takes_sign = spec.constant.negative || spec.constant.magnitude < largest;
  made.term.is_signed = type ? compared->is_signed : takes_sign ? 1 : 0;
  if (spec.comparison == Comparison::has_bits) made.term.is_signed = 0; // bits have no sign
  const bool asks_for_sign =
      has_negative(spec) ||
      (spec.constant.magnitude == 0 &&
       (spec.comparison == Comparison::less || spec.comparison == Comparison::at_most ||
        spec.comparison == Comparison::more || spec.comparison == Comparison::at_least));
  made.term.guess_sign = !type && asks_for_sign ? 1 : 0;
  return made;
}

Result<reading> ReadingBuilder::build_measured(const MeasuredValue& measured,
                                               std::span<const ArgumentSpec> list) const {
  const std::string& name = measured.path.text;
  auto declared = find_named(list, name);
  if (declared == list.end() && measured.source) declared = find_integer(list, *measured.source);
  if (declared == list.end() && !measured.source)
    return fail(unknown_name(name, list).within("--measure"));
  const ArgumentSource& source = declared == list.end() ? *measured.source : declared->source;
  const auto noted = noted_integer_type(source);
  if (!noted) return fail(Error(noted.error()).within("--measure"));
  const ArgumentType type =
      declared == list.end() ? noted->value_or(ArgumentType::s64) : declared->type;
  if (is_memory(type) || (declared != list.end() && declared->address_from))
    return fail(ErrorKind::usage, "--measure: '" + name + "': only integers can be measured");
  return value(source, type);
}

} // namespace uprobectl
