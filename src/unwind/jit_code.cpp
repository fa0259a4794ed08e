// SPDX-License-Identifier: Apache-2.0
#include "unwind/jit_code.hpp"

#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "util/clock.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

constexpr std::uint64_t min_interval = 10'000'000; // ns, between two readings
// Reading large files that are written anew again and again takes at most a tenth of the time.
constexpr std::uint64_t interval_by_duration = 10;
constexpr std::uint64_t max_map_bytes = 256 << 20;
constexpr std::size_t map_piece = 1 << 20; // bytes read at a time; a longer line is skipped
constexpr std::size_t max_tail = 4096;
constexpr std::size_t max_dump_bytes = 512 << 20; // mapped, not copied
constexpr std::size_t max_dumps = 16;

// Reads up to `size` bytes; fewer only at the end of the file.
std::vector<std::byte> read_map_bytes(int fd, std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got =
        ::pread(fd, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

// Anybody can write to /tmp: a symbolic link there may lead to a file of root.
bool is_opened_by_link(const std::string& path, const struct stat& opened) {
  struct stat there{};
  return ::lstat(path.c_str(), &there) != 0 || there.st_dev != opened.st_dev ||
         there.st_ino != opened.st_ino;
}

} // namespace

void JitCode::read_process(std::span<const process::Mapping> mappings) {
  std::vector<Dump> dumps;
  bool has_code = false;
  for (const process::Mapping& mapping : mappings) {
    if (!mapping.executable) continue;
    has_code |= is_anonymous(mapping) || is_named_memory(mapping);
    if (!symbolize::is_jitdump_path(mapping.path) || dumps.size() == max_dumps) continue;
    const auto known = std::ranges::find_if(
        dumps_, [&](const Dump& dump) { return dump.mapping.identity == mapping.identity; });
    dumps.push_back({.mapping = mapping, .end = known == dumps_.end() ? 0 : known->end});
  }
  dumps_ = std::move(dumps);
  const auto status = process::try_read_pseudo_file(fmt::format("/proc/{}/status", pid_));
  if (!status) return;
  user_ = process::parse_user(*status);
  own_pid_ = process::parse_innermost_pid(*status);
  // A process names the file by its pid in its own namespace, and writes it to its own /tmp.
  const std::string name = fmt::format("/perf-{}.map", own_pid_.value_or(pid_));
  const RootedPath folder{.root = process::live_path(pid_, "root"), .path = "/tmp"};
  map_paths_ = {real_path_in_root(folder).value_or(folder.root + folder.path) + name};
  if (process::shares_mount_namespace(pid_).value_or(false)) map_paths_.push_back("/tmp" + name);
  if (has_code) read_files();
}

std::shared_ptr<const symbolize::Function> JitCode::find(std::uint64_t address) {
  if (clock_ns(CLOCK_MONOTONIC) >= next_reading_) read_files();
  const symbolize::JitFunction* const found = table_.find(address);
  if (found == nullptr) return nullptr;
  return std::make_shared<const symbolize::Function>(symbolize::make_function(*found, address));
}

void JitCode::forget() {
  table_ = {};
  map_.reset();
  for (Dump& dump : dumps_) dump.end = 0;
}

// Files that are not valid are not reported: their functions have no names then.
void JitCode::read_files() {
  const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  const auto read_dumps = [&] {
    return std::ranges::all_of(dumps_, [&](Dump& dump) { return read_dump(dump); });
  };
  if (!read_dumps()) {
    forget();
    static_cast<void>(read_dumps());
  }
  read_perf_map();
  const std::uint64_t end = clock_ns(CLOCK_MONOTONIC);
  next_reading_ = end + std::max(min_interval, (end - begin) * interval_by_duration);
}

void JitCode::read_perf_map() {
  for (const std::string& path : map_paths_) {
    const auto file = open_regular_file(path);
    if (!file) continue;
    const struct stat& status = file->status;
    if (is_opened_by_link(path, status)) return;
    if (status.st_uid != 0 && status.st_uid != user_) return;
    if (map_ && !is_appended(file->fd.get(), status)) {
      forget();
      for (Dump& dump : dumps_) static_cast<void>(read_dump(dump));
    }
    if (!map_) map_.emplace();
    map_->identity = {.device = status.st_dev, .inode = status.st_ino};
    map_->modified = status.st_mtim;
    map_->size = static_cast<std::uint64_t>(status.st_size);
    while (map_->end < max_map_bytes && map_->end < map_->size) {
      std::vector<std::byte> piece = read_map_bytes(file->fd.get(), map_->end, map_piece);
      std::size_t taken = symbolize::add_perf_map(table_, piece);
      if (taken == 0 && piece.size() == map_piece) taken = piece.size();
      if (taken == 0) return;
      piece.resize(taken);
      piece.erase(piece.begin(),
                  piece.end() - static_cast<std::ptrdiff_t>(std::min(piece.size(), max_tail)));
      map_->tail = std::move(piece);
      map_->end += taken;
    }
    return;
  }
}

// Whether the file still begins with what was read of it, as far as its size and the last lines
// show.
bool JitCode::is_appended(int fd, const struct stat& now) const {
  const auto size = static_cast<std::uint64_t>(now.st_size);
  const FileIdentity identity{.device = now.st_dev, .inode = now.st_ino};
  if (identity != map_->identity || size < map_->size) return false;
  const bool is_same_time =
      now.st_mtim.tv_sec == map_->modified.tv_sec && now.st_mtim.tv_nsec == map_->modified.tv_nsec;
  if (size == map_->size) return is_same_time;
  const std::size_t length = map_->tail.size();
  return read_map_bytes(fd, map_->end - length, length) == map_->tail;
}

// Returns false if the file has become shorter.
bool JitCode::read_dump(Dump& dump) {
  const auto object = files_.open(dump.mapping);
  if (!object) return true;
  const Bytes bytes = object->bytes.first(std::min(object->bytes.size(), max_dump_bytes));
  if (bytes.size() < dump.end) return false;
  std::optional<std::uint32_t> pid;
  if (own_pid_) pid = static_cast<std::uint32_t>(*own_pid_);
  static_cast<void>(symbolize::add_jitdump(table_, bytes, dump.end, pid));
  return true;
}

} // namespace uprobectl::unwind
