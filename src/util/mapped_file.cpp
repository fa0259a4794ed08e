// SPDX-License-Identifier: Apache-2.0
#include "util/mapped_file.hpp"

#include "util/crash_hook.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace uprobectl {

namespace {

// The parts of a file on another machine that have been read.
struct OnDemand {
  std::mutex mutex;
  std::unique_ptr<RangeReader> reader;
  int file = -1;
  std::vector<bool> is_read; // by the number of the range
};

// One mapping, for the signal handler. The handler may read it at any time in any thread, so it is
// never freed but reused for later mappings.
struct GuardedMapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> in_use = false;
  std::atomic<bool> tolerated = false;
  std::atomic<bool> shrunk = false; // a part of it was replaced by zeros
  std::atomic<std::uint64_t> number = 0;
  std::atomic<OnDemand*> on_demand = nullptr; // freed with the mapping
  GuardedMapping* next = nullptr;
};

constinit std::atomic<GuardedMapping*> guarded = nullptr;
constinit std::atomic<std::uint64_t> last_number = 0;
constinit std::atomic<bool> any_shrunk = false;
constinit std::atomic<bool> all_tolerated = false;
constinit std::atomic<std::uintptr_t> page_size = 4096;

// Reads the end before and after the begin. A mapping that changed meanwhile belongs to another
// thread and does not contain the address.
bool contains(const GuardedMapping& mapping, std::uintptr_t address) {
  const std::uintptr_t end = mapping.end.load();
  const std::uintptr_t begin = mapping.begin.load();
  return address >= begin && address < end && mapping.end.load() == end;
}

// Replaces the bytes from the page of the address to the end of the mapping by zeros. A file
// shrinks at its end, so this needs only one signal and one area of the address space.
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

// Reads the range with the address. The bytes are in the file before they can be accessed.
bool read_range(GuardedMapping& mapping, std::uintptr_t address) {
  OnDemand& on_demand = *mapping.on_demand.load();
  const std::scoped_lock lock(on_demand.mutex);
  const std::uintptr_t begin = mapping.begin.load();
  const std::uint64_t number = (address - begin) / max_range;
  if (on_demand.is_read[number]) return true; // by another thread, meanwhile
  const std::uint64_t offset = number * max_range;
  const std::uint64_t size = std::min(max_range, mapping.end.load() - begin - offset);
  if (!on_demand.reader->read(offset, size, on_demand.file)) return false;
  on_demand.is_read[number] = true;
  return ::mprotect(reinterpret_cast<void*>(begin + offset), size, PROT_READ) == 0;
}

struct sigaction previous_segv{};

// Handler of SIGSEGV. An access to a mapping is the only cause that is handled: the thread was then
// in code that reads bytes, and not in an allocator.
void on_access(int, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (mapping->on_demand.load() != nullptr && contains(*mapping, address) &&
        (read_range(*mapping, address) || replace_by_zeros(*mapping, address))) {
      errno = saved_errno;
      return;
    }
  ::sigaction(SIGSEGV, &previous_segv, nullptr); // the access is repeated
}

void handle_accesses() {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  struct sigaction action{};
  action.sa_sigaction = on_access;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  struct sigaction before{};
  ::sigaction(SIGSEGV, &action, &before);
  if (before.sa_sigaction != on_access) previous_segv = before;
}

// Handler of SIGBUS: only async-signal-safe calls are allowed. mmap is a plain system call.
void on_bus_error(int, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (contains(*mapping, address) && (all_tolerated.load() || mapping->tolerated.load()) &&
        replace_by_zeros(*mapping, address)) {
      errno = saved_errno;
      return;
    }
  run_crash_hook();
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

// Finds the entry of a whole mapping. The caller keeps it mapped, so the entry does not change.
GuardedMapping* find_guarded(Bytes bytes) {
  if (bytes.empty()) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (mapping->begin.load() == begin && mapping->end.load() == begin + bytes.size())
      return mapping;
  return nullptr;
}

void guard_mapping(Bytes bytes) {
  GuardedMapping& mapping = unused_mapping();
  mapping.tolerated.store(false);
  mapping.shrunk.store(false);
  mapping.number.store(last_number.fetch_add(1));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  mapping.begin.store(begin);
  mapping.end.store(begin + bytes.size());
}

// Called before the bytes are unmapped.
void release_mapping(Bytes bytes) {
  GuardedMapping* const mapping = find_guarded(bytes);
  if (mapping == nullptr) return;
  mapping->end.store(0);
  delete mapping->on_demand.exchange(nullptr);
  mapping->in_use.store(false);
}

std::int64_t modification_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

} // namespace

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

std::optional<std::uint64_t> mapping_number(Bytes part) {
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  for (const GuardedMapping* mapping = guarded.load(); mapping != nullptr; mapping = mapping->next)
    if (contains(*mapping, address)) return mapping->number.load();
  return std::nullopt;
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

Result<MappedFile> map_on_demand(std::uint64_t size, const std::string& path,
                                 std::unique_ptr<RangeReader> reader) {
  handle_accesses();
  UniqueFd file(::memfd_create("uprobectl", MFD_CLOEXEC));
  struct stat status{};
  if (!file || size > INT64_MAX || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      ::fstat(file.get(), &status) != 0)
    return fail(system_error(errno, path));
  if (size == 0) return MappedFile::of_copy(std::move(file), path);
  void* const start = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file.get(), 0);
  if (start == MAP_FAILED) return fail(system_error(errno, path));
  auto on_demand = std::make_unique<OnDemand>();
  on_demand->reader = std::move(reader);
  on_demand->file = file.get();
  on_demand->is_read.resize((size - 1) / max_range + 1);
  const Bytes bytes(static_cast<const std::byte*>(start), size);
  MappedFile mapped(std::move(file), bytes, {status.st_dev, status.st_ino}, modification_ns(status),
                    path, true);
  find_guarded(bytes)->on_demand.store(on_demand.release());
  return mapped;
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  auto file = open_regular_file(path);
  if (!file) return fail(std::move(file).error());
  return map(std::move(file->fd), path, false);
}

Result<MappedFile> MappedFile::of_copy(UniqueFd copy, const std::string& path) {
  return map(std::move(copy), path, true);
}

Result<MappedFile> MappedFile::map(UniqueFd fd, const std::string& path, bool is_copy) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(system_error(errno, path));
  Bytes bytes;
  if (status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    // The kernel writes the breakpoints of other tracers into private mappings, even if they are
    // not executable, but never into shared ones (kernel/events/uprobes.c, valid_vma). File systems
    // with direct I/O only, for example some of FUSE, reject shared mappings.
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (start == MAP_FAILED) start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (start == MAP_FAILED) return fail(system_error(errno, path));
    bytes = {static_cast<const std::byte*>(start), size};
  }
  return MappedFile(std::move(fd), bytes, {status.st_dev, status.st_ino}, modification_ns(status),
                    path, is_copy);
}

MappedFile::MappedFile(UniqueFd fd, Bytes bytes, FileIdentity identity, std::int64_t modified_ns,
                       std::string path, bool is_copy)
    : fd_(std::move(fd)), bytes_(bytes), identity_(identity), modified_ns_(modified_ns),
      path_(std::move(path)), is_copy_(is_copy) {
  if (!bytes_.empty()) guard_mapping(bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})),
      identity_(other.identity_), modified_ns_(other.modified_ns_), path_(std::move(other.path_)),
      is_copy_(other.is_copy_) {}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  release_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileChange MappedFile::change() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0 || modification_ns(status) != modified_ns_ ||
      static_cast<std::uint64_t>(status.st_size) != bytes_.size())
    return FileChange::written;
  if (is_copy_) return FileChange::none;
  const auto there = stat_path(path_);
  const bool is_replaced =
      there ? FileIdentity{there->st_dev, there->st_ino} != identity_
            : there.error() == ENOENT || there.error() == ENOTDIR || there.error() == ESTALE;
  return is_replaced ? FileChange::replaced : FileChange::none;
}

Result<std::string> MappedFile::real_path() const {
  if (is_copy_) return path_;
  auto path = read_descriptor_path(fd_.get());
  if (!path) {
    // /proc is not mounted, for example in a small container or early at boot.
    if (path.error().kind != ErrorKind::not_found) return path;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path_.c_str(), nullptr), ::free);
    if (real == nullptr) return fail(system_error(errno, path_));
    return std::string(real.get());
  }
  const auto rooted = split_process_root(path_);
  if (path->ends_with(" (deleted)") || (!rooted && !is_mapping_link(path_))) return path;
  const auto here = stat_path(*path);
  if (here && FileIdentity{here->st_dev, here->st_ino} == identity_) return path;
  return rooted ? real_path_in_root(*rooted) : path_;
}

} // namespace uprobectl
