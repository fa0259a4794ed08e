// SPDX-License-Identifier: Apache-2.0
#include "oat_samples.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace uprobectl::test {

namespace {

OatSample beside(const std::string& stem, std::string list) {
  OatSample sample{.oat = stem + ".odex", .dex = {}, .list = std::move(list)};
  for (const std::string suffix : {".vdex", ".jar", ".apk"})
    if (::access((stem + suffix).c_str(), R_OK) == 0) sample.dex.push_back(stem + suffix);
  return sample;
}

} // namespace

std::string made_folder() { return OAT_FILES; }

OatSample made_sample(const std::string& name) {
  const std::string stem = std::string(OAT_FILES) + "/" + name;
  return beside(stem, stem + ".tsv");
}

std::vector<OatSample> made_samples() {
  std::vector<OatSample> samples;
  for (const char* name : {"v131", "v138", "v170", "v183", "v199", "v225", "v232", "v236-plain",
                           "v239", "v244", "v127-confirmed", "v250-other-record", "v252", "v290",
                           "v265-container", "v265-container-vdex", "v255-x86", "nothing-compiled"})
    samples.push_back(made_sample(name));
  for (const std::string version : {"v255", "v259", "v265", "v275"})
    for (const char* isa : {"-arm64", "-thumb2", "-x86-64", "-riscv64"})
      samples.push_back(made_sample(version + isa));
  return samples;
}

std::vector<OatSample> corpus_samples() {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return {};
  }
  std::vector<OatSample> samples;
  for (const auto& [name, file] :
       {std::pair("oat131-arm64-ethernet-service", "ethernet-service"),
        {"oat183-arm-monkey", "monkey"},
        {"oat199-arm64-org.apache.http.legacy", "org.apache.http.legacy"},
        {"oat225-arm-uinput", "uinput"},
        {"oat236-arm64-WallpaperBackup", "WallpaperBackup"},
        {"oat183-x86_64-com.android.location.provider", "com.android.location.provider"},
        {"oat239-arm64-com.android.location.provider", "com.android.location.provider"},
        {"oat252-arm-com.android.location.provider", "com.android.location.provider"},
        {"oat252-arm64-InputDevices", "InputDevices"},
        {"oat252-arm64-WallpaperBackup", "WallpaperBackup"}}) {
    const std::string root = folder;
    samples.push_back(
        beside(root + "/oat/" + name + "/" + file, root + "/golden/" + name + ".tsv"));
  }
  return samples;
}

art::OatFile read_oat(elf::Image& image) {
  auto oat = art::OatFile::read(image, {});
  INFO((oat ? "" : oat.error().message));
  REQUIRE(oat);
  return std::move(*oat);
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::vector<std::string>> read_table(const std::string& path) {
  std::istringstream text(read_whole(path));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(text, line); // names the columns
  while (std::getline(text, line)) {
    std::istringstream cells(line);
    auto& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
  }
  return rows;
}

} // namespace uprobectl::test
