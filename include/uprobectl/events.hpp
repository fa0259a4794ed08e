// Records of programs -> events. The layout of the built-in program's is src/bpf/record.h, shared
// with the program itself; those of users' programs are read by their BTF types.
#pragma once

#include "uprobectl/bpf/maps.hpp"
#include "uprobectl/bpf/types.hpp"
#include "uprobectl/resolve.hpp"

#include <array>

namespace uprobectl {

enum class EventKind {
  entry,
  on_return,
  record, // what a user's program has sent
};

struct UserRecord {
  std::string map;
  std::optional<std::string> type; // "event": the name of the type it was read by
  std::optional<DataValue> value;  // nothing: no type is known, then raw is what there is
  std::vector<std::byte> raw;
};

// Of a record only `kind` and `record` say something.
struct Event {
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t pid = 0;     // as the initial pid namespace numbers them
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;                  // at most 15 bytes, as the kernel has it
  const ProbePoint* point = nullptr; // borrowed from the list given to decode_event
  EventKind kind = EventKind::entry;
  std::array<std::uint64_t, 6> arguments = {}; // entry: the first six integer registers
  std::uint64_t return_value = 0;              // on_return: the return register
  std::shared_ptr<const UserRecord> record;    // record
};

// corrupt if the record is too short or names a probe that is not in the list.
Result<Event> decode_event(Bytes record, std::span<const ProbePoint> points);

// Reads the records of a user's program.
class UserRecordDecoder {
public:
  // The maps as RecordStreams numbers them. With a type name every record is of that type, and
  // not_found tells where there is none of the name. Without one a record of map "events" is read
  // as `struct event` or `struct events_record` where the types have one of exactly its size.
  static Result<UserRecordDecoder> make(std::optional<DataTypes> types,
                                        std::span<const UserMap> maps,
                                        const std::optional<std::string>& type_name);
  Event decode(std::size_t map, Bytes record) const;

private:
  struct Stream {
    std::string map;
    MapUse use = MapUse::ring_buffer;
    std::vector<DataTypes::Type> by_name; // candidates, of which the size decides
  };
  const DataTypes::Type* type_of(const Stream& stream, std::size_t size) const;

  std::optional<DataTypes> types_;
  std::optional<DataTypes::Type> wanted_;
  std::vector<Stream> streams_;
};

} // namespace uprobectl
