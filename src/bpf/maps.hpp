// SPDX-License-Identifier: Apache-2.0
// Finds the maps of users' programs, reads tables, and drains buffers. Source:
// Linux include/uapi/linux/bpf.h (struct bpf_map_info), Documentation/bpf/ringbuf.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <memory>
#include <span>

namespace uprobectl::bpf {

// How the values of a map can be read.
enum class MapUse {
  ring_buffer, // BPF_MAP_TYPE_RINGBUF
  perf_buffer, // BPF_MAP_TYPE_PERF_EVENT_ARRAY
  table,       // keys and values that can be read
  per_cpu,     // the same, with a value for each CPU
  stack_table, // BPF_MAP_TYPE_STACK_TRACE: a table of addresses by ids of stacks
  map_table,   // maps of maps: a table of map ids
  queue,       // queues and stacks: values without keys, which reading removes
  bloom,       // BPF_MAP_TYPE_BLOOM_FILTER: can only be asked for a value
  other,       // tables of programs, sockets and other objects of the kernel
};

MapUse map_use_for_type(std::uint32_t type); // BPF_MAP_TYPE_*
// Whether a program sends records through it.
constexpr bool is_buffer(MapUse use) {
  return use == MapUse::ring_buffer || use == MapUse::perf_buffer;
}

// Returns the distance of the values of two CPUs: the kernel aligns them to eight bytes.
constexpr std::size_t cpu_stride(std::size_t value_size) { return (value_size + 7) / 8 * 8; }

// An open map of a user's program.
struct UserMap {
  std::shared_ptr<const UniqueFd> fd; // of all copies
  std::string name;
  std::string pin;      // the base name of the pin by which it was opened, if any
  std::uint32_t id = 0; // in the kernel
  MapUse use = MapUse::other;
  std::uint32_t key_size = 0;   // bytes
  std::uint32_t value_size = 0; // bytes, of one CPU
  std::uint32_t btf_id = 0;     // of its types in the kernel; 0: none
  std::uint32_t key_type = 0;   // ids in those types; 0: unknown
  std::uint32_t value_type = 0;
  bool has_object_types = false; // they are ids in the types of the program's object instead
  bool is_of_run = false;        // made by this run: nobody else needs what it holds
  std::optional<std::size_t> object = {}; // number of the program's object that alone has the map
  std::string variable = {};              // if it is not empty, only this global variable is shown
  std::string label = {};                 // as which it is printed; empty: its name
};

// Takes ownership of the descriptor and queries the kernel.
Result<UserMap> describe_map(UniqueFd fd);
// Opens a pinned map. not_found if there is no pin, unsupported if it is not a map.
Result<UserMap> open_pinned_map(const std::string& path);
// The ids of a map and of a program in the kernel; nullopt if the descriptor is not that of one.
std::optional<std::uint32_t> find_map_id(int map);
std::optional<std::uint32_t> find_program_id(int program);
// The Error of a user who may not open maps by their ids.
Error may_not_list_maps();
// Returns the ids of the maps that a loaded program uses.
Result<std::vector<std::uint32_t>> list_map_ids(int program);
// Opens the maps that a loaded program uses. not_permitted names the capability that map ids
// require.
Result<std::vector<UserMap>> find_program_maps(int program);

// Completes names that the kernel has cut to 15 bytes, by the declarations in the program's types.
// A name that several declarations fit stays as it is.
void complete_map_names(std::span<UserMap> maps, std::uint32_t btf_id);

// A key of a map with its values.
struct TableEntry {
  std::vector<std::byte> key;
  std::vector<std::vector<std::byte>> values; // one, or one for each possible CPU
};
// The content of a map.
struct Table {
  std::vector<TableEntry> entries; // in the kernel's order; not a snapshot
  bool cut = false;                // there are more entries than the limit
};
// Reads at most max_entries entries of a map with keys and values, each key once.
Result<Table> read_table(const UserMap& map, std::size_t max_entries);
// Takes at most max_values values out of a queue or stack, or only reads the first one. The entries
// have no keys. `cut` only says that max_values were taken.
Result<Table> take_queue(const UserMap& map, std::size_t max_values, bool removes);
// Removes the entries with these keys; those of arrays are set to zeros. `table` then has the
// values that were removed. Returns false if an entry was read and then removed, so that what the
// program wrote in between is lost. In one step the kernel removes only those of hashes, since
// Linux 5.14.
Result<bool> clear_table(const UserMap& map, Table& table);
// Returns the return addresses in a value of a stack table, the innermost first.
std::vector<std::uint64_t> stack_addresses(Bytes value);
// Returns those of a stack; nullopt if the map has no such stack.
std::optional<std::vector<std::uint64_t>> read_stack(const UserMap& map, std::uint32_t id);
// Opens a map by its id in the kernel. not_permitted names the capability.
Result<UserMap> open_map_by_id(std::uint32_t id);

// Which user stack the kernel adds to each record of a perf event array.
struct StackRequest {
  std::uint32_t bytes = 0; // maximum copied, with the registers; 0: none
  // Instead, the addresses found by frame pointers, with the registers and the top word of the
  // stack.
  bool frame_pointers = false;
  bool is_enabled() const { return bytes > 0 || frame_pointers; }
};
// The thread that sent a record, and its registers and stack then.
struct SenderContext {
  std::uint32_t pid = 0; // thread group, in the pid namespace of this process
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::uint64_t time_ns = 0;            // CLOCK_MONOTONIC
  std::uint64_t registers_abi = 0;      // enum perf_sample_regs_abi: 0 none, 1 of 32-bit code
  std::vector<std::uint64_t> registers; // numbered as in arch/pt_regs.h
  Bytes stack;                          // from the stack pointer upwards
  bool walked = false;                  // by frame pointers; may have found nothing
  std::vector<std::uint64_t> addresses; // found by frame pointers
};
struct SentRecord {
  Bytes record;
  std::optional<SenderContext> from; // if a stack was requested; borrows the bytes of the sample
};

// Reads the records in ring buffers and perf event arrays of users' programs.
class RecordStreams {
public:
  // Opens the buffers among the maps. Their descriptors must stay open. `stacks`: by map, used for
  // perf event arrays; empty: no stacks.
  static Result<RecordStreams> open(std::span<const UserMap> maps,
                                    std::span<const StackRequest> stacks = {});

  RecordStreams(RecordStreams&&) noexcept;
  RecordStreams& operator=(RecordStreams&&) noexcept;
  ~RecordStreams();

  // Readable when records wait; -1, which poll() ignores, for a ring buffer with a reserved record.
  std::vector<int> poll_fds() const;
  // Passes pending records to visit, with the index of their map, until it returns false. Records
  // are in order for each ring buffer and for each CPU of a perf event array. Returns true if some
  // may be left.
  bool drain(const std::function<bool(std::size_t map, Bytes sent)>& visit);
  // These two apply to the ring buffers, and are described at BuiltinProgram.
  bool waits() const;
  std::uint64_t unsubmitted() const;
  // Decodes what drain() passed to visit, which may be a copy. Nullopt if the kernel's part is
  // invalid.
  std::optional<SentRecord> decode(std::size_t map, Bytes sent) const;
  // Records lost because a perf buffer was full. Only the program knows about full ring buffers.
  std::uint64_t lost() const;

private:
  struct State;
  explicit RecordStreams(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::bpf
