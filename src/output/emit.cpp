// SPDX-License-Identifier: Apache-2.0
#include "output/emit.hpp"

#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

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

// bpftrace (src/attached_probe.cpp, resolve_offset_uprobe, 0.17 to 0.26): the number in
// "uprobe:PATH:0xNUMBER" is an address. The symbol that covers it is looked for, then *its name is
// looked up again*, and the first symbol of that name is where the probe goes. Where no symbol
// covers the number it is refused, or with --unsafe taken for an offset in the file as it stands. A
// file that is no ELF image, such as an archive, has no symbols: there --unsafe (since 0.26) always
// takes the offset.

class Bpftrace::Symbols {
public:
  explicit Symbols(const ProbePoint& point) {
    auto image = elf::Image::open(point.binary->file, point.binary->path);
    if (!image) return;
    image->add_embedded_symbols();
    image->add_debug_file({});
    // bcc reads symbols through section headers only.
    if (!image->has_section_headers()) return;
    if (const auto table = image->dynamic_symbols()) add(*table);
    if (const auto table = image->full_symbols()) add(*table);
    for (const elf::SymbolTable& table : image->debug_symbols()) add(table);
    std::ranges::sort(ranges_, {}, &Range::begin);
    std::uint64_t reach = 0;
    for (Range& range : ranges_) range.reach = reach = std::max(reach, range.end);
  }

  bool cover(std::uint64_t address) const {
    return any_at(address, [](const std::string&) { return true; });
  }

  // A name by which bpftrace may find another place than the symbol's that covers the address.
  std::optional<std::string> ambiguous_name(std::uint64_t address) const {
    std::optional<std::string> ambiguous;
    any_at(address, [&](const std::string& name) {
      if (places_.at(name).several) ambiguous = name;
      return ambiguous.has_value();
    });
    return ambiguous;
  }

private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t reach = 0; // the largest end up to here
    std::string name;
  };
  struct Places {
    std::uint64_t first = 0;
    bool several = false;
  };

  void add(const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (!symbol || !symbol->defined || symbol->name.empty()) continue;
      const std::uint64_t address = symbol->address.value;
      const auto [place, is_new] = places_.try_emplace(std::string(symbol->name), Places{address});
      if (!is_new && place->second.first != address) place->second.several = true;
      if (const auto end = checked_add(address, symbol->size); end && symbol->size != 0)
        ranges_.push_back({address, *end, 0, std::string(symbol->name)});
    }
  }

  // Whether one of the names that cover the address is a wanted one.
  template <typename IsWanted>
  bool any_at(std::uint64_t address, const IsWanted& is_wanted) const {
    auto range = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    while (range != ranges_.begin() && (--range)->reach > address)
      if (range->end > address && is_wanted(range->name)) return true;
    return false;
  }

  std::vector<Range> ranges_; // by begin
  std::unordered_map<std::string, Places> places_;
};

namespace {

constexpr std::string_view perf_instead =
    "--emit perf, tracefs and libbpf take the offset as it is";

// 0.17 unquotes a quoted path once in its lexer and again in its parser.
Result<std::string> quoted_path(const std::string& path) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./").find(c) != std::string_view::npos;
  };
  const auto is_taken = [](char c) {
    return std::string_view("\"\\*[]").find(c) != std::string_view::npos;
  };
  if (std::ranges::any_of(path, is_taken) || path.find("!/") != std::string::npos ||
      !is_printable_text(path))
    return fail(Error{ErrorKind::unsupported,
                      path + ": bpftrace cannot take a path with a quote, a backslash, a bracket, "
                             "a '*', a '!/' or a control character"}
                    .hint(std::string(other_name)));
  return std::ranges::all_of(path, is_plain) ? path : "\"" + path + "\"";
}

// As part of a printf format.
std::string printed_name(const ProbePoint& point) {
  const std::string name = display_name(point);
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = utf8_length(name, at);
    const std::string_view character = std::string_view(name).substr(at, length);
    if (character == "%")
      out += "%%";
    else if (character == "\"" || character == "\\")
      out += '\\' + std::string(character);
    else if (length == 0 || is_control_character(character))
      out += '?';
    else
      out += character;
    at += length == 0 ? 1 : length;
  }
  return out;
}

} // namespace

Bpftrace::Bpftrace() = default;
Bpftrace::~Bpftrace() = default;

const Bpftrace::Symbols& Bpftrace::symbols_of(const ProbePoint& point) {
  if (file_ != point.binary->file) {
    symbols_ = std::make_unique<Symbols>(point);
    file_ = point.binary->file;
  }
  return *symbols_;
}

Result<EmittedLine> Bpftrace::line(const ProbePoint& point) {
  const auto path = quoted_path(point.binary->real_path);
  if (!path) return fail(path.error());
  std::uint64_t number = point.offset->value;
  EmittedLine line;
  if (point.binary->path.entry) {
    line.needs = "--unsafe, and version 0.26: older ones probe no archives";
  } else if (const Symbols& symbols = symbols_of(point); symbols.cover(point.address.value)) {
    if (const auto name = symbols.ambiguous_name(point.address.value))
      return fail(Error{
          ErrorKind::unsupported,
          fmt::format("{}: bpftrace would look for '{}' by name and take the first of several",
                      to_string(point.binary->path), *name)}
                      .hint(std::string(perf_instead)));
    number = point.address.value;
    if (point.symbol_offset != 0)
      line.needs = "a build with a disassembler for places inside a function, Debian 12's has none";
  } else {
    if (number != point.address.value && symbols.cover(number))
      return fail(Error{ErrorKind::unsupported,
                        fmt::format("{}: no symbol covers '{}', and bpftrace would take its offset "
                                    "{:#x} for the address of another function",
                                    to_string(point.binary->path), point.request, number)}
                      .hint(std::string(perf_instead)));
    line.needs = "--unsafe: no symbol tells it what this place is";
  }
  line.text = fmt::format(R"(uprobe:{}:{:#x} {{ printf("%s %d {}\n", comm, pid); }})", *path,
                          number, printed_name(point));
  return line;
}

} // namespace uprobectl::emit

namespace uprobectl {

namespace {

Error no_file_has(const ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, no file here has the place "
                                          "that a tool could probe"}
      .hint("on the device resolve the installed library, in the app's lib folder");
}

} // namespace

std::optional<EmitTool> parse_emit_tool(std::string_view name) {
  if (name == "bpftrace") return EmitTool::bpftrace;
  if (name == "tracefs") return EmitTool::tracefs;
  if (name == "perf") return EmitTool::perf;
  if (name == "libbpf") return EmitTool::libbpf;
  return std::nullopt;
}

struct Emitter::State {
  emit::EventNames names;
  emit::Bpftrace bpftrace;
};

Emitter::Emitter(EmitTool tool) : tool_(tool), state_(std::make_unique<State>()) {}
Emitter::~Emitter() = default;

Result<EmittedLine> Emitter::line(const ProbePoint& point) {
  if (!point.offset) return fail(no_file_has(point));
  if (tool_ == EmitTool::bpftrace) {
    auto line = state_->bpftrace.line(point);
    if (line && line->needs)
      line->needs = to_string(point.binary->path) + ": '" + point.request + "': bpftrace needs " +
                    *line->needs;
    return line;
  }
  auto text = tool_ == EmitTool::tracefs ? emit::tracefs_line(point, state_->names.name(point))
              : tool_ == EmitTool::perf  ? emit::perf_line(point, state_->names.name(point))
                                         : emit::libbpf_line(point);
  if (!text) return fail(std::move(text).error());
  return EmittedLine{.text = std::move(*text), .needs = {}};
}

} // namespace uprobectl
