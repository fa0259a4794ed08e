// SPDX-License-Identifier: Apache-2.0
#include "art/dex.hpp"
#include "art/name_mapping.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::art {

namespace {

using Texts = std::vector<std::string>;

std::shared_ptr<const NameMapping> mapping_of(std::string_view text) {
  auto mapping = NameMapping::parse(text, nullptr);
  REQUIRE(mapping);
  return *mapping;
}

Texts sources_of(const NameMapping& mapping, const Signature& in_file) {
  Texts texts;
  for (const Signature& source : mapping.in_source(in_file)) texts.push_back(to_string(source));
  return texts;
}

std::string error_of(std::string_view text) {
  const auto mapping = NameMapping::parse(text, nullptr);
  REQUIRE_FALSE(mapping);
  CHECK(mapping.error().kind == ErrorKind::corrupt);
  return mapping.error().message;
}

// As R8 8 writes it.
constexpr std::string_view till_names = R"(# compiler: R8
# {"id":"com.android.tools.r8.mapping","version":"2.2"}
org.shop.Till -> a.b:
# {"id":"sourceFile","fileName":"Till.kt"}
    java.lang.String label -> a
    1:4:void <init>():12:15 -> <init>
    1:1:int org.shop.Scale.weigh(int):30:30 -> a
    1:1:void add(int,org.shop.Item[]):21 -> a
    2:5:void add(int,org.shop.Item[]):22:25 -> a
    6:6:void add(long):27:27 -> a
    1:9:void print(org.shop.Item):31:39 -> b
      # {"id":"com.android.tools.r8.residualsignature","signature":"(La/c;I)Z"}
    10:12:void print(org.shop.Item):40:42 -> b
    1:3:int org.shop.Drawer.total():8:10 -> c
org.shop.Item -> a.c:
org.shop.Drawer -> R8$$REMOVED$$CLASS$$0:
org.shop.Scale -> a.d:
    # {'id':'com.android.tools.r8.synthesized'}
    0:65535:void tare():7:7 -> a
)";

} // namespace

TEST_CASE("a mapping has the names of classes in both directions") {
  const auto mapping = mapping_of(till_names);
  CHECK(mapping->class_in_file("org.shop.Till") == "a.b");
  CHECK(mapping->class_in_source("a.c") == "org.shop.Item");
  CHECK(mapping->class_in_file("org.shop.Other") == std::nullopt);
  CHECK(mapping->class_in_source("org.shop.Till") == std::nullopt);
}

TEST_CASE("overloads that share a name in the file are distinguished by their types") {
  const auto mapping = mapping_of(till_names);
  CHECK(sources_of(*mapping, {"void", "a.b", "a", {"int", "a.c[]"}}) ==
        Texts{"void org.shop.Till.add(int, org.shop.Item[])"});
  CHECK(sources_of(*mapping, {"void", "a.b", "a", {"long"}}) ==
        Texts{"void org.shop.Till.add(long)"});
  CHECK(sources_of(*mapping, {"void", "a.b", "<init>", {}}) ==
        Texts{"void org.shop.Till.<init>()"});
}

TEST_CASE("a residual signature states the types in the file, for all ranges of the method") {
  const auto mapping = mapping_of(till_names);
  CHECK(sources_of(*mapping, {"boolean", "a.b", "b", {"a.c", "int"}}) ==
        Texts{"void org.shop.Till.print(org.shop.Item)"});
  const auto renamed = mapping->renamed("org.shop.Till", "print");
  REQUIRE(renamed.size() == 1);
  CHECK(to_string(renamed.front().in_file) == "boolean a.b.b(a.c, int)");
}

TEST_CASE("a method without a line keeps its name and gets the types of the source") {
  const auto mapping = mapping_of(till_names);
  CHECK(sources_of(*mapping, {"a.c[][]", "a.b", "onCreate", {"a.d"}}) ==
        Texts{"org.shop.Item[][] org.shop.Till.onCreate(org.shop.Scale)"});
  CHECK(sources_of(*mapping, {"a.c", "x.Y", "z", {"int"}}) == Texts{"org.shop.Item x.Y.z(int)"});
}

TEST_CASE("a method is found in the class it was moved to and in those it is inlined into") {
  const auto mapping = mapping_of(till_names);
  CHECK(sources_of(*mapping, {"int", "a.b", "c", {}}) == Texts{"int org.shop.Drawer.total()"});
  const auto moved = mapping->moved_to("org.shop.Drawer", "total");
  REQUIRE(moved.size() == 1);
  CHECK(moved.front().class_name == "a.b");
  CHECK_FALSE(moved.front().inlined);
  const auto inlined = mapping->moved_to("org.shop.Scale", "weigh");
  REQUIRE(inlined.size() == 1);
  CHECK(inlined.front().inlined);
  CHECK(inlined.front().source == "org.shop.Till.add");
  CHECK(mapping->moved_to("org.shop.Till", "add").empty());
}

TEST_CASE("a method of the same class may be inlined") {
  const auto mapping = mapping_of("a.B -> c:\n"
                                  "    1:1:void helper():5:5 -> a\n"
                                  "    1:1:void run():9 -> a\n"
                                  "    2:2:void run():10:10 -> a\n");
  CHECK(sources_of(*mapping, {"void", "c", "a", {}}) == Texts{"void a.B.run()"});
  const auto moved = mapping->moved_to("a.B", "helper");
  REQUIRE(moved.size() == 1);
  CHECK(moved.front().source == "a.B.run");
}

TEST_CASE("of overloads with one name in the file, the method that has the inlined code is named") {
  const auto mapping = mapping_of("a.B -> c:\n"
                                  "    1:1:void alpha(int):5:5 -> a\n"
                                  "    2:2:void d.E.gone(int):33:33 -> a\n"
                                  "    2:2:void d.E.around():40:40 -> a\n"
                                  "    2:2:boolean beta(long):6 -> a\n"
                                  "    3:3:void d.E.gone(long):35:35 -> a\n"
                                  "    3:3:void alpha(int):8 -> a\n");
  const auto moved = mapping->moved_to("d.E", "gone");
  REQUIRE(moved.size() == 2);
  CHECK(moved[0].source == "a.B.beta");
  CHECK(moved[1].source == "a.B.alpha");
  const auto of_int = mapping->moved_to("d.E", "gone", [](const Signature& method) {
    return method.parameters == std::vector<std::string>{"int"};
  });
  REQUIRE(of_int.size() == 1);
  CHECK(of_int.front().source == "a.B.beta");
}

TEST_CASE("a class whose name looks like a method is not a location of its code") {
  const auto mapping = mapping_of("a.B -> c:\n"
                                  "x d.E.run() -> e:\n"
                                  "    1:2:void d.E.run():8:9 -> a\n");
  const auto moved = mapping->moved_to("d.E", "run");
  REQUIRE(moved.size() == 1);
  CHECK(moved.front().class_name == "e");
}

TEST_CASE("methods of the source that became one in the file are all named") {
  const auto mapping = mapping_of("a.B -> c:\n"
                                  "    1:2:void run():5:6 -> a\n"
                                  "    3:4:void d.E.run():8:9 -> a\n");
  CHECK(sources_of(*mapping, {"void", "c", "a", {}}) == Texts{"void a.B.run()", "void d.E.run()"});
}

TEST_CASE("an old mapping that does not state changed types is used if the name is clear") {
  const auto mapping = mapping_of("a.B -> c:\n"
                                  "    void run(d.Enum) -> a\n"
                                  "    void one(d.Enum) -> b\n"
                                  "    void two(d.Enum) -> b\n");
  CHECK(sources_of(*mapping, {"void", "c", "a", {"int"}}) == Texts{"void a.B.run(d.Enum)"});
  CHECK(sources_of(*mapping, {"void", "c", "a", {"int", "int"}}) == Texts{"void a.B.a(int, int)"});
  CHECK(sources_of(*mapping, {"void", "c", "b", {"int"}}) == Texts{"void a.B.b(int)"});
}

TEST_CASE("a mapping of Windows, with a byte order mark, is read") {
  const auto mapping = mapping_of("\xef\xbb\xbf"
                                  "a.B -> c:\r\n"
                                  "    int f() -> g\r\n");
  CHECK(mapping->class_in_file("a.B") == "c");
  CHECK(sources_of(*mapping, {"int", "c", "g", {}}) == Texts{"int a.B.f()"});
}

TEST_CASE("an invalid line of a mapping is an error with its number") {
  constexpr std::string_view what = "not a mapping file of R8 or ProGuard: ";
  CHECK(error_of("") == std::string(what) + "it has no classes");
  CHECK(error_of("# a comment\n") == std::string(what) + "it has no classes");
  CHECK(error_of("hello\n") == std::string(what) + "line 1 is not a class or a member");
  CHECK(error_of("a.B -> c\n") == std::string(what) + "line 1 is not a class or a member");
  CHECK(error_of("a.B -> :\n") == std::string(what) + "line 1 is not a class or a member");
  CHECK(error_of("    int a -> b\n") == std::string(what) + "line 1 is not in a class");
  for (const std::string_view member : {"int f() -> ", "int f(", "f() -> g", "1:2:int f():x -> g",
                                        "int f():1:2:3 -> g", "int  -> g"})
    CHECK(error_of("a.B -> c:\n    " + std::string(member) + "\n") ==
          std::string(what) + "line 2 is not a class or a member");
}

TEST_CASE("a mapping that ends anywhere is read or refused, and names stay within it") {
  for (std::size_t size = 0; size < till_names.size(); ++size) {
    const std::string part(till_names.substr(0, size));
    const auto mapping = NameMapping::parse(part, nullptr);
    if (!mapping) continue;
    CHECK((*mapping)->class_in_file("org.shop.Till") == "a.b");
    CHECK(sources_of(**mapping, {"void", "a.b", "q", {}}) == Texts{"void org.shop.Till.q()"});
  }
}

TEST_CASE("a class of too many lines is refused") {
  std::string text = "a.B -> c:\n";
  for (std::size_t i = 0; i <= NameMapping::max_class_lines; ++i) text += " int a -> b\n";
  CHECK(
      error_of(text) ==
      "not a mapping file of R8 or ProGuard: line 1048578 is in a class of more than 1048576 lines");
}

TEST_CASE("a method descriptor is converted to Java types") {
  const auto types = art::parse_descriptor("(I[[Lcom/foo/Bar;Z)[J");
  REQUIRE(types);
  CHECK(types->return_type == "long[]");
  CHECK(types->parameters == Texts{"int", "com.foo.Bar[][]", "boolean"});
  CHECK(art::parse_descriptor("()V")->return_type == "void");
  for (const std::string_view bad :
       {"", "(", "()", "(I", "(V)V", "()[V", "()VV", "(L;)V", "(La/b)V", "([)V", "(X)V", "I"})
    CHECK_FALSE(art::parse_descriptor(bad));
}

} // namespace uprobectl::art
