// SPDX-License-Identifier: Apache-2.0
#include "bpf/pin.hpp"
#include "console.hpp"
#include "object_options.hpp"
#include "trace/user_programs.hpp"
#include "util/numbers.hpp"

#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

struct LoadOptions {
  std::optional<std::string> pin;
  std::optional<std::string> unpin;
  std::optional<std::string> naming;
  std::optional<mode_t> mode;
  ObjectOptions set_up;
  std::vector<std::string> programs;
};

bpf::PinRequest make_pin_request(const LoadOptions& options) {
  bpf::PinRequest request{.folder = *options.pin, .only_used_maps = !options.programs.empty()};
  if (options.naming == "uprobestats") request.naming = bpf::PinNaming::uprobestats;
  if (options.mode) request.mode = *options.mode;
  return request;
}

Result<mode_t> parse_mode(const std::string& text) {
  constexpr mode_t max_mode = 0777;
  const auto mode = parse_number<mode_t>(text, 8);
  if (!mode || *mode > max_mode)
    return fail(ErrorKind::usage, "invalid value '" + text +
                                      "' for --mode (expected an octal number, for example 0660)");
  return *mode;
}

Result<void> load_and_pin(const std::string& path, const LoadOptions& options,
                          const bpf::ObjectSettings& settings, output::Output& output) {
  const std::vector<std::string>& programs = options.programs;
  const auto file = output.workstation().map(path);
  if (!file) return fail(file.error());
  std::optional<MappedFile> kernel_types;
  if (options.set_up.kernel_types) {
    auto mapped = output.workstation().map(*options.set_up.kernel_types);
    if (!mapped) return fail(std::move(mapped).error());
    kernel_types.emplace(std::move(*mapped));
  }
  auto object = bpf::BpfObject::open(*file, kernel_types ? &*kernel_types : nullptr);
  if (!object) return fail(std::move(object).error());
  if (auto set = apply_settings({&*object, 1}, settings); !set) return fail(std::move(set).error());
  if (auto known = check_program_names(trace::programs_of(*object, path), programs); !known)
    return fail(std::move(known).error());
  auto loaded = object->load({.only = programs});
  if (!object->verifier_log().empty()) output.detail(object->verifier_log());
  if (!loaded) return fail(std::move(loaded).error());
  trace::say_chosen_sizes(*object, path, output);
  trace::warn_of_private_stacks(*object, path, output);
  if (programs.empty()) trace::warn_of_skipped_programs(*object, path, output);
  const auto pins = pin(*object, *file, make_pin_request(options));
  if (!pins) return fail(pins.error());
  for (const bpf::Pin& pinned : *pins) output.write(pinned);
  return {};
}

Result<void> unpin_and_report(const std::string& folder, output::Output& output) {
  const auto removed = bpf::unpin(folder);
  if (!removed) return fail(removed.error());
  for (const bpf::Pin& pinned : removed->pins) output.write(pinned);
  for (const std::string& left : removed->left) output.warn(left);
  return {};
}

// Returns what is wrong with the arguments, if anything.
std::optional<std::string> mistake(const LoadOptions& options,
                                   const std::vector<std::string>& words) {
  if (options.pin.has_value() == options.unpin.has_value())
    return "one of --pin DIR and --unpin DIR is needed";
  if (options.unpin && !words.empty()) return "--unpin takes no object";
  if (options.pin && words.size() != 1) return "--pin takes one object";
  return std::nullopt;
}

// Returns the mistake if a global variable has a value that only a run knows.
std::optional<std::string> mistake_of_globals(const bpf::ObjectSettings& settings) {
  for (const auto& [name, value] : settings.globals)
    if (value == bpf::pid_value)
      return fmt::format("--set {}={}: load traces no process (expected a number, or use "
                         "attach --object, which sets the pid of its process)",
                         name, value);
  return std::nullopt;
}

} // namespace

ExitCode run_load(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("load");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  LoadOptions options;
  parser.bind("--pin", options.pin);
  parser.bind("--unpin", options.unpin);
  parser.bind("--naming", options.naming);
  parser.bind("--mode", options.mode, parse_mode);
  bind_object_options(parser, options.set_up);
  parser.bind("--program-name", options.programs);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (const auto wrong = mistake(options, words))
    return finish_with(parser.usage_error(*wrong), common);
  const auto settings = parse_object_settings(parser, options.set_up, workstation);
  if (!settings) return finish_with(settings.error(), common);
  if (const auto wrong = mistake_of_globals(*settings))
    return finish_with(parser.usage_error(*wrong), common);
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  if (auto done = options.pin ? load_and_pin(words.front(), options, *settings, **output)
                              : unpin_and_report(*options.unpin, **output);
      !done)
    (*output)->fail(done.error());
  return finish(**output);
}

} // namespace uprobectl::cli
