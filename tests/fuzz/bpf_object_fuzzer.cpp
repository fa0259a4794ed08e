// SPDX-License-Identifier: Apache-2.0
// BPF objects are untrusted: sections, symbols, relocations and types are checked before libbpf
// reads them. An accepted object is passed to libbpf's reader of types.
#include "bpf/object_check.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cstdlib>
#include <memory>
#include <string_view>

using namespace uprobectl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input{reinterpret_cast<const std::byte*>(data), size};
  libbpf_set_print(nullptr);
  const std::vector<std::string> programs = list_map_programs(input);
  if (!check_bpf_object(input)) {
    if (!programs.empty()) std::abort();
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& program : programs)
    if (!text.contains(program)) std::abort();
  const std::unique_ptr<bpf_object, decltype(&bpf_object__close)> object(
      bpf_object__open_mem(data, size, nullptr), bpf_object__close);
  return 0;
}
