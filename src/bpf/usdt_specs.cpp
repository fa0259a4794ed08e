#include "uprobectl/bpf/usdt_specs.hpp"

#include "bpf/owned_types.hpp"
#include "bpf/usdt_layout.hpp"

#include <algorithm>
#include <bit>
#include <bpf/bpf.h>

namespace uprobectl {

namespace {

constexpr std::string_view table_name = "__bpf_usdt_specs";
constexpr std::size_t longest_kernel_name = 15;

// A register's place in what the program is given, bytes.
std::uint64_t register_offset(std::uint32_t number) { return std::uint64_t{number} * 8; }

} // namespace

struct UsdtSpecs::State {
  int map = -1;
  std::uint32_t entries = 0;
  std::uint32_t searched = 0; // from here on, for free ones
  std::size_t value_size = 0;
  UsdtLayout layout;
  std::vector<std::uint32_t> written;

  ~State() {
    const std::vector<std::byte> empty(value_size);
    for (const std::uint32_t id : written) bpf_map_update_elem(map, &id, empty.data(), BPF_ANY);
  }

  // From the end: libbpf takes them from the beginning, for the same map if it is a pinned one.
  std::optional<std::uint32_t> free_entry() {
    std::vector<std::byte> value(value_size);
    while (searched > 0) {
      const std::uint32_t id = --searched;
      if (bpf_map_lookup_elem(map, &id, value.data()) != 0) continue;
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
             static_cast<std::uint64_t>(in_memory ? argument.offsets[0] : argument.addend));
    // Part of a register from bit 8 on is what lies a byte further.
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
  return map.name == table_name || map.name == table_name.substr(0, longest_kernel_name);
}

Result<UsdtSpecs> UsdtSpecs::open(const UserMap& map) {
  const OwnedTypes types(btf__load_from_kernel_by_id(map.btf_id));
  if (map.btf_id == 0 || !types)
    return fail(Error{ErrorKind::unsupported,
                      "the program's table of static probes (__bpf_usdt_specs) has no types"}
                    .hint("compile it with clang -g"));
  const auto layout = UsdtLayout::read(types.get(), map.value_type);
  if (!layout) return fail(layout.error());
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (const int error = bpf_obj_get_info_by_fd(map.fd.get(), &info, &size); error != 0)
    return fail(system_error(-error, "cannot look at the program's table of static probes"));
  auto state = std::make_unique<State>();
  state->map = map.fd.get();
  state->entries = state->searched = info.max_entries;
  state->value_size = info.value_size;
  state->layout = *layout;
  return UsdtSpecs(std::move(state));
}

UsdtSpecs::UsdtSpecs(std::unique_ptr<State> state) : state_(std::move(state)) {}
UsdtSpecs::UsdtSpecs(UsdtSpecs&&) noexcept = default;
UsdtSpecs& UsdtSpecs::operator=(UsdtSpecs&&) noexcept = default;
UsdtSpecs::~UsdtSpecs() = default;

bool UsdtSpecs::can_tell(const reading& argument, bool is_64bit) const {
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
  if (spec.arguments.size() > layout.most_arguments)
    return fail(ErrorKind::unsupported, std::to_string(spec.arguments.size()) +
                                            " arguments, and bpf/usdt.bpf.h knows " +
                                            std::to_string(layout.most_arguments) + " at most");
  const auto id = state_->free_entry();
  if (!id)
    return fail(Error{ErrorKind::out_of_range, "the program has room for " +
                                                   std::to_string(state_->entries) +
                                                   " places with different arguments"}
                    .hint("compile it with -DBPF_USDT_MAX_SPEC_CNT=N, or name fewer probes")
                    .hint("a pinned program keeps those of a run that was killed: pin it anew"));
  std::vector<std::byte> bytes(state_->value_size);
  const std::span<std::byte> all(bytes);
  for (std::size_t i = 0; i < spec.arguments.size(); ++i) {
    const std::size_t at = layout.arguments_at / 8 + i * layout.argument_size;
    if (at + layout.argument_size > all.size()) break;
    const auto place = all.subspan(at, layout.argument_size);
    if (spec.arguments[i])
      state_->put_argument(place, *spec.arguments[i]);
    else // no kind of argument: bpf_usdt_arg() says EINVAL
      put_bits(place, layout.type, ~std::uint64_t{});
  }
  // Of a place without arguments, so that it does not look free.
  if (spec.arguments.empty() && layout.most_arguments > 0)
    put_bits(all.subspan(layout.arguments_at / 8), layout.type, ~std::uint64_t{});
  put_bits(all, layout.cookie, spec.cookie);
  put_bits(all, layout.count, spec.arguments.size());
  if (const int error = bpf_map_update_elem(state_->map, &*id, bytes.data(), BPF_ANY); error != 0)
    return fail(system_error(-error, "cannot fill the program's table of static probes"));
  state_->written.push_back(*id);
  return *id;
}

} // namespace uprobectl
