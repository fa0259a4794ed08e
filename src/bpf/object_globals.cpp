// Global variables of a BPF object, found by its BTF (Linux Documentation/bpf/btf.rst, DATASEC).
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "bpf/object_state.hpp"

#include <algorithm>
#include <bpf/btf.h>
#include <fmt/format.h>
#include <ranges>

namespace uprobectl {

namespace {

struct Global {
  std::string name;
  bpf_map* map = nullptr; // that holds it
  std::size_t offset = 0; // in the map's first value
  std::size_t size = 0;
  const btf_type* type = nullptr;
};

const btf_type* without_qualifiers(const btf* types, std::uint32_t id) {
  const btf_type* type = btf__type_by_id(types, id);
  while (type != nullptr && (btf_is_mod(type) || btf_is_typedef(type)))
    type = btf__type_by_id(types, type->type);
  return type;
}

// "name" of ".rodata" and its like; libbpf puts the object's name before it.
std::string_view section_of(std::string_view map) {
  const auto dot = map.find('.');
  return dot == std::string_view::npos ? std::string_view() : map.substr(dot);
}

std::vector<Global> globals_of(bpf_object* object) {
  std::vector<Global> globals;
  const btf* types = bpf_object__btf(object);
  if (types == nullptr) return globals;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    const std::string section(section_of(bpf_map__name(map)));
    const int id =
        section.empty() ? -1 : btf__find_by_name_kind(types, section.c_str(), BTF_KIND_DATASEC);
    std::size_t size = 0;
    if (id < 0 || bpf_map__initial_value(map, &size) == nullptr) continue;
    const btf_type* list = btf__type_by_id(types, static_cast<std::uint32_t>(id));
    const btf_var_secinfo* entry = btf_var_secinfos(list);
    for (int i = 0; i < btf_vlen(list); ++i, ++entry) {
      const btf_type* variable = btf__type_by_id(types, entry->type);
      if (variable == nullptr || entry->offset > size || entry->size > size - entry->offset)
        continue;
      globals.push_back({.name = btf__name_by_offset(types, variable->name_off),
                         .map = map,
                         .offset = entry->offset,
                         .size = entry->size,
                         .type = without_qualifiers(types, variable->type)});
    }
  }
  return globals;
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative && std::is_unsigned_v<T>) return std::nullopt;
  std::string digits(negative ? text.substr(1) : text);
  const bool is_hex = digits.starts_with("0x");
  if (is_hex) digits.erase(0, 2);
  if (negative) digits.insert(0, 1, '-');
  return parse_number<T>(digits, is_hex ? 16 : 10);
}

using Value = std::optional<std::vector<std::byte>>; // nothing: it does not fit

std::vector<std::byte> bytes_of(std::uint64_t value, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &value, size); // little-endian hosts only
  return bytes;
}

Value unsigned_value(std::size_t size, std::string_view text) {
  const auto value = number_of<std::uint64_t>(text);
  const std::size_t bits = size * 8;
  if (!value || (bits < 64 && *value >> bits != 0)) return std::nullopt;
  return bytes_of(*value, size);
}

Value signed_value(std::size_t size, std::string_view text) {
  const auto value = number_of<std::int64_t>(text);
  if (!value) return std::nullopt;
  const std::size_t bits = size * 8;
  const std::int64_t limit = bits < 64 ? std::int64_t{1} << (bits - 1) : 0;
  if (bits < 64 && (*value >= limit || *value < -limit)) return std::nullopt;
  return bytes_of(static_cast<std::uint64_t>(*value), size);
}

Value integer_value(const Global& global, std::string_view text) {
  if (global.size > sizeof(std::uint64_t)) return std::nullopt;
  const std::uint8_t encoding = btf_is_int(global.type) ? btf_int_encoding(global.type) : 0;
  if ((encoding & BTF_INT_BOOL) != 0 && (text == "true" || text == "false"))
    return bytes_of(text == "true" ? 1 : 0, global.size);
  return (encoding & BTF_INT_SIGNED) != 0 ? signed_value(global.size, text)
                                          : unsigned_value(global.size, text);
}

// With its NUL.
Value text_value(const Global& global, std::string_view text) {
  if (text.size() >= global.size) return std::nullopt;
  std::vector<std::byte> bytes(global.size);
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

bool store(const Global& global, const std::vector<std::byte>& value) {
  std::size_t size = 0;
  const auto* const first =
      static_cast<const std::byte*>(bpf_map__initial_value(global.map, &size));
  std::vector<std::byte> content(first, first + size);
  std::ranges::copy(value, content.begin() + static_cast<std::ptrdiff_t>(global.offset));
  return bpf_map__set_initial_value(global.map, content.data(), content.size()) == 0;
}

bool is_text(const btf* types, const btf_type* type) {
  if (!btf_is_array(type)) return false;
  const btf_type* element = without_qualifiers(types, btf_array(type)->type);
  return element != nullptr && btf_is_int(element) && element->size == 1;
}

} // namespace

Result<void> BpfObject::set_global(std::string_view name, std::string_view value) {
  const std::string subject = fmt::format("{}: '{}'", state_->path, name);
  bpf_object* const object = state_->object.get();
  const std::vector<Global> globals = globals_of(object);
  const auto found = std::ranges::find(globals, name, &Global::name);
  if (found == globals.end()) {
    const std::string known = joined(globals | std::views::transform(&Global::name));
    Error error{ErrorKind::not_found, subject + " is no global variable of it"};
    return fail(std::move(error).hint(known.empty() ? "there is none, or it was compiled without -g"
                                                    : "there are: " + known));
  }
  const btf_type* const type = found->type;
  const bool text = type != nullptr && is_text(bpf_object__btf(object), type);
  const bool integer =
      type != nullptr && (btf_is_int(type) || btf_is_enum(type) || btf_is_enum64(type));
  if (!text && !integer)
    return fail(ErrorKind::unsupported,
                subject + " is neither an integer nor text, only these can be set");
  const Value bytes = text ? text_value(*found, value) : integer_value(*found, value);
  if (!bytes)
    return fail(ErrorKind::out_of_range,
                fmt::format("{} has {} bytes, '{}' does not fit or is no {}", subject, found->size,
                            value, text ? "text" : "number"));
  if (!store(*found, *bytes))
    return fail(ErrorKind::unsupported, subject + " can no longer be set");
  return {};
}

} // namespace uprobectl
