// SPDX-License-Identifier: Apache-2.0
// A method in any notation, and the name of its function if it is native. A name has the letters of
// an ELF symbol of JNI only.
#include "resolve/method_names.hpp"
#include "uprobectl/resolve.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

namespace {

bool is_symbol(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

} // namespace

int fuzz_method_name(const std::uint8_t* data, std::size_t size) {
  const std::string text = resolve::usual_method_name({reinterpret_cast<const char*>(data), size});
  (void)resolve::is_method_pattern(text);
  (void)resolve::matches_method(text.substr(0, 64), "void a.B.c(byte[], int)");
  const auto name = resolve::parse_method_name(text);
  if (!name) return 0;
  if (name->class_name.empty() || name->name.empty()) std::abort();
  art::Signature signature{.return_type = "void",
                           .class_name = std::string(name->class_name),
                           .name = std::string(name->name),
                           .parameters = {}};
  if (name->parameters)
    signature.parameters.assign(name->parameters->begin(), name->parameters->end());
  if (!is_symbol(resolve::native_name(signature)) ||
      !is_symbol(resolve::native_parameters(signature)))
    std::abort();
  if (resolve::derivation(name->name, name->name) != resolve::Derivation::none) std::abort();
  return 0;
}
