// SPDX-License-Identifier: Apache-2.0
#include "output/log2_slots.hpp"

#include "output/format.hpp"
#include "output/values.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

constexpr std::size_t max_slots = 64; // of 64-bit values

bool names_slots(std::string_view name) { return name == "slots" || name == "hist"; }

std::optional<Slots> to_slots(std::string_view name, const values::Value& value) {
  const auto* const elements = std::get_if<values::Value::Array>(&value.value);
  if (!names_slots(name) || elements == nullptr || elements->empty() ||
      elements->size() > max_slots)
    return std::nullopt;
  Slots slots{.name = std::string(name), .counts = {}};
  for (const values::Value& each : *elements) {
    const auto count = number_of(each);
    if (!count || *count < 0) return std::nullopt;
    slots.counts.push_back(static_cast<std::uint64_t>(*count));
  }
  return slots;
}

} // namespace

std::string append_without_slots(std::string& text, const values::Value& value,
                                 std::string_view name) {
  if (const auto slots = to_slots(name, value)) return draw_slots(*slots);
  const auto* const members = std::get_if<values::Value::Struct>(&value.value);
  if (members == nullptr ||
      std::ranges::none_of(*members, names_slots, &values::ValueMember::name)) {
    append_text_value(text, value);
    return {};
  }
  values::Value::Struct others;
  std::string drawn;
  for (const values::ValueMember& member : *members)
    if (const auto slots = to_slots(member.name, member.value))
      drawn += draw_slots(*slots);
    else
      others.push_back(member);
  append_text_value(text, {std::move(others)});
  return drawn;
}

// Draws the slots as print_log2_hist() of bcc does (libbpf-tools/trace_helpers.c).
std::string draw_slots(const Slots& slots) {
  const auto is_used = [](std::uint64_t count) { return count != 0; };
  const auto last = std::ranges::find_if(slots.counts.rbegin(), slots.counts.rend(), is_used);
  const auto used = static_cast<std::size_t>(slots.counts.rend() - last);
  if (used == 0) return {};
  const std::uint64_t most = std::ranges::max(slots.counts);
  const bool is_narrow = used <= 33; // bounds have ten digits
  const std::size_t width = is_narrow ? 10 : 20;
  const std::size_t stars = is_narrow ? 40 : 20;
  std::string name;
  append_printable(name, slots.name);
  std::string text = fmt::format("{:{}}{:<{}} : count    distribution\n", "", is_narrow ? 5 : 15,
                                 name, is_narrow ? 19 : 29);
  for (std::size_t i = 0; i < used; ++i) {
    const std::uint64_t low = i == 0 ? 0 : std::uint64_t{1} << i;
    const std::uint64_t high = (low << 1U) - (i == 0 ? UINT64_MAX : 1); // 1, 3, 7, …
    const auto drawn =
        static_cast<std::size_t>(static_cast<long double>(slots.counts[i]) *
                                 static_cast<long double>(stars) / static_cast<long double>(most));
    text += fmt::format("{:>{}} -> {:<{}} : {:<8} |{:<{}}|\n", low, width, high, width,
                        slots.counts[i], std::string(drawn, '*'), stars);
  }
  return text;
}

} // namespace uprobectl::output
