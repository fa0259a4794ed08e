// SPDX-License-Identifier: Apache-2.0
// The debug information of BPF objects is untrusted: relocations, then types, which become BTF. The
// input is an object; its last bytes are decoded as each structure.
#include "output/values.hpp"
#include "values/btf_types.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_object_types(const std::uint8_t* data, std::size_t size) {
  const Bytes input{reinterpret_cast<const std::byte*>(data), size};
  const auto debug = dwarf::DebugInfo::parse(input);
  if (!debug) return 0;
  values::BtfTypes types;
  types.add(*debug);
  (void)types.has_tag({values::ShownAs::address});
  (void)types.find("event");
  const Bytes record = input.last(std::min<std::size_t>(size, 256));
  for (const values::BtfTypes::Type& type : types.find_structures(
           [](const values::BtfTypes::Type& each) { return each.size <= 4096; })) {
    const std::vector<values::ShownAsRule> tags = types.list_tags(type.id);
    auto value = types.decode(type.id, record);
    const values::ValueType compared = types.value_type(type.id);
    if (!value) continue;
    show_as(*value, {.map = "events", .type = &compared}, {}, tags, {});
    std::string text;
    output::append_json_value(text, *value);
    output::append_text_value(text, *value);
    if (text.empty()) std::abort();
  }
  return 0;
}
