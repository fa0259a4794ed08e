// SPDX-License-Identifier: Apache-2.0
#include "trace/file_watch.hpp"

#include "support/temporary_folder.hpp"
#include "util/mapped_file.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

// Longer than any pause between two looks.
constexpr std::chrono::minutes later{1};

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path) << text;
}

struct OpenedFile {
  OpenedFile() { REQUIRE(file); }
  static Result<MappedFile> open(const std::filesystem::path& path) {
    write_text(path, "old");
    return MappedFile::open(path);
  }

  test::TemporaryFolder folder;
  std::filesystem::path path = folder.path / "file";
  Result<MappedFile> file = open(path);
};

// Without waiting for the holder of a lease.
UniqueFd open_for_writing(const std::filesystem::path& path) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

} // namespace

TEST_CASE("a file that was written to since it was opened is not watched") {
  const OpenedFile opened;
  write_text(opened.path, "longer");
  FileWatch watch;
  const auto added = watch.add(*opened.file);
  REQUIRE_FALSE(added);
  CHECK(added.error().kind == ErrorKind::io);
  CHECK_FALSE(watch.check());
}

TEST_CASE("who wants to write to a watched file waits until writers are released") {
  const OpenedFile opened;
  FileWatch watch;
  REQUIRE(watch.add(*opened.file));
  CHECK_FALSE(open_for_writing(opened.path));
  CHECK(errno == EWOULDBLOCK);
  const auto changes = watch.look(std::chrono::steady_clock::now());
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().change == FileChange::written);
  CHECK_FALSE(open_for_writing(opened.path));
  watch.release_writers();
  CHECK(open_for_writing(opened.path));
  CHECK_FALSE(watch.add(*opened.file)); // although nothing was written
}

TEST_CASE("a write to a file that was open for writing already is seen once") {
  const OpenedFile opened;
  const UniqueFd writer = open_for_writing(opened.path);
  REQUIRE(writer);
  FileWatch watch;
  REQUIRE(watch.add(*opened.file));
  const auto now = std::chrono::steady_clock::now();
  CHECK(watch.look(now).empty());
  REQUIRE(::write(writer.get(), "longer", 6) == 6);
  const auto changes = watch.look(now + later);
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().file == &*opened.file);
  CHECK(changes.front().change == FileChange::written);
  CHECK(watch.look(now + 2 * later).empty());
}

TEST_CASE("a file that is replaced by another counts as replaced, not as written") {
  const OpenedFile opened;
  FileWatch watch;
  REQUIRE(watch.add(*opened.file));
  write_text(opened.folder.path / "new", "new");
  std::filesystem::rename(opened.folder.path / "new", opened.path);
  CHECK(watch.check());
  const auto changes = watch.look(std::chrono::steady_clock::now());
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().change == FileChange::replaced);
}

} // namespace uprobectl::trace
