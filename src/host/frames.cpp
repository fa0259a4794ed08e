// SPDX-License-Identifier: Apache-2.0
#include "host/frames.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::host {

namespace {

constexpr std::size_t header_size = 5;

template <typename T>
void append_integer(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

bool is_known(std::uint8_t type) {
  return (type >= 1 && type <= 4) || (type >= 16 && type <= 23) || (type >= 32 && type <= 36);
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

void append_hello(std::string& out, std::string_view program_version) {
  std::string payload;
  append_integer(payload, protocol_version);
  append_frame(out, FrameType::hello, payload += program_version);
}

void append_file_request(std::string& out, const FileRequest& request) {
  std::string payload;
  append_integer(payload, request.number);
  payload += static_cast<char>(request.operation);
  append_integer(payload, request.flags);
  append_integer(payload, request.mode);
  append_frame(out, FrameType::file_request, payload += request.path);
}

void append_file_result(std::string& out, std::uint32_t number, int errnum) {
  std::string rest;
  append_integer(rest, static_cast<std::uint32_t>(errnum));
  append_numbered(out, FrameType::file_result, number, rest);
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

std::optional<FileRequest> read_file_request(std::string_view payload) {
  constexpr std::size_t fixed_size = 13;
  const Bytes bytes = as_bytes(payload);
  const auto number = read_at<std::uint32_t>(bytes, 0);
  const auto operation = read_at<std::uint8_t>(bytes, 4);
  const auto flags = read_at<std::uint32_t>(bytes, 5);
  const auto mode = read_at<std::uint32_t>(bytes, 9);
  if (!number || !operation || !flags || !mode ||
      *operation > static_cast<std::uint8_t>(FileOperation::remove_folder))
    return std::nullopt;
  const std::string_view path = payload.substr(fixed_size);
  if (path.empty() || path.contains('\0')) return std::nullopt;
  return FileRequest{*number, static_cast<FileOperation>(*operation), *flags, *mode, path};
}

std::optional<int> read_errno(std::string_view rest) {
  constexpr std::uint32_t max_errno = 4095; // include/linux/err.h
  const auto number = read_at<std::uint32_t>(as_bytes(rest), 0);
  if (!number || rest.size() != sizeof(*number) || *number > max_errno) return std::nullopt;
  return static_cast<int>(*number);
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
