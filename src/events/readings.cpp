// SPDX-License-Identifier: Apache-2.0
#include "events/readings.hpp"

#include "util/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::events {

bool is_in_memory(const LocatedValue& value) {
  if (value.address) return true;
  const auto& pieces = value.location->pieces;
  return pieces.size() == 1 && pieces.front().kind == dwarf::Piece::Kind::memory;
}

LocatedValue part_of(LocatedValue value, const dwarf::Type& type, std::uint64_t offset) {
  value.type = &type;
  if (value.address)
    value.address = moved(*value.address, offset);
  else
    value.offset += offset;
  return value;
}

std::uint64_t load_size(std::uint64_t size) {
  return std::bit_ceil(std::max<std::uint64_t>(size, 1));
}

bool add_load(reading& made, std::int64_t offset, std::uint64_t size) {
  if (made.bit_offset != 0 || made.bit_count != 0 || made.steps >= MAX_STEPS) return false;
  const std::int64_t distance = add_wrapping(std::exchange(made.addend, 0), offset);
  made.size = static_cast<record_u8>(size);
  if (std::in_range<std::int32_t>(distance)) {
    made.offsets[made.steps++] = static_cast<std::int32_t>(distance);
    return true;
  }
  if (made.steps > 0) return false;
  ++made.steps;
  made.base_offset = add_wrapping(made.base_offset, distance);
  return true;
}

reading moved(reading address, std::uint64_t offset) {
  address.addend = add_wrapping(address.addend, offset);
  return address;
}

void read_text(reading& address, reading_form form, std::uint32_t most) {
  address.form = static_cast<record_u8>(form);
  // Includes the NUL, and one more byte that tells whether the string is truncated.
  address.capacity = form == READ_STRING && most > 0 ? most + 2 : most;
}

void read_bytes(reading& address, std::uint64_t capacity) {
  address.form = READ_BYTES;
  address.capacity = static_cast<record_u32>(capacity);
}

void set_length(reading& bytes, std::size_t length, std::uint64_t element_size) {
  bytes.length_from = static_cast<record_u8>(length + 1);
  bytes.element_size = static_cast<record_u32>(element_size);
}

reading address_of(reading bytes) {
  bytes.form = READ_INTEGER;
  bytes.capacity = 0;
  bytes.length_from = 0;
  bytes.length_is_end = 0;
  bytes.element_size = 0;
  return bytes;
}

void add_offset(reading& address, std::size_t offset, std::int64_t scale) {
  address.offset_from = static_cast<record_u8>(offset + 1);
  address.offset_scale = static_cast<record_s32>(scale);
  address.offset_step = address.steps;
}

reading based_on(std::size_t earlier, record_u8 phase) {
  reading made{};
  made.phase = phase;
  made.base = NO_REGISTER;
  made.base_from = static_cast<record_u8>(earlier + 1);
  made.size = word_size;
  return made;
}

std::optional<reading> without_offset(const reading& address, const KeepReading& keep) {
  if (address.offset_from == 0) return address;
  const auto index = keep(address);
  return index ? std::optional(based_on(*index, address.phase)) : std::nullopt;
}

std::optional<reading> base_address(const reading& object, const dwarf::VirtualBase& base,
                                    const KeepReading& keep) {
  if (!keep || !base.vtable_offset) return std::nullopt;
  auto made = without_offset(object, keep);
  if (!made) return std::nullopt;
  reading distance = *made;
  if (!add_load(distance, 0, word_size) || !add_load(distance, *base.vtable_offset, word_size))
    return std::nullopt;
  const auto index = keep(distance);
  if (!index) return std::nullopt;
  add_offset(*made, *index);
  return made;
}

std::optional<LocatedValue> guarded_by(LocatedValue value, const reading& guard,
                                       const KeepReading& keep) {
  if (value.address) {
    value.address = without_offset(*value.address, keep);
    if (!value.address) return std::nullopt;
  }
  const auto index = keep(guard);
  if (!index) return std::nullopt;
  if (value.address)
    add_offset(*value.address, *index);
  else
    value.guard = index;
  return value;
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

Error has_fewer(const usdt::StaticProbe& probe, const ArgumentSource& source) {
  const std::size_t count = probe.arguments.size();
  return {ErrorKind::usage, fmt::format("the probe has {} here, not {}",
                                        count == 0   ? "no arguments"
                                        : count == 1 ? "one argument"
                                                     : fmt::format("{} arguments", count),
                                        source_text(source))};
}

Result<std::uint32_t> register_index(const std::string& name) {
  if (name.empty()) return std::uint32_t{NO_REGISTER};
  const auto number = register_number(name);
  if (!number) return fail(ErrorKind::unsupported, "uprobes cannot read register " + name);
  return *number;
}

using Kind = ArgumentSource::Kind;

std::size_t count_java_parameters(std::span<const JavaArgument> arguments) {
  return static_cast<std::size_t>(std::ranges::count_if(arguments, [](const JavaArgument& each) {
    return each.spec.source.kind == Kind::argument && each.spec.source.number != this_argument;
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

Result<std::vector<ArgumentSpec>> static_probe_arguments(const usdt::StaticProbe& probe,
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
      return fail(has_fewer(probe, spec.source));
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

namespace {

// The value of an argument, with the size and the sign of its note.
Result<reading> static_value(const StaticProbeLocation& location,
                             const usdt::StaticArgument& argument) {
  reading made{};
  made.phase = PHASE_ENTRY;
  made.size = static_cast<record_u8>(argument.size.value_or(argument.width));
  made.is_signed = argument.is_signed ? 1 : 0;
  const auto base = register_index(argument.base);
  const auto index = register_index(argument.index);
  if (!base) return fail(base.error());
  if (!index) return fail(index.error());
  made.base = static_cast<record_u8>(*base);
  made.shift = argument.shift;
  const bool in_memory = argument.kind == usdt::StaticArgument::Kind::in_memory;
  std::int64_t distance = in_memory ? argument.displacement : 0;
  if (argument.kind == usdt::StaticArgument::Kind::constant)
    distance = static_cast<std::int64_t>(argument.constant);
  if (argument.address) { // relative to the probe, because the file is loaded anywhere
    made.base = static_cast<record_u8>(instruction_pointer());
    distance = static_cast<std::int64_t>(argument.address->value - location.address.value);
  }
  if (!in_memory) {
    made.addend = distance;
    return made;
  }
  if (!argument.index.empty()) {
    using Part = usdt::StaticArgument::IndexPart;
    made.index = static_cast<record_u8>(*index);
    made.scale = argument.scale;
    made.index_size = argument.index_part == Part::whole ? 8 : 4;
    made.index_is_signed = argument.index_part == Part::signed_low_word ? 1 : 0;
  }
  add_load(made, distance, made.size);
  return made;
}

} // namespace

std::vector<std::optional<reading>> make_static_readings(const StaticProbeLocation& location) {
  std::vector<std::optional<reading>> readings;
  for (const usdt::StaticArgument& argument : location.probe->arguments) {
    std::optional<reading>& made = readings.emplace_back();
    if (!unreadable_reason(argument).empty() || is_block(argument)) continue;
    if (auto read = static_value(location, argument)) made = *read;
  }
  return readings;
}

std::string reading_key(const StaticProbeLocation& location) {
  if (location.probe == nullptr) return {};
  std::string key = "usdt " + location.probe->raw_arguments;
  // The text may refer to a symbol, whose address differs from file to file.
  for (const usdt::StaticArgument& argument : location.probe->arguments) {
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
    return std::string(result_name);
  case Kind::machine_register:
    break;
  }
  return source.register_name;
}

Result<ReadingBuilder> ReadingBuilder::make(const CaptureSpec& capture, bool by_uretprobe,
                                            const CapturePoint& probed) {
  const auto convention = calling_convention(probed.code.kind);
  if (!convention)
    return fail(ErrorKind::unsupported, "the kernel of this machine cannot probe 32-bit code");
  return ReadingBuilder(capture, by_uretprobe, probed, *convention);
}

ReadingBuilder::ReadingBuilder(const CaptureSpec& capture, bool by_uretprobe,
                               const CapturePoint& probed, const CallingConvention& convention)
    : capture_(capture), by_uretprobe_(by_uretprobe), phases_(phases_of(capture, probed)),
      convention_(convention), abi_(probed.code), at_start_(probed.point->symbol_offset == 0),
      is_inlined_(probed.point->inlined_into != nullptr), is_java_(probed.point->java != nullptr),
      location_{.probe = probed.point->static_probe.get(),
                .address = uprobe_address(*probed.point)} {
  if (!is_java_) return;
  java_ = java_arguments(*probed.point->java, abi_.kind);
  if (auto returned = java_return(*probed.point->java, abi_.kind))
    java_.push_back(std::move(*returned));
}

std::optional<reading> ReadingBuilder::follow(const dwarf::Formula& formula, record_u8 phase,
                                              std::uint64_t size) const {
  using Base = dwarf::Formula::Base;
  reading made{};
  made.phase = phase;
  made.base = NO_REGISTER;
  made.base_offset = formula.loads.empty() ? formula.addend : formula.loads.front();
  if (formula.base == Base::machine_register) {
    const auto index = host_arch_info().find_dwarf_register(formula.machine_register);
    if (!index) return std::nullopt;
    made.base = static_cast<record_u8>(*index);
  } else if (formula.base == Base::image) {
    if (phase != PHASE_ENTRY) return std::nullopt;
    const reading bias = load_bias();
    made.base = bias.base;
    made.base_offset = add_wrapping(made.base_offset, bias.base_offset);
  }
  for (std::size_t i = 0; i < formula.loads.size(); ++i)
    if (!add_load(made, i == 0 ? 0 : formula.loads[i], size)) return std::nullopt;
  made.size = static_cast<record_u8>(size);
  if (!formula.loads.empty()) made.addend = formula.addend;
  if (formula.bit_offset != 0 || formula.bit_count != 0) {
    made.size = word_size;
    made.bit_offset = formula.bit_offset;
    made.bit_count = formula.bit_count != 0
                         ? formula.bit_count
                         : static_cast<record_u8>(8 * word_size - formula.bit_offset);
  }
  return made;
}

// Relative to the probe, because the file is loaded anywhere.
reading ReadingBuilder::load_bias() const {
  reading made{};
  made.phase = PHASE_ENTRY;
  made.size = word_size;
  made.base = static_cast<record_u8>(instruction_pointer());
  made.base_offset = add_wrapping(0, 0 - location_.address.value);
  return made;
}

std::optional<reading> ReadingBuilder::number(const LocatedValue& value, std::uint64_t size) const {
  if (size > word_size) return std::nullopt;
  if (value.address) {
    reading made = *value.address;
    if (!add_load(made, 0, load_size(size))) return std::nullopt;
    return made;
  }
  std::uint64_t start = 0;
  for (const dwarf::Piece& piece : value.location->pieces) {
    const std::uint64_t end = start + (piece.size != 0 ? piece.size : value.offset + size);
    if (value.offset >= start && value.offset + size <= end) {
      auto made = of_piece(piece, value.phase, size, value.offset - start);
      if (made && value.guard) add_offset(*made, *value.guard);
      return made;
    }
    start = end;
  }
  return std::nullopt;
}

std::optional<reading> ReadingBuilder::of_piece(const dwarf::Piece& piece, record_u8 phase,
                                                std::uint64_t size, std::uint64_t at) const {
  using PieceKind = dwarf::Piece::Kind;
  if (piece.kind == PieceKind::missing || (piece.kind == PieceKind::value && at + size > word_size))
    return std::nullopt;
  auto made = follow(piece.formula, phase, word_size);
  if (!made) return std::nullopt;
  if (piece.kind == PieceKind::memory) {
    if (size > word_size) return moved(*made, at);
    return add_load(*made, static_cast<std::int64_t>(at), load_size(size)) ? made : std::nullopt;
  }
  if (made->bit_offset != 0 || made->bit_count != 0) {
    if (at != 0) return std::nullopt;
    made->bit_count = static_cast<record_u8>(std::min<std::uint64_t>(made->bit_count, 8 * size));
  } else if (at == 0) {
    made->size = static_cast<record_u8>(load_size(size));
  } else {
    made->bit_offset = static_cast<record_u8>(8 * at);
    made->bit_count = static_cast<record_u8>(8 * size);
  }
  return made;
}

std::optional<reading> ReadingBuilder::address(const LocatedValue& value) const {
  if (value.address) return moved(*value.address, value.offset);
  std::uint64_t start = 0;
  for (const dwarf::Piece& piece : value.location->pieces) {
    const std::uint64_t size = piece.size != 0 ? piece.size : UINT64_MAX;
    if (value.offset >= start && value.offset - start < size) {
      if (piece.kind != dwarf::Piece::Kind::memory) return std::nullopt;
      auto made = follow(piece.formula, value.phase, word_size);
      if (made && value.guard) add_offset(*made, *value.guard);
      return made ? std::optional(moved(*made, value.offset - start)) : std::nullopt;
    }
    start += piece.size;
  }
  return std::nullopt;
}

std::optional<reading> ReadingBuilder::guard(const LocatedValue& part, reading_guard kind,
                                             std::int64_t number) const {
  const std::uint64_t size = part.type->size();
  auto made = this->number(part, size);
  if (!made) return std::nullopt;
  if (made->bit_count == 0) made->bit_count = static_cast<record_u8>(8 * size);
  const auto distance = static_cast<std::uint64_t>(number) << made->bit_offset;
  made->addend = add_wrapping(made->addend, -distance);
  made->guard = kind;
  return made;
}

std::optional<reading> ReadingBuilder::length(const LocatedValue& value) const {
  return number(
      {.type = value.type, .phase = value.phase, .location = value.location->length.get()},
      value.location->length_size);
}

std::optional<LocatedValue> ReadingBuilder::dereference(const LocatedValue& value,
                                                        const dwarf::Type& target) const {
  const auto pointer = number(value, word_size);
  if (!pointer) return std::nullopt;
  return LocatedValue{.type = &target, .phase = value.phase, .address = pointer};
}

Result<record_u8> ReadingBuilder::read_phase(const ArgumentSource& source) const {
  switch (source.kind) {
  case Kind::returned:
    if (phases_.exit) return PHASE_RETURN;
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
    if (phases_.entry) return PHASE_ENTRY;
    return fail(Error{ErrorKind::usage,
                      source_text(source) + " is only known at the entry, which is not probed"}
                    .hint("add --entry, or --latency for both in one event"));
  case Kind::machine_register:
    break;
  }
  return phases_.entry ? PHASE_ENTRY : PHASE_RETURN;
}

Result<reading> ReadingBuilder::stack_value(const ArgumentSource& source,
                                            std::int64_t above) const {
  if (!at_start_)
    return fail(Error{ErrorKind::unsupported,
                      source_text(source) +
                          " is on the stack, and the stack pointer has changed inside the function"}
                    .hint("probe the beginning of the function"));
  reading made{};
  made.base = static_cast<record_u8>(convention_.stack_pointer);
  add_load(made, above, word_size);
  return made;
}

const usdt::StaticArgument* ReadingBuilder::static_argument(const ArgumentSource& source) const {
  const bool is_noted = location_.probe != nullptr && source.kind == Kind::argument &&
                        source.number < location_.probe->arguments.size();
  return is_noted ? &location_.probe->arguments[source.number] : nullptr;
}

Result<reading> ReadingBuilder::whole_value(const ArgumentSource& source) const {
  const auto wrong = [&](ErrorKind kind, std::string_view what) {
    return fail(Error{kind, std::string(what)}.within(source_text(source)));
  };
  reading made{};
  made.size = word_size;
  if (source.kind == Kind::machine_register) {
    made.base = static_cast<record_u8>(*register_number(source.register_name)); // by the parser
    return made;
  }
  const bool is_argument = source.kind == Kind::argument;
  if (is_argument && location_.probe != nullptr) {
    const usdt::StaticArgument* const noted = static_argument(source);
    if (noted == nullptr) return fail(has_fewer(*location_.probe, source));
    const std::string problem = unreadable_reason(*noted);
    if (problem.empty()) return static_value(location_, *noted);
    return fail(ErrorKind::unsupported,
                fmt::format("{} ({}): {}", source_text(source), noted->raw, problem));
  }
  const JavaArgument* const java = find_java_argument(java_, source);
  if (is_java_ && is_argument && java == nullptr) {
    const std::size_t count = count_java_parameters(java_);
    return wrong(ErrorKind::usage,
                 fmt::format("the method has {} parameter{}", count, count == 1 ? "" : "s"));
  }
  if (java != nullptr && !java->spec.problem.empty())
    return wrong(ErrorKind::unsupported, java->spec.problem);
  const auto registers = convention_.argument_registers;
  const std::int64_t on_stack = std::int64_t{source.number} - std::ssize(registers);
  if (!is_argument) {
    made.base = static_cast<record_u8>(convention_.return_register);
  } else if (java != nullptr ? java->machine_register.has_value() : on_stack < 0) {
    made.base = static_cast<record_u8>(java != nullptr ? *java->machine_register
                                                       : registers[source.number]);
  } else if (java == nullptr && !convention_.has_stack_arguments) {
    return wrong(ErrorKind::unsupported, "Go passes it on the stack at no fixed offset");
  } else {
    auto read = stack_value(source, java != nullptr ? java->stack_offset
                                                    : convention_.stack_arguments_offset +
                                                          convention_.slot * on_stack);
    if (!read) return read;
    made = *read;
  }
  if (java == nullptr) return made;
  made.size = static_cast<record_u8>(java->size);
  made.is_signed = java->is_signed ? 1 : 0;
  return made;
}

Result<reading> ReadingBuilder::value(const ArgumentSource& source, ArgumentType type) const {
  const auto phase = read_phase(source);
  if (!phase) return fail(phase.error());
  auto made = whole_value(source);
  if (!made) return made;
  made->phase = *phase;
  const usdt::StaticArgument* const noted = static_argument(source);
  const bool is_pointer = !source.offsets.empty(); // the type is that of the memory
  if (is_pointer && made->steps > 0 && made->size < convention_.pointer_size)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: what its {} bytes in memory point to cannot be read",
                            source_text(source), made->size));
  if (noted != nullptr && is_block(*noted) && type == ArgumentType::bytes && !is_pointer) {
    // The bytes are those of the argument, not what it points to.
    made->addend = made->offsets[0];
    made->steps = 0;
    made->size = static_cast<record_u8>(convention_.pointer_size);
    made->is_signed = 0;
  }
  if (made->steps + source.offsets.size() > MAX_STEPS)
    return fail(ErrorKind::usage,
                source_text(source) + fmt::format(": more than {} pointers to follow", MAX_STEPS));
  for (const std::int64_t offset : source.offsets)
    if (!add_load(*made, offset, word_size))
      return fail(ErrorKind::unsupported,
                  source_text(source) + ": the offset does not fit in 32 bits");
  made->addend = add_wrapping(made->addend, source.addend);
  // The bytes after an argument belong to something else.
  const std::uint32_t size = size_of(type, convention_.pointer_size);
  if (is_pointer || size <= made->size) {
    made->size = static_cast<record_u8>(size);
    made->is_signed = is_signed(type) ? 1 : 0;
  }
  return made;
}

Result<reading> ReadingBuilder::value_at_return(const ArgumentSpec& spec,
                                                std::span<const ArgumentSpec> list,
                                                std::span<const std::size_t> numbers) const {
  const ArgumentSpec* const address = find_argument(list, *spec.address_from);
  if (address == nullptr || !phases_.paired)
    return fail(ErrorKind::usage, spec.name + ": its address is not known at the return");
  const std::uint32_t size = size_of(spec.type, convention_.pointer_size);
  reading made = based_on(numbers[static_cast<std::size_t>(address - list.data())], PHASE_RETURN);
  made.adds_thread_pointer = spec.adds_thread_pointer ? 1 : 0;
  made.size = static_cast<record_u8>(size);
  made.is_signed = is_signed(spec.type) ? 1 : 0;
  if (!is_memory(spec.type)) add_load(made, 0, size);
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
    read_text(*made, *form, most);
  } else {
    read_bytes(*made, spec.length.value_or(most));
  }
  if (!spec.length_from) return made;
  const ArgumentSpec* const length = find_argument(list, *spec.length_from); // the parser checks it
  set_length(*made, numbers[static_cast<std::size_t>(length - list.data())], spec.element_size);
  const auto known = read_phase(length->source);
  if (!known) return fail(known.error());
  const bool comes_later = *known > made->phase;
  if (comes_later || (*known != made->phase && !phases_.paired))
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
  const bool only_returns = phases_.exit && !phases_.entry;
  if (location_.probe != nullptr || is_inlined_ || (!at_start_ && !only_returns))
    return fail(ErrorKind::unsupported,
                "the return address is known only at the first instruction of a function and "
                "where it returns");
  if (by_uretprobe_ && phases_.entry && phases_.exit && !phases_.paired)
    return fail(Error{ErrorKind::unsupported, "with --return-at trampoline, entries and returns "
                                              "have the return address in different locations"}
                    .hint("add --latency, or probe with --return-at ret"));
  reading address{};
  address.size = static_cast<record_u8>(convention_.pointer_size);
  const std::uint8_t link = host_arch_info().unwind->link_register;
  if (by_uretprobe_ && only_returns) {
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
    const JavaArgument* const argument = find_java_argument(java_, source);
    return argument != nullptr ? std::optional(argument->spec.type) : std::nullopt;
  }
  const usdt::StaticArgument* const noted = static_argument(source);
  if (noted == nullptr) return std::nullopt;
  return is_block(*noted) ? ArgumentType::bytes : static_argument_type(*noted);
}

values::ValueType declared_type(ArgumentType type, std::uint32_t pointer_size) {
  values::ValueType made{.name = std::string(to_string(type))};
  if (type == ArgumentType::bytes) {
    made.use = values::ValueUse::bytes;
  } else if (is_memory(type)) {
    made.use = values::ValueUse::text;
  } else {
    made.bits = 8 * size_of(type, pointer_size);
    made.is_signed = is_signed(type);
    made.is_floating = is_floating(type);
    made.is_address = type == ArgumentType::ptr;
  }
  return made;
}

// Without a type, a text is a NUL-terminated string and bytes are at an address.
Result<ComparedValue> ReadingBuilder::compared(const ArgumentSpec& spec,
                                               std::optional<ArgumentType> type,
                                               values::ValueUse use,
                                               std::span<const ArgumentSpec> list) const {
  if (!type) {
    type = noted_type(spec.source);
    // Notes tell the size of an address, not what is there.
    if (type && location_.probe != nullptr && use != values::ValueUse::number &&
        !is_memory(*type) && !is_floating(*type))
      type.reset();
    if (type == ArgumentType::java_string && use == values::ValueUse::number)
      type = ArgumentType::x32;
  }
  constexpr std::array usual = {ArgumentType::s64, ArgumentType::string, ArgumentType::bytes};
  ArgumentType read_as = type.value_or(usual[static_cast<std::size_t>(use)]);
  if (use == values::ValueUse::bytes && read_as == ArgumentType::string)
    read_as = ArgumentType::bytes;
  ComparedValue made{.type = declared_type(read_as, convention_.pointer_size)};
  if (!type) made.type.name.clear();
  if (made.type.use != use) return made; // it is not read
  auto read = value(spec.source, read_as);
  if (!read) return fail(std::move(read).error());
  made.value = *read;
  if (use == values::ValueUse::number) {
    made.type.bits = std::min<unsigned>(8 * read->size, made.type.bits);
    made.type.is_signed = read->is_signed != 0;
    if (made.type.is_floating) made.value.is_signed = 1;
  } else if (use == values::ValueUse::text) {
    const auto form = string_form(spec.name, read_as);
    if (!form) return fail(form.error());
    read_text(made.value, *form);
  } else {
    read_bytes(made.value);
    if (type == ArgumentType::bytes && spec.length) made.type.size = *spec.length;
    const usdt::StaticArgument* const noted = static_argument(spec.source);
    if (type == ArgumentType::bytes && noted != nullptr && is_block(*noted))
      made.type.size = noted->size;
    if (spec.length_from) made.length_name = *spec.length_from;
  }
  // A comparison reads as many bytes as are shown: those that the length of a buffer says, and of a
  // string at most that many.
  if (use == values::ValueUse::number || !spec.length_from) return made;
  const ArgumentSpec* const units = find_argument(list, *spec.length_from);
  if (units == nullptr || spec.element_size != 1)
    return fail(ErrorKind::unsupported, "the length of the buffer cannot be compared");
  auto length = value(units->source, units->type);
  if (!length) return fail(std::move(length).error());
  made.length = *length;
  return made;
}

} // namespace uprobectl::events
