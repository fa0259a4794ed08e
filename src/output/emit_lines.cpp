#include "base/utf8.hpp"
#include "output/emit.hpp"
#include "resolve/quote.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::emit {

namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// uprobe_events splits its lines at what isspace() says of single bytes, cuts them at '#'
// (trace_parse_run_command() in kernel/trace/trace.c), and knows no quotes. 0xa0 counts as a space
// (lib/ctype.c), also in the middle of a UTF-8 character such as "à".
bool splits_a_line(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == '\xa0' || c == '#';
}

Result<void> check_for_uprobe_events(const ProbePoint& point, std::string_view line) {
  constexpr std::size_t longest_line = 4093; // WRITE_BUFSIZE - 2, Linux kernel/trace/trace.c
  const std::string& path = point.binary->real_path;
  if (std::ranges::any_of(path, splits_a_line))
    return fail(Error{ErrorKind::unsupported,
                      path + ": the kernel's uprobe_events cannot take a path with a space, a '#' "
                             "or the byte 0xa0"}
                    .hint(std::string(other_name)));
  if (!is_printable_text(path))
    return fail(Error{ErrorKind::unsupported,
                      path + ": the kernel's uprobe_events knows no escapes for the control "
                             "characters or invalid bytes of this path"}
                    .hint(std::string(other_name)));
  if (line.size() > longest_line)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the line has {} bytes, the kernel's uprobe_events takes {}", path,
                            line.size(), longest_line));
  return {};
}

// As the inside of a C string. Three octal digits end by themselves, \x would not.
std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte >= 0x7f || c == '?') // "??/" is a trigraph
      out += fmt::format("\\{:03o}", byte);
    else
      out += c;
  }
  return out + "\"";
}

} // namespace

std::string event_name(const ProbePoint& point) {
  constexpr std::size_t longest = 40; // leaves room for what makes it unique
  std::string text = fmt::format("at_{:#x}", point.address.value);
  if (point.symbol) {
    text = point.demangled.value_or(*point.symbol);
    text = text.substr(0, text.find('(', 1)); // parameters
    if (point.kind == SymbolKind::plt) text += "_plt";
    if (point.symbol_offset != 0) text += fmt::format("_{:#x}", point.symbol_offset);
  }
  std::string name;
  for (const char c : text) {
    if (is_name_character(c))
      name += c;
    else if (!name.empty() && !name.ends_with('_'))
      name += '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "_");
  return name.substr(0, longest);
}

std::string EventNames::name(const ProbePoint& point) {
  const std::string plain = event_name(point);
  std::string name = plain;
  const auto known = [&] { return std::ranges::binary_search(taken_, name); };
  if (known()) name = fmt::format("{}_{:x}", plain, point.offset->value);
  // The same offset of another file.
  for (unsigned number = 2; known(); ++number)
    name = fmt::format("{}_{:x}_{}", plain, point.offset->value, number);
  taken_.insert(std::ranges::lower_bound(taken_, name), name);
  return name;
}

Result<std::string> tracefs_line(const ProbePoint& point, const std::string& name) {
  std::string line =
      fmt::format("p:uprobectl/{} {}:{:#x}", name, point.binary->real_path, point.offset->value);
  if (auto checked = check_for_uprobe_events(point, line); !checked)
    return fail(std::move(checked).error());
  return line;
}

Result<std::string> perf_line(const ProbePoint& point, const std::string& name) {
  // What perf will write.
  if (auto checked = tracefs_line(point, name); !checked) return fail(std::move(checked).error());
  return fmt::format("perf probe -x {} -a uprobectl:{}={:#x}", shell_word(point.binary->real_path),
                     name, point.offset->value);
}

Result<std::string> libbpf_line(const ProbePoint& point) {
  // bpf_program__attach_uprobe_opts() splits the path at the first "!/", whether or not such a file
  // is there, and without a function's name opens what follows (libbpf 1.2 to 1.8).
  if (point.binary->real_path.find("!/") != std::string::npos)
    return fail(Error{ErrorKind::unsupported, point.binary->real_path +
                                                  ": libbpf takes the '!/' in this path for an "
                                                  "archive's"}
                    .hint(std::string(other_name)));
  return fmt::format("bpf_program__attach_uprobe_opts(prog, -1, {}, {:#x}, NULL);",
                     c_string(point.binary->real_path), point.offset->value);
}

} // namespace uprobectl::emit
