// SPDX-License-Identifier: Apache-2.0
// Records and their types come from untrusted programs. The first half of the input has types, the
// second is decoded as each of them.
#include "output/values.hpp"
#include "values/btf_types.hpp"

#include <bpf/btf.h>
#include <cstdlib>

using namespace uprobectl;

namespace {

struct FreeTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, FreeTypes>;

// Two bytes a step: what to add, and a number for it. Types may name others that come later, or
// none.
Types make_types(Bytes steps) {
  Types types(btf__new_empty());
  btf__add_int(types.get(), "int", 4, BTF_INT_SIGNED);
  for (std::size_t i = 0; i + 1 < steps.size(); i += 2) {
    const auto what = std::to_integer<unsigned>(steps[i]);
    const auto number = std::to_integer<int>(steps[i + 1]);
    switch (what % 10) {
    case 0:
      btf__add_int(types.get(), number % 2 != 0 ? "char" : "int", 1U << (number % 5U),
                   number % 3 == 0 ? BTF_INT_BOOL : 0);
      break;
    case 1:
      btf__add_array(types.get(), 1, number, static_cast<std::uint32_t>(what) * 1000000U);
      break;
    case 2:
      btf__add_struct(types.get(), "s", static_cast<std::uint32_t>(number));
      break;
    case 3:
      btf__add_union(types.get(), "u", static_cast<std::uint32_t>(number));
      break;
    case 4: // of the last struct or union
      btf__add_field(types.get(), number % 2 != 0 ? "m" : "", number % 16, what, 0);
      break;
    case 5:
      btf__add_field(types.get(), "bits", number % 16, what, static_cast<std::uint32_t>(number));
      break;
    case 6:
      btf__add_enum(types.get(), "e", 1U << (number % 4U));
      btf__add_enum_value(types.get(), "E", number);
      break;
    case 7:
      btf__add_typedef(types.get(), "t", number);
      break;
    case 8: // of a member, or of the type itself
      btf__add_decl_tag(types.get(),
                        what % 3 == 0   ? "ip"
                        : what % 3 == 1 ? "text"
                                        : "stack",
                        number, static_cast<int>(what % 8) - 1);
      break;
    default:
      btf__add_ptr(types.get(), number);
    }
  }
  return types;
}

} // namespace

int fuzz_data_types(const std::uint8_t* data, std::size_t size) {
  const Bytes input{reinterpret_cast<const std::byte*>(data), size};
  const Types made = make_types(input.first(size / 2));
  std::uint32_t blob_size = 0;
  const void* const blob = btf__raw_data(made.get(), &blob_size);
  if (blob == nullptr) return 0;
  const auto types = values::BtfTypes::parse({static_cast<const std::byte*>(blob), blob_size});
  if (!types) return 0;
  for (std::uint32_t id = 0; id <= btf__type_cnt(made.get()); ++id) {
    auto value = types->decode(id, input.subspan(size / 2));
    const std::vector<values::ShownAsRule> tags = types->list_tags(id);
    const values::ValueType type = types->value_type(id);
    if (!value) continue;
    show_as(*value, {.map = "map", .part = "value", .type = &type}, {}, tags, {});
    std::string text;
    output::append_json_value(text, *value);
    output::append_text_value(text, *value);
    if (text.empty() && !std::holds_alternative<values::Value::Struct>(value->value)) std::abort();
  }
  return 0;
}
