#include "stacks/unwind_data.hpp"
#include "uprobectl/base/shrinking.hpp"
#include "uprobectl/path.hpp"
#include "uprobectl/stacks/modules.hpp"

#include <fmt/format.h>

namespace uprobectl::stacks {

namespace {

Error shrunk() { return {ErrorKind::io, "it changed size while it was being read"}; }

} // namespace

void append_place(std::string& text, std::string_view path, std::optional<std::string_view> entry,
                  FileOffset begin, VirtualAddress address) {
  text += '(';
  text += file_name_of(path);
  if (entry)
    text.append("!/").append(*entry);
  else if (begin.value != 0)
    text += fmt::format("@{:#x}", begin.value);
  text += fmt::format("+{:#x})", address.value);
}

Module::Module(std::string path, std::optional<std::string> entry)
    : path_(std::move(path)), entry_(std::move(entry)) {}
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::open(const MappedObject& object, std::string path,
                                             FileOffset begin, std::uint64_t size,
                                             std::optional<std::string> entry,
                                             const NameSources& names) {
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
  module->sources_ = names;
  module->build_id_ = image->build_id();
  module->arch_ = unwound_arch(image->machine());
  module->image_ = std::move(*image);
  if (has_shrunk(*bytes)) return fail(shrunk());
  return module;
}

bool Module::begins_program_at(VirtualAddress address) const {
  if (!image_ || !arch_) return false;
  constexpr std::uint64_t longest = 128; // glibc's takes 80 bytes, to the call of constructors
  const auto entry = image_->entry_point();
  return entry && address >= *entry && address.value - entry->value < longest;
}

std::unique_ptr<Module> Module::unreadable(std::string path, Error why) {
  std::unique_ptr<Module> module(new Module(std::move(path), std::nullopt));
  module->error_ = std::move(why);
  return module;
}

void Module::find_names() {
  if (symbols_ || !image_) return;
  // Java methods first: of those of an OAT file the symbols name some at most.
  if (art::OatFile::is_oat(*image_))
    if (auto methods = art::OatFile::read(*image_, sources_.dex)) methods_ = std::move(*methods);
  const auto full = image_->full_symbols();
  if (!full || full->size() == 0) {
    image_->add_embedded_symbols();
    image_->add_debug_file(sources_.debug);
  }
  symbols_ = std::make_unique<SymbolFinder>(*image_);
}

// Code that several methods share is none's more than the others'.
std::optional<PlaceName> Module::method_name(VirtualAddress address) const {
  if (!methods_) return std::nullopt;
  const auto found = methods_->methods_at(address);
  if (found.empty()) return std::nullopt;
  PlaceName name;
  name.symbol = art::to_string(methods_->signature(found.front()));
  if (const std::size_t others = found.size() - 1; others > 0)
    *name.symbol += fmt::format(" (or {} other{})", others, others == 1 ? "" : "s");
  name.symbol_offset = address.value - found.front().code.value;
  return name;
}

PlaceName Module::find_name(VirtualAddress address) {
  find_names();
  if (auto method = method_name(address)) return std::move(*method);
  PlaceName name;
  const auto found = symbols_ ? symbols_->at(address) : std::nullopt;
  // All code of an OAT file lies behind the symbol "oatexec" (AOSP dex2oat/linker/elf_writer.cc).
  if (!found || found->symbol.name == "oatexec") return name;
  name.symbol = std::string(found->symbol.name);
  name.symbol_offset = found->offset;
  name.demangled = demangle(found->symbol.name);
  return name;
}

std::shared_ptr<const PlaceName> Module::name(VirtualAddress address) {
  if (const auto* const known = names_.find(address.value)) return *known;
  PlaceName name = find_name(address);
  if (image_ && has_shrunk(image_->bytes())) name = {}; // it may be made of zeros
  name.shown = name.demangled ? *name.demangled : name.symbol.value_or("");
  if (name.symbol_offset != 0) name.shown += fmt::format("+{:#x}", name.symbol_offset);
  if (!name.shown.empty()) name.shown += ' ';
  append_place(name.shown, path_, entry_ ? std::optional<std::string_view>(*entry_) : std::nullopt,
               begin_, address);
  return names_.put(address.value, std::make_shared<const PlaceName>(std::move(name)));
}

UnwindData* Module::unwind_data(Arch arch) {
  if (arch_ != arch) return nullptr;
  if (!error_ && has_shrunk(image_->bytes())) error_ = shrunk();
  if (error_) return nullptr;
  if (!unwind_data_) unwind_data_ = std::make_unique<UnwindData>(*image_, arch);
  return unwind_data_.get();
}

} // namespace uprobectl::stacks
