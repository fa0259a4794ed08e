#include "commands.hpp"
#include "console.hpp"
#include "program_options.hpp"
#include "uprobectl/bpf/object.hpp"

#include <charconv>

namespace uprobectl::cli {

namespace {

struct LoadOptions {
  std::optional<std::string> pin;
  std::optional<std::string> unpin;
  std::optional<std::string> naming;
  std::optional<std::string> mode;
  std::vector<std::string> settings;
};

using Settings = std::vector<std::pair<std::string, std::string>>;

Result<PinRequest> make_pin_request(const OptionParser& parser, const LoadOptions& options) {
  PinRequest request{.folder = *options.pin};
  const std::string naming = options.naming.value_or("plain");
  if (naming != "plain" && naming != "uprobestats")
    return fail(parser.usage_error("'" + naming + "' is no --naming, it is plain or uprobestats"));
  if (naming == "uprobestats") request.naming = PinNaming::uprobestats;
  if (!options.mode) return request;
  mode_t mode = 0;
  constexpr mode_t most = 0777;
  const char* const last = options.mode->data() + options.mode->size();
  const auto [end, error] = std::from_chars(options.mode->data(), last, mode, 8);
  if (error != std::errc() || end != last || mode > most)
    return fail(parser.usage_error("'" + *options.mode + "' is no --mode, it is octal: 0660"));
  request.mode = mode;
  return request;
}

Result<std::vector<Pin>> load_and_pin(const std::string& path, const PinRequest& request,
                                      const Settings& settings, const Console& console) {
  auto object = BpfObject::open(path);
  if (!object) return fail(std::move(object).error());
  for (const auto& [name, value] : settings)
    if (auto set = object->set_global(name, value); !set) return fail(std::move(set).error());
  auto loaded = object->load();
  if (!object->verifier_log().empty()) console.reporter().detail(object->verifier_log());
  if (!loaded) return fail(std::move(loaded).error());
  return pin(*object, request);
}

// What is wrong with how it was asked, if anything.
std::optional<std::string> mistake(const LoadOptions& options,
                                   const std::vector<std::string>& words) {
  if (options.pin.has_value() == options.unpin.has_value())
    return "one of --pin DIR and --unpin DIR is needed";
  if (options.unpin && !words.empty()) return "--unpin takes no object";
  if (options.pin && words.size() != 1) return "--pin takes one object";
  return std::nullopt;
}

} // namespace

ExitCode run_load(std::span<const std::string_view> arguments) {
  OptionParser parser(
      {.command = "load",
       .usage = "load OBJECT.o --pin DIR | --unpin DIR",
       .description =
           "Loads a BPF object and pins its programs and maps, all or none; prints KIND NAME PATH.\n"
           "--unpin takes away what --pin has made there, and nothing else. Needs root, or CAP_BPF "
           "and CAP_PERFMON.",
       .examples = "  uprobectl load calls.bpf.o --pin /sys/fs/bpf/calls\n"
                   "  uprobectl load --unpin /sys/fs/bpf/calls\n"});
  CommonOptions common;
  add_common_options(parser, common);
  LoadOptions options;
  parser.text("--pin", options.pin, "DIR", "a folder in a bpf file system, made if not there");
  parser.text("--unpin", options.unpin, "DIR", "take away what --pin made in this folder");
  parser.text("--naming", options.naming, "HOW",
              "plain: their own names; uprobestats: prog_OBJECT_SECTION, map_OBJECT_MAP");
  parser.text("--mode", options.mode, "MODE", "the pins' mode, octal (default 0600)");
  parser.texts("--set", options.settings, "NAME=VALUE",
               "give a global variable its value before loading; repeatable");
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (const auto wrong = mistake(options, words))
    return finish_with(parser.usage_error(*wrong), common);
  const auto settings = parse_settings(parser, options.settings);
  if (!settings) return finish_with(settings.error(), common);
  std::optional<PinRequest> request;
  if (options.pin) {
    auto made = make_pin_request(parser, options);
    if (!made) return finish_with(made.error(), common);
    request = std::move(*made);
  }
  const auto console = Console::open(common);
  if (!console) return finish_with(console.error(), common);
  const auto pins =
      request ? load_and_pin(words.front(), *request, *settings, **console) : unpin(*options.unpin);
  if (!pins) {
    (*console)->fail(pins.error());
    return (*console)->finish();
  }
  for (const Pin& pinned : *pins) (*console)->sink().pinned(pinned);
  return (*console)->finish();
}

} // namespace uprobectl::cli
