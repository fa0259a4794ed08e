// SPDX-License-Identifier: Apache-2.0
#include "util/inflate.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <zlib.h>

namespace uprobectl {

namespace {

constexpr std::size_t max_step = std::size_t{1} << 30; // zlib's counters have 32 bits

// Owns the state of zlib.
class Inflater {
public:
  enum class Format { raw_deflate, gzip };

  Inflater(Bytes input, Format format) : input_(input), format_(format) {
    const int window = format == Format::gzip ? 16 + MAX_WBITS : -MAX_WBITS;
    ready_ = ::inflateInit2(&stream_, window) == Z_OK;
    ok_ = ready_;
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) ::inflateEnd(&stream_);
  }

  bool ok() const { return ok_; }
  bool done() const { return done_; }

  // The number of bytes after those that were read.
  std::size_t unread() const { return stream_.avail_in + input_.size(); }

  // Returns the number of bytes written: less than the size of the output only at the end of the
  // data or if it fails.
  std::size_t fill(std::span<std::byte> output) {
    std::size_t filled = 0;
    while (ok_ && !done_ && filled < output.size()) {
      const std::size_t size = std::min(output.size() - filled, max_step);
      stream_.next_out = reinterpret_cast<Bytef*>(output.data() + filled);
      stream_.avail_out = static_cast<uInt>(size);
      step();
      filled += size - stream_.avail_out;
    }
    return filled;
  }

private:
  void step() {
    if (stream_.avail_in == 0) {
      const std::size_t size = std::min(input_.size(), max_step);
      // zlib does not write through next_in; its type is older than const.
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input_.data()));
      stream_.avail_in = static_cast<uInt>(size);
      input_ = input_.subspan(size);
    }
    const int state = ::inflate(&stream_, Z_NO_FLUSH); // Z_BUF_ERROR if the data ends too early
    const bool more_input = stream_.avail_in > 0 || !input_.empty();
    if (state == Z_STREAM_END && format_ == Format::gzip && more_input)
      ok_ = ::inflateReset(&stream_) == Z_OK; // another member
    else if (state == Z_STREAM_END)
      done_ = true;
    else
      ok_ = state == Z_OK;
  }

  Bytes input_;
  Format format_;
  z_stream stream_{};
  bool ready_ = false;
  bool ok_ = false;
  bool done_ = false;
};

// Returns the checksum of zlib data (RFC 1950, 8.2). zlib's own function adds bytes one by one; the
// sums of 16 columns are independent, so that compilers add them at once.
std::uint32_t adler32_of(Bytes data) {
  constexpr std::uint32_t base = 65521;
  constexpr std::size_t columns = 16;
  constexpr std::size_t max_rows = 128; // sums of sums fit into 32 bits
  std::uint32_t sum = 1;
  std::uint64_t sums = 0;
  while (data.size() >= columns) {
    const std::size_t rows = std::min(data.size() / columns, max_rows);
    std::array<std::uint32_t, columns> column{}; // its bytes
    std::array<std::uint32_t, columns> before{}; // its sums before each of its bytes
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns; ++i) {
        before[i] += column[i];
        column[i] += std::to_integer<std::uint32_t>(data[row * columns + i]);
      }
    sums += std::uint64_t{rows} * columns * sum;
    for (std::size_t i = 0; i < columns; ++i) {
      // A byte counts once for itself and each byte after it.
      sums += std::uint64_t{columns} * (before[i] + column[i]) - std::uint64_t{i} * column[i];
      sum += column[i];
    }
    sum %= base;
    sums %= base;
    data = data.subspan(rows * columns);
  }
  for (const std::byte byte : data) {
    sum += std::to_integer<std::uint32_t>(byte);
    sums += sum;
  }
  return static_cast<std::uint32_t>(sums % base) << 16U | sum % base;
}

} // namespace

bool inflate_zlib_into(std::span<std::byte> output, Bytes data) {
  constexpr std::size_t head_size = 2;
  const auto head = read_at<std::uint16_t>(data, 0, ByteOrder::big);
  constexpr unsigned method_mask = 0x0f00;
  constexpr unsigned deflate = 0x0800;
  constexpr unsigned has_dictionary = 0x0020;
  if (!head || (*head & method_mask) != deflate || (*head & has_dictionary) != 0 || *head % 31 != 0)
    return false;
  const Bytes deflated = data.subspan(head_size);
  Inflater inflater(deflated, Inflater::Format::raw_deflate);
  if (inflater.fill(output) != output.size()) return false;
  std::byte beyond{};
  if (inflater.fill({&beyond, 1}) != 0 || !inflater.done()) return false;
  return read_at<std::uint32_t>(deflated.last(inflater.unread()), 0, ByteOrder::big) ==
         adler32_of(output);
}

bool inflate_into(std::span<std::byte> output, Bytes data) {
  Inflater inflater(data, Inflater::Format::raw_deflate);
  return inflater.fill(output) == output.size() && inflater.ok();
}

Result<std::vector<std::byte>> gunzip(Bytes compressed, std::uint64_t max_size) {
  Inflater inflater(compressed, Inflater::Format::gzip);
  std::vector<std::byte> content;
  std::uint64_t step = std::max<std::uint64_t>(compressed.size() * 4, 4096);
  while (inflater.ok() && !inflater.done()) {
    const std::size_t filled = content.size();
    // One byte more than max_size, to detect that the content exceeds it.
    content.resize(filled + std::min({step, max_size + 1 - filled, std::uint64_t{max_step}}));
    content.resize(filled + inflater.fill(std::span(content).subspan(filled)));
    if (content.size() > max_size)
      return fail(ErrorKind::unsupported,
                  "decompressed size exceeds " + std::to_string(max_size) + " bytes");
    step = content.size();
  }
  if (!inflater.ok()) return fail(ErrorKind::corrupt, "not a whole gzip file");
  return content;
}

std::uint32_t crc32_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<std::string> gzip(std::string_view content) {
  const Error too_large{ErrorKind::unsupported, "too large to compress"};
  if (content.size() > std::numeric_limits<uInt>::max() / 2) return fail(too_large);
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    return fail(too_large);
  std::string out(::deflateBound(&stream, content.size()), '\0');
  // zlib does not write through next_in; its type is older than const.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = ::deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (!done) return fail(too_large);
  return out;
}

} // namespace uprobectl
