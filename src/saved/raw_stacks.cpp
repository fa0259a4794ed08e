// SPDX-License-Identifier: Apache-2.0
#include "saved/raw_stacks.hpp"

#include "output/stack_copy.hpp"
#include "saved/descriptions.hpp"

#include <algorithm>
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

Result<unwind::MappedObject> PartialFiles::open(const Mapping& mapping) {
  const std::uint64_t number = mapping.identity.device;
  if (number >= files_.size() || (!files_[number].memory && !files_[number].error))
    return fail(ErrorKind::not_found, "the saved run does not have its unwind information");
  const File& file = files_[number];
  if (file.error) return fail(*file.error);
  return unwind::MappedObject{.bytes = {file.memory.get(), file.size}, .owner = file.memory};
}

bool PartialFiles::add(Mapping file) {
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

bool PartialFiles::add_parts(Bytes content) {
  std::uint32_t number = 0;
  std::uint64_t size = 0;
  std::optional<Error> error;
  std::size_t parts = 0;
  FieldReader fields(content);
  fields(number, size, error, parts);
  if (!fields.is_valid() || number >= files_.size()) return false;
  File& file = files_[number];
  file.error = std::move(error);
  if (parts > 0 && !make_room(file, size)) return false;
  for (; parts > 0; --parts) {
    std::uint64_t offset = 0;
    std::string_view bytes;
    fields(offset, bytes);
    if (!fields.is_valid() || !write(file, offset, std::as_bytes(std::span(bytes)))) return false;
  }
  return fields.is_complete();
}

RawStacks::RawStacks(Arch arch, const RawStackHeader& header, elf::DebugSearch where)
    : arch_(arch), header_(header), cache_(std::move(where)) {
  if (header.source_lines) cache_.use_source_lines();
}

bool RawStacks::add_mapped_file(Bytes content) {
  Mapping file;
  FieldReader fields(content);
  fields(file.identity.device, file.identity.inode, file.path, file.deleted);
  return fields.is_complete() && files_.add(std::move(file));
}

bool RawStacks::add_mappings(Bytes content) {
  std::uint32_t number = 0;
  std::size_t count = 0;
  FieldReader fields(content);
  fields(number, count);
  if (!fields.is_valid() || number > spaces_.size() ||
      number >= unwind::ProcessMappings::max_numbers)
    return false;
  std::vector<Mapping> mappings;
  std::uint64_t last = 0;
  for (; count > 0; --count) {
    Mapping read;
    std::uint32_t file = 0;
    fields(read, file);
    if (!fields.is_valid() || files_.file(file) == nullptr) return false;
    if (read.start < last || read.end <= read.start) return false;
    last = read.end;
    Mapping& mapping = mappings.emplace_back(*files_.file(file));
    mapping.start = read.start;
    mapping.end = read.end;
    mapping.offset = read.offset;
    mapping.executable = read.executable;
  }
  if (!fields.is_complete()) return false;
  if (number == spaces_.size()) spaces_.emplace_back();
  spaces_[number] = std::make_unique<unwind::AddressSpace>(std::move(mappings), cache_, files_);
  return true;
}

// Replaces the memory: what the fields do not have is as it was.
bool RawStacks::read_memory(FieldReader& fields, Memory& memory) {
  Memory read;
  std::uint64_t size = 0;
  std::size_t parts = 0;
  fields(read.address, size, parts);
  if (!fields.is_valid() || size > unwind::RawStack::max_size) return false;
  read.bytes.resize(size);
  const std::uint64_t behind = memory.address - read.address; // modulo 2^64
  const std::uint64_t ahead = read.address - memory.address;
  const Bytes before = memory.bytes;
  if (behind < size)
    std::ranges::copy(before.first(std::min<std::uint64_t>(before.size(), size - behind)),
                      read.bytes.begin() + static_cast<std::ptrdiff_t>(behind));
  else if (ahead < before.size())
    std::ranges::copy(before.subspan(ahead, std::min<std::uint64_t>(before.size() - ahead, size)),
                      read.bytes.begin());
  for (; parts > 0; --parts) {
    std::uint64_t offset = 0;
    std::string_view bytes;
    fields(offset, bytes);
    if (!fields.is_valid() || offset > size || bytes.size() > size - offset) return false;
    std::ranges::copy(std::as_bytes(std::span(bytes)),
                      read.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  memory = std::move(read);
  return true;
}

std::optional<StackSample> RawStacks::unwind(Bytes content, unwind::Stack& stack) {
  if (arch_info(arch_).unwind == nullptr) return std::nullopt;
  std::uint32_t number = 0;
  unwind::Registers registers(arch_);
  std::uint32_t thread = 0;
  std::vector<unwind::KnownReturn> known_returns;
  unwind::UnwindLimits limits;
  StackSample sample{.stack = &stack};
  FieldReader fields(content);
  fields(number);
  for (std::size_t i = 0; i < unwind::Registers::count; ++i) {
    std::optional<std::uint64_t> value;
    fields(value);
    if (value) registers.set(i, *value);
  }
  fields(thread);
  if (!fields.is_valid() || thread >= unwind::RawStack::max_threads || thread > memories_.size())
    return std::nullopt;
  if (thread == memories_.size()) memories_.emplace_back();
  Memory& copied = memories_[thread];
  if (!read_memory(fields, copied)) return std::nullopt;
  fields(limits.at_function_entry, known_returns, sample.latency_ns, sample.value);
  if (!fields.is_complete() || number >= spaces_.size()) return std::nullopt;
  limits.known_returns = known_returns;
  const unwind::MemoryPiece memory{copied.address, copied.bytes};
  stack = unwind_stack(registers, {&memory, 1}, *spaces_[number], limits);
  if (header_.source_lines) add_inlined_frames(stack);
  const StackCopy copy{
      .address = copied.address, .size = copied.bytes.size(), .requested = header_.stack_bytes};
  sample.completeness = classify(stack, copy);
  if (sample.completeness == StackCompleteness::incomplete)
    sample.failure = stack.explanation = explain_incomplete(stack, copy);
  return sample;
}

} // namespace uprobectl::saved
