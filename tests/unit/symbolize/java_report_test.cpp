// SPDX-License-Identifier: Apache-2.0
#include "symbolize/java_report.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace uprobectl::symbolize {

using symbolize::read_java_classes;
using symbolize::read_java_frame;

namespace {

using Texts = std::vector<std::string>;

art::Texts names_of(std::string_view line) {
  art::Texts texts;
  for (const JavaClassName& each : read_java_classes(line)) texts.emplace_back(each.name);
  return texts;
}

} // namespace

TEST_CASE("a frame of a stack trace has a class, a method, a file and a line") {
  const auto frame = read_java_frame("\tat a.b.c(SourceFile:12)");
  REQUIRE(frame);
  CHECK(frame->function == "a.b.c");
  CHECK(frame->class_name() == "a.b");
  CHECK(frame->method() == "c");
  CHECK(frame->source == "SourceFile");
  CHECK(frame->line == 12U);
  CHECK(frame->column == 1);
}

TEST_CASE("frames in logcat and of native, unknown and hidden source lines are read") {
  const auto logged = read_java_frame("11-25 03:01:00.123 10159 26250 26363 E AndroidRuntime: "
                                      "\tat com.foo.Bar$Inner.<init>(Unknown Source:4)");
  REQUIRE(logged);
  CHECK(logged->class_name() == "com.foo.Bar$Inner");
  CHECK(logged->method() == "<init>");
  CHECK(logged->source == "Unknown Source");
  CHECK(logged->line == 4U);
  const auto native = read_java_frame("  at java.lang.Object.wait(Native method)");
  REQUIRE(native);
  CHECK(native->source == "Native method");
  CHECK_FALSE(native->line);
  const auto hidden = read_java_frame("  at a.a(:7)");
  REQUIRE(hidden);
  CHECK(hidden->source.empty());
  CHECK(hidden->line == 7U);
}

TEST_CASE("a file may have blanks, colons and parentheses") {
  const auto frame = read_java_frame("\tat a.b(:com.google.gms@20.39.15 (060808-33):46)");
  REQUIRE(frame);
  CHECK(frame->source == ":com.google.gms@20.39.15 (060808-33)");
  CHECK(frame->line == 46U);
}

TEST_CASE("modules and class loaders before the class, and archives after it, are left out") {
  const auto frame = read_java_frame("\tat app//core@9.0/a.b.c(B.java:1) ~[core.jar:1.0]");
  REQUIRE(frame);
  CHECK(frame->function == "a.b.c");
  CHECK(frame->source == "B.java");
  CHECK(read_java_frame("\tat java.base/java.lang.Thread.run(Thread.java:840)"));
}

TEST_CASE("other lines are not frames of Java") {
  for (const char* line :
       {"", "at", "at ", "\tat c(X:1)", "\tat a.(X:1)", "\tat .a(X:1)", "\tat a.b.c", "\tat a.b.c(",
        "look at a.b (which is here)", "that a.b.c(X:1)", "\tat a.b.c(X:1) and more",
        "\tat \"a.b\"(X:1)", "    shop_bake at ./shop.cpp:12", "... 42 more"})
    CHECK_FALSE(read_java_frame(line));
}

TEST_CASE("an exception stands at the start, after a colon or the name of a thread") {
  CHECK(names_of("a.b: no coins") == art::Texts{"a.b"});
  CHECK(names_of("a.b") == art::Texts{"a.b"});
  CHECK(names_of("Caused by: a.b: no coins: never") == art::Texts{"a.b"});
  CHECK(names_of("Exception in thread \"main\" a.b.c: x") == art::Texts{"a.b.c"});
  CHECK(names_of("E AndroidRuntime: java.lang.RuntimeException: Unable to start {x.y}: a.b: x") ==
        art::Texts{"java.lang.RuntimeException", "a.b"});
  CHECK(names_of("nothing of that kind here").empty());
}

TEST_CASE("a word without dots is a class only where an exception stands") {
  CHECK(names_of("Caused by: a: x") == art::Texts{"a"});
  CHECK(names_of("E AndroidRuntime: a: x") == art::Texts{"a"});
  CHECK(names_of("a: x") == art::Texts{"a"});
  CHECK(names_of("E Shop: status: a: x").empty());
}

TEST_CASE("classes of monitors and circular references are read") {
  const auto locked = read_java_classes("  - locked <0x0a1b2c3d> (a a.b$c)");
  REQUIRE(locked.size() == 1);
  CHECK(locked.front().name == "a.b$c");
  CHECK(locked.front().column == 27);
  CHECK_FALSE(locked.front().is_thrown);
  CHECK(names_of("  - waiting to lock <0x0a1b2c3d> (a a.b) held by thread 5") == art::Texts{"a.b"});
  CHECK(names_of("\t[CIRCULAR REFERENCE: a.b: x]").empty());
  CHECK(names_of("\t[CIRCULAR REFERENCE: a.b]") == art::Texts{"a.b"});
}

TEST_CASE("a line has at most 16 names of classes") {
  std::string line;
  for (int i = 0; i < 100; ++i) line += "a.b: ";
  CHECK(read_java_classes(line).size() == 16);
  CHECK(read_java_classes(std::string(60000, ':')).empty());
}

} // namespace uprobectl::symbolize
