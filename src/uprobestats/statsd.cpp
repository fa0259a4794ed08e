// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/statsd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <fmt/format.h>
#include <limits>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace uprobectl::uprobestats {

namespace {

// stats_event.c: the lower half of a type byte. The upper half is the number of annotations.
constexpr std::byte int32_type{0x00};
constexpr std::byte int64_type{0x01};
constexpr std::byte string_type{0x02};
constexpr std::byte bool_type{0x05};
constexpr std::byte object_type{0x07};
constexpr std::byte error_type{0x0f};

constexpr std::size_t count_at = 1; // follows the object's type

// Reads the members of a record by name. A member that is missing or has another type reads as 0,
// false or empty.
class RecordMembers {
public:
  explicit RecordMembers(const values::Value::Struct& members) : members_(members) {}

  const values::Value* find(std::string_view name) const {
    const auto found = std::ranges::find(members_, name, &values::ValueMember::name);
    return found == members_.end() ? nullptr : &found->value;
  }
  std::int64_t number(std::string_view name) const {
    const values::Value* const value = find(name);
    if (value == nullptr) return 0;
    if (const auto* const u = std::get_if<std::uint64_t>(&value->value))
      return static_cast<std::int64_t>(*u);
    const auto* const s = std::get_if<std::int64_t>(&value->value);
    return s == nullptr ? 0 : *s;
  }
  std::int32_t int32(std::string_view name) const {
    return static_cast<std::int32_t>(number(name));
  }
  bool flag(std::string_view name) const {
    const values::Value* const value = find(name);
    return value != nullptr && number_of(*value).value_or(0) != 0;
  }
  std::string text(std::string_view name) const {
    const values::Value* const value = find(name);
    if (value == nullptr) return {};
    if (const auto* const named = std::get_if<values::Value::Name>(&value->value))
      return named->text;
    const auto* const text = std::get_if<std::string>(&value->value);
    return text == nullptr ? "" : *text;
  }

private:
  const values::Value::Struct& members_;
};

Result<void> add_arguments(StatsdEvent& event, const RecordMembers& members,
                           const StatsdAtom& atom) {
  const values::Value* const value = members.find("regs");
  const auto* const registers =
      value == nullptr ? nullptr : std::get_if<values::Value::Array>(&value->value);
  for (const StatsdArgument& argument : atom.arguments) {
    if (!argument.register_index) return fail(ErrorKind::unsupported, argument.problem);
    if (registers == nullptr || *argument.register_index >= registers->size())
      return fail(ErrorKind::unsupported,
                  fmt::format("the record has no register {}", *argument.register_index));
    const auto& word = (*registers)[*argument.register_index].value;
    const auto* const address = std::get_if<values::Value::Pointer>(&word);
    const auto* const number = std::get_if<std::uint64_t>(&word);
    const std::uint64_t raw = address != nullptr  ? address->address
                              : number != nullptr ? *number
                                                  : 0;
    if (atom.service == Service::android15)
      event.add_int32(static_cast<std::int32_t>(raw));
    else
      event.add_int64(argument.is_32bit ? static_cast<std::int32_t>(raw)
                                        : static_cast<std::int64_t>(raw));
  }
  return {};
}

Result<void> add_fields(StatsdEvent& event, std::string_view type, const RecordMembers& members,
                        const StatsdAtom& atom) {
  if (type == "CallResult") return add_arguments(event, members, atom);
  if (type == "CallTimestamp") {
    event.add_int32(members.int32("event"));
    event.add_int64(members.number("timestamp_ns"));
  } else if (type == "UpdateDeviceIdleTempAllowlistRecord") {
    event.add_int32(members.int32("changing_uid"));
    event.add_bool(members.flag("adding"));
    event.add_int64(members.number("duration_ms"));
    event.add_int32(members.int32("type"));
    event.add_int32(members.int32("reason_code"));
    event.add_string(members.text("reason"));
    event.add_int32(members.int32("calling_uid"));
  } else if (type == "SetUidTempAllowlistStateRecord") {
    event.add_int32(members.int32("uid"));
    event.add_bool(members.flag("on_allowlist"));
  } else {
    return fail(ErrorKind::unsupported,
                fmt::format("no atom is defined for records of type '{}'", type));
  }
  return {};
}

constexpr int send_buffer = 2 * 1024 * 1024;    // bytes, as libstatssocket asks for
constexpr std::uint8_t log_id = 5;              // LOG_ID_STATS
constexpr std::uint32_t event_tag = 0x73746174; // kStatsEventTag
constexpr std::size_t header_size = 1 + 2 + 4 + 4 + 4;

// Makes an android_log_header_t, packed (log, thread, CLOCK_REALTIME), followed by the event tag.
std::array<std::byte, header_size> make_header() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::array<std::byte, header_size> header{};
  std::size_t at = 0;
  const auto put = [&](auto value) {
    std::memcpy(header.data() + at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(log_id);
  put(static_cast<std::uint16_t>(::gettid()));
  put(static_cast<std::uint32_t>(now.tv_sec));
  put(static_cast<std::uint32_t>(now.tv_nsec));
  put(event_tag);
  return header;
}

// Returns 0 or an errno.
int send_datagram(int socket, Bytes event) {
  auto header = make_header();
  std::array<iovec, 2> parts = {
      {{header.data(), header.size()}, {const_cast<std::byte*>(event.data()), event.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

// Whether the receiver has closed its socket; it may open another one at the same path.
bool is_disconnected(int error) {
  return error == ENOTCONN || error == ECONNREFUSED || error == ENOENT || error == ECONNRESET ||
         error == EPIPE;
}

} // namespace

template <typename Number>
void StatsdEvent::append(Number value) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&value); // hosts are little-endian
  bytes_.insert(bytes_.end(), raw, raw + sizeof(value));
}

void StatsdEvent::begin_field(std::byte type, std::size_t size) {
  ++elements_;
  if (elements_ > max_elements) problems_ |= too_many_fields;
  if (bytes_.size() + 1 + size > max_bytes) problems_ |= overflow;
  if (problems_ != 0) return;
  last_field_at_ = bytes_.size();
  bytes_.push_back(type);
}

StatsdEvent::StatsdEvent(std::uint64_t time_ns, std::int32_t atom_id) {
  bytes_.push_back(object_type);
  bytes_.push_back(std::byte{0}); // number of elements; set by finish()
  add_int64(static_cast<std::int64_t>(time_ns));
  add_int32(atom_id);
  fields_at_ = bytes_.size();
}

// After an error nothing is appended, so the buffer stays within max_bytes.
void StatsdEvent::add_int32(std::int32_t value) {
  begin_field(int32_type, sizeof(value));
  if (problems_ == 0) append(value);
}

void StatsdEvent::add_int64(std::int64_t value) {
  begin_field(int64_type, sizeof(value));
  if (problems_ == 0) append(value);
}

void StatsdEvent::add_bool(bool value) {
  begin_field(bool_type, 1);
  if (problems_ == 0) bytes_.push_back(std::byte{value});
}

void StatsdEvent::add_string(std::string_view text) {
  begin_field(string_type, sizeof(std::int32_t) + text.size());
  if (problems_ != 0) return;
  append(static_cast<std::int32_t>(text.size()));
  const auto* const raw = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), raw, raw + text.size());
}

// The annotation follows the value of the field, whose type byte counts it.
void StatsdEvent::add_bool_annotation(std::uint8_t id, bool value) {
  constexpr std::size_t size = 3;
  if (bytes_.size() + size > max_bytes) problems_ |= overflow;
  if (problems_ != 0) return;
  bytes_[last_field_at_] |= std::byte{1} << 4U;
  bytes_.insert(bytes_.end(), {std::byte{id}, bool_type, std::byte{value}});
}

std::vector<std::byte> StatsdEvent::finish() const {
  StatsdEvent done = *this;
  if (problems_ != 0) {
    done.bytes_.resize(fields_at_);
    done.bytes_.push_back(error_type);
    done.append(problems_);
    done.elements_ = 3; // time, id, error
  }
  done.bytes_[count_at] = static_cast<std::byte>(done.elements_);
  return std::move(done.bytes_);
}

Result<std::vector<std::byte>> encode_atom(const events::UserRecord& record, const StatsdAtom& atom,
                                           std::uint64_t time_ns) {
  if (atom.atom_id <= 0 || atom.atom_id > std::numeric_limits<std::int32_t>::max())
    return fail(ErrorKind::unsupported, fmt::format("invalid atom id {}", atom.atom_id));
  const auto* const members =
      record.value ? std::get_if<values::Value::Struct>(&record.value->value) : nullptr;
  if (members == nullptr || !record.type)
    return fail(ErrorKind::unsupported,
                fmt::format("unknown record layout of map '{}'", record.map));
  StatsdEvent event(time_ns, static_cast<std::int32_t>(atom.atom_id));
  if (auto added = add_fields(event, *record.type, RecordMembers(*members), atom); !added)
    return fail(std::move(added).error());
  return event.finish();
}

namespace {

const values::Value::Struct* members_of(const events::UserRecord& record, std::string_view type) {
  if (!record.value || record.type != type) return nullptr;
  return std::get_if<values::Value::Struct>(&record.value->value);
}

} // namespace

const BinderMethod* find_binder_method(const events::UserRecord& record,
                                       const BinderFilters& filters) {
  const auto* const values = members_of(record, "BinderTransaction");
  if (values == nullptr) return nullptr;
  const RecordMembers members(*values);
  return uprobestats::find_method(filters, members.text("interface_descriptor"),
                                  static_cast<std::uint64_t>(members.number("code")));
}

Result<std::vector<std::byte>> encode_binder_atom(const events::UserRecord& record,
                                                  const BinderMethod& method,
                                                  std::uint64_t time_ns) {
  const auto* const values = members_of(record, "BinderTransaction");
  if (values == nullptr || !method.atom_id)
    return fail(ErrorKind::unsupported,
                fmt::format("no atom is defined for the records of map '{}'", record.map));
  const RecordMembers members(*values);
  StatsdEvent event(time_ns, *method.atom_id);
  for (const uprobestats::proto::AtomFieldPosition field : method.atom_fields) {
    switch (field) {
    case uprobestats::proto::calling_uid:
      event.add_int32(members.int32("calling_uid"));
      event.add_bool_annotation(StatsdEvent::is_uid, true);
      break;
    case uprobestats::proto::interface_name:
      event.add_string(members.text("interface_descriptor"));
      break;
    case uprobestats::proto::code:
      event.add_int32(members.int32("code"));
      break;
    case uprobestats::proto::ktime_ns:
      event.add_int64(members.number("timestamp_ns"));
      break;
    case uprobestats::proto::unknown_position:
      std::unreachable();
    }
  }
  return event.finish();
}

Result<void> StatsdSocket::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof(address.sun_path))
    return fail(ErrorKind::usage, "invalid socket path '" + path_ + "'");
  path_.copy(address.sun_path, path_.size());
  UniqueFd made{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!made) return fail(system_error(errno, "cannot create a socket"));
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail(system_error(errno, path_));
  socket_ = std::move(made);
  return {};
}

void StatsdSocket::send(Bytes event) {
  std::optional<Error> problem;
  const bool was_connected = static_cast<bool>(socket_);
  if (!was_connected)
    if (auto connected = connect(); !connected) problem = std::move(connected).error();
  if (!problem) {
    int error = send_datagram(socket_.get(), event);
    if (was_connected && is_disconnected(error)) {
      socket_ = UniqueFd();
      auto connected = connect();
      error = connected ? send_datagram(socket_.get(), event) : error;
    }
    if (error == EAGAIN || error == EWOULDBLOCK)
      problem = Error{ErrorKind::io, path_ + ": full, its reader is too slow"};
    else if (error != 0)
      problem = system_error(error, path_);
    if (is_disconnected(error)) socket_ = UniqueFd();
  }
  if (problem) {
    ++refused_;
    last_error_ = std::move(problem);
  } else {
    ++sent_;
  }
}

} // namespace uprobectl::uprobestats
