#include "process/status.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace uprobectl {

namespace {

template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The fields of a stat line from the third on, "S PPID …".
std::optional<std::string_view> behind_comm(std::string_view stat) {
  const auto comm_end = stat.rfind(')');
  if (comm_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(comm_end + 1);
  if (!stat.starts_with(' ')) return std::nullopt;
  stat.remove_prefix(1);
  return stat;
}

// What follows "KEY:\t"; the kernel escapes newlines in the one line that others can choose, Name.
std::optional<std::string_view> status_line(std::string_view status, std::string_view key) {
  while (!status.empty()) {
    const auto end = std::min(status.find('\n'), status.size());
    const std::string_view line = status.substr(0, end);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(":\t"))
      return line.substr(key.size() + 2);
    status.remove_prefix(std::min(end + 1, status.size()));
  }
  return std::nullopt;
}

} // namespace

std::optional<pid_t> parse_parent(std::string_view stat) {
  auto fields = behind_comm(stat);
  // "S PPID "
  if (!fields || fields->size() < 3 || (*fields)[1] != ' ') return std::nullopt;
  fields->remove_prefix(2);
  const auto end = fields->find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  return whole_number<pid_t>(fields->substr(0, end));
}

std::optional<std::uint64_t> parse_start_time(std::string_view stat) {
  auto fields = behind_comm(stat);
  if (!fields) return std::nullopt;
  for (int number = 3; number < 22; ++number) {
    const auto end = fields->find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    fields->remove_prefix(end + 1);
  }
  return whole_number<std::uint64_t>(fields->substr(0, fields->find(' ')));
}

std::optional<uid_t> parse_user(std::string_view status) {
  const auto line = status_line(status, "Uid");
  return line ? whole_number<uid_t>(line->substr(0, line->find('\t'))) : std::nullopt;
}

std::optional<pid_t> parse_innermost_pid(std::string_view status) {
  const auto line = status_line(status, "NSpid");
  // npos + 1 is 0: the only number.
  return line ? whole_number<pid_t>(line->substr(line->rfind('\t') + 1)) : std::nullopt;
}

std::vector<pid_t> descendants(pid_t ancestor, std::span<const std::pair<pid_t, pid_t>> parents) {
  std::vector<std::pair<pid_t, pid_t>> children; // parent, child
  children.reserve(parents.size());
  for (const auto& [pid, parent] : parents) children.emplace_back(parent, pid);
  std::ranges::sort(children);
  // Read one after the other, parents may form a ring where a pid was used again meanwhile.
  std::set<pid_t> found;
  std::vector<pid_t> left = {ancestor};
  while (!left.empty()) {
    const pid_t parent = left.back();
    left.pop_back();
    for (const auto& [of, child] :
         std::ranges::equal_range(children, parent, {}, &std::pair<pid_t, pid_t>::first))
      if (child != ancestor && found.insert(child).second) left.push_back(child);
  }
  return {found.begin(), found.end()};
}

} // namespace uprobectl
