// SPDX-License-Identifier: Apache-2.0
#include "option_parser.hpp"

#include "util/spelling.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <stdexcept>

namespace uprobectl::cli {

std::vector<std::string> Arguments::words() const {
  std::vector<std::string> all(positionals.begin(), positionals.end());
  all.insert(all.end(), after_dashes.begin(), after_dashes.end());
  return all;
}

namespace {

const CommandSpec& find_command_spec(std::string_view command) {
  const auto specs = command_specs();
  const auto found = std::ranges::find(specs, command, &CommandSpec::name);
  if (found == specs.end()) throw std::logic_error("no such command: " + std::string(command));
  return *found;
}

template <typename Visit>
void for_each_part(std::string_view list, Visit visit) {
  while (true) {
    const auto comma = std::min(list.find(','), list.size());
    visit(list.substr(0, comma));
    if (comma == list.size()) return;
    list.remove_prefix(comma + 1);
  }
}

// The name used in messages.
std::string_view first_name(const OptionSpec& spec) {
  return spec.names.substr(0, spec.names.find(','));
}

// "auto, always or never"
std::string alternatives(std::span<const std::string_view> words) {
  if (words.size() == 1) return std::string(words.front());
  return fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back());
}

// Returns a message if the value is not one of the option's choices, else an empty string.
std::string wrong_choice(const OptionSpec& spec, const std::string& value) {
  std::string wrong;
  const auto check = [&](std::string_view word) {
    if (!wrong.empty() || std::ranges::find(spec.choices, word) != spec.choices.end()) return;
    wrong = fmt::format("invalid value '{}' for {} (expected {})", word, first_name(spec),
                        alternatives(spec.choices));
  };
  if (spec.list && !value.empty())
    for_each_part(value, check);
  else if (!spec.list)
    check(value);
  return wrong;
}

} // namespace

bool has_name(const OptionSpec& option, std::string_view name) {
  // Called a thousand times in each run, so it does not split the list.
  for (std::size_t at = option.names.find(name); at != std::string_view::npos;
       at = option.names.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || option.names[at - 1] == ',') &&
        (end == option.names.size() || option.names[end] == ','))
      return true;
  }
  return false;
}

struct OptionParser::Impl {
  const CommandSpec& spec;
  CLI::App app;
  std::map<const OptionSpec*, CLI::Option*> options;
  std::vector<std::string> extras; // the arguments that CLI11 did not parse

  explicit Impl(std::string_view command) : spec(find_command_spec(command)) {}

  std::string full_name() const {
    return spec.name.empty() ? "uprobectl" : "uprobectl " + std::string(spec.name);
  }

  // Finds an option by any of its names.
  const OptionSpec& option_spec(std::string_view name) const {
    const auto found = std::ranges::find_if(
        spec.options, [&](const OptionSpec& option) { return has_name(option, name); });
    if (found == spec.options.end())
      throw std::logic_error(full_name() + " has no option " + std::string(name));
    return *found;
  }

  CLI::Option* option(std::string_view name) const {
    const auto found = options.find(&option_spec(name));
    if (found == options.end())
      throw std::logic_error(full_name() + ": option " + std::string(name) + " is not bound");
    return found->second;
  }

  void add(const OptionSpec& option, CLI::Option* added) {
    added->type_name(std::string(option.value));
    if (!option.choices.empty())
      added->check([&option](const std::string& value) { return wrong_choice(option, value); });
    options.emplace(&option, added);
  }

  // Returns the option group of these options; creates it at the first call.
  CLI::App* group_of(std::span<const std::string_view> names) {
    const std::string name = alternatives(names);
    for (CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; }))
      if (group->get_group() == name) return group;
    CLI::Option_group* const group = app.add_option_group(name);
    for (const std::string_view member : names) group->add_option(option(member));
    return group;
  }

  void relate() {
    for (const OptionSpec& each : spec.options) {
      const std::string_view name = first_name(each);
      CLI::Option* const needing = option(name);
      if (each.needs.size() == 1) needing->needs(option(each.needs.front()));
      // In CLI11 only groups can need one of several options.
      if (each.needs.size() > 1) group_of(std::span(&name, 1))->needs(group_of(each.needs));
    }
    for (const OptionConflict& conflict : spec.conflicts)
      option(conflict.option)->excludes(option(conflict.other));
  }

  // Translates a name in CLI11's messages, "--pid" or "[Option Group: --interval]", to the first
  // name of the option.
  std::string_view named(std::string_view text) const {
    constexpr std::string_view group = "[Option Group: ";
    if (text.starts_with(group)) return text.substr(group.size(), text.size() - group.size() - 1);
    return first_name(option_spec(text));
  }

  Error conflict_error(std::string_view one, std::string_view another) const {
    for (const OptionConflict& conflict : spec.conflicts) {
      if ((conflict.option != one || conflict.other != another) &&
          (conflict.option != another || conflict.other != one))
        continue;
      Error error{ErrorKind::usage, std::string(conflict.message)};
      if (!conflict.hint.empty()) error.hints.emplace_back(conflict.hint);
      return error;
    }
    throw std::logic_error(fmt::format("{} and {} do not conflict", one, another));
  }

  // Translates an error of CLI11.
  Error convert_error(const CLI::ParseError& error) const {
    const std::string_view what = error.what();
    const auto side = [&](std::string_view verb, bool left) {
      const auto at = what.find(verb);
      return named(left ? what.substr(0, at) : what.substr(at + verb.size()));
    };
    std::string message(what);
    if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr)
      message = option_spec(side(" requires ", true)).needs_message;
    else if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr)
      return conflict_error(side(" excludes ", true), side(" excludes ", false));
    else if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr)
      message.erase(0, what.find(": ") + 2); // the option's name
    else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
             what.find("required") != std::string_view::npos)
      message = fmt::format("option '{}' needs a value", what.substr(0, what.find(':')));
    else if (!message.empty())
      message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    return Error{ErrorKind::usage, std::move(message)};
  }

  std::vector<std::string> with_default_values(std::span<const std::string_view> arguments) const;
  std::vector<std::string> option_names() const;
};

OptionParser::OptionParser(std::string_view command) : impl_(std::make_unique<Impl>(command)) {
  CLI::App& app = impl_->app;
  // Positionals and unknown options come out as extras: CLI11 would take "[ab]" for a list.
  app.allow_extras();
  const OptionSpec& help = impl_->option_spec("--help");
  impl_->options.emplace(&help, app.set_help_flag(std::string(help.names)));
  for (const std::string_view name : {"--help-all", "--version"}) {
    const OptionSpec& spec = impl_->option_spec(name);
    impl_->options.emplace(&spec, app.add_flag(std::string(spec.names)));
  }
}

OptionParser::~OptionParser() = default;

void OptionParser::bind(std::string_view name, bool& target) {
  const OptionSpec& spec = impl_->option_spec(name);
  impl_->add(spec, impl_->app.add_flag(std::string(spec.names), target));
}

void OptionParser::bind(std::string_view name, std::optional<std::string>& target) {
  bind_reader(name, [&target](const std::string& value) -> Result<void> {
    target = value;
    return {};
  });
}

void OptionParser::bind(std::string_view name, std::vector<std::string>& target) {
  const OptionSpec& spec = impl_->option_spec(name);
  impl_->add(spec, impl_->app.add_option(std::string(spec.names), target)->allow_extra_args(false));
}

void OptionParser::bind_reader(std::string_view name, Reader read) {
  const OptionSpec& spec = impl_->option_spec(name);
  const auto take = [read = std::move(read)](const std::string& value) {
    if (const auto done = read(value); !done)
      throw CLI::ConversionError(done.error().message, CLI::ExitCodes::ConversionError);
  };
  impl_->add(spec, impl_->app.add_option_function<std::string>(std::string(spec.names), take)
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

void OptionParser::bind_all(std::deque<GivenOption>& given) {
  for (const OptionSpec& spec : impl_->spec.options) {
    GivenOption& option = given.emplace_back(&spec);
    if (impl_->options.contains(&spec)) continue; // --help and the like
    if (spec.value.empty())
      bind(first_name(spec), option.flag);
    else
      bind(first_name(spec), option.values);
  }
}

std::string OptionParser::full_name() const { return impl_->full_name(); }

Error OptionParser::usage_error(std::string message) const {
  if (!impl_->spec.name.empty()) message.insert(0, std::string(impl_->spec.name) + ": ");
  return Error{ErrorKind::usage, std::move(message)}.hint("try '" + impl_->full_name() +
                                                          " --help'");
}

namespace {

// "-[Class method]" is a function of Objective-C.
bool looks_like_option(std::string_view argument) {
  return argument.size() >= 2 && argument[0] == '-' && argument[1] != '[';
}

// Returns the first of the trailing arguments that must be positionals: after the last option and
// its value. There may be thousands of them, so they are not passed to CLI11.
template <typename Iterator>
Iterator find_trailing_positionals(Iterator begin, Iterator end) {
  const auto behind_last = std::find_if(std::make_reverse_iterator(end),
                                        std::make_reverse_iterator(begin), looks_like_option)
                               .base();
  return behind_last == begin || behind_last == end ? behind_last : behind_last + 1;
}

} // namespace

// Adds the default value to options with an optional value that is not given. The next word is the
// value only if it is one of the choices; else it may be a TARGET.
std::vector<std::string>
OptionParser::Impl::with_default_values(std::span<const std::string_view> arguments) const {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto known = std::ranges::find_if(spec.options, [&](const OptionSpec& option) {
      return option.optional && has_name(option, words[i]);
    });
    if (known == spec.options.end()) continue;
    const bool has_value =
        i + 1 < words.size() &&
        (words[i + 1] == known->default_value ||
         std::ranges::find(known->choices, std::string_view(words[i + 1])) != known->choices.end());
    if (has_value)
      ++i;
    else
      words[i].append("=").append(known->default_value);
  }
  return words;
}

std::vector<std::string> OptionParser::Impl::option_names() const {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec.options)
    for_each_part(option.names, [&](std::string_view name) {
      if (name.starts_with("--")) names.emplace_back(name);
    });
  return names;
}

Error OptionParser::unknown_option(const std::string& name) const {
  Error error = usage_error("unknown option '" + name + "'");
  const auto known = std::ranges::find(impl_->spec.other_tools, name, &OtherToolOption::name);
  if (known != impl_->spec.other_tools.end()) {
    error.hints.insert(error.hints.begin(), std::string(known->hint));
    return error;
  }
  const auto near = nearest(name, impl_->option_names());
  if (!near.empty()) error.hints.insert(error.hints.begin(), did_you_mean(near));
  return error;
}

Result<Arguments> OptionParser::parse(std::span<const std::string_view> arguments) {
  impl_->relate();
  CLI::App& app = impl_->app;
  Arguments result;
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end()) result.after_dashes.assign(dashes + 1, arguments.end());
  for (const std::string_view argument : std::ranges::subrange(arguments.begin(), dashes)) {
    const auto equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string_view::npos) continue;
    const std::string_view name = argument.substr(0, equals);
    if (std::ranges::any_of(impl_->spec.options, [&](const OptionSpec& option) {
          return option.value.empty() && has_name(option, name);
        }))
      return fail(usage_error(fmt::format("option '{}' takes no value", name)));
    // CLI11 would use the next argument as the value: "--output= FILE" must not overwrite FILE.
    if (equals + 1 == argument.size())
      return fail(usage_error(fmt::format("option '{}' needs a value after '='", name)));
  }
  const auto tail = find_trailing_positionals(arguments.begin(), dashes);
  auto options = impl_->with_default_values({arguments.begin(), tail});
  std::ranges::reverse(options); // CLI11 expects them in reverse order
  std::optional<Error> wrong;
  try {
    app.parse(std::move(options));
  } catch (const CLI::CallForHelp&) {
    result.help = true;
  } catch (const CLI::ParseError& error) {
    const Error converted = impl_->convert_error(error);
    wrong = usage_error(converted.message);
    wrong->hints.insert(wrong->hints.end(), converted.hints.begin(), converted.hints.end());
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
      return fail(std::move(*wrong)); // what follows is not parsed
  }
  impl_->extras = app.remaining();
  for (const std::string& extra : impl_->extras) {
    if (!looks_like_option(extra)) {
      result.positionals.push_back(extra);
      continue;
    }
    const std::string name = extra.substr(0, extra.find('='));
    Error error = unknown_option(name);
    // "attach libc.so.6 malloc ls -l"
    if (result.positionals.size() > 2 &&
        impl_->spec.help.find("-- COMMAND") != std::string_view::npos)
      error.hints.insert(error.hints.begin(), "write -- before the command, for example: -- ls -l");
    return fail(std::move(error));
  }
  result.positionals.insert(result.positionals.end(), tail, dashes);
  // Help is given even if the other options are wrong.
  result.help = app.get_help_ptr()->count() > 0;
  result.help_all = impl_->option("--help-all")->count() > 0;
  result.version = impl_->option("--version")->count() > 0;
  if (wrong && !result.help && !result.help_all && !result.version) return fail(std::move(*wrong));
  return result;
}

std::string_view OptionParser::help(bool all) const {
  return all ? impl_->spec.full_help : impl_->spec.help;
}

} // namespace uprobectl::cli
