// SPDX-License-Identifier: Apache-2.0
#include "saved/raw_stacks.hpp"

#include "output/stack_copy.hpp"
#include "saved/descriptions.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <sys/mman.h>

namespace uprobectl::saved {

namespace {

// Bounds what a damaged file can take.
constexpr std::size_t max_mapped_files = 1U << 18;
constexpr std::uint64_t max_file_size = std::uint64_t{4} << 30;       // bytes of address space
constexpr std::uint64_t max_address_space = std::uint64_t{512} << 30; // of all files
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t max_pages = (std::uint64_t{2} << 30) / page;

} // namespace

Result<unwind::MappedObject> PartialFiles::open(const process::Mapping& mapping) {
  const std::uint64_t number = mapping.identity.device;
  if (number >= files_.size() || (!files_[number].memory && !files_[number].error))
    return fail(ErrorKind::not_found, "the saved run does not have its unwind information");
  const File& file = files_[number];
  if (file.error) return fail(*file.error);
  return unwind::MappedObject{.bytes = {file.memory.get(), file.size}, .owner = file.memory};
}

bool PartialFiles::add(process::Mapping file) {
  if (files_.size() >= max_mapped_files) return false;
  // Later files may have the identity and the path of earlier ones.
  file.identity.device = files_.size();
  files_.push_back({.mapping = std::move(file), .error = {}, .memory = {}, .pages = {}});
  return true;
}

// Reserves memory that is only used where it is written to.
bool PartialFiles::make_room(File& file, std::uint64_t size) {
  if (file.memory) return size == file.size;
  if (size == 0 || size > max_file_size || reserved_ + size > max_address_space) return false;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  file.memory = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                           [size](std::byte* at) { ::munmap(at, size); });
  file.size = size;
  file.pages.resize((size + page - 1) / page);
  reserved_ += size;
  return true;
}

bool PartialFiles::write(File& file, std::uint64_t offset, Bytes bytes) {
  if (bytes.empty() || offset > file.size || bytes.size() > file.size - offset) return false;
  for (std::uint64_t at = offset / page; at <= (offset + bytes.size() - 1) / page; ++at) {
    if (file.pages[at]) continue;
    if (used_ >= max_pages) return false;
    file.pages[at] = true;
    ++used_;
  }
  std::memcpy(file.memory.get() + offset, bytes.data(), bytes.size());
  return true;
}

bool PartialFiles::add_parts(OfFile<unwind::FileParts>& saved) {
  if (saved.file >= files_.size()) return false;
  File& file = files_[saved.file];
  unwind::FileParts& parts = saved.record;
  file.error = std::move(parts.error);
  if (!parts.parts.empty() && !make_room(file, parts.size)) return false;
  return std::ranges::all_of(
      parts.parts, [&](const unwind::Part& part) { return write(file, part.offset, part.bytes); });
}

RawStacks::RawStacks(Arch arch, const output::RawStackHeader& header, elf::DebugSearch where)
    : arch_(arch), header_(header), cache_(std::move(where)) {
  if (header.source_lines) cache_.use_source_lines();
}

bool RawStacks::add(process::Mapping& file) {
  if (file.path.size() > PATH_MAX) return false; // each mapping has a copy
  return files_.add(std::move(file));
}

bool RawStacks::add(SavedMappings& saved) {
  if (saved.number > spaces_.size() || saved.number >= unwind::ProcessMappings::max_numbers)
    return false;
  std::vector<process::Mapping> mappings;
  std::uint64_t last = 0;
  for (const auto& [file, read] : saved.mappings) {
    if (files_.file(file) == nullptr) return false;
    if (read.start < last || read.end <= read.start) return false;
    last = read.end;
    process::Mapping& mapping = mappings.emplace_back(*files_.file(file));
    mapping.start = read.start;
    mapping.end = read.end;
    mapping.offset = read.offset;
    mapping.executable = read.executable;
  }
  if (saved.number == spaces_.size()) spaces_.emplace_back();
  spaces_[saved.number] =
      std::make_unique<unwind::AddressSpace>(std::move(mappings), cache_, files_);
  return true;
}

// Replaces the memory: what the chunk does not have is as it was.
bool RawStacks::update_memory(const SavedRawStack& saved, Memory& memory) {
  if (saved.size > unwind::RawStack::max_size) return false;
  const std::uint64_t size = saved.size;
  Memory read{.address = saved.address, .bytes = std::vector<std::byte>(size)};
  const std::uint64_t skipped = memory.address - read.address; // modulo 2^64
  const std::uint64_t ahead = read.address - memory.address;
  const Bytes before = memory.bytes;
  if (skipped < size)
    std::ranges::copy(before.first(std::min<std::uint64_t>(before.size(), size - skipped)),
                      read.bytes.begin() + static_cast<std::ptrdiff_t>(skipped));
  else if (ahead < before.size())
    std::ranges::copy(before.subspan(ahead, std::min<std::uint64_t>(before.size() - ahead, size)),
                      read.bytes.begin());
  for (const unwind::Part& part : saved.changed) {
    if (part.offset > size || part.bytes.size() > size - part.offset) return false;
    std::ranges::copy(part.bytes, read.bytes.begin() + static_cast<std::ptrdiff_t>(part.offset));
  }
  memory = std::move(read);
  return true;
}

std::optional<output::StackSample> RawStacks::unwind(const SavedRawStack& saved,
                                                     unwind::Stack& stack) {
  if (arch_info(arch_).unwind == nullptr || saved.mappings >= spaces_.size()) return std::nullopt;
  if (saved.register_numbers.size() != saved.registers.size()) return std::nullopt;
  unwind::Registers registers(arch_);
  for (std::size_t i = 0; i < saved.registers.size(); ++i) {
    if (saved.register_numbers[i] >= unwind::Registers::count) return std::nullopt;
    registers.set(saved.register_numbers[i], saved.registers[i]);
  }
  if (saved.thread >= unwind::RawStack::max_threads || saved.thread > memories_.size())
    return std::nullopt;
  if (saved.thread == memories_.size()) memories_.emplace_back();
  Memory& copied = memories_[saved.thread];
  if (!update_memory(saved, copied)) return std::nullopt;
  output::StackSample sample{.stack = &stack, .latency_ns = saved.latency_ns, .value = saved.value};
  unwind::UnwindLimits limits;
  limits.at_function_entry = saved.at_function_entry;
  limits.known_returns = saved.known_returns;
  const unwind::MemoryPiece memory{copied.address, copied.bytes};
  stack = unwind_stack(registers, {&memory, 1}, *spaces_[saved.mappings], limits);
  if (header_.source_lines) add_inlined_frames(stack);
  const output::StackCopy copy{
      .address = copied.address, .size = copied.bytes.size(), .requested = header_.stack_bytes};
  sample.completeness = completeness_of(stack, copy);
  if (sample.completeness == output::StackCompleteness::incomplete)
    sample.failure = stack.explanation = explain_incomplete(stack, copy);
  return sample;
}

} // namespace uprobectl::saved
