// SPDX-License-Identifier: Apache-2.0
// From notes to probes. What one note says wrong makes this note useless, no other.
#include "usdt/operands.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr std::uint32_t stapsdt_type = 3; // NT_STAPSDT

// The note's descriptor taken apart, addresses as they are written.
struct Descriptor {
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

std::optional<Descriptor> read_descriptor(Bytes bytes, const elf::Machine& machine) {
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
  if (texts[1].empty()) return std::nullopt; // a probe without a name cannot be asked for
  return Descriptor{*location, *base, *semaphore, texts[0], texts[1], texts[2]};
}

// Notes that are passed over for one reason.
struct PassedOver {
  std::string_view reason;
  std::size_t count = 0;
  std::string first = {}; // an example
};

class Reader {
public:
  explicit Reader(const elf::Image& image)
      : image_(image), base_(image.section_address(".stapsdt.base")), symbols_(image) {}

  void add(const elf::NoteRecord& note) {
    if (note.owner != "stapsdt") return;
    if (note.type != stapsdt_type) {
      pass_over(other_type_, fmt::format("type {}", note.type));
      return;
    }
    const auto descriptor = read_descriptor(note.descriptor, image_.machine());
    if (!descriptor) {
      pass_over(malformed_, fmt::format("{} bytes", note.descriptor.size()));
      return;
    }
    add(*descriptor);
  }

  Result<StaticProbes> finish(const elf::NotesRead& read) && {
    for (const PassedOver& passed : {other_type_, malformed_, placeless_}) {
      if (passed.count == 0) continue;
      result_.malformed += passed.count;
      result_.warnings.push_back(fmt::format("{} of static probes passed over: {} (the first: {})",
                                             notes(passed.count), passed.reason, passed.first));
    }
    if (read.broken > 0)
      result_.warnings.push_back(
          fmt::format("{} of notes cannot be read to the end, static probes may be missing",
                      read.broken == 1 ? "a section" : std::to_string(read.broken) + " sections"));
    if (read.unread > 0)
      result_.warnings.push_back(
          fmt::format("{} bytes of notes beyond the first {} MiB are not read, static probes may "
                      "be missing",
                      read.unread, elf::Image::max_note_bytes >> 20));
    result_.symbols_missing = symbols_.has_missed();
    return std::move(result_);
  }

private:
  static std::string notes(std::size_t count) {
    return count == 1 ? "1 note" : fmt::format("{} notes", count);
  }

  static void pass_over(PassedOver& reason, std::string example) {
    if (reason.count++ == 0) reason.first = std::move(example);
  }

  // Prelink moves sections without touching notes, which are not loaded: .stapsdt.base went along
  // with the code, and the note tells where it was before. A note of which the linker left out what
  // it describes has zeros, which move nowhere.
  std::uint64_t moved(std::uint64_t address, std::uint64_t noted_base) const {
    if (!base_ || noted_base == 0) return address;
    const std::uint64_t now = address + (base_->value - noted_base);
    return image_.machine().is_64bit ? now : now & 0xffffffff;
  }

  // The kernel counts up what is mapped writable from an offset of the file. The rest of a
  // segment's last page is mapped with it, and there .bss begins.
  std::optional<ImageOffset> counter_offset(VirtualAddress address) const {
    constexpr std::uint64_t smallest_page = 4096;
    for (const elf::Segment& segment : image_.segments()) {
      const std::uint64_t within = address.value - segment.address.value;
      if (!segment.writable || segment.file_size == 0 || within >= segment.memory_size) continue;
      const std::uint64_t end = segment.offset.value + segment.file_size;
      const std::uint64_t rest = (smallest_page - end % smallest_page) % smallest_page;
      if (within < segment.file_size + rest) return ImageOffset{segment.offset.value + within};
    }
    return std::nullopt;
  }

  void add(const Descriptor& note) {
    StaticProbe probe;
    probe.address = {moved(note.location, note.base)};
    // Bit 0 of an address in code is the instruction set there (AAELF32).
    if (image_.machine().info().thumb_bit) probe.address.value &= ~std::uint64_t{1};
    const elf::Segment* const segment = image_.segment_of(probe.address);
    const auto offset = image_.to_image(probe.address);
    if (note.location == 0 || segment == nullptr || !segment->executable || !offset) {
      pass_over(placeless_,
                fmt::format("{}:{} at {:#x}", note.provider, note.name, probe.address.value));
      return;
    }
    probe.offset = *offset;
    if (note.semaphore != 0) {
      probe.semaphore = {moved(note.semaphore, note.base)};
      probe.semaphore_offset = counter_offset(*probe.semaphore);
    }
    probe.provider = note.provider;
    probe.name = note.name;
    probe.raw_arguments = note.arguments;
    probe.arguments = parse_static_arguments(note.arguments, symbols_);
    result_.probes.push_back(std::move(probe));
  }

  const elf::Image& image_;
  std::optional<VirtualAddress> base_;
  SymbolAddresses symbols_;
  StaticProbes result_;
  PassedOver other_type_{"of a type that is not known"};
  PassedOver malformed_{"without the three words and three texts that such a note has"};
  PassedOver placeless_{
      "no code of the file is at the place given, the linker may have left it out"};
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
  Reader reader(image);
  const auto read = image.visit_notes([&](const elf::NoteRecord& note) { reader.add(note); });
  if (!read) return fail(read.error());
  return std::move(reader).finish(*read);
}

} // namespace uprobectl
