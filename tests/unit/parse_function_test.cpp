// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/resolve.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {
using Form = FunctionSpec::Form;
}

TEST_CASE("a plain name is a name, version included") {
  CHECK(parse_function("malloc")->name == "malloc");
  CHECK(parse_function("memcpy@@GLIBC_2.14")->name == "memcpy@@GLIBC_2.14");
  CHECK_FALSE(parse_function("malloc")->plus);
}

TEST_CASE("a number after the last plus is an offset into the function, decimal or hexadecimal") {
  const auto hex = parse_function("f@V+0x1F");
  REQUIRE(hex);
  CHECK(hex->name == "f@V");
  CHECK(hex->plus == 0x1f);
  CHECK(hex->request == "f@V+0x1F");
  CHECK(parse_function("f+16")->plus == 16);
  CHECK(parse_function("f+0")->plus == 0);
}

TEST_CASE("a plus that no number follows belongs to the name") {
  for (const auto* const text : {"operator+", "A::operator++", "f+", "f+ff", "f+0x", "+16"}) {
    CHECK(parse_function(text)->name == text);
    CHECK_FALSE(parse_function(text)->plus);
  }
  CHECK(parse_function("operator++4")->name == "operator+");
}

TEST_CASE("the three kinds of numbers are distinguished by their prefix") {
  CHECK(parse_function("vaddr:0x1139")->form == Form::virtual_address);
  CHECK(parse_function("offset:0x1139")->form == Form::image_offset);
  CHECK(parse_function("file-offset:0x1139")->form == Form::file_offset);
  CHECK(parse_function("file-offset:0x1139")->number == 0x1139);
  CHECK(parse_function("vaddr:0xffffffffffffffff")->number == UINT64_MAX);
}

TEST_CASE("an address without 0x is taken where it cannot be decimal") {
  CHECK(parse_function("vaddr:11ab")->number == 0x11ab);
  CHECK(parse_function("vaddr:0000000000001139")->number == 0x1139);
  CHECK(parse_function("vaddr:7")->number == 7);
  CHECK(parse_function("vaddr:1139").error().hints.at(0) ==
        "write vaddr:0x1139 for the hexadecimal one");
}

TEST_CASE("an invalid or too large number is a usage error") {
  for (const auto* const text : {"vaddr:", "offset:0x", "vaddr:12g", "vaddr:-1",
                                 "vaddr:0x10000000000000000", "f+18446744073709551616", ""})
    CHECK(parse_function(text).error().kind == ErrorKind::usage);
}

TEST_CASE("a PLT entry is named as typed or as shown") {
  for (const char* text : {"plt:free+0x6", "free@plt+6"}) {
    const auto spec = parse_function(text);
    REQUIRE(spec);
    CHECK(spec->form == FunctionSpec::Form::plt);
    CHECK(spec->name == "free");
    CHECK(spec->plus == 6);
  }
  CHECK(parse_function("plt:f@V1")->name == "f@V1");
  CHECK(parse_function("f@plt1")->form == FunctionSpec::Form::name);
  CHECK_FALSE(parse_function("plt:"));
  CHECK_FALSE(parse_function("@plt"));
}

TEST_CASE("a colon and a decimal number at the end mean a source line") {
  const auto line = parse_function("src/engine.cpp:20");
  REQUIRE(line);
  CHECK(line->form == Form::source_line);
  CHECK(line->name == "src/engine.cpp");
  CHECK(line->number == 20);
  CHECK(line->request == "src/engine.cpp:20");
  const auto relative = parse_function("ns::Foo::bar(int):+2");
  REQUIRE(relative);
  CHECK(relative->form == Form::function_line);
  CHECK(relative->name == "ns::Foo::bar(int)");
  CHECK(relative->number == 2);
  CHECK_FALSE(relative->plus);
  CHECK(parse_function("Foo::operator+:+0")->name == "Foo::operator+");
}

TEST_CASE("names with colons are not lines") {
  for (const auto* const text :
       {"ns::3", "libc.so.6:malloc", "plt:3", "a:", ":3", "::3", "a:0x10", "a:4294967296", "a:-1",
        "a:1 ", "foo::h0123456789abcdef", "-[Foo bar:]", "a:++1"}) {
    INFO(text);
    const auto function = parse_function(text);
    REQUIRE(function);
    CHECK((function->form == Form::name || function->form == Form::plt));
  }
  CHECK(parse_function("vaddr:7")->form == Form::virtual_address);
}
