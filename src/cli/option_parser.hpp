// The options of one subcommand. The only door to CLI11: subcommands describe their options here
// and never see it.
#pragma once

#include "uprobectl/base.hpp"

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
  // usage: what follows "uprobectl" in the first line of the help, "resolve TARGET FUNCTION…".
  // Both examples must work as they stand.
  struct Text {
    std::string command; // empty for uprobectl itself
    std::string usage;
    std::string description;
    std::string examples;
    // Of a command with another form: the option that the options which only that one has do not go
    // with; empty where what is not known is not known at all.
    std::string without = {};
  };
  explicit OptionParser(Text text);
  ~OptionParser();

  // names as "-j,--json"; the targets must outlive parse().
  void flag(const std::string& names, bool& target, const std::string& help);
  void text(const std::string& names, std::optional<std::string>& target,
            const std::string& placeholder, const std::string& help);
  // Its value stands behind '=', or is one of the words; without one it is the first of these.
  void optional_text(const std::string& name, std::optional<std::string>& target,
                     std::vector<std::string> words, const std::string& placeholder,
                     const std::string& help);
  // May be given several times.
  void texts(const std::string& names, std::vector<std::string>& target,
             const std::string& placeholder, const std::string& help);

  // usage errors carry the nearest option and where to find help.
  Result<Arguments> parse(std::span<const std::string_view> arguments);
  std::string help() const;
  // A usage error of this subcommand that only the caller can see.
  Error usage_error(std::string message) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace uprobectl::cli
