// SPDX-License-Identifier: Apache-2.0
#include "host/frames.hpp"

#include "util/errnos.hpp"

#include <algorithm>
#include <concepts>
#include <fmt/format.h>

namespace uprobectl::host {

namespace {

constexpr std::size_t header_size = 5;

template <typename T>
void append_integer(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

constexpr auto first_request = static_cast<std::size_t>(FrameType::first_request);

bool is_request(std::uint8_t type) {
  return type >= first_request && type < first_request + std::variant_size_v<WorkstationRequest>;
}

bool is_known(std::uint8_t type) {
  return (type >= 1 && type <= 4) || (type >= 16 && type <= 23) || (type >= 32 && type <= 36) ||
         is_request(type);
}

// Appends the fields of a request.
class RequestWriter {
public:
  explicit RequestWriter(std::string& out) : out_(out) {}

  template <std::unsigned_integral T>
  void number(T value) {
    append_integer(out_, value);
  }
  void flag(bool value) { number(static_cast<std::uint8_t>(value)); }
  template <typename T>
  void choice(T value, T /*last*/) {
    number(static_cast<std::uint8_t>(value));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint16_t>(value.size()));
    out_ += value;
  }
  void hexadecimal(std::string_view value) { text(value); }

private:
  std::string& out_;
};

// Reads what RequestWriter has appended.
class RequestParser {
public:
  explicit RequestParser(std::string_view payload) : bytes_(as_bytes(payload)) {}

  bool is_complete() const { return is_valid_ && at_ == bytes_.size(); }

  template <std::unsigned_integral T>
  void number(T& value) {
    const auto read = read_at<T>(bytes_, at_);
    is_valid_ = is_valid_ && read.has_value();
    value = is_valid_ ? *read : T{};
    if (is_valid_) at_ += sizeof(T);
  }
  void flag(bool& value) {
    std::uint8_t byte = 0;
    number(byte);
    is_valid_ = is_valid_ && byte <= 1;
    value = byte == 1;
  }
  template <typename T>
  void choice(T& value, T last) {
    std::uint8_t byte = 0;
    number(byte);
    is_valid_ = is_valid_ && byte <= static_cast<std::uint8_t>(last);
    if (is_valid_) value = static_cast<T>(byte);
  }
  // Rejects empty texts and NUL.
  void text(std::string& value) {
    std::uint16_t size = 0;
    number(size);
    const auto part = slice(bytes_, at_, size);
    is_valid_ = is_valid_ && size > 0 && part && !as_text(*part).contains('\0');
    if (!is_valid_) return;
    value = as_text(*part);
    at_ += size;
  }
  void hexadecimal(std::string& value) {
    text(value);
    is_valid_ = is_valid_ && value.find_first_not_of("0123456789abcdef") == std::string::npos;
  }

private:
  Bytes bytes_;
  std::size_t at_ = 0;
  bool is_valid_ = true;
};

// Calls `visit` with a request of the kind.
template <std::size_t Kind = 0>
void visit_kind(WorkstationRequest& request, std::size_t kind, const auto& visit) {
  if constexpr (Kind < std::variant_size_v<WorkstationRequest>) {
    if (kind == Kind) return visit(request.emplace<Kind>());
    visit_kind<Kind + 1>(request, kind, visit);
  }
}

} // namespace

void append_frame(std::string& out, FrameType type, std::string_view payload) {
  append_integer(out, static_cast<std::uint32_t>(payload.size()));
  out += static_cast<char>(type);
  out += payload;
}

void append_byte_frame(std::string& out, FrameType type, std::uint8_t value) {
  const char byte = static_cast<char>(value);
  append_frame(out, type, {&byte, 1});
}

void append_numbered(std::string& out, FrameType type, std::uint32_t number,
                     std::string_view rest) {
  append_integer(out, static_cast<std::uint32_t>(sizeof(number) + rest.size()));
  out += static_cast<char>(type);
  append_integer(out, number);
  out += rest;
}

void append_start(std::string& out, std::uint8_t bits, std::uint32_t served) {
  std::string payload;
  append_integer(payload, bits);
  append_integer(payload, served);
  append_frame(out, FrameType::start, payload);
}

void append_hello(std::string& out, std::string_view program_version) {
  std::string payload;
  append_integer(payload, protocol_version);
  append_frame(out, FrameType::hello, payload += program_version);
}

void append_request(std::string& out, const NumberedRequest& request) {
  std::string payload;
  append_integer(payload, request.number);
  RequestWriter writer(payload);
  std::visit([&](const auto& each) { each.describe(writer, each); }, request.request);
  append_frame(out, static_cast<FrameType>(first_request + request.request.index()), payload);
}

void append_result(std::string& out, std::uint32_t number, int errnum) {
  std::string rest;
  append_integer(rest, static_cast<std::uint32_t>(errnum));
  append_numbered(out, FrameType::result, number, rest);
}

void append_split(std::string& out, FrameType type, std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), max_payload)))
    append_frame(out, type, bytes.substr(0, max_payload));
}

void append_file_data(std::string& out, std::uint32_t number, std::string_view bytes) {
  constexpr std::size_t most = max_payload - sizeof(number);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), most)))
    append_numbered(out, FrameType::file_data, number, bytes.substr(0, most));
}

std::optional<std::uint8_t> read_byte(std::string_view payload) {
  if (payload.size() != 1) return std::nullopt;
  return static_cast<std::uint8_t>(payload[0]);
}

std::optional<Numbered> read_numbered(std::string_view payload) {
  const auto number = read_at<std::uint32_t>(as_bytes(payload), 0);
  if (!number) return std::nullopt;
  return Numbered{*number, payload.substr(sizeof(*number))};
}

std::optional<int> read_errno(std::string_view rest) {
  const auto number = read_at<std::uint32_t>(as_bytes(rest), 0);
  if (!number || rest.size() != sizeof(*number) || *number > max_errno) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<NumberedRequest> read_request(const Frame& frame) {
  const auto type = static_cast<std::uint8_t>(frame.type);
  const auto numbered = read_numbered(frame.payload);
  if (!numbered || !is_request(type)) return std::nullopt;
  NumberedRequest read{numbered->number, {}};
  RequestParser parser(numbered->rest);
  visit_kind(read.request, type - first_request,
             [&](auto& request) { request.describe(parser, request); });
  if (!parser.is_complete()) return std::nullopt;
  return read;
}

Result<std::string> read_hello(std::string_view payload) {
  const auto version = read_at<std::uint16_t>(as_bytes(payload), 0);
  if (!version) return fail(ErrorKind::corrupt, "truncated hello frame");
  if (*version != protocol_version)
    return fail(ErrorKind::unsupported,
                fmt::format("protocol version {}, expected {}", *version, protocol_version));
  return std::string(payload.substr(sizeof(*version)));
}

void FrameReader::append(std::string_view bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_ += bytes;
}

Result<std::optional<Frame>> FrameReader::next() {
  const Bytes rest = as_bytes(std::string_view(buffer_).substr(at_));
  const auto size = read_at<std::uint32_t>(rest, 0);
  if (!size) return std::nullopt;
  if (*size > max_payload)
    return fail(ErrorKind::corrupt,
                fmt::format("frame of {} bytes, expected at most {}", *size, max_payload));
  const auto type = read_at<std::uint8_t>(rest, sizeof(*size));
  if (!type) return std::nullopt;
  if (!is_known(*type))
    return fail(ErrorKind::corrupt, fmt::format("unknown frame type {}", *type));
  const auto payload = slice(rest, header_size, *size);
  if (!payload) return std::nullopt;
  at_ += header_size + *size;
  return Frame{static_cast<FrameType>(*type), as_text(*payload)};
}

} // namespace uprobectl::host
