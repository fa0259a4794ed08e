// SPDX-License-Identifier: Apache-2.0
// parse_function on any text: a number form keeps no name, and what has a name has it from the
// text. Lines have a name and a number. split_target: nothing of the word is lost.
#include "uprobectl/resolve.hpp"

#include <cstdlib>

int fuzz_function(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool is_static_probe : {false, true}) {
    const auto split = resolve::split_target(text, is_static_probe);
    if (!split) continue;
    if (split->target.empty() ? split->function != text : split->function.empty()) std::abort();
    const resolve::TargetedFunction named{std::string(split->target), std::string(split->function)};
    if (!split->target.empty() && word_of(named, "", is_static_probe) != text) std::abort();
  }
  const auto function = resolve::parse_function(text);
  if (!function) return 0;
  if (function->request != text) std::abort();
  const bool is_plt = function->form == resolve::FunctionSpec::Form::plt;
  const bool is_line = function->form == resolve::FunctionSpec::Form::source_line ||
                       function->form == resolve::FunctionSpec::Form::function_line;
  const bool is_name = function->form == resolve::FunctionSpec::Form::name || is_plt || is_line;
  if (is_name == function->name.empty()) std::abort();
  const bool is_prefix = text.starts_with(function->name);
  if (is_name && !is_prefix && !(is_plt && text.find(function->name) != text.npos)) std::abort();
  if (function->plus && (!is_name || is_line)) std::abort();
  if (is_line && function->number > UINT32_MAX) std::abort();
  return 0;
}
