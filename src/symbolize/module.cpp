// SPDX-License-Identifier: Apache-2.0
#include "dwarf/frames.hpp"
#include "symbolize/symbolizer.hpp"
#include "uprobectl/path.hpp"
#include "util/mapped_file.hpp"

#include <atomic>
#include <fmt/format.h>

namespace uprobectl::symbolize {

namespace {

Error shrunk() { return {ErrorKind::io, "it changed size while it was being read"}; }

// Returns "foo.cpp:33", or the file alone if the line is 0.
std::string display_position(const SourcePosition& position) {
  std::string text(file_name_of(position.file));
  if (position.line != 0) text += fmt::format(":{}", position.line);
  return text;
}

Function inlined_function(const std::string& symbol) {
  return {.symbol = symbol.empty() ? "[unknown]" : symbol,
          .demangled = symbols::demangle(symbol),
          .version = {}};
}

} // namespace

void append_module_offset(std::string& text, std::string_view path,
                          std::optional<std::string_view> entry, FileOffset begin,
                          VirtualAddress address) {
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
  if (!bytes) return fail(ErrorKind::corrupt, "the image is outside the file");
  // The path is used to find a debug file. An image inside another file has a path only if that
  // file is an archive.
  const bool has_path = object.file != nullptr && (entry || begin.value == 0);
  auto file = has_path
                  ? binary::Binary::open(object.file, {object.file->path(), entry}, names.debug)
                  : binary::Binary::parse(*bytes, begin, names.debug);
  // Archives with duplicate entry names are rejected by Binary::open(), but can be read here.
  if (!file && has_path) file = binary::Binary::parse(*bytes, begin, names.debug);
  if (!file) return fail(std::move(file).error());
  std::unique_ptr<Module> module(new Module(std::move(path), std::move(entry)));
  module->begin_ = begin;
  module->owner_ = object.owner;
  module->sources_ = names;
  module->file_ = std::move(*file);
  module->image_ = &module->file_->image();
  module->build_id_ = module->image_->build_id();
  if (has_shrunk(*bytes)) return fail(shrunk());
  return module;
}

bool Module::is_program_start(VirtualAddress address) const {
  if (image_ == nullptr) return false;
  constexpr std::uint64_t max_size = 128; // bytes; glibc's has 80 up to the call of constructors
  const auto entry = image_->entry_point();
  return entry && address >= *entry && address.value - entry->value < max_size;
}

std::unique_ptr<Module> Module::unreadable(std::string path, Error reason) {
  std::unique_ptr<Module> module(new Module(std::move(path), std::nullopt));
  module->error_ = std::move(reason);
  return module;
}

std::unique_ptr<Module> Module::from_saved_run(Saved known) {
  std::unique_ptr<Module> module(new Module(std::move(known.path), std::move(known.entry)));
  module->begin_ = known.begin;
  module->build_id_ = std::move(known.build_id);
  module->saved_image_ = known.has_image;
  return module;
}

std::uint64_t Module::next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

void Module::keep_frame(VirtualAddress address) {
  kept_frames_.try_emplace(address.value, frame(address));
}

void Module::close() {
  saved_image_ = has_addresses();
  unwind_data.reset();
  symbolizer_.reset();
  methods_.reset();
  image_ = nullptr;
  file_.reset();
  owner_.reset();
  frames_ = {};
}

void Module::add_frame(Frame frame) {
  frame.module = this;
  const std::uint64_t address = frame.address.value;
  saved_frames_[address] = std::make_shared<const Frame>(std::move(frame));
}

const elf::Image* Module::intact_image() {
  if (image_ == nullptr) return nullptr;
  if (!error_ && has_shrunk(image_->bytes())) error_ = shrunk();
  return error_ ? nullptr : image_;
}

void Module::find_symbols() {
  if (symbolizer_ || !file_) return;
  if (art::OatFile::is_oat(*image_))
    if (auto methods = art::OatFile::read(file_->image(), sources_.dex))
      methods_ = std::move(*methods);
  file_->complete_symbols();
  file_->expect_many_addresses();
  symbolizer_ = std::make_unique<Symbolizer>(*file_, methods_ ? &*methods_ : nullptr);
}

void Module::name_frame(Frame& frame) const {
  frame.text.clear();
  if (frame.function) {
    frame.text = frame.function->name_with_others();
    if (frame.function->offset != 0) frame.text += fmt::format("+{:#x}", frame.function->offset);
    frame.text += ' ';
  }
  append_module_offset(frame.text, path_, entry_name(), begin_, frame.address);
}

void Module::add_positions(Frame& frame) {
  const auto& debug_info = file_->debug_info();
  if (!debug_info) return;
  const std::vector<dwarf::SourceFrame> found = dwarf::frames_at(*debug_info, frame.address);
  if (found.empty() || has_shrunk(image_->bytes())) return;
  // The chain of inlined functions was cut.
  if (found.back().is_inlined) frame.positions.emplace_back().text = frame.text;
  for (std::size_t i = found.size(); i-- > 0;) {
    SourcePosition& position = frame.positions.emplace_back();
    position.file = found[i].file;
    position.line = found[i].line;
    position.column = found[i].column;
    if (found[i].is_inlined) {
      position.inlined = inlined_function(found[i].function);
      position.text = position.inlined->name() + " [inlined] ";
      append_module_offset(position.text, path_, entry_name(), begin_, frame.address);
    } else {
      // Without symbols the name is that of the debug information.
      if (!frame.function && !found[i].function.empty()) {
        frame.function = Function{.symbol = found[i].function,
                                  .demangled = symbols::demangle(found[i].function),
                                  .version = {},
                                  .offset = found[i].offset};
        name_frame(frame);
      }
      position.text = frame.text;
    }
    if (!position.file.empty()) position.text += " at " + display_position(position);
  }
}

std::shared_ptr<const Frame> Module::frame(VirtualAddress address) {
  // Return addresses of Thumb code have bit 0 set, the addresses of functions do not.
  if (image_ != nullptr && image_->machine().info().thumb_bit) address.value &= ~std::uint64_t{1};
  if (const auto* const known = frames_.find(address.value)) return *known;
  for (const Frames* const frames : {&saved_frames_, &kept_frames_})
    if (const auto found = frames->find(address.value); found != frames->end())
      return found->second;
  find_symbols();
  Frame frame{.module = this, .address = address, .function = {}, .text = {}, .positions = {}};
  const auto covering = symbolizer_ ? symbolizer_->find(address) : std::nullopt;
  if (covering) frame.function = to_function(*covering);
  if (image_ != nullptr && has_shrunk(image_->bytes()))
    frame.function.reset(); // bytes read may be zeros
  name_frame(frame);
  if (sources_.source_lines && image_ != nullptr) add_positions(frame);
  return frames_.put(address.value, std::make_shared<const Frame>(std::move(frame)));
}

} // namespace uprobectl::symbolize
