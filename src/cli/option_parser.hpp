// Parses the arguments of one subcommand with CLI11, by the table of options. The only file that
// knows CLI11.
#pragma once

#include "option_table.hpp"
#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::cli {

struct Arguments {
  // In order; views of the arguments or of what the parser keeps, as there may be thousands.
  std::vector<std::string_view> positionals;
  std::vector<std::string_view> after_dashes; // what follows "--"
  bool help = false;
  bool help_all = false;
  bool version = false;

  // All words that are not options, in order.
  std::vector<std::string> words() const;
};

class OptionParser {
public:
  // command: a name in the table of options.
  explicit OptionParser(std::string_view command);
  ~OptionParser();

  // Says where an option's value goes; the targets must outlive parse(). Every option of the
  // command must be bound. The type of the target says whether the option is a flag, takes one
  // value (the last one) or several.
  void bind(std::string_view name, bool& target);
  void bind(std::string_view name, std::optional<std::string>& target);
  void bind(std::string_view name, std::vector<std::string>& target);
  // `read` converts the value; its message becomes a usage error.
  template <typename T, typename Read>
  void bind(std::string_view name, std::optional<T>& target, const Read& read) {
    bind_reader(name, [&target, read](const std::string& value) -> Result<void> {
      auto parsed = read(value);
      if (!parsed) return fail(std::move(parsed).error());
      target = std::move(*parsed);
      return {};
    });
  }

  // Checks choices, needs and conflicts. usage errors suggest similar options and say where to find
  // help.
  Result<Arguments> parse(std::span<const std::string_view> arguments);
  // all: also the options that are rarely needed.
  std::string_view help(bool all = false) const;
  // "uprobectl attach"
  std::string full_name() const;
  // Makes a usage error of this subcommand.
  Error usage_error(std::string message) const;

private:
  using Reader = std::function<Result<void>(const std::string&)>;
  Error unknown_option(const std::string& name) const;
  void bind_reader(std::string_view name, Reader read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace uprobectl::cli
