// SPDX-License-Identifier: Apache-2.0
#include "art/dex.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

// header_item: offsets of its fields.
constexpr std::uint64_t checksum_at = 8;
constexpr std::uint64_t signature_at = 12;
constexpr std::uint64_t file_size_at = 32;
constexpr std::uint64_t byte_order_at = 40;
constexpr std::uint64_t strings_at = 56; // for each table: number of entries, offset
constexpr std::uint64_t types_at = 64;
constexpr std::uint64_t protos_at = 72;
constexpr std::uint64_t fields_at = 80;
constexpr std::uint64_t methods_at = 88;
constexpr std::uint64_t classes_at = 96;
constexpr std::uint64_t data_at = 104;
constexpr std::uint64_t header_size = 112;
constexpr std::uint64_t container_size_at = 112; // version 041
constexpr std::uint64_t header_offset_at = 116;
constexpr std::uint64_t container_header_size = 120;
constexpr std::uint64_t dex_signature_size = 20;

constexpr std::uint64_t class_size = 32;
constexpr std::uint64_t field_size = 8;
constexpr std::uint64_t method_size = 8;
constexpr std::uint64_t proto_size = 12;

bool has_magic(Bytes bytes, std::string_view magic) {
  const auto begin = slice(bytes, 0, magic.size());
  return begin && as_text(*begin) == magic;
}

bool is_compact(Bytes bytes) { return has_magic(bytes, "cdex"); }

constexpr std::string_view container_magic("dex\n041\0", 8);

Result<Vdex> read_checksums(Bytes bytes, std::uint32_t version, std::uint64_t at,
                            std::uint64_t count) {
  const auto table = slice(bytes, at, count * sizeof(std::uint32_t));
  if (!table) return fail(ErrorKind::corrupt, "the VDEX file's checksums are truncated");
  Vdex vdex{.version = version, .checksums = {}};
  for (std::uint64_t i = 0; i < count; ++i)
    vdex.checksums.push_back(*read_at<std::uint32_t>(*table, i * sizeof(std::uint32_t)));
  return vdex;
}

// From version 027 on, checksums are in the section of kind 0.
Result<Vdex> read_sections(Bytes bytes, std::uint32_t version) {
  constexpr std::uint64_t table_at = 12;
  constexpr std::uint64_t section_size = 12; // kind, offset, size
  constexpr std::uint32_t max_sections = 64;
  const auto count = read_at<std::uint32_t>(bytes, 8).value_or(0);
  for (std::uint32_t i = 0; i < std::min(count, max_sections); ++i) {
    const auto section = slice(bytes, table_at + i * section_size, section_size);
    if (!section) break;
    if (read_at<std::uint32_t>(*section, 0) != 0U) continue;
    return read_checksums(bytes, version, *read_at<std::uint32_t>(*section, 4),
                          *read_at<std::uint32_t>(*section, 8) / sizeof(std::uint32_t));
  }
  return fail(ErrorKind::corrupt, "the VDEX file has no checksums");
}

} // namespace

bool DexFile::looks_like_dex(Bytes bytes) { return has_magic(bytes, "dex\n") || is_compact(bytes); }

bool DexFile::looks_like_container(Bytes bytes) {
  return has_magic(bytes, container_magic) && bytes.size() >= container_header_size;
}

Result<DexFile> DexFile::parse(Bytes bytes, std::uint64_t at) {
  if (at != 0) return parse_in_container(bytes, at);
  if (looks_like_container(bytes)) return parse_in_container(bytes, 0);
  const auto header = slice(bytes, 0, header_size);
  if (!header || !looks_like_dex(bytes)) return fail(ErrorKind::corrupt, "not a DEX file");
  const std::string_view version = as_text(bytes.subspan(4, 3));
  // Versions 035 to 040 differ only in instructions.
  const bool known = is_compact(bytes) ? version == "001" : version >= "035" && version <= "040";
  if (!known || read_at<std::uint32_t>(bytes, byte_order_at) != 0x12345678U)
    return fail(ErrorKind::unsupported, fmt::format("unsupported DEX version {}", version));
  DexFile dex;
  const auto file_size = *read_at<std::uint32_t>(bytes, file_size_at);
  const auto file = slice(bytes, 0, file_size);
  if (!file || file_size < header_size)
    return fail(ErrorKind::corrupt,
                fmt::format("the DEX file is truncated: its header gives {} bytes, found {}",
                            file_size, bytes.size()));
  dex.bytes_ = *file;
  dex.data_ = *file;
  if (is_compact(bytes)) {
    const auto data_begin = *read_at<std::uint32_t>(bytes, data_at + 4);
    if (data_begin > bytes.size())
      return fail(ErrorKind::corrupt, "the DEX file's data is truncated");
    dex.data_ = bytes.subspan(data_begin);
  }
  return with_tables(dex, dex.bytes_);
}

Result<DexFile> DexFile::parse_in_container(Bytes bytes, std::uint64_t at) {
  const auto rest = slice(bytes, at, bytes.size() - std::min<std::uint64_t>(at, bytes.size()));
  if (!rest || !looks_like_container(*rest))
    return fail(ErrorKind::corrupt, "not a DEX file of a container");
  if (read_at<std::uint32_t>(*rest, byte_order_at) != 0x12345678U)
    return fail(ErrorKind::unsupported, "unsupported byte order of a DEX file");
  const auto file_size = *read_at<std::uint32_t>(*rest, file_size_at);
  const auto container = slice(bytes, 0, *read_at<std::uint32_t>(*rest, container_size_at));
  const auto file = container ? slice(*container, at, file_size) : std::nullopt;
  if (!file || file_size < container_header_size)
    return fail(ErrorKind::corrupt, "the DEX container is truncated");
  if (*read_at<std::uint32_t>(*rest, header_offset_at) != at)
    return fail(ErrorKind::corrupt, "the DEX file is at another offset than its header gives");
  DexFile dex;
  dex.in_container_ = true;
  dex.bytes_ = *file;
  dex.data_ = *container;
  return with_tables(dex, *container);
}

Result<DexFile> DexFile::with_tables(DexFile dex, Bytes base) {
  const auto read = [&](Table& into, std::uint64_t field, std::uint64_t size) -> Result<void> {
    auto table = dex.table(base, field, size);
    if (!table) return fail(std::move(table).error());
    into = *table;
    return {};
  };
  for (const auto& result :
       {read(dex.strings_, strings_at, 4), read(dex.types_, types_at, 4),
        read(dex.protos_, protos_at, proto_size), read(dex.fields_, fields_at, field_size),
        read(dex.methods_, methods_at, method_size), read(dex.classes_, classes_at, class_size)})
    if (!result) return fail(result.error());
  return dex;
}

Result<DexFile::Table> DexFile::table(Bytes base, std::uint64_t header_field,
                                      std::uint64_t entry_size) const {
  const auto count = *read_at<std::uint32_t>(bytes_, header_field);
  const auto offset = *read_at<std::uint32_t>(bytes_, header_field + 4);
  const auto bytes = slice(base, offset, count * entry_size);
  if (!bytes) return fail(ErrorKind::corrupt, "a table of the DEX file is truncated");
  return Table{*bytes, count};
}

Bytes DexFile::signature() const { return bytes_.subspan(signature_at, dex_signature_size); }
std::uint32_t DexFile::checksum() const { return *read_at<std::uint32_t>(bytes_, checksum_at); }

std::vector<std::uint64_t> dex_headers(Bytes bytes) {
  if (!DexFile::looks_like_container(bytes)) return {0};
  std::vector<std::uint64_t> headers;
  std::uint64_t at = 0;
  while (const auto dex = DexFile::parse(bytes, at)) {
    headers.push_back(at);
    at += dex->bytes().size();
    if (at >= dex->data().size()) break;
  }
  return headers;
}

std::optional<std::uint64_t> container_begin(Bytes bytes, std::uint64_t header) {
  const auto dex =
      slice(bytes, header, bytes.size() - std::min<std::uint64_t>(header, bytes.size()));
  if (!dex) return std::nullopt;
  if (!DexFile::looks_like_container(*dex)) return header;
  const std::uint64_t before = *read_at<std::uint32_t>(*dex, header_offset_at);
  return before <= header ? std::optional(header - before) : std::nullopt;
}

std::optional<DexFile::Class> DexFile::class_def(std::uint32_t index) const {
  const auto item = slice(classes_.bytes, index * class_size, class_size);
  if (!item) return std::nullopt;
  return Class{.type = *read_at<std::uint32_t>(*item, 0),
               .superclass = *read_at<std::uint32_t>(*item, 8),
               .data = *read_at<std::uint32_t>(*item, 24)};
}

std::optional<DexFile::MethodId> DexFile::method_id(std::uint32_t index) const {
  const auto item = slice(methods_.bytes, index * method_size, method_size);
  if (!item) return std::nullopt;
  return MethodId{.type = *read_at<std::uint16_t>(*item, 0),
                  .proto = *read_at<std::uint16_t>(*item, 2),
                  .name = *read_at<std::uint32_t>(*item, 4)};
}

std::optional<DexFile::Proto> DexFile::proto(std::uint32_t index) const {
  const auto item = slice(protos_.bytes, index * proto_size, proto_size);
  if (!item) return std::nullopt;
  return Proto{.return_type = *read_at<std::uint32_t>(*item, 4),
               .parameters = *read_at<std::uint32_t>(*item, 8)};
}

std::optional<std::string_view> DexFile::string(std::uint32_t index) const {
  const auto offset = read_at<std::uint32_t>(strings_.bytes, std::uint64_t{index} * 4);
  if (!offset) return std::nullopt;
  Leb128 cursor(data_, *offset);
  const auto units = cursor.next(); // length in UTF-16 units
  if (!units || *units > max_string_units || cursor.position() > data_.size()) return std::nullopt;
  const Bytes rest = data_.subspan(cursor.position());
  constexpr std::uint64_t max_bytes = 3; // per unit; the string is NUL-terminated
  return c_string_at(rest.first(std::min<std::uint64_t>(rest.size(), max_bytes * *units + 1)), 0);
}

std::optional<std::string_view> DexFile::type(std::uint32_t index) const {
  const auto name = read_at<std::uint32_t>(types_.bytes, std::uint64_t{index} * 4);
  return name ? string(*name) : std::nullopt;
}

std::uint32_t DexFile::list_size(std::uint32_t list) const {
  return list == 0 ? 0 : read_at<std::uint32_t>(data_, list).value_or(0);
}

std::optional<std::uint32_t> DexFile::type_in_list(std::uint32_t list, std::uint32_t index) const {
  return read_at<std::uint16_t>(data_, std::uint64_t{list} + 4 + std::uint64_t{index} * 2);
}

std::optional<ClassMethods> ClassMethods::read(const DexFile& dex, const DexFile::Class& defined,
                                               ClassBudget& budget) {
  ClassMethods methods;
  if (defined.data == 0) return methods;
  Leb128 cursor(dex.data(), defined.data);
  const auto static_fields = cursor.next();
  const auto instance_fields = cursor.next();
  const auto direct = cursor.next();
  const auto virtuals = cursor.next();
  if (!static_fields || !instance_fields || !direct || !virtuals) return std::nullopt;
  const std::uint64_t fields = std::uint64_t{*static_fields} + *instance_fields;
  const std::uint64_t count = std::uint64_t{*direct} + *virtuals;
  if (fields > budget.fields || count > budget.methods) return std::nullopt;
  budget.fields -= fields;
  budget.methods -= count;
  for (std::uint64_t i = 0; i < 2 * fields; ++i) // index and access_flags of each
    if (!cursor.next()) return std::nullopt;
  methods.cursor_ = cursor;
  methods.size_ = static_cast<std::uint32_t>(count);
  methods.direct_ = *direct;
  return methods;
}

std::optional<ClassMethods::Item> ClassMethods::next() {
  if (read_ == size_) return std::nullopt;
  if (read_ == direct_) index_ = 0; // each list starts from index 0
  ++read_;
  const auto difference = cursor_.next();
  const auto access = cursor_.next();
  const auto code = cursor_.next();
  if (!difference || !access || !code) return std::nullopt;
  index_ += *difference;
  return Item{index_, *access};
}

bool looks_like_vdex(Bytes bytes) {
  const auto magic = slice(bytes, 0, 4);
  return magic && as_text(*magic) == "vdex";
}

Result<Vdex> parse_vdex(Bytes bytes) {
  const auto magic = slice(bytes, 0, 8);
  if (!magic || !looks_like_vdex(bytes)) return fail(ErrorKind::corrupt, "not a VDEX file");
  std::uint32_t version = 0;
  for (const char digit : as_text(magic->subspan(4, 3))) {
    if (digit < '0' || digit > '9') return fail(ErrorKind::corrupt, "not a VDEX file");
    version = version * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  // Offsets of the number of DEX files and of their checksums. The header ends with dex_size,
  // verifier_deps_size and quickening_info_size. From 019 on (Android 9) the DEX section has its
  // own version; 021 adds two sizes of the class loader context.
  struct HeaderLayout {
    std::uint64_t count_at;
    std::uint64_t checksums_at;
  };
  constexpr std::uint32_t oldest = 6;
  constexpr std::uint32_t newest = 27;
  if (version < oldest || version > newest)
    return fail(ErrorKind::unsupported, fmt::format("unsupported VDEX version {:03}", version));
  if (version == newest) return read_sections(bytes, version);
  const HeaderLayout layout = version < 11   ? HeaderLayout{8, 24}
                              : version < 21 ? HeaderLayout{12, 20}
                                             : HeaderLayout{12, 28};
  const auto count = read_at<std::uint32_t>(bytes, layout.count_at);
  if (!count) return fail(ErrorKind::corrupt, "the VDEX file's header is truncated");
  return read_checksums(bytes, version, layout.checksums_at, *count);
}

namespace {

std::string_view primitive_type_name(char letter) {
  switch (letter) {
  case 'V':
    return "void";
  case 'Z':
    return "boolean";
  case 'B':
    return "byte";
  case 'S':
    return "short";
  case 'C':
    return "char";
  case 'I':
    return "int";
  case 'J':
    return "long";
  case 'F':
    return "float";
  case 'D':
    return "double";
  default:
    return {};
  }
}

// Decodes three bytes of modified UTF-8 to a UTF-16 unit; returns 0 if they are not valid.
std::uint32_t unit_at(std::string_view text, std::size_t at) {
  if (at > text.size() || text.size() - at < 3) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if ((byte(0) & 0xf0U) != 0xe0U || (byte(1) & 0xc0U) != 0x80U || (byte(2) & 0xc0U) != 0x80U)
    return 0;
  return (byte(0) & 0xfU) << 12U | (byte(1) & 0x3fU) << 6U | (byte(2) & 0x3fU);
}

bool is_high_surrogate(std::uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low_surrogate(std::uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

std::string type_text(const DexFile& dex, std::uint32_t type) {
  std::string text;
  append_type(dex.type(type).value_or("?"), text);
  return text;
}

} // namespace

void append_utf8(std::string_view modified, std::string& text) {
  const auto is_ascii = [](char letter) { return static_cast<unsigned char>(letter) < 0x80; };
  const auto ascii_end = std::ranges::find_if_not(modified, is_ascii);
  text.append(modified.begin(), ascii_end);
  for (auto at = static_cast<std::size_t>(ascii_end - modified.begin()); at < modified.size();) {
    const std::uint32_t high = unit_at(modified, at);
    const std::uint32_t low = is_high_surrogate(high) ? unit_at(modified, at + 3) : 0;
    if (is_low_surrogate(low)) {
      append_code_point(text, 0x10000 + ((high - 0xd800) << 10U) + (low - 0xdc00));
      at += 6;
    } else if (modified.substr(at, 2) == "\xc0\x80") {
      text += '\0';
      at += 2;
    } else {
      text += modified[at++];
    }
  }
}

void append_type(std::string_view descriptor, std::string& text) {
  const std::size_t dimensions = std::min(descriptor.find_first_not_of('['), descriptor.size());
  const std::string_view element = descriptor.substr(dimensions);
  if (element.size() > 2 && element.front() == 'L' && element.back() == ';') {
    const std::size_t begin = text.size();
    append_utf8(element.substr(1, element.size() - 2), text);
    for (std::size_t i = begin; i < text.size(); ++i)
      if (text[i] == '/') text[i] = '.';
  } else if (const auto name = primitive_type_name(element.empty() ? '\0' : element.front());
             element.size() == 1 && !name.empty()) {
    text += name;
  } else {
    append_utf8(descriptor, text);
    return;
  }
  for (std::size_t i = 0; i < dimensions; ++i) text += "[]";
}

namespace {

// Removes the type descriptor at the start and returns its Java name. `is_return`: it may be void.
std::optional<std::string> take_type(std::string_view& descriptor, bool is_return) {
  constexpr std::size_t max_dimensions = 255;
  const auto dimensions = descriptor.find_first_not_of('[');
  if (dimensions == std::string_view::npos || dimensions > max_dimensions) return std::nullopt;
  const char first = descriptor[dimensions];
  std::size_t size = dimensions + 1;
  if (first == 'L') {
    const auto end = descriptor.find(';');
    if (end == std::string_view::npos || end == dimensions + 1) return std::nullopt;
    size = end + 1;
  } else if (primitive_type_name(first).empty() || (first == 'V' && !(is_return && size == 1))) {
    return std::nullopt;
  }
  std::string type;
  append_type(descriptor.substr(0, size), type);
  descriptor.remove_prefix(size);
  return type;
}

} // namespace

std::optional<MethodTypes> parse_descriptor(std::string_view descriptor) {
  if (!descriptor.starts_with('(')) return std::nullopt;
  descriptor.remove_prefix(1);
  MethodTypes types;
  while (!descriptor.starts_with(')')) {
    auto type = take_type(descriptor, false);
    if (!type) return std::nullopt;
    types.parameters.push_back(std::move(*type));
  }
  descriptor.remove_prefix(1);
  auto type = take_type(descriptor, true);
  if (!type || !descriptor.empty()) return std::nullopt;
  types.return_type = std::move(*type);
  return types;
}

std::vector<std::string_view> r8_map_ids(const DexFile& dex) {
  constexpr std::string_view marker = "~~R8{";
  constexpr std::string_view key = "\"pg-map-id\":\"";
  constexpr std::size_t max_markers = 16; // R8 keeps those of libraries
  std::uint32_t begin = 0;                // the strings are sorted
  for (std::uint32_t end = dex.string_count(); begin < end;) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (dex.string(middle).value_or("") < marker)
      begin = middle + 1;
    else
      end = middle;
  }
  std::vector<std::string_view> ids;
  for (; ids.size() < max_markers; ++begin) {
    const auto text = dex.string(begin);
    if (!text || !text->starts_with(marker)) return ids;
    const auto at = text->find(key);
    if (at == std::string_view::npos) continue;
    const auto id = text->substr(at + key.size());
    ids.push_back(id.substr(0, id.find('"')));
  }
  return ids;
}

void append_dex_method_name(const DexFile& dex, std::uint32_t method, std::string& text) {
  const auto id = dex.method_id(method).value_or(DexFile::MethodId());
  append_type(dex.type(id.type).value_or("?"), text);
  text += '.';
  append_utf8(dex.string(id.name).value_or("?"), text);
}

Signature dex_method_signature(const DexFile& dex, std::uint32_t method) {
  // A method can have 255 parameters with long type names: limit the total.
  std::size_t budget = max_signature_size;
  const auto limited = [&budget](std::string text) {
    if (text.size() > budget) return std::string("?");
    budget -= text.size();
    return text;
  };
  Signature signature;
  const auto id = dex.method_id(method).value_or(DexFile::MethodId());
  const auto proto = dex.proto(id.proto).value_or(DexFile::Proto());
  append_utf8(dex.string(id.name).value_or("?"), signature.name);
  signature.name = limited(std::move(signature.name));
  signature.class_name = limited(type_text(dex, id.type));
  signature.return_type = limited(type_text(dex, proto.return_type));
  constexpr std::uint32_t max_parameters = 255; // JVMS 4.3.3
  const std::uint32_t count = std::min(dex.list_size(proto.parameters), max_parameters);
  for (std::uint32_t i = 0; i < count && budget != 0; ++i) {
    const auto type = dex.type_in_list(proto.parameters, i);
    if (!type) break;
    signature.parameters.push_back(limited(type_text(dex, *type)));
  }
  return signature;
}

std::string to_string(const Signature& signature) {
  std::string text =
      signature.return_type + ' ' + signature.class_name + '.' + signature.name + '(';
  bool first = true;
  for (const std::string& parameter : signature.parameters) {
    if (!std::exchange(first, false)) text += ", ";
    text += parameter;
  }
  return text + ')';
}

} // namespace uprobectl::art
