#include "stacks/gunzip.hpp"

#include <algorithm>
#include <zlib.h>

namespace uprobectl::stacks {

namespace {

// zlib's state, ended whichever way the function is left. Its counters have 32 bits.
class Inflation {
public:
  explicit Inflation(Bytes input) : input_(input) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    ok_ = ::inflateInit2(&stream_, gzip_only) == Z_OK;
  }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() { ::inflateEnd(&stream_); }

  bool ok() const { return ok_; }
  bool done() const { return done_; }

  // Writes up to the room; fewer only at the end or where it fails.
  std::size_t fill(std::span<std::byte> room) {
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = static_cast<uInt>(room.size());
    while (ok_ && !done_ && stream_.avail_out > 0) step();
    return room.size() - stream_.avail_out;
  }

private:
  void step() {
    if (stream_.avail_in == 0) {
      const std::size_t some = std::min<std::size_t>(input_.size(), 1U << 30);
      // zlib's type is older than const.
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input_.data())); // NOLINT
      stream_.avail_in = static_cast<uInt>(some);
      input_ = input_.subspan(some);
    }
    const int state = ::inflate(&stream_, Z_NO_FLUSH);
    if (state == Z_STREAM_END) {
      if (stream_.avail_in == 0 && input_.empty())
        done_ = true;
      else
        ok_ = ::inflateReset(&stream_) == Z_OK; // another member
    } else if (state != Z_OK) {
      ok_ = false;
    }
  }

  Bytes input_;
  z_stream stream_ = {};
  bool ok_ = false;
  bool done_ = false;
};

} // namespace

Result<std::vector<std::byte>> gunzip(Bytes compressed, std::uint64_t most) {
  Inflation inflation(compressed);
  std::vector<std::byte> content;
  std::uint64_t room = std::max<std::uint64_t>(compressed.size() * 4, 4096);
  while (inflation.ok() && !inflation.done()) {
    const std::size_t filled = content.size();
    // One byte above the bound tells what reaches it from what goes beyond.
    content.resize(filled + std::min({room, most + 1 - filled, std::uint64_t{1} << 30}));
    content.resize(filled + inflation.fill(std::span(content).subspan(filled)));
    if (content.size() > most)
      return fail(ErrorKind::unsupported,
                  "becomes more than " + std::to_string(most) + " bytes, the most that is taken");
    room = content.size();
  }
  if (!inflation.ok()) return fail(ErrorKind::corrupt, "not a whole gzip file");
  return content;
}

} // namespace uprobectl::stacks
