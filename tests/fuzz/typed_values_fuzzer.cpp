// SPDX-License-Identifier: Apache-2.0
// A line with an --args list or a condition, an ELF file with debug information, and what a hit
// read: made of a checksum of the input, so that each byte of the file can be changed alone.
// Readings must keep the limits, and every result must be decoded.
#include "dwarf/context.hpp"
#include "events/value_places.hpp"

#include <cstdlib>
#include <limits>

using namespace uprobectl;

namespace {

class Answers {
public:
  explicit Answers(Bytes input) {
    for (const std::byte each : input)
      state_ = (state_ ^ static_cast<std::uint64_t>(each)) * 0x100000001b3;
  }

  std::vector<ReadResult> make(std::span<const reading> readings) {
    contents_.clear();
    contents_.reserve(readings.size());
    std::vector<ReadResult> made;
    for (const reading& each : readings) {
      std::string& content = contents_.emplace_back(next() % (each.capacity + 1), '\0');
      for (char& byte : content) byte = static_cast<char>(next());
      constexpr std::uint64_t values[] = {0, 1, 3, std::numeric_limits<std::uint64_t>::max()};
      const std::uint64_t which = next() % 8;
      made.push_back({.was_read = next() % 8 != 0,
                      .status = next() % 8 == 0 ? -14 : static_cast<std::int64_t>(content.size()),
                      .value = which < 4 ? values[which] : next(),
                      .bytes = std::as_bytes(std::span(content)),
                      .is_truncated = next() % 4 == 0});
    }
    return made;
  }

private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }

  std::uint64_t state_ = 0xcbf29ce484222325;
  std::vector<std::string> contents_;
};

void check_values(const ValuePlan& values, const TypedLimits& limits, Answers& answers) {
  const auto& readings = values.readings();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    for (const std::size_t source :
         {readings[i].base_from, readings[i].offset_from, readings[i].length_from})
      if (source > i) std::abort();
    if (readings[i].steps > MAX_STEPS || readings[i].size > 8) std::abort();
    bytes += readings[i].capacity;
  }
  if (readings.size() > limits.max_readings || bytes > limits.max_bytes) std::abort();
  if (!check_readings(readings, {.entry = true, .exit = true, .paired = true})) std::abort();
  for (int round = 0; round < 2; ++round) {
    Event call{.kind = EventKind::on_return, .has_arguments = true};
    values.decode(call, answers.make(readings), 0);
    if (!call.typed_arguments) std::abort();
  }
}

void check_captures(const dwarf::FunctionInfo& function, VirtualAddress address,
                    std::string_view line, const dwarf::GoTypes* go_types, Answers& answers) {
  const CaptureSpec pairs{.pair_calls = true};
  ProbePoint point;
  point.address = address;
  const auto readings = ReadingBuilder::make(pairs, {.point = &point});
  if (!readings) std::abort();
  TypedPlace place{.function = &function};
  place.find_go_types = [go_types] { return go_types; };
  place.at_entry = function.entry == address;
  place.phases = {.entry = true, .exit = true, .paired = true};
  TypedLimits limits;
  check_values(ValuePlan::make(*readings, place, limits), limits, answers);
  limits.depth = max_typed_depth;
  limits.max_bytes = 100;
  check_values(ValuePlan::make(*readings, place, limits), limits, answers);
  limits.scalars_only = true;
  check_values(ValuePlan::make(*readings, place, limits), limits, answers);
  if (const auto list = parse_arguments(line); list && !list->paths.empty()) {
    std::vector<std::optional<Error>> problems;
    const TypedLimits usual;
    check_values(ValuePlan::make(*readings, place, usual, list->paths, problems), usual, answers);
    if (problems.size() != list->paths.size()) std::abort();
  }
  if (const auto filter = parse_filter(line))
    for (const ConditionSpec& each : filter->terms)
      if (each.path)
        if (auto value = find_compared(*readings, place, *each.path, use_of(each), true))
          if (const auto term = compile_condition(each, std::move(*value)))
            static_cast<void>(check_condition(*term, place.phases).has_value());
}

} // namespace

int fuzz_typed_values(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto end = input.find('\n');
  if (end == std::string_view::npos) return 0;
  const auto info = dwarf::DebugInfo::parse(std::as_bytes(std::span(input.substr(end + 1))));
  if (!info) return 0;
  Answers answers(std::as_bytes(std::span(input)));
  const auto image = elf::Image::parse(std::as_bytes(std::span(input.substr(end + 1))));
  std::optional<dwarf::GoTypes> go_types;
  if (image) go_types.emplace(*image, *info);
  std::size_t described = 0;
  std::size_t units = 0;
  for (const auto& unit : info->context().dwarf().compile_units()) {
    if (++units > 4) break;
    llvm::DWARFUnit* const entries = info->context().with_entries(unit.get());
    for (unsigned i = 0; entries != nullptr && i < entries->getNumDIEs() && described < 8; ++i) {
      const dwarf::Die die = entries->getDIEAtIndex(i);
      if (die.getTag() != llvm::dwarf::DW_TAG_subprogram) continue;
      const auto low = llvm::dwarf::toAddress(die.find(llvm::dwarf::DW_AT_low_pc));
      if (!low) continue;
      for (const std::uint64_t offset : {0, 8}) {
        const VirtualAddress address{*low + offset};
        const auto function = dwarf::describe_function(*info, {.address = address});
        if (!function) continue;
        ++described;
        check_captures(*function, address, input.substr(0, end), go_types ? &*go_types : nullptr,
                       answers);
      }
    }
  }
  return 0;
}
