// SPDX-License-Identifier: Apache-2.0
#include "archive/nested.hpp"
#include "elf/debug_file.hpp"
#include "elf/dynamic_symbols.hpp"
#include "elf/elf_types.hpp"
#include "elf/layout.hpp"
#include "elf/prefetch.hpp"
#include "elf/sections.hpp"
#include "elf/xz.hpp"
#include "uprobectl/archive.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

// The bytes of an image and where they are in the file.
struct ImageBytes {
  Bytes image;
  FileOffset entry_data;
  std::unique_ptr<const std::vector<std::byte>> inflated = {}; // owner of image, may be null
  std::shared_ptr<const void> container = {}; // owner of an inflated inner archive, may be null
};

Result<ImageBytes> inflate(const archive::Archive& archive, const archive::ArchiveEntry& entry) {
  if (entry.size > max_inflated_size)
    return fail(ErrorKind::unsupported,
                fmt::format("'{}' is compressed and has {} bytes uncompressed, at most {} "
                            "(512 MiB) are inflated",
                            entry.name, entry.size, max_inflated_size));
  auto content = archive.extract(entry, max_inflated_size);
  if (!content) return fail(std::move(content).error());
  auto inflated = std::make_unique<const std::vector<std::byte>>(std::move(*content));
  const Bytes image = *inflated;
  return ImageBytes{image, {}, std::move(inflated)};
}

Result<ImageBytes> locate_entry(Bytes file, std::string_view entry_name, Compressed compressed);

// entry_data is relative to the inner archive, because that is the file on the device.
Result<ImageBytes> locate_nested(const archive::Archive& outer, const archive::NestedName& name,
                                 Compressed compressed) {
  const auto container = outer.find(name.container);
  if (!container) return fail(container.error());
  auto inner = open_inner(outer, *container);
  if (!inner) return fail(std::move(inner).error());
  if (name.entry.find("!/") != std::string_view::npos)
    if (const auto archive = archive::Archive::parse(inner->bytes);
        archive && split_nested(*archive, name.entry))
      return fail(ErrorKind::unsupported,
                  fmt::format("'{}' is an archive in an archive in an archive: extract one of them",
                              name.entry));
  auto image = locate_entry(inner->bytes, name.entry, compressed);
  if (!image) return fail(std::move(image).error());
  image->container = std::move(inner->owner);
  return image;
}

Result<ImageBytes> locate_entry(Bytes file, std::string_view entry_name, Compressed compressed) {
  const auto archive = archive::Archive::parse(file);
  if (!archive) return fail(archive.error());
  if (const auto nested = split_nested(*archive, entry_name))
    return locate_nested(*archive, *nested, compressed);
  const auto entry = archive->find(entry_name);
  if (!entry) return fail(entry.error());
  if (compressed == Compressed::inflate && entry->method != 0 && !entry->encrypted)
    return inflate(*archive, *entry);
  const auto image = archive->stored_bytes(*entry);
  if (!image) return fail(image.error());
  const auto start = archive->data_offset(*entry);
  if (!start) return fail(start.error());
  return ImageBytes{*image, *start, {}};
}

Result<std::optional<FoundSymbols>> embedded_symbols(const Layout& layout, KnownVersions versions) {
  const auto section = section_bytes(layout, ".gnu_debugdata");
  if (!section) return std::nullopt;
  auto content = decode_xz(*section);
  if (!content) return fail(std::move(content).error());
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  const auto file = SymbolFile::read(*owner);
  if (!file) return fail(file.error());
  if (!(file->machine() == layout.machine))
    return fail(ErrorKind::corrupt, "its content is for " + to_string(file->machine()));
  auto table = file->symbols(Table::gnu_debugdata, std::move(versions));
  if (!table) return fail(std::move(table).error());
  if (table->size() == 0) return std::nullopt;
  return FoundSymbols{std::move(*table), owner, ".gnu_debugdata"};
}

// Counts the symbols whose names are longer than max_name_length and are therefore truncated.
std::size_t count_truncated_names(const SymbolTable& table) {
  std::size_t count = 0;
  for (std::uint32_t index = 1; index < table.size(); ++index) {
    const auto name = table.name(index);
    // A name of exactly max_name_length bytes has its NUL there.
    count += name && name->size() == max_name_length && name->data()[max_name_length] != '\0';
  }
  return count;
}

KnownVersions known_versions(const Result<DynamicSymbols>& dynamic) {
  return dynamic ? dynamic->versions() : nullptr;
}

} // namespace

// The headers, and the locations of the tables. Tables are read on demand.
struct Image::State {
  State(Layout read, FileOffset start) : layout(std::move(read)), entry_data(start) {}

  Layout layout;
  FileOffset entry_data;
  // If it is an error, each lookup returns it.
  Result<DynamicSymbols> dynamic = DynamicSymbols::read(layout);
  std::optional<std::string> build_id = read_build_id(layout);
  BinaryPath path = {};
  std::shared_ptr<const MappedFile> file = {};
  std::unique_ptr<const std::vector<std::byte>> inflated = {}; // owner of layout.bytes, may be null
  std::shared_ptr<const void> container = {}; // owner of an inflated inner archive, may be null
  std::vector<SymbolTable> debug_tables = {};
  std::vector<std::shared_ptr<const void>> debug_owners = {}; // of the bytes of debug_tables
  bool searched_debug_file = false;                           // by add_debug_file()
  std::optional<FoundSymbols> debug_file = {};
};

Image::Image(std::unique_ptr<State> state) : state_(std::move(state)) {}
Image::Image(Image&&) noexcept = default;
Image& Image::operator=(Image&&) noexcept = default;
Image::~Image() = default;

Result<Image> Image::parse(Bytes image, FileOffset entry_data) {
  auto layout = read_layout(image);
  if (!layout) return fail(std::move(layout).error());
  return Image(std::make_unique<State>(std::move(*layout), entry_data));
}

const BinaryPath& Image::path() const { return state_->path; }
const std::shared_ptr<const MappedFile>& Image::file() const { return state_->file; }
FileOffset Image::entry_data() const { return state_->entry_data; }
Bytes Image::bytes() const { return state_->layout.bytes; }
bool Image::is_inflated() const { return state_->inflated != nullptr; }
const Machine& Image::machine() const { return state_->layout.machine; }
const std::vector<Segment>& Image::segments() const { return state_->layout.segments; }
std::vector<AddressRange> Image::relro() const { return read_relro(state_->layout); }
std::optional<std::string> Image::build_id() const { return state_->build_id; }

bool Image::is_debug_file() const {
  const auto dynamic = read_dynamic(state_->layout);
  const auto has_bytes = [&](const std::optional<VirtualAddress>& address) {
    return address && elf::find_segment(state_->layout, *address) != nullptr;
  };
  if (dynamic && *dynamic && has_bytes((*dynamic)->symbols) && has_bytes((*dynamic)->strings))
    return false;
  return has_code_without_bytes(state_->layout);
}

const Segment* Image::find_segment(VirtualAddress address) const {
  return elf::find_segment(state_->layout, address);
}

const Segment* Image::find_segment(ImageOffset offset) const {
  for (const Segment& segment : segments())
    if (offset >= segment.offset && offset.value - segment.offset.value < segment.file_size)
      return &segment;
  return nullptr;
}

std::optional<ImageOffset> Image::to_image(VirtualAddress address) const {
  const Segment* segment = find_segment(address);
  if (segment == nullptr) return std::nullopt;
  return ImageOffset{segment->offset.value + (address.value - segment->address.value)};
}

std::optional<VirtualAddress> Image::to_address(ImageOffset offset) const {
  const Segment* segment = find_segment(offset);
  if (segment == nullptr) return std::nullopt;
  const auto sum = checked_add(segment->address.value, offset.value - segment->offset.value);
  if (!sum) return std::nullopt;
  return VirtualAddress{*sum};
}

std::optional<FileOffset> Image::to_file(ImageOffset offset) const {
  if (is_inflated()) return std::nullopt;
  return FileOffset{state_->entry_data.value + offset.value};
}

Result<SymbolTable> Image::dynamic_symbols() const {
  if (!state_->dynamic) return fail(state_->dynamic.error());
  return state_->dynamic->table(state_->layout);
}

Result<SymbolTable> Image::full_symbols() const {
  return section_symbols(state_->layout, raw::SHT_SYMTAB, Table::symtab,
                         state_->dynamic ? state_->dynamic->versions() : nullptr);
}

Result<std::vector<Symbol>> Image::find_dynamic(std::string_view name) const {
  if (!state_->dynamic) return fail(state_->dynamic.error());
  return state_->dynamic->find(state_->layout, name);
}

void Prefetch::dynamic(const Image& image, std::span<const std::string_view> names) {
  if (image.state_->dynamic) image.state_->dynamic->prefetch(names);
}

Result<std::vector<ImportSlot>> Image::import_slots() const {
  const auto symbols = dynamic_symbols();
  if (!symbols) return fail(symbols.error());
  return read_slots(state_->layout, *symbols, SlotKind::functions);
}

Result<std::vector<ImportSlot>> Image::variable_slots() const {
  const auto symbols = dynamic_symbols();
  if (!symbols) return fail(symbols.error());
  return read_slots(state_->layout, *symbols, SlotKind::variables);
}

std::optional<VirtualAddress> Image::thread_offset_slot(std::string_view variable) const {
  const auto found = find_dynamic(variable);
  const auto symbols = dynamic_symbols();
  if (!found || !symbols) return std::nullopt;
  for (const Symbol& each : *found)
    if (each.type == SymbolType::tls && each.defined)
      return find_thread_offset_slot(state_->layout, each.address.value, variable, *symbols);
  return std::nullopt;
}

std::vector<std::uint32_t> Image::exported_words(std::string_view object) const {
  constexpr std::uint64_t max_size = 64;
  std::vector<std::uint32_t> words;
  const auto found = find_dynamic(object);
  if (!found) return words;
  for (const Symbol& each : *found) {
    if (each.type != SymbolType::object || !each.defined || each.size > max_size) continue;
    const auto bytes = bytes_from(state_->layout, each.address);
    if (!bytes || bytes->size() < each.size) continue;
    for (std::uint64_t at = 0; at + sizeof(std::uint32_t) <= each.size; at += sizeof(std::uint32_t))
      words.push_back(*read_at<std::uint32_t>(*bytes, at, state_->layout.machine.order));
    break;
  }
  return words;
}

std::vector<AddressRange> Image::plt_sections() const {
  // .plt.sec: GNU ld and mold with IBT; .plt.got: GNU ld, for functions whose address is also
  // taken.
  static constexpr std::array<std::string_view, 3> names = {".plt", ".plt.sec", ".plt.got"};
  return code_sections_named(state_->layout, names);
}

bool Image::has_section_headers() const { return state_->layout.has_section_headers; }

std::optional<VirtualAddress> Image::section_address(std::string_view name) const {
  const auto section = find_section(state_->layout, name);
  if (!section) return std::nullopt;
  return section->address;
}

Result<NoteStatistics>
Image::visit_notes(const std::function<void(const NoteRecord&)>& visit) const {
  return elf::visit_notes(state_->layout, visit);
}

std::optional<VirtualAddress> Image::got() const {
  const auto dynamic = read_dynamic(state_->layout);
  return dynamic && *dynamic ? (*dynamic)->got : std::nullopt;
}

std::optional<VirtualAddress> Image::entry_point() const {
  if (state_->layout.entry.value == 0) return std::nullopt;
  return state_->layout.entry;
}

NeededLibraries Image::needed_libraries() const { return elf::needed_libraries(state_->layout); }

Result<Image> Image::open(const BinaryPath& path) {
  auto file = MappedFile::open(path.file);
  if (!file) return fail(std::move(file).error());
  return open(std::make_shared<const MappedFile>(std::move(*file)), path);
}

Result<Image> Image::open(std::shared_ptr<const MappedFile> file, const BinaryPath& path,
                          Compressed compressed) {
  auto located = path.entry ? locate_entry(file->bytes(), *path.entry, compressed)
                            : Result<ImageBytes>(ImageBytes{file->bytes(), {}, {}});
  if (!located) return fail(Error(located.error()).within(to_string(path)));
  auto image = parse(located->image, located->entry_data);
  if (!image) {
    Error error = std::move(image).error();
    if (error.kind == ErrorKind::not_elf && archive::Archive::looks_like_archive(located->image)) {
      error.message = "an archive, not an ELF file";
      error =
          std::move(error).hint("name an entry: " + to_string(path) + "!/lib/arm64-v8a/libNAME.so");
    }
    return fail(std::move(error).within(to_string(path)));
  }
  image->state_->path = path;
  image->state_->file = std::move(file);
  image->state_->inflated = std::move(located->inflated);
  image->state_->container = std::move(located->container);
  return image;
}

std::span<const SymbolTable> Image::debug_symbols() const { return state_->debug_tables; }

DebugReport Image::add_embedded_symbols() {
  auto found = embedded_symbols(state_->layout, known_versions(state_->dynamic));
  if (!found) return {{}, {".gnu_debugdata is not used: " + found.error().message}};
  if (!*found) return {};
  state_->debug_tables.push_back(std::move((*found)->table));
  state_->debug_owners.push_back(std::move((*found)->owner));
  return {(*found)->source, {}};
}

DebugReport Image::add_debug_file(const DebugSearch& where) {
  DebugFileCriteria criteria =
      debug_file_criteria(state_->layout, state_->path, state_->file.get());
  criteria.versions = known_versions(state_->dynamic);
  DebugFileSearch search = search_in(where, std::move(criteria));
  DebugReport report{{}, std::move(search.warnings())};
  state_->searched_debug_file = true;
  state_->debug_file = std::move(search.found());
  if (const auto& found = state_->debug_file) {
    report.used = found->source;
    state_->debug_tables.push_back(found->table);
    state_->debug_owners.push_back(found->owner);
  }
  return report;
}

std::optional<FoundSymbols> find_debug_file(const Image& image, const DebugSearch& where) {
  const Image::State& state = *image.state_;
  if (state.searched_debug_file) return state.debug_file;
  return std::move(
      search_in(where, debug_file_criteria(state.layout, state.path, state.file.get())).found());
}

std::vector<std::string> Image::symbol_damage() const {
  std::vector<std::string> damage;
  const auto dynamic = dynamic_symbols();
  const auto full = full_symbols();
  if (!full && dynamic && dynamic->size() > 0)
    damage.push_back(full.error().message + ": only exported functions are known");
  const Layout& layout = state_->layout;
  if (layout.truncated)
    damage.push_back(fmt::format("the file is truncated: it has {} bytes, but its segments end at "
                                 "{}; functions in the missing part cannot be probed",
                                 layout.bytes.size(), layout.end_of_segments));
  std::size_t truncated = 0;
  for (const auto* const table : {&full, &dynamic})
    if (*table) truncated = std::max(truncated, count_truncated_names(**table));
  for (const SymbolTable& table : debug_symbols())
    truncated = std::max(truncated, count_truncated_names(table));
  if (truncated > 0)
    damage.push_back(fmt::format("{} symbol{} a name of more than {} bytes, which is cut",
                                 truncated, truncated == 1 ? " has" : "s have", max_name_length));
  return damage;
}

} // namespace uprobectl::elf
