#include "uprobestats/event_buffer.hpp"

namespace uprobectl {

namespace {

// stats_event.c: the lower half of a type byte; the upper one counts annotations, of which there
// are none here.
constexpr std::byte int32_type{0x00};
constexpr std::byte int64_type{0x01};
constexpr std::byte string_type{0x02};
constexpr std::byte bool_type{0x05};
constexpr std::byte object_type{0x07};
constexpr std::byte error_type{0x0f};

constexpr std::size_t count_at = 1; // behind the object's type

} // namespace

template <typename Number>
void StatsdEvent::append(Number value) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&value); // hosts are little-endian
  bytes_.insert(bytes_.end(), raw, raw + sizeof(value));
}

void StatsdEvent::begin_field(std::byte type, std::size_t size) {
  ++elements_;
  if (elements_ > most_elements) problems_ |= too_many_fields;
  if (bytes_.size() + 1 + size > most_bytes) problems_ |= overflow;
  if (problems_ == 0) bytes_.push_back(type);
}

StatsdEvent::StatsdEvent(std::uint64_t time_ns, std::int32_t atom_id) {
  bytes_.push_back(object_type);
  bytes_.push_back(std::byte{0}); // how many elements; known at the end
  add_int64(static_cast<std::int64_t>(time_ns));
  add_int32(atom_id);
  fields_at_ = bytes_.size();
}

// What cannot be kept any more is not: an endless text would not be either.
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

} // namespace uprobectl
