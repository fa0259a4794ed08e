// SPDX-License-Identifier: Apache-2.0
#include "art/oat_format.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

Arch arch_from_oat(std::uint32_t instruction_set) {
  for (const ArchInfo* const info : all_archs())
    if (std::ranges::find(info->art_instruction_sets, instruction_set) !=
        info->art_instruction_sets.end())
      return info->arch;
  return Arch::unknown;
}

// Maps InstructionSet (art/libartbase/arch/instruction_set.h) to Arch. Since ART commit ebc548c64c,
// between the releases of OAT 225 and 230, riscv64 has the number 4, which x86 had before. For
// versions between them, the machine of the ELF image decides.
Arch arch_from_oat(std::uint32_t instruction_set, std::uint32_t version, Arch image) {
  constexpr std::uint32_t last_before = 225;
  constexpr std::uint32_t first_after = 230;
  constexpr std::uint32_t riscv64 = 4;
  constexpr std::uint32_t last_x86_64 = 5; // mips followed, and is gone
  const bool moved = instruction_set >= riscv64;
  const Arch before = arch_from_oat(instruction_set + (moved ? 1 : 0));
  const bool is_known_before = instruction_set <= last_x86_64;
  if (version <= last_before) return is_known_before ? before : Arch::unknown;
  const Arch after = arch_from_oat(instruction_set);
  if (version < first_after && is_known_before && before == image) return before;
  return after;
}

std::optional<elf::Symbol> find_oat_symbol(const elf::Image& image, std::string_view name) {
  const auto found = image.find_dynamic(name);
  if (!found) return std::nullopt;
  const auto symbol = std::ranges::find_if(*found, &elf::Symbol::defined);
  return symbol == found->end() ? std::nullopt : std::optional(*symbol);
}

constexpr std::uint64_t instruction_set_at = 12;
constexpr std::uint64_t dex_count_at = 20;
constexpr std::uint64_t records_at = 24;
constexpr std::uint64_t base_offset_at = 32;

// Possible offsets of executable_offset, the most likely one for the version first: after no
// optional field, after bcp_bss_info_offset (OAT 222 and from 224 on), and after that and
// base_oat_offset (255).
std::array<std::uint64_t, 3> executable_fields(std::uint32_t version) {
  if (version >= 255) return {36, 32, 28};
  if (version == 222 || version >= 224) return {32, 28, 36};
  return {28, 32, 36};
}

// Whether the bytes can be a key-value store: NUL-separated text that begins with a key.
bool is_key_value_store(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  const auto is_key_letter = [](char c) { // "dex2oat-cmdline"
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (text.size() < 4 || text.back() != '\0' || !is_key_letter(text.front())) return false;
  const auto key = text.substr(0, text.find('\0'));
  return std::ranges::all_of(key, is_key_letter) &&
         std::ranges::none_of(text, [](unsigned char c) { return c != 0 && c < ' '; });
}

// Finds the key-value store by its content, because the trampoline offsets between
// executable_offset and the store differ between versions. Returns empty bytes if there is none, as
// in the secondary files of a boot image.
Bytes find_key_value_store(Bytes data, std::uint64_t executable_field) {
  constexpr std::uint64_t max_words = 14;
  for (std::uint64_t i = 1; i <= max_words; ++i) {
    const std::uint64_t at = executable_field + i * 4;
    const auto size = read_at<std::uint32_t>(data, at);
    if (!size) return {};
    const auto values = slice(data, at + 4, *size);
    if (*size != 0 && values && is_key_value_store(*values)) return *values;
  }
  return {};
}

std::optional<std::uint32_t> parse_oat_version(Bytes data) {
  const auto magic = slice(data, 0, 8);
  if (!magic || !as_text(*magic).starts_with("oat\n") || as_text(*magic)[7] != '\0') return {};
  std::uint32_t version = 0;
  for (const char digit : as_text(magic->subspan(4, 3))) {
    if (digit < '0' || digit > '9') return std::nullopt;
    version = version * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return version;
}

// The bytes from an address to the end of its segment.
std::optional<Bytes> bytes_from(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.find_segment(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !offset) return std::nullopt;
  return slice(image.bytes(), offset->value,
               segment->file_size - (address.value - segment->address.value));
}

} // namespace

bool has_oat_header(const elf::Image& image) {
  const auto oatdata = find_oat_symbol(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  return data && parse_oat_version(*data);
}

Result<OatHeader> read_oat_header(const elf::Image& image) {
  const auto oatdata = find_oat_symbol(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  const auto version = data ? parse_oat_version(*data) : std::nullopt;
  if (!version) return fail(ErrorKind::not_found, "not an OAT file");
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorKind::corrupt, fmt::format("OAT version {}: {}", *version, what));
  };
  OatHeader header{.data = *data, .address = oatdata->address, .version = *version, .values = {}};
  const auto instruction_set = read_at<std::uint32_t>(*data, instruction_set_at);
  const auto dex_count = read_at<std::uint32_t>(*data, dex_count_at);
  const auto records = read_at<std::uint32_t>(*data, records_at);
  if (!instruction_set || !dex_count || !records) return wrong("its header is truncated");
  const Arch arch = arch_from_oat(*instruction_set, *version, image.machine().arch);
  if (arch == Arch::unknown)
    return fail(ErrorKind::unsupported,
                fmt::format("OAT version {}: unsupported instruction set {} (ELF {})", *version,
                            *instruction_set, elf::to_string(image.machine())));
  if (arch != image.machine().arch)
    return wrong(fmt::format("instruction set {} does not match the ELF image ({})",
                             *instruction_set, elf::to_string(image.machine())));
  // The code begins at oatexec. Without code the data ends at the end of oatdata.
  const auto oatexec = find_oat_symbol(image, "oatexec");
  const std::uint64_t executable =
      oatexec ? oatexec->address.value - oatdata->address.value : oatdata->size;
  const auto base = image.to_image(oatdata->address); // in the segment that bytes_from() found
  const auto fields = executable_fields(*version);
  const auto field = std::ranges::find_if(fields, [&](std::uint64_t at) {
    return read_at<std::uint32_t>(*data, at) == executable &&
           (at <= base_offset_at || read_at<std::uint32_t>(*data, base_offset_at) == base->value);
  });
  if (field == fields.end()) return wrong("its header has no offset of the code");
  header.executable = static_cast<std::uint32_t>(executable);
  header.data = data->first(std::min<std::uint64_t>(executable, data->size()));
  header.values = find_key_value_store(header.data, *field);
  header.dex_count = *dex_count;
  header.records = *records;
  const std::uint64_t min_record_size = 6 * sizeof(std::uint32_t);
  if (*records >= header.data.size() ||
      std::uint64_t{*dex_count} * min_record_size > header.data.size() - *records)
    return wrong("the records of its DEX files are outside the file");
  return header;
}

Result<OatHeader> locate_oatdata(const elf::Image& image) {
  const auto oatdata = find_oat_symbol(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  const auto version = data ? parse_oat_version(*data) : std::nullopt;
  if (!version) return fail(ErrorKind::not_found, "not an OAT file");
  return OatHeader{.data = *data, .address = oatdata->address, .version = *version, .values = {}};
}

std::string_view find_store_value(Bytes values, std::string_view key) {
  std::string_view rest = as_text(values);
  const auto next = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of('\0'), rest.size()));
    const auto text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    return text;
  };
  while (!rest.empty()) {
    const auto name = next();
    // An empty value is a single NUL.
    const auto value = rest.starts_with('\0') ? std::string_view() : next();
    if (name == key) return value;
  }
  return {};
}

namespace {

constexpr std::uint32_t max_location_size = 4096;
constexpr std::uint32_t signature_size = 20;
constexpr std::uint32_t max_last_words = 8;

// Reads consecutive fields.
class FieldReader {
public:
  FieldReader(Bytes bytes, std::uint64_t position) : bytes_(bytes), position_(position) {}

  std::uint32_t word() {
    const auto value = read_at<std::uint32_t>(bytes_, position_);
    take(sizeof(std::uint32_t));
    return value.value_or(0);
  }
  Bytes take(std::uint64_t size) {
    const auto found = slice(bytes_, position_, size);
    if (!found) complete_ = false;
    if (found) position_ += size;
    return found.value_or(Bytes());
  }
  bool complete() const { return complete_; } // no field was truncated

private:
  Bytes bytes_;
  std::uint64_t position_;
  bool complete_ = true;
};

bool is_location(std::string_view text) {
  return !text.empty() &&
         std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

bool is_magic(std::string_view text) {
  return text.starts_with("dex\n") || text.starts_with("cdex");
}

std::optional<OatRecord> read_record(const OatHeader& header, const RecordLayout& layout,
                                     FieldReader& fields) {
  OatRecord record;
  const std::uint32_t size = fields.word();
  if (size > max_location_size) return std::nullopt;
  record.location = as_text(fields.take(size));
  if (!is_location(record.location)) return std::nullopt;
  constexpr std::uint64_t magic_size = 8;
  if (layout.magic && !is_magic(as_text(fields.take(magic_size)))) return std::nullopt;
  record.checksum = fields.word();
  if (layout.signature) record.signature = fields.take(signature_size);
  record.dex_offset = fields.word();
  record.class_offsets = fields.word();
  fields.word(); // lookup_table_offset, in this file or in the VDEX file
  fields.take(std::uint64_t{layout.last_words} * sizeof(std::uint32_t));
  if (!fields.complete() || record.dex_offset % 4 != 0) return std::nullopt;
  if (record.class_offsets % 4 != 0 || record.class_offsets >= header.data.size())
    return std::nullopt;
  return record;
}

std::uint32_t likely_last_words(std::uint32_t version) {
  if (version < 138) return 2;
  if (version < 186) return 4;
  return version < 241 ? 6 : 7;
}

} // namespace

std::vector<RecordLayout> record_layouts(std::uint32_t version) {
  const RecordLayout likely{version >= 233, version >= 232, likely_last_words(version)};
  std::vector<RecordLayout> layouts;
  for (const bool magic : {false, true})
    for (const bool signature : {false, true})
      for (std::uint32_t words = 1; words <= max_last_words; ++words)
        layouts.push_back({magic, signature, words});
  const auto distance = [&](const RecordLayout& layout) {
    return 4 * (layout.magic != likely.magic) + 2 * (layout.signature != likely.signature) +
           (layout.last_words != likely.last_words);
  };
  std::ranges::sort(layouts, [&](const RecordLayout& a, const RecordLayout& b) {
    return std::pair(distance(a), a.last_words) < std::pair(distance(b), b.last_words);
  });
  return layouts;
}

std::optional<std::vector<OatRecord>> read_records(const OatHeader& header,
                                                   const RecordLayout& layout) {
  FieldReader fields(header.data, header.records);
  std::vector<OatRecord> records;
  for (std::uint32_t i = 0; i < header.dex_count; ++i) {
    auto record = read_record(header, layout, fields);
    if (!record) return std::nullopt;
    records.push_back(*record);
  }
  return records;
}

namespace {

// OatClassType of art/runtime/oat/oat_file.h.
enum Type : std::uint16_t { all_compiled = 0, some_compiled = 1, none_compiled = 2 };

// One OatClass.
struct OatClass {
  std::uint16_t type = none_compiled;
  Bytes bitmap;  // a bit for each method, if the type is some_compiled
  Bytes offsets; // begins with the first code_offset

  bool is_compiled(std::uint32_t method) const {
    if (type != some_compiled) return type == all_compiled;
    const auto byte = read_at<std::uint8_t>(bitmap, method / 8);
    return byte && (*byte >> (method % 8) & 1U) != 0;
  }
};

std::optional<OatClass> read_class(const OatClasses& classes, std::uint32_t index,
                                   std::uint32_t methods) {
  const Bytes data = classes.header.data;
  const auto offset = read_at<std::uint32_t>(data, classes.offsets + std::uint64_t{index} * 4);
  const auto status = offset ? read_at<std::uint16_t>(data, *offset) : std::nullopt;
  const auto type =
      offset ? read_at<std::uint16_t>(data, std::uint64_t{*offset} + 2) : std::nullopt;
  if (!status || !type || *type > none_compiled) return std::nullopt;
  OatClass found{.type = *type, .bitmap = {}, .offsets = {}};
  if (*type == none_compiled) return found;
  std::uint64_t at = std::uint64_t{*offset} + 4;
  if (classes.counts_methods) {
    if (read_at<std::uint32_t>(data, at) != methods) return std::nullopt;
    at += 4;
  }
  if (*type == some_compiled) {
    const std::uint64_t size = (std::uint64_t{methods} + 31) / 32 * 4;
    if (!classes.counts_methods) {
      if (read_at<std::uint32_t>(data, at) != size) return std::nullopt;
      at += 4;
    }
    const auto bitmap = slice(data, at, size);
    if (!bitmap) return std::nullopt;
    found.bitmap = *bitmap;
    at += size;
  }
  const auto offsets = slice(data, at, data.size() - std::min<std::uint64_t>(at, data.size()));
  if (!offsets) return std::nullopt;
  found.offsets = *offsets;
  return found;
}

// Sets the method's code address, if it is compiled. Returns false if it is outside the code range.
bool set_code(const OatClasses& classes, std::uint32_t code_offset, Method& method) {
  if (code_offset == 0) return true;
  const CodeRange& code = classes.code;
  method.thumb = code.may_be_thumb && (code_offset & 1U) != 0;
  method.code = {classes.header.address.value + code_offset - (method.thumb ? 1 : 0)};
  method.compiled = true;
  return method.code >= code.begin && method.code < code.end &&
         (method.thumb || method.code.value % code.alignment == 0);
}

template <typename Visit>
bool visit_class(const OatClasses& classes, std::uint32_t index, ClassBudget& budget, bool all,
                 const Visit& visitor) {
  const auto defined = classes.dex.class_def(index);
  if (!defined) return false;
  auto methods = ClassMethods::read(classes.dex, *defined, budget);
  if (!methods) return false;
  const auto compiled = read_class(classes, index, methods->size());
  if (!compiled) return false;
  if (compiled->type == none_compiled && !all) return true;
  std::uint64_t next_offset = 0;
  for (std::uint32_t i = 0; i < methods->size(); ++i) {
    const auto item = methods->next();
    if (!item || item->index >= classes.dex.method_count()) return false;
    Method method{.code = {}, .index = item->index, .access = item->access, .dex = classes.number};
    if (compiled->is_compiled(i)) {
      const auto code_offset = read_at<std::uint32_t>(compiled->offsets, next_offset);
      next_offset += 4;
      if (!code_offset || !set_code(classes, *code_offset, method)) return false;
    }
    if (all || method.compiled) visitor(method);
  }
  return true;
}

} // namespace

CodeRange code_range(const elf::Image& image, const OatHeader& header) {
  const ArchInfo& arch = image.machine().info();
  CodeRange range;
  range.begin = {header.address.value + header.executable};
  range.end = range.begin;
  range.may_be_thumb = arch.thumb_bit;
  range.alignment = arch.instruction_size != 0 ? arch.instruction_size : 1;
  const elf::Segment* const segment = image.find_segment(range.begin);
  if (segment != nullptr && segment->executable)
    range.end = {segment->address.value + segment->file_size};
  return range;
}

bool visit_methods(const OatClasses& classes, std::uint32_t index, ClassBudget& budget,
                   const std::function<void(const Method&)>& visitor) {
  return visit_class(classes, index, budget, true, visitor);
}

bool add_compiled(const OatClasses& classes, std::uint64_t max_methods,
                  std::vector<Method>& methods) {
  ClassBudget budget(classes.dex);
  for (std::uint32_t i = 0; i < classes.dex.class_count(); ++i)
    if (!visit_class(classes, i, budget, false,
                     [&](const Method& method) { methods.push_back(method); }) ||
        methods.size() > max_methods)
      return false;
  return true;
}

namespace {

// CodeInfo (art/runtime/oat/stack_map.h) begins with seven interleaved varints (BitMemoryReader::
// ReadInterleavedVarints). Each has four bits; a value of 12 to 15 means that the number is in one
// to four bytes after the last of them. The first varint is flags, the second the code size.
std::uint64_t size_in_code_info(Bytes info) {
  constexpr std::uint64_t headers = 7;
  constexpr std::uint64_t max_inline = 11;
  // All fields begin and end between two nibbles.
  const auto nibbles = [&](std::uint64_t at, std::uint64_t count) {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto byte = read_at<std::uint8_t>(info, (at + i) / 2).value_or(0);
      value |= std::uint64_t{byte >> ((at + i) % 2 * 4) & 0xfU} << (4 * i);
    }
    return value;
  };
  const std::uint64_t flags = nibbles(0, 1);
  const std::uint64_t size = nibbles(1, 1);
  if (size <= max_inline) return size;
  std::uint64_t at = headers;
  if (flags > max_inline) at += (flags - max_inline) * 2;
  return nibbles(at, (size - max_inline) * 2);
}

} // namespace

std::uint64_t code_size(const elf::Image& image, VirtualAddress code, CodeSizeForm form) {
  constexpr std::uint32_t is_code_info = 0x40000000;
  constexpr std::uint32_t distance = 0x3fffffff; // the highest bit requests deoptimization
  if (form == CodeSizeForm::unknown || code.value < sizeof(std::uint32_t)) return 0;
  const auto word = read_at<std::uint32_t>(
      bytes_from(image, {code.value - sizeof(std::uint32_t)}).value_or(Bytes()), 0);
  if (!word) return 0;
  if (form == CodeSizeForm::in_header) return *word & 0x7fffffffU;
  const std::uint32_t rest = *word & distance;
  if (form == CodeSizeForm::marked && (*word & is_code_info) == 0) return rest;
  // A distance of zero was never written.
  if (rest == 0 || rest > code.value) return 0;
  return size_in_code_info(bytes_from(image, {code.value - rest}).value_or(Bytes()));
}

} // namespace uprobectl::art
