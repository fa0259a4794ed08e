// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "symbols/list.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

std::vector<std::uint64_t> found(std::string_view name, const Sample& sample = {}) {
  const std::string bytes = sample_elf(sample);
  const auto symbols = find_by_name(parse_image(bytes), name);
  REQUIRE(symbols);
  std::vector<std::uint64_t> result;
  for (const auto& symbol : *symbols) result.push_back(symbol.address.value);
  return result;
}

using Addresses = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a bare name gives every version, a version gives that one") {
  CHECK(found("v") == Addresses{0x201020, 0x201030});
  CHECK(found("v@V1") == Addresses{0x201020});
  CHECK(found("v@V2") == Addresses{0x201030});
  CHECK(found("v@@V2") == Addresses{0x201030});
  CHECK(found("v@@V1").empty());
  CHECK(found("v@@V") == Addresses{0x201030}); // the default version that starts so
  CHECK(found("v@V").empty());
  CHECK(found("v@@V2.").empty());
  CHECK(found("same@V1") == Addresses{0x201040});
}

TEST_CASE("versions in .symtab names answer to the same forms") {
  CHECK(found("old") == Addresses{0x2010b0});
  CHECK(found("old@V1") == Addresses{0x2010b0});
  CHECK(found("old@@V1").empty());
  CHECK(found("new@@V2") == Addresses{0x2010c0});
  CHECK(found("new@V1").empty());
}

TEST_CASE("a version's beginning takes hidden versions only if there is no default one") {
  CHECK(found("same@@V") == Addresses{0x201040});
  CHECK(found("old@@V") == Addresses{0x2010b0}); // .symtab, hidden: the only one
  CHECK(found("old@@W").empty());
  CHECK(found("f@@V").empty()); // f has no version
}

TEST_CASE("an import is found by version and names its library") {
  CHECK(found("malloc@GLIBC_2.2.5") == Addresses{0});
  CHECK(found("malloc@GLIBC_2.3").empty());
  const std::string bytes = sample_elf();
  const auto symbols = *find_by_name(parse_image(bytes), "malloc");
  REQUIRE(symbols.size() == 1);
  REQUIRE(symbols[0].version);
  CHECK(symbols[0].version->library == "libc.so.6");
  CHECK_FALSE(symbols[0].version->is_default);
  CHECK(found("v").size() == 2);
  CHECK((*find_by_name(parse_image(bytes), "v"))[0].version->library.empty());
}

TEST_CASE(".symtab is searched only if .dynsym has no code of that name") {
  CHECK(found("f") == Addresses{0x201010});
  CHECK(found("twice") == Addresses{0x201080, 0x201090});
  // data is an object in .dynsym and a static function in .symtab: both are candidates.
  CHECK(found("data") == Addresses{0x403800, 0x2010a0});
}

TEST_CASE("an import comes after definitions and is marked as undefined") {
  const std::string bytes = sample_elf();
  const auto symbols = *find_by_name(parse_image(bytes), "malloc");
  REQUIRE(symbols.size() == 1);
  CHECK(symbol_kind(symbols[0]) == SymbolKind::import);
}

TEST_CASE("source files, sections and mapping symbols are not names") {
  CHECK(found("$x", {.machine = "EM_AARCH64"}).empty());
  CHECK(found("$d.1", {.machine = "EM_AARCH64"}).empty());
  CHECK(found("$x") == Addresses{0x201000}); // an ordinary label on x86-64
  CHECK(found("").empty());
}

TEST_CASE("kinds have the names of the contract") {
  CHECK(to_string(SymbolKind::function) == "function");
  CHECK(to_string(SymbolKind::ifunc) == "ifunc");
  CHECK(to_string(SymbolKind::label) == "label");
  CHECK(to_string(SymbolKind::object) == "object");
  CHECK(to_string(SymbolKind::import) == "import");
  CHECK(to_string(elf::Table::dynsym) == "dynsym");
  CHECK(to_string(elf::Table::gnu_debugdata) == "gnu_debugdata");
  CHECK(to_string(elf::Binding::weak) == "weak");
}

TEST_CASE("suggestions are close, few and best first") {
  const std::string bytes = sample_elf();
  const auto image = parse_image(bytes);
  CHECK(nearest_names(image, "twixe") == std::vector<std::string>{"twice"});
  CHECK(nearest_names(image, "somethingelse").empty());
  CHECK(nearest_names(image, "x").empty()); // too short to be a misspelling of anything
}

TEST_CASE("names that were announced are found as others are") {
  for (const bool gnu_hash : {true, false}) {
    const std::string bytes = sample_elf({.gnu_hash = gnu_hash});
    const auto image = parse_image(bytes);
    const std::vector<std::string_view> names = {"f", "v@@V2", "malloc", "not_there", ""};
    prefetch_names(image, names);
    CHECK(find_by_name(image, "f")->front().address.value == 0x201010);
    CHECK(find_by_name(image, "v@@V2")->front().address.value == 0x201030);
    CHECK_FALSE(find_by_name(image, "malloc")->front().defined);
    CHECK(find_by_name(image, "not_there")->empty());
  }
}

} // namespace uprobectl::symbols
