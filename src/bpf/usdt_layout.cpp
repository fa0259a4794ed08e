#include "bpf/usdt_layout.hpp"

#include <bpf/btf.h>
#include <map>
#include <string>

namespace uprobectl {

namespace {

struct Member {
  BitField field;
  std::uint32_t type = 0;
};
using Members = std::map<std::string, Member, std::less<>>;

Error unknown_layout(std::string_view what) {
  return Error{ErrorKind::unsupported,
               "the program's table of static probes (__bpf_usdt_specs) " + std::string(what)}
      .hint(
          "layouts of libbpf 0.8 to 1.7 are known; compile it with the usdt.bpf.h of one of them");
}

// The type behind typedefs and const.
const btf_type* resolved(const btf* types, std::uint32_t id) {
  const int plain = btf__resolve_type(types, id);
  return plain < 0 ? nullptr : btf__type_by_id(types, static_cast<std::uint32_t>(plain));
}

Result<Members> members_of(const btf* types, std::uint32_t id) {
  const btf_type* const type = resolved(types, id);
  if (type == nullptr || !btf_is_struct(type)) return fail(unknown_layout("is no structure"));
  Members members;
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i) {
    const btf_member& member = btf_members(type)[i];
    const char* const name = btf__name_by_offset(types, member.name_off);
    std::uint32_t size = btf_member_bitfield_size(type, i);
    const std::int64_t bytes = btf__resolve_size(types, member.type);
    if (size == 0 && bytes > 0) size = static_cast<std::uint32_t>(bytes) * 8;
    members[name == nullptr ? "" : name] = {
        .field = {.offset = btf_member_bit_offset(type, i), .size = size}, .type = member.type};
  }
  return members;
}

std::optional<std::uint64_t> enumerator(const btf* types, std::uint32_t id, std::string_view name) {
  const btf_type* const type = resolved(types, id);
  if (type == nullptr || !btf_is_enum(type)) return std::nullopt;
  for (std::uint32_t i = 0; i < btf_vlen(type); ++i) {
    const char* const known = btf__name_by_offset(types, btf_enum(type)[i].name_off);
    if (known != nullptr && name == known)
      return static_cast<std::uint64_t>(static_cast<std::uint32_t>(btf_enum(type)[i].val));
  }
  return std::nullopt;
}

class LayoutReader {
public:
  explicit LayoutReader(const btf* types) : types_(types) {}

  Result<UsdtLayout> read(std::uint32_t spec_type) {
    const auto spec = members_of(types_, spec_type);
    if (!spec) return fail(spec.error());
    const auto arguments = spec->find("args");
    const btf_type* const array =
        arguments == spec->end() ? nullptr : resolved(types_, arguments->second.type);
    if (array == nullptr || !btf_is_array(array)) return fail(unknown_layout("has no 'args'"));
    const auto argument = members_of(types_, btf_array(array)->type);
    if (!argument) return fail(argument.error());
    const std::int64_t size = btf__resolve_size(types_, btf_array(array)->type);
    layout_.arguments_at = arguments->second.field.offset;
    layout_.argument_size = size > 0 ? static_cast<std::uint32_t>(size) : 0;
    layout_.most_arguments = btf_array(array)->nelems;
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
        missing_ = "has a part that is not known here, '" + name + "'";
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
      missing_ = "has other kinds of arguments than are known here";
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

} // namespace

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

} // namespace uprobectl
