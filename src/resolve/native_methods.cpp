// SPDX-License-Identifier: Apache-2.0
// Finds the functions of native Java methods in libraries, by the names that JNI gives them.
#include "art/name_mapping.hpp"
#include "resolve/methods.hpp"
#include "resolve/names.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <set>

namespace uprobectl::resolve {

namespace {

using Renamed = art::NameMapping::Renamed;

// Returns the class with '$' before nested classes, which by convention begin with a capital letter
// as the class around them does: "com.foo.Outer.Inner" -> "com.foo.Outer$Inner".
std::string with_nested_classes(std::string_view class_name) {
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  std::string text(class_name);
  bool inside = is_capital(text.front());
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '.' || !is_capital(text[i + 1])) continue;
    if (inside) text[i] = '$';
    inside = true;
  }
  return text;
}

// Returns the signatures that the method and its overloads may have in the file. The likely ones
// are in the first list.
std::vector<std::vector<Renamed>> possible_methods(const Query& query, const MethodName& name) {
  std::vector<std::vector<Renamed>> methods;
  for (const std::string& class_name :
       {std::string(name.class_name), with_nested_classes(name.class_name)}) {
    if (query.mapping != nullptr)
      std::ranges::copy_if(
          query.mapping->renamed(class_name, name.name), std::back_inserter(methods.emplace_back()),
          [&](const Renamed& method) { return has_signature(method.source, name); });
    art::Signature same{.return_type = std::string(name.return_type),
                        .class_name = class_name,
                        .name = std::string(name.name),
                        .parameters = {}};
    if (name.parameters) same.parameters.assign(name.parameters->begin(), name.parameters->end());
    Renamed unchanged{.source = same, .in_file = same};
    if (query.mapping != nullptr)
      if (const auto renamed = query.mapping->class_in_file(class_name))
        unchanged.in_file.class_name = *renamed;
    methods.push_back({std::move(unchanged)});
  }
  return methods;
}

// Returns the symbols that JNI can find, once each.
std::set<std::string_view> exported_methods(const elf::Image& image) {
  std::set<std::string_view> names;
  const auto symbols = image.dynamic_symbols();
  for (std::uint32_t i = 0; symbols && i < symbols->size(); ++i)
    if (const auto name = symbols->name(i); name && name->starts_with("Java_")) names.insert(*name);
  return names;
}

// Returns those of the method. `has_parameters`: its parameters are known.
std::vector<std::string> symbols_of(const std::set<std::string_view>& exported,
                                    const art::Signature& method, bool has_parameters) {
  // VMs look for the short name first (ART runtime/jni/java_vm_ext.cc, FindNativeMethod).
  const std::string symbol = native_name(method);
  if (exported.contains(symbol)) return {symbol};
  const std::string overload = symbol + native_parameters(method);
  if (has_parameters && exported.contains(overload)) return {overload};
  std::vector<std::string> overloads;
  if (has_parameters) return overloads;
  const std::string prefix = symbol + "__";
  for (auto at = exported.lower_bound(prefix); at != exported.end() && at->starts_with(prefix);
       ++at)
    overloads.emplace_back(*at);
  return overloads;
}

using NativeSymbols = std::map<std::string, const Renamed*>;

Error several_overloads(const Query& query, const NativeSymbols& symbols) {
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it has {} native overloads", query.subject(),
                          query.function.name, symbols.size())};
  constexpr std::size_t max_shown = 10;
  for (const auto& [symbol, method] : symbols | std::views::take(max_shown))
    error = std::move(error).hint("there is: " + symbol);
  return std::move(error).hint("use --all for all of them");
}

} // namespace

Result<std::vector<ProbePoint>> resolve_native_method(const Query& query) {
  std::vector<ProbePoint> points;
  if (query.function.form != FunctionSpec::Form::name ||
      query.function.name.find_first_of(".#;") == std::string_view::npos)
    return points;
  const std::string text = usual_method_name(query.function.name);
  const auto name = parse_method_name(text);
  if (!name || is_method_pattern(text) || text.contains("::")) return points;
  const auto exported = exported_methods(query.image);
  if (exported.empty()) return points;
  for (const std::vector<Renamed>& methods : possible_methods(query, *name)) {
    NativeSymbols symbols;
    for (const Renamed& method : methods)
      for (std::string& symbol : symbols_of(exported, method.in_file, name->parameters.has_value()))
        symbols.emplace(std::move(symbol), &method);
    if (symbols.size() > 1 && !query.options.all) return fail(several_overloads(query, symbols));
    for (const auto& [symbol, method] : symbols) {
      Query named = query;
      named.function.name = symbol;
      auto found = resolve_name(named);
      if (!found) return found;
      for (ProbePoint& point : *found) {
        if (query.mapping != nullptr)
          point.demangled = method->source.class_name + '.' + method->source.name;
        const std::string overload = symbol + native_parameters(method->in_file);
        if (name->parameters && exported.contains(overload))
          point.warnings.push_back(
              fmt::format("{} is not called, unless the library registers it: the VM looks for {} "
                          "first",
                          overload, symbol));
        points.push_back(std::move(point));
      }
    }
    if (!points.empty()) break;
  }
  std::ranges::sort(points, {}, &ProbePoint::image_offset);
  return points;
}

} // namespace uprobectl::resolve
