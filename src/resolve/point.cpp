// SPDX-License-Identifier: Apache-2.0
#include "resolve/point.hpp"

#include "art/name_mapping.hpp"
#include "resolve/instructions.hpp"
#include "resolve/locate.hpp"
#include "resolve/methods.hpp"
#include "uprobectl/path.hpp"
#include "util/pages.hpp"

#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

Error outside_code(const Query& query, std::string_view what) {
  Error error{ErrorKind::no_code,
              fmt::format("{}: {} is not in the file's executable bytes", query.subject(), what)};
  for (const elf::Segment& segment : query.image.segments()) {
    if (!segment.executable || segment.file_size == 0) continue;
    return std::move(error).hint(
        fmt::format("code begins at vaddr:{:#x} (offset:{:#x}) and has {:#x} bytes",
                    segment.address.value, segment.offset.value, segment.file_size));
  }
  return error;
}

// Sets the address and the offsets of the point.
Result<void> set_offsets(const Query& query, ProbePoint& point, const elf::Segment& segment,
                         VirtualAddress address, ImageOffset offset) {
  const elf::Image& image = query.image;
  const std::uint64_t alignment = image.machine().info().instruction_alignment;
  point.binary = query.binary;
  point.request = query.function.request;
  point.image_offset = offset;
  point.offset = image.to_file(offset);
  point.address = address;
  point.segment_address = segment.address;
  point.segment_offset = segment.offset;

  // uprobe_register() returns EINVAL for an offset that is not a multiple of UPROBE_SWBP_INSN_SIZE
  // (Linux kernel/events/uprobes.c), which is 4 on arm64.
  if (address.value % alignment == 0 && point.offset && point.offset->value % alignment != 0)
    return fail(
        Error{ErrorKind::misaligned,
              fmt::format("{}: the entry's data is at {:#x} of the archive, so '{}' is at {:#x}, "
                          "not a multiple of {} as the kernel requires on {}",
                          query.subject(), query.binary->entry_data.value, query.function.request,
                          point.offset->value, alignment, elf::to_string(image.machine()))}
            .hint("align the archive with: zipalign -p 4 IN.apk OUT.apk"));
  if (query.binary->entry_data.value % smallest_page != 0)
    point.warnings.push_back(fmt::format(
        "{}: the entry's data is at {:#x}, not on a page boundary: no loader can map it from the "
        "archive, so the probe will not fire unless the library is aligned with zipalign -p 4",
        query.subject(), query.binary->entry_data.value));
  return {};
}

Result<VirtualAddress> address_of_offset(const Query& query, ImageOffset offset) {
  const elf::Segment* const segment = query.image.find_segment(offset);
  const auto address = query.image.to_address(offset);
  if (segment == nullptr || !address || !segment->executable)
    return fail(outside_code(query, fmt::format("offset {:#x}", offset.value)));
  return *address;
}

// Converts the number of a vaddr:, offset: or file-offset: FUNCTION to an address.
Result<VirtualAddress> address_of_number(const Query& query) {
  const FunctionSpec& function = query.function;
  if (function.form == FunctionSpec::Form::virtual_address) {
    // Bit 0 of a code address selects Thumb (AAELF32). It is not part of the address.
    const bool may_be_thumb = query.image.machine().info().thumb_bit;
    return VirtualAddress{function.number & ~std::uint64_t{may_be_thumb}};
  }
  const std::uint64_t size = query.image.bytes().size();
  if (function.form == FunctionSpec::Form::image_offset) {
    if (function.number >= size)
      return fail(ErrorKind::out_of_range,
                  fmt::format("{}: '{}' is past the end of the ELF image ({:#x} bytes)",
                              query.subject(), function.request, size));
    return address_of_offset(query, ImageOffset{function.number});
  }
  if (query.image.is_inflated())
    return fail(Error{ErrorKind::no_code,
                      fmt::format("{}: '{}': the library is compressed, so the archive does not "
                                  "contain its code",
                                  query.subject(), function.request)}
                    .hint("use offset:0x… for an offset in the installed library"));
  const std::uint64_t begin = query.image.entry_data().value;
  if (function.number < begin || function.number - begin >= size)
    return fail(ErrorKind::out_of_range,
                fmt::format("{}: '{}' is outside the ELF image, which is at {:#x} to {:#x}",
                            query.subject(), function.request, begin, begin + size));
  return address_of_offset(query, ImageOffset{function.number - begin});
}

bool is_aligned(const Query& query, VirtualAddress address) {
  return address.value % query.image.machine().info().instruction_alignment == 0;
}

std::optional<Error> reject_misaligned(const Query& query, ProbePoint& point) {
  const unsigned alignment = query.image.machine().info().instruction_alignment;
  auto problem =
      fmt::format("{}: '{}' is address {:#x}, not a multiple of {}: no {} instruction begins there",
                  query.subject(), query.function.request, point.address.value, alignment,
                  elf::to_string(query.image.machine()));
  if (!query.options.unsafe) return Error{ErrorKind::misaligned, std::move(problem)};
  point.warnings.push_back(problem + (alignment == 4 ? ", and the kernel refuses it" : ""));
  return std::nullopt;
}

void name_by_number(const Query& query, ProbePoint& point,
                    const symbolize::CoveringSymbol& covering) {
  name_point(query, point, covering.symbol, covering.offset);
  if (covering.symbol.table == elf::Table::oat) describe_method(query, point, covering.symbol);
  point.table.reset(); // the address comes from the number, not from a table
}

} // namespace

void describe(std::shared_ptr<binary::Binary> opened, ProbedBinary& binary) {
  const elf::Image& image = opened->image();
  binary.entry_data = image.entry_data();
  binary.machine = image.machine();
  binary.build_id = image.build_id();
  binary.contents = std::move(opened);
}

std::uint64_t display_offset(const ProbePoint& point) {
  return point.offset ? point.offset->value : point.image_offset.value;
}

std::optional<FileOffset> uprobe_offset(const ProbePoint& point) {
  if (!point.offset) return std::nullopt;
  return FileOffset{point.offset->value + point.uprobe_distance};
}

VirtualAddress uprobe_address(const ProbePoint& point) {
  return {point.address.value + point.uprobe_distance};
}

Result<CheckedPoint> make_point(const Query& query, VirtualAddress address,
                                const elf::Symbol* known, std::string_view found) {
  const elf::Segment* const segment = query.image.find_segment(address);
  const auto offset = query.image.to_image(address);
  if (segment == nullptr || !offset || !segment->executable)
    return fail(outside_code(query, fmt::format("address {:#x}", address.value)));
  // Returned without a move: patterns make thousands of points, and moving them takes time.
  Result<CheckedPoint> made;
  ProbePoint& point = made->point;
  auto placed = set_offsets(query, point, *segment, address, *offset);
  if (!placed) return fail(std::move(placed).error());
  made->misplaced = check_instruction(query, point, known, found);
  if (!made->misplaced && !is_aligned(query, address))
    made->misplaced = reject_misaligned(query, point);
  if (made->misplaced) point.effect = misplaced_effect;
  return made;
}

ProbePoint make_unchecked_point(std::shared_ptr<const ProbedBinary> binary,
                                ExaminedFunction function) {
  ProbePoint point;
  point.binary = std::move(binary);
  point.address = function.address;
  point.offset = function.offset;
  point.image_offset = function.image_offset;
  point.symbol = std::move(function.name);
  point.symbol_offset = 0;
  point.size = function.size;
  return point;
}

std::optional<symbols::CloneName> clone_name(const Query& query, const elf::Symbol& symbol) {
  if (!symbol.name.contains('.') || symbol.table == elf::Table::oat ||
      symbol.table == elf::Table::plt)
    return std::nullopt;
  return query.code.bodies().split(symbol);
}

std::optional<std::string> function_of_clone(const Query& query, const elf::Symbol& symbol) {
  const auto clone = clone_name(query, symbol);
  return clone ? std::optional(std::string(clone->base)) : std::nullopt;
}

void name_point(const Query& query, ProbePoint& point, const elf::Symbol& symbol,
                std::uint64_t symbol_offset) {
  point.symbol = symbol.name;
  point.symbol_offset = symbol_offset;
  if (const auto text = query.demangler.whole(symbol.name); text && *text != symbol.name)
    point.demangled = *text;
  if (symbol.table == elf::Table::oat && query.methods != nullptr && *query.methods)
    point.demangled = art::source_name(**query.methods, symbol.name);
  if (symbol.version) {
    point.version = symbol.version->name;
    point.default_version = symbol.version->is_default;
  }
  point.size = symbol.size;
  point.clone_of = function_of_clone(query, symbol);
  point.kind = symbols::symbol_kind(symbol);
  point.table = symbol.table;
  if (point.clone_of && symbols::is_cold_part(symbol.name) && symbol_offset == 0)
    point.warnings.push_back(fmt::format(
        "'{}' is a cold part split out by the compiler: it is reached by a jump, not a call",
        point.demangled.value_or(*point.symbol)));
  if (point.kind == symbols::SymbolKind::ifunc)
    point.warnings.push_back(fmt::format(
        "'{}' is an IFUNC: this is its resolver, which runs once when the process binds the name, "
        "not the code it chooses",
        point.demangled.value_or(*point.symbol)));
}

std::string_view to_string(ResolveOptions::Clones clones) {
  if (clones == ResolveOptions::Clones::bodies) return "bodies";
  return clones == ResolveOptions::Clones::all ? "all" : "none";
}

std::optional<ResolveOptions::Clones> parse_clones(std::string_view text) {
  for (const auto clones :
       {ResolveOptions::Clones::bodies, ResolveOptions::Clones::all, ResolveOptions::Clones::none})
    if (text == to_string(clones)) return clones;
  return std::nullopt;
}

bool is_body_of(const ProbePoint& point, const std::string& name) {
  if (!point.symbol) return false;
  const bool is_method = point.kind == symbols::SymbolKind::method;
  if (is_method && point.demangled && symbols::matches_pattern(name, *point.demangled)) return true;
  if (name == point.demangled || name == name_in_file(point)) return true;
  if (symbols::matches_name(name, *point.symbol, point.clone_of)) return true;
  if (symbols::is_name_pattern(name)) return false;
  const std::string_view raw = point.function();
  const elf::Symbol symbol{.name = raw};
  return symbols::matches_demangled_name(raw, name) ||
         !symbols::find_by_spelling({&symbol, 1}, name, point.binary->machine).symbols.empty();
}

namespace {

// The file that has the code, without its folders.
std::string_view shown_file(const ProbePoint& point) {
  const BinaryPath& path = point.binary->path;
  return file_name_of(path.entry ? *path.entry : path.file);
}

// Returns " (inlined into outer at engine.cpp:33)".
std::string display_text(const InlinedInto& into) {
  std::string text = " (inlined";
  if (!into.function.empty()) text += " into " + into.demangled.value_or(into.function);
  if (!into.source.empty()) text += fmt::format(" at {}", file_name_of(into.source));
  if (!into.source.empty() && into.line != 0) text += fmt::format(":{}", into.line);
  return text + (into.is_approximate ? ", approximate)" : ")");
}

} // namespace

bool is_in_target(const ProbePoint& point, std::string_view target) {
  const ProbedBinary& binary = *point.binary;
  if (target.empty()) return false;
  const auto is_meant = [&](std::string_view path) {
    return path == target || path.ends_with(fmt::format("/{}", target)) ||
           can_mean_library(file_name_of(path), target);
  };
  return target == binary.target || is_meant(to_string(binary.path)) ||
         (!binary.path.entry && is_meant(binary.real_path));
}

bool selects(std::string_view word, const ProbePoint& point,
             const std::function<bool(const std::string&)>& has_name) {
  if (has_name(std::string(word))) return true;
  const auto split = split_target(word, point.static_probe != nullptr);
  return split && is_in_target(point, split->target) && has_name(std::string(split->function));
}

std::string display_file_prefix(const ProbePoint& point) {
  return point.shows_file ? fmt::format("{}:", shown_file(point)) : std::string();
}

std::string display_name(const ProbePoint& point) {
  return display_file_prefix(point) + name_in_file(point);
}

std::string name_in_file(const ProbePoint& point) {
  if (!point.symbol) return fmt::format("vaddr:{:#x}", point.address.value);
  std::string name = point.demangled ? *point.demangled : *point.symbol;
  if (point.kind == symbols::SymbolKind::plt) {
    name += "@plt";
  } else if (point.version) {
    name += point.default_version.value_or(false) ? "@@" : "@";
    name += *point.version;
  }
  if (point.symbol_offset != 0) name += fmt::format("+{:#x}", point.symbol_offset);
  if (point.inlined_into) name += display_text(*point.inlined_into);
  return name;
}

std::string display_source(const ProbePoint& point, bool folders) {
  if (!point.source) return {};
  std::string_view file = point.source->file;
  if (!folders) file = file.substr(file.rfind('/') + 1);
  std::string text = fmt::format("{}:{}", file, point.source->line);
  if (point.source->inlined) text += fmt::format(" (inlined {})", *point.source->inlined);
  return text;
}

Result<std::vector<ProbePoint>> resolve_number(const Query& query) {
  const auto address = address_of_number(query);
  if (!address) return fail(address.error());
  const auto covering = query.symbolizer->find(*address);
  auto made = make_point(query, *address, covering ? &covering->symbol : nullptr);
  if (!made) return fail(std::move(made).error());
  ProbePoint& point = made->point;
  if (covering) name_by_number(query, point, *covering);
  if (made->misplaced && (query.options.to_probe || !is_aligned(query, *address)))
    return fail(std::move(*made->misplaced));
  if (made->misplaced) {
    point.warnings.push_back(std::move(made->misplaced->message));
    point.effect = {};
  }
  std::vector<ProbePoint> points;
  points.push_back(std::move(point));
  return points;
}

} // namespace uprobectl::resolve
