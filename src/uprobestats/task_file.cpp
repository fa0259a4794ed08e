#include "uprobestats/task_file.hpp"

#include "uprobestats/binary_form.hpp"
#include "uprobestats/task.hpp"
#include "uprobestats/text_form.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

constexpr std::size_t max_size = std::size_t{1} << 20U;

// What speaks against one numbering of a binary file.
struct Doubts {
  std::optional<std::string> impossible; // types or labels of fields
  std::optional<std::string> unlikely;   // what texts say

  void rule_out(std::string why) {
    if (!impossible) impossible = std::move(why);
  }
  void question(std::string why) {
    if (!unlikely) unlikely = std::move(why);
  }
};

// As bpf_maps and bpf_map have it: a pin's path, or its file name, which Android's loader begins
// so.
bool is_map(std::string_view name) {
  return name.starts_with("map_") || name.find('/') != std::string_view::npos;
}

Doubts doubts_of_current(const BinaryForm& current) {
  Doubts doubts;
  for (const OddField& field : current.odd)
    if (field.known) doubts.rule_out(to_string(field) + " is of another type");
  for (const proto::Task& task : current.config.tasks) {
    for (const std::string& map : task.bpf_maps)
      if (!is_map(map)) doubts.question(fmt::format("'{}' would be one of bpf_maps", map));
    for (const proto::ProbeConfig& probe : task.probe_configs)
      if (const auto& name = probe.fully_qualified_class_name; name && is_map(*name))
        doubts.question(fmt::format("'{}' would be a fully_qualified_class_name", *name));
  }
  return doubts;
}

// A field that neither numbering has tells nothing.
Doubts doubts_of_early(const BinaryForm& early, const BinaryForm& current) {
  Doubts doubts;
  for (const OddField& field : early.odd) {
    const bool unknown_now =
        std::ranges::find(current.odd, field.offset, &OddField::offset) != current.odd.end();
    if (field.known || !unknown_now) doubts.rule_out(to_string(field) + " was not there then");
  }
  for (const proto::Task& task : current.config.tasks)
    if (task.bpf_maps.size() > 1) doubts.rule_out("a task would have several target_process_name");
  for (const proto::Task& task : early.config.tasks) {
    if (const auto& name = task.target_process_name;
        name && (name->starts_with("map_") || name->starts_with("/sys/fs/bpf/")))
      doubts.question(fmt::format("'{}' would be the target_process_name", *name));
    for (const proto::ProbeConfig& probe : task.probe_configs)
      if (probe.bpf_map && !is_map(*probe.bpf_map))
        doubts.question(fmt::format("'{}' would be a bpf_map", *probe.bpf_map));
  }
  return doubts;
}

// Whether the numbering makes any difference.
bool has_moved_fields(const proto::UprobestatsConfig& early) {
  return std::ranges::any_of(early.tasks, [](const proto::Task& task) {
    return task.target_process_name || task.duration_seconds ||
           std::ranges::any_of(task.probe_configs, [](const proto::ProbeConfig& probe) {
             return probe.bpf_map.has_value();
           });
  });
}

Error neither_numbering(const Doubts& current, const Doubts& early) {
  return Error{ErrorKind::corrupt, "the binary form fits neither numbering of task files"}
      .hint("in the current one " + *current.impossible)
      .hint("in that of early Android 15 " + *early.impossible);
}

Error both_numberings(const Doubts& current, const Doubts& early) {
  Error error{ErrorKind::ambiguous,
              "the binary form can be read in both numberings of task files, and the meanings "
              "differ"};
  if (current.unlikely) error = std::move(error).hint("in the current one " + *current.unlikely);
  if (early.unlikely)
    error = std::move(error).hint("in that of early Android 15 " + *early.unlikely);
  return std::move(error).hint(
      "write it as text, or with duration_seconds, whose number tells them apart");
}

// A file in either form.
struct Parsed {
  proto::UprobestatsConfig config;
  std::vector<std::string> warnings;
};

Parsed parsed_of(BinaryForm form) {
  Parsed parsed{.config = std::move(form.config), .warnings = {}};
  for (const OddField& field : std::span(form.odd).first(std::min(form.odd.size(), max_warnings)))
    parsed.warnings.push_back(to_string(field) + " is not known");
  return parsed;
}

Result<Parsed> parse_binary(Bytes file) {
  auto current = parse_binary_form(file, Numbering::current);
  if (!current) return fail(std::move(current).error());
  auto early = parse_binary_form(file, Numbering::early);
  if (!early) return fail(std::move(early).error());

  const Doubts against_current = doubts_of_current(*current);
  const Doubts against_early = doubts_of_early(*early, *current);
  if (against_current.impossible && against_early.impossible)
    return fail(neither_numbering(against_current, against_early));
  bool is_early = against_current.impossible.has_value();
  if (!against_current.impossible && !against_early.impossible && has_moved_fields(early->config)) {
    if (against_current.unlikely.has_value() == against_early.unlikely.has_value())
      return fail(both_numberings(against_current, against_early));
    is_early = against_current.unlikely.has_value();
  }
  if (!is_early) return parsed_of(std::move(*current));
  Parsed parsed = parsed_of(std::move(*early));
  parsed.warnings.emplace_back(
      "it has the field numbers of early Android 15, which later versions misread: "
      "--binary writes the current ones");
  return parsed;
}

Result<Parsed> parse_text(std::string_view text) {
  auto form = parse_text_form(text);
  if (!form) return fail(std::move(form).error());
  return Parsed{.config = std::move(form->config), .warnings = std::move(form->warnings)};
}

// A file's first field is a message, whose tag is a line feed to a reader of text: so a text may
// begin like the binary form, and a binary form may consist of printable bytes.
bool is_text(Bytes file) {
  const std::string_view text = as_text(file);
  const bool printable = std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c >= '\t' && c <= '\r';
  });
  return printable && (!text.starts_with('\n') || !parse_binary_form(file, Numbering::current));
}

// Moves each probe's bpf_map to its task's bpf_maps, where it belongs now.
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

Result<TaskFile> read_task_file(Bytes file) {
  if (file.size() > max_size)
    return fail(
        ErrorKind::out_of_range,
        fmt::format("a task file has at most {} bytes, this one {}", max_size, file.size()));
  const bool text = is_text(file);
  auto parsed = text ? parse_text(as_text(file)) : parse_binary(file);
  if (!parsed && !text)
    return fail(std::move(parsed).error().within("taken for the binary form, as it is no text"));
  if (!parsed) return fail(std::move(parsed).error());
  if (parsed->config.tasks.empty()) return fail(ErrorKind::usage, "it has no task");
  move_early_maps(parsed->config);
  auto tasks = make_tasks(parsed->config);
  if (!tasks) return fail(std::move(tasks).error());
  return TaskFile{.tasks = std::move(*tasks),
                  .binary = write_binary_form(parsed->config),
                  .warnings = std::move(parsed->warnings)};
}

} // namespace uprobectl::uprobestats
