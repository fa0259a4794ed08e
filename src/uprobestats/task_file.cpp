// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_file.hpp"

#include "uprobestats/forms.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>

namespace uprobectl::uprobestats {

namespace {

constexpr std::size_t max_tasks = 64;
constexpr std::size_t max_probes = 256;    // of a task
constexpr std::size_t max_paths = 64;      // of a probe
constexpr std::size_t max_maps = 64;       // of a task
constexpr std::size_t max_positions = 120; // of an atom, which has at most 127 fields

Error usage(std::string message) { return Error{ErrorKind::usage, std::move(message)}; }

const std::string& text_of(const std::optional<std::string>& field) {
  static const std::string none;
  return field ? *field : none;
}

// Whether the text may be used in paths and messages: it has no control characters.
bool is_plain_text(std::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
}

std::optional<Error> check_texts(std::string_view field, const auto& texts) {
  for (const std::string& text : texts) {
    if (text.empty()) return usage(fmt::format("{} has an empty string", field));
    if (!is_plain_text(text)) return usage(fmt::format("{} has a control character", field));
  }
  return std::nullopt;
}

// Checks that the name is the file name of a pin.
std::optional<Error> check_pin_name(std::string_view field, std::string_view name) {
  if (name.find('/') == std::string_view::npos && name != "." && name != "..") return std::nullopt;
  return usage(fmt::format("invalid {} '{}': expected a file name, not a path", field, name));
}

// Whether the method contains no characters that have a meaning in a FUNCTION, such as patterns and
// "+N". "[]" of array types is allowed.
bool is_exact(std::string_view method) {
  for (std::size_t i = 0; i < method.size(); ++i) {
    if (std::string_view("*?\\+@").find(method[i]) != std::string_view::npos) return false;
    if (method[i] == '[' && method.substr(i, 2) != "[]") return false;
    if (method[i] == ']' && (i == 0 || method[i - 1] != '[')) return false;
  }
  return true;
}

std::string class_and_method(const proto::ProbeConfig& probe) {
  const std::string& name = text_of(probe.method_name);
  return text_of(probe.fully_qualified_class_name).empty()
             ? name
             : text_of(probe.fully_qualified_class_name) + "." + name;
}

// Checks "RETURN CLASS.NAME(PARAMETERS)", or the symbol of a native library.
std::optional<Error> check_signature(std::string_view signature) {
  const std::string_view head = signature.substr(0, signature.find('('));
  const bool has_parameters = head.size() != signature.size();
  if (has_parameters && !signature.ends_with(')'))
    return usage(fmt::format("method_signature does not end with ')': '{}'", signature));
  if (std::ranges::count(head, ' ') > 1 || head.starts_with(' ') || head.ends_with(' '))
    return usage(fmt::format("invalid method_signature '{}'", signature))
        .hint("expected RETURN CLASS.METHOD(PARAMETERS), for example void com.foo.Bar.baz(int, "
              "java.lang.String)");
  return std::nullopt;
}

// Returns the parameters as in a signature: "(int, long)".
std::string parameters_of(const proto::ProbeConfig& probe) {
  return "(" + joined(probe.fully_qualified_parameters) + ")";
}

std::string without_spaces(std::string_view text) {
  std::string rest(text);
  std::erase(rest, ' ');
  return rest;
}

// Checks that method_signature agrees with class, method name and parameters if those are set too.
std::optional<Error> check_consistency(std::string_view method, const proto::ProbeConfig& probe) {
  const std::string_view name = method.substr(0, method.find('('));
  const auto dot = name.rfind('.');
  const std::string_view of_class = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  const std::string& class_name = text_of(probe.fully_qualified_class_name);
  const bool alike = class_name.empty()
                         ? text_of(probe.method_name) == name ||
                               text_of(probe.method_name) == name.substr(name.rfind('.') + 1)
                         : class_and_method(probe) == name;
  if (!text_of(probe.method_name).empty() && !alike)
    return usage(fmt::format("method_signature and method_name name different methods: '{}', '{}'",
                             name, class_and_method(probe)));
  if (!class_name.empty() && class_name != of_class)
    return usage(fmt::format("method_signature and fully_qualified_class_name name different "
                             "classes: '{}', '{}'",
                             of_class, class_name));
  const std::string parameters = parameters_of(probe);
  if (!probe.fully_qualified_parameters.empty() &&
      without_spaces(parameters) != without_spaces(method.substr(name.size())))
    return usage(fmt::format("method_signature and fully_qualified_parameters differ: '{}', '{}'",
                             method, parameters));
  return std::nullopt;
}

// Checks names and types, which UprobeStats compares literally.
std::optional<Error> check_java_names(const proto::ProbeConfig& probe) {
  const auto odd = [](const std::string& name) {
    return name.find_first_of(" (/") != std::string::npos;
  };
  if (odd(text_of(probe.fully_qualified_class_name)))
    return usage(fmt::format("invalid fully_qualified_class_name '{}'",
                             text_of(probe.fully_qualified_class_name)))
        .hint("write it as in Java, without spaces, '(' or '/': com.foo.Outer$Inner");
  if (odd(text_of(probe.method_name)))
    return usage(fmt::format("invalid method_name '{}'", text_of(probe.method_name)))
        .hint("list the parameters in fully_qualified_parameters, one per entry");
  for (const std::string& type : probe.fully_qualified_parameters)
    if (type.find(',') != std::string::npos)
      return usage(fmt::format("fully_qualified_parameters has several types in one: '{}'", type))
          .hint("write one type per entry");
  return std::nullopt;
}

bool is_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

std::optional<Error> set_method(const proto::ProbeConfig& from, TaskProbe& probe) {
  const std::string& signature = text_of(from.method_signature);
  const bool named = !text_of(from.method_name).empty();
  if (signature.empty() && !named) return usage("method_signature, or method_name, is missing");
  const bool native = std::ranges::any_of(probe.file_paths, is_library);
  if (signature.empty() && text_of(from.fully_qualified_class_name).empty() && !native)
    return usage("fully_qualified_class_name is missing");
  if (!native)
    if (auto odd = check_java_names(from)) return odd;
  if (!signature.empty()) {
    if (auto wrong = check_signature(signature)) return wrong;
    const std::string_view method = without_return_type(signature);
    if (auto wrong = check_consistency(method, from)) return wrong;
    probe.method = signature;
    probe.has_parameters = method.find('(') != std::string_view::npos;
    probe.by_signature = true;
  } else {
    probe.method = class_and_method(from);
    probe.has_parameters = !from.fully_qualified_parameters.empty();
    if (probe.has_parameters) probe.method += parameters_of(from);
  }
  if (!is_exact(probe.method))
    return usage(fmt::format("'{}' does not name one method", probe.method))
        .hint("name exactly one method, without patterns or offsets");
  return std::nullopt;
}

std::optional<Error> fill(const proto::ProbeConfig& from, TaskProbe& probe) {
  probe.bpf_name = text_of(from.bpf_name);
  probe.file_paths = from.file_paths;
  const bool is_binder = probe.bpf_name == binder_program;
  probe.ignores_filters = !is_binder && !from.binder_transaction_filters.empty();
  const std::array names = {text_of(from.method_signature),
                            text_of(from.fully_qualified_class_name), text_of(from.method_name)};
  if (!std::ranges::all_of(names, is_plain_text))
    return usage("the method's name has a control character");
  auto wrong = set_method(from, probe);
  if (probe.bpf_name.empty()) return usage("bpf_name is missing");
  if (!is_plain_text(probe.bpf_name)) return usage("bpf_name has a control character");
  if (auto path = check_pin_name("bpf_name", probe.bpf_name)) return path;
  if (wrong) return wrong;
  if (auto odd = check_texts("fully_qualified_parameters", from.fully_qualified_parameters))
    return odd;
  if (probe.file_paths.empty() && text_of(from.fully_qualified_class_name).empty())
    return usage("file_paths is missing");
  if (auto odd = check_texts("file_paths", probe.file_paths)) return odd;
  for (const std::string& path : probe.file_paths)
    if (!path.starts_with('/'))
      return usage(fmt::format("file_paths: '{}' is not an absolute path", path));
  if (!is_binder) return std::nullopt;
  auto filters = make_binder_filters(from.binder_transaction_filters);
  if (!filters) return std::move(filters).error();
  probe.filters = std::move(*filters);
  return std::nullopt;
}

std::optional<Error> check_maps(const Task& task) {
  if (auto odd = check_texts("bpf_maps", task.bpf_maps)) return odd;
  for (const std::string& map : task.bpf_maps)
    if (!map.starts_with('/'))
      if (auto path = check_pin_name("bpf_maps", map)) return path;
  return std::nullopt;
}

std::optional<Error> fill(const proto::Task& from, Task& task) {
  task.bpf_maps = from.bpf_maps;
  task.target_process_name = text_of(from.target_process_name);
  task.duration = std::chrono::seconds(from.duration_seconds.value_or(0));
  task.id = from.task_id;
  if (const auto& logging = from.statsd_logging_config)
    task.logging = {.atom_id = logging->atom_id.value_or(0),
                    .primitive_argument_positions = logging->primitive_argument_positions};
  task.on_start = from.target_process_selection == proto::specific_app_process_on_start;
  task.any_app = from.target_process_selection == proto::any_app_process_on_start;

  if (task.probes.empty()) return usage("probe_configs is missing");
  if (!from.duration_seconds) return usage("duration_seconds is missing");
  if (*from.duration_seconds <= 0)
    return usage(
        fmt::format("invalid duration_seconds {} (expected more than 0)", *from.duration_seconds));
  if (task.target_process_name.empty() && !task.any_app)
    return usage("target_process_name is missing");
  if (!is_plain_text(task.target_process_name))
    return usage("target_process_name has a control character");
  if (auto wrong = check_maps(task)) return wrong;
  if (task.logging && task.logging->atom_id <= 0)
    return usage("statsd_logging_config has no atom_id");
  if (task.logging && task.logging->atom_id > std::numeric_limits<std::int32_t>::max())
    return usage(fmt::format("invalid atom_id {} (expected at most {})", task.logging->atom_id,
                             std::numeric_limits<std::int32_t>::max()));
  if (task.logging && std::ranges::any_of(task.logging->primitive_argument_positions,
                                          [](std::int32_t position) { return position < 0; }))
    return usage("primitive_argument_positions has a negative number");
  return std::nullopt;
}

// Returns which maximum the file exceeds.
std::optional<std::string> find_excess(const proto::UprobestatsConfig& config) {
  const auto more = [](std::size_t most, std::string_view what) {
    return fmt::format("there are more than {} {}", most, what);
  };
  if (config.tasks.size() > max_tasks) return more(max_tasks, "tasks");
  for (const proto::Task& task : config.tasks) {
    if (task.probe_configs.size() > max_probes) return more(max_probes, "probes in a task");
    if (task.bpf_maps.size() > max_maps) return more(max_maps, "bpf_maps in a task");
    if (const auto& logging = task.statsd_logging_config;
        logging && logging->primitive_argument_positions.size() > max_positions)
      return more(max_positions, "primitive_argument_positions");
    for (const proto::ProbeConfig& probe : task.probe_configs)
      if (probe.file_paths.size() > max_paths) return more(max_paths, "file_paths of a probe");
  }
  return std::nullopt;
}

// Fails with out_of_range if the file exceeds a maximum.
Result<std::vector<Task>> make_tasks(const proto::UprobestatsConfig& config) {
  if (auto what = find_excess(config)) return fail(ErrorKind::out_of_range, std::move(*what));
  std::vector<Task> tasks;
  for (const proto::Task& from : config.tasks) {
    Task& task = tasks.emplace_back();
    for (const proto::ProbeConfig& probe : from.probe_configs) {
      TaskProbe& to = task.probes.emplace_back();
      to.problem = fill(probe, to);
    }
    task.problem = fill(from, task);
  }
  return tasks;
}

constexpr std::size_t max_size = std::size_t{1} << 20U;

// The first conflicts between a binary file and one numbering of the fields.
struct NumberingConflicts {
  std::optional<std::string> certain; // the type or label of a field does not fit
  std::optional<std::string> likely;  // a text looks like the value of another field

  void add_certain(std::string why) {
    if (!certain) certain = std::move(why);
  }
  void add_likely(std::string why) {
    if (!likely) likely = std::move(why);
  }
};

// Whether bpf_maps or bpf_map may contain the name: a pin's path, or its file name, to which
// Android's loader gives this prefix.
bool is_map(std::string_view name) {
  return name.starts_with("map_") || name.find('/') != std::string_view::npos;
}

NumberingConflicts find_conflicts_with_current(const BinaryForm& current) {
  NumberingConflicts conflicts;
  for (const UnknownField& field : current.unknown_fields)
    if (field.type_mismatch) conflicts.add_certain(to_string(field) + " has another type");
  for (const proto::Task& task : current.config.tasks) {
    for (const std::string& map : task.bpf_maps)
      if (!is_map(map)) conflicts.add_likely(fmt::format("'{}' would be one of bpf_maps", map));
    for (const proto::ProbeConfig& probe : task.probe_configs)
      if (const auto& name = probe.fully_qualified_class_name; name && is_map(*name))
        conflicts.add_likely(fmt::format("'{}' would be a fully_qualified_class_name", *name));
  }
  return conflicts;
}

// A field that is unknown in both numberings is not a conflict.
NumberingConflicts find_conflicts_with_early(const BinaryForm& early, const BinaryForm& current) {
  NumberingConflicts conflicts;
  for (const UnknownField& field : early.unknown_fields) {
    const bool unknown_now =
        std::ranges::find(current.unknown_fields, field.offset, &UnknownField::offset) !=
        current.unknown_fields.end();
    if (field.type_mismatch || !unknown_now)
      conflicts.add_certain(to_string(field) + " does not exist in that version");
  }
  for (const proto::Task& task : current.config.tasks)
    if (task.bpf_maps.size() > 1)
      conflicts.add_certain("a task would have several target_process_name");
  for (const proto::Task& task : early.config.tasks) {
    if (const auto& name = task.target_process_name;
        name && (name->starts_with("map_") || name->starts_with("/sys/fs/bpf/")))
      conflicts.add_likely(fmt::format("'{}' would be the target_process_name", *name));
    for (const proto::ProbeConfig& probe : task.probe_configs)
      if (probe.bpf_map && !is_map(*probe.bpf_map))
        conflicts.add_likely(fmt::format("'{}' would be a bpf_map", *probe.bpf_map));
  }
  return conflicts;
}

// Whether a field that is present has different numbers in the two numberings.
bool has_moved_fields(const proto::UprobestatsConfig& early) {
  return std::ranges::any_of(early.tasks, [](const proto::Task& task) {
    return task.target_process_name || task.duration_seconds ||
           std::ranges::any_of(task.probe_configs, [](const proto::ProbeConfig& probe) {
             return probe.bpf_map.has_value();
           });
  });
}

Error neither_numbering(const NumberingConflicts& current, const NumberingConflicts& early) {
  return Error{ErrorKind::corrupt, "the binary form fits neither numbering of task files"}
      .hint("current numbering: " + *current.certain)
      .hint("numbering of early Android 15: " + *early.certain);
}

Error both_numberings(const NumberingConflicts& current, const NumberingConflicts& early) {
  Error error{ErrorKind::ambiguous,
              "the binary form can be read in both numberings of task files, and the meanings "
              "differ"};
  if (current.likely) error = std::move(error).hint("current numbering: " + *current.likely);
  if (early.likely)
    error = std::move(error).hint("numbering of early Android 15: " + *early.likely);
  return std::move(error).hint(
      "write it as text, or add duration_seconds, whose number differs between them");
}

// The content of a file in either form.
struct Parsed {
  proto::UprobestatsConfig config;
  std::vector<std::string> warnings;
};

Parsed parsed_of(BinaryForm form) {
  Parsed parsed{.config = std::move(form.config), .warnings = {}};
  for (const UnknownField& field :
       std::span(form.unknown_fields).first(std::min(form.unknown_fields.size(), max_warnings)))
    parsed.warnings.push_back(to_string(field) + " is not known");
  return parsed;
}

Result<Parsed> parse_binary(Bytes file) {
  auto current = parse_binary_form(file, Numbering::current);
  if (!current) return fail(std::move(current).error());
  auto early = parse_binary_form(file, Numbering::early);
  if (!early) return fail(std::move(early).error());

  const NumberingConflicts with_current = find_conflicts_with_current(*current);
  const NumberingConflicts with_early = find_conflicts_with_early(*early, *current);
  if (with_current.certain && with_early.certain)
    return fail(neither_numbering(with_current, with_early));
  bool is_early = with_current.certain.has_value();
  if (!with_current.certain && !with_early.certain && has_moved_fields(early->config)) {
    if (with_current.likely.has_value() == with_early.likely.has_value())
      return fail(both_numberings(with_current, with_early));
    is_early = with_current.likely.has_value();
  }
  if (!is_early) return parsed_of(std::move(*current));
  Parsed parsed = parsed_of(std::move(*early));
  parsed.warnings.emplace_back(
      "the file uses the field numbers of early Android 15, which later versions misread: "
      "--binary writes the current ones");
  return parsed;
}

Result<Parsed> parse_text(std::string_view text) {
  auto form = parse_text_form(text);
  if (!form) return fail(std::move(form).error());
  return Parsed{.config = std::move(form->config), .warnings = std::move(form->warnings)};
}

// The binary form begins with the tag of a message, 0x0a, which is a line feed in a text. So a text
// may begin like the binary form, and the binary form may consist of printable bytes.
bool is_text(Bytes file) {
  const std::string_view text = as_text(file);
  const bool printable = std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c >= '\t' && c <= '\r';
  });
  return printable && (!text.starts_with('\n') || !parse_binary_form(file, Numbering::current));
}

// Moves each probe's bpf_map to its task's bpf_maps, as in the current version.
void move_early_maps(proto::UprobestatsConfig& config) {
  for (proto::Task& task : config.tasks)
    for (proto::ProbeConfig& probe : task.probe_configs) {
      if (!probe.bpf_map) continue;
      if (std::ranges::find(task.bpf_maps, *probe.bpf_map) == task.bpf_maps.end())
        task.bpf_maps.push_back(*probe.bpf_map);
      probe.bpf_map.reset();
    }
}

} // namespace

std::string_view without_return_type(std::string_view signature) {
  const auto space = signature.substr(0, signature.find('(')).rfind(' ');
  return space == std::string_view::npos ? signature : signature.substr(space + 1);
}

Result<TaskFile> read_task_file(Bytes file) {
  if (file.size() > max_size)
    return fail(ErrorKind::out_of_range,
                fmt::format("the file has {} bytes (expected at most {})", file.size(), max_size));
  const bool text = is_text(file);
  auto parsed = text ? parse_text(as_text(file)) : parse_binary(file);
  if (!parsed && !text)
    return fail(std::move(parsed).error().within("read as the binary form because it is not text"));
  if (!parsed) return fail(std::move(parsed).error());
  if (parsed->config.tasks.empty()) return fail(ErrorKind::usage, "contains no task");
  move_early_maps(parsed->config);
  auto tasks = make_tasks(parsed->config);
  if (!tasks) return fail(std::move(tasks).error());
  std::string binary = write_binary_form(parsed->config);
  return TaskFile{.config = std::move(parsed->config),
                  .tasks = std::move(*tasks),
                  .binary = std::move(binary),
                  .warnings = std::move(parsed->warnings)};
}

} // namespace uprobectl::uprobestats
