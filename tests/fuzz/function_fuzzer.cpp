// SPDX-License-Identifier: Apache-2.0
// parse_function on any text: a number form keeps no name, and what has a name has it from the
// text.
#include "uprobectl/resolve.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto function = parse_function(text);
  if (!function) return 0;
  if (function->request != text) std::abort();
  const bool is_plt = function->form == FunctionSpec::Form::plt;
  const bool is_name = function->form == FunctionSpec::Form::name || is_plt;
  if (is_name == function->name.empty()) std::abort();
  const bool is_prefix = text.starts_with(function->name);
  if (is_name && !is_prefix && !(is_plt && text.find(function->name) != text.npos)) std::abort();
  if (function->plus && !is_name) std::abort();
  return 0;
}
