// SPDX-License-Identifier: Apache-2.0
#include "events/readings.hpp"

#include <algorithm>
#include <array>
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
Result<reading> ReadingBuilder::caller() const {
  const bool only_returns = capture_.on_return && !capture_.on_entry && !capture_.pair_calls;
  if (location_.probe != nullptr || is_inlined_ || (!at_start_ && !only_returns))
    return fail(ErrorKind::unsupported,
                "the return address is known only at the first instruction of a function and "
                "where it returns");
  if (capture_.by_uretprobe && capture_.on_entry && capture_.on_return && !capture_.pair_calls)
    return fail(Error{ErrorKind::unsupported, "with --return-at trampoline, entries and returns "
                                              "have the return address in different places"}
                    .hint("add --latency, or probe with --return-at ret"));
  reading address{};
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
  return address;
}

std::optional<ArgumentType> ReadingBuilder::noted_type(const ArgumentSource& source) const {
  if (!source.offsets.empty() || source.addend != 0) return std::nullopt;
  if (is_java_) {
    const JavaArgument* const argument = source.kind == Kind::returned
                                             ? (java_return_ ? &*java_return_ : nullptr)
                                             : find_java_argument(java_, source);
    return argument != nullptr ? std::optional(argument->spec.type) : std::nullopt;
  }
  const bool noted = location_.probe != nullptr && source.kind == Kind::argument &&
                     source.number < location_.probe->arguments.size();
  if (!noted) return std::nullopt;
  const StaticArgument& argument = location_.probe->arguments[source.number];
  return is_block(argument) ? ArgumentType::bytes : static_argument_type(argument);
}

ValueType declared_type(ArgumentType type, std::uint32_t pointer_size) {
  ValueType made{.name = std::string(to_string(type))};
  if (type == ArgumentType::bytes) {
    made.use = ValueUse::bytes;
  } else if (is_memory(type)) {
    made.use = ValueUse::text;
  } else {
    made.bits = 8 * size_of(type, pointer_size);
    made.is_signed = is_signed(type);
    made.is_floating = is_floating(type);
    made.is_address = type == ArgumentType::ptr;
  }
  return made;
}

// Without a type, a text is a NUL-terminated string and bytes are behind an address.
Result<ComparedValue> ReadingBuilder::compared(const ArgumentSpec& spec,
                                               std::optional<ArgumentType> type, ValueUse use,
                                               std::span<const ArgumentSpec> list) const {
  if (!type) {
    type = noted_type(spec.source);
    // Notes tell the size of an address, not what is there.
    if (type && location_.probe != nullptr && use != ValueUse::number && !is_memory(*type) &&
        !is_floating(*type))
      type.reset();
    if (type == ArgumentType::java_string && use == ValueUse::number) type = ArgumentType::x32;
  }
  constexpr std::array usual = {ArgumentType::s64, ArgumentType::string, ArgumentType::bytes};
  ArgumentType read_as = type.value_or(usual[static_cast<std::size_t>(use)]);
  if (use == ValueUse::bytes && read_as == ArgumentType::string) read_as = ArgumentType::bytes;
  ComparedValue made{.type = declared_type(read_as, convention_.pointer_size)};
  if (!type) made.type.name.clear();
  if (made.type.use != use) return made; // it is not read
  auto read = value(spec.source, read_as);
  if (!read) return fail(std::move(read).error());
  made.value = *read;
  if (use == ValueUse::number) {
    made.type.bits = std::min<unsigned>(8 * read->size, made.type.bits);
    made.type.is_signed = read->is_signed != 0;
    if (made.type.is_floating) made.value.is_signed = 1;
  } else if (use == ValueUse::text) {
    const auto form = string_form(spec.name, read_as);
    if (!form) return fail(form.error());
    made.value.form = static_cast<record_u8>(*form);
  } else {
    made.value.form = READ_BYTES;
    if (type == ArgumentType::bytes && spec.length) made.type.size = *spec.length;
    if (type == ArgumentType::bytes && location_.probe != nullptr &&
        spec.source.kind == Kind::argument &&
        is_block(location_.probe->arguments[spec.source.number]))
      made.type.size = location_.probe->arguments[spec.source.number].size;
    if (!spec.length_from) return made;
    made.length_name = *spec.length_from;
    const auto units = find_named(list, *spec.length_from);
    if (units == list.end() || spec.element_size != 1)
      return fail(ErrorKind::unsupported, "the length of the buffer cannot be compared");
    auto length = value(units->source, units->type);
    if (!length) return fail(std::move(length).error());
    made.length = *length;
  }
  return made;
}

} // namespace uprobectl
