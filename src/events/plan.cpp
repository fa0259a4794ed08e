// SPDX-License-Identifier: Apache-2.0
#include "events/plan.hpp"

#include "bpf/builtin.hpp"
#include "events/java_method.hpp"
#include "events/readings.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace uprobectl {

namespace {

// The size of a perf sample has 16 bits (perf_event_open(2)).
constexpr std::size_t max_record_bytes = 60'000;

// Returns arg0 to arg5, for code with another calling convention than the program assumes.
std::vector<ArgumentSpec> six_integer_arguments() {
  std::vector<ArgumentSpec> six;
  six.reserve(RECORD_VALUES);
  for (std::uint32_t i = 0; i < RECORD_VALUES; ++i)
    six.push_back({.name = "arg" + std::to_string(i),
                   .type = ArgumentType::x64,
                   .source = {.number = i},
                   .length = {},
                   .length_from = {}});
  return six;
}

// Returns why an argument of a static probe cannot be read; empty if it can.
std::string argument_problem(const ArgumentSpec& spec, const StaticProbe* probe) {
  if (probe == nullptr || spec.source.kind != ArgumentSource::Kind::argument) return {};
  const StaticArgument& argument = probe->arguments[spec.source.number];
  const std::string problem = unreadable_reason(argument);
  return problem.empty() ? problem : argument.raw + ": " + problem;
}

// Returns why the argument with the length of a buffer cannot be read; empty if it can.
std::string length_problem(const ArgumentSpec& spec, std::span<const PlannedArgument> list) {
  if (!spec.length_from) return {};
  const auto length = std::ranges::find_if(
      list, [&](const PlannedArgument& each) { return each.spec.name == *spec.length_from; });
  if (length == list.end())
    return "its length " + *spec.length_from + " is not an argument of this probe";
  if (!length->problem.empty() || is_floating(length->spec.type))
    return "its length " + *spec.length_from + " cannot be read";
  return {};
}

// Assigns readings in order, integers first, because the lengths of buffers are among them.
std::vector<PlannedArgument> assign_readings(std::vector<PlannedArgument> planned) {
  for (PlannedArgument& each : planned)
    if (each.problem.empty()) each.problem = length_problem(each.spec, planned);
  std::size_t next = 0;
  for (const bool memory : {false, true})
    for (PlannedArgument& each : planned)
      if (each.problem.empty() && is_memory(each.spec.type) == memory) each.reading = next++;
  return planned;
}

std::vector<PlannedArgument> plan_arguments(std::span<const ArgumentSpec> specs,
                                            const StaticProbe* probe) {
  std::vector<PlannedArgument> planned;
  for (const ArgumentSpec& spec : specs)
    planned.push_back({.spec = spec, .reading = 0, .problem = argument_problem(spec, probe)});
  return assign_readings(std::move(planned));
}

// Plans the arguments and the return value of a Java method, as many as a record can hold.
std::vector<PlannedArgument> plan_java_arguments(const JavaMethod& method, CodeKind kind,
                                                 bool arguments, bool on_return) {
  std::vector<JavaArgument> known;
  if (arguments) known = java_arguments(method, kind);
  const auto returned = on_return ? java_return(method, kind) : std::nullopt;
  const std::size_t room = MAX_READINGS - (returned && returned->problem.empty() ? 1 : 0);
  if (returned) known.push_back(*returned);
  std::vector<PlannedArgument> planned;
  std::size_t read = 0;
  for (JavaArgument& each : known) {
    const bool is_return = each.spec.source.kind == ArgumentSource::Kind::returned;
    if (each.problem.empty() && !is_return && ++read > room)
      each.problem = "a record can hold " + std::to_string(MAX_READINGS) + " values";
    planned.push_back({.spec = std::move(each.spec), .problem = std::move(each.problem)});
  }
  return assign_readings(std::move(planned));
}

// In a list for a Java method `this` is not a parameter, so it does not count as a position.
std::vector<ArgumentSpec> with_this(std::vector<ArgumentSpec> specs) {
  std::uint32_t before = 0;
  for (ArgumentSpec& spec : specs) {
    if (!spec.by_position) continue;
    if (spec.name == "this") {
      spec.source.number = this_argument;
      ++before;
    } else {
      spec.source.number -= before;
    }
  }
  return specs;
}

bool applies_to(const ArgumentList& list, const ProbePoint& point) {
  if (list.function && point.static_probe && without_dashes(*list.function) == point.symbol)
    return true;
  return !list.function || *list.function == point.request || *list.function == point.symbol ||
         *list.function == point.demangled || *list.function == display_name(point);
}

// Makes the record formats and program settings of the points.
class Planner {
public:
  Planner(const CaptureSpec& capture, std::span<const CapturePoint> points)
      : capture_(capture), points_(points) {}

  Result<void> check() const {
    std::size_t general = 0;
    for (const ArgumentList& list : capture_.arguments) {
      if (!list.function && ++general > 1)
        return fail(ErrorKind::usage, "--args without a function given twice");
      if (!list.function)
        if (auto checked = check_numbers(list); !checked) return checked;
      if (std::ranges::none_of(points_,
                               [&](const auto& each) { return applies_to(list, *each.point); }))
        return fail(Error{ErrorKind::usage, "--args: " + in_single_quotes(*list.function) +
                                                " is not a probed function"}
                        .hint("write it as FUNCTION or as it is shown in events"));
    }
    if (capture_.conditions.size() > MAX_CONDITIONS)
      return fail(ErrorKind::usage, "more than " + std::to_string(MAX_CONDITIONS) + " conditions");
    return {};
  }

  // Static probes may have different numbers of arguments. At least one must have each number.
  Result<void> check_numbers(const ArgumentList& list) const {
    std::size_t most = 0;
    for (const CapturePoint& each : points_) {
      if (!each.point->static_probe) return {};
      most = std::max(most, each.point->static_probe->arguments.size());
    }
    for (const ArgumentSpec& spec : list.arguments)
      if (spec.by_number && spec.source.number >= most)
        return fail(ErrorKind::usage, "--args: no static probe has an " + spec.name);
    return {};
  }

  // Returns the index of the list for the point, the number of lists if there is none. A list for
  // the function has precedence over that for all.
  std::size_t find_list(const ProbePoint& point) const {
    std::size_t chosen = capture_.arguments.size();
    for (std::size_t i = 0; i < capture_.arguments.size(); ++i)
      if (applies_to(capture_.arguments[i], point) &&
          (chosen == capture_.arguments.size() || capture_.arguments[i].function))
        chosen = i;
    return chosen;
  }

  Result<RecordFormat> make_format(std::size_t list, const CodeAbi& abi, const ProbePoint& point,
                                   bool at_start) const {
    const StaticProbe* const probe = point.static_probe.get();
    const ArgumentList* const asked =
        list < capture_.arguments.size() ? &capture_.arguments[list] : nullptr;
    if (probe != nullptr) {
      auto specs = static_probe_arguments(*probe, asked);
      if (!specs) return fail(std::move(specs).error());
      return RecordFormat{.arguments = plan_arguments(*specs, probe)};
    }
    if (asked != nullptr) {
      if (point.java)
        return RecordFormat{.arguments = plan_arguments(with_this(asked->arguments), nullptr)};
      return RecordFormat{.arguments = plan_arguments(asked->arguments, nullptr)};
    }
    // The registers of an inlined call do not hold arguments.
    if (point.inlined_into) return RecordFormat{};
    const bool at_entry = capture_.on_entry || capture_.pair_calls;
    if (point.java && at_start)
      return RecordFormat{.arguments =
                              plan_java_arguments(*point.java, abi.kind, at_entry,
                                                  capture_.on_return || capture_.pair_calls)};
    const bool elsewhere = abi.kind != CodeKind::native;
    if (elsewhere && at_entry)
      return RecordFormat{.arguments = plan_arguments(six_integer_arguments(), nullptr)};
    return RecordFormat{.arguments = {}, .six_registers = true};
  }

  // Whether the return address is where a call puts it, so that the caller can be found. Labels and
  // numeric offsets may be inside a function, but not if its return is probed.
  bool is_entry(const ProbePoint& point) const {
    if (point.static_probe || point.symbol_offset != 0) return false;
    if (capture_.on_return || capture_.pair_calls) return true;
    if (!point.symbol || is_cold_part(*point.symbol)) return false;
    return point.size.value_or(0) > 0 || point.kind == SymbolKind::plt || point.java;
  }

  // Whether calls are paired by goroutine. Assembly functions with Go's ABI0 do not have it in a
  // register.
  bool is_by_goroutine(const ProbePoint& point, const CodeAbi& abi) const {
    return capture_.pair_calls && abi.kind == CodeKind::go &&
           !point.symbol.value_or("").ends_with(".abi0");
  }

  Result<builtin_settings> make_settings(const RecordFormat& format, const CodeAbi& abi,
                                         bool at_start, bool is_entry, bool by_goroutine,
                                         const StaticProbeLocation& location,
                                         const JavaMethod* method) const {
    const auto convention = calling_convention(abi.kind);
    if (!convention)
      return fail(ErrorKind::unsupported, "the kernel of this machine cannot probe 32-bit code");
    const ReadingBuilder builder(capture_, *convention, abi, at_start, location, method);
    builtin_settings settings{};
    settings.flags = flags();
    add_stack(abi, settings);
    const bool asks_for_stacks = capture_.count_stacks || capture_.stack != StackWalk::none;
    if (asks_for_stacks && is_entry) settings.flags |= AT_FUNCTION_START;
    if (by_goroutine) settings.flags |= BY_GOROUTINE;
    if (capture_.by_trampoline) settings.nesting = capture_.nesting;
    settings.user = capture_.user;
    settings.min_latency_ns = static_cast<std::uint64_t>(capture_.min_latency.count());
    settings.pointer_size = convention->pointer_size;
    if (auto added = add_readings(builder, format, settings); !added)
      return fail(std::move(added).error());
    for (const ConditionSpec& spec : capture_.conditions) {
      auto condition = builder.build_condition(spec, format.arguments);
      if (!condition) return fail(std::move(condition).error());
      settings.conditions[settings.condition_count++] = *condition;
    }
    if (capture_.measured) {
      auto measured = builder.build_measured(*capture_.measured, format.arguments);
      if (!measured) return fail(std::move(measured).error());
      settings.measured = *measured;
    }
    return settings;
  }

private:
  unsigned flags() const {
    unsigned flags = capture_.filters;
    // Unwound stacks are counted in user space.
    if (capture_.send_events || capture_.stack != StackWalk::none) flags |= SEND_RECORDS;
    if (capture_.pair_calls) flags |= PAIR_CALLS;
    if (capture_.by_trampoline) flags |= BY_TRAMPOLINE;
    if (capture_.count_by_process) flags |= COUNT_BY_PROCESS;
    if (capture_.count_stacks) flags |= COUNT_STACKS;
    if (capture_.measure_latency) flags |= MEASURE_LATENCY;
    if (capture_.measured) flags |= MEASURE_VALUE;
    return flags;
  }

  // 32-bit code has other registers, and the unwinder does not support it.
  void add_stack(const CodeAbi& abi, builtin_settings& settings) const {
    if (capture_.stack == StackWalk::frame_pointers) {
      settings.flags |= WALK_STACK;
      settings.stack_size = MAX_FRAMES * sizeof(std::uint64_t);
    } else if (capture_.stack == StackWalk::frame_data && abi.kind != CodeKind::native_32) {
      settings.flags |= COPY_STACK;
      settings.stack_size = capture_.stack_bytes;
      settings.returns = capture_.return_instances;
    }
  }

  // Adds the readings of the arguments and lays out the record.
  Result<void> add_readings(const ReadingBuilder& builder, const RecordFormat& format,
                            builtin_settings& settings) const {
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(format.arguments, &std::string::empty, &PlannedArgument::problem));
    std::size_t end = sizeof(probe_record) + (count == 0 ? RECORD_VALUES * sizeof(std::uint64_t)
                                                         : count * sizeof(reading_result));
    if (capture_.registers || (settings.flags & COPY_STACK) != 0) {
      settings.registers_offset = static_cast<std::uint32_t>(end);
      end += register_names().size() * sizeof(std::uint64_t);
    }
    for (const PlannedArgument& planned : format.arguments) {
      if (!planned.problem.empty()) continue;
      auto made = builder.build_argument(planned.spec, format.arguments);
      if (!made) return fail(std::move(made).error());
      made->bytes_offset = static_cast<std::uint32_t>(end);
      end += (std::size_t{made->capacity} + 7) / 8 * 8;
      settings.readings[planned.reading] = *made;
    }
    if (end > max_record_bytes)
      return fail(Error{ErrorKind::usage, "the arguments take up to " + std::to_string(end) +
                                              " bytes per event, the maximum is " +
                                              std::to_string(max_record_bytes)}
                      .hint("use smaller buffers or a smaller --max-string"));
    settings.reading_count = static_cast<std::uint32_t>(count);
    settings.record_size = static_cast<std::uint32_t>(end);
    return {};
  }

  const CaptureSpec& capture_;
  std::span<const CapturePoint> points_;
};

// Gives all variants the same record size, because they share maps. Stacks are at the end of
// records.
void unify_sizes(std::vector<builtin_settings>& variants) {
  std::uint32_t largest = 0;
  std::uint32_t stack = 0;
  std::uint32_t returns = 0;
  unsigned flags = 0;
  for (const builtin_settings& each : variants) {
    largest = std::max(largest, each.record_size);
    stack = std::max(stack, each.stack_size);
    flags |= each.flags;
    if (each.returns.utask != 0) returns = sizeof(replaced_returns);
  }
  const bool has_stack = (flags & (COPY_STACK | WALK_STACK)) != 0;
  const auto head = static_cast<std::uint32_t>(has_stack ? sizeof(stack_head) : 0);
  for (builtin_settings& each : variants) {
    each.record_size = largest + returns + head + stack;
    // Stack bytes are copied directly to the buffer.
    each.kept_size = (flags & COPY_STACK) != 0 ? largest + returns + head : each.record_size;
    if (each.returns.utask != 0) each.returns_offset = largest;
    if ((each.flags & (COPY_STACK | WALK_STACK)) != 0) each.stack_offset = largest + returns;
  }
}

Error record_too_short(std::size_t size, std::size_t needed) {
  return {ErrorKind::corrupt, "a record of the BPF program has " + std::to_string(size) +
                                  " bytes, expected at least " + std::to_string(needed)};
}

// Reads without a bounds check: decode() checks the size of the whole record first.
template <typename Value>
Value read_value(Bytes record, std::size_t offset) {
  Value value;
  std::memcpy(&value, record.data() + offset, sizeof(value));
  return value;
}

ArgumentValue decode_argument(Bytes record, const ArgumentSpec& spec, const reading& how,
                              std::size_t index) {
  const auto result =
      read_value<reading_result>(record, sizeof(probe_record) + index * sizeof(reading_result));
  ArgumentValue value{
      .name = spec.name, .type = spec.type, .number = result.value, .bytes = {}, .error = {}};
  if (result.status < 0) {
    const bool is_null = is_memory(spec.type) && result.value == 0;
    value.error =
        is_null ? "null pointer" : fmt::format("memory at {:#x} cannot be read", result.value);
    return value;
  }
  if (!is_memory(spec.type)) return value;
  auto length = std::min<std::uint64_t>(static_cast<std::uint64_t>(result.status), how.capacity);
  if (how.form == READ_STRING) {
    value.truncated = length == how.capacity; // the capacity includes NUL and one more byte
    length = length == 0 ? 0 : length - 1;
    if (value.truncated) --length;
  } else if (how.form == READ_JAVA_STRING) {
    const bool is_utf_16 = (result.value & JAVA_STRING_IS_UTF_16) != 0;
    value.truncated = (result.value >> 1) << (is_utf_16 ? 1 : 0) > length;
    const Bytes characters = record.subspan(how.bytes_offset, length);
    value.bytes = is_utf_16 ? utf16_to_utf8(characters) : latin1_to_utf8(characters);
    return value;
  } else if (how.form == READ_LIBSTDCXX_STRING || how.form == READ_LIBCXX_STRING) {
    value.truncated = result.value > length;
  } else if (how.length_from > 0) {
    const auto wanted = read_value<reading_result>(
        record, sizeof(probe_record) + (how.length_from - 1) * sizeof(reading_result));
    if (wanted.status < 0) {
      value.error = "its length cannot be read";
      return value;
    }
    value.truncated = wanted.value > length;
  }
  const Bytes bytes = record.subspan(how.bytes_offset, length);
  value.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return value;
}

std::vector<std::uint64_t> read_words(Bytes bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// Returns the return addresses that return probes have replaced, and the address that the function
// of a finished call was entered with, which another tool's return probe may have replaced.
std::vector<replaced_return> read_replaced_returns(Bytes record, const builtin_settings& settings,
                                                   const stack_head& head) {
  std::vector<replaced_return> returns;
  if (settings.returns_offset != 0)
    if (const auto read = structure_at<replaced_returns>(record, settings.returns_offset))
      returns.assign(read->list,
                     read->list + std::min<std::uint64_t>(read->count, MAX_REPLACED_RETURNS));
  if (head.caller != 0) returns.push_back({.stack_pointer = head.address, .address = head.caller});
  return returns;
}

} // namespace

Result<CapturePlan> CapturePlan::make(const CaptureSpec& capture,
                                      std::span<const CapturePoint> points) {
  const Planner planner(capture, points);
  if (auto checked = planner.check(); !checked) return fail(std::move(checked).error());
  CapturePlan plan;
  std::map<
      std::tuple<std::size_t, CodeKind, std::optional<reading_form>, bool, bool, bool, std::string>,
      std::uint32_t>
      known;
  for (const auto& [probed, code] : points) {
    const ProbePoint& point = *probed;
    const std::size_t list = planner.find_list(point);
    const bool at_start = point.symbol_offset == 0;
    const bool is_entry = planner.is_entry(point);
    const bool by_goroutine = planner.is_by_goroutine(point, code);
    const StaticProbeLocation location{.probe = point.static_probe.get(), .address = point.address};
    const auto [variant, is_new] =
        known.emplace(std::tuple(list, code.kind, code.strings, at_start, is_entry, by_goroutine,
                                 reading_key(location) + signature_key(point.java.get())),
                      static_cast<std::uint32_t>(plan.variants_.size()));
    if (is_new) {
      auto format = planner.make_format(list, code, point, at_start);
      auto settings = format ? planner.make_settings(*format, code, at_start, is_entry,
                                                     by_goroutine, location, point.java.get())
                             : fail(std::move(format).error());
      if (!settings) {
        Error error = std::move(settings).error();
        error.message.insert(0, display_name(point) + ": ");
        return fail(std::move(error));
      }
      plan.formats_.push_back(std::move(*format));
      plan.variants_.push_back(*settings);
    }
    plan.probes_.push_back({.point = probed, .variant = variant->second});
  }
  plan.shows_registers_ = capture.registers;
  plan.copies_stacks_ = capture.stack == StackWalk::frame_data;
  const auto is_argument = [](const ArgumentSource& source) {
    return source.kind == ArgumentSource::Kind::argument;
  };
  plan.compares_arguments_ =
      (capture.measured && is_argument(*capture.measured)) ||
      std::ranges::any_of(capture.conditions, [&](const ConditionSpec& condition) {
        return !condition.name && is_argument(condition.source);
      });
  unify_sizes(plan.variants_);
  return plan;
}

bool CapturePlan::uses_argument_numbers(std::size_t probe) const {
  return compares_arguments_ ||
         std::ranges::any_of(formats_[probes_[probe].variant].arguments,
                             [](const PlannedArgument& each) {
                               return each.spec.source.kind == ArgumentSource::Kind::argument;
                             });
}

std::vector<std::string> CapturePlan::describe_problems(std::size_t probe) const {
  std::vector<std::string> problems;
  if (copies_stacks_ && (variants_[probes_[probe].variant].flags & COPY_STACK) == 0)
    problems.emplace_back("stacks of 32-bit code cannot be unwound");
  for (const PlannedArgument& each : formats_[probes_[probe].variant].arguments)
    if (!each.problem.empty())
      problems.push_back(each.spec.name + " cannot be read (" + each.problem + ")");
  return problems;
}

std::optional<std::uint32_t> process_with_new_stack(Bytes record) {
  if (record.size() < sizeof(probe_record)) return std::nullopt;
  const auto raw = read_value<probe_record>(record, 0);
  if (raw.kind != RECORD_NEW_STACK) return std::nullopt;
  return raw.pid;
}

Result<Event> CapturePlan::decode(Bytes record) const {
  if (record.size() < sizeof(probe_record))
    return fail(record_too_short(record.size(), sizeof(probe_record)));
  const auto raw = read_value<probe_record>(record, 0);
  if (raw.cookie >= probes_.size() || raw.kind > RECORD_CALL)
    return fail(ErrorKind::corrupt, "a record of the BPF program has the unknown probe " +
                                        std::to_string(raw.cookie) + " (there are " +
                                        std::to_string(probes_.size()) + ")");
  const auto [point, variant] = probes_[raw.cookie];
  const builtin_settings& settings = variants_[variant];
  if (record.size() < settings.kept_size)
    return fail(record_too_short(record.size(), settings.kept_size));

  Event event;
  event.time_ns = raw.time_ns;
  event.pid = raw.pid;
  event.tid = raw.tid;
  event.cpu = raw.cpu;
  event.comm.assign(raw.comm, ::strnlen(raw.comm, sizeof(raw.comm)));
  event.point = point;
  event.probe = static_cast<std::uint32_t>(raw.cookie);
  event.kind = raw.kind != RECORD_ENTRY ? EventKind::on_return
               : point->static_probe    ? EventKind::static_probe
                                        : EventKind::entry;
  event.return_value = raw.return_value;
  event.left_by = raw.left_by == LEFT_BY_RETURN      ? ExitKind::return_instruction
                  : raw.left_by == LEFT_BY_TAIL_CALL ? ExitKind::tail_call
                                                     : ExitKind::unknown;
  if (raw.kind == RECORD_CALL) event.latency_ns = raw.latency_ns;
  event.has_arguments = raw.kind != RECORD_RETURN;
  const RecordFormat& format = formats_[variant];
  if (format.six_registers && event.has_arguments)
    event.arguments = read_value<decltype(event.arguments)>(record, sizeof(raw));
  for (const auto& [spec, reading, problem] : format.arguments) {
    const bool is_return = spec.name == "ret" && spec.source.kind == ArgumentSource::Kind::returned;
    if (is_return && event.left_by == ExitKind::tail_call) continue;
    if (!problem.empty() && is_return) {
      if (raw.kind != RECORD_ENTRY)
        event.typed_return = {.name = spec.name, .type = spec.type, .error = problem};
      continue;
    }
    if (!problem.empty()) {
      if (raw.kind == RECORD_RETURN) continue;
      (event.typed_arguments ? *event.typed_arguments : event.typed_arguments.emplace())
          .push_back({.name = spec.name, .type = spec.type, .error = problem});
      continue;
    }
    const auto& how = settings.readings[reading];
    const bool was_read =
        raw.kind == RECORD_CALL || (how.moment == MOMENT_ENTRY) == (raw.kind == RECORD_ENTRY);
    if (!was_read) continue;
    ArgumentValue value = decode_argument(record, spec, how, reading);
    if (is_return)
      event.typed_return = std::move(value);
    else
      (event.typed_arguments ? *event.typed_arguments : event.typed_arguments.emplace())
          .push_back(std::move(value));
  }
  if (!format.six_registers && event.has_arguments && !event.typed_arguments)
    event.typed_arguments.emplace();
  if (shows_registers_) {
    event.registers.resize(register_names().size());
    std::memcpy(event.registers.data(), record.data() + settings.registers_offset,
                event.registers.size() * sizeof(std::uint64_t));
  }
  return event;
}

std::optional<CapturedStack> CapturePlan::decode_stack(Bytes record) const {
  const auto raw = structure_at<probe_record>(record, 0);
  if (!raw || raw->cookie >= probes_.size()) return std::nullopt;
  const builtin_settings& settings = variants_[probes_[raw->cookie].variant];
  if (settings.stack_offset == 0) return std::nullopt;
  const auto head = structure_at<stack_head>(record, settings.stack_offset);
  if (!head) return std::nullopt;
  const std::size_t begin = settings.stack_offset + sizeof(*head);
  const std::size_t size = std::min<std::size_t>(head->size, record.size() - begin);
  CapturedStack captured;
  if ((settings.flags & WALK_STACK) != 0) {
    captured.frames = walked_frames(read_words(record.subspan(begin, size)), head->caller);
    return captured;
  }
  const std::size_t caller = head->has_caller != 0 ? sizeof(head->caller) : 0;
  captured.address = head->address;
  captured.bytes = record.subspan(begin - caller, caller + size);
  captured.registers = read_words(
      record.subspan(settings.registers_offset, register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = read_replaced_returns(record, settings, *head);
  captured.at_function_entry =
      raw->kind != RECORD_RETURN && (settings.flags & AT_FUNCTION_START) != 0;
  return captured;
}

} // namespace uprobectl
