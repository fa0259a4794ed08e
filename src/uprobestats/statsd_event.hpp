// One atom as statsd reads it: libstatssocket's stats_event.c.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

class StatsdEvent {
public:
  static constexpr std::size_t most_bytes = 4068 - 4; // LOGGER_ENTRY_MAX_PAYLOAD without the tag
  static constexpr std::size_t most_elements = 127;   // with the time and the atom's id

  // Bits of the field that stands for all others where something went wrong.
  enum Problem : std::uint32_t { overflow = 0x4, too_many_fields = 0x200 };

  StatsdEvent(std::uint64_t time_ns, std::int32_t atom_id); // CLOCK_BOOTTIME

  void add_int32(std::int32_t value);
  void add_int64(std::int64_t value);
  void add_bool(bool value);
  void add_string(std::string_view text);

  // With only the problems in place of its fields, if there were any: statsd counts them.
  std::vector<std::byte> finish() const;

private:
  void begin_field(std::byte type, std::size_t size);
  template <typename Number>
  void append(Number value);

  std::vector<std::byte> bytes_;
  std::size_t elements_ = 0;
  std::size_t fields_at_ = 0;
  std::uint32_t problems_ = 0;
};

} // namespace uprobectl
