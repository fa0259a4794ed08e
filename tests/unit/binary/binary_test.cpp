// SPDX-License-Identifier: Apache-2.0
#include "binary/binary.hpp"
#include "debug_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::binary {

using namespace uprobectl::test;

TEST_CASE("symbols that are added later are found by address, too") {
  const std::string bytes = stripped_elf({.debug_data = xz(symbols_elf())});
  Binary file(parse_image(bytes));
  CHECK_FALSE(file.symbol_at({0x201084})); // by a scan
  CHECK_FALSE(file.symbol_at({0x201084})); // by the index
  CHECK(file.add_next_symbols());
  CHECK(file.symbol_sources().used == std::vector<std::string>{".gnu_debugdata"});
  const auto found = file.symbol_at({0x201084});
  REQUIRE(found);
  CHECK(found->symbol.name == "_ZN2ns1fEi");
  CHECK(found->offset == 4);
}

TEST_CASE("symbols of other files are not read if the image has its own") {
  const std::string bytes = sample_elf();
  Binary file(parse_image(bytes));
  REQUIRE(has_symtab(file.image()));
  file.complete_symbols();
  CHECK(file.symbol_sources().used.empty());
  CHECK(file.image().debug_symbols().empty());
}

TEST_CASE("debug information is opened when it is asked for, and again after it was closed") {
  const std::string bytes = stripped_elf({});
  Binary file(parse_image(bytes));
  CHECK_FALSE(file.has_opened_debug_info());
  const auto& info = file.debug_info();
  REQUIRE_FALSE(info);
  CHECK(info.error().message == "no debug information (.debug_info)");
  CHECK(file.has_opened_debug_info());
  file.close_debug_info();
  CHECK_FALSE(file.has_opened_debug_info());
  CHECK_FALSE(file.debug_info());
  CHECK(file.has_opened_debug_info());
}

} // namespace uprobectl::binary
