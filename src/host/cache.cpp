// SPDX-License-Identifier: Apache-2.0
#include "host/cache.hpp"

#include "util/descriptor_io.hpp"
#include "util/sha256.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

// An entry is this, the SHA-256 of its content, a newline, and the content.
constexpr std::string_view entry_mark = "uprobectl cache 1 ";
constexpr std::size_t entry_head = entry_mark.size() + 64 + 1;
// Names of files that are being written.
constexpr std::string_view unfinished_mark = "unfinished.";
constexpr std::int64_t unfinished_seconds = 3600; // then their writer is gone

// XDG Base Directory Specification 0.8: a path that is not absolute is ignored.
std::string absolute_path_in(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

bool belongs_to_user(const std::string& folder) {
  struct stat status{};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

struct FoundFile {
  std::string name;
  std::uint64_t size = 0;
  timespec used{};

  bool is_unfinished() const { return name.starts_with(unfinished_mark); }
};

// Lists only regular files: nothing else here is ours.
std::vector<FoundFile> files_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
  std::vector<FoundFile> files;
  while (opened != nullptr) {
    const dirent* const entry = ::readdir(opened.get());
    if (entry == nullptr) break;
    struct stat status{};
    if (::fstatat(::dirfd(opened.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode))
      files.push_back({entry->d_name, static_cast<std::uint64_t>(status.st_size), status.st_mtim});
  }
  return files;
}

} // namespace

std::optional<Cache> Cache::of_user() {
  std::string base = absolute_path_in("XDG_CACHE_HOME");
  if (base.empty()) {
    const std::string home = absolute_path_in("HOME");
    // Files of root in the home of another user could not be removed by that user.
    if (home.empty() || !belongs_to_user(home)) return std::nullopt;
    base = home + "/.cache";
  }
  return Cache(base + "/uprobectl", default_size);
}

// The content is believed, so nobody else may write here.
bool Cache::is_own_folder() const {
  struct stat status{};
  return ::lstat(folder_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool Cache::make_folder() const {
  constexpr mode_t mode = 0700;
  const std::string base = folder_.substr(0, folder_.rfind('/'));
  if (::mkdir(base.c_str(), mode) != 0 && !belongs_to_user(base)) return false;
  ::mkdir(folder_.c_str(), mode);
  return is_own_folder();
}

std::optional<Cache::Entry> Cache::read(const std::string& name) const {
  if (!is_own_folder()) return std::nullopt;
  const std::string path = path_of(name);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string text;
  if (S_ISREG(status.st_mode) && size >= entry_head && size <= max_bytes_)
    text = read_up_to(file.get(), size).value_or(std::string());
  if (text.size() == size && text.starts_with(entry_mark)) {
    Entry entry{.content = {}, .sha256 = text.substr(entry_mark.size(), 64)};
    text.erase(0, entry_head);
    entry.content = std::move(text);
    if (sha256_of(as_bytes(entry.content)) == entry.sha256) {
      ::futimens(file.get(), nullptr); // it was used now
      return entry;
    }
  }
  remove(name);
  return std::nullopt;
}

bool Cache::has(const std::string& name) const {
  return ::access(path_of(name).c_str(), F_OK) == 0;
}

void Cache::write(const std::string& name, const Entry& entry) const {
  static std::atomic<unsigned> last = 0;
  if (entry_head + entry.content.size() > max_bytes_ || !make_folder()) return;
  // A reader sees the old entry or the whole new one. Damage by a crash is found by the checksum.
  const std::string unfinished =
      path_of(fmt::format("{}{}.{}", unfinished_mark, ::getpid(), last.fetch_add(1)));
  const UniqueFd file(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return;
  const std::string head = fmt::format("{}{}\n", entry_mark, entry.sha256);
  const bool is_written = write_all(file.get(), as_bytes(head)) &&
                          write_all(file.get(), as_bytes(entry.content)) &&
                          ::rename(unfinished.c_str(), path_of(name).c_str()) == 0;
  if (!is_written) ::unlink(unfinished.c_str());
  trim(name);
}

void Cache::remove(const std::string& name) const { ::unlink(path_of(name).c_str()); }

// Others may remove the same files.
void Cache::trim(const std::string& newest) const {
  std::vector<FoundFile> files = files_in(folder_);
  std::ranges::sort(files, {}, [](const FoundFile& file) {
    return std::pair(file.used.tv_sec, file.used.tv_nsec);
  });
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t total = 0;
  for (const FoundFile& file : files) total += file.size;
  for (const FoundFile& file : files) {
    const bool is_left = file.is_unfinished() && now.tv_sec - file.used.tv_sec > unfinished_seconds;
    const bool is_old = total > max_bytes_ && !file.is_unfinished() && file.name != newest;
    if (!is_left && !is_old) continue;
    remove(file.name);
    total -= file.size;
  }
}

void Cache::clear() const {
  if (!is_own_folder()) return;
  for (const FoundFile& file : files_in(folder_)) remove(file.name);
  ::rmdir(folder_.c_str());
}

} // namespace uprobectl::host
