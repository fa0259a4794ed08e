// SPDX-License-Identifier: Apache-2.0
// BPF objects are untrusted: sections, symbols, relocations and types are checked before libbpf
// reads them. An accepted object is passed to libbpf's reader of types, and its first bytes are
// also a value of each of its types.
#include "bpf/object_check.hpp"
#include "bpf/object_values.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cstdlib>
#include <memory>
#include <string_view>

using namespace uprobectl;

namespace {

void write_values(const Result<Bytes>& blob, std::string_view text) {
  if (!blob) return;
  const std::unique_ptr<btf, decltype(&btf__free)> types(
      btf__new(blob->data(), static_cast<std::uint32_t>(blob->size())), btf__free);
  if (libbpf_get_error(types.get()) != 0) return;
  std::vector<std::byte> bytes(256);
  for (std::uint32_t id = 1; id < btf__type_cnt(types.get()); ++id) {
    const auto size = btf__resolve_size(types.get(), id);
    if (size <= 0 || static_cast<std::size_t>(size) > bytes.size()) continue;
    const bpf::ValueLocation whole{.type = id, .size = static_cast<std::size_t>(size)};
    static_cast<void>(write_value(types.get(), whole, text, bytes));
    if (const auto part = find_value_part(types.get(), whole, text))
      static_cast<void>(write_value(types.get(), *part, text, bytes));
  }
}

} // namespace

int fuzz_bpf_object(const std::uint8_t* data, std::size_t size) {
  const Bytes input{reinterpret_cast<const std::byte*>(data), size};
  libbpf_set_print(nullptr);
  const std::vector<std::string> programs = bpf::list_map_programs(input);
  if (!bpf::check_bpf_object(input)) {
    if (!programs.empty()) std::abort();
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& program : programs)
    if (!text.contains(program)) std::abort();
  const std::unique_ptr<bpf_object, decltype(&bpf_object__close)> object(
      bpf_object__open_mem(data, size, nullptr), bpf_object__close);
  write_values(bpf::find_types(input), text.substr(0, 64));
  return 0;
}
