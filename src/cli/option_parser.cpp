// SPDX-License-Identifier: Apache-2.0
#include "option_parser.hpp"

#include "option_values.hpp"
#include "util/numbers.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <ranges>
#include <stdexcept>

namespace uprobectl::cli {

std::vector<std::string_view> Arguments::views() const {
  auto all = positionals;
  all.insert(all.end(), after_dashes.begin(), after_dashes.end());
  return all;
}

std::vector<std::string> Arguments::words() const {
  const auto all = views();
  return {all.begin(), all.end()};
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

namespace {

// "-[Class method]" is a function of Objective-C.
bool looks_like_option(std::string_view argument) {
  return argument.size() >= 2 && argument[0] == '-' && argument[1] != '[';
}

const OptionSpec* find_option(const CommandSpec& command, std::string_view name) {
  const auto found = std::ranges::find_if(
      command.options, [&](const OptionSpec& option) { return has_name(option, name); });
  return found == command.options.end() ? nullptr : &*found;
}

// An option of a command line for which another spelling was typed.
struct Replacement {
  std::size_t token;       // its index
  std::string_view option; // "--stack"
  std::string name;        // "--call-graph"
  std::string typed;       // "--call-graph fp"
};

bool is_same_file(const std::string& path, const std::string& other) {
  namespace fs = std::filesystem;
  std::error_code error; // if one does not exist
  return fs::equivalent(path, other, error) && fs::is_regular_file(path, error);
}

// Returns what may be files among the words other than options: the first `targets` ones, the
// program of a command, paths, and what "ARCHIVE!/ENTRY", "TARGET:FUNCTION" and "FILE:LINE" begin
// with. A word without a slash is else the name of a function.
std::vector<std::string> named_files(const Arguments& arguments, std::size_t targets) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < arguments.positionals.size(); ++i) {
    const std::string_view word = arguments.positionals[i];
    if (i < targets || word.contains('/')) files.emplace_back(word);
    for (std::size_t end = word.find_first_of("!:"); end != std::string_view::npos;
         end = word.find_first_of("!:", end + 1))
      files.emplace_back(word.substr(0, end));
  }
  if (!arguments.after_dashes.empty()) files.emplace_back(arguments.after_dashes.front());
  return files;
}

// Replaces the other spellings of a command line, and adds values that were omitted.
class TokenReader {
public:
  TokenReader(const CommandSpec& command, std::span<const std::string_view> arguments)
      : command_(command), arguments_(arguments) {}

  Result<void> run() {
    while (at_ < arguments_.size()) {
      std::string token(arguments_[at_++]);
      if (!looks_like_option(token)) {
        tokens_.push_back(std::move(token));
        continue;
      }
      const bool is_short = token[1] != '-';
      // "-rg" is "-r -g".
      while (is_short && token.size() > 2 && is_flag(std::string_view(token).substr(0, 2))) {
        if (auto added = add(token.substr(0, 2), std::nullopt); !added) return added;
        token.erase(1, 1);
      }
      const std::size_t end = is_short ? 2 : std::min(token.find('='), token.size());
      if (end == token.size()) {
        if (auto added = add(token, std::nullopt); !added) return added;
      } else if (find_spelling(token.substr(0, end)) == nullptr) {
        tokens_.push_back(std::move(token));
      } else if (auto added = add(token.substr(0, end), token.substr(end + (is_short ? 0 : 1)));
                 !added) {
        return added;
      }
    }
    return {};
  }

  std::vector<std::string>& tokens() { return tokens_; }
  std::vector<Replacement>& replacements() { return replacements_; }

private:
  const Spelling* find_spelling(std::string_view name,
                                std::optional<std::string_view> value = std::nullopt) const {
    const auto found = std::ranges::find_if(command_.spellings, [&](const Spelling& each) {
      return each.name == name &&
             (!value || (value->starts_with(each.begins) &&
                         (!each.number || parse_number<std::uint32_t>(*value))));
    });
    return found == command_.spellings.end() ? nullptr : &*found;
  }

  bool is_flag(std::string_view name) const {
    if (const Spelling* const spelling = find_spelling(name)) return spelling->value.empty();
    const OptionSpec* const option = find_option(command_, name);
    return option != nullptr && option->value.empty();
  }

  // Adds an option, with the next token if that is its value.
  Result<void> add(const std::string& name, std::optional<std::string> value) {
    const std::string_view next = at_ < arguments_.size() ? arguments_[at_] : std::string_view();
    const bool has_next = at_ < arguments_.size() && !value;
    if (const Spelling* const spelling = find_spelling(name)) {
      if (has_next && !spelling->value.empty()) value = arguments_[at_++];
      return replace(*find_spelling(name, value), name, value.value_or(""));
    }
    tokens_.push_back(name);
    const OptionSpec* const option = find_option(command_, name);
    if (option == nullptr || option->value.empty()) return {};
    if (!option->optional) {
      if (!has_next) return {};
      tokens_.emplace_back(arguments_[at_++]);
      // "MAP KEY=VALUE" is two words, or one with a blank.
      if (option->value.contains(' ') && at_ < arguments_.size() && !next.contains(' '))
        tokens_.back().append(" ").append(arguments_[at_++]);
      return {};
    }
    // The next token is the value only if it is one of the choices; else it may be a TARGET.
    const bool is_value =
        has_next && (next == option->default_value ||
                     std::ranges::find(option->choices, next) != option->choices.end());
    tokens_.back().append("=").append(is_value ? next : option->default_value);
    if (is_value) ++at_;
    return {};
  }

  Result<void> replace(const Spelling& spelling, const std::string& name, std::string_view value) {
    if (spelling.max_bytes != 0 && value.size() > spelling.max_bytes)
      return fail(ErrorKind::usage,
                  fmt::format("invalid value '{}' for {} (expected {} of at most {} bytes)", value,
                              name, spelling.value, spelling.max_bytes));
    const std::string typed = spelling.value.empty() ? name : fmt::format("{} {}", name, value);
    value.remove_prefix(std::min(spelling.begins.size(), value.size()));
    if (!spelling.value.empty() && value.empty())
      return fail(ErrorKind::usage, fmt::format("option '{}' needs a value", name));
    std::string_view rest = spelling.becomes;
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find(" --"));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      add_replaced(spelling, part, value,
                   {.token = tokens_.size(),
                    .option = part.substr(0, part.find('=')),
                    .name = name,
                    .typed = typed});
    }
    return {};
  }

  void add_replaced(const Spelling& spelling, std::string_view part, std::string_view value,
                    Replacement made) {
    const std::size_t at = std::min(part.find("{}"), part.size());
    const bool is_quoted = part.substr(0, at).ends_with('"');
    std::string& values = values_[&spelling];
    if (spelling.joined.empty())
      values.clear();
    else if (!values.empty())
      values += is_quoted ? R"(",")" : ",";
    for (const char each : value) {
      if (is_quoted && (each == '"' || each == '\\')) values += '\\';
      values += each;
    }
    const auto filled_in = [&](std::string_view text, const std::string& by) {
      const std::size_t hole = text.find("{}");
      if (hole == std::string_view::npos) return std::string(text);
      return fmt::format("{}{}{}", text.substr(0, hole), by, text.substr(hole + 2));
    };
    const auto first = std::ranges::find(replacements_, made.name, &Replacement::name);
    if (spelling.joined.empty() || first == replacements_.end()) {
      tokens_.push_back(filled_in(part, values));
      replacements_.push_back(std::move(made));
      return;
    }
    std::string condition;
    for (const auto& [row, members] : values_) {
      if (row->name != made.name) continue;
      if (!condition.empty()) condition += row->joined;
      condition += filled_in(row->becomes.substr(made.option.size() + 1), members);
    }
    tokens_[first->token] = fmt::format("{}={}", made.option, condition);
  }

  const CommandSpec& command_;
  std::span<const std::string_view> arguments_;
  std::size_t at_ = 0;
  std::vector<std::string> tokens_;
  std::vector<Replacement> replacements_;
  std::map<const Spelling*, std::string> values_; // all values of those that are joined
};

// Whether an argument is this option, without or with a value.
bool has_option(std::string_view argument, std::string_view option) {
  return argument.starts_with(option) &&
         (argument.size() == option.size() || argument[option.size()] == '=');
}

// Replaces each `token` that is not a part of another option.
void replace_option(std::string& text, std::string_view token, std::string_view by) {
  for (std::size_t at = text.find(token); at != std::string::npos; at = text.find(token, at)) {
    const std::size_t end = at + token.size();
    const char next = end < text.size() ? text[end] : ' ';
    if (next == '-' || next == '=' || std::isalnum(static_cast<unsigned char>(next)) != 0) {
      at = end;
      continue;
    }
    text.replace(at, token.size(), by);
    at += by.size();
  }
}

} // namespace

Result<std::vector<std::string>> read_tokens(const CommandSpec& command,
                                             std::span<const std::string_view> arguments) {
  TokenReader reader(command, arguments);
  if (auto done = reader.run(); !done) return fail(std::move(done).error());
  return std::move(reader.tokens());
}

struct OptionParser::Impl {
  const CommandSpec& spec;
  CLI::App app;
  std::map<const OptionSpec*, CLI::Option*> options;
  std::vector<std::string> extras; // the arguments that CLI11 did not parse
  std::vector<Replacement> replacements;
  std::vector<std::string> tokens; // the options and their values, without other spellings

  explicit Impl(std::string_view command) : spec(find_command_spec(command)) {}

  std::string full_name() const {
    return spec.name.empty() ? "uprobectl" : "uprobectl " + std::string(spec.name);
  }

  // Finds an option by any of its names.
  const OptionSpec& option_spec(std::string_view name) const {
    const OptionSpec* const found = find_option(spec, name);
    if (found == nullptr)
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

  // Checks what options need, and that they can be combined. CLI11 cannot: there an option is in
  // one set of alternatives only.
  Result<void> check_relations() const {
    std::vector<std::string_view> given; // first names
    for (const auto& [each, parsed] : options)
      if (parsed->count() > 0) given.push_back(first_name(*each));
    const auto is_given = [&](std::string_view name) {
      return std::ranges::find(given, first_name(option_spec(name))) != given.end();
    };
    for (const OptionSpec& each : spec.options)
      if (!each.needs.empty() && is_given(first_name(each)) &&
          std::ranges::none_of(each.needs, is_given))
        return fail(ErrorKind::usage, std::string(each.needs_message));
    for (const OptionConflict& each : spec.conflicts) {
      if (std::ranges::find(given, each.option) == given.end() ||
          std::ranges::find(given, each.other) == given.end())
        continue;
      Error error{ErrorKind::usage, std::string(each.message)};
      if (!each.hint.empty()) error.hints.emplace_back(each.hint);
      return fail(std::move(error));
    }
    return {};
  }

  // Returns the files that the command line names to be read.
  std::vector<std::string> find_inputs(const Arguments& arguments) const {
    std::vector<std::string> inputs;
    std::size_t targets = spec.name == "diff" ? 2 : 1;
    for (const auto& [each, parsed] : options) {
      // With a record or a plan each word is a TARGET.
      if (parsed->count() > 0 && (has_name(*each, "--verify") || has_name(*each, "--plan")))
        targets = arguments.positionals.size();
      for (const std::string& value : parsed->results()) {
        if (each->file_use == FileUse::input || each->file_use == FileUse::device)
          inputs.push_back(value);
        if (each->file_use == FileUse::mentioned)
          for (std::string& path : mentioned_files(value)) inputs.push_back(std::move(path));
      }
    }
    for (std::string& path : named_files(arguments, targets)) inputs.push_back(std::move(path));
    return inputs;
  }

  // Opening an output truncates it, so it must be no input.
  Result<void> check_outputs(const Arguments& arguments) const {
    const std::vector<std::string> inputs = find_inputs(arguments);
    for (const auto& [each, parsed] : options) {
      if (each->file_use != FileUse::output) continue;
      for (const std::string& output : parsed->results()) {
        const auto input = std::ranges::find_if(
            inputs, [&](const std::string& path) { return is_same_file(path, output); });
        if (input != inputs.end())
          return fail(ErrorKind::usage,
                      fmt::format("{} would overwrite '{}', which the command reads",
                                  first_name(*each), *input));
      }
    }
    return {};
  }

  // Translates an error of CLI11.
  static std::string convert_error(const CLI::ParseError& error) {
    std::string message = error.what();
    if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr)
      message.erase(0, message.find(": ") + 2); // the option's name
    else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
             message.find("required") != std::string::npos)
      message = fmt::format("option '{}' needs a value", message.substr(0, message.find(':')));
    else if (!message.empty())
      message[0] = lower_case(message[0]);
    return message;
  }

  // Sets `tokens`.
  Result<void> read_tokens(std::span<const std::string_view> arguments);
  Result<void> check_replacements() const;
  bool is_replaced(std::size_t token) const {
    return std::ranges::find(replacements, token, &Replacement::token) != replacements.end();
  }
  std::string as_typed(std::string message) const;
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
  message = impl_->as_typed(std::move(message));
  if (!impl_->spec.name.empty()) message.insert(0, std::string(impl_->spec.name) + ": ");
  return Error{ErrorKind::usage, std::move(message)}.hint("try '" + impl_->full_name() +
                                                          " --help'");
}

namespace {

// Returns the first of the trailing arguments that must be positionals: after the last option and
// its value of at most two words. There may be thousands of them, so they are not passed to CLI11.
template <typename Iterator>
Iterator find_trailing_positionals(Iterator begin, Iterator end) {
  const auto after_last = std::find_if(std::make_reverse_iterator(end),
                                       std::make_reverse_iterator(begin), looks_like_option)
                              .base();
  if (after_last == begin) return begin;
  return std::ranges::next(after_last, 2, end);
}

} // namespace

Result<void> OptionParser::Impl::read_tokens(std::span<const std::string_view> arguments) {
  TokenReader reader(spec, arguments);
  if (auto done = reader.run(); !done) return done;
  tokens = std::move(reader.tokens());
  replacements = std::move(reader.replacements());
  return check_replacements();
}

// If an option has two values, the last one is used, unless one of them was written with another
// name of the option.
Result<void> OptionParser::Impl::check_replacements() const {
  for (const Replacement& each : std::views::reverse(replacements)) {
    if (option(each.option)->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeLast)
      continue;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!has_option(tokens[i], each.option)) continue;
      const bool has_next = tokens[i] == each.option && i + 1 < tokens.size();
      const std::string other = has_next ? tokens[i] + "=" + tokens[i + 1] : tokens[i];
      if (other == tokens[each.token]) continue;
      const auto typed = std::ranges::find(replacements, i, &Replacement::token);
      return fail(ErrorKind::usage,
                  fmt::format("{} cannot be combined with {}", each.typed,
                              typed == replacements.end() ? other : typed->typed));
    }
  }
  return {};
}

// Names options that were typed with another spelling only by that.
std::string OptionParser::Impl::as_typed(std::string message) const {
  for (const Replacement& each : replacements) {
    bool is_typed = false; // with its own name, too
    for (std::size_t i = 0; i < tokens.size(); ++i)
      is_typed = is_typed || (has_option(tokens[i], each.option) && !is_replaced(i));
    if (is_typed) continue;
    replace_option(message, tokens[each.token], each.typed);
    replace_option(message, each.option, each.name);
  }
  return message;
}

std::vector<std::string> OptionParser::Impl::option_names() const {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec.options)
    for_each_part(option.names, [&](std::string_view name) {
      if (name.starts_with("--")) names.emplace_back(name);
    });
  for (const Spelling& each : spec.spellings)
    if (each.name.starts_with("--")) names.emplace_back(each.name);
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
  for (const OptionSpec& each : impl_->spec.options)
    if (!impl_->options.contains(&each))
      throw std::logic_error(fmt::format("{}: option {} is not bound", full_name(), each.names));
  CLI::App& app = impl_->app;
  Arguments result;
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end()) result.after_dashes.assign(dashes + 1, arguments.end());
  for (const std::string_view argument : std::ranges::subrange(arguments.begin(), dashes)) {
    const auto equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string_view::npos) continue;
    const std::string_view name = argument.substr(0, equals);
    if (std::ranges::any_of(impl_->spec.options,
                            [&](const OptionSpec& option) {
                              return option.value.empty() && has_name(option, name);
                            }) ||
        std::ranges::any_of(impl_->spec.spellings, [&](const Spelling& each) {
          return each.value.empty() && each.name == name;
        }))
      return fail(usage_error(fmt::format("option '{}' takes no value", name)));
    // CLI11 would use the next argument as the value: "--output= FILE" must not overwrite FILE.
    if (equals + 1 == argument.size())
      return fail(usage_error(fmt::format("option '{}' needs a value after '='", name)));
  }
  const auto tail = find_trailing_positionals(arguments.begin(), dashes);
  if (auto read = impl_->read_tokens({arguments.begin(), tail}); !read)
    return fail(usage_error(std::move(read).error().message));
  std::vector<std::string> options(impl_->tokens.rbegin(),
                                   impl_->tokens.rend()); // as CLI11 expects
  std::optional<Error> wrong;
  try {
    app.parse(std::move(options));
  } catch (const CLI::CallForHelp&) {
    result.help = true;
  } catch (const CLI::ParseError& error) {
    wrong = usage_error(Impl::convert_error(error));
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
  if (result.help || result.help_all || result.version) return result;
  if (!wrong)
    if (auto checked = impl_->check_relations(); !checked) {
      wrong = usage_error(checked.error().message);
      wrong->hints.insert(wrong->hints.end(), checked.error().hints.begin(),
                          checked.error().hints.end());
    }
  if (!wrong)
    if (auto checked = impl_->check_outputs(result); !checked)
      wrong = usage_error(checked.error().message);
  if (wrong) return fail(std::move(*wrong));
  return result;
}

std::string_view OptionParser::help(bool all) const {
  return all ? impl_->spec.full_help : impl_->spec.help;
}

} // namespace uprobectl::cli
