// SPDX-License-Identifier: Apache-2.0
#include "resolve/in_process.hpp"

#include "zip_builder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::resolve {

namespace {

constexpr std::size_t page = 4096;

// A file in a folder of its own. This process maps one page of it.
class MappedHere {
public:
  MappedHere(const std::string& name, const std::string& bytes, off_t offset) {
    char folder[] = "/tmp/uprobectl-test-XXXXXX";
    REQUIRE(mkdtemp(folder) != nullptr);
    folder_ = folder;
    path = folder_ + "/" + name;
    const UniqueFd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    start_ = mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), offset);
    REQUIRE(start_ != MAP_FAILED);
  }
  ~MappedHere() {
    munmap(start_, page);
    std::filesystem::remove_all(folder_);
  }
  std::string path;

private:
  std::string folder_;
  void* start_ = nullptr;
};

std::vector<ProcessFile> find_here(std::string_view text) {
  const pid_t self[] = {getpid()};
  auto found = find_in_processes(text, self);
  REQUIRE(found);
  return std::move(*found);
}

} // namespace

TEST_CASE("a bare name means the library that the process maps, with or without lib and version") {
  const MappedHere library("libmapped.so.3", std::string(page, 'x'), 0);
  for (const char* name : {"libmapped.so.3", "mapped"}) {
    const auto found = find_here(name);
    REQUIRE(found.size() == 1);
    CHECK(found[0].display_path == BinaryPath{library.path, std::nullopt});
    CHECK(found[0].open_path == "/proc/" + std::to_string(getpid()) + "/root" + library.path);
    CHECK(found[0].warnings.empty());
  }
  CHECK(find_here("libmapped.so").empty());
}

TEST_CASE("a library mapped straight from an archive is found by its own name") {
  test::ZipFile zip;
  test::ZipEntry padding{.name = "padding", .data = std::string(3 * page, 'p')};
  test::ZipEntry library{.name = "lib/x86_64/libinside.so", .data = std::string(4 * page, 'l')};
  zip.entries = {padding, library};
  const MappedHere archive("app.apk", zip.bytes(), 4 * page); // well inside the library's bytes
  const auto found = find_here("libinside.so");
  REQUIRE(found.size() == 1);
  CHECK(found[0].display_path == BinaryPath{archive.path, "lib/x86_64/libinside.so"});
}

TEST_CASE("a file that was removed while mapped is reached through the mapping") {
  const MappedHere library("libgone.so", std::string(page, 'g'), 0);
  REQUIRE(unlink(library.path.c_str()) == 0);
  if (access("/proc/self/map_files", R_OK | X_OK) != 0 || geteuid() != 0) {
    WARN("skipped: /proc/self/map_files needs root");
    return;
  }
  const auto found = find_here("libgone.so");
  REQUIRE(found.size() == 1);
  CHECK(found[0].open_path.find("/map_files/") != std::string::npos);
  REQUIRE(found[0].warnings.size() == 1);
  const auto file = MappedFile::open(found[0].open_path);
  REQUIRE(file);
  CHECK(as_text(file->bytes()) == std::string(page, 'g'));
}

TEST_CASE("an absolute path is read in the process's root folder, a replaced one with a warning") {
  const MappedHere library("libreplaced.so", std::string(page, 'o'), 0);
  const auto before = find_here(library.path);
  REQUIRE(before.size() == 1);
  CHECK(before[0].warnings.empty());

  REQUIRE(unlink(library.path.c_str()) == 0);
  {
    const UniqueFd fresh{::open(library.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  }
  const auto after = find_here(library.path);
  REQUIRE(after.size() == 1);
  CHECK(after[0].identity != before[0].identity);
  CHECK(after[0].warnings == std::vector{library.path + ": process " + std::to_string(getpid()) +
                                         " maps an older file that had this path"});
}

TEST_CASE("of all mapped files those that are ELF are found, each once") {
  const std::string elf = "\x7f"
                          "ELF" +
                          std::string(page, 'e');
  const MappedHere library("libelf.so", elf, 0);
  const MappedHere text("libtext.so", std::string(page, 't'), 0);
  test::ZipFile zip;
  zip.entries = {{.name = "padding", .data = std::string(page, 'p')},
                 {.name = "lib/x86_64/libinside.so", .data = std::string(4 * page, 'l')}};
  const MappedHere archive("app.apk", zip.bytes(), 2 * page);
  const pid_t self[] = {getpid(), getpid()};
  const auto found = find_all_in_processes(self);
  REQUIRE(found);
  const auto count = [&](const BinaryPath& path) {
    return std::ranges::count(found->files, path, &ProcessFile::display_path);
  };
  CHECK(count({library.path, std::nullopt}) == 1);
  CHECK(count({text.path, std::nullopt}) == 0);
  CHECK(count({archive.path, std::nullopt}) == 0);
  CHECK(count({archive.path, "lib/x86_64/libinside.so"}) == 1);
  CHECK(count({std::filesystem::read_symlink("/proc/self/exe"), std::nullopt}) == 1);
}

TEST_CASE("a process that does not exist is an error, and a relative path is not looked at") {
  const pid_t nobody[] = {0x7ffffffe};
  CHECK(find_in_processes("libc.so.6", nobody).error().kind == ErrorKind::not_found);
  CHECK(find_in_processes("./libc.so.6", nobody)->empty());
}

} // namespace uprobectl::resolve
