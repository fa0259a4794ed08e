#include "numbers.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

template <typename T>
std::optional<T> parse_positive(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

} // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  return parse_positive<std::uint64_t>(text);
}

Result<std::uint64_t> CountReader::operator()(const std::string& text) const {
  const auto number = text == "0" ? std::optional<std::uint64_t>(0) : parse_count(text);
  if (number && *number >= least && *number <= most) return *number;
  return fail(ErrorKind::usage, fmt::format(fmt::runtime(mistake), text));
}

Result<std::vector<pid_t>> parse_pids(const std::vector<std::string>& lists) {
  std::vector<pid_t> pids;
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (true) {
      const auto comma = std::min(rest.find(','), rest.size());
      const auto pid = parse_positive<pid_t>(rest.substr(0, comma));
      if (!pid) return fail(ErrorKind::usage, "'" + list + "' is no pid or list of pids");
      if (std::ranges::find(pids, *pid) == pids.end()) pids.push_back(*pid);
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return pids;
}

Result<ProcessWords> parse_processes(const std::vector<std::string>& lists) {
  ProcessWords words;
  const auto add = [](auto& to, auto value) {
    if (std::ranges::find(to, value) == to.end()) to.push_back(std::move(value));
  };
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (true) {
      const auto comma = std::min(rest.find(','), rest.size());
      const std::string_view word = rest.substr(0, comma);
      if (word.empty())
        return fail(ErrorKind::usage, "'" + list + "' is no pid, name or list of them");
      if (word.find_first_not_of("0123456789") != std::string_view::npos)
        add(words.names, std::string(word));
      else if (const auto pid = parse_positive<pid_t>(word))
        add(words.pids, *pid);
      else
        return fail(ErrorKind::usage, "'" + std::string(word) + "' is no pid");
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return words;
}

} // namespace uprobectl::cli
