// SPDX-License-Identifier: Apache-2.0
// Decodes the records of users' programs to events, by the types of BTF or debug information.
//
// The records of Android's UprobeStats programs have no BTF types. Their layout is found by the
// name of the map, then by the size of the record; layouts are those of LP64. Source: AOSP
// packages/modules/UprobeStats src/bpf_progs (uprobestats_bpf_structs.h and its predecessors).
#pragma once

#include "bpf/maps.hpp"
#include "events/events.hpp"
#include "values/btf_types.hpp"

#include <functional>
#include <map>
#include <span>

namespace uprobectl::events {

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
values::Value read_record(const RecordLayout& layout, Bytes bytes);

// A map of UprobeStats programs.
struct KnownMap {
  std::span<const RecordLayout> layouts; // of distinct sizes
  bool has_object_name = false;          // the pin's name is unique: map_OBJECT_MAP
};

// Finds a map by the name of its pin, or by its own name if that is unique. The kernel truncates
// the latter to 15 bytes, which is accepted.
std::optional<KnownMap> find_known_map(std::string_view name);

// The type of the records of a map, as asked for.
struct RecordTypeRequest {
  std::string map; // empty: of all maps without a request of their own
  std::string type;
};

// Reads the records of a user's program.
class UserRecordDecoder {
public:
  // `types` may be null, `maps` are in the order of RecordStreams. Fails with `not_found` if a
  // request names a type or map that does not exist. The first of these that fits decodes a record:
  // 1. a request for its map; of several, the type of its size, or one that may end early;
  // 2. the layout of a known map whose pin has the object's name;
  // 3. a type named like the map, such as `struct event` for "events", of exactly its size;
  // 4. unless the map is known, the only structure of its size that a local variable of a program
  //    has or points to, by debug information;
  // 5. a type named like the map that may end early;
  // 6. the layout of a known map.
  static Result<UserRecordDecoder> make(std::shared_ptr<const values::BtfTypes> types,
                                        std::span<const bpf::UserMap> maps,
                                        std::span<const RecordTypeRequest> requests = {});
  // The values of the event are those that were sent: see finish().
  Event decode(std::size_t map, Bytes record);
  // Returns all types that records may have; an empty list if they are not known.
  std::vector<values::ValueType> list_types() const;
  // Changes a decoded record to how it is shown. Returns whether it has done so. `tags`: of the
  // record's type.
  using Finish = std::function<bool(UserRecord& record, std::span<const values::ShownAsRule> tags)>;
  // Finishes the last record of the map, which decode() has returned. `keeps_sent`: the record
  // also keeps what was sent, if it is changed.
  void finish(std::size_t map, Event& event, bool keeps_sent, const Finish& change);
  // Returns why the last record of the map was not decoded, or that it may be of another type, with
  // the types that could be meant; the first time only, then nullopt.
  std::optional<std::string> explain(std::size_t map);
  // Number of records of known maps with a size that no layout has. They are shown raw.
  std::uint64_t unknown_layouts() const { return unknown_layouts_; }

private:
  struct Stream {
    std::string map;
    std::optional<std::string> known_name; // accepted by find_known_map()
    bpf::MapUse use = bpf::MapUse::ring_buffer;
    std::optional<std::size_t> object = {};             // whose types come first
    std::vector<values::BtfTypes::Type> requested = {}; // selected by the size of a record
    bool has_own_request = false;                       // with the name of the map
    std::vector<values::BtfTypes::Type> candidates;     // likewise
    std::vector<values::BtfTypes::Type> variables = {}; // likewise, if one alone has the size
    std::optional<std::size_t> raw_size = {};           // of the last record without a type
    std::optional<std::uint32_t> last_type = {};        // of the last record, in types_
    std::optional<std::string> doubt = {};              // about the last record
    bool is_explained = false;                          // it was reported why records are bytes
    bool is_doubted = false; // it was reported that one of several types was chosen
    bool is_padded = false;  // it was reported that elements may be padding

    bool is_buffer() const { return bpf::is_buffer(use); }
  };
  // `others`: gets types that the record may have as well.
  static const values::BtfTypes::Type*
  find_type(const Stream& stream, std::size_t size,
            std::vector<const values::BtfTypes::Type*>& others);
  const std::shared_ptr<const values::ValueType>& value_type(std::uint32_t id);
  static Result<void> apply(const RecordTypeRequest& request, const values::BtfTypes* types,
                            std::span<Stream> streams);

  std::shared_ptr<const values::BtfTypes> types_;                  // null: none
  std::map<std::uint32_t, std::vector<values::ShownAsRule>> tags_; // by type; those that were used
  std::map<std::uint32_t, std::shared_ptr<const values::ValueType>> value_types_; // likewise
  std::vector<Stream> streams_;
  std::uint64_t unknown_layouts_ = 0;
};

} // namespace uprobectl::events
