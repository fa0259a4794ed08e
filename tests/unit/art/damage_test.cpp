// SPDX-License-Identifier: Apache-2.0
// Damaged copies of OAT files and of the DEX files that belong to them: an answer or an error, and
// never a method outside the code.
#include "art/dex.hpp"
#include "oat_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <random>
#include <unistd.h>

namespace uprobectl::art {

using namespace uprobectl::test;

namespace {

// Names, and what stands between them of at most 255 parameters.
constexpr std::size_t longest_text = max_signature_size + 1024;

// Whether the bytes were taken for an OAT file.
bool survives(const std::string& bytes, const std::vector<std::string>& dex) {
  auto image = elf::Image::parse(as_bytes(bytes));
  if (!image) return false;
  const auto oat = OatFile::read(*image, {.files = dex, .root = {}});
  if (!oat) return false;
  for (const Method& method : oat->compiled()) {
    const elf::Segment* const segment = image->find_segment(method.code);
    REQUIRE(segment != nullptr);
    REQUIRE(segment->executable);
    REQUIRE(to_string(oat->signature(method)).size() < longest_text);
    const std::uint64_t size = oat->code_size(method);
    REQUIRE(method.code.value + size <= segment->address.value + segment->file_size);
    const auto covering = oat->methods_at({method.code.value + (size == 0 ? 0 : size - 1)});
    REQUIRE(std::ranges::any_of(covering, [&](const Method& other) {
      return other.dex == method.dex && other.index == method.index;
    }));
  }
  oat->for_each_class([&](Class defined, std::string_view) {
    (void)oat->class_methods(defined);
    (void)oat->superclass(defined);
    return true;
  });
  return true;
}

// The same generator everywhere, so that what fails fails again.
std::string flipped(std::string bytes, std::mt19937& random, std::size_t from, std::size_t to) {
  const std::size_t at = from + random() % (to - from);
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
  return bytes;
}

void damage(const OatSample& sample, unsigned times) {
  INFO(sample.oat);
  const std::string whole = read_whole(sample.oat);
  REQUIRE(survives(whole, sample.dex));
  const std::size_t begin = whole.find("oat\n");
  std::mt19937 random(4711);
  for (unsigned i = 0; i < times; ++i) {
    survives(whole.substr(0, whole.size() * i / times), sample.dex);
    // Headers and tables are where changes matter: the first part of oatdata.
    survives(flipped(whole, random, 0, whole.size()), sample.dex);
    survives(flipped(whole, random, begin, std::min(whole.size(), begin + 0x800)), sample.dex);
  }
}

std::size_t read_dex(const std::string& bytes, std::uint64_t header = 0) {
  const auto dex = DexFile::parse(as_bytes(bytes), header);
  if (!dex) return 0;
  std::size_t methods = 0;
  ClassBudget budget(*dex);
  for (std::uint32_t i = 0; i < dex->class_count(); ++i) {
    auto items = ClassMethods::read(*dex, *dex->class_def(i), budget);
    if (!items) return methods;
    while (const auto item = items->next()) {
      (void)art::dex_method_signature(*dex, item->index);
      ++methods;
    }
  }
  REQUIRE(methods <= dex->method_count());
  return methods;
}

} // namespace

TEST_CASE("cut off and bit-flipped OAT files of every layout are read without harm") {
  for (const OatSample& sample : made_samples()) damage(sample, 60);
}

TEST_CASE("cut off and bit-flipped OAT files of the corpus are read without harm") {
  for (const OatSample& sample : corpus_samples()) damage(sample, 20);
}

TEST_CASE("cut off and bit-flipped DEX files are read without harm") {
  const std::string whole = read_whole(made_folder() + "/classes1.dex");
  REQUIRE(read_dex(whole) == 10);
  std::mt19937 random(4711);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(read_dex(whole.substr(0, size)) == 0);
  for (unsigned i = 0; i < 4000; ++i) read_dex(flipped(whole, random, 0, whole.size()));
}

TEST_CASE("cut off and bit-flipped DEX containers are read without harm") {
  const std::string whole = read_whole(made_folder() + "/container.dex");
  const auto read_all = [](const std::string& bytes) {
    std::vector<std::size_t> methods;
    for (const std::uint64_t header : art::dex_headers(as_bytes(bytes)))
      methods.push_back(read_dex(bytes, header));
    return methods;
  };
  REQUIRE(read_all(whole) == std::vector<std::size_t>{10, 4});
  std::mt19937 random(4711);
  for (std::size_t size = 0; size < whole.size(); ++size)
    for (const std::size_t methods : read_all(whole.substr(0, size))) CHECK(methods == 0);
  for (unsigned i = 0; i < 4000; ++i) read_all(flipped(whole, random, 0, whole.size()));
}

TEST_CASE("cut off and bit-flipped VDEX files beside an OAT file are read without harm") {
  const std::string damaged = "/tmp/uprobectl-unit-" + std::to_string(::getpid()) + ".vdex";
  std::mt19937 random(4711);
  for (const char* name : {"v131", "v138", "v239", "v265-container-vdex"}) {
    const OatSample sample = made_sample(name);
    const std::string oat = read_whole(sample.oat);
    const std::string whole = read_whole(sample.dex.front());
    for (unsigned i = 0; i < 100; ++i)
      for (const std::string& bytes :
           {whole.substr(0, whole.size() * i / 100), flipped(whole, random, 0, whole.size())}) {
        std::ofstream(damaged, std::ios::binary) << bytes;
        survives(oat, {damaged});
      }
  }
  std::remove(damaged.c_str());
}

} // namespace uprobectl::art
