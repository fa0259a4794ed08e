#include "art/oat_header.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

// InstructionSet of art/runtime/arch/instruction_set.h, and e_machine of the ELF image.
std::optional<std::uint16_t> machine_of(std::uint32_t instruction_set) {
  switch (instruction_set) {
  case 1: // arm
  case 3: // thumb2
    return 40;
  case 2:
    return 183; // arm64
  case 4:
    return 3; // x86
  case 5:
    return 62; // x86-64
  default:
    return std::nullopt;
  }
}

std::optional<elf::Symbol> symbol_named(const elf::Image& image, std::string_view name) {
  const auto found = image.find_dynamic(name);
  if (!found) return std::nullopt;
  const auto symbol = std::ranges::find_if(*found, &elf::Symbol::defined);
  return symbol == found->end() ? std::nullopt : std::optional(*symbol);
}

constexpr std::uint64_t instruction_set_at = 12;
constexpr std::uint64_t dex_count_at = 20;
constexpr std::uint64_t records_at = 24;
// executable_offset: the first three generations have nothing, bcp_bss_info_offset (OAT 222, and
// from 224 on), and that with base_oat_offset (255) before it.
constexpr std::uint64_t executable_at[] = {28, 32, 36};

// Whether the bytes can be a key-value store: text with NULs in it, a key first.
bool are_values(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  const auto is_key_letter = [](char c) { // "dex2oat-cmdline"
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (text.size() < 4 || text.back() != '\0' || !is_key_letter(text.front())) return false;
  const auto key = text.substr(0, text.find('\0'));
  return std::ranges::all_of(key, is_key_letter) &&
         std::ranges::none_of(text, [](unsigned char c) { return c != 0 && c < ' '; });
}

// What lies between executable_offset and the size of the store is offsets of trampolines, and
// what has been added and taken away over the years: so the store is found by what it is. Empty
// where there is none, as in the secondary files of a boot image.
Bytes find_values(Bytes data, std::uint64_t executable_field) {
  constexpr std::uint64_t most_words = 14;
  for (std::uint64_t i = 1; i <= most_words; ++i) {
    const std::uint64_t at = executable_field + i * 4;
    const auto size = read_at<std::uint32_t>(data, at);
    if (!size) return {};
    const auto values = slice(data, at + 4, *size);
    if (*size != 0 && values && are_values(*values)) return *values;
  }
  return {};
}

std::optional<std::uint32_t> version_of(Bytes data) {
  const auto magic = slice(data, 0, 8);
  if (!magic || !as_text(*magic).starts_with("oat\n") || as_text(*magic)[7] != '\0') return {};
  std::uint32_t version = 0;
  for (const char digit : as_text(magic->subspan(4, 3))) {
    if (digit < '0' || digit > '9') return std::nullopt;
    version = version * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return version;
}

std::optional<Bytes> bytes_from(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.segment_of(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !offset) return std::nullopt;
  return slice(image.bytes(), offset->value,
               segment->file_size - (address.value - segment->address.value));
}

} // namespace

bool has_oat_header(const elf::Image& image) {
  const auto oatdata = symbol_named(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  return data && version_of(*data);
}

Result<OatHeader> read_oat_header(const elf::Image& image) {
  const auto oatdata = symbol_named(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  const auto version = data ? version_of(*data) : std::nullopt;
  if (!version) return fail(ErrorKind::not_found, "no OAT file");
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorKind::corrupt, fmt::format("OAT version {}: {}", *version, what));
  };
  OatHeader header{.data = *data, .address = oatdata->address, .version = *version, .values = {}};
  const auto instruction_set = read_at<std::uint32_t>(*data, instruction_set_at);
  const auto dex_count = read_at<std::uint32_t>(*data, dex_count_at);
  const auto records = read_at<std::uint32_t>(*data, records_at);
  if (!instruction_set || !dex_count || !records) return wrong("its header is cut off");
  const auto machine = machine_of(*instruction_set);
  if (!machine)
    return fail(ErrorKind::unsupported,
                fmt::format("OAT version {}: its instruction set {} is not known (ELF {})",
                            *version, *instruction_set, elf::to_string(image.machine())));
  if (machine != image.machine().id)
    return wrong(fmt::format("its instruction set {} is not that of the ELF image, {}",
                             *instruction_set, elf::to_string(image.machine())));
  // The code begins where the symbol says; without code the rest ends there.
  const auto oatexec = symbol_named(image, "oatexec");
  const std::uint64_t executable =
      oatexec ? oatexec->address.value - oatdata->address.value : oatdata->size;
  const auto field = std::ranges::find_if(executable_at, [&](std::uint64_t at) {
    return read_at<std::uint32_t>(*data, at) == executable;
  });
  if (field == std::ranges::end(executable_at))
    return wrong("its header does not say where its code begins");
  header.executable = static_cast<std::uint32_t>(executable);
  header.data = data->first(std::min<std::uint64_t>(executable, data->size()));
  header.values = find_values(header.data, *field);
  header.dex_count = *dex_count;
  header.records = *records;
  const std::uint64_t least_record = 6 * sizeof(std::uint32_t);
  if (*records >= header.data.size() ||
      std::uint64_t{*dex_count} * least_record > header.data.size() - *records)
    return wrong("its DEX files are not where its header says");
  return header;
}

Result<OatHeader> read_oat_start(const elf::Image& image) {
  const auto oatdata = symbol_named(image, "oatdata");
  const auto data = oatdata ? bytes_from(image, oatdata->address) : std::nullopt;
  const auto version = data ? version_of(*data) : std::nullopt;
  if (!version) return fail(ErrorKind::not_found, "no OAT file");
  return OatHeader{.data = *data, .address = oatdata->address, .version = *version, .values = {}};
}

std::string_view value_of(Bytes values, std::string_view key) {
  std::string_view rest = as_text(values);
  const auto next = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of('\0'), rest.size()));
    const auto text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    return text;
  };
  while (!rest.empty()) {
    const auto name = next();
    // An empty value is a NUL of its own.
    const auto value = rest.starts_with('\0') ? std::string_view() : next();
    if (name == key) return value;
  }
  return {};
}

} // namespace uprobectl::art
