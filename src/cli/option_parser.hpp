// Parses the arguments of one subcommand with CLI11, by the table of options. The only file that
// knows CLI11.
#pragma once

#include "option_table.hpp"
#include "uprobectl/base.hpp"

#include <functional>

namespace uprobectl::cli {

struct Arguments {
  // In order; views of the arguments, or of what the parser keeps: there may be thousands.
  std::vector<std::string_view> positionals;
  std::vector<std::string_view> after_dashes; // what follows "--"
  bool help = false;
  bool version = false;

  // All words that are no options, in order.
  std::vector<std::string> words() const;
};

class OptionParser {
public:
  // command: a name in the table of options.
  explicit OptionParser(std::string_view command);
  ~OptionParser();

  // Where an option's value goes; the targets must outlive parse(). Every option of the command is
  // bound to one, whose type says whether it is a flag, has a value (the last one counts) or
  // repeats.
  void bind(std::string_view name, bool& target);
  void bind(std::string_view name, std::optional<std::string>& target);
  void bind(std::string_view name, std::vector<std::string>& target);
  // The value is read by `read`, whose error becomes a usage error as it stands.
  template <typename T, typename Read>
  void bind(std::string_view name, std::optional<T>& target, Read read) {
    bind_reader(name, [&target, read](const std::string& value) -> Result<void> {
      auto parsed = read(value);
      if (!parsed) return fail(std::move(parsed).error());
      target = std::move(*parsed);
      return {};
    });
  }

  // usage errors carry the nearest option and where to find help. What an option needs, excludes
  // and takes is checked.
  Result<Arguments> parse(std::span<const std::string_view> arguments);
  std::string help() const;
  // A usage error of this subcommand that only the caller can see.
  Error usage_error(std::string message) const;

private:
  using Reader = std::function<Result<void>(const std::string&)>;
  void bind_reader(std::string_view name, Reader read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace uprobectl::cli
