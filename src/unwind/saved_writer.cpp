// SPDX-License-Identifier: Apache-2.0
#include "unwind/saved_writer.hpp"

#include "uprobectl/path.hpp"
#include "util/shrinking.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

constexpr std::uint64_t max_file_size = std::uint64_t{512} << 20;
constexpr std::uint64_t max_folder_size = std::uint64_t{1} << 30;

// A newline in a path would end the line (see src/process/maps.cpp).
std::string escape_newlines(std::string_view path) {
  std::string text;
  for (const char letter : path) {
    if (letter == '\n')
      text += "\\012";
    else
      text += letter;
  }
  return text;
}

// Whether read_saved_stack() interprets a file of this name.
bool is_reserved(std::string_view name) {
  return name == "regs.txt" || name == "maps.txt" ||
         (name.starts_with("stack") && name.ends_with(".data"));
}

Error shrunk(std::string_view path) {
  return {ErrorKind::io, std::string(path) + ": changed size while it was being read"};
}

// `source`: where the content is mapped from, empty if it is ours.
Result<void> write_all(int fd, Bytes content, const std::string& path, std::string_view source) {
  while (!content.empty()) {
    const ssize_t size = ::write(fd, content.data(), content.size());
    if (size < 0 && errno == EINTR) continue;
    // write() fails with EFAULT, without SIGBUS, if the mapped file has shrunk.
    if (size < 0 && errno == EFAULT && !source.empty()) return fail(shrunk(source));
    if (size < 0) return fail(system_error(errno, path));
    content = content.subspan(static_cast<std::size_t>(size));
  }
  return {};
}

} // namespace

std::string registers_text(const Registers& registers, bool at_function_entry) {
  std::string text;
  for (std::uint8_t number = 0; number < Registers::count; ++number)
    if (const auto value = registers.get(number))
      text += fmt::format("{}: {:x}\n", register_name(registers.arch(), number), *value);
  if (at_function_entry) text += "at_function_entry: 1\n";
  return text;
}

std::string maps_text(std::span<const Mapping> mappings) {
  std::string text;
  for (const Mapping& mapping : mappings) {
    const std::uint64_t device = mapping.identity.device;
    text += fmt::format("{:x}-{:x} r-{}p {:08x} {:02x}:{:02x} {} {}{}\n", mapping.start,
                        mapping.end, mapping.executable ? 'x' : '-', mapping.offset.value,
                        ::gnu_dev_major(device), ::gnu_dev_minor(device), mapping.identity.inode,
                        escape_newlines(mapping.path), mapping.deleted ? " (deleted)" : "");
  }
  return text;
}

Result<SavedFolder> SavedFolder::create(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0) return fail(system_error(errno, folder));
  return SavedFolder(folder);
}

Result<void> SavedFolder::write(std::string_view name, Bytes content, std::string_view source) {
  const std::string path = folder_ + "/" + std::string(name);
  const UniqueFd fd{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!fd) return fail(system_error(errno, path));
  return write_all(fd.get(), content, path, source);
}

void SavedFolder::remove() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string SavedFolder::free_name(std::string_view path) const {
  const std::string base(path == "[vdso]" ? "vdso.so" : file_name_of(path));
  std::string name = base;
  for (int number = 2; names_.contains(name) || is_reserved(name); ++number)
    name = std::to_string(number) + "-" + base;
  return name;
}

Result<std::optional<std::string>>
SavedFolder::add_file(const MappedObject& object, std::string_view path,
                      std::map<FileIdentity, std::string>& copies) {
  const std::uint64_t size = object.bytes.size();
  if (size > max_file_size || size > max_folder_size - written_) return std::nullopt;
  const std::string name = free_name(path);
  const std::string copy = folder_ + "/" + name;
  const auto before = object.file ? copies.find(object.file->identity()) : copies.end();
  if (before == copies.end() || ::link(before->second.c_str(), copy.c_str()) != 0) {
    auto written = write(name, object.bytes, path);
    if (!written) return fail(std::move(written).error());
    // Bytes that the file has lost were written as zeros.
    if (has_shrunk(object.bytes)) return fail(shrunk(path));
    if (object.file) copies.insert_or_assign(object.file->identity(), copy);
  }
  names_.insert(name);
  written_ += size;
  if (path == "[vdso]") return std::string(path);
  return std::string(path.substr(0, path.size() - file_name_of(path).size())) + name;
}

} // namespace uprobectl::unwind
