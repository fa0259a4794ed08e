// SPDX-License-Identifier: Apache-2.0
// Keeps the parts of a device's files that --unwind-on host needs on the workstation: a later run,
// of any device, does not send them again.
//
// The run asks for the SHA-256 of the parts (PartsRequest), and writes a chunk kept_parts into
// its saved run: with the answer yes instead of the parts, else in front of them. Parts are known
// by their content and not by a build id, which a stripped file shares with the unstripped one, and
// which a device could claim for other bytes.
#pragma once

#include "host/cache.hpp"
#include "host/host_files.hpp"

#include <atomic>
#include <future>
#include <map>
#include <mutex>

namespace uprobectl::host {

// Transfers the parts of files for one run on one device.
class PartTransfer {
public:
  explicit PartTransfer(const Cache& cache) : cache_(cache) {}
  PartTransfer(const PartTransfer&) = delete;
  PartTransfer& operator=(const PartTransfer&) = delete;

  // The result of a PartsRequest: an empty file, or ENOENT. Thread-safe.
  InputFile find(const std::string& sha256);

  // Takes the next bytes of the saved run, in any pieces. Appends those that `report` reads to
  // `out`. Fails with corrupt for parts that find() has not found.
  Result<void> add(std::string_view bytes, std::string& out);
  // Appends the rest, if the run ends within a chunk.
  void finish(std::string& out);

private:
  // Parts that arrive.
  struct Arriving {
    std::string sha256;
    std::uint32_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t missing = 0; // bytes
    std::string content = {};  // that of the entry
  };
  Result<void> handle(std::string_view chunk, std::string& out);
  Result<void> expand(std::string_view content, std::string& out);
  void collect(std::string_view content);
  void store(Arriving parts);

  const Cache& cache_;
  std::string pending_; // the beginning of a chunk
  bool has_head_ = false;
  bool is_other_ = false; // not a saved run: passed on as it is
  std::optional<Arriving> arriving_;
  std::mutex mutex_;
  // The content of files that the run does not send, by its SHA-256.
  struct Found {
    std::string content;
    std::uint64_t references = 1; // those that the run will still make: one for each request
  };
  std::map<std::string, Found, std::less<>> found_;
  std::uint64_t found_bytes_ = 0; // in them
  // Written in threads: a device hears every second that the workstation is alive.
  std::atomic<std::uint64_t> storing_bytes_ = 0;
  std::vector<std::future<void>> storing_;
};

} // namespace uprobectl::host
