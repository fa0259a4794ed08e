// SPDX-License-Identifier: Apache-2.0
#include "elf/xz.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <lzma.h>

namespace uprobectl::elf {

namespace {

// Owns the state of liblzma.
class XzDecoder {
public:
  explicit XzDecoder(std::uint64_t memory)
      : state_(::lzma_stream_decoder(&stream_, memory, LZMA_TELL_UNSUPPORTED_CHECK)) {}
  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;
  ~XzDecoder() { ::lzma_end(&stream_); }

  lzma_stream& stream() { return stream_; }
  lzma_ret state() const { return state_; }
  void run() { state_ = ::lzma_code(&stream_, LZMA_FINISH); }

private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_ret state_;
};

Error explain(lzma_ret state, const XzLimits& limits) {
  switch (static_cast<int>(state)) {
  case LZMA_MEMLIMIT_ERROR:
    return {ErrorKind::unsupported,
            fmt::format("xz data needs more than {} MiB to be decompressed", limits.memory >> 20)};
  case LZMA_OPTIONS_ERROR:
  case LZMA_UNSUPPORTED_CHECK:
    return {ErrorKind::unsupported, "xz data uses an unsupported filter or check"};
  case LZMA_FORMAT_ERROR:
    return {ErrorKind::corrupt, "not xz data"};
  case LZMA_BUF_ERROR:
    return {ErrorKind::corrupt, "xz data is truncated"};
  default:
    return {ErrorKind::corrupt, "xz data is damaged"};
  }
}

Error xz_too_large(std::size_t size, std::uint64_t max_size) {
  return {ErrorKind::unsupported,
          fmt::format("{} bytes of xz data are too large when inflated (expected at most {} bytes)",
                      size, max_size)};
}

} // namespace

Result<std::vector<std::byte>> decode_xz(Bytes compressed, const XzLimits& limits) {
  constexpr std::uint64_t always_allowed = 1 << 20; // bytes, for any ratio
  const std::uint64_t by_ratio =
      checked_mul(compressed.size(), limits.ratio).value_or(limits.output);
  const std::uint64_t max_size = std::min(limits.output, std::max(by_ratio, always_allowed));

  XzDecoder decoder(limits.memory);
  lzma_stream& stream = decoder.stream();
  stream.next_in = reinterpret_cast<const std::uint8_t*>(compressed.data());
  stream.avail_in = compressed.size();
  std::vector<std::byte> output;
  // Symbol tables are compressed to a fourth or less. Room for one byte above the limit
  // distinguishes output that reaches it from output that exceeds it.
  std::uint64_t room = std::min(max_size + 1, std::max<std::uint64_t>(compressed.size() * 4, 4096));
  while (decoder.state() == LZMA_OK) {
    if (stream.avail_out == 0) {
      if (output.size() > max_size) return fail(xz_too_large(compressed.size(), max_size));
      const std::size_t filled = output.size();
      output.resize(room);
      stream.next_out = reinterpret_cast<std::uint8_t*>(output.data()) + filled;
      stream.avail_out = output.size() - filled;
      room = std::min(max_size + 1, room * 2);
    }
    decoder.run();
  }
  if (decoder.state() != LZMA_STREAM_END) return fail(explain(decoder.state(), limits));
  output.resize(output.size() - stream.avail_out);
  if (output.size() > max_size) return fail(xz_too_large(compressed.size(), max_size));
  return output;
}

} // namespace uprobectl::elf
