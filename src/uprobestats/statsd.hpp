// SPDX-License-Identifier: Apache-2.0
// Encodes records of BPF programs as atoms of Android's statsd and sends them to a datagram socket.
// Wire format: AOSP packages/modules/StatsD lib/libstatssocket (stats_event.c,
// stats_socket.c) and system/logging liblog (android_log_header_t).
#pragma once

#include "events/events.hpp"
#include "uprobectl/util.hpp"
#include "uprobestats/binder_filter.hpp"
#include "uprobestats/service.hpp"

namespace uprobectl::uprobestats {

// Where a CallResult record contains an argument of the probed method.
struct StatsdArgument {
  std::optional<std::size_t> register_index; // among the registers of the record, from 0
  bool is_32bit = false; // its type is known to be int or narrower: the upper half is undefined
  std::string problem;   // why there is no register

  bool operator==(const StatsdArgument&) const = default;
};

// The atom that a task logs for each record.
struct StatsdAtom {
  std::int64_t atom_id = 0;              // must fit 32 bits
  std::vector<StatsdArgument> arguments; // of CallResult records: the arguments to log
  // Android 15 logs the arguments of CallResult records as 32-bit numbers, later versions as 64-bit
  // ones.
  Service service = newest_service;

  bool operator==(const StatsdAtom&) const = default;
};

// Encodes a record, whose layout is known by the name of its map (events.hpp), with the fields that
// UprobeStats logs. `time_ns`: CLOCK_BOOTTIME. The registers of a CallResult are in the order of
// the C calling convention, as the GenericInstrumentation.o of uprobectl writes them on every
// machine and that of Android on arm64. Fails with unsupported if no atom is defined for the
// record.
Result<std::vector<std::byte>> encode_atom(const events::UserRecord& record, const StatsdAtom& atom,
                                           std::uint64_t time_ns);

// Encodes a BinderTransaction with the fields that a filter selects for it. `method` must have an
// atom. Fails with unsupported if this is another record.
Result<std::vector<std::byte>> encode_binder_atom(const events::UserRecord& record,
                                                  const BinderMethod& method,
                                                  std::uint64_t time_ns);
// Returns the method that a BinderTransaction calls, or nullptr if no filter selects it.
const BinderMethod* find_binder_method(const events::UserRecord& record,
                                       const BinderFilters& filters);

// Sends atoms to statsd's datagram socket. Never blocks.
class StatsdSocket {
public:
  // Connects at the first event. Each event reconnects once if statsd was restarted.
  explicit StatsdSocket(std::string path) : path_(std::move(path)) {}

  // Sends an atom and counts it as sent or refused.
  void send(Bytes event);
  std::uint64_t sent() const { return sent_; }
  std::uint64_t refused() const { return refused_; } // the socket was full or had no receiver
  const std::optional<Error>& last_error() const { return last_error_; }

private:
  Result<void> connect();

  std::string path_;
  UniqueFd socket_;
  std::uint64_t sent_ = 0;
  std::uint64_t refused_ = 0;
  std::optional<Error> last_error_;
};

// Builds the event buffer of one atom (libstatssocket's stats_event.c).
class StatsdEvent {
public:
  static constexpr std::size_t max_bytes = 4068 - 4; // LOGGER_ENTRY_MAX_PAYLOAD less the tag
  static constexpr std::size_t max_elements = 127;   // including the time and the atom's id

  // Bits of the error field, which replaces all other fields after an error.
  enum Problem : std::uint32_t { overflow = 0x4, too_many_fields = 0x200 };

  StatsdEvent(std::uint64_t time_ns, std::int32_t atom_id); // CLOCK_BOOTTIME

  void add_int32(std::int32_t value);
  void add_int64(std::int64_t value);
  void add_bool(bool value);
  void add_string(std::string_view text);
  // Annotates the last field, which must not have an annotation yet.
  void add_bool_annotation(std::uint8_t id, bool value);
  static constexpr std::uint8_t is_uid = 1; // ASTATSLOG_ANNOTATION_ID_IS_UID

  // Returns the buffer. If there were problems, an error field, which statsd counts, replaces the
  // fields.
  std::vector<std::byte> finish() const;

private:
  void begin_field(std::byte type, std::size_t size);
  template <typename Number>
  void append(Number value);

  std::vector<std::byte> bytes_;
  std::size_t elements_ = 0;
  std::size_t fields_at_ = 0;
  std::size_t last_field_at_ = 0; // its type byte
  std::uint32_t problems_ = 0;
};

} // namespace uprobectl::uprobestats
