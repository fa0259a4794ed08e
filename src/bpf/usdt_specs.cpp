// SPDX-License-Identifier: Apache-2.0
#include "bpf/usdt_specs.hpp"

#include "bpf/btf_reading.hpp"
#include "bpf/kernel_types.hpp"
#include "uprobectl/util.hpp"

#include <algorithm>
#include <bit>
#include <bpf/bpf.h>
#include <map>
#include <optional>
#include <string>

namespace uprobectl::bpf {

namespace {

// A number in a structure, in bits from its beginning.
struct BitField {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

// The layout of struct __bpf_usdt_spec in one program.
struct UsdtLayout {
  std::uint32_t arguments_at = 0;  // bits
  std::uint32_t argument_size = 0; // bytes
  std::uint32_t max_arguments = 0;
  BitField cookie;
  BitField count;

  // In an argument, from its beginning.
  BitField value;
  BitField type;
  BitField base;
  BitField is_signed;
  BitField shift;
  std::optional<BitField> index; // with the scale as a power of two
  std::optional<BitField> scale;

  // Values of `type`.
  std::uint64_t constant = 0;
  std::uint64_t in_register = 0;
  std::uint64_t in_memory = 0;
  std::optional<std::uint64_t> in_indexed_memory;

  // unsupported names the missing or unknown member.
  static Result<UsdtLayout> read(const btf* types, std::uint32_t spec_type);
};

struct Member {
  BitField field;
  std::uint32_t type = 0;
};
using Members = std::map<std::string, Member, std::less<>>;

Error unknown_layout(std::string_view what) {
  return Error{ErrorKind::unsupported,
               "the program's table of static probes (__bpf_usdt_specs) " + std::string(what)}
      .hint("compile the program with the usdt.bpf.h of libbpf 0.8 to 1.7");
}

Result<Members> read_members(const btf* types, std::uint32_t id) {
  const btf_type* const type = resolved_type(types, id);
  if (type == nullptr || !btf_is_struct(type)) return fail(unknown_layout("is not a structure"));
  Members members;
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i) {
    const btf_member& member = btf_members(type)[i];
    std::uint32_t size = btf_member_bitfield_size(type, i);
    const std::int64_t bytes = btf__resolve_size(types, member.type);
    if (size == 0 && bytes > 0) size = static_cast<std::uint32_t>(bytes) * 8;
    members[std::string(btf_name(types, member.name_off))] = {
        .field = {.offset = btf_member_bit_offset(type, i), .size = size}, .type = member.type};
  }
  return members;
}

std::optional<std::uint64_t> enumerator(const btf* types, std::uint32_t id, std::string_view name) {
  const btf_type* const type = resolved_type(types, id);
  if (type == nullptr || !btf_is_enum(type)) return std::nullopt;
  for (const auto& [known, value] : btf_enumerators(types, type))
    if (known == name) return static_cast<std::uint32_t>(value);
  return std::nullopt;
}

class LayoutReader {
public:
  explicit LayoutReader(const btf* types) : types_(types) {}

  Result<UsdtLayout> read(std::uint32_t spec_type) {
    const auto spec = read_members(types_, spec_type);
    if (!spec) return fail(spec.error());
    const auto arguments = spec->find("args");
    const btf_type* const array =
        arguments == spec->end() ? nullptr : resolved_type(types_, arguments->second.type);
    if (array == nullptr || !btf_is_array(array)) return fail(unknown_layout("has no 'args'"));
    const auto argument = read_members(types_, btf_array(array)->type);
    if (!argument) return fail(argument.error());
    const std::int64_t size = btf__resolve_size(types_, btf_array(array)->type);
    layout_.arguments_at = arguments->second.field.offset;
    layout_.argument_size = size > 0 ? static_cast<std::uint32_t>(size) : 0;
    layout_.max_arguments = btf_array(array)->nelems;
    take(*spec, "usdt_cookie", layout_.cookie);
    take(*spec, "arg_cnt", layout_.count);
    take(*argument, "val_off", layout_.value);
    take(*argument, "reg_off", layout_.base);
    take(*argument, "arg_signed", layout_.is_signed);
    take(*argument, "arg_bitshift", layout_.shift);
    take(*argument, "arg_type", layout_.type);
    layout_.index = optional(*argument, "idx_reg_off");
    layout_.scale = optional(*argument, "scale_bitshift");
    if (const auto type = argument->find("arg_type"); type != argument->end())
      take_kinds(type->second.type);
    for (const auto& [name, member] : *argument)
      if (!known_.contains(name) && name.find("reserved") == std::string::npos)
        missing_ = "has an unknown member '" + name + "'";
    if (!missing_.empty()) return fail(unknown_layout(missing_));
    return layout_;
  }

private:
  void take(const Members& members, std::string_view name, BitField& field) {
    const auto found = members.find(name);
    if (found == members.end() || found->second.field.size == 0 || found->second.field.size > 64) {
      missing_ = "has no '" + std::string(name) + "'";
      return;
    }
    known_.emplace(name, true);
    field = found->second.field;
  }

  std::optional<BitField> optional(const Members& members, std::string_view name) {
    if (!members.contains(name)) return std::nullopt;
    BitField field;
    take(members, name, field);
    return field;
  }

  void take_kinds(std::uint32_t type) {
    const auto constant = enumerator(types_, type, "BPF_USDT_ARG_CONST");
    const auto in_register = enumerator(types_, type, "BPF_USDT_ARG_REG");
    const auto in_memory = enumerator(types_, type, "BPF_USDT_ARG_REG_DEREF");
    layout_.in_indexed_memory = enumerator(types_, type, "BPF_USDT_ARG_SIB");
    if (!constant || !in_register || !in_memory) {
      missing_ = "has unknown kinds of arguments";
      return;
    }
    layout_.constant = *constant;
    layout_.in_register = *in_register;
    layout_.in_memory = *in_memory;
  }

  const btf* types_;
  UsdtLayout layout_;
  std::map<std::string, bool, std::less<>> known_;
  std::string missing_;
};

void put_bits(std::span<std::byte> bytes, BitField field, std::uint64_t value) {
  for (std::uint32_t i = 0; i < field.size; ++i) {
    const std::uint32_t bit = field.offset + i;
    if (bit / 8 >= bytes.size()) return;
    const auto mask = static_cast<std::byte>(1U << bit % 8);
    std::byte& byte = bytes[bit / 8];
    byte = (value >> i & 1) != 0 ? byte | mask : byte & ~mask;
  }
}

Result<UsdtLayout> UsdtLayout::read(const btf* types, std::uint32_t spec_type) {
  return LayoutReader(types).read(spec_type);
}

constexpr std::string_view table_name = "__bpf_usdt_specs";
constexpr std::size_t max_kernel_name = 15;

// The offset of a register in the program's context, bytes.
std::uint64_t register_offset(std::uint32_t number) { return std::uint64_t{number} * 8; }

} // namespace

struct UsdtSpecs::State {
  std::shared_ptr<const UniqueFd> map;
  std::uint32_t entries = 0;
  std::uint32_t searched = 0; // entries from here on have been searched
  std::size_t value_size = 0;
  UsdtLayout layout;
  std::vector<std::uint32_t> written;

  ~State() {
    const std::vector<std::byte> empty(value_size);
    for (const std::uint32_t id : written)
      bpf_map_update_elem(map->get(), &id, empty.data(), BPF_ANY);
  }

  // Searches from the end: libbpf allocates from the beginning, even in the same map if it is
  // pinned.
  std::optional<std::uint32_t> free_entry() {
    std::vector<std::byte> value(value_size);
    while (searched > 0) {
      const std::uint32_t id = --searched;
      if (bpf_map_lookup_elem(map->get(), &id, value.data()) != 0) continue;
      if (std::ranges::all_of(value, [](std::byte byte) { return byte == std::byte{}; })) return id;
    }
    return std::nullopt;
  }

  void put_argument(std::span<std::byte> bytes, const reading& argument) const {
    const bool indexed = argument.scale > 0;
    const bool in_memory = argument.steps == 1;
    const bool constant = !in_memory && argument.base == NO_REGISTER;
    put_bits(bytes, layout.type,
             constant     ? layout.constant
             : !in_memory ? layout.in_register
             : indexed    ? *layout.in_indexed_memory
                          : layout.in_memory);
    put_bits(bytes, layout.value,
             static_cast<std::uint64_t>(in_memory ? argument.base_offset + argument.offsets[0]
                                                  : argument.addend));
    // The part of a register from bit 8 on begins one byte later.
    if (!constant)
      put_bits(bytes, layout.base, register_offset(argument.base) + argument.shift / 8);
    if (indexed) {
      put_bits(bytes, *layout.index, register_offset(argument.index));
      put_bits(bytes, *layout.scale, static_cast<std::uint64_t>(std::countr_zero(argument.scale)));
    }
    put_bits(bytes, layout.is_signed, argument.is_signed);
    put_bits(bytes, layout.shift, 64 - 8 * std::uint64_t{argument.size});
  }
};

bool UsdtSpecs::is_table(const UserMap& map) {
  return map.name == table_name || map.name == table_name.substr(0, max_kernel_name);
}

Result<UsdtSpecs> UsdtSpecs::open(const UserMap& map) {
  const OwnedBtf types(btf__load_from_kernel_by_id(map.btf_id));
  if (map.btf_id == 0 || !types)
    return fail(Error{ErrorKind::unsupported,
                      "the program's table of static probes (__bpf_usdt_specs) has no types"}
                    .hint("compile it with clang -g"));
  const auto layout = UsdtLayout::read(types.get(), map.value_type);
  if (!layout) return fail(layout.error());
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (const int error = bpf_obj_get_info_by_fd(map.fd->get(), &info, &size); error != 0)
    return fail(system_error(-error, "cannot query the program's table of static probes"));
  auto state = std::make_unique<State>();
  state->map = map.fd;
  state->entries = state->searched = info.max_entries;
  state->value_size = info.value_size;
  state->layout = *layout;
  return UsdtSpecs(std::move(state));
}

UsdtSpecs::UsdtSpecs(std::unique_ptr<State> state) : state_(std::move(state)) {}
UsdtSpecs::UsdtSpecs(UsdtSpecs&&) noexcept = default;
UsdtSpecs& UsdtSpecs::operator=(UsdtSpecs&&) noexcept = default;
UsdtSpecs::~UsdtSpecs() = default;

bool UsdtSpecs::can_express(const reading& argument, bool is_64bit) const {
  if (argument.steps > 1 || argument.shift % 8 != 0) return false;
  if (argument.steps == 1 && argument.base == NO_REGISTER) return false;
  const bool constant = argument.steps == 0 && argument.base == NO_REGISTER;
  if (!constant && argument.addend != 0) return false;
  if (argument.scale > 0 && (argument.index_size != 8 || !is_64bit)) return false;
  const UsdtLayout& layout = state_->layout;
  return argument.scale == 0 || (layout.in_indexed_memory && layout.index && layout.scale);
}

Result<std::uint32_t> UsdtSpecs::add(const Spec& spec) {
  const UsdtLayout& layout = state_->layout;
  if (spec.arguments.size() > layout.max_arguments)
    return fail(ErrorKind::unsupported, std::to_string(spec.arguments.size()) +
                                            " arguments (bpf/usdt.bpf.h supports at most " +
                                            std::to_string(layout.max_arguments) + ")");
  const auto id = state_->free_entry();
  if (!id)
    return fail(
        Error{ErrorKind::out_of_range, "the program's table of static probes is full: it has " +
                                           std::to_string(state_->entries) + " entries"}
            .hint("compile the program with -DBPF_USDT_MAX_SPEC_CNT=N, or name fewer probes")
            .hint(
                "a killed run leaves its entries in a pinned program: unpin it and load it again"));
  std::vector<std::byte> bytes(state_->value_size);
  const std::span<std::byte> all(bytes);
  for (std::size_t i = 0; i < spec.arguments.size(); ++i) {
    const std::size_t at = layout.arguments_at / 8 + i * layout.argument_size;
    if (at + layout.argument_size > all.size()) break;
    const auto argument = all.subspan(at, layout.argument_size);
    if (spec.arguments[i])
      state_->put_argument(argument, *spec.arguments[i]);
    else // an invalid kind: bpf_usdt_arg() returns EINVAL
      put_bits(argument, layout.type, ~std::uint64_t{});
  }
  // Marks a spec without arguments, so that its entry is not free.
  if (spec.arguments.empty() && layout.max_arguments > 0)
    put_bits(all.subspan(layout.arguments_at / 8), layout.type, ~std::uint64_t{});
  put_bits(all, layout.cookie, spec.cookie);
  put_bits(all, layout.count, spec.arguments.size());
  if (const int error = bpf_map_update_elem(state_->map->get(), &*id, bytes.data(), BPF_ANY);
      error != 0)
    return fail(system_error(-error, "cannot write the program's table of static probes"));
  state_->written.push_back(*id);
  return *id;
}

} // namespace uprobectl::bpf
