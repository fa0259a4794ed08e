// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "util/spelling.hpp"

#include <algorithm>

namespace uprobectl::cli {

namespace {

Error unknown_topic(const OptionParser& parser, const std::string& name) {
  std::vector<std::string> names;
  for (const HelpTopic& topic : help_topics()) names.emplace_back(topic.name);
  for (const CommandSpec& command : command_specs())
    if (!command.name.empty()) names.emplace_back(command.name);
  Error error = parser.usage_error("unknown topic or command '" + name + "'");
  const auto near = nearest(name, names);
  if (!near.empty()) error.hints.insert(error.hints.begin(), did_you_mean(near));
  return error;
}

} // namespace

ExitCode run_help(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("help");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  std::string name;
  for (const std::string& word : parsed->words()) name.append(name.empty() ? "" : " ").append(word);
  // TARGET, as usage lines have it.
  if (std::ranges::all_of(name, [](char letter) { return letter >= 'A' && letter <= 'Z'; }))
    std::ranges::transform(name, name.begin(),
                           [](char letter) { return static_cast<char>(letter - 'A' + 'a'); });
  const auto topics = help_topics();
  const auto topic = std::ranges::find(topics, name, &HelpTopic::name);
  if (topic != topics.end()) return print(topic->text, options);
  const auto commands = command_specs();
  // An empty name selects the help of the whole program.
  const auto command = std::ranges::find(commands, name, &CommandSpec::name);
  if (command != commands.end()) return print(command->help, options);
  return finish_with(unknown_topic(parser, name), options);
}

} // namespace uprobectl::cli
