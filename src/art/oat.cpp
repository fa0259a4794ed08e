// SPDX-License-Identifier: Apache-2.0
// Reads an OAT file. Tries the known layouts until one fits.
#include "art/oat_state.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

namespace uprobectl::art {

namespace {

constexpr std::uint32_t counts_methods_since = 194;

// Reads the code addresses of all methods. Returns false if the file contradicts the layout. Each
// class and each compiled method takes a word of the file, which bounds their number.
bool collect_methods(OatFile::State& state, bool counts_methods) {
  state.counts_methods = counts_methods;
  state.compiled.clear();
  const std::uint64_t max_methods = state.header.data.size() / sizeof(std::uint32_t);
  std::uint64_t defined = 0;
  for (const auto& dex : state.dex) defined += dex ? dex->method_count() : 0;
  // Growing step by step would copy the methods and touch more memory.
  state.compiled.reserve(std::min(defined, max_methods));
  std::uint64_t classes = 0;
  for (std::size_t i = 0; i < state.dex.size(); ++i) {
    if (!state.dex[i]) continue;
    classes += state.dex[i]->class_count();
    if (classes > max_methods || !add_compiled(state.classes(i), max_methods, state.compiled))
      return false;
  }
  return true;
}

// Tries both forms of OatClass, with and without a method count.
bool collect_with_any_form(OatFile::State& state) {
  const bool likely = state.header.version >= counts_methods_since;
  return collect_methods(state, likely) || collect_methods(state, !likely);
}

using StatePointer = std::unique_ptr<OatFile::State>;

bool is_same_record(const OatRecord& a, const OatRecord& b) {
  return a.location.data() == b.location.data() && a.location.size() == b.location.size() &&
         std::tie(a.checksum, a.dex_offset, a.class_offsets) ==
             std::tie(b.checksum, b.dex_offset, b.class_offsets);
}

// Reads the file with the layout that finds the most DEX files, because their checksums confirm it.
// Returns null if the file contradicts that layout, or every layout.
StatePointer read_with_best_layout(const OatFile::State& base, DexFinder& finder) {
  StatePointer best;
  std::size_t max_found_rejected = 0; // most DEX files found with a layout that was rejected
  std::vector<std::vector<OatRecord>> seen;
  auto layouts = record_layouts(base.header.version);
  // An unknown newer version is read with the newest known layout only.
  if (base.header.version > newest_version) layouts.resize(1);
  for (const RecordLayout& layout : layouts) {
    auto records = read_records(base.header, layout);
    if (!records) continue;
    if (std::ranges::any_of(seen, [&](const std::vector<OatRecord>& other) {
          return std::ranges::equal(other, *records, is_same_record);
        }))
      continue;
    seen.push_back(*records);
    auto state = std::make_unique<OatFile::State>(base);
    state->records = std::move(*records);
    find_dex_files(*state, finder);
    if (!collect_with_any_form(*state)) {
      max_found_rejected = std::max(max_found_rejected, state->found_dex_count());
      continue;
    }
    if (!best || state->found_dex_count() > best->found_dex_count()) best = std::move(state);
    if (best->found_dex_count() == best->records.size()) break;
  }
  if (best && best->found_dex_count() < max_found_rejected) best.reset();
  return best;
}

void sort_by_address(std::vector<Method>& methods) {
  std::ranges::sort(methods, [](const Method& a, const Method& b) {
    return std::tie(a.code, a.dex, a.index) < std::tie(b.code, b.dex, b.index);
  });
}

Error unknown_version(std::uint32_t version, std::string_view why) {
  return Error{ErrorKind::unsupported,
               fmt::format("unsupported OAT version {} (supported: {} to {}), and {}", version,
                           oldest_version, newest_version, why)};
}

constexpr std::string_view unconfirmed =
    "the file's symbols do not confirm that it has a supported layout";
constexpr std::string_view not_newest = "it does not have the layout of the newest supported one";

// Checks a file of an unknown version, newer than the known ones: the methods must agree with the
// symbols, if there are any, and with the headers before the code.
bool agrees_with_file(const OatFile& oat, elf::Image& image) {
  if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
  return check_symbols(oat, image.debug_symbols()) != SymbolCheck::contradiction &&
         count_headers(oat).nearly_all();
}

// The error for an unknown version if a DEX file that would confirm the layout is missing.
Error unchecked_version(std::uint32_t version, const OatDex& missing) {
  Error error{
      ErrorKind::unsupported,
      fmt::format("unsupported OAT version {} (supported: {} to {}), and its layout cannot be "
                  "checked without the DEX file of {}, which is not found",
                  version, oldest_version, newest_version, missing.location)};
  return add_missing_dex_hints(std::move(error), missing);
}

} // namespace

std::size_t OatFile::State::found_dex_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(dex, [](const auto& file) { return file.has_value(); }));
}

bool OatFile::is_oat(const elf::Image& image) { return has_oat_header(image); }

Result<OatFile> OatFile::read(elf::Image& image, const DexSearch& search) {
  auto header = read_oat_header(image);
  if (!header) {
    const auto located = locate_oatdata(image);
    if (located && located->version > newest_version && header.error().kind == ErrorKind::corrupt)
      return fail(unknown_version(located->version, not_newest));
    return fail(std::move(header).error());
  }
  const std::uint32_t version = header->version;
  if (header->dex_count > std::numeric_limits<std::uint16_t>::max())
    return fail(ErrorKind::corrupt,
                fmt::format("OAT version {}: too many DEX files: {}", version, header->dex_count));
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  base.mapping = search.mapping;
  DexFinder finder(image.path().file, search);
  auto state = read_with_best_layout(base, finder);
  const bool is_newer = version > newest_version;
  const bool is_known = version >= oldest_version && !is_newer;
  if (!state && !is_known)
    return fail(unknown_version(version, is_newer ? not_newest : unconfirmed));
  if (!state)
    return fail(
        ErrorKind::corrupt,
        fmt::format("OAT version {}: the layout of its classes and methods is not supported",
                    version));
  sort_by_address(state->compiled);
  state->code_size_form = choose_code_size_form(*state);
  OatFile oat(std::move(state));
  if (is_known || !oat.has_code()) return oat;
  if (is_newer && !agrees_with_file(oat, image)) return fail(unknown_version(version, not_newest));
  if (is_newer) return oat;
  const auto is_missing = [](const OatDex& dex) { return !dex.source; };
  if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
  const auto missing = std::ranges::find_if(oat.dex_files(), is_missing);
  if (missing != oat.dex_files().end()) return fail(unchecked_version(version, *missing));
  if (check_symbols(oat, image.debug_symbols()) != SymbolCheck::match)
    return fail(unknown_version(version, unconfirmed));
  return oat;
}

namespace {

// The memory ranges of the DEX files that are in use. They must not overlap, so that their total
// size is bounded even if many records refer to the same file. The files of a container may share
// tables: there, the number of their fields and methods is bounded.
class DexRanges {
public:
  // Returns false if the range overlaps another, or the files of a container have too many members.
  bool add(const DexFile& dex) {
    const std::byte* const begin = dex.bytes().data();
    const std::byte* const end = begin + dex.bytes().size();
    const auto next = begins_.upper_bound(begin); // by end address
    if (next != begins_.end() && std::less<>()(next->second, end)) return false;
    if (dex.is_in_container()) {
      // Each entry of a table takes eight bytes, each member of a class at least two more.
      std::uint64_t& members = members_[dex.data().data()];
      members += std::uint64_t{dex.field_count()} + dex.method_count();
      if (members > dex.data().size()) return false;
    }
    begins_.emplace(end, begin);
    return true;
  }

private:
  std::map<const std::byte*, const std::byte*, std::less<>> begins_; // by end address
  std::map<const std::byte*, std::uint64_t, std::less<>> members_;   // by address of the container
};

std::optional<DexFile> parse_found_dex(const FoundDex& found, DexRanges& ranges, OatDex& info) {
  auto parsed = DexFile::parse(found.bytes, found.header);
  if (parsed && ranges.add(*parsed)) {
    info.source = found.source;
    return *parsed;
  }
  info.tried.push_back(
      fmt::format("{} ({})", found.source,
                  parsed ? "already used for another DEX file" : parsed.error().message));
  return std::nullopt;
}

} // namespace

void find_dex_files(OatFile::State& state, DexFinder& finder) {
  DexRanges ranges;
  for (const OatRecord& record : state.records) {
    OatDex info{.location = std::string(record.location), .source = {}, .tried = {}};
    auto found = finder.find(record, info.tried);
    auto dex = found ? parse_found_dex(*found, ranges, info) : std::nullopt;
    state.owners.push_back(dex ? std::move(found->owner) : nullptr);
    state.dex.push_back(dex);
    state.dex_infos.push_back(std::move(info));
  }
}

Error add_missing_dex_hints(Error error, const OatDex& missing) {
  if (!missing.tried.empty())
    error = std::move(error).hint("looked for it at: " + joined(missing.tried));
  return std::move(error).hint(
      "pass its path with --dex FILE, or the directory of the unpacked system "
      "image with --root DIR");
}

OatFile::OatFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OatFile::OatFile(OatFile&&) noexcept = default;
OatFile& OatFile::operator=(OatFile&&) noexcept = default;
OatFile::~OatFile() = default;

std::uint32_t OatFile::version() const { return state_->header.version; }
std::string_view OatFile::value(std::string_view key) const {
  return find_store_value(state_->header.values, key);
}
std::span<const OatDex> OatFile::dex_files() const { return state_->dex_infos; }
bool OatFile::has_all_dex_files() const { return state_->found_dex_count() == state_->dex.size(); }
std::span<const Method> OatFile::compiled() const { return state_->compiled; }

std::span<const Method> OatFile::State::methods_starting_at(VirtualAddress address) const {
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
  const Method& previous = *(next - 1);
  // Code of unknown size counts as its first byte only.
  const std::uint64_t distance = address.value - previous.code.value;
  if (distance != 0 && distance >= code_size(previous)) return {};
  return state_->methods_starting_at(previous.code);
}

std::uint64_t OatFile::code_size(const Method& method) const {
  if (!method.compiled) return 0;
  const std::uint64_t size = art::code_size(*state_->image, method.code, state_->code_size_form);
  return size <= state_->gap_after(method.code) ? size : 0;
}

CodeSizeForm choose_code_size_form(const OatFile::State& state) {
  constexpr std::uint32_t code_info_since = 192;
  constexpr std::size_t sample_size = 64; // methods
  constexpr std::uint32_t is_code_info = 0x40000000;
  const auto& methods = state.compiled;
  const auto sample = std::span(methods).first(std::min(sample_size, methods.size()));
  // Count plausible sizes: a single method can have a damaged header.
  const auto count_plausible = [&](CodeSizeForm form) {
    return std::ranges::count_if(sample, [&](const Method& method) {
      const std::uint64_t size = code_size(*state.image, method.code, form);
      return size != 0 && size <= state.gap_after(method.code);
    });
  };
  const bool is_marked = std::ranges::any_of(sample, [&](const Method& method) {
    return (code_size(*state.image, method.code, CodeSizeForm::in_header) & is_code_info) != 0;
  });
  const CodeSizeForm with_info = is_marked ? CodeSizeForm::marked : CodeSizeForm::in_code_info;
  const bool is_newer = state.header.version >= code_info_since;
  const auto forms =
      is_newer ? std::array{with_info, CodeSizeForm::in_code_info, CodeSizeForm::in_header}
               : std::array{CodeSizeForm::in_header, with_info, CodeSizeForm::in_code_info};
  const auto best = std::ranges::max_element(forms, {}, count_plausible); // first of equals
  return count_plausible(*best) == 0 ? CodeSizeForm::unknown : *best;
}

HeaderCounts count_headers(const OatFile& oat) {
  HeaderCounts headers;
  std::optional<VirtualAddress> last;
  for (const Method& method : oat.compiled()) {
    if (last == method.code) continue; // several methods share it
    last = method.code;
    ++headers.functions;
    headers.sized += oat.code_size(method) != 0 ? 1 : 0;
  }
  return headers;
}

bool OatFile::has_code() const { return state_->code.begin < state_->code.end; }

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
  // DEX files encode characters beyond 16 bits as surrogate pairs.
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
  // Inconsistencies of classes with code were already reported when the file was read.
  (void)visit_methods(state_->classes(defined.dex), defined.index, budget,
                      [&](const Method& method) { methods.push_back(method); });
  return methods;
}

Signature OatFile::signature(const Method& method) const {
  if (state_->dumped) return state_->dumped->signature(method.index);
  return dex_method_signature(*state_->dex[method.dex], method.index);
}

const NameMapping* OatFile::mapping() const { return state_->mapping.get(); }

std::vector<std::string_view> OatFile::map_ids() const {
  std::vector<std::string_view> ids;
  for (const std::optional<DexFile>& dex : state_->dex)
    if (dex) std::ranges::copy(r8_map_ids(*dex), std::back_inserter(ids));
  return ids;
}

void OatFile::append_qualified_name(const Method& method, std::string& text) const {
  if (state_->dumped) {
    const Signature signature = state_->dumped->signature(method.index);
    text += signature.class_name + '.' + signature.name;
    return;
  }
  append_dex_method_name(*state_->dex[method.dex], method.index, text);
}

SymbolCheck check_symbols(const OatFile& oat, std::span<const elf::SymbolTable> symbols) {
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
      if (!is_method && oat.has_all_dex_files()) return SymbolCheck::contradiction;
      has_method = has_method || is_method;
    }
  if (functions.empty()) return SymbolCheck::inconclusive;
  std::ranges::sort(functions);
  const bool has_functions = std::ranges::all_of(oat.compiled(), [&](const Method& method) {
    return std::ranges::binary_search(functions, method.code);
  });
  if (!has_functions) return SymbolCheck::contradiction;
  return has_method ? SymbolCheck::match : SymbolCheck::inconclusive;
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
