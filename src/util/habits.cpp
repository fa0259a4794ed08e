// SPDX-License-Identifier: Apache-2.0
#include "util/habits.hpp"

#include "util/numbers.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace uprobectl {

namespace {

using Pair = std::pair<std::string_view, std::string_view>;

template <std::size_t size>
std::optional<std::string_view> find_in(const std::array<Pair, size>& table,
                                        std::string_view word) {
  const auto* const found = std::ranges::find(table, word, &Pair::first);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

} // namespace

std::optional<std::string> function_habit(std::string_view function) {
  constexpr std::string_view at_return = "%return";
  if (function.size() > at_return.size() && function.ends_with(at_return))
    return "probe the return with: -r " +
           shell_word(function.substr(0, function.size() - at_return.size()));
  for (const std::string_view prefix : {"uretprobe:", "retprobe:"})
    if (function.starts_with(prefix))
      return "probe the return with: -r " + shell_word(function.substr(prefix.size()));
  for (const std::string_view prefix : {"uprobe:", "probe:"})
    if (function.starts_with(prefix))
      return "write only the function: " + shell_word(function.substr(prefix.size()));
  constexpr std::string_view usdt = "usdt:";
  if (function.starts_with(usdt))
    return "static probes are probed with: uprobectl usdt attach TARGET " +
           shell_word(function.substr(usdt.size()));
  if (function.starts_with("*0x") && parse_number<std::uint64_t>(function.substr(3), 16))
    return "write an address as vaddr:" + std::string(function.substr(1));
  // perf probe takes the values after the name. Names with blanks have brackets as well: those of
  // C++, and "-[Shop add:to:]".
  if (const auto blank = function.find(' ');
      blank != std::string_view::npos && function.find_first_of("(<[") == std::string_view::npos &&
      !function.starts_with("operator"))
    return "values are chosen with --args: --args " + shell_word(function.substr(blank + 1)) + " " +
           shell_word(function.substr(0, blank));
  return std::nullopt;
}

std::optional<std::string> value_habit(std::string_view value) {
  if (value == "retval" || value == "$retval") return "the result is called ret";
  if (value == "pid()" || value == "comm()" || value == "tid()")
    return "write it without brackets: " + std::string(value.substr(0, value.size() - 2));
  // "c->port" without quotes: the shell writes to the file "port".
  if (value.size() > 1 && value.ends_with('-'))
    return "quote it: the shell takes > for a redirection: '" + std::string(value) + ">MEMBER'";
  for (const std::string_view function : {"str(", "$str(", "uptr(", "kstr("})
    if (value.starts_with(function)) {
      const std::string_view inside = value.substr(function.size());
      const std::string_view name = inside.substr(0, inside.find_first_of(",)"));
      if (!name.empty()) return "write a string as " + std::string(name) + ":str";
    }
  return std::nullopt;
}

std::optional<std::string_view> type_habit(std::string_view type) {
  constexpr std::array types = {Pair{"string", "str"},   Pair{"ustring", "str"},
                                Pair{"cstr", "str"},     Pair{"cstring", "str"},
                                Pair{"hex", "x64"},      Pair{"pointer", "ptr"},
                                Pair{"unsigned", "u32"}, Pair{"std_string", "cxxstring"}};
  return find_in(types, type);
}

std::optional<std::string_view> subcommand_habit(std::string_view word) {
  constexpr std::array subcommands = {
      Pair{"trace", "attach"},       Pair{"probe", "attach"},       Pair{"record", "attach"},
      Pair{"stat", "attach"},        Pair{"stack", "attach"},       Pair{"count", "attach"},
      Pair{"funclatency", "attach"}, Pair{"list", "list-symbols"},  Pair{"symbols", "list-symbols"},
      Pair{"nm", "list-symbols"},    Pair{"script", "report"},      Pair{"usdt-list", "usdt list"},
      Pair{"offset", "resolve"},     Pair{"addr2line", "symbolize"}};
  return find_in(subcommands, word);
}

} // namespace uprobectl
