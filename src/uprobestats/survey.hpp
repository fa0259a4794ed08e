// Looks through the binary form of a message before the library makes objects of it: whether it is
// well-formed, how much there is, and what is in it that its description does not have.
#pragma once

#include "uprobestats/schema.hpp"
#include "uprobestats/wire.hpp"

namespace uprobectl::uprobestats {

struct OddField {
  std::string place; // "tasks 1, probe_configs 2"; empty at the top
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t offset = 0; // in the file
  bool known = false;       // the number is known, but for another type
  // That the field, an enumeration of this name, does not have.
  std::optional<std::int64_t> value = {};
  std::string_view name = {};
};
std::string to_string(const OddField& field); // "tasks 1: field 9 (a number) at byte 0x1c"

// corrupt where it is no message, out_of_range where there are more fields than any task file has.
Result<std::vector<OddField>> survey_message(Bytes message, const MessageType& type);

} // namespace uprobectl::uprobestats
