#include "uprobestats/binary_form.hpp"

#include "uprobestats/survey.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

// What speaks against one way of reading the file.
struct Doubts {
  std::optional<std::string> impossible; // a field's type, or that there are two of it
  std::optional<std::string> unlikely;   // what its text says

  void rule_out(std::string why) {
    if (!impossible) impossible = std::move(why);
  }
  void question(std::string why) {
    if (!unlikely) unlikely = std::move(why);
  }
};

// As bpf_maps and bpf_map have it: a pin's file name, which Android's loader begins so, or its
// path.
bool is_map(std::string_view name) {
  return name.starts_with("map_") || name.find('/') != std::string_view::npos;
}

Doubts doubts_of_current(const wire::UprobestatsConfig& config, std::span<const OddField> odd) {
  Doubts doubts;
  for (const OddField& field : odd)
    if (field.known) doubts.rule_out(to_string(field) + " is of another type");
  for (const wire::Task& task : config.tasks()) {
    for (const std::string& map : task.bpf_maps())
      if (!is_map(map)) doubts.question(fmt::format("'{}' would be one of bpf_maps", map));
    for (const wire::ProbeConfig& probe : task.probe_configs())
      if (is_map(probe.fully_qualified_class_name()))
        doubts.question(fmt::format("'{}' would be a fully_qualified_class_name",
                                    probe.fully_qualified_class_name()));
  }
  return doubts;
}

// Fields that neither numbering knows tell nothing.
Doubts doubts_of_early(const wire::EarlyConfig& early, const wire::UprobestatsConfig& current,
                       std::span<const OddField> odd, std::span<const OddField> current_odd) {
  Doubts doubts;
  for (const OddField& field : odd) {
    const bool is_unknown_now =
        std::ranges::find(current_odd, field.offset, &OddField::offset) != current_odd.end();
    if (field.known || !is_unknown_now) doubts.rule_out(to_string(field) + " was not there then");
  }
  for (const wire::Task& task : current.tasks())
    if (task.bpf_maps_size() > 1) doubts.rule_out("a task would have several target_process_name");
  for (const wire::EarlyTask& task : early.tasks()) {
    const std::string& name = task.target_process_name();
    if (name.starts_with("map_") || name.starts_with("/sys/fs/bpf/"))
      doubts.question(fmt::format("'{}' would be the target_process_name", name));
    for (const wire::EarlyProbe& probe : task.probe_configs())
      if (probe.has_bpf_map() && !is_map(probe.bpf_map()))
        doubts.question(fmt::format("'{}' would be a bpf_map", probe.bpf_map()));
  }
  return doubts;
}

// Whether it makes any difference.
bool has_moved_fields(const wire::EarlyConfig& early) {
  return std::ranges::any_of(early.tasks(), [](const wire::EarlyTask& task) {
    return task.has_target_process_name() || task.has_duration_seconds() ||
           std::ranges::any_of(task.probe_configs(), &wire::EarlyProbe::has_bpf_map);
  });
}

wire::UprobestatsConfig renumbered(const wire::EarlyConfig& early) {
  wire::UprobestatsConfig config;
  for (const wire::EarlyTask& from : early.tasks()) {
    wire::Task& task = *config.add_tasks();
    for (const wire::EarlyProbe& probe : from.probe_configs()) {
      wire::ProbeConfig& to = *task.add_probe_configs();
      if (probe.has_bpf_name()) to.set_bpf_name(probe.bpf_name());
      *to.mutable_file_paths() = probe.file_paths();
      if (probe.has_method_signature()) to.set_method_signature(probe.method_signature());
      if (probe.has_bpf_map()) to.set_bpf_map(probe.bpf_map());
    }
    if (from.has_target_process_name()) task.set_target_process_name(from.target_process_name());
    if (from.has_duration_seconds()) task.set_duration_seconds(from.duration_seconds());
    if (from.has_statsd_logging_config())
      *task.mutable_statsd_logging_config() = from.statsd_logging_config();
  }
  return config;
}

Error neither(const Doubts& current, const Doubts& early) {
  return Error{ErrorKind::corrupt, "the binary form fits neither numbering of task files"}
      .hint("in the current one " + *current.impossible)
      .hint("in that of early Android 15 " + *early.impossible);
}

Error both(const Doubts& current, const Doubts& early) {
  Error error{ErrorKind::ambiguous,
              "the binary form can be read in both numberings of task files, and the meanings "
              "differ"};
  if (current.unlikely) error = std::move(error).hint("in the current one " + *current.unlikely);
  if (early.unlikely)
    error = std::move(error).hint("in that of early Android 15 " + *early.unlikely);
  return std::move(error).hint(
      "write it as text, or with duration_seconds, whose number tells them apart");
}

std::vector<std::string> warnings_of(std::span<const OddField> odd) {
  constexpr std::size_t most = 100;
  std::vector<std::string> warnings;
  for (const OddField& field : odd.first(std::min(odd.size(), most)))
    warnings.push_back(to_string(field) + " is not known");
  return warnings;
}

template <typename Message>
Result<Message> parse_as(Bytes file) {
  Message message;
  if (message.ParseFromArray(file.data(), static_cast<int>(file.size()))) return message;
  return fail(ErrorKind::corrupt, "the binary form is no protobuf message");
}

} // namespace

Result<wire::UprobestatsConfig> parse_current(Bytes file) {
  if (auto odd = survey_message(file, task_file_type()); !odd) return fail(std::move(odd).error());
  return parse_as<wire::UprobestatsConfig>(file);
}

Result<BinaryForm> parse_binary_form(Bytes file) {
  const auto odd = survey_message(file, task_file_type());
  if (!odd) return fail(odd.error());
  const auto early_odd = survey_message(file, early_task_file_type());
  if (!early_odd) return fail(early_odd.error());
  auto current = parse_as<wire::UprobestatsConfig>(file);
  if (!current) return fail(std::move(current).error());
  const auto early = parse_as<wire::EarlyConfig>(file);
  if (!early) return fail(early.error());

  const Doubts against_current = doubts_of_current(*current, *odd);
  const Doubts against_early = doubts_of_early(*early, *current, *early_odd, *odd);
  if (against_current.impossible && against_early.impossible)
    return fail(neither(against_current, against_early));
  bool is_early = against_current.impossible.has_value();
  if (!against_current.impossible && !against_early.impossible && has_moved_fields(*early)) {
    if (against_current.unlikely.has_value() == against_early.unlikely.has_value())
      return fail(both(against_current, against_early));
    is_early = against_current.unlikely.has_value();
  }
  if (!is_early) return BinaryForm{std::move(*current), warnings_of(*odd)};
  BinaryForm form{renumbered(*early), warnings_of(*early_odd)};
  form.warnings.emplace_back(
      "it has the field numbers of early Android 15, which later versions misread: "
      "--binary writes the current ones");
  return form;
}

} // namespace uprobectl::uprobestats
