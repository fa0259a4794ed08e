// SPDX-License-Identifier: Apache-2.0
// Basic types of all modules: Result and Error, one type for each kind of offset, bounded byte
// access, and owned file descriptors and mappings.
//
// A function that can fail returns Result<T>. Only exceptions of the standard library, such as
// std::bad_alloc, cross modules: they end the program.
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

// The class of a failure. code() returns its stable name, which is the `code` of `error` records in
// the JSON output. Names are added, never changed.
enum class ErrorKind {
  usage,         // the request itself is malformed
  not_found,     // a file, entry, symbol or process does not exist
  ambiguous,     // several results, but one is required
  imported,      // the symbol is undefined in this file; another file defines it
  no_code,       // a name or number that does not refer to executable bytes of the file
  compressed,    // a compressed archive entry, which the kernel cannot probe
  encrypted,     // an archive entry that is encrypted
  misaligned,    // stored at an offset that the loader or the kernel cannot use
  duplicated,    // an archive entry whose name occurs more than once
  wrong_machine, // an architecture that the target processes cannot run
  not_elf,       // the bytes are not an ELF image
  not_archive,   // the bytes are not a ZIP archive
  corrupt,       // malformed or truncated data
  out_of_range,  // an offset beyond the end of its file, section or function
  not_permitted, // a capability, mode or sysctl is missing
  unsupported,   // not supported by this build, this kernel or for this file format
  io,            // any other error of the operating system
  interrupted,   // stopped by a signal before completion
};

std::string_view code(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string message;                 // lower case, no full stop, the cause first
  std::vector<std::string> hints = {}; // each an instruction, or a command that can be copied

  // Prefixes the message with its subject: "libc.so.6: ...".
  Error within(std::string_view subject) &&;
  // Appends a hint.
  Error hint(std::string text) &&;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }
inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

// Converts an errno value: ENOENT, ENOTDIR and ESRCH to not_found, EACCES and EPERM to
// not_permitted, all others to io. The message is "WHAT: strerror text" with a lower-case start. If
// descriptors or memory are used up, a hint says which limit to raise.
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

// A byte position from the start of the file on disk, which is what the kernel expects. It equals
// the image offset for a plain ELF file. In an archive it is larger by the entry's data offset.
struct FileOffset {
  std::uint64_t value = 0;
  auto operator<=>(const FileOffset&) const = default;
};

// ----------------------------------------------------------------------------------- bytes

using Bytes = std::span<const std::byte>;

enum class ByteOrder { little, big };

// Returns a + b, or nullopt on overflow.
inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// Returns a * b, or nullopt on overflow.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Returns the `size` bytes at offset, or nullopt if they exceed the bytes.
inline std::optional<Bytes> slice(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

// Copies a structure from offset, which need not be aligned. Does not convert the byte order.
// Returns nullopt if the structure is truncated.
template <typename Structure>
std::optional<Structure> structure_at(Bytes bytes, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<Structure>);
  const auto part = slice(bytes, offset, sizeof(Structure));
  if (!part) return std::nullopt;
  Structure structure;
  std::memcpy(&structure, part->data(), sizeof(structure));
  return structure;
}

// Reads an unsigned integer of the given byte order at offset. Returns nullopt if it is truncated.
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

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Returns the text at offset up to its NUL, or nullopt if there is no NUL inside the bytes.
inline std::optional<std::string_view> c_string_at(Bytes bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return std::nullopt;
  const std::string_view text = as_text(bytes.subspan(offset));
  const auto nul = text.find('\0');
  if (nul == std::string_view::npos) return std::nullopt;
  return text.substr(0, nul);
}

// ------------------------------------------------------------------------------ descriptors

// Owns a file descriptor and closes it. get() is -1 if there is none.
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

// Identifies a file. Two paths with equal identity are the same file to the kernel.
struct FileIdentity {
  std::uint64_t device = 0; // st_dev
  std::uint64_t inode = 0;  // st_ino
  auto operator<=>(const FileIdentity&) const = default;
};

// How a file has changed since it was opened.
enum class FileChange {
  none,
  replaced, // its path now refers to another file, or to none
  written,  // its content has changed
};

class RangeReader; // of a file on another machine (util/mapped_file.hpp)

// A regular file, opened and mapped completely and read-only. The descriptor stays open as long as
// the mapping, so that the file that was resolved is probed even if its path changes meanwhile.
// open() rejects FIFOs and devices without blocking. If the file shrinks, accessing the lost bytes
// raises SIGBUS (see util/mapped_file.hpp).
class MappedFile {
public:
  static Result<MappedFile> open(const std::string& path);
  // Maps a copy of a file that another machine has at this path. real_path() and change() do not
  // look for the path on this machine.
  static Result<MappedFile> of_copy(UniqueFd copy, const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  FileIdentity identity() const { return identity_; }
  const std::string& path() const { return path_; } // as given to open()

  // The absolute path with symbolic links resolved. It is below /proc/PID/root if the file is not
  // reachable otherwise, for example in another mount namespace.
  Result<std::string> real_path() const;

  // Compares size and modification time. Misses a write that follows another one within the
  // resolution of the file system's clock (some milliseconds).
  FileChange change() const;

private:
  friend Result<MappedFile> map_on_demand(std::uint64_t size, const std::string& path,
                                          std::unique_ptr<RangeReader> reader);
  MappedFile(UniqueFd fd, Bytes bytes, FileIdentity identity, std::int64_t modified_ns,
             std::string path, bool is_copy);
  static Result<MappedFile> map(UniqueFd fd, const std::string& path, bool is_copy);

  UniqueFd fd_;
  Bytes bytes_;
  FileIdentity identity_;
  std::int64_t modified_ns_ = 0; // since 1970
  std::string path_;
  bool is_copy_ = false;
};

} // namespace uprobectl
