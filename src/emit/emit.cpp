// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.hpp"

#include "binary/binary.hpp"
#include "resolve/instructions.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <unordered_map>

namespace uprobectl::emit {

namespace {

// Whether uprobe_events would end a path at the byte. It splits lines at isspace() bytes, ends them
// at a '#' (trace_parse_run_command() in kernel/trace/trace.c), and has no quotes. isspace(0xa0) is
// true (lib/ctype.c), even inside a UTF-8 character such as "à".
bool breaks_line(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\xa0' || c == '#'; }

Result<void> check_for_uprobe_events(const resolve::ProbePoint& point, std::string_view line) {
  constexpr std::size_t longest_line = 4093; // WRITE_BUFSIZE - 2, Linux kernel/trace/trace.c
  const std::string& path = point.binary->real_path;
  if (std::ranges::any_of(path, breaks_line))
    return fail(
        Error{ErrorKind::unsupported,
              path + ": uprobe_events does not support a space, a '#' or the byte 0xa0 in a path"}
            .hint(std::string(rename_hint)));
  if (!is_printable_text(path))
    return fail(Error{ErrorKind::unsupported,
                      path + ": uprobe_events does not support control characters or invalid UTF-8 "
                             "in a path"}
                    .hint(std::string(rename_hint)));
  if (line.size() > longest_line)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the line has {} bytes, the maximum of uprobe_events is {}", path,
                            line.size(), longest_line));
  return {};
}

bool is_readable(const usdt::StaticArgument& argument) {
  using enum usdt::StaticArgument::Kind;
  return !argument.is_float &&
         (argument.kind == constant || argument.kind == in_register || argument.kind == in_memory);
}

std::string register_in_kernel(Arch arch, const std::string& name) {
  const bool has_size = name.size() == 3 && (name[0] == 'r' || name[0] == 'e') && name[1] >= 'a';
  return "%" + (arch_info(arch).has_short_kernel_names && has_size ? name.substr(1) : name);
}

// Returns where uprobe_events reads the argument; nullopt if it cannot express it.
std::optional<std::string> fetch_location(const resolve::ProbePoint& point,
                                          const usdt::StaticArgument& argument) {
  using enum usdt::StaticArgument::Kind;
  const Arch arch = point.binary->machine.arch;
  if (!is_readable(argument) || !argument.index.empty()) return std::nullopt;
  if (argument.kind == constant) {
    if (argument.address) return std::nullopt; // it is relocated
    return fmt::format("\\{}", static_cast<std::int64_t>(argument.constant));
  }
  if (argument.kind == in_register) {
    if (argument.shift != 0) return std::nullopt;
    return register_in_kernel(arch, argument.base);
  }
  if (argument.address) {
    // "@+N" is at the probe's address, plus N, minus the probe's offset (translate_user_vaddr() in
    // kernel/trace/trace_uprobe.c).
    const std::uint64_t position =
        argument.address->value - point.address.value + point.offset->value;
    if (position > INT64_MAX) return std::nullopt;
    return fmt::format("@+{:#x}", position);
  }
  if (argument.base.empty())
    return fmt::format("@{:#x}", static_cast<std::uint64_t>(argument.displacement));
  return fmt::format("{:+}({})", argument.displacement, register_in_kernel(arch, argument.base));
}

// Octal escapes have at most three digits; \x would swallow hexadecimal digits that follow.
std::string c_string_literal(std::string_view text) {
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

std::string event_name(const resolve::ProbePoint& point) {
  constexpr std::size_t max_name = 40; // leaves room for a unique suffix
  std::string text = fmt::format("at_{:#x}", point.address.value);
  if (point.symbol) {
    text = point.demangled.value_or(*point.symbol);
    text = text.substr(0, text.find('(', 1)); // parameters
    if (point.kind == symbols::SymbolKind::plt) text += "_plt";
    if (point.symbol_offset != 0) text += fmt::format("_{:#x}", point.symbol_offset);
  }
  std::string name;
  for (const char c : text) {
    if (in_ascii_identifier(c))
      name += c;
    else if (!name.empty() && !name.ends_with('_'))
      name += '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "_");
  return name.substr(0, max_name);
}

std::string EventNames::name(const resolve::ProbePoint& point) {
  const std::string plain = event_name(point);
  std::string name = plain;
  const auto known = [&] { return std::ranges::binary_search(taken_, name); };
  if (known()) name = fmt::format("{}_{:x}", plain, point.offset->value);
  // Another file has the same name and offset.
  for (unsigned number = 2; known(); ++number)
    name = fmt::format("{}_{:x}_{}", plain, point.offset->value, number);
  taken_.insert(std::ranges::lower_bound(taken_, name), name);
  return name;
}

FetchArguments fetch_arguments(const resolve::ProbePoint& point) {
  FetchArguments fetched;
  if (!point.static_probe) return fetched;
  const std::vector<usdt::StaticArgument>& arguments = point.static_probe->arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const usdt::StaticArgument& argument = arguments[i];
    const std::uint32_t size = argument.size.value_or(argument.width);
    const auto location = fetch_location(point, argument);
    if (!location || (size != 1 && size != 2 && size != 4 && size != 8)) {
      fetched.left_out.push_back(argument.raw);
      continue;
    }
    fetched.text += fmt::format("{}arg{}={}:{}{}", fetched.text.empty() ? "" : " ", i, *location,
                                argument.is_signed ? 's' : 'u', size * 8);
  }
  return fetched;
}

Result<std::string> tracefs_line(const resolve::ProbePoint& point, const std::string& name) {
  std::string line =
      fmt::format("p:uprobectl/{} {}:{:#x}", name, point.binary->real_path, point.offset->value);
  if (point.semaphore) line += fmt::format("({:#x})", point.semaphore->value);
  if (const std::string arguments = fetch_arguments(point).text; !arguments.empty())
    line += " " + arguments;
  if (auto checked = check_for_uprobe_events(point, line); !checked)
    return fail(std::move(checked).error());
  return line;
}

Result<std::string> perf_line(const resolve::ProbePoint& point, const std::string& name) {
  // perf writes the same line to uprobe_events.
  if (auto checked = tracefs_line(point, name); !checked) return fail(std::move(checked).error());
  if (point.semaphore)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("'{}' has a semaphore, which perf probe does not increment at an "
                                  "offset",
                                  display_name(point))}
                    .hint("define the event with --emit tracefs, and record it with: perf record "
                          "-e uprobectl:" +
                          name));
  std::string event = fmt::format("uprobectl:{}={:#x}", name, point.offset->value);
  if (const std::string arguments = fetch_arguments(point).text; !arguments.empty())
    event = shell_word(event + " " + arguments);
  return fmt::format("perf probe -x {} -a {}", shell_word(point.binary->real_path), event);
}

Result<std::string> libbpf_line(const resolve::ProbePoint& point) {
  // bpf_program__attach_uprobe_opts() takes a path with "!/" for an entry of an archive, even if a
  // file of this path exists (libbpf 1.2 to 1.8).
  if (point.binary->real_path.find("!/") != std::string::npos)
    return fail(Error{ErrorKind::unsupported, point.binary->real_path +
                                                  ": libbpf would treat '!/' in this path as an "
                                                  "archive entry"}
                    .hint(std::string(rename_hint)));
  const std::string options = point.semaphore
                                  ? fmt::format("&(struct bpf_uprobe_opts){{.sz = sizeof(struct "
                                                "bpf_uprobe_opts), .ref_ctr_offset = {:#x}}}",
                                                point.semaphore->value)
                                  : "NULL";
  return fmt::format("bpf_program__attach_uprobe_opts(prog, -1, {}, {:#x}, {});",
                     c_string_literal(point.binary->real_path), point.offset->value, options);
}

// How bpftrace (src/attached_probe.cpp, resolve_offset_uprobe, 0.17 to 0.26) resolves
// "uprobe:PATH:0xNUMBER": the number is an address. It finds the symbol that covers the address,
// then *looks up its name again*, and probes the first symbol of that name. If no symbol covers the
// number, it fails, or with --unsafe uses the number as a file offset. A file that is not ELF, such
// as an archive, has no symbols, so that --unsafe (since 0.26) always uses the offset. SymbolFinder
// has other rules, so that this index is apart.

class Bpftrace::Symbols {
public:
  explicit Symbols(const resolve::ProbePoint& point) {
    // The file is opened without the debug files of the point, because bpftrace has no --debug-dir.
    const auto file = binary::Binary::open(point.binary->file, point.binary->path);
    if (!file) return;
    while ((*file)->add_next_symbols()) {
    }
    const elf::Image& image = (*file)->image();
    // bcc requires section headers to read symbols.
    if (!image.has_section_headers()) return;
    if (const auto table = image.dynamic_symbols()) add(*table);
    if (const auto table = image.full_symbols()) add(*table);
    for (const elf::SymbolTable& table : image.debug_symbols()) add(table);
    std::ranges::sort(ranges_, {}, &Range::begin);
    std::uint64_t reach = 0;
    for (Range& range : ranges_) range.reach = reach = std::max(reach, range.end);
  }

  bool cover(std::uint64_t address) const {
    return any_at(address, [](const std::string&) { return true; });
  }

  // Returns the name of a symbol that covers the address and is not unique in the file.
  std::optional<std::string> ambiguous_name(std::uint64_t address) const {
    std::optional<std::string> ambiguous;
    any_at(address, [&](const std::string& name) {
      if (addresses_.at(name).several) ambiguous = name;
      return ambiguous.has_value();
    });
    return ambiguous;
  }

private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t reach = 0; // the largest end of this and earlier ranges
    std::string name;
  };
  struct Addresses {
    std::uint64_t first = 0;
    bool several = false;
  };

  void add(const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (!symbol || !symbol->defined || symbol->name.empty()) continue;
      const std::uint64_t address = symbol->address.value;
      const auto [known, is_new] =
          addresses_.try_emplace(std::string(symbol->name), Addresses{address});
      if (!is_new && known->second.first != address) known->second.several = true;
      if (const auto end = checked_add(address, symbol->size); end && symbol->size != 0)
        ranges_.push_back({address, *end, 0, std::string(symbol->name)});
    }
  }

  // Whether the predicate holds for the name of a symbol that covers the address.
  template <typename Predicate>
  bool any_at(std::uint64_t address, const Predicate& predicate) const {
    auto range = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    while (range != ranges_.begin()) {
      --range;
      if (range->reach <= address) break;
      if (range->end > address && predicate(range->name)) return true;
    }
    return false;
  }

  std::vector<Range> ranges_; // by begin
  std::unordered_map<std::string, Addresses> addresses_;
};

namespace {

constexpr std::string_view other_tools_hint =
    "use --emit perf, tracefs or libbpf, which use the offset";

// bpftrace 0.17 unquotes a path twice, in its lexer and in its parser, so escapes cannot be used.
Result<std::string> quoted_path(const std::string& path) {
  const auto is_plain = [](char c) {
    return is_ascii_letter_or_digit(c) ||
           std::string_view("_-./").find(c) != std::string_view::npos;
  };
  const auto is_rejected = [](char c) {
    return std::string_view("\"\\*[]").find(c) != std::string_view::npos;
  };
  if (std::ranges::any_of(path, is_rejected) || path.find("!/") != std::string::npos ||
      !is_printable_text(path))
    return fail(Error{ErrorKind::unsupported,
                      path + ": bpftrace does not support a quote, a backslash, a bracket, '*', "
                             "'!/' or a control character in a path"}
                    .hint(std::string(rename_hint)));
  return std::ranges::all_of(path, is_plain) ? path : "\"" + path + "\"";
}

// Returns the point's name, escaped for a printf format of bpftrace.
std::string printf_text(const resolve::ProbePoint& point) {
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

// bcc finds the probe again by its names, and reads its arguments by the note.
Result<std::string> bpftrace_static_line(const resolve::ProbePoint& point) {
  const auto path = quoted_path(point.binary->real_path);
  if (!path) return fail(path.error());
  const usdt::StaticProbe& probe = *point.static_probe;
  const std::string name = probe.provider + ":" + probe.name;
  if (point.binary->path.entry)
    return fail(Error{ErrorKind::unsupported, to_string(point.binary->path) +
                                                  ": bpftrace does not find static probes in an "
                                                  "archive"}
                    .hint("use --emit tracefs or libbpf, which use the offset"));
  if (!std::ranges::all_of(name, [](char c) { return in_ascii_identifier(c) || c == ':'; }))
    return fail(ErrorKind::unsupported,
                "'" + name + "': bpftrace does not support this character in a name");
  std::string formats;
  std::string values;
  for (std::size_t i = 0; i < probe.arguments.size(); ++i) {
    const usdt::StaticArgument& argument = probe.arguments[i];
    if (!is_readable(argument)) continue;
    formats += argument.is_signed ? " %lld" : " %llu";
    values += fmt::format(", arg{}", i);
  }
  return fmt::format(R"(usdt:{}:{} {{ printf("%s %d {}{}\n", comm, pid{}); }})", *path, name,
                     printf_text(point), formats, values);
}

Bpftrace::Bpftrace() = default;
Bpftrace::~Bpftrace() = default;

const Bpftrace::Symbols& Bpftrace::load_symbols(const resolve::ProbePoint& point) {
  if (file_ != point.binary->file) {
    symbols_ = std::make_unique<Symbols>(point);
    file_ = point.binary->file;
  }
  return *symbols_;
}

Result<EmittedLine> Bpftrace::line(const resolve::ProbePoint& point) {
  const auto path = quoted_path(point.binary->real_path);
  if (!path) return fail(path.error());
  std::uint64_t number = point.offset->value;
  EmittedLine line;
  const auto need = [&](std::string_view what) {
    line.warnings.push_back(fmt::format("{}: '{}': bpftrace needs {}",
                                        to_string(point.binary->path), point.request, what));
  };
  if (point.binary->path.entry) {
    need("--unsafe and version 0.26 or later to probe archives");
  } else if (const Symbols& symbols = load_symbols(point); symbols.cover(point.address.value)) {
    if (const auto name = symbols.ambiguous_name(point.address.value))
      return fail(
          Error{ErrorKind::unsupported,
                fmt::format("{}: bpftrace would probe the first of several symbols named '{}'",
                            to_string(point.binary->path), *name)}
              .hint(std::string(other_tools_hint)));
    number = point.address.value;
    if (point.symbol_offset != 0)
      need("a build with a disassembler to probe inside a function (Debian 12's has none)");
  } else {
    if (number != point.address.value && symbols.cover(number))
      return fail(Error{ErrorKind::unsupported,
                        fmt::format("{}: no symbol covers '{}': bpftrace would use its offset "
                                    "{:#x} as the address of another function",
                                    to_string(point.binary->path), point.request, number)}
                      .hint(std::string(other_tools_hint)));
    need("--unsafe: no symbol covers this address");
  }
  line.text = fmt::format(R"(uprobe:{}:{:#x} {{ printf("%s %d {}\n", comm, pid); }})", *path,
                          number, printf_text(point));
  return line;
}

namespace {

Error no_file_offset_error(const resolve::ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, no tool can probe it there"}
      .hint("resolve the installed library on the device, in the app's lib directory");
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
  EventNames names;
  Bpftrace bpftrace;
  std::set<std::string> static_lines;       // of bpftrace
  std::optional<BinaryPath> file_on_device; // the file that device_path stands for
};

Emitter::Emitter(EmitTool tool, std::optional<std::string> device_path)
    : tool_(tool), device_path_(std::move(device_path)), state_(std::make_unique<State>()) {}
Emitter::~Emitter() = default;

Result<EmittedLine> Emitter::line(const resolve::ProbePoint& point) {
  if (!point.offset) return fail(no_file_offset_error(point));
  if (auto nested = nested_error(point)) return fail(std::move(*nested));
  if (!device_path_) return line_of_tool(point);
  std::optional<BinaryPath>& known = state_->file_on_device;
  if (!known) known = point.binary->path;
  if (known->file != point.binary->path.file)
    return fail(ErrorKind::usage, fmt::format("--device-path is the path of one file, not of {} "
                                              "and {}",
                                              known->file, point.binary->path.file));
  resolve::ProbePoint on_device = point;
  auto binary = std::make_shared<resolve::ProbedBinary>(*point.binary);
  binary->real_path = *device_path_;
  on_device.binary = std::move(binary);
  return line_of_tool(on_device);
}

Result<EmittedLine> Emitter::line_of_tool(const resolve::ProbePoint& point) {
  const bool is_static = point.static_probe != nullptr;
  if (tool_ == EmitTool::bpftrace && !is_static) return state_->bpftrace.line(point);
  auto text = tool_ == EmitTool::bpftrace  ? bpftrace_static_line(point)
              : tool_ == EmitTool::tracefs ? tracefs_line(point, state_->names.name(point))
              : tool_ == EmitTool::perf    ? perf_line(point, state_->names.name(point))
                                           : libbpf_line(point);
  if (!text) return fail(std::move(text).error());
  EmittedLine line{.text = std::move(*text)};
  if (tool_ == EmitTool::bpftrace && !state_->static_lines.insert(line.text).second)
    return EmittedLine{};
  if (tool_ == EmitTool::tracefs || tool_ == EmitTool::perf)
    for (const std::string& argument : fetch_arguments(point).left_out)
      line.warnings.push_back(fmt::format("'{}': {} cannot read the argument '{}'", *point.symbol,
                                          tool_ == EmitTool::perf ? "perf probe" : "uprobe_events",
                                          argument));
  return line;
}

} // namespace uprobectl::emit
