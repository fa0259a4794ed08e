// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace uprobectl::test {

// Removes the folder with all that is in it.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "unit-test-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::filesystem::path path;
};

} // namespace uprobectl::test
