// SPDX-License-Identifier: Apache-2.0
// Turns the notes of an image into probes. A malformed note is skipped; the others are still read.
#include "elf/sections.hpp"
#include "usdt/operands.hpp"
#include "util/pages.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl::usdt {

namespace {

constexpr std::uint32_t stapsdt_type = 3; // NT_STAPSDT

// The fields of a note's descriptor. Addresses are those of link time.
struct NoteDescriptor {
  std::uint64_t location = 0;
  std::uint64_t base = 0;
  std::uint64_t semaphore = 0; // 0: none
  std::string_view provider;
  std::string_view name;
  std::string_view arguments;
};

std::optional<std::uint64_t> word_at(Bytes bytes, std::uint64_t index,
                                     const elf::Machine& machine) {
  if (machine.is_64bit) return read_at<std::uint64_t>(bytes, index * 8, machine.order);
  return read_at<std::uint32_t>(bytes, index * 4, machine.order);
}

std::optional<NoteDescriptor> read_descriptor(Bytes bytes, const elf::Machine& machine) {
  const auto location = word_at(bytes, 0, machine);
  const auto base = word_at(bytes, 1, machine);
  const auto semaphore = word_at(bytes, 2, machine);
  if (!location || !base || !semaphore) return std::nullopt;
  std::uint64_t at = machine.is_64bit ? 24 : 12;
  std::array<std::string_view, 3> texts;
  for (std::string_view& text : texts) {
    const auto found = c_string_at(bytes, at);
    if (!found) return std::nullopt;
    text = *found;
    at += text.size() + 1;
  }
  if (texts[1].empty()) return std::nullopt; // a probe without a name cannot be requested
  return NoteDescriptor{*location, *base, *semaphore, texts[0], texts[1], texts[2]};
}

// Counts the notes that are skipped for one reason.
struct SkippedNotes {
  std::string_view reason;
  std::size_t count = 0;
  std::string first = {}; // the first of them, shown as an example
};

// Collects the probes of an image, note by note.
class StaticNoteReader {
public:
  explicit StaticNoteReader(const elf::Image& image)
      : image_(image), base_(image.section_address(".stapsdt.base")), symbols_(image) {
    if (const auto layout = elf::read_layout(image.bytes()))
      if (const auto section = elf::find_section(*layout, ".probes"))
        semaphores_ = elf::AddressRange{section->address, section->bytes.size()};
  }

  void add(const elf::NoteRecord& note) {
    if (note.owner != "stapsdt") return;
    if (note.type != stapsdt_type) {
      skip(other_type_, fmt::format("type {}", note.type));
      return;
    }
    const auto descriptor = read_descriptor(note.descriptor, image_.machine());
    if (!descriptor) {
      skip(malformed_, fmt::format("{} bytes", note.descriptor.size()));
      return;
    }
    add(*descriptor);
  }

  Result<StaticProbes> finish(const elf::NoteStatistics& read) && {
    for (const SkippedNotes& skipped : {other_type_, malformed_, without_code_, no_semaphore_}) {
      if (skipped.count == 0) continue;
      result_.skipped_notes += skipped.count;
      result_.warnings.push_back(fmt::format("skipped {} of static probes: {} (the first: {})",
                                             notes(skipped.count), skipped.reason, skipped.first));
    }
    if (read.broken > 0)
      result_.warnings.push_back(
          fmt::format("{} of notes {} malformed: static probes may be missing",
                      read.broken == 1 ? "1 section" : fmt::format("{} sections", read.broken),
                      read.broken == 1 ? "is" : "are"));
    if (read.unread > 0)
      result_.warnings.push_back(
          fmt::format("only the first {} MiB of notes are read, {} bytes are skipped: static "
                      "probes may be missing",
                      elf::Image::max_note_bytes >> 20, read.unread));
    result_.symbols_missing = symbols_.has_missing();
    return std::move(result_);
  }

private:
  static std::string notes(std::size_t count) {
    return count == 1 ? "1 note" : fmt::format("{} notes", count);
  }

  static void skip(SkippedNotes& skipped, std::string example) {
    if (skipped.count++ == 0) skipped.first = std::move(example);
  }

  // Adjusts an address of a note. Prelink moves loaded sections, .stapsdt.base among them, but does
  // not change notes, which record the former address of .stapsdt.base. A note has zeros if the
  // linker discarded its section; those are kept.
  std::uint64_t relocated(std::uint64_t address, std::uint64_t noted_base) const {
    if (!base_ || noted_base == 0) return address;
    const std::uint64_t now = address + (base_->value - noted_base);
    return image_.machine().is_64bit ? now : now & 0xffffffff;
  }

  // Returns the file offset by which the kernel finds the semaphore in a writable mapping
  // (ref_ctr_offset). The last page of a segment is mapped whole, so the beginning of .bss has an
  // offset, too.
  std::optional<ImageOffset> find_semaphore_offset(VirtualAddress address) const {
    for (const elf::Segment& segment : image_.segments()) {
      const std::uint64_t within = address.value - segment.address.value;
      if (!segment.writable || segment.file_size == 0 || within >= segment.memory_size) continue;
      const std::uint64_t end = segment.offset.value + segment.file_size;
      const std::uint64_t rest = (smallest_page - end % smallest_page) % smallest_page;
      if (within < segment.file_size + rest) return ImageOffset{segment.offset.value + within};
    }
    return std::nullopt;
  }

  // The kernel adds to the two bytes there, whatever they are. All that make notes keep semaphores
  // in the section .probes (sys/sdt.h: SEMAPHORE). Files without this section are believed.
  bool may_be_semaphore(VirtualAddress address) const {
    constexpr std::uint64_t size = 2; // bytes
    if (address.value % size != 0) return false;
    if (!semaphores_) return true;
    const std::uint64_t within = address.value - semaphores_->address.value;
    return within < semaphores_->size && semaphores_->size - within >= size;
  }

  void add(const NoteDescriptor& note) {
    StaticProbe probe;
    probe.address = {relocated(note.location, note.base)};
    // Bit 0 of a code address selects the instruction set (AAELF32).
    if (image_.machine().info().thumb_bit) probe.address.value &= ~std::uint64_t{1};
    const elf::Segment* const segment = image_.find_segment(probe.address);
    const auto offset = image_.to_image(probe.address);
    if (note.location == 0 || segment == nullptr || !segment->executable || !offset) {
      skip(without_code_,
           fmt::format("{}:{} at {:#x}", note.provider, note.name, probe.address.value));
      return;
    }
    probe.offset = *offset;
    if (note.semaphore != 0) {
      probe.semaphore = {relocated(note.semaphore, note.base)};
      if (!may_be_semaphore(*probe.semaphore)) {
        skip(no_semaphore_,
             fmt::format("{}:{} at {:#x}", note.provider, note.name, probe.semaphore->value));
        return;
      }
      probe.semaphore_offset = find_semaphore_offset(*probe.semaphore);
    }
    probe.provider = note.provider;
    probe.name = note.name;
    probe.raw_arguments = note.arguments;
    probe.arguments = parse_static_arguments(note.arguments, symbols_);
    result_.probes.push_back(std::move(probe));
  }

  const elf::Image& image_;
  std::optional<VirtualAddress> base_;
  std::optional<elf::AddressRange> semaphores_; // the section .probes
  SymbolAddresses symbols_;
  StaticProbes result_;
  SkippedNotes other_type_{"unknown note type"};
  SkippedNotes malformed_{"malformed note, expected three addresses and three strings"};
  SkippedNotes without_code_{
      "the file has no code at the probe's address, the linker may have discarded it"};
  SkippedNotes no_semaphore_{
      "the semaphore is not in the section of semaphores (.probes), and a probe would change other "
      "data"};
};

} // namespace

std::string without_dashes(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '-')
      text += "__";
    else
      text += c;
  }
  return text;
}

Result<StaticProbes> read_static_probes(const elf::Image& image) {
  StaticNoteReader reader(image);
  const auto read = image.visit_notes([&](const elf::NoteRecord& note) { reader.add(note); });
  if (!read) return fail(read.error());
  return std::move(reader).finish(*read);
}

} // namespace uprobectl::usdt
