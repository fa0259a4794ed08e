// SPDX-License-Identifier: Apache-2.0
#include "resolve/methods.hpp"
#include "uprobectl/resolve.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

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
