// SPDX-License-Identifier: Apache-2.0
#include "unwind/jit_code.hpp"

#include "process/proc.hpp"
#include "symbolize/mapping_kind.hpp"
#include "util/clock.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

constexpr std::uint64_t min_interval = 100'000'000; // ns, between two readings
constexpr std::size_t max_map_bytes = 64 << 20;
constexpr std::size_t max_dump_bytes = 512 << 20; // mapped, not copied
constexpr std::size_t max_dumps = 16;

std::vector<std::byte> read_map_bytes(int fd, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::pread(fd, bytes.data() + have, size - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

} // namespace

void JitCode::read_process(std::span<const Mapping> mappings) {
  dumps_.clear();
  bool has_code = false;
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable) continue;
    has_code |= symbolize::is_anonymous(mapping) || symbolize::is_named_memory(mapping);
    if (symbolize::is_jitdump_path(mapping.path) && dumps_.size() < max_dumps)
      dumps_.push_back(mapping);
  }
  const auto status = try_read_pseudo_file(fmt::format("/proc/{}/status", pid_));
  if (!status) return;
  user_ = parse_user(*status);
  // A process names the file by its pid in its own namespace, and writes it to its own /tmp.
  const std::string name =
      fmt::format("/tmp/perf-{}.map", parse_innermost_pid(*status).value_or(pid_));
  map_paths_ = {fmt::format("/proc/{}/root{}", pid_, name)};
  if (shares_mount_namespace(pid_).value_or(false)) map_paths_.push_back(name);
  if (has_code) read_files();
}

std::shared_ptr<const symbolize::Function> JitCode::find(std::uint64_t address) {
  const symbolize::JitFunction* found = table_.find(address);
  if (found == nullptr && clock_ns(CLOCK_MONOTONIC) - read_at_ >= min_interval) {
    read_files();
    found = table_.find(address);
  }
  if (found == nullptr) return nullptr;
  return std::make_shared<const symbolize::Function>(symbolize::make_function(*found, address));
}

// Files that are not valid are not reported: their functions have no names then.
void JitCode::read_files() {
  read_at_ = clock_ns(CLOCK_MONOTONIC);
  table_ = {};
  for (const Mapping& mapping : dumps_) read_dump(mapping);
  read_perf_map();
}

void JitCode::read_perf_map() {
  for (const std::string& path : map_paths_) {
    const auto file = open_regular_file(path);
    if (!file) continue;
    // Anybody can write to /tmp.
    if (file->status.st_uid != 0 && file->status.st_uid != user_) return;
    const auto size =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(file->status.st_size), max_map_bytes);
    const std::vector<std::byte> bytes = read_map_bytes(file->fd.get(), size);
    static_cast<void>(symbolize::add_perf_map(table_, bytes));
    return;
  }
}

void JitCode::read_dump(const Mapping& mapping) {
  const auto dump = files_.open(mapping);
  if (!dump) return;
  const Bytes bytes = dump->bytes.first(std::min(dump->bytes.size(), max_dump_bytes));
  static_cast<void>(symbolize::add_jitdump(table_, bytes));
}

} // namespace uprobectl::unwind
