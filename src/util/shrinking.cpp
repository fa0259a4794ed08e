// SPDX-License-Identifier: Apache-2.0
#include "util/shrinking.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// One mapping as the signal handler sees it. Never freed, used again for later mappings: the
// handler may look at it at any time, in any thread.
struct GuardedMapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> in_use = false;
  std::atomic<bool> tolerated = false;
  std::atomic<bool> shrunk = false; // a part of it was replaced by zeros
  GuardedMapping* next = nullptr;
};

constinit std::atomic<GuardedMapping*> guarded = nullptr;
constinit std::atomic<bool> any_shrunk = false;
constinit std::atomic<bool> all_tolerated = false;
constinit std::atomic<std::uintptr_t> page_size = 4096;

// The end is read before and after: a mapping that is released or used again meanwhile is another
// thread's and does not have the address.
bool contains(const GuardedMapping& mapping, std::uintptr_t address) {
  const std::uintptr_t end = mapping.end.load();
  const std::uintptr_t begin = mapping.begin.load();
  return address >= begin && address < end && mapping.end.load() == end;
}

// Zeros from the page on to the end of the mapping: a file shrinks at its end, and one piece needs
// one signal and one area of the address space.
bool replace_by_zeros(GuardedMapping& mapping, std::uintptr_t address) {
  const std::uintptr_t page = address & ~(page_size.load() - 1);
  void* const there = reinterpret_cast<void*>(page);
  if (::mmap(there, mapping.end.load() - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) == MAP_FAILED)
    return false;
  mapping.shrunk.store(true);
  any_shrunk.store(true);
  return true;
}

// Only async-signal-safe calls are allowed. mmap is a plain system call.
void on_bus_error(int, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (contains(*mapping, address) && (all_tolerated.load() || mapping->tolerated.load()) &&
        replace_by_zeros(*mapping, address)) {
      errno = saved_errno;
      return;
    }
  constexpr char message[] = "uprobectl: error: a file changed size while it was being read\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, sizeof(message) - 1);
  ::_exit(1);
}

GuardedMapping& unused_mapping() {
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next) {
    bool in_use = false;
    if (mapping->in_use.compare_exchange_strong(in_use, true)) return *mapping;
  }
  auto* const added = new GuardedMapping;
  added->in_use.store(true);
  added->next = guarded.load();
  while (!guarded.compare_exchange_weak(added->next, added)) {
  }
  return *added;
}

// Of bytes that are mapped: nobody else changes what is said of them.
GuardedMapping* find_guarded(Bytes bytes) {
  if (bytes.empty()) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (mapping->begin.load() == begin && mapping->end.load() == begin + bytes.size())
      return mapping;
  return nullptr;
}

} // namespace

void guard_mapping(Bytes bytes) {
  GuardedMapping& mapping = unused_mapping();
  mapping.tolerated.store(false);
  mapping.shrunk.store(false);
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  mapping.begin.store(begin);
  mapping.end.store(begin + bytes.size());
}

void release_mapping(Bytes bytes) {
  GuardedMapping* const mapping = find_guarded(bytes);
  if (mapping == nullptr) return;
  mapping->end.store(0);
  mapping->in_use.store(false);
}

void tolerate_shrinking(const MappedFile& file) {
  if (GuardedMapping* const mapping = find_guarded(file.bytes())) mapping->tolerated.store(true);
}

void tolerate_all_shrinking() { all_tolerated.store(true); }

bool has_shrunk(const MappedFile& file) {
  if (!any_shrunk.load(std::memory_order_relaxed)) return false;
  const GuardedMapping* const mapping = find_guarded(file.bytes());
  return mapping != nullptr && mapping->shrunk.load();
}

bool has_shrunk(Bytes part) {
  if (!any_shrunk.load(std::memory_order_relaxed)) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  for (const GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (contains(*mapping, address)) return mapping->shrunk.load();
  return false;
}

Result<void> check_size(const MappedFile& file) {
  if (!has_shrunk(file)) return {};
  return fail(ErrorKind::io, file.path() + ": changed size while it was being read");
}

void handle_shrinking_files() {
  if (const long size = ::sysconf(_SC_PAGESIZE); size > 0)
    page_size.store(static_cast<std::uintptr_t>(size));
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace uprobectl
