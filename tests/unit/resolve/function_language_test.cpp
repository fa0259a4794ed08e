// SPDX-License-Identifier: Apache-2.0
#include "function_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

constexpr std::string_view go_sections =
    "  - { Name: .gopclntab, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Size: 8 }\n";

std::string language(const CodeLibrary& library, std::string_view function) {
  const OpenLibrary opened(code_library(library));
  switch (opened.reader().language_of(opened.point(function))) {
  case CodeLanguage::go:
    return "go";
  case CodeLanguage::java:
    return "java";
  case CodeLanguage::cxx:
    return "cxx";
  case CodeLanguage::other:
    return "other";
  }
  return "";
}

StringLayout strings(const CodeLibrary& library) {
  return OpenLibrary(code_library(library)).reader().string_layout();
}

constexpr std::string_view libcxx_name =
    "_Z1fNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE";
constexpr std::string_view ndk_name =
    "_Z1fNSt6__ndk112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEE";
constexpr std::string_view libstdcxx_name =
    "_Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

} // namespace

TEST_CASE("functions of a Go program are Go's, but for the C code in it") {
  const std::string functions =
      function_symbol("main.main", 0, 0x10) + function_symbol("work", 0x10, 0x10) +
      function_symbol("work.part.0", 0x20, 0x10) + function_symbol("_Z3runi", 0x30, 0x10);
  const CodeLibrary pure{.symbols = functions, .sections = std::string(go_sections)};
  CHECK(language(pure, "main.main") == "go");
  CHECK(language(pure, "work") == "go"); // assembly of Go's runtime
  CHECK(language(pure, "vaddr:0x10100") == "go");

  CodeLibrary with_c = pure;
  with_c.symbols += function_symbol("x_cgo_init", 0x40, 0x10);
  CHECK(language(with_c, "main.main") == "go");
  CHECK(language(with_c, "work") == "other");
  CHECK(language(with_c, "work.part.0") == "other");
  CHECK(language(with_c, "x_cgo_init") == "other");
  CHECK(language(with_c, "_Z3runi") == "cxx");

  CodeLibrary without_tables = pure;
  without_tables.sections.clear();
  CHECK(language(without_tables, "main.main") == "other");
}

TEST_CASE("C++ and Rust are distinguished by mangled names") {
  const CodeLibrary library{.symbols = function_symbol("_ZN2ns3runEi", 0, 0x10) +
                                       function_symbol("_RNvC6detail3run", 0x10, 0x10) +
                                       function_symbol("_Rest", 0x20, 0x10) +
                                       function_symbol("c", 0x30, 0x10)};
  CHECK(language(library, "_ZN2ns3runEi") == "cxx");
  CHECK(language(library, "_RNvC6detail3run") == "cxx");
  CHECK(language(library, "_Rest") == "other");
  CHECK(language(library, "c") == "other");
}

TEST_CASE("a C name may be C++ code if the file needs a C++ runtime") {
  CodeLibrary library{.symbols = function_symbol("c", 0, 0x10)};
  for (const std::string needed : {"libstdc++.so.6", "libc++.so.1", "libc++_shared.so"}) {
    library.needed = {needed};
    CHECK(language(library, "c") == "cxx");
  }
  library.needed = {"libc.so.6"};
  CHECK(language(library, "c") == "other");
  library.imports = {"__gxx_personality_v0"};
  CHECK(language(library, "c") == "cxx");
  library.imports = {};
  library.symbols += function_symbol("__gxx_personality_v0", 0x10, 0x10);
  CHECK(language(library, "c") == "cxx");
}

TEST_CASE("the needed libraries determine the std::string layout") {
  CHECK(strings({.needed = {"libstdc++.so.6", "libc.so.6"}}) == StringLayout::libstdcxx);
  CHECK(strings({.needed = {"libc++.so", "libm.so"}}) == StringLayout::libcxx);
  CHECK(strings({.needed = {"libc++_shared.so"}}) == StringLayout::libcxx);
  CHECK(strings({.needed = {"libc++.so.1", "libstdc++.so.6"}}) == StringLayout::unknown);
  CHECK(strings({.needed = {"libstdc++.so.6"}, .imports = {std::string(libcxx_name)}}) ==
        StringLayout::libstdcxx);
}

TEST_CASE("without such a library symbol names determine the layout, .dynsym first") {
  CHECK(strings({}) == StringLayout::unknown);
  CHECK(strings({.imports = {std::string(libcxx_name)}}) == StringLayout::libcxx);
  CHECK(strings({.imports = {std::string(ndk_name)}}) == StringLayout::libcxx);
  CHECK(strings({.imports = {std::string(libstdcxx_name)}}) == StringLayout::libstdcxx);
  CHECK(strings({.imports = {std::string(libstdcxx_name), std::string(ndk_name)}}) ==
        StringLayout::unknown);
  CHECK(strings({.symbols = function_symbol(libcxx_name, 0, 0x10)}) == StringLayout::libcxx);
  CHECK(strings({.symbols = function_symbol(libcxx_name, 0, 0x10),
                 .imports = {std::string(libstdcxx_name)}}) == StringLayout::libstdcxx);
  CHECK(strings({.imports = {"St3__1"}}) == StringLayout::unknown); // no mangled name
}

} // namespace uprobectl::resolve
