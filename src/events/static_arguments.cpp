#include "events/static_arguments.hpp"

#include "events/words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string name_of(std::size_t number) { return "arg" + std::to_string(number); }

Error has_fewer(const StaticProbe& probe, std::size_t number) {
  const std::size_t count = probe.arguments.size();
  return {ErrorKind::usage, fmt::format("it has {} here, and no {}",
                                        count == 0   ? "no arguments"
                                        : count == 1 ? "one argument"
                                                     : fmt::format("{} arguments", count),
                                        name_of(number))};
}

Result<std::uint32_t> register_named(const std::string& name) {
  if (name.empty()) return std::uint32_t{NO_REGISTER};
  const auto number = register_number(name);
  if (!number) return fail(ErrorKind::unsupported, "register " + name + " cannot be read");
  return *number;
}

} // namespace

std::optional<ArgumentType> type_of(const StaticArgument& argument) {
  if (!argument.size) // then it says no sign either
    return argument.width == 1   ? ArgumentType::x8
           : argument.width == 2 ? ArgumentType::x16
           : argument.width == 4 ? ArgumentType::x32
                                 : ArgumentType::x64;
  if (argument.is_float) {
    if (argument.size == 4) return ArgumentType::f32;
    if (argument.size == 8) return ArgumentType::f64;
    return std::nullopt;
  }
  switch (*argument.size) {
  case 1:
    return argument.is_signed ? ArgumentType::s8 : ArgumentType::u8;
  case 2:
    return argument.is_signed ? ArgumentType::s16 : ArgumentType::u16;
  case 4:
    return argument.is_signed ? ArgumentType::s32 : ArgumentType::u32;
  case 8:
    return argument.is_signed ? ArgumentType::s64 : ArgumentType::u64;
  default:
    return std::nullopt;
  }
}

std::string unreadable(const StaticArgument& argument) {
  if (argument.kind == StaticArgument::Kind::out_of_reach ||
      argument.kind == StaticArgument::Kind::unparsed)
    return argument.problem;
  if (!type_of(argument)) return fmt::format("a value of {} bytes", *argument.size);
  if (argument.is_float && argument.kind != StaticArgument::Kind::in_memory)
    return "a floating-point number that is not in memory";
  return {};
}

Result<std::vector<ArgumentSpec>> arguments_of(const StaticProbe& probe, const ArgumentList* list) {
  const bool retypes =
      list != nullptr &&
      std::ranges::any_of(list->arguments, [](const auto& spec) { return spec.by_number; });
  std::vector<ArgumentSpec> specs;
  if (list == nullptr || retypes)
    for (std::uint32_t i = 0; i < probe.arguments.size(); ++i) {
      ArgumentSpec spec;
      spec.name = name_of(i);
      spec.type = type_of(probe.arguments[i]).value_or(ArgumentType::x64);
      spec.source.number = i;
      specs.push_back(std::move(spec));
    }
  if (list == nullptr) return specs;
  for (const ArgumentSpec& spec : list->arguments) {
    if (spec.source.kind == ArgumentSource::Kind::argument &&
        spec.source.number >= probe.arguments.size()) {
      if (spec.by_number && !list->function) continue; // what is said of all others may have
      return fail(has_fewer(probe, spec.source.number));
    }
    if (spec.by_number && probe.arguments[spec.source.number].is_float) continue; // it has a type
    if (spec.by_number)
      specs[spec.source.number] = spec;
    else
      specs.push_back(spec);
  }
  if (specs.size() > most_arguments)
    return fail(ErrorKind::usage, fmt::format("more than {} arguments", most_arguments));
  return specs;
}

Result<reading> static_reading(const StaticPlace& place, const StaticArgument& argument,
                               std::uint32_t size, bool is_signed) {
  reading made{};
  made.moment = MOMENT_ENTRY;
  // No more than there is: what lies behind it is something else.
  made.size = std::min(size, argument.size.value_or(argument.width));
  made.is_signed = made.size < size ? argument.is_signed : is_signed;
  const auto base = register_named(argument.base);
  const auto index = register_named(argument.index);
  if (!base) return fail(base.error());
  if (!index) return fail(index.error());
  made.base = *base;
  made.shift = argument.shift;
  const bool in_memory = argument.kind == StaticArgument::Kind::in_memory;
  std::int64_t distance = in_memory ? argument.displacement : 0;
  if (argument.kind == StaticArgument::Kind::constant)
    distance = static_cast<std::int64_t>(argument.constant);
  if (argument.address) { // as far from the probe as in the file, wherever that is loaded
    made.base = instruction_pointer();
    distance = static_cast<std::int64_t>(argument.address->value - place.address.value);
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
  made.steps = 1;
  made.offsets[0] = distance;
  return made;
}

std::vector<std::optional<reading>> readings_of(const StaticPlace& place) {
  std::vector<std::optional<reading>> readings;
  for (const StaticArgument& argument : place.probe->arguments) {
    std::optional<reading>& made = readings.emplace_back();
    if (!unreadable(argument).empty()) continue;
    if (auto read = static_reading(place, argument, argument.size.value_or(argument.width),
                                   argument.is_signed))
      made = *read;
  }
  return readings;
}

std::string reading_key(const StaticPlace& place) {
  if (place.probe == nullptr) return {};
  std::string key = "usdt " + place.probe->raw_arguments;
  // The same text may name other symbols in another file.
  for (const StaticArgument& argument : place.probe->arguments) {
    key += fmt::format(" {}:{}:{}", static_cast<int>(argument.kind), argument.constant,
                       argument.displacement);
    if (argument.address) key += fmt::format("@{}", argument.address->value - place.address.value);
  }
  return key;
}

} // namespace uprobectl
