// SPDX-License-Identifier: Apache-2.0
// BPF objects come from anybody: sections, symbols, relocations and types are checked before libbpf
// reads them. What passes is handed to libbpf's reader of types.
#include "bpf/object_check.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <memory>

using namespace uprobectl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input{reinterpret_cast<const std::byte*>(data), size};
  libbpf_set_print(nullptr);
  if (!check_bpf_object(input)) return 0;
  const std::unique_ptr<bpf_object, decltype(&bpf_object__close)> object(
      bpf_object__open_mem(data, size, nullptr), bpf_object__close);
  return 0;
}
