#include "elf/image_state.hpp"

#include "elf/import_slots.hpp"
#include "elf/names.hpp"
#include "elf/sections.hpp"

#include <array>

namespace uprobectl::elf {

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
std::optional<std::string> Image::build_id() const { return state_->build_id; }

bool Image::is_debug_file() const {
  const auto dynamic = read_dynamic(state_->layout);
  const auto is_there = [&](const std::optional<VirtualAddress>& address) {
    return address && elf::segment_of(state_->layout, *address) != nullptr;
  };
  if (dynamic && *dynamic && is_there((*dynamic)->symbols) && is_there((*dynamic)->strings))
    return false;
  return has_code_without_bytes(state_->layout);
}

const Segment* Image::segment_of(VirtualAddress address) const {
  return elf::segment_of(state_->layout, address);
}

const Segment* Image::segment_of(ImageOffset offset) const {
  for (const Segment& segment : segments())
    if (offset >= segment.offset && offset.value - segment.offset.value < segment.file_size)
      return &segment;
  return nullptr;
}

std::optional<ImageOffset> Image::to_image(VirtualAddress address) const {
  const Segment* segment = segment_of(address);
  if (segment == nullptr) return std::nullopt;
  return ImageOffset{segment->offset.value + (address.value - segment->address.value)};
}

std::optional<VirtualAddress> Image::to_address(ImageOffset offset) const {
  const Segment* segment = segment_of(offset);
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

void Image::expect_dynamic(std::span<const std::string_view> names) const {
  if (state_->dynamic) state_->dynamic->expect(names);
}

Result<std::vector<ImportSlot>> Image::import_slots() const {
  const auto symbols = dynamic_symbols();
  if (!symbols) return fail(symbols.error());
  return read_import_slots(state_->layout, *symbols);
}

std::vector<AddressRange> Image::plt_sections() const {
  // .plt.sec: GNU ld and mold with IBT; .plt.got: GNU ld, for functions whose address is taken,
  // too.
  static constexpr std::array<std::string_view, 3> names = {".plt", ".plt.sec", ".plt.got"};
  return code_sections_named(state_->layout, names);
}

bool Image::has_section_headers() const { return state_->layout.header.section_headers != 0; }

std::optional<VirtualAddress> Image::section_address(std::string_view name) const {
  const auto section = find_section(state_->layout, name);
  if (!section) return std::nullopt;
  return VirtualAddress{section->header.address};
}

Result<NotesRead> Image::visit_notes(const std::function<void(const NoteRecord&)>& visit) const {
  return elf::visit_notes(state_->layout, visit);
}

std::optional<VirtualAddress> Image::got() const {
  const auto dynamic = read_dynamic(state_->layout);
  return dynamic && *dynamic ? (*dynamic)->got : std::nullopt;
}

std::vector<std::string_view> Image::needed_libraries() const {
  std::vector<std::string_view> libraries;
  const auto dynamic = read_dynamic(state_->layout);
  if (!dynamic || !*dynamic) return libraries;
  const auto strings = dynamic_strings(state_->layout, **dynamic);
  if (!strings) return libraries;
  for (const std::uint64_t offset : needed_offsets(state_->layout))
    if (const auto name = name_at(*strings, offset)) libraries.push_back(*name);
  return libraries;
}

} // namespace uprobectl::elf
