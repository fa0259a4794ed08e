// SPDX-License-Identifier: Apache-2.0
// Files mapped into this process, and folders for them.
#pragma once

#include "uprobectl/util.hpp"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::test {

inline std::string temporary_folder() {
  std::string name = std::filesystem::temp_directory_path() / "uprobectl-live-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

// A file, mapped executable into this process.
struct MappedHere {
  MappedHere(std::string where, const std::string& content) : path(std::move(where)) {
    std::ofstream(path) << content;
    map();
  }
  explicit MappedHere(std::string where) : path(std::move(where)) { map(); }
  MappedHere(const MappedHere&) = delete;
  MappedHere& operator=(const MappedHere&) = delete;
  ~MappedHere() { ::munmap(start, size); }
  void map() {
    const int fd = ::open(path.c_str(), O_RDONLY);
    REQUIRE(fd >= 0);
    size = std::filesystem::file_size(path);
    start = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    ::close(fd);
    REQUIRE(start != MAP_FAILED);
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(start); }

  std::string path;
  void* start = nullptr;
  std::size_t size = 0;
};

inline FileIdentity identity_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return {status.st_dev, status.st_ino};
}

} // namespace uprobectl::test
