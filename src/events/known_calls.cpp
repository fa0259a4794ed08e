// SPDX-License-Identifier: Apache-2.0
#include "events/known_calls.hpp"

#include "events/events.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"

#include <algorithm>

namespace uprobectl::events {

namespace {

// Makes the address the value of an argument that is memory.
void make_pointer(ArgumentSpec& spec) {
  spec.type = ArgumentType::ptr;
  spec.length.reset();
  spec.length_from.reset();
  spec.element_size = 1;
  spec.shown_as = nullptr;
}

// Shares the bytes of a call between its strings and buffers.
void limit_bytes(std::span<ArgumentSpec> arguments, std::uint32_t max_string) {
  constexpr std::uint32_t min_bytes = 16;
  constexpr std::uint32_t overhead = 2; // of a string, see read_text()
  const auto is_open = [](const ArgumentSpec& spec) {
    return is_memory(spec.type) && !spec.length;
  };
  const auto open = static_cast<std::uint32_t>(std::ranges::count_if(arguments, is_open));
  std::uint32_t left = max_known_bytes;
  for (ArgumentSpec& spec : arguments) {
    if (!is_memory(spec.type) || !spec.length) continue;
    if (*spec.length + min_bytes * open <= left)
      left -= *spec.length;
    else
      make_pointer(spec);
  }
  for (ArgumentSpec& spec : arguments)
    if (is_open(spec)) spec.max_bytes = std::min(max_string, left / open - overhead);
}

// Adds the two readings that find errno: its offset from the thread pointer, and its value there.
void add_errno(std::vector<ArgumentSpec>& arguments, const ErrnoLocation& location) {
  ArgumentSpec offset{.name = std::string(errno_offset_name), .type = ArgumentType::s64};
  offset.source.kind = ArgumentSource::Kind::machine_register;
  offset.source.register_name = register_names()[instruction_pointer()];
  offset.source.offsets = {location.slot};
  offset.source.addend = location.thread_pointer_offset;
  ArgumentSpec value{.name = std::string(errno_value_name), .type = ArgumentType::s32};
  value.address_from = offset.name;
  value.adds_thread_pointer = true;
  arguments.push_back(std::move(offset));
  arguments.push_back(std::move(value));
}

} // namespace

KnownCall make_known_call(const Prototype& prototype, std::string function,
                          const CaptureSpec& capture, const CapturePhases& phases,
                          bool scalars_only, const std::optional<ErrnoLocation>& errno_location) {
  KnownCall made{.function = std::move(function), .arguments = {}, .conditions = {}};
  made.returns_nothing = !prototype.result;
  made.result = prototype.result;
  made.failure = prototype.failure;
  made.sets_errno = prototype.sets_errno;
  std::vector<ArgumentSpec> addresses;
  for (const Prototype::Parameter& parameter : prototype.parameters) {
    if (!phases.entry) break;
    if (!parameter.only_if.empty())
      made.conditions.push_back({.argument = made.arguments.size(),
                                 .name = parameter.only_if,
                                 .bits = parameter.only_if_bits});
    ArgumentSpec& spec = made.arguments.emplace_back(parameter.spec);
    const bool is_buffer = spec.type == ArgumentType::bytes;
    if ((parameter.is_output && !phases.paired) || (is_buffer && scalars_only)) make_pointer(spec);
    if (!parameter.is_output || !is_memory(spec.type)) continue;
    ArgumentSpec& address = addresses.emplace_back(parameter.spec);
    make_pointer(address);
    address.name.insert(0, "&");
    spec.address_from = address.name;
  }
  if (prototype.result && phases.exit) made.arguments.push_back(*prototype.result);
  limit_bytes(made.arguments, capture.max_string_bytes);
  made.shown = made.arguments.size();
  std::ranges::move(addresses, std::back_inserter(made.arguments));
  if (prototype.sets_errno && errno_location && phases.paired)
    add_errno(made.arguments, *errno_location);
  return made;
}

} // namespace uprobectl::events
