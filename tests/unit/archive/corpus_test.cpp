// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace uprobectl::archive {

namespace {

// The corpus of real files, outside the repository; nothing, and a warning, where it is absent.
std::optional<std::string> corpus() {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return std::nullopt;
  }
  return std::string(folder) + "/";
}

MappedFile open(const std::string& path) {
  auto file = MappedFile::open(path);
  REQUIRE(file);
  return std::move(*file);
}

std::uint64_t number(const std::string& text) { return std::stoull(text, nullptr, 0); }

// Entry name -> where its data begins, from the golden file's two offsets of each symbol.
std::map<std::string, std::uint64_t> golden_data_offsets(const std::string& path) {
  std::map<std::string, std::uint64_t> result;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line); // names the columns
  while (std::getline(file, line)) {
    std::istringstream stream(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    REQUIRE(cells.size() == 9);
    result[cells[0]] = number(cells[8]) - number(cells[7]);
  }
  return result;
}

} // namespace

TEST_CASE("every library of a real APK begins where the golden file says") {
  const auto folder = corpus();
  if (!folder) return;
  const auto expected = golden_data_offsets(*folder + "golden/stored-4-abis.apk.tsv");
  REQUIRE(expected.size() == 4);
  const MappedFile file = open(*folder + "apk/stored-4-abis.apk");
  const auto archive = Archive::parse(file.bytes());
  REQUIRE(archive);
  CHECK(archive->entry_count() == 588);
  for (const auto& [name, offset] : expected) {
    const auto entry = archive->find(name);
    REQUIRE(entry);
    CHECK(archive->data_offset(*entry)->value == offset);
    CHECK(as_text(*archive->stored_bytes(*entry))
              .starts_with("\x7f"
                           "ELF"));
    CHECK(archive->entry_at({offset + entry->size - 1})->value().name == name);
  }
}

TEST_CASE("compressed libraries of a real APK are refused, but located") {
  const auto folder = corpus();
  if (!folder) return;
  const MappedFile file = open(*folder + "apk/deflated-4-abis.apk");
  const auto archive = Archive::parse(file.bytes());
  REQUIRE(archive);
  const auto entry = archive->find("lib/x86/libgame.so");
  REQUIRE(entry);
  CHECK(archive->stored_bytes(*entry).error().kind == ErrorKind::compressed);
  CHECK(archive->data_offset(*entry)->value == 291544); // header 291496, 30, name 18
}

TEST_CASE("odd real archives are read as Python's zipfile reads them") {
  const auto folder = corpus();
  if (!folder) return;
  struct Expected {
    std::string file;
    std::size_t count;
    std::string name;
    std::uint64_t local_header;
  };
  const Expected all[] = {
      {"cr-in-entry-name.apk", 7, "test.txt\r", 2477},
      {"nul-in-entry-name.apk", 7, std::string("test.txt\0", 9), 2477},
      {"eocd-comment-65535.apk", 3, "classes.dex", 1639},
      {"stored-aligned-not-elf.apk", 9, "lib/armeabi/fake.so", 2340},
      {"stored-unaligned-not-elf.apk", 10, "lib/armeabi/fake.so", 2332},
      {"unknown-compression.apk", 18, "assets/bin/Data/two.extension.file", 2824},
  };
  for (const Expected& expected : all) {
    CAPTURE(expected.file);
    const MappedFile file = open(*folder + "zip/" + expected.file);
    const auto archive = Archive::parse(file.bytes());
    REQUIRE(archive);
    std::size_t count = 0;
    REQUIRE(archive->for_each([&](const ArchiveEntry&) { return ++count > 0; }));
    CHECK(count == expected.count);
    REQUIRE(archive->find(expected.name));
    CHECK(archive->find(expected.name)->local_header == expected.local_header);
  }
  const MappedFile empty = open(*folder + "zip/empty.apk");
  CHECK(Archive::parse(empty.bytes())->entry_count() == 0);
}

} // namespace uprobectl::archive
