// SPDX-License-Identifier: Apache-2.0
// Decodes the records of users' programs to events, by their BTF types.
//
// The records of Android's UprobeStats programs have no BTF types. Their layout is found by the
// name of the map, then by the size of the record; layouts are those of LP64. Source: AOSP
// packages/modules/UprobeStats src/bpf_progs (uprobestats_bpf_structs.h and its predecessors).
#pragma once

#include "bpf/maps.hpp"
#include "events/events.hpp"
#include "values/btf_types.hpp"

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
  std::size_t count = 1; // elements of text and words
};

// The fields of a C structure, each aligned to its size.
struct RecordLayout {
  std::string_view type;
  std::span<const RecordField> fields;
};

std::size_t size_of(const RecordLayout& layout); // in bytes
// `bytes` must have at least size_of(layout) bytes.
DataValue read_record(const RecordLayout& layout, Bytes bytes);

// A map of UprobeStats programs.
struct KnownMap {
  std::span<const RecordLayout> layouts; // of distinct sizes
  bool has_object_name = false;          // the pin's name is unique: map_OBJECT_MAP
};

// Finds a map by the name of its pin, or by its own name if that is unique. The kernel truncates
// the latter to 15 bytes, which is accepted.
std::optional<KnownMap> find_known_map(std::string_view name);

// Reads the records of a user's program.
class UserRecordDecoder {
public:
  // `maps` are in the order of RecordStreams. With a type name, all records have that type; fails
  // with `not_found` if there is no such type. Without one, a record of map "events" is decoded as
  // `struct event` or `struct events_record` if one of them has exactly its size, a record of a
  // known map by its layout. Layouts precede types only if the pin has the object's name.
  static Result<UserRecordDecoder> make(std::optional<DataTypes> types,
                                        std::span<const UserMap> maps,
                                        const std::optional<std::string>& type_name);
  Event decode(std::size_t map, Bytes record);
  // Number of records of known maps with a size that no layout has. They are shown raw.
  std::uint64_t unknown_layouts() const { return unknown_layouts_; }

private:
  struct Stream {
    std::string map;
    std::optional<std::string> known_name; // accepted by find_known_map()
    MapUse use = MapUse::ring_buffer;
    std::vector<DataTypes::Type> candidates; // selected by the size of a record
  };
  const DataTypes::Type* find_type(const Stream& stream, std::size_t size) const;

  std::optional<DataTypes> types_;
  std::optional<DataTypes::Type> requested_type_;
  std::vector<Stream> streams_;
  std::uint64_t unknown_layouts_ = 0;
};

} // namespace uprobectl
