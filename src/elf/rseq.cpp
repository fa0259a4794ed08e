// SPDX-License-Identifier: Apache-2.0
#include "elf/rseq.hpp"

#include "elf/elf_types.hpp"
#include "elf/relocations.hpp"
#include "elf/sections.hpp"

#include <unordered_map>

namespace uprobectl::elf {

namespace {

// struct rseq_cs: version and flags (32 bits each), then start_ip, post_commit_offset and abort_ip.
// These and the words of __rseq_cs_ptr_array have 64 bits, also in 32-bit programs.
constexpr std::uint64_t descriptor_size = 32;
constexpr std::uint64_t start_field = 8;
constexpr std::uint64_t size_field = 16;
constexpr std::uint64_t abort_field = 24;
constexpr std::uint64_t word_size = 8;

// Limits the work that a malicious file can cause. tcmalloc has some ten.
constexpr std::uint64_t max_descriptors = 1U << 16U;

std::optional<AddressRange> find_range(const Image& image, const Layout& layout,
                                       const std::string& name) {
  if (const auto section = find_section(layout, name))
    return AddressRange{section->address, section->bytes.size()};
  const auto address_of = [&](const std::string& symbol) -> std::optional<VirtualAddress> {
    const auto found = image.find_dynamic(symbol);
    if (!found || found->empty() || !found->front().defined) return std::nullopt;
    return found->front().address;
  };
  const auto begin = address_of("__start_" + name);
  const auto end = begin ? address_of("__stop_" + name) : std::nullopt;
  if (!end || *end <= *begin) return std::nullopt;
  return AddressRange{*begin, end->value - begin->value};
}

// Returns the addresses of the range's elements.
std::vector<VirtualAddress> elements(const std::optional<AddressRange>& range, std::uint64_t size) {
  std::vector<VirtualAddress> all;
  const std::uint64_t count = range ? std::min(range->size / size, max_descriptors) : 0;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back({range->address.value + i * size});
  return all;
}

// The words of an image as the loader relocates them to the image's own addresses. Without
// an addend in the relocation the word itself has the value, as in images at a fixed address.
class RelocatedWords {
public:
  explicit RelocatedWords(const Layout& layout) : layout_(layout) {
    if (const auto table = read_dynamic(layout); table && *table) dynamic_ = **table;
  }

  // Prepares at() for the words of ranges of this size at the addresses.
  void read_relocations(std::span<const VirtualAddress> sorted, std::uint64_t size) {
    if (sorted.empty()) return;
    const std::uint32_t relative = llvm::object::getELFRelativeRelocationType(layout_.machine.id);
    for_each_relocation(layout_, dynamic_, [&](const Relocation& each) {
      if (each.type != relative || !each.addend) return;
      const auto after = std::ranges::upper_bound(sorted, each.address);
      if (after == sorted.begin() || each.address.value - std::prev(after)->value >= size) return;
      addends_[each.address.value] = *each.addend;
    });
  }

  std::optional<std::uint64_t> at(VirtualAddress address) const {
    if (const auto known = addends_.find(address.value); known != addends_.end())
      return known->second;
    const auto bytes = bytes_from(layout_, address);
    return bytes ? read_at<std::uint64_t>(*bytes, 0, layout_.machine.order) : std::nullopt;
  }

private:
  const Layout& layout_;
  DynamicTable dynamic_;
  std::unordered_map<std::uint64_t, std::uint64_t> addends_; // by the address of the word
};

// Returns nullopt if the kernel rejects the descriptor (rseq_get_rseq_cs() in Linux kernel/rseq.c),
// or it is not in the file.
std::optional<RestartableSequence> read_descriptor(const Image& image, const RelocatedWords& words,
                                                   VirtualAddress address) {
  const auto version_and_flags = words.at(address);
  const auto start = words.at({address.value + start_field});
  const auto size = words.at({address.value + size_field});
  const auto abort = words.at({address.value + abort_field});
  if (!version_and_flags || !start || !size || !abort) return std::nullopt;
  const auto version = static_cast<std::uint32_t>(
      image.machine().order == ByteOrder::little ? *version_and_flags : *version_and_flags >> 32U);
  const Segment* const segment = image.find_segment(VirtualAddress{*start});
  if (version != 0 || *size == 0 || segment == nullptr || !segment->executable) return std::nullopt;
  if (*size > segment->file_size - (*start - segment->address.value)) return std::nullopt;
  if (*abort - *start < *size) return std::nullopt;
  return RestartableSequence{.code = {{*start}, *size}, .abort = {*abort}};
}

} // namespace

std::vector<RestartableSequence> restartable_sequences(const Image& image) {
  const auto layout = read_layout(image.bytes());
  if (!layout) return {};
  const auto section = find_range(image, *layout, "__rseq_cs");
  const auto pointers = elements(find_range(image, *layout, "__rseq_cs_ptr_array"), word_size);
  if (!section && pointers.empty()) return {};

  RelocatedWords words(*layout);
  words.read_relocations(pointers, word_size);
  std::vector<VirtualAddress> descriptors = elements(section, descriptor_size);
  for (const VirtualAddress pointer : pointers)
    if (const auto address = words.at(pointer)) descriptors.push_back({*address});
  std::ranges::sort(descriptors);
  const auto repeated = std::ranges::unique(descriptors);
  descriptors.erase(repeated.begin(), repeated.end());
  words.read_relocations(descriptors, descriptor_size);

  std::vector<RestartableSequence> sequences;
  for (const VirtualAddress address : descriptors)
    if (const auto sequence = read_descriptor(image, words, address))
      sequences.push_back(*sequence);
  std::ranges::sort(sequences, {},
                    [](const RestartableSequence& each) { return each.code.address; });
  return sequences;
}

} // namespace uprobectl::elf
