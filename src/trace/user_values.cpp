// SPDX-License-Identifier: Apache-2.0
#include "trace/user_values.hpp"

#include "values/btf_types.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Kernel addresses of all supported machines; their names are not known.
bool is_kernel_address(std::uint64_t address) { return address >> 63U != 0; }

// Returns the process that a structure names; 0 if there is none.
pid_t process_of(const values::Value& value) {
  const auto* const members = std::get_if<values::Value::Struct>(&value.value);
  if (members == nullptr) return 0;
  for (const std::string_view name : {"tgid", "pid"}) {
    const auto member = std::ranges::find(*members, name, &values::ValueMember::name);
    const auto number = member == members->end() ? std::nullopt : number_of(member->value);
    if (number && *number > 0 && *number <= std::numeric_limits<pid_t>::max())
      return static_cast<pid_t>(*number);
  }
  return 0;
}

} // namespace

UserValues::UserValues(std::span<const values::ShownAsRule> rules,
                       std::span<const bpf::UserMap> maps, output::Output& output)
    : rules_(rules), output_(output), is_used_(rules.size()), clock_([] {
        const output::ClockReading now = output::ClockReading::now();
        return output::WallClock(now.monotonic_ns, now.realtime_ns);
      }()) {
  for (const bpf::UserMap& map : maps) {
    if (map.use == bpf::MapUse::stack_table) tables_.push_back(map);
  }
  context_.time = [this](std::uint64_t time_ns) {
    std::string text;
    clock_.append_time(text, time_ns);
    return text;
  };
  context_.report_no_ip = [this](std::string_view path) {
    output_.warn_once(
        fmt::format("{} is not shown as an IP address: it does not have 4 or 16 bytes",
                    path.empty() ? "a value" : fmt::format("'{}'", path)));
  };
  context_.address = [this](std::uint64_t address) { return show_address(address); };
  context_.frames = [this](std::span<const std::uint64_t> addresses) {
    return show_stack(addresses);
  };
  if (!tables_.empty()) context_.stack = [this](std::int64_t id) { return show_stack_id(id); };
}

bool UserValues::needs_symbols(const values::BtfTypes* types) const {
  const auto is_code = [](const values::ShownAsRule& rule) {
    return rule.as == values::ShownAs::address || rule.as == values::ShownAs::stack;
  };
  return !tables_.empty() || std::ranges::any_of(rules_, is_code) ||
         (types != nullptr && types->has_tag({values::ShownAs::address, values::ShownAs::stack}));
}

void UserValues::start(HitStacks& stacks, const HitProcesses& processes) {
  stacks_ = &stacks;
  const std::vector<pid_t> running = processes.running();
  if (!processes.include_others && running.size() == 1) only_process_ = running.front();
}

values::Value UserValues::show_address(std::uint64_t address) {
  const pid_t process = process_ != 0 ? process_ : only_process_;
  if (stacks_ == nullptr || process == 0 || address == 0 || is_kernel_address(address))
    return {values::Value::Pointer{address}};
  const std::uint64_t addresses[] = {address};
  const unwind::Stack stack = stacks_->symbolize(process, time_ns_, addresses);
  if (stack.frames.empty()) return {values::Value::Pointer{address}};
  return {values::Value::Name{output::display_frame(stack.frames.front()),
                              static_cast<std::int64_t>(address)}};
}

values::Value UserValues::show_stack(std::span<const std::uint64_t> addresses) {
  const pid_t process = process_ != 0 ? process_ : only_process_;
  values::Value::Frames frames;
  const auto add_numbers = [&](std::span<const std::uint64_t> numbers) {
    for (const std::uint64_t address : numbers)
      frames.names.push_back(fmt::format("{:#x}", address));
  };
  const auto user = std::ranges::find_if_not(addresses, is_kernel_address);
  add_numbers({addresses.begin(), user});
  const std::span rest(user, addresses.end());
  if (stacks_ == nullptr || process == 0) {
    add_numbers(rest);
  } else if (!rest.empty()) {
    const unwind::Stack stack = stacks_->symbolize(process, time_ns_, rest);
    for (const unwind::Frame& frame : stack.frames)
      frames.names.push_back(output::display_frame(frame));
  }
  return {std::move(frames)};
}

// An id is that of one of the programs' stack tables; the programs do not say which. A negative one
// is the error of bpf_get_stackid(): it stays.
values::Value UserValues::show_stack_id(std::int64_t id) {
  if (id < 0) return {id};
  std::optional<values::Value> found;
  for (const bpf::UserMap& table : tables_) {
    const auto addresses = read_stack(table, static_cast<std::uint32_t>(id));
    if (!addresses) continue;
    if (found) return {id};
    found = show_stack(*addresses);
  }
  return found ? std::move(*found) : values::Value{id};
}

bool UserValues::show(values::Value& value, values::ShownAsScope scope, const ValueSource& source,
                      pid_t process, std::uint64_t time_ns) {
  process_ = process;
  time_ns_ = time_ns;
  has_shown_ = true;
  scope.type = source.type;
  return show_as(value, scope, rules_, source.tags, context_, &is_used_);
}

bool UserValues::show_record(events::UserRecord& record, std::span<const values::ShownAsRule> tags,
                             pid_t sender, std::uint64_t time_ns) {
  return show(*record.value, {.map = record.map}, {.tags = tags, .type = record.value_type.get()},
              sender != 0 ? sender : process_of(*record.value), time_ns);
}

void UserValues::show_entry(output::MapEntryRecord& entry, const ValueSource& key,
                            const ValueSource& value) {
  pid_t process = process_of(entry.key);
  if (process == 0) process = process_of(entry.value);
  show(entry.key, {.map = entry.map, .part = "key"}, key, process, 0);
  show(entry.value, {.map = entry.map, .part = "value"}, value, process, 0);
}

void UserValues::report_unused() const {
  if (!has_shown_) return;
  for (std::size_t i = 0; i < rules_.size(); ++i)
    if (!is_used_[i])
      output_.warn(fmt::format("--as {}: no value has this member", rules_[i].path));
}

} // namespace uprobectl::trace
