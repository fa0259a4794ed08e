#include "art/java_names.hpp"
#include "art/oat_state.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::art {

OatFile::OatFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OatFile::OatFile(OatFile&&) noexcept = default;
OatFile& OatFile::operator=(OatFile&&) noexcept = default;
OatFile::~OatFile() = default;

std::uint32_t OatFile::version() const { return state_->header.version; }
std::string_view OatFile::value(std::string_view key) const {
  return value_of(state_->header.values, key);
}
std::span<const OatDex> OatFile::dex_files() const { return state_->shown; }
bool OatFile::has_all_dex_files() const { return state_->found() == state_->dex.size(); }
std::span<const Method> OatFile::compiled() const { return state_->compiled; }

std::span<const Method> OatFile::State::at(VirtualAddress address) const {
  const auto group = std::ranges::equal_range(compiled, address, {}, &Method::code);
  return {group.begin(), group.end()};
}

std::uint64_t OatFile::State::gap_after(VirtualAddress address) const {
  const auto next = std::ranges::upper_bound(compiled, address, {}, &Method::code);
  return (next == compiled.end() ? code.end : next->code).value - address.value;
}

std::span<const Method> OatFile::methods_at(VirtualAddress address) const {
  const std::vector<Method>& all = state_->compiled;
  const auto next = std::ranges::upper_bound(all, address, {}, &Method::code);
  if (next == all.begin() || address >= state_->code.end) return {};
  const Method& covering = *(next - 1);
  // A method whose size is not known covers its first byte, and nothing that is only supposed.
  const std::uint64_t into = address.value - covering.code.value;
  if (into != 0 && into >= code_size(covering)) return {};
  return state_->at(covering.code);
}

std::uint64_t OatFile::code_size(const Method& method) const {
  if (!method.compiled) return 0;
  const std::uint64_t size = art::code_size(*state_->image, method.code, state_->code_size_form);
  return size <= state_->gap_after(method.code) ? size : 0;
}

CodeSizeForm choose_code_size_form(const OatFile::State& state) {
  constexpr std::uint32_t code_info_since = 192;
  constexpr std::size_t enough = 64; // methods
  constexpr std::uint32_t is_code_info = 0x40000000;
  const auto& methods = state.compiled;
  const auto some = std::span(methods).first(std::min(enough, methods.size()));
  // Most, not all: one word that makes no sense is that method's alone.
  const auto fitting = [&](CodeSizeForm form) {
    return std::ranges::count_if(some, [&](const Method& method) {
      const std::uint64_t size = code_size(*state.image, method.code, form);
      return size != 0 && size <= state.gap_after(method.code);
    });
  };
  const bool is_marked = std::ranges::any_of(some, [&](const Method& method) {
    return (code_size(*state.image, method.code, CodeSizeForm::in_header) & is_code_info) != 0;
  });
  const CodeSizeForm with_info = is_marked ? CodeSizeForm::marked : CodeSizeForm::in_code_info;
  const bool is_newer = state.header.version >= code_info_since;
  const auto forms =
      is_newer ? std::array{with_info, CodeSizeForm::in_code_info, CodeSizeForm::in_header}
               : std::array{CodeSizeForm::in_header, with_info, CodeSizeForm::in_code_info};
  const auto best = std::ranges::max_element(forms, {}, fitting); // the first of equals
  return fitting(*best) == 0 ? CodeSizeForm::unknown : *best;
}

bool OatFile::knows_access() const { return state_->dumped == nullptr; }

void OatFile::for_each_class(const std::function<bool(Class, std::string_view)>& visit) const {
  if (state_->dumped) {
    const auto classes = state_->dumped->classes();
    for (std::uint32_t i = 0; i < classes.size(); ++i)
      if (!visit({0, i}, classes[i].name)) return;
    return;
  }
  std::string name;
  for (std::size_t number = 0; number < state_->dex.size(); ++number) {
    const auto& dex = state_->dex[number];
    if (!dex) continue;
    for (std::uint32_t i = 0; i < dex->class_count(); ++i) {
      name.clear();
      append_type(dex->type(dex->class_def(i)->type).value_or("?"), name);
      if (!visit({static_cast<std::uint16_t>(number), i}, name)) return;
    }
  }
}

std::optional<Class> OatFile::find_class(std::string_view name) const {
  if (state_->dumped) return state_->dumped->find_class(name);
  std::string descriptor = "L";
  for (const char letter : name) descriptor += letter == '.' ? '/' : letter;
  descriptor += ';';
  for (std::size_t number = 0; number < state_->dex.size(); ++number) {
    const auto& dex = state_->dex[number];
    if (!dex) continue;
    for (std::uint32_t i = 0; i < dex->class_count(); ++i)
      if (dex->type(dex->class_def(i)->type) == descriptor)
        return Class{static_cast<std::uint16_t>(number), i};
  }
  // Characters beyond 16 bits are written otherwise in DEX files.
  std::optional<Class> found;
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0xf0; }))
    for_each_class([&](Class defined, std::string_view other) {
      if (other == name) found = defined;
      return !found;
    });
  return found;
}

std::string OatFile::class_name(Class defined) const {
  if (state_->dumped) return state_->dumped->classes()[defined.index].name;
  std::string name;
  const DexFile& dex = *state_->dex[defined.dex];
  append_type(dex.type(dex.class_def(defined.index)->type).value_or("?"), name);
  return name;
}

std::string OatFile::superclass(Class defined) const {
  if (state_->dumped) return {};
  std::string name;
  const DexFile& dex = *state_->dex[defined.dex];
  const std::uint32_t type = dex.class_def(defined.index)->superclass;
  if (type != DexFile::no_index) append_type(dex.type(type).value_or("?"), name);
  return name;
}

std::vector<Method> OatFile::methods_of(Class defined) const {
  std::vector<Method> methods;
  if (state_->dumped) {
    for (const std::uint32_t index : state_->dumped->classes()[defined.index].methods) {
      const auto compiled = std::ranges::find(state_->compiled, index, &Method::index);
      methods.push_back(compiled == state_->compiled.end() ? Method{.index = index} : *compiled);
    }
    return methods;
  }
  ClassBudget budget(*state_->dex[defined.dex]);
  // That nothing contradicts itself has been seen when the file was read, of classes with code.
  (void)visit_methods(state_->classes(defined.dex), defined.index, budget,
                      [&](const Method& method) { methods.push_back(method); });
  return methods;
}

Signature OatFile::signature(const Method& method) const {
  if (state_->dumped) return state_->dumped->signature(method.index);
  return signature_of(*state_->dex[method.dex], method.index);
}

void OatFile::append_qualified_name(const Method& method, std::string& text) const {
  if (state_->dumped) {
    const Signature signature = state_->dumped->signature(method.index);
    text += signature.class_name + '.' + signature.name;
    return;
  }
  append_name_of(*state_->dex[method.dex], method.index, text);
}

bool names_agree(const OatFile& oat, std::span<const elf::SymbolTable> symbols) {
  std::vector<VirtualAddress> functions;
  bool has_method = false;
  std::string own;
  for (const elf::SymbolTable& table : symbols)
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      const auto symbol = table.at(i);
      if (!symbol || !symbol->defined || symbol->type != elf::SymbolType::function) continue;
      functions.push_back(symbol->address);
      // "[DEDUPED] ?.<init>", "com.foo.Bar.baz [DEDUPED]", "art_jni_trampoline".
      std::string_view name = symbol->name;
      name = name.substr(0, name.find(' '));
      if (name.starts_with('[') || !name.contains('.')) continue;
      const auto methods = oat.methods_at(symbol->address);
      const bool is_method = std::ranges::any_of(methods, [&](const Method& method) {
        own.clear();
        oat.append_qualified_name(method, own);
        return own == name;
      });
      if (!is_method) return false;
      has_method = true;
    }
  std::ranges::sort(functions);
  return has_method && std::ranges::all_of(oat.compiled(), [&](const Method& method) {
           return std::ranges::binary_search(functions, method.code);
         });
}

} // namespace uprobectl::art
