// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

std::vector<std::string> names(const auto& symbols) {
  std::vector<std::string> result;
  for (const auto& symbol : symbols) result.emplace_back(symbol.name);
  return result;
}

} // namespace

TEST_CASE("symbols of .gnu_debugdata are read on request") {
  const std::string bytes = stripped_elf({.debug_data = xz(symbols_elf())});
  auto image = parse_image(bytes);
  CHECK(image.debug_symbols().empty());
  CHECK(find_by_name(image, "local_one")->empty());

  const auto report = image.add_embedded_symbols();
  CHECK(report.used == ".gnu_debugdata");
  CHECK(report.warnings.empty());
  const auto found = find_by_name(image, "local_one");
  REQUIRE(found->size() == 1);
  CHECK(found->at(0).table == elf::Table::gnu_debugdata);
  CHECK(found->at(0).binding == elf::Binding::local);
  CHECK(found->at(0).address.value == 0x201040);
  // The code lies at offset 0x1000 of the stripped file, at 0x300 of the other.
  CHECK(image.to_image(found->at(0).address)->value == 0x1040);
}

TEST_CASE("an '@' without a version in .gnu_debugdata belongs to the name") {
  const std::string bytes = stripped_elf(
      {.debug_data = xz(symbols_elf({.names = {"x_veneer@island-2", "y@plausible_1.0"}}))});
  auto image = parse_image(bytes);
  image.add_embedded_symbols();
  for (const std::string_view name : {"x_veneer@island-2", "y@plausible_1.0"}) {
    const auto found = find_by_name(image, name);
    REQUIRE(found->size() == 1);
    CHECK(found->at(0).name == name);
    CHECK_FALSE(found->at(0).version);
  }
  CHECK(find_by_name(image, "x_veneer")->empty());
  CHECK(names(*list_symbols(image, {.patterns = {"x_*"}})) ==
        std::vector<std::string>{"x_veneer@island-2"});
}

TEST_CASE("debug tables answer demangled names, lists and addresses") {
  const std::string bytes = stripped_elf({.debug_data = xz(symbols_elf())});
  auto image = parse_image(bytes);
  CHECK_FALSE(symbol_at(image, {0x201084}));
  image.add_embedded_symbols();
  CHECK(names(*find_by_demangled_name(image, "ns::f(int)")) ==
        std::vector<std::string>{"_ZN2ns1fEi"});
  // Neither what lies outside the code nor data.
  CHECK(names(*list_symbols(image, {})) ==
        std::vector<std::string>{"local_one", "_ZN2ns1fEi", "f"});
  CHECK(names(*list_symbols(image, {.patterns = {"ns::*"}})) ==
        std::vector<std::string>{"_ZN2ns1fEi"});
  REQUIRE(symbol_at(image, {0x201084}));
  CHECK(symbol_at(image, {0x201084})->symbol.name == "_ZN2ns1fEi");
  CHECK(symbol_at(image, {0x201084})->offset == 4);
  CHECK(nearest_names(image, "local_on") == std::vector<std::string>{"local_one"});
}

TEST_CASE("symbols of the file come before those of debug tables") {
  const std::string own = sample_elf();
  auto image = parse_image(own);
  Folder folder;
  const auto symbols = folder.put("symbols.debug", symbols_elf());
  const auto before = names(*list_symbols(image, {}));
  REQUIRE(image.add_debug_file({.paths = {symbols}}).used == symbols);
  // f is exported at 0x201010; a list of a file with .symtab stays the same.
  REQUIRE(find_by_name(image, "f")->size() == 1);
  CHECK(find_by_name(image, "f")->at(0).address.value == 0x201010);
  CHECK(names(*list_symbols(image, {})) == before);
  CHECK(find_by_name(image, "local_one")->at(0).table == elf::Table::debug_file);
  CHECK(names(*list_symbols(image, {.patterns = {"local_*"}})) ==
        std::vector<std::string>{"local_one"});
}

TEST_CASE("a .gnu_debugdata that cannot be read is a warning") {
  const auto warning = [](const std::string& content) {
    const std::string bytes = stripped_elf({.debug_data = content});
    auto image = parse_image(bytes);
    const auto report = image.add_embedded_symbols();
    CHECK_FALSE(report.used);
    CHECK(image.debug_symbols().empty());
    REQUIRE(report.warnings.size() == 1);
    return report.warnings[0];
  };
  const std::string data = xz(symbols_elf());
  CHECK(warning(data.substr(0, data.size() / 2)) ==
        ".gnu_debugdata is not used: xz data is truncated");
  CHECK(warning(xz("junk")) == ".gnu_debugdata is not used: not an ELF file");
  CHECK(warning(xz(symbols_elf({.machine = "EM_AARCH64"}))) ==
        ".gnu_debugdata is not used: its content is for arm64");
  CHECK(warning(xz(symbols_elf().substr(0, 40))).find("truncated") != std::string::npos);
}

TEST_CASE("no .gnu_debugdata, or one without symbols, is not an event") {
  for (const std::string& content : {std::string(), xz(symbols_elf({.symtab = false}))}) {
    const std::string bytes = stripped_elf({.debug_data = content});
    auto image = parse_image(bytes);
    const auto report = image.add_embedded_symbols();
    CHECK_FALSE(report.used);
    CHECK(report.warnings.empty());
  }
}

} // namespace uprobectl::symbols
