// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/symbols.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace uprobectl::elf {

namespace {

// A row of the golden file: what GNU readelf says of a symbol, and Python's zipfile of its entry.
struct Row {
  std::string entry;
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t image_offset = 0;
  std::uint64_t file_offset = 0;
};

std::vector<Row> read_rows(const std::string& path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line); // names the columns
  while (std::getline(file, line)) {
    std::istringstream stream(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
    REQUIRE(cells.size() == 9);
    const auto number = [&](std::size_t i) { return std::stoull(cells[i], nullptr, 0); };
    rows.push_back({cells[0], cells[2], number(6), number(7), number(8)});
  }
  return rows;
}

std::map<std::string, Image> open_entries(const std::string& apk, const std::vector<Row>& rows) {
  auto mapped = MappedFile::open(apk);
  REQUIRE(mapped);
  const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  std::map<std::string, Image> images;
  for (const Row& row : rows) {
    if (images.contains(row.entry)) continue;
    auto image = Image::open(file, {apk, row.entry});
    REQUIRE(image);
    images.emplace(row.entry, std::move(*image));
  }
  return images;
}

} // namespace

TEST_CASE("every function of four libraries in a real APK has the golden offset") {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return;
  }
  const std::string root = folder;
  const auto rows = read_rows(root + "/golden/stored-4-abis.apk.tsv");
  REQUIRE(rows.size() == 1174);
  const auto images = open_entries(root + "/apk/stored-4-abis.apk", rows);
  REQUIRE(images.size() == 4);

  for (const Row& row : rows) {
    INFO(row.entry << " " << row.name);
    const Image& image = images.at(row.entry);
    const auto symbols = symbols::find_by_name(image, row.name);
    REQUIRE(symbols);
    REQUIRE(symbols->size() == 1);
    const auto offset = image.to_image(symbols->front().address);
    REQUIRE(offset);
    CHECK(offset->value == row.image_offset);
    CHECK(image.to_file(*offset)->value == row.file_offset);
    CHECK(symbols->front().size == row.size);
  }

  // Listed are exactly those: nothing more in .dynsym that is code, and no .symtab.
  std::size_t listed = 0;
  for (const auto& [entry, image] : images)
    listed += static_cast<std::size_t>(
        std::ranges::count_if(*symbols::list_symbols(image, {}), [](const Symbol& symbol) {
          return symbols::symbol_kind(symbol) == symbols::SymbolKind::function;
        }));
  CHECK(listed == rows.size());
}

TEST_CASE("a deflated library in a real APK cannot be opened as an image") {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return;
  }
  const std::string apk = std::string(folder) + "/apk/deflated-4-abis.apk";
  const auto image = Image::open({apk, "lib/arm64-v8a/libgame.so"});
  REQUIRE_FALSE(image);
  CHECK(image.error().kind == ErrorKind::compressed);
  CHECK(image.error().message.starts_with(apk + "!/lib/"));

  const auto whole = Image::open({apk, std::nullopt});
  REQUIRE_FALSE(whole);
  CHECK(whole.error().kind == ErrorKind::not_elf);
  CHECK(whole.error().message == apk + ": an archive, not an ELF file");
}

} // namespace uprobectl::elf
