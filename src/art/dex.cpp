#include "art/dex.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

// header_item: offsets of its fields.
constexpr std::uint64_t signature_at = 12;
constexpr std::uint64_t file_size_at = 32;
constexpr std::uint64_t byte_order_at = 40;
constexpr std::uint64_t strings_at = 56; // of each table the number of entries, then the offset
constexpr std::uint64_t types_at = 64;
constexpr std::uint64_t protos_at = 72;
constexpr std::uint64_t fields_at = 80;
constexpr std::uint64_t methods_at = 88;
constexpr std::uint64_t classes_at = 96;
constexpr std::uint64_t data_at = 104;
constexpr std::uint64_t header_size = 112;
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

} // namespace

bool DexFile::looks_like_dex(Bytes bytes) { return has_magic(bytes, "dex\n") || is_compact(bytes); }

Result<DexFile> DexFile::parse(Bytes bytes) {
  const auto header = slice(bytes, 0, header_size);
  if (!header || !looks_like_dex(bytes)) return fail(ErrorKind::corrupt, "no DEX file");
  const std::string_view version = as_text(bytes.subspan(4, 3));
  // 035 to 040 differ in what instructions may say; 041 is a container of several files.
  const bool known = is_compact(bytes) ? version == "001" : version >= "035" && version <= "040";
  if (!known || read_at<std::uint32_t>(bytes, byte_order_at) != 0x12345678U)
    return fail(ErrorKind::unsupported, fmt::format("DEX version {} is not known", version));
  DexFile dex;
  const auto file_size = *read_at<std::uint32_t>(bytes, file_size_at);
  const auto file = slice(bytes, 0, file_size);
  if (!file || file_size < header_size)
    return fail(ErrorKind::corrupt, fmt::format("the DEX file says it has {} bytes, there are {}",
                                                file_size, bytes.size()));
  dex.bytes_ = *file;
  dex.data_ = *file;
  if (is_compact(bytes)) {
    const auto data_begin = *read_at<std::uint32_t>(bytes, data_at + 4);
    if (data_begin > bytes.size())
      return fail(ErrorKind::corrupt, "the DEX file's data is cut off");
    dex.data_ = bytes.subspan(data_begin);
  }
  const auto read = [&](Table& into, std::uint64_t field, std::uint64_t size) -> Result<void> {
    auto table = dex.table(field, size);
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

Result<DexFile::Table> DexFile::table(std::uint64_t header_field, std::uint64_t entry_size) const {
  const auto count = *read_at<std::uint32_t>(bytes_, header_field);
  const auto offset = *read_at<std::uint32_t>(bytes_, header_field + 4);
  const auto bytes = slice(bytes_, offset, count * entry_size);
  if (!bytes) return fail(ErrorKind::corrupt, "a table of the DEX file is cut off");
  return Table{*bytes, count};
}

Bytes DexFile::signature() const { return bytes_.subspan(signature_at, dex_signature_size); }

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
  const auto units = cursor.next(); // its length in UTF-16
  if (!units || *units > longest_string || cursor.position() > data_.size()) return std::nullopt;
  const Bytes rest = data_.subspan(cursor.position());
  constexpr std::uint64_t most_bytes = 3; // of a unit; NUL ends the string
  return c_string_at(rest.first(std::min<std::uint64_t>(rest.size(), most_bytes * *units + 1)), 0);
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
  for (std::uint64_t i = 0; i < 2 * fields; ++i) // of each the index, and access_flags
    if (!cursor.next()) return std::nullopt;
  methods.cursor_ = cursor;
  methods.size_ = static_cast<std::uint32_t>(count);
  methods.direct_ = *direct;
  return methods;
}

std::optional<ClassMethods::Item> ClassMethods::next() {
  if (read_ == size_) return std::nullopt;
  if (read_ == direct_) index_ = 0; // each list counts from its own beginning
  ++read_;
  const auto difference = cursor_.next();
  const auto access = cursor_.next();
  const auto code = cursor_.next();
  if (!difference || !access || !code) return std::nullopt;
  index_ += *difference;
  return Item{index_, *access};
}

} // namespace uprobectl::art
