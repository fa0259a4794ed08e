// SPDX-License-Identifier: Apache-2.0
#include "trace/file_watch.hpp"

#include "support/temporary_folder.hpp"
#include "util/mapped_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace uprobectl::trace {

namespace {

constexpr FileWatch::Time first_look{std::chrono::hours(1)};

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
  CHECK(watch.look(first_look).empty());
  writer << "and more" << std::flush;
  const auto changes = watch.look(first_look + std::chrono::hours(1000000));
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().file == &*file);
  CHECK(changes.front().change == FileChange::written);
  CHECK(watch.look(first_look + std::chrono::hours(2000000)).empty());
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
  const auto changes = watch.look(first_look);
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().change == FileChange::replaced);
}

} // namespace uprobectl::trace
