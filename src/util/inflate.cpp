// SPDX-License-Identifier: Apache-2.0
#include "util/inflate.hpp"

#include <algorithm>
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

} // namespace

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

} // namespace uprobectl
