#include "option_parser.hpp"

#include "uprobectl/spelling.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>

namespace uprobectl::cli {

std::vector<std::string> Arguments::words() const {
  std::vector<std::string> all(positionals.begin(), positionals.end());
  all.insert(all.end(), after_dashes.begin(), after_dashes.end());
  return all;
}

struct OptionParser::Impl {
  Text text;
  CLI::App app;
  std::map<std::string, std::vector<std::string>, std::less<>> optional; // values, by name
  std::vector<std::string> extras;                                       // that CLI11 has left over
  bool help = false;
  bool version = false;

  std::string full_name() const {
    return text.command.empty() ? "uprobectl" : "uprobectl " + text.command;
  }
};

OptionParser::OptionParser(Text text) : impl_(std::make_unique<Impl>()) {
  impl_->text = std::move(text);
  CLI::App& app = impl_->app;
  app.set_help_flag(); // ours below, so that help and version need no exception
  // Positionals and unknown options come out as extras: CLI11 would take "[ab]" for a list.
  app.allow_extras();
  flag("-h,--help", impl_->help, "show this help");
  flag("-V,--version", impl_->version, "show the versions of uprobectl, LLVM and libbpf");
}

OptionParser::~OptionParser() = default;

void OptionParser::flag(const std::string& names, bool& target, const std::string& help) {
  impl_->app.add_flag(names, target, help);
}

void OptionParser::text(const std::string& names, std::optional<std::string>& target,
                        const std::string& placeholder, const std::string& help) {
  impl_->app
      .add_option_function<std::string>(
          names, [&target](const std::string& value) { target = value; }, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name(placeholder);
}

void OptionParser::optional_text(const std::string& name, std::optional<std::string>& target,
                                 std::vector<std::string> words, const std::string& placeholder,
                                 const std::string& help) {
  text(name, target, placeholder, help);
  impl_->optional.emplace(name, std::move(words));
}

void OptionParser::texts(const std::string& names, std::vector<std::string>& target,
                         const std::string& placeholder, const std::string& help) {
  impl_->app.add_option(names, target, help)->allow_extra_args(false)->type_name(placeholder);
}

Error OptionParser::usage_error(std::string message) const {
  if (!impl_->text.command.empty()) message.insert(0, impl_->text.command + ": ");
  return Error{ErrorKind::usage, std::move(message)}.hint("try '" + impl_->full_name() +
                                                          " --help'");
}

namespace {

bool looks_like_option(std::string_view argument) {
  return argument.size() >= 2 && argument[0] == '-';
}

// Where the arguments begin that are positionals for certain: behind the last option and its value,
// of which it has one at most. There may be thousands, which need not go through CLI11.
template <typename Iterator>
Iterator only_positionals(Iterator begin, Iterator end) {
  const auto behind_last = std::find_if(std::make_reverse_iterator(end),
                                        std::make_reverse_iterator(begin), looks_like_option)
                               .base();
  return behind_last == begin || behind_last == end ? behind_last : behind_last + 1;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!option->get_group().empty()) names.push_back("--" + name);
  return names;
}

// "--output: 1 required TEXT missing" -> what we say.
std::string message_of(const CLI::ParseError& error) {
  std::string what = error.what();
  const auto colon = what.find(':');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
      what.find("required") != std::string::npos && colon != std::string::npos)
    return "option '" + what.substr(0, colon) + "' needs a value";
  if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
  return what;
}

} // namespace

Result<Arguments> OptionParser::parse(std::span<const std::string_view> arguments) {
  Arguments result;
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end()) result.after_dashes.assign(dashes + 1, arguments.end());
  // CLI11 would take the next argument for the value: "--output= FILE" must not overwrite FILE.
  for (const std::string_view argument : std::ranges::subrange(arguments.begin(), dashes))
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      return fail(usage_error("option '" + std::string(argument.substr(0, argument.size() - 1)) +
                              "' needs a value behind its '='"));
  const auto tail = only_positionals(arguments.begin(), dashes);
  std::vector<std::string> options(arguments.begin(), tail);
  for (std::size_t i = 0; i < options.size(); ++i) {
    const auto known = impl_->optional.find(options[i]);
    if (known == impl_->optional.end()) continue;
    const bool has_value = i + 1 < options.size() &&
                           std::ranges::find(known->second, options[i + 1]) != known->second.end();
    if (has_value)
      ++i;
    else
      options[i] += "=" + known->second.front();
  }
  std::ranges::reverse(options); // as CLI11 takes them
  try {
    impl_->app.parse(std::move(options));
  } catch (const CLI::ParseError& error) {
    return fail(usage_error(message_of(error)));
  }
  result.help = impl_->help;
  result.version = impl_->version;
  impl_->extras = impl_->app.remaining();
  for (const std::string& extra : impl_->extras) {
    if (!looks_like_option(extra)) {
      result.positionals.push_back(extra);
      continue;
    }
    const std::string name = extra.substr(0, extra.find('='));
    if (!impl_->text.without.empty())
      return fail(usage_error("option '" + name + "' does not go with " + impl_->text.without));
    Error error = usage_error("unknown option '" + name + "'");
    const auto near = nearest(name, option_names(impl_->app));
    if (!near.empty()) error.hints.insert(error.hints.begin(), did_you_mean(near));
    return fail(std::move(error));
  }
  result.positionals.insert(result.positionals.end(), tail, dashes);
  return result;
}

std::string OptionParser::help() const {
  const Text& text = impl_->text;
  std::string help =
      "usage: uprobectl " + text.usage + "\n\n" + text.description + "\n\noptions:\n";
  for (const CLI::Option* option : impl_->app.get_options()) {
    if (option->get_group().empty()) continue; // hidden
    std::string line;
    for (const std::string& name : option->get_snames())
      line += (line.empty() ? "  -" : ", -") + name;
    for (const std::string& name : option->get_lnames())
      line += (line.empty() ? "  --" : ", --") + name;
    const bool optional = impl_->optional.contains(option->get_name());
    if (optional)
      line += "[=" + option->get_type_name() + "]";
    else if (option->get_type_size() > 0)
      line += " " + option->get_type_name();
    constexpr std::size_t column = 28;
    line.append(line.size() < column ? column - line.size() : 2, ' ');
    help += line + option->get_description() + "\n";
  }
  return text.examples.empty() ? help : help + "\nexamples:\n" + text.examples;
}

} // namespace uprobectl::cli
