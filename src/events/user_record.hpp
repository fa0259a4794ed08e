// SPDX-License-Identifier: Apache-2.0
// Records of users' programs -> events, by their BTF types.
//
// What the programs of Android's UprobeStats write into their ring buffers has no BTF types: its
// layout is found by the map's name, then by size. Layouts of LP64. Source: AOSP
// packages/modules/UprobeStats src/bpf_progs (uprobestats_bpf_structs.h and its forerunners).
#pragma once

#include "bpf/maps.hpp"
#include "bpf/types.hpp"
#include "events/events.hpp"

#include <span>

namespace uprobectl {

enum class FieldKind {
  boolean,
  s32,
  u32,
  s64,
  u64,
  pointer,
  text,  // a char array up to its first NUL
  words, // an array of u64
};

struct RecordField {
  std::string_view name;
  FieldKind kind = FieldKind::u64;
  std::size_t count = 1; // of text and words
};

struct RecordLayout {
  std::string_view type;
  std::span<const RecordField> fields; // each at a multiple of its size, as C lays them out
};

std::size_t size_of(const RecordLayout& layout);
// `bytes` has at least size_of(layout).
DataValue read_record(const RecordLayout& layout, Bytes bytes);

struct KnownMap {
  std::span<const RecordLayout> layouts; // no two of one size
  bool has_object_name = false;          // "map_ProcessManagement_output_buf": no other has it
};

// By the name of a pin, or by the map's own where that says enough; also as the kernel keeps it,
// its first 15 bytes.
std::optional<KnownMap> find_known_map(std::string_view name);

// Reads the records of a user's program.
class UserRecordDecoder {
public:
  // The maps as RecordStreams numbers them. With a type name every record is of that type, and
  // not_found tells where there is none of the name. Without one a record of map "events" is read
  // as `struct event` or `struct events_record` if the types have one of exactly its size; a record
  // of a known map by its layout. That goes before the types only if the pin names the object.
  static Result<UserRecordDecoder> make(std::optional<DataTypes> types,
                                        std::span<const UserMap> maps,
                                        const std::optional<std::string>& type_name);
  Event decode(std::size_t map, Bytes record);
  // Records of UprobeStats' maps, of sizes that no version of its programs has: shown raw.
  std::uint64_t unknown_layouts() const { return unknown_layouts_; }

private:
  struct Stream {
    std::string map;
    std::optional<std::string> known_name; // a name that find_known_map() knows
    MapUse use = MapUse::ring_buffer;
    std::vector<DataTypes::Type> candidates; // candidates, of which the size decides
  };
  const DataTypes::Type* type_of(const Stream& stream, std::size_t size) const;

  std::optional<DataTypes> types_;
  std::optional<DataTypes::Type> requested_type_;
  std::vector<Stream> streams_;
  std::uint64_t unknown_layouts_ = 0;
};

} // namespace uprobectl
