#include "uprobectl/art.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

using namespace uprobectl;

namespace {

struct Sample {
  std::string folder;
  std::string file;
  std::size_t methods; // rows of the golden file
};
const std::vector<Sample> samples = {
    {"oat131-arm64-ethernet-service", "ethernet-service.odex", 86},
    {"oat183-arm-monkey", "monkey.odex", 335},
    {"oat199-arm64-org.apache.http.legacy", "org.apache.http.legacy.odex", 740},
    {"oat225-arm-uinput", "uinput.odex", 108},
    {"oat236-arm64-WallpaperBackup", "WallpaperBackup.odex", 57},
    {"oat239-arm64-com.android.location.provider", "com.android.location.provider.odex", 133},
};

// File offset and full signature.
using Answer = std::pair<std::uint64_t, std::string>;

std::multiset<Answer> golden(const std::string& path) {
  std::multiset<Answer> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line); // names the columns
  while (std::getline(file, line)) {
    const auto first = line.find('\t');
    const auto second = line.find('\t', first + 1);
    rows.emplace(std::stoull(line, nullptr, 0), line.substr(second + 1));
  }
  return rows;
}

// Null, with the reason told, where there is no corpus.
const char* corpus() {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) WARN("skipped: UPROBECTL_CORPUS is not set");
  return folder;
}

elf::Image open_image(const std::string& path) {
  auto image = elf::Image::open({path, std::nullopt});
  REQUIRE(image);
  return std::move(*image);
}

art::OatFile read_oat(elf::Image& image) {
  auto oat = art::OatFile::read(image, {});
  INFO((oat ? "" : oat.error().message));
  REQUIRE(oat);
  return std::move(*oat);
}

} // namespace

TEST_CASE("every compiled method of every OAT file of the corpus has the golden offset") {
  const char* folder = corpus();
  if (folder == nullptr) return;
  for (const Sample& sample : samples) {
    INFO(sample.folder);
    const std::string root = folder;
    const auto expected = golden(root + "/golden/" + sample.folder + ".tsv");
    REQUIRE(expected.size() == sample.methods);
    auto image = open_image(root + "/oat/" + sample.folder + "/" + sample.file);
    const auto oat = read_oat(image);
    CHECK(oat.has_all_dex_files());
    std::multiset<Answer> found;
    for (const art::Method& method : oat.compiled()) {
      const auto offset = image.to_image(method.code);
      REQUIRE(offset);
      found.emplace(offset->value, to_string(oat.signature(method)));
    }
    CHECK(found == expected);
  }
}

TEST_CASE("the symbols in every OAT file of the corpus say the same names and sizes") {
  const char* folder = corpus();
  if (folder == nullptr) return;
  for (const Sample& sample : samples) {
    INFO(sample.folder);
    auto image = open_image(std::string(folder) + "/oat/" + sample.folder + "/" + sample.file);
    REQUIRE(image.add_embedded_symbols().used == ".gnu_debugdata");
    const auto oat = read_oat(image);
    CHECK(names_agree(oat, image.debug_symbols()));
    std::map<VirtualAddress, std::uint64_t> sizes;
    for (const elf::SymbolTable& table : image.debug_symbols())
      for (std::uint32_t i = 0; i < table.size(); ++i)
        if (const auto symbol = table.at(i); symbol->type == elf::SymbolType::function)
          sizes[symbol->address] = symbol->size;
    for (const art::Method& method : oat.compiled()) {
      INFO(to_string(oat.signature(method)));
      CHECK(oat.code_size(method) == sizes.at(method.code));
      const auto last = oat.methods_at({method.code.value + sizes.at(method.code) - 1});
      CHECK(std::ranges::any_of(last, [&](const art::Method& other) {
        return other.index == method.index && other.dex == method.dex;
      }));
    }
  }
}

TEST_CASE("an OAT file in which nothing is compiled says by which filter") {
  const char* folder = corpus();
  if (folder == nullptr) return;
  auto image = open_image(std::string(folder) + "/oat/oat239-arm64-abx-nothing-compiled/abx.odex");
  const auto oat = read_oat(image);
  CHECK(oat.version() == 239);
  CHECK(oat.has_all_dex_files());
  CHECK(oat.compiled().empty());
  CHECK(oat.value("compiler-filter") == "verify");
}
