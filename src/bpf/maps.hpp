// The maps of users' programs: found, read as tables, and drained where they are buffers. Source:
// Linux include/uapi/linux/bpf.h (struct bpf_map_info), Documentation/bpf/ringbuf.rst.
#pragma once

#include "uprobectl/util.hpp"

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
  std::string pin;      // the name of the pin it was opened by, without its folder; else empty
  std::uint32_t id = 0; // the kernel's
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

// The user stack that comes with each record of a perf event array, whatever its program does.
struct StreamStack {
  std::uint32_t bytes = 0; // most that are copied of it, with the registers; 0: none
  // Instead, the addresses that these lead to, with the registers and the word on top of the stack.
  bool frame_pointers = false;
  bool is_asked_for() const { return bytes > 0 || frame_pointers; }
};
// Who has sent a record, at that moment.
struct SenderContext {
  std::uint32_t pid = 0; // thread group, as this process's pid namespace numbers them
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::uint64_t time_ns = 0;            // CLOCK_MONOTONIC
  std::uint64_t registers_abi = 0;      // enum perf_sample_regs_abi: 0 none, 1 of 32-bit code
  std::vector<std::uint64_t> registers; // as bpf/programs/registers.h numbers them
  Bytes stack;                          // from the stack pointer on
  bool walked = false;                  // by frame pointers; may have found nothing
  std::vector<std::uint64_t> addresses; // likewise
};
struct SentRecord {
  Bytes record;
  std::optional<SenderContext> from; // where a stack was asked for; borrows its bytes
};

// Reads what programs write into ring buffers and perf event arrays.
class RecordStreams {
public:
  // Of the maps those that are buffers. Their descriptors must stay open as long as this lives.
  // `stacks`: by map, of those that are perf event arrays; empty: none.
  static Result<RecordStreams> open(std::span<const UserMap> maps,
                                    std::span<const StreamStack> stacks = {});

  RecordStreams(RecordStreams&&) noexcept;
  RecordStreams& operator=(RecordStreams&&) noexcept;
  ~RecordStreams();

  std::span<const int> poll_fds() const; // readable when records wait
  // Hands out what waits, with the index of its map, until visit returns false; in order for each
  // ring buffer, and for each CPU of a perf event array. True if some may be left.
  bool drain(const std::function<bool(std::size_t map, Bytes sent)>& visit);
  // What was handed out, which may be a copy. Nothing where the kernel's own part is damaged.
  std::optional<SentRecord> record_of(std::size_t map, Bytes sent) const;
  // Records that found a perf buffer full. What finds a ring buffer full only the program knows.
  std::uint64_t lost() const;

private:
  struct State;
  explicit RecordStreams(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
