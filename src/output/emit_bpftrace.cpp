// bpftrace (src/attached_probe.cpp, resolve_offset_uprobe, 0.17 to 0.26): the number in
// "uprobe:PATH:0xNUMBER" is an address. The symbol that covers it is looked for, then *its name is
// looked up again*, and the first symbol of that name is where the probe goes. Where no symbol
// covers the number it is refused, or with --unsafe taken for an offset in the file as it stands. A
// file that is no ELF image, such as an archive, has no symbols: there --unsafe (since 0.26) always
// takes the offset.
#include "base/utf8.hpp"
#include "output/emit.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace uprobectl::emit {

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

Result<BpftraceLine> Bpftrace::line(const ProbePoint& point) {
  const auto path = quoted_path(point.binary->real_path);
  if (!path) return fail(path.error());
  std::uint64_t number = point.offset->value;
  BpftraceLine line;
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
