// SPDX-License-Identifier: Apache-2.0
// Malicious OAT and DEX files: costly to read, or misleading.
#include "art/dex.hpp"
#include "art/oat_format.hpp"
#include "oat_samples.hpp"
#include "uprobectl/archive.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>
#include <unistd.h>

namespace uprobectl::art {

using namespace uprobectl::test;
using namespace std::string_literals;

namespace {

void put_number(std::string& bytes, std::size_t at, std::uint32_t value) {
  REQUIRE(at + sizeof(value) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

std::size_t offset_in(const std::string& whole, const void* part) {
  return static_cast<std::size_t>(static_cast<const char*>(part) - whole.data());
}

Result<OatFile> read_with(elf::Image& image, const std::vector<std::string>& dex) {
  return OatFile::read(image, {.files = dex, .root = {}});
}

// As make-oat-files has them.
struct Laid {
  const char* name;
  RecordLayout layout;
};
constexpr Laid laid[] = {
    {"v131", {false, false, 2}},
    {"v138", {false, false, 4}},
    {"v170", {false, false, 4}},
    {"v183", {false, false, 4}},
    {"v199", {false, false, 6}},
    {"v225", {false, false, 6}},
    {"v232", {false, true, 6}},
    {"v236-plain", {false, false, 6}},
    {"v239", {true, true, 6}},
    {"v244", {true, true, 7}},
    {"v250-other-record", {true, true, 8}},
    {"nothing-compiled", {true, true, 6}},
    {"v259-arm64", {true, true, 7}},
    {"v275-riscv64", {true, true, 7}},
    {"v265-container", {true, true, 7}},
    {"v290", {true, true, 7}},
};

std::uint32_t readable_strings(const std::string& bytes) {
  const auto dex = DexFile::parse(as_bytes(bytes));
  REQUIRE(dex);
  std::uint32_t count = 0;
  while (count < 1000 && dex->string(count)) ++count;
  return count;
}

// A DEX file of one string, which is the name of one type, and of a method whose 255 parameters are
// of it.
std::string one_long_name(std::size_t length) {
  std::string bytes(112, '\0');
  std::memcpy(bytes.data(), "dex\n039", 7);
  put_number(bytes, 40, 0x12345678);
  const auto table = [&](std::size_t field, std::initializer_list<std::uint32_t> words) {
    put_number(bytes, field, 1);
    put_number(bytes, field + 4, static_cast<std::uint32_t>(bytes.size()));
    for (const std::uint32_t word : words) {
      bytes.resize(bytes.size() + 4);
      put_number(bytes, bytes.size() - 4, word);
    }
  };
  constexpr std::uint32_t list_at = 112 + 4 + 4 + 12 + 8;
  constexpr std::uint32_t text_at = list_at + 4 + 2 * 255 + 2;
  table(56, {text_at});
  table(64, {0});
  table(72, {0, 0, list_at});
  table(88, {0, 0});
  REQUIRE(bytes.size() == list_at);
  bytes += "\xff\0\0\0"s + std::string(text_at - list_at - 4, '\0');
  bytes += static_cast<char>(0x80 | (length & 0x7f));
  bytes += static_cast<char>(0x80 | (length >> 7 & 0x7f));
  bytes += static_cast<char>(length >> 14);
  bytes += std::string(length, 'x') + '\0';
  put_number(bytes, 32, static_cast<std::uint32_t>(bytes.size()));
  return bytes;
}

} // namespace

TEST_CASE("a class of a kind that there is not is damage, not a DEX file that is missing") {
  for (const auto& [name, layout] : laid) {
    INFO(name);
    const OatSample sample = made_sample(name);
    std::string bytes = read_whole(sample.oat);
    auto image = elf::Image::parse(as_bytes(bytes));
    REQUIRE(image);
    REQUIRE(read_with(*image, sample.dex));
    const auto header = art::read_oat_header(*image);
    const auto records = art::read_records(*header, layout);
    REQUIRE(records);
    const auto first = read_at<std::uint32_t>(header->data, records->front().class_offsets);
    REQUIRE(first);
    bytes[offset_in(bytes, header->data.data()) + *first + 2] = 7; // OatClassType: 0 to 2
    const auto oat = read_with(*image, sample.dex);
    REQUIRE_FALSE(oat);
    // A version that nothing is known of is named as that.
    const bool known = header->version <= newest_version;
    CHECK(oat.error().kind == (known ? ErrorKind::corrupt : ErrorKind::unsupported));
  }
}

TEST_CASE("two DEX files of an OAT file are never the same bytes") {
  const OatSample sample = made_sample("v131");
  std::string bytes = read_whole(sample.oat);
  auto image = elf::Image::parse(as_bytes(bytes));
  const auto records = art::read_records(*art::read_oat_header(*image), laid[0].layout);
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  const OatRecord& first = records->front();
  const std::string_view location = records->back().location;
  const std::size_t after = offset_in(bytes, location.data()) + location.size();
  put_number(bytes, after, first.checksum);
  put_number(bytes, after + 4, first.dex_offset);
  put_number(bytes, after + 8, first.class_offsets);
  const auto oat = read_with(*image, sample.dex);
  REQUIRE(oat);
  CHECK(oat->compiled().size() == 6);
  CHECK(oat->dex_files()[0].source == sample.dex.front());
  CHECK_FALSE(oat->dex_files()[1].source);
  CHECK(oat->dex_files()[1].tried.front() ==
        sample.dex.front() + " (already used for another DEX file)");
}

TEST_CASE("a table of a DEX file may lie anywhere in its container, and not outside") {
  const OatSample sample = made_sample("v265-container-vdex");
  std::string vdex = read_whole(sample.dex.front());
  const auto second = vdex.find("dex\n041", vdex.find("dex\n041") + 1);
  REQUIRE(second != std::string::npos);
  const std::string bytes = read_whole(sample.oat);
  const std::string path = "/tmp/uprobectl-unit-" + std::to_string(::getpid()) + ".vdex";
  const auto with_fields = [&](std::uint32_t count) {
    put_number(vdex, second + 80, count);
    put_number(vdex, second + 84, 0);
    std::ofstream(path, std::ios::binary) << vdex;
    auto image = elf::Image::parse(as_bytes(bytes));
    REQUIRE(image);
    auto oat = read_with(*image, {path});
    std::remove(path.c_str());
    REQUIRE(oat);
    return oat->dex_files()[1].source.has_value();
  };
  std::uint32_t size = 0;
  std::memcpy(&size, vdex.data() + second + 112, sizeof(size));
  CHECK(with_fields(0));
  CHECK(with_fields(size / 8));
  CHECK_FALSE(with_fields(size / 8 + 1)); // truncated
}

TEST_CASE("an instruction set has the number of its version") {
  // Version, instruction set, and whether that is x86-64.
  const std::tuple<const char*, std::uint32_t, bool> cases[] = {
      {"v199", 5, true},        {"v199", 6, false},       {"v239", 6, true},
      {"v239", 5, false},       {"v275-x86-64", 6, true}, {"v275-x86-64", 5, false},
      {"v275-x86-64", 4, false}};
  for (const auto& [name, number, fits] : cases) {
    INFO(name << ' ' << number);
    const OatSample sample = made_sample(name);
    std::string bytes = read_whole(sample.oat);
    auto image = elf::Image::parse(as_bytes(bytes));
    put_number(bytes, offset_in(bytes, art::read_oat_header(*image)->data.data()) + 12, number);
    CHECK(read_with(*image, sample.dex).has_value() == fits);
  }
  // ART changed the numbers between 225 and 230: there, the ELF image decides.
  const OatSample sample = made_sample("v225");
  std::string bytes = read_whole(sample.oat);
  const auto version = bytes.find("oat\n225");
  REQUIRE(version != std::string::npos);
  bytes[version + 6] = '7';
  auto image = elf::Image::parse(as_bytes(bytes));
  CHECK(read_with(*image, sample.dex));
}

TEST_CASE("base_oat_offset is the offset of oatdata") {
  const OatSample sample = made_sample("v265-arm64");
  std::string bytes = read_whole(sample.oat);
  auto image = elf::Image::parse(as_bytes(bytes));
  const std::size_t field = offset_in(bytes, art::read_oat_header(*image)->data.data()) + 32;
  std::uint32_t base = 0;
  std::memcpy(&base, bytes.data() + field, sizeof(base));
  CHECK(base == 0x694);
  put_number(bytes, field, 0x690);
  const auto oat = read_with(*image, sample.dex);
  REQUIRE_FALSE(oat);
  CHECK(oat.error().message == "OAT version 265: its header has no offset of the code");
}

TEST_CASE("an invalid code size is unknown for its method only") {
  for (const char* name : {"v131", "v183", "v199", "v225", "v244", "v265-arm64", "v275-riscv64"}) {
    INFO(name);
    const OatSample sample = made_sample(name);
    std::string bytes = read_whole(sample.oat);
    auto image = elf::Image::parse(as_bytes(bytes));
    std::map<std::string, std::string> sizes;
    for (const auto& row : read_table(sample.list)) {
      sizes[row.at(1)] = row.at(2);
      if (row.at(1) == "int com.example.Greeter.count()")
        put_number(bytes, std::stoul(row.at(0), nullptr, 0) - 4, 0xffffffff);
    }
    sizes.at("int com.example.Greeter.count()") = "0";
    const auto oat = read_with(*image, sample.dex);
    REQUIRE(oat);
    REQUIRE(oat->compiled().size() == 10);
    for (const Method& method : oat->compiled()) {
      const std::string signature = to_string(oat->signature(method));
      INFO(signature);
      const std::uint64_t size = oat->code_size(method);
      CHECK(std::to_string(size) == sizes.at(signature));
      CHECK_FALSE(oat->methods_at(method.code).empty());
      if (size == 0) CHECK(oat->methods_at({method.code.value + 1}).empty());
    }
  }
}

TEST_CASE("an instruction set that is not known is named") {
  const OatSample sample = made_sample("v199");
  std::string bytes = read_whole(sample.oat);
  auto image = elf::Image::parse(as_bytes(bytes));
  put_number(bytes, offset_in(bytes, art::read_oat_header(*image)->data.data()) + 12, 9);
  const auto oat = read_with(*image, sample.dex);
  REQUIRE_FALSE(oat);
  CHECK(oat.error().kind == ErrorKind::unsupported);
  CHECK(oat.error().message == "OAT version 199: unsupported instruction set 9 (ELF x86-64)");
}

TEST_CASE("an archive error is reported for the DEX file searched in it") {
  std::string damaged = read_whole(made_folder() + "/v183.apk");
  const auto last_entry = damaged.rfind("PK\1\2");
  REQUIRE(last_entry != std::string::npos);
  damaged[last_entry] = 'X';
  const std::string path = "/tmp/uprobectl-unit-" + std::to_string(::getpid()) + ".apk";
  std::ofstream(path, std::ios::binary) << damaged;
  const std::string bytes = read_whole(made_sample("no-dex").oat);
  auto image = elf::Image::parse(as_bytes(bytes));
  REQUIRE(image);
  const auto oat = read_with(*image, {path});
  std::remove(path.c_str());
  REQUIRE(oat);
  const auto archive = archive::Archive::parse(as_bytes(damaged));
  REQUIRE(archive);
  CHECK(archive->find("classes.dex").error().kind == ErrorKind::corrupt);
  CHECK(oat->dex_files()[0].tried.front() ==
        path + " (" + archive->find("classes.dex").error().message + ")");
}

TEST_CASE("a string of a DEX file is as long as it says, and no longer than any can be") {
  std::string whole = read_whole(made_folder() + "/classes1.dex");
  const auto at = whole.find("\5count");
  REQUIRE(at != std::string::npos);
  const std::uint32_t all = readable_strings(whole);
  std::string cut = whole;
  cut[at] = 1; // at most three bytes
  CHECK(readable_strings(cut) < all);
  CHECK(readable_strings(one_long_name(65535)) == 1);
  CHECK(readable_strings(one_long_name(65536)) == 0);
}

TEST_CASE("a signature is no longer than 65535 bytes of names", "[large]") {
  const std::string bytes = one_long_name(60000);
  const auto dex = DexFile::parse(as_bytes(bytes));
  REQUIRE(dex);
  const Signature signature = art::dex_method_signature(*dex, 0);
  CHECK(signature.name.size() == 60000);
  CHECK(signature.class_name == "?");
  CHECK(signature.return_type == "?");
  REQUIRE(signature.parameters.size() == 255);
  CHECK(signature.parameters.back() == "?");

  const std::string short_bytes = one_long_name(300);
  const auto parsed = DexFile::parse(as_bytes(short_bytes));
  REQUIRE(parsed);
  const Signature whole = art::dex_method_signature(*parsed, 0);
  CHECK(whole.parameters.front() == std::string(300, 'x'));
  CHECK(to_string(whole).size() < 65535 + 1000);
}

TEST_CASE("a DEX file has all the fields that it counts") {
  std::string whole = read_whole(made_folder() + "/classes1.dex");
  REQUIRE(DexFile::parse(as_bytes(whole)));
  put_number(whole, 80, 0x10000000); // field_ids_size
  const auto dex = DexFile::parse(as_bytes(whole));
  REQUIRE_FALSE(dex);
  CHECK(dex.error().kind == ErrorKind::corrupt);
}

} // namespace uprobectl::art
