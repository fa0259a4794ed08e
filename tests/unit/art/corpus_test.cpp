// SPDX-License-Identifier: Apache-2.0
#include "art/dex.hpp"
#include "oat_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>

namespace uprobectl::art {

using namespace uprobectl::test;

namespace {

// File offset and full signature.
using Answer = std::pair<std::uint64_t, std::string>;

elf::Image open_image(const std::string& path) {
  auto image = elf::Image::open({path, std::nullopt});
  REQUIRE(image);
  return std::move(*image);
}

} // namespace

TEST_CASE("every compiled method of every OAT file of the corpus has the golden offset") {
  std::size_t methods = 0;
  const auto samples = corpus_samples();
  for (const OatSample& sample : samples) {
    INFO(sample.oat);
    std::multiset<Answer> expected;
    for (const auto& row : read_table(sample.list))
      expected.emplace(std::stoull(row.at(0), nullptr, 0), row.at(2));
    auto image = open_image(sample.oat);
    const auto oat = read_oat(image);
    CHECK(oat.has_all_dex_files());
    std::multiset<Answer> found;
    for (const Method& method : oat.compiled()) {
      const auto offset = image.to_image(method.code);
      REQUIRE(offset);
      found.emplace(offset->value, to_string(oat.signature(method)));
    }
    CHECK(found == expected);
    methods += found.size();
  }
  CHECK(methods == (samples.empty() ? 0 : 1777));
}

TEST_CASE("the symbols in every OAT file of the corpus say the same names and sizes") {
  for (const OatSample& sample : corpus_samples()) {
    INFO(sample.oat);
    auto image = open_image(sample.oat);
    if (image.machine().arch == Arch::x86_64) continue; // has no .gnu_debugdata
    REQUIRE(image.add_embedded_symbols().used == ".gnu_debugdata");
    const auto oat = read_oat(image);
    CHECK(check_symbols(oat, image.debug_symbols()) != SymbolCheck::contradiction);
    std::map<VirtualAddress, std::uint64_t> sizes;
    for (const elf::SymbolTable& table : image.debug_symbols())
      for (std::uint32_t i = 0; i < table.size(); ++i)
        if (const auto symbol = table.at(i); symbol->type == elf::SymbolType::function)
          sizes[symbol->address] = symbol->size;
    for (const Method& method : oat.compiled()) {
      INFO(to_string(oat.signature(method)));
      CHECK(oat.code_size(method) == sizes.at(method.code));
      const auto last = oat.methods_at({method.code.value + sizes.at(method.code) - 1});
      CHECK(std::ranges::any_of(last, [&](const Method& other) {
        return other.index == method.index && other.dex == method.dex;
      }));
    }
  }
}

TEST_CASE("an OAT file in which nothing is compiled says by which filter") {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return;
  }
  auto image = open_image(std::string(folder) + "/oat/oat239-arm64-abx-nothing-compiled/abx.odex");
  const auto oat = read_oat(image);
  CHECK(oat.version() == 239);
  CHECK(oat.has_all_dex_files());
  CHECK(oat.compiled().empty());
  CHECK(oat.value("compiler-filter") == "verify");
}

TEST_CASE("the methods of a DEX container are those that dexdump prints") {
  const char* folder = std::getenv("UPROBECTL_CORPUS");
  if (folder == nullptr) {
    WARN("skipped: UPROBECTL_CORPUS is not set");
    return;
  }
  const std::string stem = std::string(folder) + "/dex041/multidex-container";
  const std::string bytes = read_whole(stem + ".dex");
  std::vector<std::string> found;
  for (const std::uint64_t header : art::dex_headers(as_bytes(bytes))) {
    const auto dex = DexFile::parse(as_bytes(bytes), header);
    REQUIRE(dex);
    ClassBudget budget(*dex);
    for (std::uint32_t i = 0; i < dex->class_count(); ++i) {
      auto methods = ClassMethods::read(*dex, *dex->class_def(i), budget);
      REQUIRE(methods);
      while (const auto method = methods->next()) {
        std::string name;
        art::append_dex_method_name(*dex, method->index, name);
        found.push_back(name + ' ' + std::to_string(method->access));
      }
    }
  }
  // multidex-container.txt
  CHECK(found == std::vector<std::string>{"Main.<init> 65536", "Main.main 9", "Second.<init> 65536",
                                          "Second.getSecond 1"});
}

} // namespace uprobectl::art
