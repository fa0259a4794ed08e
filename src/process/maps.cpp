#include "uprobectl/process.hpp"

#include <charconv>

namespace uprobectl {

namespace {

// Takes a number up to the delimiter off the front of the line; the delimiter goes too.
std::optional<std::uint64_t> take_number(std::string_view& line, char delimiter, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  if (error != std::errc() || end == line.data() + line.size() || *end != delimiter)
    return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
  return value;
}

// The kernel writes a newline inside a path as \012 and nothing else in octal (seq_file mangling).
std::string unescape(std::string_view path) {
  std::string result;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      result += '\n';
      i += 3;
    } else {
      result += path[i];
    }
  }
  return result;
}

// "START-END PERMS OFFSET MAJOR:MINOR INODE          PATH"
std::optional<Mapping> parse_line(std::string_view line) {
  Mapping mapping;
  const auto start = take_number(line, '-', 16);
  const auto end = start ? take_number(line, ' ', 16) : std::nullopt;
  if (!end || line.size() < 5 || line[4] != ' ') return std::nullopt;
  mapping.start = *start;
  mapping.end = *end;
  mapping.executable = line[2] == 'x';
  line.remove_prefix(5);

  const auto offset = take_number(line, ' ', 16);
  const auto major = offset ? take_number(line, ':', 16) : std::nullopt;
  const auto minor = major ? take_number(line, ' ', 16) : std::nullopt;
  if (!minor) return std::nullopt;
  // An editor that takes blanks off the ends of lines takes the one behind an anonymous mapping's
  // 0.
  const auto inode = line == "0" ? std::optional<std::uint64_t>(0) : take_number(line, ' ', 10);
  if (!inode) return std::nullopt;
  if (*inode == 0 && line == "0") line = {};
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));

  constexpr std::string_view gone = " (deleted)";
  mapping.deleted = line.ends_with(gone);
  if (mapping.deleted) line.remove_suffix(gone.size());
  mapping.offset = {*offset};
  // st_dev in glibc's encoding, gnu_dev_makedev(3).
  mapping.identity = {((*major & 0xfffU) << 8) | ((*major & ~0xfffULL) << 32) | (*minor & 0xffU) |
                          ((*minor & ~0xffULL) << 12),
                      *inode};
  mapping.path = unescape(line);
  return mapping;
}

} // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> mappings = parse_all_maps(text);
  std::erase_if(mappings, [](const Mapping& mapping) {
    return mapping.identity.inode == 0 || mapping.path.empty();
  });
  return mappings;
}

std::vector<Mapping> parse_all_maps(std::string_view text) {
  std::vector<Mapping> result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (auto mapping = parse_line(text.substr(0, end))) result.push_back(std::move(*mapping));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

} // namespace uprobectl
