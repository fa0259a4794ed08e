#include "elf_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;
using namespace uprobectl::test;

namespace {

std::string names(const SymbolFilter& filter, const Sample& sample = {}) {
  const std::string bytes = sample_elf(sample);
  const auto symbols = list_symbols(parse_image(bytes), filter);
  REQUIRE(symbols);
  std::string text;
  for (const auto& symbol : *symbols) {
    if (!text.empty()) text += ' ';
    text += symbol.name;
    if (symbol.version) {
      text += symbol.version->is_default ? "@@" : "@";
      text += symbol.version->name;
    }
  }
  return text;
}

} // namespace

TEST_CASE("what can be probed is listed once, by address") {
  // No data, no function without file bytes, no absolute symbol, no .L label; f and v stand in
  // both tables.
  CHECK(names({}) == "$x f v@V1 v@@V2 same@V1 same@@V2 ifn label w twice twice data old@V1 new@@V2 "
                     "$d.1");
  CHECK(names({}, {.machine = "EM_AARCH64"}) ==
        "f v@V1 v@@V2 same@V1 same@@V2 ifn label w twice twice data old@V1 new@@V2");
}

TEST_CASE("imports are listed instead of definitions when asked for") {
  CHECK(names({.imports = true}) == "malloc@GLIBC_2.2.5");
}

TEST_CASE("kinds and a least size choose what is listed") {
  CHECK(names({.kinds = {SymbolKind::import}}) == "malloc@GLIBC_2.2.5");
  CHECK(names({.kinds = {SymbolKind::ifunc, SymbolKind::label}}, {.machine = "EM_AARCH64"}) ==
        "ifn label");
  CHECK(names({.kinds = {SymbolKind::object}}) == "data");
  CHECK(names({.kinds = {SymbolKind::plt}}).empty());
  CHECK(names({.patterns = {"[flt]*"}, .min_size = 1}, {.machine = "EM_AARCH64"}) ==
        "f twice twice");
  CHECK(names({.min_size = 17}).empty());
}

TEST_CASE("a symbol matches if one of the patterns does") {
  CHECK(names({.patterns = {"tw*", "ne?"}}) == "twice twice new@@V2");
  CHECK(names({.patterns = {"nothing*"}}).empty());
}

TEST_CASE("an address is named by the symbol that covers it") {
  const std::string bytes = sample_elf({.machine = "EM_AARCH64"});
  const auto image = parse_image(bytes);
  const auto name_at = [&](std::uint64_t address) {
    const auto at = symbol_at(image, {address});
    return at ? std::string(at->symbol.name) + "+" + std::to_string(at->offset) : "";
  };
  CHECK(name_at(0x201010) == "f+0");
  CHECK(name_at(0x20101f) == "f+15");
  CHECK(name_at(0x201068) == "label+8"); // no size: reaches to the next symbol
  CHECK(name_at(0x201085) == "twice+5");
  CHECK(name_at(0x2010f0).empty()); // after the last function's end
  CHECK(name_at(0x201000).empty());
  CHECK(name_at(0x403800).empty());
}
