// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/resolve.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

using Form = FunctionSpec::Form;

std::string split_text(std::string_view word, bool is_static_probe = false) {
  const auto split = split_target(word, is_static_probe);
  if (!split) return split.error().message;
  return fmt::format("{} | {}", split->target.empty() ? "-" : split->target, split->function);
}

} // namespace

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

TEST_CASE("a file, library or program before a single colon is the TARGET of the FUNCTION") {
  CHECK(split_text("libssl.so.3:SSL_write") == "libssl.so.3 | SSL_write");
  CHECK(split_text("app:main") == "app | main");
  CHECK(split_text("./app:ns::Foo::bar(int)") == "./app | ns::Foo::bar(int)");
  CHECK(split_text("base.apk!/lib/*/libfoo.so:Java_*") == "base.apk!/lib/*/libfoo.so | Java_*");
  CHECK(split_text("*:malloc") == "* | malloc");
  CHECK(split_text("app:src/util.c:20") == "app | src/util.c:20");
  CHECK(split_text("app:work:+2") == "app | work:+2");
  CHECK(split_text("libfoo.so:plt:free") == "libfoo.so | plt:free");
  CHECK(split_text("libfoo.so:file-offset:0x10") == "libfoo.so | file-offset:0x10");
  CHECK(split_text("libfoo.so:helper@util.c+4") == "libfoo.so | helper@util.c+4");
  CHECK(split_text("/opt/a(1)/libfoo.so:f(int)") == "/opt/a(1)/libfoo.so | f(int)");
  CHECK(split_text("/opt/a(1/libfoo.so:f") == "/opt/a(1/libfoo.so | f");
}

TEST_CASE("colons of other notations separate no TARGET") {
  for (const char* word : {"main",
                           "ns::f",
                           "ns::Foo::bar(std::string)",
                           "-[Shop buy:count:]",
                           "+[Shop(Extra) of:]",
                           "find(key:in:)",
                           "[[:alpha:]]*",
                           "plt:free",
                           "vaddr:0x10",
                           "offset:0x10",
                           "file-offset:0x10",
                           "util.c:20",
                           "src/util.c:20",
                           "work:+3",
                           "ns::work:+3",
                           "C:/src/util.c:20",
                           "C:\\src\\util.c:20",
                           "type:.eq.main.T",
                           "go:main.inittasks",
                           ":f",
                           "helper@util.c",
                           "memcpy@@GLIBC_2.14",
                           "void com.foo.Bar.baz(int)"})
    CHECK(split_text(word) == fmt::format("- | {}", word));
}

TEST_CASE("what follows a TARGET is not split again") {
  CHECK(split_text("./app:type:.eq.main.T") == "./app | type:.eq.main.T");
  CHECK(split_text("./app:a:b") == "./app | a:b");
  CHECK(split_text("libfoo.so:::f") == "libfoo.so | ::f");
  CHECK(split_text("app:-[Shop buy:count:]") == "app | -[Shop buy:count:]");
}

TEST_CASE("a TARGET before a static probe needs a colon of its own") {
  CHECK(split_text("shop:sold", true) == "- | shop:sold");
  CHECK(split_text("shop:*", true) == "- | shop:*");
  CHECK(split_text("shop", true) == "- | shop");
  CHECK(split_text("libshop.so:shop:sold", true) == "libshop.so | shop:sold");
  CHECK(split_text("postgres:postgresql:query-start", true) == "postgres | postgresql:query-start");
  CHECK(split_text("libshop.so:shop", true) == "libshop.so | shop");
  CHECK(split_text("./app:plt:start", true) == "./app | plt:start");
}

TEST_CASE("a FUNCTION must follow the TARGET") {
  CHECK(split_text("libfoo.so:") ==
        "'libfoo.so:': a FUNCTION is missing after the TARGET 'libfoo.so'");
}

TEST_CASE("a function is written so that the same command means it again") {
  CHECK(word_of({"./app", "main"}, "./app") == "main");
  CHECK(word_of({"libfoo.so", "main"}, "./app") == "libfoo.so:main");
  CHECK(word_of({"./app", "type:.eq.main.T"}, "./app") == "type:.eq.main.T");
  CHECK(word_of({"./app", "a:b"}, "./app") == "./app:a:b");
  CHECK(word_of({"./app", "shop:sold"}, "./app", true) == "shop:sold");
  CHECK(word_of({"libshop.so", "shop:sold"}, "./app", true) == "libshop.so:shop:sold");
}

TEST_CASE("a range of lines is not a FUNCTION of a TARGET") {
  CHECK(split_text("util.c:10-40") == "- | util.c:10-40");
  CHECK(split_text("util.c:10-") == "- | util.c:10-");
  CHECK(split_text("util.c:-40") == "- | util.c:-40");
  CHECK(split_text("./app:util.c:10-40") == "./app | util.c:10-40");
  CHECK(split_text("shop:-") == "shop | -");
  CHECK(split_text("shop:1-2-3") == "shop | 1-2-3");
  CHECK(split_text("shop:-[Till open]") == "shop | -[Till open]");
}

TEST_CASE("an error says how a name with a colon was read, unless it was surely a file") {
  const auto hints = [](ErrorKind kind, const TargetedFunction& named, bool is_static = false) {
    return explain_target({kind, "no"}, named, "./app", is_static).hints;
  };
  using Hints = std::vector<std::string>;
  CHECK(hints(ErrorKind::not_found, {"a", "b"}) ==
        Hints{"'a:b' is taken for a function of the TARGET 'a'; one of './app' with this name is "
              "'./app:a:b'"});
  CHECK(hints(ErrorKind::not_found, {"a", "b:c"}, true) ==
        Hints{"'a:b:c' is taken for a static probe of the TARGET 'a'; one of './app' with this "
              "name is './app:a:b:c'"});
  CHECK(hints(ErrorKind::not_found, {"./app", "b"}).empty());
  CHECK(hints(ErrorKind::not_found, {"./other", "b"}).empty());
  CHECK(hints(ErrorKind::not_found, {"libfoo.so.1", "b"}).empty());
  CHECK(hints(ErrorKind::ambiguous, {"a", "b"}).empty());
}

} // namespace uprobectl::resolve
