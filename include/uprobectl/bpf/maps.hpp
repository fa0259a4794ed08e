// The maps of users' programs: found, read as tables, and drained where they are buffers. Source:
// Linux include/uapi/linux/bpf.h (struct bpf_map_info), Documentation/bpf/ringbuf.rst.
#pragma once

#include "uprobectl/base.hpp"

#include <functional>
#include <memory>

namespace uprobectl {

enum class MapUse {
  ring_buffer, // BPF_MAP_TYPE_RINGBUF
  perf_buffer, // BPF_MAP_TYPE_PERF_EVENT_ARRAY
  table,       // keys and values that can be read
  per_cpu,     // the same with a value for each CPU
  other,       // queues, maps of maps, maps of descriptors
};

struct UserMap {
  UniqueFd fd;
  std::string name;
  MapUse use = MapUse::other;
  std::uint32_t key_size = 0;   // bytes
  std::uint32_t value_size = 0; // bytes, of one CPU
  std::uint32_t btf_id = 0;     // of the kernel's copy of its types; 0: it has none
  std::uint32_t key_type = 0;   // ids in those types; 0: unknown
  std::uint32_t value_type = 0;
};

// Takes over the descriptor and asks the kernel what it is.
Result<UserMap> describe_map(UniqueFd fd);
// not_found, or not a map.
Result<UserMap> open_pinned_map(const std::string& path);
// Those that a loaded program uses. not_permitted names the capability: ids are for administrators.
Result<std::vector<UserMap>> maps_of_program(int program);

struct TableEntry {
  std::vector<std::byte> key;
  std::vector<std::vector<std::byte>> values; // one, or one for each possible CPU
};
struct Table {
  std::vector<TableEntry> entries; // in the kernel's order; not a snapshot
  bool cut = false;                // there are more than the limit
};
Result<Table> read_table(const UserMap& map, std::size_t most);

// Reads what programs write into ring buffers and perf event arrays.
class RecordStreams {
public:
  // Of the maps those that are buffers. Their descriptors must stay open as long as this lives.
  static Result<RecordStreams> open(std::span<const UserMap> maps);

  RecordStreams(RecordStreams&&) noexcept;
  RecordStreams& operator=(RecordStreams&&) noexcept;
  ~RecordStreams();

  std::span<const int> poll_fds() const; // readable when records wait
  // Hands out what waits, with the index of its map, until visit returns false; in order for each
  // ring buffer, and for each CPU of a perf event array. True if some may be left.
  bool drain(const std::function<bool(std::size_t map, Bytes record)>& visit);
  // Records that found a perf buffer full. What finds a ring buffer full only the program knows.
  std::uint64_t lost() const;

private:
  struct State;
  explicit RecordStreams(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
