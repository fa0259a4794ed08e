#include "art/oat_records.hpp"

#include <algorithm>

namespace uprobectl::art {

namespace {

constexpr std::uint32_t longest_location = 4096;
constexpr std::uint32_t signature_size = 20;
constexpr std::uint32_t most_last_words = 8;

// Fields one after another.
class Fields {
public:
  Fields(Bytes bytes, std::uint64_t position) : bytes_(bytes), position_(position) {}

  std::uint32_t word() {
    const auto value = read_at<std::uint32_t>(bytes_, position_);
    take(sizeof(std::uint32_t));
    return value.value_or(0);
  }
  Bytes take(std::uint64_t size) {
    const auto found = slice(bytes_, position_, size);
    if (!found) whole_ = false;
    if (found) position_ += size;
    return found.value_or(Bytes());
  }
  bool whole() const { return whole_; } // nothing was missing

private:
  Bytes bytes_;
  std::uint64_t position_;
  bool whole_ = true;
};

bool is_location(std::string_view text) {
  return !text.empty() &&
         std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

bool is_magic(std::string_view text) {
  return text.starts_with("dex\n") || text.starts_with("cdex");
}

std::optional<OatRecord> read_record(const OatHeader& header, const RecordLayout& layout,
                                     Fields& fields) {
  OatRecord record;
  const std::uint32_t size = fields.word();
  if (size > longest_location) return std::nullopt;
  record.location = as_text(fields.take(size));
  if (!is_location(record.location)) return std::nullopt;
  constexpr std::uint64_t magic_size = 8;
  if (layout.magic && !is_magic(as_text(fields.take(magic_size)))) return std::nullopt;
  record.checksum = fields.word();
  if (layout.signature) record.signature = fields.take(signature_size);
  record.dex_offset = fields.word();
  record.class_offsets = fields.word();
  fields.word(); // lookup_table_offset: here, or in the VDEX file
  fields.take(std::uint64_t{layout.last_words} * sizeof(std::uint32_t));
  if (!fields.whole() || record.dex_offset % 4 != 0) return std::nullopt;
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
      for (std::uint32_t words = 1; words <= most_last_words; ++words)
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
  Fields fields(header.data, header.records);
  std::vector<OatRecord> records;
  for (std::uint32_t i = 0; i < header.dex_count; ++i) {
    auto record = read_record(header, layout, fields);
    if (!record) return std::nullopt;
    records.push_back(*record);
  }
  return records;
}

} // namespace uprobectl::art
