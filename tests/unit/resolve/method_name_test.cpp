// SPDX-License-Identifier: Apache-2.0
#include "resolve/methods.hpp"
#include "uprobectl/resolve.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

TEST_CASE("a method's name is taken apart") {
  const auto bare = parse_method_name("com.foo.Bar.baz");
  REQUIRE(bare);
  CHECK(bare->class_name == "com.foo.Bar");
  CHECK(bare->name == "baz");
  CHECK(bare->return_type.empty());
  CHECK_FALSE(bare->parameters);

  const auto full = parse_method_name("byte[] com.foo.Bar$1.<init>( int,java.lang.String[] )");
  REQUIRE(full);
  CHECK(full->return_type == "byte[]");
  CHECK(full->class_name == "com.foo.Bar$1");
  CHECK(full->name == "<init>");
  REQUIRE(full->parameters);
  CHECK(*full->parameters == std::vector<std::string_view>{"int", "java.lang.String[]"});

  CHECK(parse_method_name("a.b()")->parameters->empty());
  CHECK_FALSE(parse_method_name("baz"));
  CHECK_FALSE(parse_method_name(".baz"));
  CHECK_FALSE(parse_method_name("a.b(int"));
  CHECK_FALSE(parse_method_name("com.foo."));
}

TEST_CASE("a line of a stack trace is a method without types") {
  const auto frame = parse_method_name("at com.foo.Bar.baz(Bar.java:20)");
  REQUIRE(frame);
  CHECK(frame->return_type.empty());
  CHECK(frame->class_name == "com.foo.Bar");
  CHECK_FALSE(frame->parameters);
  CHECK(parse_method_name("at com.foo.Bar.baz(int)")->return_type == "at");
}

TEST_CASE("a method without types is named as the symbols of OAT files name it") {
  CHECK(untyped_method_name("Lcom/foo/Bar;->baz") == "com.foo.Bar.baz");
  CHECK(untyped_method_name("com.foo.Bar#baz") == "com.foo.Bar.baz");
  CHECK(untyped_method_name("com.foo.Bar.baz(Bar.java:20)") == "com.foo.Bar.baz");
  CHECK_FALSE(untyped_method_name("com.foo.Bar.baz(int)"));
  CHECK_FALSE(untyped_method_name("int com.foo.Bar.baz"));
  CHECK_FALSE(untyped_method_name("baz"));
}

TEST_CASE("parameters and return type must match if given") {
  const art::Signature signature{
      .return_type = "void", .class_name = "a.B", .name = "c", .parameters = {"int", "a.B$Inner"}};
  CHECK(to_string(signature) == "void a.B.c(int, a.B$Inner)");
  CHECK(has_signature(signature, *parse_method_name("a.B.c")));
  CHECK(has_signature(signature, *parse_method_name("a.B.c(int, a.B$Inner)")));
  CHECK(has_signature(signature, *parse_method_name("void a.B.c(int,a.B.Inner)")));
  CHECK_FALSE(has_signature(signature, *parse_method_name("int a.B.c")));
  CHECK_FALSE(has_signature(signature, *parse_method_name("a.B.c(int)")));
  CHECK_FALSE(has_signature(signature, *parse_method_name("a.B.c()")));
}

TEST_CASE("a pattern is matched against every form of a method's name") {
  constexpr std::string_view signature = "void a.B.c(byte[], int)";
  CHECK(matches_method("a.B.*", signature));
  CHECK(matches_method("a.B.c", signature));
  CHECK(matches_method("*.c(byte[], *)", signature));
  CHECK(matches_method("void *", signature));
  CHECK_FALSE(matches_method("int *", signature));
  CHECK_FALSE(matches_method("a.B", signature));
  CHECK(matches_method("a.[BC].c", signature));
  CHECK(is_method_pattern("a.[BC].c"));
  CHECK(is_method_pattern("a.B.c(byte[], *)"));
  CHECK_FALSE(is_method_pattern("void a.B.c(byte[], int[][])"));
}

TEST_CASE("the notations of smali and Javadoc are those of Java") {
  CHECK(usual_method_name("Lcom/foo/Bar;->baz(I)V") == "void com.foo.Bar.baz(int)");
  CHECK(usual_method_name("Lcom/foo/Bar$1;-><init>([J[Lcom/foo/Baz;)V") ==
        "void com.foo.Bar$1.<init>(long[], com.foo.Baz[])");
  CHECK(usual_method_name("Lcom/foo/Bar;->baz") == "com.foo.Bar.baz");
  CHECK(usual_method_name("Lcom/foo/Bar$$ExternalSyntheticLambda0;->run()V") ==
        "void com.foo.Bar$$ExternalSyntheticLambda0.run()");
  CHECK(usual_method_name("Lcom/foo/Bar;->baz(I[J)") == "com.foo.Bar.baz(int, long[])");
  CHECK(usual_method_name("Lcom/foo/*;->baz(*)") == "Lcom/foo/*;->baz(*)");
  CHECK(usual_method_name("com/foo/Bar.baz") == "com.foo.Bar.baz");
  CHECK(usual_method_name("com.foo.Bar#baz") == "com.foo.Bar.baz");
  CHECK(usual_method_name("com.foo.Bar#baz(int)") == "com.foo.Bar.baz(int)");
  CHECK(usual_method_name("#baz") == "#baz");
  CHECK(usual_method_name("f(a#b)") == "f(a#b)");
  CHECK(usual_method_name("Lcom/foo/Bar;->baz(Q)V") == "Lcom/foo/Bar;->baz(Q)V");
  CHECK(matches_method("Lcom/foo/*;->baz", "void com.foo.Bar.baz()"));
}

TEST_CASE("names that compilers make are methods like others") {
  const auto synthetic = parse_method_name("void com.foo.Bar.<init>(com.foo.Bar-IA)");
  REQUIRE(synthetic);
  CHECK(*synthetic->parameters == std::vector<std::string_view>{"com.foo.Bar-IA"});
  CHECK(parse_method_name("com.foo.Bar$-CC.$default$baz")->name == "$default$baz");
  CHECK(parse_method_name("com.foo.Bar.baz$default")->name == "baz$default");
}

TEST_CASE("a frame of a stack trace has no parameters") {
  CHECK_FALSE(parse_method_name("com.foo.Bar.baz(Bar.java:20)")->parameters);
  CHECK_FALSE(parse_method_name("com.foo.Bar.baz(Native Method)")->parameters);
  CHECK_FALSE(parse_method_name("com.foo.Bar.baz(Unknown Source:4)")->parameters);
}

TEST_CASE("methods that a compiler derives from another one are known by their names") {
  CHECK(derivation("baz", "baz") == Derivation::none);
  CHECK(derivation("baz", "bazaar") == Derivation::none);
  CHECK(derivation("baz", "baz-IoAF18A") == Derivation::renamed);
  CHECK(derivation("baz", "baz$app_release") == Derivation::renamed);
  for (const std::string_view separate :
       {"baz$default", "baz$lambda$0", "baz$suspendImpl", "lambda$baz$12", "access$baz",
        "-$$Nest$mbaz", "-$$Nest$smbaz", "baz$1"})
    CHECK(derivation("baz", separate) == Derivation::separate);
  CHECK(derivation("baz", "lambda$bazaar$1") == Derivation::none);
}

} // namespace uprobectl::resolve
