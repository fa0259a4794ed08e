// SPDX-License-Identifier: Apache-2.0
// Reads an OAT file. Tries the known layouts until one fits.
#include "art/oat_state.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <tuple>

namespace uprobectl::art {

namespace {

constexpr std::uint32_t counts_methods_since = 194;

// Reads where the methods of the DEX files are. False where the file contradicts the layout: each
// class has a word of its own in it, and so has each compiled method.
bool collect(OatFile::State& state, bool counts_methods) {
  state.counts_methods = counts_methods;
  state.compiled.clear();
  const std::uint64_t most = state.header.data.size() / sizeof(std::uint32_t);
  std::uint64_t classes = 0;
  for (std::size_t i = 0; i < state.dex.size(); ++i) {
    if (!state.dex[i]) continue;
    classes += state.dex[i]->class_count();
    if (classes > most || !add_compiled(state.classes(i), most, state.compiled)) return false;
  }
  return true;
}

bool collect_either_way(OatFile::State& state) {
  const bool likely = state.header.version >= counts_methods_since;
  return collect(state, likely) || collect(state, !likely);
}

using StatePointer = std::unique_ptr<OatFile::State>;

bool are_same(const OatRecord& a, const OatRecord& b) {
  return a.location.data() == b.location.data() && a.location.size() == b.location.size() &&
         std::tie(a.checksum, a.dex_offset, a.class_offsets) ==
             std::tie(b.checksum, b.dex_offset, b.class_offsets);
}

// The layout by which most DEX files are found: their checksums are the proof. Null where the file
// contradicts that one, or all.
StatePointer read_as_laid_out(const OatFile::State& base, DexFinder& finder) {
  StatePointer best;
  std::size_t max_refusals = 0; // DEX files found
  std::vector<std::vector<OatRecord>> seen;
  for (const RecordLayout& layout : record_layouts(base.header.version)) {
    auto records = read_records(base.header, layout);
    if (!records) continue;
    if (std::ranges::any_of(seen, [&](const std::vector<OatRecord>& other) {
          return std::ranges::equal(other, *records, are_same);
        }))
      continue;
    seen.push_back(*records);
    auto state = std::make_unique<OatFile::State>(base);
    state->records = std::move(*records);
    find_dex_files(*state, finder);
    if (!collect_either_way(*state)) {
      max_refusals = std::max(max_refusals, state->found());
      continue;
    }
    if (!best || state->found() > best->found()) best = std::move(state);
    if (best->found() == best->records.size()) break;
  }
  if (best && best->found() < max_refusals) best.reset();
  return best;
}

void sort_by_address(std::vector<Method>& methods) {
  std::ranges::sort(methods, [](const Method& a, const Method& b) {
    return std::tie(a.code, a.dex, a.index) < std::tie(b.code, b.dex, b.index);
  });
}

Error unknown_version(std::uint32_t version) {
  return Error{ErrorKind::unsupported,
               fmt::format("OAT version {} is not known ({} to {} are), and the file's own symbols "
                           "do not confirm that it is laid out like those",
                           version, oldest_version, newest_version)};
}

// Of an unknown version whose DEX files are not there to try it with.
Error unchecked_version(std::uint32_t version, const OatDex& missing) {
  Error error{
      ErrorKind::unsupported,
      fmt::format("OAT version {} is not known ({} to {} are), and the DEX file of {}, which "
                  "would show whether it is laid out like those, is not found",
                  version, oldest_version, newest_version, missing.location)};
  return add_missing_dex_hints(std::move(error), missing);
}

// Enough to have a VDEX and its neighbours: an image inside an archive has none.
std::string path_of(const elf::Image& image) {
  return image.path().entry ? std::string() : image.path().file;
}

} // namespace

std::size_t OatFile::State::found() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(dex, [](const auto& file) { return file.has_value(); }));
}

bool OatFile::is_oat(const elf::Image& image) { return has_oat_header(image); }

Result<OatFile> OatFile::read(elf::Image& image, const DexSearch& where) {
  auto header = read_oat_header(image);
  if (!header) return fail(std::move(header).error());
  const std::uint32_t version = header->version;
  if (header->dex_count > std::numeric_limits<std::uint16_t>::max())
    return fail(ErrorKind::corrupt,
                fmt::format("OAT version {}: it has {} DEX files", version, header->dex_count));
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  DexFinder finder(path_of(image), where);
  auto state = read_as_laid_out(base, finder);
  const bool is_known = version >= oldest_version && version <= newest_version;
  if (!state && !is_known) return fail(unknown_version(version));
  if (!state)
    return fail(ErrorKind::corrupt,
                fmt::format("OAT version {}: its classes and methods are laid out in no known way",
                            version));
  sort_by_address(state->compiled);
  state->code_size_form = choose_code_size_form(*state);
  OatFile oat(std::move(state));
  if (is_known) return oat;
  const auto is_missing = [](const OatDex& dex) { return !dex.source; };
  if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
  const auto missing = std::ranges::find_if(oat.dex_files(), is_missing);
  if (missing != oat.dex_files().end()) return fail(unchecked_version(version, *missing));
  if (!matches_symbols(oat, image.debug_symbols())) return fail(unknown_version(version));
  return oat;
}

namespace {

// Where the DEX files lie in memory. None overlaps another, so all of them together are no larger
// than the files that they are from, however many records lead to them.
class DexPlaces {
public:
  // False where there is one already.
  bool add(Bytes dex) {
    const std::byte* const begin = dex.data();
    const auto next = begins_.upper_bound(begin); // by its end
    if (next != begins_.end() && std::less<>()(next->second, begin + dex.size())) return false;
    begins_.emplace(begin + dex.size(), begin);
    return true;
  }

private:
  std::map<const std::byte*, const std::byte*, std::less<>> begins_; // by the ends
};

std::optional<DexFile> parse_found(const FoundDex& found, DexPlaces& places, OatDex& shown) {
  auto parsed = DexFile::parse(found.bytes);
  if (parsed && places.add(parsed->bytes())) {
    shown.source = found.source;
    return *parsed;
  }
  shown.tried.push_back(
      fmt::format("{} ({})", found.source,
                  parsed ? "it has been taken for another one" : parsed.error().message));
  return std::nullopt;
}

} // namespace

void find_dex_files(OatFile::State& state, DexFinder& finder) {
  DexPlaces places;
  for (const OatRecord& record : state.records) {
    OatDex shown{.location = std::string(record.location), .source = {}, .tried = {}};
    auto found = finder.find(record, shown.tried);
    auto dex = found ? parse_found(*found, places, shown) : std::nullopt;
    state.owners.push_back(dex ? std::move(found->owner) : nullptr);
    state.dex.push_back(dex);
    state.shown.push_back(std::move(shown));
  }
}

Error add_missing_dex_hints(Error error, const OatDex& missing) {
  if (!missing.tried.empty())
    error = std::move(error).hint("looked for it at: " + joined(missing.tried));
  return std::move(error).hint("name it with --dex FILE, or with --root DIR the folder that the "
                               "system image was unpacked into");
}

OatFile::OatFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OatFile::OatFile(OatFile&&) noexcept = default;
OatFile& OatFile::operator=(OatFile&&) noexcept = default;
OatFile::~OatFile() = default;

std::uint32_t OatFile::version() const { return state_->header.version; }
std::string_view OatFile::value(std::string_view key) const {
  return find_store_value(state_->header.values, key);
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

bool OatFile::has_access_flags() const { return state_->dumped == nullptr; }

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

std::vector<Method> OatFile::class_methods(Class defined) const {
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
  return dex_method_signature(*state_->dex[method.dex], method.index);
}

void OatFile::append_qualified_name(const Method& method, std::string& text) const {
  if (state_->dumped) {
    const Signature signature = state_->dumped->signature(method.index);
    text += signature.class_name + '.' + signature.name;
    return;
  }
  append_dex_method_name(*state_->dex[method.dex], method.index, text);
}

bool matches_symbols(const OatFile& oat, std::span<const elf::SymbolTable> symbols) {
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

elf::Symbol method_symbol(const OatFile& oat, const Method& method, std::string_view signature) {
  elf::Symbol symbol;
  symbol.name = signature;
  symbol.address = method.code;
  symbol.size = oat.code_size(method);
  symbol.type = elf::SymbolType::function;
  symbol.binding = elf::Binding::global;
  symbol.table = elf::Table::oat;
  symbol.defined = true;
  symbol.thumb = method.thumb;
  return symbol;
}

} // namespace uprobectl::art
