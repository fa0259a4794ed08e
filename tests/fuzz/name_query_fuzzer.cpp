// SPDX-License-Identifier: Apache-2.0
// The first line is a name as a user writes it, the rest a mangled name, or the demangled one.
#include "symbols/name_query.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_name_query(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto written = input.substr(0, input.find('\n'));
  if (written.size() == input.size()) return 0;
  const std::string rest(input.substr(written.size() + 1));
  if (const auto name = symbols::parse_demangled_name({rest, rest});
      name && name->components.empty())
    std::abort();
  const auto name = symbols::NameQuery::parse(written);
  if (symbols::is_signature(written) && !(name && name->has_parameters())) std::abort();
  if (!name) return 0;
  symbols::TypedefMap typedefs;
  for (const std::string& type : name->type_names())
    typedefs.emplace(type, typedefs.size() % 2 == 0 ? "char const" : "int[4]");
  for (const symbols::NameQuery& spelled : {*name, name->with_types(typedefs)})
    for (const std::string_view prefix : {"", "_Z", "_R"}) {
      const auto mismatch = spelled.match(std::string(prefix) + rest);
      if (mismatch.value_or(0) >
          (symbols::ignores_abi | symbols::ignores_parts | symbols::ignores_scopes))
        std::abort();
    }
  if (const auto type = symbols::canonical_type(rest); type && type->empty()) std::abort();
  return 0;
}
