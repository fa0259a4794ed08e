// SPDX-License-Identifier: Apache-2.0
// What every module stands on: errors as values, bytes read with checked arithmetic, offsets that
// cannot be mistaken for each other, and owned file descriptors and mappings. Nothing else, ever.
//
// No exception crosses a module: a function that can fail returns Result<T>.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace uprobectl {

// ---------------------------------------------------------------------------------- errors

// Why something could not be done, coarse enough to act on. code() gives the stable name that the
// `error` record of the command line contract carries; names are added, never changed.
enum class ErrorKind {
  usage,         // the request itself is malformed
  not_found,     // a file, entry, symbol or process is not there
  ambiguous,     // several answers where one is needed
  imported,      // the symbol is only referenced here, its code is elsewhere
  no_code,       // a name or number that does not denote executable bytes of the file
  compressed,    // an archive entry the kernel cannot probe because it is not stored
  encrypted,     // an archive entry that is encrypted
  misaligned,    // stored where the loader or the kernel cannot use it
  duplicated,    // an archive entry whose name occurs more than once
  wrong_machine, // a file that a probed process can never run
  not_elf,       // the bytes are not an ELF image
  not_archive,   // the bytes are not a ZIP archive
  corrupt,       // bytes that contradict their own format, truncation included
  out_of_range,  // an offset beyond what it is relative to
  not_permitted, // a capability, mode or sysctl is missing
  unsupported,   // this build, file format or kernel cannot do it
  io,            // the operating system failed for another reason
  interrupted,   // ended by a signal before the work was done
};

std::string_view code(ErrorKind kind);

// message: lower case, no full stop, the cause first. hints: what a person can type next.
struct Error {
  ErrorKind kind;
  std::string message;
  std::vector<std::string> hints = {};

  // Prefixes the message with the subject that only the caller knows: "libc.so.6: ...".
  Error within(std::string_view subject) &&;
  Error hint(std::string text) &&;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }
inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

// An errno value as an Error: ENOENT, ENOTDIR and ESRCH are not_found, EACCES and EPERM
// not_permitted, the rest io. The message is "WHAT: strerror text" with a lower-case start.
Error system_error(int errnum, std::string_view what);

// --------------------------------------------------------------------------------- offsets

// An address in the ELF image's own numbering (st_value, p_vaddr; what nm prints).
struct VirtualAddress {
  std::uint64_t value = 0;
  auto operator<=>(const VirtualAddress&) const = default;
};

// A byte position from the start of the ELF image.
struct ImageOffset {
  std::uint64_t value = 0;
  auto operator<=>(const ImageOffset&) const = default;
};

// A byte position from the start of the file on disk: what the kernel takes. Equal to the image
// offset for a plain ELF file, larger by the entry's data offset inside an archive.
struct FileOffset {
  std::uint64_t value = 0;
  auto operator<=>(const FileOffset&) const = default;
};

// ----------------------------------------------------------------------------------- bytes

using Bytes = std::span<const std::byte>;

enum class ByteOrder { little, big };

// a + b, or nothing if it would wrap around.
inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or nothing if it would wrap around.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The size bytes at offset, or nothing if they are not all inside.
inline std::optional<Bytes> slice(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

// A structure as it lies at offset, in whatever byte order, copied out because nothing says that it
// is aligned there; nothing if it is not all inside.
template <typename Structure>
std::optional<Structure> structure_at(Bytes bytes, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<Structure>);
  const auto part = slice(bytes, offset, sizeof(Structure));
  if (!part) return std::nullopt;
  Structure structure;
  std::memcpy(&structure, part->data(), sizeof(structure));
  return structure;
}

// An unsigned integer at offset in the given byte order, or nothing if it is not all inside.
template <typename T>
std::optional<T> read_at(Bytes bytes, std::uint64_t offset, ByteOrder order = ByteOrder::little) {
  static_assert(std::is_unsigned_v<T>);
  const auto field = slice(bytes, offset, sizeof(T));
  if (!field) return std::nullopt;
  T value = 0;
  std::memcpy(&value, field->data(), sizeof(T));
  if (order == ByteOrder::little) return value; // every supported host is little-endian
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  return value;
}

// The NUL-terminated text at offset without its NUL, or nothing if no NUL follows inside.
std::optional<std::string_view> c_string_at(Bytes bytes, std::uint64_t offset);

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// ------------------------------------------------------------------------------ descriptors

// Owns a file descriptor and closes it. -1 means none.
class UniqueFd {
public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

private:
  int fd_ = -1;
};

// Which file on which device: two paths with equal identity are the same file to the kernel.
struct FileIdentity {
  std::uint64_t device = 0; // st_dev
  std::uint64_t inode = 0;  // st_ino
  auto operator<=>(const FileIdentity&) const = default;
};

// What has become of an open file since it was opened.
enum class FileChange {
  none,
  replaced, // its path now leads to another file, or to none
  written,  // its own content is no longer the same
};

// A regular file opened for reading and mapped whole, read-only and private. The descriptor stays
// open as long as the mapping, so what was resolved is what gets probed, whatever happens to the
// path meanwhile. Only regular files: a FIFO or device is refused without blocking. A file that
// shrinks while mapped raises SIGBUS on access; main turns that into an error message.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  FileIdentity identity() const { return identity_; }
  const std::string& path() const { return path_; } // as given to open()

  // Absolute, links resolved; below /proc/PID/root if only that leads to the file from here.
  Result<std::string> real_path() const;

  // By size and time of modification: a write within the clock's grain (some milliseconds) of
  // another may be missed.
  FileChange change() const;

private:
  MappedFile(UniqueFd fd, Bytes bytes, FileIdentity identity, std::int64_t modified_ns,
             std::string path);

  UniqueFd fd_;
  Bytes bytes_;
  FileIdentity identity_;
  std::int64_t modified_ns_ = 0; // since 1970
  std::string path_;
};

} // namespace uprobectl
