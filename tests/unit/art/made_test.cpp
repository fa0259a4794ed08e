// SPDX-License-Identifier: Apache-2.0
#include "oat_samples.hpp"
#include "zip_builder.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <set>
#include <tuple>
#include <zlib.h>

namespace uprobectl::art {

using namespace uprobectl::test;

namespace {

elf::Image open_image(const OatSample& sample) {
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  return std::move(*image);
}

// Offset as text, signature, size as text.
using ListedMethod = std::tuple<std::string, std::string, std::string>;

std::string hex(std::uint64_t value) {
  std::array<char, 20> text = {};
  std::snprintf(text.data(), text.size(), "%#llx", static_cast<unsigned long long>(value));
  return text.data();
}

} // namespace

TEST_CASE("methods, compiled or not, are read from every layout from OAT 127 to 290") {
  for (const OatSample& sample : made_samples()) {
    INFO(sample.oat);
    std::multiset<ListedMethod> expected;
    for (const auto& row : read_table(sample.list))
      expected.emplace(row.at(0), row.at(1), row.at(2));
    REQUIRE(expected.size() == 14);

    auto image = open_image(sample);
    const auto oat = read_oat(image);
    CHECK(oat.dex_files().size() == 2);
    CHECK(oat.has_all_dex_files());
    std::multiset<ListedMethod> found;
    oat.for_each_class([&](Class defined, std::string_view name) {
      CHECK(oat.class_name(defined) == name);
      for (const Method& method : oat.class_methods(defined)) {
        CHECK(oat.signature(method).class_name == name);
        const auto offset = method.compiled ? hex(image.to_image(method.code)->value) : "-";
        found.emplace(offset, to_string(oat.signature(method)),
                      std::to_string(oat.code_size(method)));
      }
      return true;
    });
    CHECK(found == expected);
  }
}

TEST_CASE("an address finds the methods whose code contains it") {
  for (const char* name : {"v131", "v183", "v244"}) {
    const OatSample sample = made_sample(name);
    INFO(sample.oat);
    auto image = open_image(sample);
    const auto oat = read_oat(image);
    const auto count = oat.find_class("com.example.Greeter");
    REQUIRE(count);
    const auto methods = oat.class_methods(*count);
    const auto is_count = [&](const Method& method) {
      return oat.signature(method).name == "count";
    };
    const auto method = *std::ranges::find_if(methods, is_count);
    CHECK(method.is_static());
    CHECK(method.thumb == (std::string_view(name) == "v183"));
    const std::uint64_t size = oat.code_size(method);
    const VirtualAddress end{method.code.value + size};
    REQUIRE(oat.methods_at({end.value - 1}).size() == 1);
    CHECK(oat.methods_at({end.value - 1}).front().index == method.index);
    CHECK(oat.methods_at(end).empty());
    CHECK(oat.methods_at({oat.compiled().front().code.value - 1}).empty());
    CHECK(oat.methods_at({~std::uint64_t{0}}).empty());
    // Both constructors have the same code.
    CHECK(oat.methods_at(oat.compiled().front().code).size() == 2);
  }
}

TEST_CASE("a version below the known ones needs symbols that agree") {
  auto image = open_image(made_sample("v127-unconfirmed"));
  const auto oat = OatFile::read(image, {});
  REQUIRE_FALSE(oat);
  CHECK(oat.error().kind == ErrorKind::unsupported);
  CHECK(oat.error().message.starts_with("unsupported OAT version 127 (supported: 131 to 275)"));
}

TEST_CASE("a version beyond the known ones is read unless the file contradicts the newest layout") {
  auto image = open_image(made_sample("v290"));
  const auto oat = OatFile::read(image, {});
  REQUIRE(oat);
  CHECK(oat->is_newer_version());
  CHECK(oat->compiled().size() == 10);
  for (const char* name : {"v290-other-record", "v290-other-symbols"}) {
    INFO(name);
    auto other = open_image(made_sample(name));
    const auto refused = OatFile::read(other, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::unsupported);
    CHECK(refused.error().message ==
          "unsupported OAT version 290 (supported: 131 to 275), and it does not have the layout of "
          "the newest supported one");
  }
}

TEST_CASE("a file in which nothing is compiled is known as such without its DEX files") {
  for (const char* name : {"v265-nothing-compiled", "v290-nothing-compiled"}) {
    INFO(name);
    auto image = open_image(made_sample(name));
    const auto oat = read_oat(image);
    CHECK_FALSE(oat.has_all_dex_files());
    CHECK_FALSE(oat.has_code());
    CHECK(oat.value("compiler-filter") == "verify");
    CHECK(oat.value("dex2oat-cmdline").empty());
    CHECK(oat.value("apex-versions") == "/360526040");
    CHECK(oat.value("requires-image") == "false");
  }
  auto image = open_image(made_sample("v265-arm64"));
  CHECK(read_oat(image).has_code());
}

TEST_CASE("an OAT file in an archive of cloud compilation has the offsets in the archive") {
  for (const char* name : {"cloud", "cloud-vdex"}) {
    INFO(name);
    const std::string stem = made_folder() + "/" + name;
    auto image = elf::Image::open({stem + ".arm64.sdm", "primary.odex"});
    REQUIRE(image);
    const auto oat = read_oat(*image);
    CHECK(oat.has_all_dex_files());
    std::multiset<std::pair<std::string, std::string>> expected;
    std::multiset<std::pair<std::string, std::string>> found;
    for (const auto& row : read_table(stem + ".tsv"))
      if (row.at(0) != "-") expected.emplace(row.at(0), row.at(1));
    for (const Method& method : oat.compiled())
      found.emplace(hex(image->to_file(*image->to_image(method.code))->value),
                    to_string(oat.signature(method)));
    CHECK(found.size() == 10);
    CHECK(found == expected);
  }
}

TEST_CASE("a DEX file of a container needs its SHA-1 and the CRC of the container plus its index") {
  const OatSample sample = made_sample("v265-container");
  const std::string whole = read_whole(sample.oat);
  const std::string second = "v265-container.apk!classes2.dex";
  const auto location = whole.find(second);
  REQUIRE(location != std::string::npos);
  const auto checksum = location + second.size() + 8;     // after the magic of the DEX file
  for (const std::size_t at : {checksum, checksum + 4}) { // CRC, SHA-1
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] + 1);
    auto image = elf::Image::parse(as_bytes(bytes));
    REQUIRE(image);
    const auto oat = OatFile::read(*image, {.files = sample.dex, .root = {}});
    REQUIRE(oat);
    CHECK(oat->dex_files()[0].source == made_folder() + "/v265-container.apk!/classes.dex");
    CHECK_FALSE(oat->dex_files()[1].source);
    CHECK(oat->compiled().size() == 6);
  }
}

TEST_CASE("without its DEX files an OAT file has no methods, and says where they were looked for") {
  const OatSample sample = made_sample("no-dex");
  auto image = open_image(sample);
  const auto oat = read_oat(image);
  CHECK_FALSE(oat.has_all_dex_files());
  CHECK(oat.compiled().empty());
  REQUIRE(oat.dex_files().size() == 2);
  CHECK(oat.dex_files()[0].location == "/system/app/no-dex.jar");
  CHECK(oat.dex_files()[1].location == "/system/app/no-dex.jar!classes2.dex");
  const std::string beside = sample.oat.substr(0, sample.oat.size() - 4) + "jar";
  CHECK(oat.dex_files()[0].tried.front() == beside);
  CHECK(oat.dex_files()[0].tried.back() == "/system/app/no-dex.jar");

  // The folder of a system image comes before what is the machine's own.
  const auto rooted = OatFile::read(image, {.files = {}, .root = "/srv/image"});
  REQUIRE(rooted);
  const auto& tried = rooted->dex_files()[0].tried;
  REQUIRE(tried.size() >= 2);
  CHECK(tried[tried.size() - 2] == "/srv/image/system/app/no-dex.jar");
}

TEST_CASE("a DEX file with another checksum is not taken") {
  const OatSample sample = made_sample("no-dex");
  auto image = open_image(sample);
  // Made of the same classes, so its DEX files are those that were compiled.
  const auto right = OatFile::read(image, {.files = made_sample("v183").dex, .root = {}});
  REQUIRE(right);
  CHECK(right->has_all_dex_files());
  CHECK(right->compiled().size() == 10);

  const std::string single = made_folder() + "/classes2.dex";
  const auto half = OatFile::read(image, {.files = {single}, .root = {}});
  REQUIRE(half);
  REQUIRE(half->dex_files().size() == 2);
  CHECK_FALSE(half->dex_files()[0].source);
  CHECK(half->dex_files()[0].tried.front() ==
        single + " (checksum mismatch: not the DEX file that was compiled)");
  CHECK(half->dex_files()[1].source == single);
  CHECK(half->compiled().size() == 4);
  CHECK_FALSE(half->find_class("com.example.Greeter"));
  CHECK(half->find_class("com.example.Größe"));
}

TEST_CASE("a compressed DEX file is not inflated if the directory has another CRC") {
  const std::string bytes = read_whole(made_sample("v244").oat);
  auto image = elf::Image::parse(as_bytes(bytes));
  REQUIRE(image);
  const std::string dex = read_whole(made_folder() + "/classes1.dex");
  const auto crc = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(dex.data()), dex.size()));
  const std::string path = made_folder() + "/damaged-dex.zip";
  const auto why = [&](std::uint32_t recorded) {
    constexpr std::uint16_t deflated = 8;
    const ZipFile zip{.entries = {{.name = "classes.dex",
                                   .data = "not deflated",
                                   .method = deflated,
                                   .size = 5000,
                                   .crc = recorded}}};
    std::ofstream(path, std::ios::binary) << zip.bytes();
    const auto oat = OatFile::read(*image, {.files = {path}, .root = {}});
    REQUIRE(oat);
    return oat->dex_files()[0].tried.front();
  };
  const std::string mismatch =
      path + "!/classes.dex (checksum mismatch: not the DEX file that was compiled)";
  CHECK(why(crc ^ 0x40000000U) == mismatch);
  CHECK(why(crc) != mismatch); // cannot be inflated
  std::remove(path.c_str());
}

TEST_CASE("values of the store are found by key") {
  auto image = open_image(made_sample("v170"));
  const auto oat = read_oat(image);
  CHECK(oat.version() == 170);
  CHECK(oat.value("compiler-filter") == "speed-profile");
  CHECK(oat.value("dex2oat-cmdline") == "--dex-file=v170.jar");
  CHECK(oat.value("filter").empty());
}

TEST_CASE("a library is not an OAT file") {
  auto image = elf::Image::open({"/proc/self/exe", std::nullopt});
  REQUIRE(image);
  CHECK_FALSE(OatFile::is_oat(*image));
  CHECK(OatFile::read(*image, {}).error().kind == ErrorKind::not_found);
}

} // namespace uprobectl::art
