// SPDX-License-Identifier: Apache-2.0
#include "process/mapped_memory.hpp"
#include "uprobectl/arch.hpp"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::process {

namespace {

constexpr std::size_t size = 1 << 16;

std::uint64_t map_pages(int protection) {
  void* const pages = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  return reinterpret_cast<std::uintptr_t>(pages);
}
void unmap(std::uint64_t address) {
  ::munmap(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), size);
}

} // namespace

TEST_CASE("mapped memory: readable mappings of a process, also those that nothing has touched") {
  const std::uint64_t readable = map_pages(PROT_READ);
  const std::uint64_t closed = map_pages(PROT_NONE);
  MappedMemory memory;
  const auto now = MappedMemory::Clock::now();
  CHECK(memory.contains(::getpid(), readable, now));
  CHECK(memory.contains(::getpid(), readable + size - 1, now));
  // A tag, which x86-64 has not.
  CHECK(memory.contains(::getpid(), readable | std::uint64_t{0x5a} << 56, now) ==
        (host_arch == Arch::arm64));
  CHECK_FALSE(memory.contains(::getpid(), closed, now));
  CHECK_FALSE(memory.contains(::getpid(), 16, now));
  unmap(readable);
  unmap(closed);
}

TEST_CASE("mapped memory: mappings are read again for an address that was used after that") {
  MappedMemory memory;
  const auto before = MappedMemory::Clock::now();
  CHECK_FALSE(memory.contains(::getpid(), 1 << 20, before)); // reads the mappings
  const std::uint64_t later = map_pages(PROT_READ);
  CHECK_FALSE(memory.contains(::getpid(), later, before));
  CHECK(memory.contains(::getpid(), later, MappedMemory::Clock::now()));
  unmap(later);
}

TEST_CASE("mapped memory: a process that has ended has none") {
  MappedMemory memory;
  constexpr pid_t never = 0x7fffffff; // above the largest pid_max
  CHECK_FALSE(memory.contains(never, 0x400000, MappedMemory::Clock::now()));
}

} // namespace uprobectl::process
