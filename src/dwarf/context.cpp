// SPDX-License-Identifier: Apache-2.0
#include "dwarf/context.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/debug_sections.hpp"
#include "dwarf/definitions.hpp"
#include "dwarf/line_table.hpp"
#include "dwarf/type_table.hpp"
#include "dwarf/unit_check.hpp"
#include "elf/debug_file.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <llvm/DebugInfo/DWARF/DWARFTypeUnit.h>
#include <llvm/Object/Error.h>

// LLVM opens split units with handlers of its own, which write to stderr. The linker replaces them
// by these (--wrap, src/meson.build): read_split_unit() says which file is damaged.
void drop_llvm_error(llvm::Error error) asm(
    "__wrap__ZN4llvm9WithColor19defaultErrorHandlerENS_5ErrorE");
void drop_llvm_warning(llvm::Error warning) asm(
    "__wrap__ZN4llvm9WithColor21defaultWarningHandlerENS_5ErrorE");
void drop_llvm_error(llvm::Error error) { llvm::consumeError(std::move(error)); }
void drop_llvm_warning(llvm::Error warning) { llvm::consumeError(std::move(warning)); }

// is_safe_split_file() has found an ELF file before LLVM opens it, but the file can be replaced
// between the two. The functions of the other formats have further parameters.
using ObjectFileOrError = llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>>;
ObjectFileOrError refuse_object_file(llvm::MemoryBufferRef file) asm(
    "__wrap__ZN4llvm6object10ObjectFile20createCOFFObjectFileENS_15MemoryBufferRefE");
ObjectFileOrError refuse_object_file(llvm::MemoryBufferRef /*file*/) {
  return llvm::errorCodeToError(llvm::object::object_error::invalid_file_type);
}
[[gnu::alias("__wrap__ZN4llvm6object10ObjectFile20createCOFFObjectFileENS_15MemoryBufferRefE")]]
ObjectFileOrError refuse_wasm_file(llvm::MemoryBufferRef file) asm(
    "__wrap__ZN4llvm6object10ObjectFile20createWasmObjectFileENS_15MemoryBufferRefE");
[[gnu::alias("__wrap__ZN4llvm6object10ObjectFile20createCOFFObjectFileENS_15MemoryBufferRefE")]]
ObjectFileOrError refuse_macho_file(llvm::MemoryBufferRef file) asm(
    "__wrap__ZN4llvm6object10ObjectFile21createMachOObjectFileENS_15MemoryBufferRefEjjm");
[[gnu::alias("__wrap__ZN4llvm6object10ObjectFile20createCOFFObjectFileENS_15MemoryBufferRefE")]]
ObjectFileOrError refuse_xcoff_file(llvm::MemoryBufferRef file) asm(
    "__wrap__ZN4llvm6object10ObjectFile21createXCOFFObjectFileENS_15MemoryBufferRefEj");

namespace uprobectl::dwarf {

namespace {

constexpr std::size_t max_warnings = 20;
// Bytes; the debug information of the largest browsers has 4 GiB.
constexpr std::uint64_t max_split_unit = std::uint64_t{4} << 30;
// A path that no file has: LLVM does not search for another one then.
constexpr std::string_view no_file = "/dev/null/none";

// Whether the path, without symbolic links, is a regular file below the folder.
bool is_file_below(const std::string& path, const std::string& folder) {
  std::error_code error;
  const auto real_folder = std::filesystem::canonical(folder, error);
  if (error) return false;
  const auto real_path = std::filesystem::canonical(path, error);
  if (error) return false;
  const auto [end, rest] = std::ranges::mismatch(real_folder, real_path);
  if (end != real_folder.end()) return false;
  const auto status = stat_path(real_path.string());
  return status && S_ISREG(status->st_mode) &&
         static_cast<std::uint64_t>(status->st_size) <= max_split_unit;
}

std::optional<std::string> string_in(const Die& die, std::initializer_list<Attribute> attributes) {
  for (const Attribute attribute : attributes)
    if (const auto text = llvm::dwarf::toString(die.find(attribute))) return *text;
  return std::nullopt;
}

} // namespace

Context::Context() = default;
Context::~Context() = default;

TypeTable& Context::types() {
  if (!types_) types_ = std::make_unique<TypeTable>(*this);
  return *types_;
}

Die Context::definition_of(const Die& declaration) {
  if (info_size() > max_debug_info) {
    warn("types of other units are not searched: the debug information is too large");
    return {};
  }
  if (!definitions_) definitions_ = std::make_unique<TypeDefinitions>(*this);
  Die found = definitions_->find(declaration);
  if (Context* const other = found ? nullptr : alternate())
    found = other->definition_of(declaration);
  return found;
}

Result<std::unique_ptr<Context>> Context::create(Bytes file, std::shared_ptr<const void> owner,
                                                 std::string source) {
  auto layout = elf::read_sections_only(file);
  if (!layout) return fail(std::move(layout).error());
  const auto has = [&](std::string_view name) {
    return elf::find_section(*layout, name).has_value();
  };
  if (!has(".debug_info") && !has(".zdebug_info"))
    return fail(ErrorKind::not_found, "no .debug_info");
  std::unique_ptr<Context> context(new Context);
  context->layout_ = std::move(*layout);
  context->owner_ = std::move(owner);
  context->source_ = std::move(source);
  return context;
}

llvm::DWARFContext& Context::dwarf() {
  if (!dwarf_) {
    const auto report = [this](llvm::Error error) { warn(std::move(error)); };
    std::string package = files_.package.empty() ? std::string(no_file) : files_.package;
    auto sections = std::make_unique<DebugSections>(layout_, *this);
    sections_ = sections.get();
    dwarf_ = std::make_unique<llvm::DWARFContext>(std::move(sections), std::move(package), report,
                                                  report);
  }
  return *dwarf_;
}

std::uint64_t Context::info_size() const {
  const auto size = elf::content_size(layout_, ".debug_info");
  return size ? size->content : 0;
}

void Context::prefetch(std::initializer_list<std::string_view> sections) {
  dwarf();
  for (const std::string_view name : sections) sections_->prefetch(name);
}

bool Context::read_location_lists() {
  dwarf();
  return sections_->read_location_lists();
}

void Context::warn(std::string message) {
  if (warnings_.size() < max_warnings && std::ranges::find(warnings_, message) == warnings_.end())
    warnings_.push_back(std::move(message));
}

void Context::warn(llvm::Error error) { warn(llvm::toString(std::move(error))); }

bool Context::is_code(std::uint64_t address) const {
  const std::uint64_t last = layout_.machine.is_64bit ? UINT64_MAX : UINT32_MAX;
  if (code_.empty()) return address > 1 && address < last - 1;
  return std::ranges::any_of(code_, [&](const elf::AddressRange& range) {
    return address - range.address.value < range.size;
  });
}

bool Context::is_live(const Die& function) {
  const auto [known, is_new] =
      live_functions_.try_emplace({function.getDwarfUnit(), function.getOffset()}, true);
  if (is_new) known->second = is_live_function(*this, function);
  return known->second;
}

std::optional<std::uint64_t> Context::entry_by_symbol(const Die& function,
                                                      std::span<const std::uint64_t> addresses) {
  if (!functions_by_address_) {
    functions_by_address_.emplace();
    if (const auto file = elf::SymbolFile::read(layout_.bytes))
      if (auto table = file->symbols(elf::Table::symtab)) symbols_ = std::move(*table);
    for (std::uint32_t index = 1; index < symbols_.size(); ++index)
      if (const auto symbol = symbols_.at(index);
          symbol && symbol->defined && symbol->type == elf::SymbolType::function)
        functions_by_address_->emplace_back(symbol->address.value, index);
    std::ranges::sort(*functions_by_address_);
  }
  const auto wanted = linkage_name(function);
  if (!wanted || wanted->empty()) return std::nullopt;
  // A part has the name of what it was split from, and a suffix.
  std::optional<std::uint64_t> entry;
  std::size_t shortest = SIZE_MAX;
  for (const std::uint64_t address : addresses) {
    const auto address_of = [](const auto& each) { return each.first; };
    const auto there = std::ranges::equal_range(*functions_by_address_, address, {}, address_of);
    for (const auto& [begin, index] : there) {
      const std::string_view name = symbols_.name(index).value_or(std::string_view());
      if (!name.starts_with(*wanted) || name.size() >= shortest) continue;
      if (name.size() > wanted->size() && name[wanted->size()] != '.') continue;
      shortest = name.size();
      entry = address;
    }
  }
  return entry;
}

llvm::DWARFUnit* Context::unit_at(VirtualAddress address) {
  if (!units_) units_.emplace(*this);
  const auto offset = units_->unit_at(address);
  llvm::DWARFUnit* const unit = offset ? dwarf().getCompileUnitForOffset(*offset) : nullptr;
  return unit != nullptr && has_sound_root(*unit) ? unit : nullptr;
}

llvm::DWARFUnit* Context::unit_of_lines(std::uint64_t offset) {
  // Linkers copy the tables in the order of the units.
  llvm::DWARFContext& all = dwarf();
  unsigned low = 0;
  unsigned high = all.getNumCompileUnits();
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    const auto found = lines_of_compile_unit(*all.getUnitAtIndex(middle));
    if (!found) break;
    if (*found < offset)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == high && low < all.getNumCompileUnits())
    if (llvm::DWARFUnit* const unit = all.getUnitAtIndex(low);
        lines_of_compile_unit(*unit) == offset)
      return unit;
  const auto& units = units_by_lines();
  const auto found = units.find(offset);
  return found != units.end() ? found->second : nullptr;
}

const std::map<std::uint64_t, llvm::DWARFUnit*>& Context::units_by_lines() {
  if (units_by_lines_) return *units_by_lines_;
  units_by_lines_.emplace();
  for (const auto& unit : dwarf().compile_units())
    if (const auto offset = lines_of_compile_unit(*unit))
      units_by_lines_->emplace(*offset, unit.get());
  return *units_by_lines_;
}

std::optional<std::uint64_t> Context::lines_of_compile_unit(llvm::DWARFUnit& unit) {
  using namespace llvm::dwarf;
  const Die root = has_sound_root(unit) ? unit.getUnitDIE() : Die();
  if (!root || (root.getTag() != DW_TAG_compile_unit && root.getTag() != DW_TAG_skeleton_unit))
    return std::nullopt;
  return LineTable::offset_of(unit);
}

bool Context::is_safe_split_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto layout =
      file ? elf::read_sections_only(file->bytes()) : Result<elf::Layout>(fail(file.error()));
  if (layout && has_safe_split_sections(*layout)) return true;
  warn(fmt::format("the split units in {} are not used: {}", path,
                   layout ? "it is damaged" : layout.error().message));
  return false;
}

std::optional<std::string> Context::find_split_unit(llvm::DWARFUnit& unit) {
  if (!files_.package.empty()) {
    if (!package_is_safe_) package_is_safe_ = is_safe_split_file(files_.package);
    return *package_is_safe_ ? std::optional(files_.package) : std::nullopt;
  }
  const Die root = unit.getUnitDIE();
  using namespace llvm::dwarf;
  const auto name = string_in(root, {unit.getVersion() >= 5 ? DW_AT_dwo_name : DW_AT_GNU_dwo_name});
  if (!name) return std::nullopt;
  // LLVM opens this path first, whatever else it is given.
  const std::string folder = string_in(root, {DW_AT_comp_dir}).value_or("");
  const std::string named = name->starts_with('/') ? *name : fmt::format("{}/{}", folder, *name);
  if (is_file_below(named, folder))
    return is_safe_split_file(named) ? std::optional(named) : std::nullopt;
  if (stat_path(named)) {
    warn(fmt::format("the split unit {} is not a file below {}", named, folder));
    return std::nullopt;
  }
  const std::string_view last = std::string_view(*name).substr(name->rfind('/') + 1);
  for (const std::string& each : files_.folders)
    for (const std::string_view tail : {std::string_view(*name), last})
      if (const std::string path = fmt::format("{}/{}", each, tail); is_file_below(path, each))
        return is_safe_split_file(path) ? std::optional(path) : std::nullopt;
  warn(fmt::format("the split unit {} was not found", *name));
  return std::nullopt;
}

bool Context::has_sound_root(llvm::DWARFUnit& unit) {
  const auto [known, is_new] = sound_roots_.try_emplace(&unit, false);
  if (!is_new || !has_own_abbreviations(unit)) return known->second;
  if (!has_bounded_root(unit)) {
    warn(fmt::format("the unit at {:#x} is damaged", unit.getOffset()));
    return false;
  }
  // LLVM reports this only once. It then uses the unit without its tables of locations and ranges,
  // and reads them through a null pointer (DWARFUnit::getLoclistOffset, LocTable).
  if (auto error = unit.tryExtractDIEsIfNeeded(true)) {
    warn(fmt::format("the unit at {:#x} is damaged: {}", unit.getOffset(),
                     llvm::toString(std::move(error))));
    return false;
  }
  return known->second = true;
}

bool Context::has_own_abbreviations(const llvm::DWARFUnit& unit) {
  const llvm::DWARFObject& sections = unit.getContext().getDWARFObj();
  const llvm::StringRef all =
      unit.isDWOUnit() ? sections.getAbbrevDWOSection() : sections.getAbbrevSection();
  Abbreviations& known = abbreviations_[&unit.getContext()];
  const std::uint64_t offset = unit.getAbbrOffset();
  const auto [table, is_new] = known.is_sound.try_emplace(offset, true);
  if (!is_new || offset >= all.size()) return table->second;
  known.size += abbreviations_size(std::as_bytes(std::span(all.data(), all.size())).subspan(offset),
                                   layout_.machine.order);
  table->second = known.size <= all.size();
  if (!table->second) warn("the tables of abbreviations overlap: some units are not read");
  return table->second;
}

llvm::DWARFUnit* Context::with_bounded_entries(llvm::DWARFUnit* unit) {
  if (has_bounded_entries(*unit)) return unit;
  warn(fmt::format("the unit at {:#x} is damaged", unit->getOffset()));
  return nullptr;
}

llvm::DWARFUnit* Context::with_entries(llvm::DWARFUnit* unit) {
  if (unit == nullptr) return nullptr;
  const auto [known, is_new] = with_entries_.try_emplace(unit, unit);
  if (!is_new) return known->second;
  known->second = nullptr;
  if (!has_sound_root(*unit)) return nullptr;
  using namespace llvm::dwarf;
  const Die root = unit->getUnitDIE();
  if (!root) return nullptr;
  if (!root.find({DW_AT_dwo_name, DW_AT_GNU_dwo_name}) || unit->isDWOUnit())
    return known->second = with_bounded_entries(unit);
  if (const auto path = find_split_unit(*unit))
    if (llvm::DWARFUnit* const split = read_split_unit(*unit, *path))
      known->second = with_bounded_entries(split);
  return known->second;
}

llvm::DWARFUnit* Context::read_split_unit(llvm::DWARFUnit& unit, const std::string& path) {
  const auto& file = split_files_.try_emplace(path, dwarf().getDWOContext(path)).first->second;
  // Without an index, LLVM reads the first entry of each unit to find the one that belongs to this.
  if (file && !file->getCUIndex())
    for (const auto& each : file->dwo_compile_units())
      if (!has_sound_root(*each)) return nullptr;
  const auto id = unit.getDWOId();
  llvm::DWARFUnit* const split = file && id ? file->getDWOCompileUnitForHash(*id) : nullptr;
  if (split != nullptr && !has_sound_root(*split)) return nullptr;
  // Connects the two.
  if (split != nullptr && unit.getNonSkeletonUnitDIE(true, path).getDwarfUnit() == split)
    return split;
  warn(fmt::format("{} does not have the split unit of {}", path,
                   string_in(unit.getUnitDIE(), {llvm::dwarf::DW_AT_name}).value_or("a unit")));
  return nullptr;
}

Die Context::innermost_function_at(llvm::DWARFUnit& unit, VirtualAddress address) {
  const FunctionMap* const functions = functions_of(unit);
  return functions == nullptr ? Die() : functions->innermost_at(address);
}

FunctionMap* Context::functions_of(llvm::DWARFUnit& unit) {
  llvm::DWARFUnit* const entries = with_entries(&unit);
  if (entries == nullptr) return nullptr;
  return &functions_.try_emplace(entries, *this, *entries).first->second;
}

Die Context::function_without_code(VirtualAddress address, std::string_view symbol) {
  if (symbol.empty()) return {};
  const Die there = function_at(address);
  if (there && linkage_name(there) == symbol) return {};
  llvm::DWARFUnit* const unit = unit_at(address);
  FunctionMap* const functions = unit == nullptr ? nullptr : functions_of(*unit);
  return functions == nullptr ? Die() : functions->without_code(*this, symbol);
}

Die Context::function_at(VirtualAddress address) {
  llvm::DWARFUnit* const unit = unit_at(address);
  Die die = unit == nullptr ? Die() : innermost_function_at(*unit, address);
  // Each step leads to an earlier entry.
  while (die && !die.isSubprogramDIE()) die = die.getParent();
  return die;
}

Context* Context::alternate() {
  if (alternate_opened_ || files_.alternate.empty()) return alternate_.get();
  alternate_opened_ = true;
  auto opened = MappedFile::open(files_.alternate);
  if (!opened) {
    warn(std::move(opened).error().message);
    return nullptr;
  }
  auto file = std::make_shared<const MappedFile>(std::move(*opened));
  const Bytes bytes = file->bytes();
  auto context = create(bytes, std::move(file), files_.alternate);
  if (context)
    alternate_ = std::move(*context);
  else
    warn(fmt::format("{}: {}", files_.alternate, context.error().message));
  return alternate_.get();
}

Die Context::entry_at(std::uint64_t offset) {
  const auto units = dwarf().normal_units();
  if (units.begin() == units.end()) return {};
  llvm::DWARFUnit* const unit = (*units.begin())->getUnitVector().getUnitForOffset(offset);
  return with_entries(unit) == nullptr ? Die() : unit->getDIEForOffset(offset);
}

Die Context::type_with_signature(const llvm::DWARFUnit& unit, std::uint64_t signature) {
  // LLVM looks it up in a DenseMap, which must not be asked for its own two keys.
  if (signature >= llvm::DenseMapInfo<std::uint64_t>::getTombstoneKey()) return {};
  llvm::DWARFTypeUnit* const found =
      unit.getContext().getTypeUnitForHash(unit.getVersion(), signature, unit.isDWOUnit());
  if (found == nullptr || with_entries(found) != found) return {};
  return found->getDIEForOffset(found->getOffset() + found->getTypeOffset());
}

Die Context::referenced(const Die& die, Attribute attribute) {
  const auto value = die.find(attribute);
  if (!value) return {};
  if (const auto offset = value->getAsSupplementaryReference()) {
    Context* const other = alternate();
    return other == nullptr ? Die() : other->entry_at(*offset);
  }
  if (const auto signature = value->getAsSignatureReference())
    return type_with_signature(*die.getDwarfUnit(), *signature);
  // Into another unit, which has to be checked, too.
  if (const auto offset = value->getAsDebugInfoReference())
    if (with_entries(die.getDwarfUnit()->getUnitVector().getUnitForOffset(*offset)) == nullptr)
      return {};
  return die.getAttributeValueAsReferencedDie(*value);
}

std::optional<std::string_view> Context::text(const Die& die, Attribute attribute) {
  const auto value = die.find(attribute);
  if (!value) return std::nullopt;
  using namespace llvm::dwarf;
  if (value->getForm() == DW_FORM_GNU_strp_alt || value->getForm() == DW_FORM_strp_sup) {
    Context* const other = alternate();
    if (other == nullptr) return std::nullopt;
    const llvm::StringRef strings = other->dwarf().getDWARFObj().getStrSection();
    return c_string_at(std::as_bytes(std::span(strings.data(), strings.size())),
                       value->getRawUValue());
  }
  auto string = value->getAsCString();
  if (!string) {
    llvm::consumeError(string.takeError());
    return std::nullopt;
  }
  return *string;
}

Die Context::with_attribute(const Die& die, Attribute attribute) {
  Die entry = die;
  for (int i = 0; entry && i <= max_origins; ++i) {
    if (entry.find(attribute)) return entry;
    using namespace llvm::dwarf;
    const Die origin = referenced(entry, DW_AT_abstract_origin);
    entry = origin ? origin : referenced(entry, DW_AT_specification);
  }
  return {};
}

UnitLines* Context::unit_lines(llvm::DWARFUnit& unit) {
  const auto offset = LineTable::offset_of(unit);
  if (!offset) return nullptr;
  llvm::DWARFUnit* const linked = unit.getLinkedUnit();
  llvm::DWARFUnit& owner = linked != nullptr ? *linked : unit;
  const std::string_view folder =
      text(owner.getUnitDIE(), llvm::dwarf::DW_AT_comp_dir).value_or("");
  const auto [known, is_new] =
      lines_.try_emplace(LinesKey(&owner.getContext(), *offset, folder), nullptr);
  if (!is_new) return known->second.get();
  auto table = LineTable::read(*this, unit);
  if (!table) return nullptr;
  // Damaged offsets could make the same bytes be read many times.
  constexpr std::uint64_t max_times = 4;
  std::uint64_t& size = lines_size_[&owner.getContext()];
  size += table->size();
  if (size > max_times * owner.getLineSection().Data.size()) {
    warn("the line tables overlap");
    return nullptr;
  }
  known->second = std::make_unique<UnitLines>(UnitLines{.table = std::move(*table)});
  return known->second.get();
}

const LineTable* Context::line_table(llvm::DWARFUnit& unit) {
  const UnitLines* const lines = unit_lines(unit);
  return lines != nullptr ? &lines->table : nullptr;
}

const LineIndex* Context::line_index(llvm::DWARFUnit& unit) {
  UnitLines* const lines = unit_lines(unit);
  if (lines == nullptr) return nullptr;
  if (!lines->index) lines->index.emplace(*this, lines->table);
  return &*lines->index;
}

std::optional<std::string_view> Context::name(const Die& die) {
  const Die entry = with_attribute(die, llvm::dwarf::DW_AT_name);
  return entry ? text(entry, llvm::dwarf::DW_AT_name) : std::nullopt;
}

std::optional<std::string_view> Context::linkage_name(const Die& die) {
  using namespace llvm::dwarf;
  for (const Attribute attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (const Die entry = with_attribute(die, attribute)) return text(entry, attribute);
  return name(die);
}

} // namespace uprobectl::dwarf
