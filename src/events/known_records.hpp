// What the programs of Android's UprobeStats write into their ring buffers, which have no types of
// their own: told apart by the map's name, then by size. Layouts of LP64. Source: AOSP
// packages/modules/UprobeStats src/bpf_progs (uprobestats_bpf_structs.h and its forerunners).
#pragma once

#include "bpf/types.hpp"

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

} // namespace uprobectl
