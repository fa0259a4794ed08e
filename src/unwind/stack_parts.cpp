// SPDX-License-Identifier: Apache-2.0
#include "unwind/stack_parts.hpp"

#include "elf/sections.hpp"
#include "uprobectl/archive.hpp"
#include "util/sha256.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::unwind {

namespace {

// Code is given in blocks of this size, with what precedes and follows it: the unwinder looks for
// return and system call instructions at and before return addresses.
constexpr std::uint64_t block_size = 64;
constexpr std::uint64_t around_block = 16;
constexpr std::uint64_t max_part = std::uint64_t{1} << 20; // bytes; saved runs have chunks
constexpr std::uint64_t head_size = 4096;                  // with the ELF header

bool is_debug_info(std::string_view name) {
  return (name.starts_with(".debug_") || name.starts_with(".zdebug_") || name == ".gdb_index") &&
         name != ".debug_frame" && name != ".zdebug_frame";
}

// Large sections that neither unwinding nor naming reads. Relocations name the entries of .plt.got.
bool is_unused(const elf::SectionExtent& section, bool has_plt_got) {
  if (section.is_code) return !section.name.starts_with(".plt");
  if (!section.is_loaded) return false;
  constexpr std::string_view beginnings[] = {
      ".rodata", ".lrodata", ".data", ".tdata", ".gcc_except_table", ".gopclntab", ".noptrdata"};
  if (std::ranges::any_of(beginnings, [&](std::string_view beginning) {
        return section.name.starts_with(beginning);
      }))
    return true;
  return !has_plt_got &&
         (section.name == ".rela.dyn" || section.name == ".rel.dyn" || section.name == ".relr.dyn");
}

struct PartRange { // of an image
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Inclusion {
  bool debug_info = false;
  bool symbols = true; // and other sections that are not loaded
};

// All bytes of the image that no unused section has.
std::vector<PartRange> needed_parts(Bytes image, const Inclusion& inclusion) {
  std::vector<PartRange> unused;
  if (const auto layout = elf::read_layout(image)) {
    const auto sections = elf::sections_of(*layout);
    const bool has_plt_got =
        std::ranges::find(sections, ".plt.got", &elf::SectionExtent::name) != sections.end();
    for (const elf::SectionExtent& section : sections) {
      if (!slice(image, section.offset, section.size)) continue;
      const bool is_left_out = is_unused(section, has_plt_got) ||
                               (!inclusion.debug_info && is_debug_info(section.name)) ||
                               (!inclusion.symbols && !section.is_loaded &&
                                section.name != ".debug_frame" && section.name != ".shstrtab");
      if (is_left_out) unused.push_back({section.offset, section.offset + section.size});
    }
  }
  std::ranges::sort(unused, {}, &PartRange::begin);
  std::vector<PartRange> needed;
  std::uint64_t at = 0;
  for (const PartRange& each : unused) {
    // The headers, even if a section header claims their bytes.
    const std::uint64_t begin = std::max(each.begin, std::min(head_size, each.end));
    if (begin > at) needed.push_back({at, begin});
    at = std::max(at, each.end);
  }
  if (at < image.size()) needed.push_back({at, image.size()});
  return needed;
}

std::uint64_t size_of(std::span<const PartRange> parts) {
  std::uint64_t sum = 0;
  for (const PartRange& each : parts) sum += each.end - each.begin;
  return sum;
}

void add_integer(Sha256& sum, std::uint64_t value) {
  std::array<std::byte, sizeof(value)> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(value >> (8 * i));
  sum.add(bytes);
}

// Calls use(offset, bytes) for pieces of the parts that fit into a chunk.
void for_each_piece(Bytes image, std::span<const PartRange> parts, const auto& use) {
  for (const PartRange& part : parts)
    for (std::uint64_t at = part.begin; at < part.end; at += max_part)
      use(at, image.subspan(at, std::min(part.end - at, max_part)));
}

std::string sum_of(Bytes image, std::span<const PartRange> parts) {
  Sha256 sum;
  for_each_piece(image, parts, [&](std::uint64_t offset, Bytes bytes) {
    add_integer(sum, offset);
    add_integer(sum, bytes.size());
    sum.add(bytes);
  });
  return sum.hex();
}

const process::Mapping* find_mapping(std::span<const process::Mapping> mappings,
                                     std::uint64_t address) {
  const auto after = std::ranges::upper_bound(mappings, address, {}, &process::Mapping::start);
  if (after == mappings.begin()) return nullptr;
  const process::Mapping& mapping = *(after - 1);
  return address < mapping.end && mapping.executable ? &mapping : nullptr;
}

} // namespace

RawStack StackParts::collect(LiveProcess& process, const Sample& sample, RawStackSink& sink) {
  use(process, sample.registers.arch(), sink);
  for (std::size_t number = 0; number < Registers::count; ++number)
    if (const auto value = sample.registers.get(number)) add_word(process, *value, sink);
  for (const KnownReturn& known : sample.known_returns) add_word(process, known.address, sink);
  KnownStack& known = known_stack(sample);
  find_changes(known, sample);
  if (known.revision == revision_)
    for (const Part& part : changed_) add_words(process, sample, part, sink);
  else
    add_words(process, sample, {0, sample.stack}, sink);
  known.revision = revision_;
  known.address = sample.stack_address;
  known.bytes.assign(sample.stack.begin(), sample.stack.end());
  return {.mappings = number_,
          .registers = sample.registers,
          .thread = static_cast<std::uint32_t>(&known - stacks_.data()),
          .address = sample.stack_address,
          .size = sample.stack.size(),
          .changed = changed_,
          .at_function_entry = sample.at_function_entry,
          .known_returns = sample.known_returns};
}

StackParts::KnownStack& StackParts::known_stack(const Sample& sample) {
  const auto known = std::ranges::find(stacks_, sample.tid, &KnownStack::thread);
  if (known != stacks_.end()) return *known;
  if (stacks_.size() < RawStack::max_threads) {
    stacks_.push_back({.thread = sample.tid, .bytes = {}});
    return stacks_.back();
  }
  KnownStack& oldest = stacks_[next_stack_];
  next_stack_ = (next_stack_ + 1) % RawStack::max_threads;
  oldest.thread = sample.tid;
  oldest.revision = 0; // the bytes are what the reader has, but their words are of other mappings
  return oldest;
}

// Sets changed_. Most of a stack is that of the last hit: the outer frames.
void StackParts::find_changes(const KnownStack& known, const Sample& sample) {
  changed_.clear();
  const std::uint64_t size = sample.stack.size();
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    if (!changed_.empty() && changed_.back().offset + changed_.back().bytes.size() == begin)
      begin = changed_.back().offset;
    else
      changed_.emplace_back();
    changed_.back() = {begin, sample.stack.subspan(begin, end - begin)};
  };
  // Between these offsets the last stack has bytes, too.
  const std::uint64_t known_end = known.address + known.bytes.size();
  const std::uint64_t end =
      known_end > sample.stack_address ? std::min(known_end - sample.stack_address, size) : 0;
  const std::uint64_t begin = known.address > sample.stack_address
                                  ? std::min(known.address - sample.stack_address, end)
                                  : 0;
  add(0, begin);
  for (std::uint64_t at = begin; at < end; at += block_size) {
    const std::uint64_t step = std::min(block_size, end - at);
    const std::byte* const before =
        known.bytes.data() + (sample.stack_address + at - known.address);
    if (std::memcmp(sample.stack.data() + at, before, step) != 0) add(at, at + step);
  }
  add(end, size);
}

// Return addresses are aligned. Stacks begin aligned, except within a function's prologue.
void StackParts::add_words(LiveProcess& process, const Sample& sample, const Part& part,
                           RawStackSink& sink) {
  constexpr std::uint64_t word_size = sizeof(std::uint64_t);
  const std::uint64_t size = sample.stack.size();
  // The loop begins with the first word that the part has bytes of.
  const std::uint64_t odd = (0 - sample.stack_address) % word_size;
  std::uint64_t at = part.offset < odd ? odd : part.offset - (part.offset - odd) % word_size;
  for (; at < part.offset + part.bytes.size() && at + word_size <= size; at += word_size) {
    std::uint64_t word = 0;
    std::memcpy(&word, sample.stack.data() + at, word_size);
    add_word(process, word, sink);
  }
}

// Gives the mappings if they are new.
void StackParts::use(LiveProcess& process, Arch arch, RawStackSink& sink) {
  static_cast<void>(process.space()); // finds files that were replaced
  if (process.revision() == revision_) return;
  revision_ = process.revision();
  const std::vector<process::Mapping>& mappings = process.mappings();
  code_mask_ = code_mask(process.space(), arch);
  lowest_ = range_ = 0;
  const auto first = std::ranges::find(mappings, true, &process::Mapping::executable);
  if (first != mappings.end()) {
    lowest_ = first->start;
    for (const process::Mapping& mapping : mappings)
      if (mapping.executable) range_ = mapping.end - lowest_ + 1;
  }
  const auto given = std::ranges::find(revisions_, revision_);
  if (given != revisions_.end()) {
    number_ = static_cast<std::uint32_t>(given - revisions_.begin());
    return;
  }
  give_mappings(process, sink);
}

void StackParts::give_mappings(LiveProcess& process, RawStackSink& sink) {
  number_ = next_number_;
  next_number_ = (next_number_ + 1) % ProcessMappings::max_numbers;
  if (number_ == revisions_.size())
    revisions_.push_back(revision_);
  else
    revisions_[number_] = revision_;
  sink.write(ProcessMappings{.number = number_, .mappings = process.mappings()});
}

// Whether what was given is of another file, or of another content. A file that was closed and
// opened again is mostly the same.
bool StackParts::is_other_file(KnownFile& file, const MappedObject& object, Module& module) {
  const auto image = file.images.find(module.image_begin().value);
  const bool has_other_image = module.intact_image() != nullptr && image != file.images.end() &&
                               image->second != module.build_id();
  const bool is_known =
      !file.opened.owner_before(object.owner) && !object.owner.owner_before(file.opened);
  if (is_known || object.file == nullptr) return has_other_image;
  const FileVersion version = read_file_version(object.file->fd()).value_or(FileVersion{});
  const bool has_other_version = file.is_readable && version != file.version;
  file.opened = object.owner;
  file.version = version;
  return has_other_version || has_other_image;
}

// Called for each word of a stack: most are not addresses of code, or of code that is known.
void StackParts::add_word(LiveProcess& process, std::uint64_t word, RawStackSink& sink) {
  const std::uint64_t address = word & code_mask_;
  if (address - lowest_ >= range_) return;
  const std::uint64_t block = address / block_size;
  constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15; // 2^64 / the golden ratio
  constexpr unsigned hash_shift = 64 - 14;
  KnownBlock& known = known_[((block + revision_ * known_blocks) * golden_ratio) >> hash_shift];
  static_assert(known_blocks == std::size_t{1} << 14);
  if (known.block == block && known.revision == revision_) return;
  known = {revision_, block};
  add_code(process, address, sink);
}

void StackParts::add_code(LiveProcess& process, std::uint64_t address, RawStackSink& sink) {
  const process::Mapping* mapping = find_mapping(process.mappings(), address);
  // A call may be the last instruction of a mapping.
  if (mapping == nullptr) mapping = find_mapping(process.mappings(), --address);
  const auto code = mapping != nullptr ? process.space().find(address) : std::nullopt;
  if (!code || code->module == nullptr) return;
  Module& module = *code->module;
  KnownFile& file = files_[{mapping->identity, mapping->path}];
  const MappedObject* const object = cache_.opened(*mapping);
  if (object == nullptr) {
    if (!std::exchange(file.is_reported, true))
      sink.write(FileParts{.mapping = *mapping, .error = module.error()});
    return;
  }
  if (is_other_file(file, *object, module)) {
    file = {.opened = object->owner, .version = file.version, .images = {}, .blocks = {}};
    std::ranges::fill(known_, KnownBlock{});
    std::ranges::fill(revisions_, 0);
    for (KnownStack& each : stacks_) each.revision = 0;
    sink.write(FileParts{.mapping = *mapping});
    give_mappings(process, sink);
  }
  if (!std::exchange(file.is_readable, true)) file.size = object->bytes.size();
  const elf::Image* const image = module.intact_image();
  const std::uint64_t begin = image != nullptr ? module.image_begin().value : 0;
  if (file.images.emplace(begin, module.build_id()).second)
    add_image(*object, module, *mapping, file, sink);
  if (image == nullptr || object->file == nullptr) return;
  const std::uint64_t at = code->offset.value / block_size * block_size;
  if (!file.blocks.insert(begin + at).second) return;
  const std::uint64_t end =
      std::min<std::uint64_t>(at + block_size + around_block, image->bytes().size());
  add_part(*object, begin + std::max(at, around_block) - around_block, begin + end, *mapping, file,
           sink);
}

void StackParts::add_image(const MappedObject& object, const Module& module,
                           const process::Mapping& mapping, KnownFile& file, RawStackSink& sink) {
  const std::uint64_t size = object.bytes.size();
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    add_part(object, begin, std::min(end, size), mapping, file, sink);
  };
  if (object.file == nullptr) return add(0, size); // the vDSO
  if (module.image() == nullptr) return add(0, head_size);
  const std::uint64_t begin = module.image_begin().value;
  const Bytes image = module.image()->bytes();
  std::vector<PartRange> parts = needed_parts(image, {.debug_info = includes_debug_info_});
  const std::uint64_t left = std::min(max_image, max_total - std::min(max_total, total_));
  if (size_of(parts) > left) {
    parts = needed_parts(image, {.symbols = false});
    const bool fits = size_of(parts) <= left;
    sink.warn(fmt::format("{}: {}: it has more than {} MiB", file_name_of(module.path()),
                          fits ? "its symbols are not part of the saved stacks (report finds them "
                                 "with --debug-dir)"
                               : "stacks cannot be unwound through it",
                          left >> 20U));
    if (!fits) parts = {{0, std::min<std::uint64_t>(head_size, image.size())}};
  }
  if (module.entry()) {
    // Its name is in the directory at the end of the archive.
    const auto archive = archive::Archive::parse(object.bytes);
    const auto entry = archive ? archive->entry_at(module.image_begin())
                               : Result<std::optional<archive::ArchiveEntry>>();
    if (archive && entry && *entry) {
      add(0, sizeof(std::uint32_t));
      add((*entry)->local_header, begin);
      add(archive->directory_offset(), size);
    }
  }
  const std::uint64_t length = size_of(parts);
  if (length >= min_kept && sink.keeps_parts() &&
      sink.write(KeptParts{.mapping = mapping,
                           .size = file.size,
                           .begin = begin,
                           .length = length,
                           .sha256 = sum_of(image, parts)})) {
    total_ += length; // report has them in memory, too
    return;
  }
  for (const PartRange& part : parts) add(begin + part.begin, begin + part.end);
}

void StackParts::add_part(const MappedObject& object, std::uint64_t begin, std::uint64_t end,
                          const process::Mapping& mapping, const KnownFile& file,
                          RawStackSink& sink) {
  while (begin < end) {
    const std::uint64_t size = std::min(end - begin, max_part);
    const auto bytes = slice(object.bytes, begin, size);
    if (!bytes || begin + size > file.size) return; // the file was replaced by another content
    const Part part{.offset = begin, .bytes = *bytes};
    sink.write(FileParts{.mapping = mapping, .size = file.size, .parts = {part}});
    total_ += size;
    begin += size;
  }
}

} // namespace uprobectl::unwind
