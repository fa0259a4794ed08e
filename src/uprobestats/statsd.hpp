// SPDX-License-Identifier: Apache-2.0
// Atoms for Android's statsd: how a record of a BPF program becomes one, and the datagram socket
// that takes them. Wire format: AOSP packages/modules/StatsD lib/libstatssocket (stats_event.c,
// stats_socket.c) and system/logging liblog (android_log_header_t).
#pragma once

#include "events/events.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl {

// An argument of the method that a record of generic details is of.
struct StatsdArgument {
  std::optional<std::size_t> place; // among the record's registers, from 0
  std::string problem;              // why it has none

  bool operator==(const StatsdArgument&) const = default;
};

// What a task file says about logging, and what is known of the method.
struct StatsdAtom {
  std::int64_t atom_id = 0;              // of 32 bits in the wire format
  std::vector<StatsdArgument> arguments; // of generic details: those to log

  bool operator==(const StatsdAtom&) const = default;
};

// The event buffer of a record whose layout is known by its map's name (events.hpp), with the
// fields that UprobeStats logs. `time_ns`: CLOCK_BOOTTIME. The arguments of a CallResult are in the
// order of ART's calling convention, as our GenericInstrumentation.o has them on every machine and
// Android's on arm64. unsupported, with the reason, for a record that makes no atom.
Result<std::vector<std::byte>> encode_atom(const UserRecord& record, const StatsdAtom& atom,
                                           std::uint64_t time_ns);

// A socket that takes atoms. Nothing is ever waited for.
class StatsdSocket {
public:
  static constexpr std::string_view usual_path = "/dev/socket/statsdw";

  // Connects at the first event; reconnects once where statsd has begun anew.
  explicit StatsdSocket(std::string path) : path_(std::move(path)) {}

  void send(Bytes event); // counts
  std::uint64_t sent() const { return sent_; }
  std::uint64_t refused() const { return refused_; } // full, or nobody listens
  const std::optional<Error>& last_error() const { return last_error_; }

private:
  Result<void> connect();

  std::string path_;
  UniqueFd socket_;
  std::uint64_t sent_ = 0;
  std::uint64_t refused_ = 0;
  std::optional<Error> last_error_;
};

// One atom as statsd reads it: libstatssocket's stats_event.c.

class StatsdEvent {
public:
  static constexpr std::size_t max_bytes = 4068 - 4; // LOGGER_ENTRY_MAX_PAYLOAD without the tag
  static constexpr std::size_t max_elements = 127;   // with the time and the atom's id

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
