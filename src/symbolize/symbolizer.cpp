// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbolizer.hpp"

#include "art/name_mapping.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::symbolize {

namespace {

// Whether the code that signal handlers return to begins after the symbol and contains the
// address. It often has no symbol of its own: musl keeps the name of __restore_rt to itself.
bool is_in_signal_trampoline(const elf::Image& image, const symbols::SymbolAt& found) {
  const UnwindInfo* const info = arch_info(image.machine().arch).unwind;
  if (info == nullptr) return false;
  const std::string_view code = info->signal_trampoline;
  for (std::uint64_t inside = 0; inside < std::min(code.size(), found.offset); ++inside) {
    const auto begin = image.to_image({found.symbol.address.value + found.offset - inside});
    const auto bytes = begin ? slice(image.bytes(), begin->value, code.size()) : std::nullopt;
    if (bytes && as_text(*bytes) == code) return true;
  }
  return false;
}

} // namespace

std::optional<CoveringSymbol> Symbolizer::find_method(VirtualAddress address) const {
  if (methods_ == nullptr) return std::nullopt;
  const auto found = methods_->methods_at(address);
  if (found.empty()) return std::nullopt;
  const art::Method& method = found.front();
  auto signature = std::make_shared<const std::string>(art::to_string(methods_->signature(method)));
  return CoveringSymbol{.symbol = art::method_symbol(*methods_, method, *signature),
                        .offset = address.value - method.code.value,
                        .shared_with = found.size() - 1,
                        .signature = signature,
                        .source_name = art::source_name(*methods_, *signature)};
}

std::optional<CoveringSymbol> Symbolizer::find(VirtualAddress address) {
  if (auto method = find_method(address)) return method;
  const auto found = file_.symbol_at(address);
  // The symbol "oatexec" covers all code of an OAT file (AOSP dex2oat/linker/elf_writer.cc).
  if (!found || (found->symbol.name == "oatexec" && art::OatFile::is_oat(file_.image())))
    return std::nullopt;
  // A symbol without a size would extend over it.
  if (found->symbol.size == 0 && is_in_signal_trampoline(file_.image(), *found))
    return std::nullopt;
  return CoveringSymbol{.symbol = found->symbol, .offset = found->offset};
}

Function to_function(const CoveringSymbol& covering) {
  Function function{.symbol = std::string(covering.symbol.name),
                    .demangled = covering.source_name ? covering.source_name
                                                      : symbols::demangle(covering.symbol.name),
                    .version = {},
                    .is_plt_entry = covering.symbol.table == elf::Table::plt,
                    .shared_with = covering.shared_with,
                    .offset = covering.offset};
  if (!function.is_plt_entry) function.version = symbols::display_suffix(covering.symbol);
  return function;
}

std::string Function::name() const {
  std::string text = demangled ? *demangled : symbol;
  if (is_plt_entry) text += "@plt";
  return text;
}

std::string Function::name_with_others() const {
  std::string text = name();
  if (shared_with != 0)
    text += fmt::format(" (or {} other{})", shared_with, shared_with == 1 ? "" : "s");
  return text;
}

} // namespace uprobectl::symbolize
