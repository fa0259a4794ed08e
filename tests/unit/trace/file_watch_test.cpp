// SPDX-License-Identifier: Apache-2.0
#include "trace/file_watch.hpp"

#include "support/temporary_folder.hpp"
#include "util/mapped_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace uprobectl::trace {

namespace {

// Longer than any pause between two looks.
constexpr std::chrono::minutes later{1};

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path) << text;
}

} // namespace

TEST_CASE("a file that was written to since it was opened is not watched") {
  const test::TemporaryFolder folder;
  const auto path = folder.path / "file";
  write_text(path, "old");
  const auto file = MappedFile::open(path);
  REQUIRE(file);
  write_text(path, "longer");
  FileWatch watch;
  const auto added = watch.add(*file);
  REQUIRE_FALSE(added);
  CHECK(added.error().kind == ErrorKind::io);
  CHECK_FALSE(watch.check());
}

TEST_CASE("a file that is open for writing already has no lease, and its write is seen once") {
  const test::TemporaryFolder folder;
  const auto path = folder.path / "file";
  std::ofstream writer(path);
  writer << "old" << std::flush;
  const auto file = MappedFile::open(path);
  REQUIRE(file);
  FileWatch watch;
  REQUIRE(watch.add(*file));
  const auto now = std::chrono::steady_clock::now();
  CHECK(watch.look(now).empty());
  writer << "and more" << std::flush;
  const auto changes = watch.look(now + later);
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().file == &*file);
  CHECK(changes.front().change == FileChange::written);
  CHECK(watch.look(now + 2 * later).empty());
}

TEST_CASE("a file that is replaced by another counts as replaced, not as written") {
  const test::TemporaryFolder folder;
  const auto path = folder.path / "file";
  write_text(path, "old");
  const auto file = MappedFile::open(path);
  REQUIRE(file);
  FileWatch watch;
  REQUIRE(watch.add(*file));
  write_text(folder.path / "new", "new");
  std::filesystem::rename(folder.path / "new", path);
  CHECK(watch.check());
  const auto changes = watch.look(std::chrono::steady_clock::now());
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().change == FileChange::replaced);
}

} // namespace uprobectl::trace
