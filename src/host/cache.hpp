// SPDX-License-Identifier: Apache-2.0
// What the workstation keeps between runs: files in $XDG_CACHE_HOME/uprobectl, else in
// ~/.cache/uprobectl. Several runs may use them at the same time. Losing them only costs time, so
// that no function reports errors.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::host {

class Cache {
public:
  static constexpr std::uint64_t default_size = std::uint64_t{1} << 30;

  // Returns the cache of the user. Returns nullopt if no folder can be one: HOME is not set, or
  // root has the HOME of another user.
  static std::optional<Cache> of_user();
  // max_bytes: of all entries.
  Cache(std::string folder, std::uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  struct Entry {
    std::string content;
    std::string sha256; // of the content
  };
  // name: of a-z, 0-9 and '-'. Returns nullopt if there is no such entry, or if it is damaged: then
  // it is removed.
  std::optional<Entry> read(const std::string& name) const;
  bool has(const std::string& name) const; // not whether it is damaged
  // Replaces the entry, and removes those that were not used for the longest time if there are too
  // many bytes. Creates the folder.
  void write(const std::string& name, const Entry& entry) const;
  void remove(const std::string& name) const;
  // Removes all entries and the folder.
  void clear() const;

  const std::string& folder() const { return folder_; }

private:
  bool is_own_folder() const;
  bool make_folder() const;
  void trim(const std::string& newest) const;
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  std::uint64_t max_bytes_;
};

} // namespace uprobectl::host
