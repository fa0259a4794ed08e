#include "stacks/unwind_data.hpp"
#include "uprobectl/stacks/modules.hpp"

#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl::stacks {

namespace {

// Stacks come from the same places again and again.
constexpr std::size_t most_names = 16384;

std::optional<Isa> isa_of(const elf::Machine& machine) {
  if (machine == elf::Machine{llvm::ELF::EM_X86_64, true, ByteOrder::little}) return Isa::x86_64;
  if (machine == elf::Machine{llvm::ELF::EM_AARCH64, true, ByteOrder::little}) return Isa::arm64;
  return std::nullopt;
}

} // namespace

Module::Module(std::string path, std::optional<std::string> entry)
    : path_(std::move(path)), entry_(std::move(entry)) {}
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::open(const MappedObject& object, std::string path,
                                             FileOffset begin, std::uint64_t size,
                                             std::optional<std::string> entry,
                                             const elf::DebugSearch& where) {
  const auto bytes = slice(object.bytes, begin.value, size);
  if (!bytes) return fail(ErrorKind::corrupt, "the image lies outside of the file");
  // By its path an image can find a debug file that names it; inside of another file it has one
  // only if it is an archive's entry.
  const bool has_path = object.file != nullptr && (entry || begin.value == 0);
  auto image = has_path ? elf::Image::open(object.file, {object.file->path(), entry})
                        : elf::Image::parse(*bytes, begin);
  // An archive with another entry of that name is read here all the same.
  if (!image && has_path) image = elf::Image::parse(*bytes, begin);
  if (!image) return fail(std::move(image).error());
  std::unique_ptr<Module> module(new Module(std::move(path), std::move(entry)));
  module->begin_ = begin;
  module->owner_ = object.owner;
  module->where_ = where;
  module->build_id_ = image->build_id();
  module->isa_ = isa_of(image->machine());
  module->image_ = std::move(*image);
  return module;
}

std::unique_ptr<Module> Module::unreadable(std::string path, Error why) {
  std::unique_ptr<Module> module(new Module(std::move(path), std::nullopt));
  module->error_ = std::move(why);
  return module;
}

std::shared_ptr<const PlaceName> Module::name(VirtualAddress address) {
  const auto known = names_.find(address.value);
  if (known != names_.end()) return known->second;
  auto name = std::make_shared<PlaceName>();
  if (image_ && !symbols_) {
    const auto full = image_->full_symbols();
    if (!full || full->size() == 0) {
      image_->add_embedded_symbols();
      image_->add_debug_file(where_);
    }
    symbols_ = std::make_unique<SymbolFinder>(*image_);
  }
  if (const auto found = symbols_ ? symbols_->at(address) : std::nullopt) {
    name->symbol = std::string(found->symbol.name);
    name->symbol_offset = found->offset;
    name->demangled = demangle(found->symbol.name);
  }
  if (names_.size() >= most_names) names_.clear();
  names_.emplace(address.value, name);
  return name;
}

UnwindData* Module::unwind_data(Isa isa) {
  if (isa_ != isa) return nullptr;
  if (!unwind_data_) unwind_data_ = std::make_unique<UnwindData>(*image_, isa);
  return unwind_data_.get();
}

} // namespace uprobectl::stacks
