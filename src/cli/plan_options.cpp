// SPDX-License-Identifier: Apache-2.0
#include "plan_options.hpp"

#include "output/export_file.hpp"
#include "requests.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// Cheap, because every run asks.
bool mentions_plan(std::span<const std::string_view> arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), dashes, [](std::string_view argument) {
    return argument.starts_with("--plan") || argument.starts_with("--write-plan");
  });
}

const CommandSpec& attach_command() {
  const auto specs = command_specs();
  return *std::ranges::find(specs, "attach", &CommandSpec::name);
}

// The name that does not depend on abbreviations.
std::string_view long_name(const OptionSpec& spec) {
  const auto comma = spec.names.find(",--");
  std::string_view name =
      comma == std::string_view::npos ? spec.names : spec.names.substr(comma + 1);
  return name.substr(0, name.find(','));
}

// "in @FILE" in a condition names a file of this machine.
Result<void> check_condition(std::string_view option, const std::string& condition) {
  bool reads_file = false;
  const auto parsed =
      events::parse_filter(condition, [&](const std::string&) -> Result<std::string> {
        reads_file = true;
        return std::string("0");
      });
  if (parsed && reads_file)
    return fail(Error{ErrorKind::usage,
                      fmt::format("{} '{}': a file cannot be part of a plan", option, condition)}
                    .hint("write the members of the set: in {1,2,3}"));
  return {};
}

Result<std::vector<std::string>> find_kept(const OptionParser& parser,
                                           const std::deque<GivenOption>& given) {
  std::vector<std::string> kept;
  for (const GivenOption& option : given) {
    const bool is_given = option.flag || !option.values.empty();
    if (!is_given || option.spec->plan == PlanUse::used) continue;
    const std::string_view name = long_name(*option.spec);
    if (option.spec->plan == PlanUse::none)
      return fail(parser.usage_error(fmt::format("{} cannot be combined with --write-plan", name))
                      .hint("give it to the run with --plan, if that needs it"));
    if (option.flag) kept.emplace_back(name);
    for (const std::string& value : option.values) {
      if (option.spec->file_use == FileUse::mentioned)
        if (auto checked = check_condition(name, value); !checked)
          return fail(parser.usage_error(std::move(checked).error().message));
      kept.push_back(fmt::format("{}={}", name, value));
    }
  }
  return kept;
}

// A plan must not write files or run programs.
Result<void> check_options(const plans::AttachPlan& plan) {
  const std::vector<std::string_view> planned(plan.options.begin(), plan.options.end());
  const auto options = read_tokens(attach_command(), planned);
  if (!options) return fail(ErrorKind::corrupt, "not a valid plan: " + options.error().message);
  for (const std::string& option : *options) {
    const std::string name = option.substr(0, option.find('='));
    const auto specs = attach_command().options;
    const auto spec =
        std::ranges::find_if(specs, [&](const OptionSpec& each) { return has_name(each, name); });
    if (spec == specs.end() || spec->plan != PlanUse::kept)
      return fail(ErrorKind::corrupt,
                  fmt::format("not a valid plan: '{}' cannot be one of its options", option));
    const bool has_value = option.contains('=');
    if (has_value == spec->value.empty())
      return fail(ErrorKind::corrupt, fmt::format("not a valid plan: its option '{}' {}", option,
                                                  has_value ? "has a value" : "has no value"));
    if (spec->file_use != FileUse::mentioned) continue;
    if (auto checked = check_condition(name, option.substr(name.size() + 1)); !checked)
      return fail(ErrorKind::corrupt, "not a valid plan: " + checked.error().message);
  }
  return {};
}

} // namespace

Result<std::shared_ptr<const plans::AttachPlan>> read_plan_file(const std::string& path,
                                                                Workstation& workstation) {
  const auto file = FileText::read(path, workstation, plans::max_plan_bytes);
  if (!file) return fail(file.error());
  const std::string subject = path == "-" ? "stdin" : path;
  auto plan = plans::read_plan(file->text());
  if (!plan) return fail(std::move(plan).error().within(subject));
  if (auto checked = check_options(*plan); !checked)
    return fail(std::move(checked).error().within(subject));
  return std::make_shared<const plans::AttachPlan>(std::move(*plan));
}

void bind_plan_options(OptionParser& parser, PlanOptions& options) {
  parser.bind("--plan", options.plan);
  parser.bind("--write-plan", options.written);
}

Result<PlannedArguments> read_plan_options(std::span<const std::string_view> arguments,
                                           Workstation& workstation) {
  PlannedArguments planned;
  if (!mentions_plan(arguments)) return planned;
  OptionParser parser("attach");
  std::deque<GivenOption> given;
  parser.bind_all(given);
  const auto parsed = parser.parse(arguments);
  if (!parsed || parsed->help || parsed->help_all || parsed->version) return planned;
  const auto value = [&](std::string_view name) -> const std::string* {
    const auto found = std::ranges::find_if(
        given, [&](const GivenOption& option) { return has_name(*option.spec, name); });
    return found == given.end() || found->values.empty() ? nullptr : &found->values.back();
  };
  if (value("--write-plan") != nullptr) {
    if (!parsed->after_dashes.empty())
      return fail(parser.usage_error("--write-plan cannot be combined with a command"));
    auto kept = find_kept(parser, given);
    if (!kept) return fail(std::move(kept).error());
    planned.kept = std::move(*kept);
  }
  if (const std::string* const path = value("--plan")) {
    auto plan = read_plan_file(*path, workstation);
    if (!plan) return fail(std::move(plan).error());
    planned.plan = std::move(*plan);
  }
  return planned;
}

Result<void> apply_plan(const OptionParser& parser, const plans::AttachPlan& plan,
                        std::span<const std::string_view> words, trace::ProbeSelection& probes) {
  if (words.size() > 1)
    return fail(parser.usage_error(
        fmt::format("'{}' cannot be added to a plan, which has its FUNCTIONs", words[1])));
  auto used = std::make_shared<plans::AttachPlan>(plan);
  const std::string planned = plan.target;
  if (!words.empty()) used->target = words.front();
  for (plans::PlannedFile& file : used->files)
    if (file.target == planned) file.target = used->target;
  probes.target = used->target;
  for (const std::string& word : used->functions) {
    const auto split = resolve::split_target(word);
    if (!split) return fail(split.error());
    const bool is_other = !split->target.empty() && split->target != planned;
    probes.functions.push_back({.target = is_other ? std::string(split->target) : used->target,
                                .function = std::string(split->function)});
  }
  probes.plan = std::move(used);
  return {};
}

Result<void> write_plan_file(const std::string& path, plans::AttachPlan plan,
                             std::vector<std::string> options, output::Output& output) {
  plan.program = "uprobectl " UPROBECTL_VERSION;
  plan.options = std::move(options);
  std::size_t probes = 0;
  for (const plans::PlannedFile& file : plan.files) probes += file.probes.size();
  const std::string text = plans::write_plan(plan);
  if (text.size() > plans::max_plan_bytes)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("the plan would have {} bytes, at most {} are read", text.size(),
                                  plans::max_plan_bytes)}
                    .hint("name fewer FUNCTIONs, or leave out their values: --args none"));
  if (path == "-") {
    output.buffer().append(text);
    return {};
  }
  if (auto written = output::replace_file(
          path, [&](output::OutputBuffer& out) { out.append(text); }, output.workstation());
      !written)
    return written;
  output.status(fmt::format("{}: a plan of {} in {}", path,
                            counted(probes, "probe point", "probe points"),
                            counted(plan.files.size(), "file", "files")));
  return {};
}

} // namespace uprobectl::cli
